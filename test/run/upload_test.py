"""tfc_run start --bundle: the program comes from where the command is given."""
import os
import shutil
import signal
import time

import clients_test
import harness

PIECES = 16 << 20  # bytes that go to the node in many pieces


class UploadTest(clients_test.ClientsTest):
    def program(self, script, size=0):
        """A directory with a script and so many bytes of data."""
        os.makedirs(os.path.join(self.dir, "program"), exist_ok=True)
        self.write("program/main.sh", script)
        with open(os.path.join(self.dir, "program", "data"), "wb") as file:
            file.write(os.urandom(size))

    def begin_start(self, *args, **options):
        return self.begin("start", "--framework", "none", "--bundle", "program", *args, "--",
                          "/bin/sh", "main.sh", **options)

    def cached(self, part):
        return [name for name in os.listdir(f"{self.dir}/state-a/bundles") if part in name]

    def kill_node(self):
        self.nodes["a"].process.kill()
        self.nodes["a"].end()

    def test_a_directory_of_ours_is_each_task_s(self):
        self.program("cat data | wc -c; ls", 1000)
        for _ in range(2):
            run = self.begin_start("--no-prefix", "--quiet").end()
            self.assertEqual(run.status, 0, run.err)
            self.assertEqual(run.lines()[1:], ["1000", "data", "main.sh"])
            self.assertEqual(len(self.cached(".zip")), 1)
        self.assertEqual(len(os.listdir(self.tmp)), 1)  # the node's

    def test_what_cannot_be_packed_is_said(self):
        self.assert_said(self.begin("start", "--bundle", "nowhere", "true").end(), "nowhere")
        self.write("program.zip", "#!/bin/sh\n")
        self.assert_said(self.begin("start", "--bundle", "program.zip", "true").end(),
                         "program.zip: not a zip archive")
        self.assertEqual(self.ask("ps", "--all").lines()[1:], [])

    def test_a_terminal_shows_how_far_it_has_come(self):
        self.program("echo done", PIECES)
        begun = time.monotonic()
        self.nodes["a"].process.send_signal(signal.SIGSTOP)
        run = self.begin_start(on_terminal=True)
        harness.wait_until(lambda: time.monotonic() > begun + 1.5, "a time that is worth a word")
        self.nodes["a"].process.send_signal(signal.SIGCONT)
        run.end()
        self.assertEqual(run.status, 0)
        self.assertRegex(run.out.decode(),
                         r"\rtfc_run: sending the bundle: [0-9.]+ of 16\.8 MB ")
        self.assertRegex(run.out.decode(), r"\r\x1b\[K[0-9a-f]{16}\r\n")

    def test_a_node_that_is_killed_on_the_way_gets_it_when_it_is_back(self):
        self.program("wc -c < data", PIECES)
        run = self.begin_start("--no-prefix")
        harness.wait_until(lambda: self.cached("-") or self.cached(".zip"), "a bundle that comes")
        self.kill_node()
        self.nodes["a"] = self.node("a")
        run.end()
        self.assertEqual(run.status, 0, run.err)
        self.assertEqual(run.lines()[1:], [str(PIECES)])
        self.assertEqual(len(self.cached(".zip")), 1)
        self.assertEqual(self.cached("-"), [])
        self.assertEqual(len(os.listdir(self.tmp)), 1)  # the node's

    def test_a_job_that_goes_on_needs_its_source_no_more(self):
        self.program('echo "attempt $TFC_ATTEMPT"; [ $TFC_ATTEMPT = 2 ] || exec sleep 100')
        run = self.begin_start("--no-prefix")
        run.await_output("attempt 1")
        shutil.rmtree(os.path.join(self.dir, "program"))
        self.kill_node()
        self.nodes["a"] = self.node("a")
        run.end()
        self.assertEqual(run.status, 0, run.err)
        self.assertEqual(run.lines()[-1], "attempt 2")


if __name__ == "__main__":
    harness.main()
