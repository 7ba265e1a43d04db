"""tfc_run ps, and stop and rm of several jobs: what each column says, and which jobs are chosen."""
import json

import clients_test
import harness


class PsTest(clients_test.ClientsTest):
    names = "ab"

    def node(self, name, *args):
        return super().node(name, "--label", f"where={name}", "--slots", "8", "--memory", str(3 << 29),
                            *args)

    def rows(self, *args, at="a", status=0):
        """{name: {column: cell}} of what ps lists; the cells of all columns but the last have no spaces."""
        run = self.ask("ps", *args, at=at)
        self.assertEqual(run.status, status, run.err)
        head, *lines = run.lines()
        names = head.split()
        cells = [line.split(None, len(names) - 1) for line in lines]
        return {row[1]: dict(zip(names, row)) for row in cells}

    def end_job(self, script, name, *args, at="a"):
        job = self.start_job(script, "--name", name, *args, at=at)
        self.ask("attach", job)
        return job

    def test_exit_duration_and_reason_say_how_a_job_stands(self):
        self.end_job("exit 3", "failed", "--restart-on", "never")
        self.end_job("kill -9 $$", "killed", "--restart", "0")
        self.end_job("exit 0", "done")
        self.start_job("true", "--name", "large", "--worker", "50")
        self.start_job("true", "--name", "nowhere", "--label", "where=c")
        running = self.start_job("exec sleep 100", "--name", "running")
        self.await_ready(running)
        stopped = self.start_job("exec sleep 100", "--name", "stopped")
        self.await_ready(stopped)
        self.ask("stop", "--wait", stopped)
        for at in "ab":
            rows = self.rows("--all", at=at)
            self.assertEqual({name: row["EXIT"] for name, row in rows.items()},
                             {"failed": "3", "killed": "137", "done": "0", "large": "-", "nowhere": "-",
                              "running": "-", "stopped": "143"})
            self.assertEqual({name: row["DURATION"][-1] for name, row in rows.items()},
                             {"failed": "s", "killed": "s", "done": "s", "large": "-", "nowhere": "-",
                              "running": "s", "stopped": "s"})
            self.assertEqual({rows[name]["REASON"] for name in ("done", "running")}, {"-"})
            self.assertEqual(rows["failed"]["REASON"], "worker/0 exited with 3")
            self.assertRegex(rows["killed"]["REASON"], "^worker/0 died of SIGKILL")
            self.assertRegex(rows["large"]["REASON"], "^50 slots are needed")
            self.assertRegex(rows["nowhere"]["REASON"], 'label "where=c"')
            self.assertEqual((rows["large"]["STATE"], rows["large"]["READY"]), ("pending", "0/50"))

    def test_a_group_that_restarts_because_of_one_death_counts_once(self):
        job = self.start_job("[ $TFC_ATTEMPT$TFC_TASK_INDEX != 11 ] || kill -9 $$; exec sleep 100", "--worker", "4",
                             "--scope", "group", "--name", "group")
        harness.wait_until(lambda: self.describe(job)["generation"] == 2, "the next generation")
        self.await_ready(job, 4)
        self.assertEqual(self.rows()["group"]["RESTARTS"], "1")
        described = self.describe(job, at="b")
        self.assertEqual((described["incidents"], described["restarts"]), (1, 4))
        alone = self.start_job("[ $TFC_TASK_INDEX$TFC_ATTEMPT -gt 2 ] || kill -9 $$; exec sleep 100", "--worker", "3",
                               "--scope", "task", "--name", "alone")
        harness.wait_until(lambda: self.describe(alone)["tasks"][0]["attempt"] == 3, "the third attempt")
        self.assertEqual(self.rows(at="b")["alone"]["RESTARTS"], "2")
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.nodes["a"] = self.node("a")
        harness.wait_until(lambda: self.describe(job)["generation"] == 3, "the generation after the node's restart")
        self.await_ready(job, 4)
        self.assertEqual(self.rows()["group"]["RESTARTS"], "2")

    def test_members_shows_memory_in_units_for_people(self):
        head, *lines = self.ask("members").lines()
        self.assertIn("MEMORY", head.split())
        for line in lines:
            self.assertIn("  1.5GiB  ", line)
        self.assertEqual({member["memory"] for member in json.loads(self.ask("members", "--json").out)}, {3 << 29})

    def test_states_names_and_ids_are_chosen(self):
        jobs = {name: self.end_job(f"exit {status}", name, "--restart-on", "never")
                for name, status in (("one-good", 0), ("two-good", 0), ("one-bad", 1))}
        jobs["one-long"] = self.start_job("exec sleep 100", "--name", "one-long")
        self.await_ready(jobs["one-long"])
        for args, names in (([], ["one-long"]),
                            (["-a"], list(jobs)),
                            (["--state", "succeeded"], ["one-good", "two-good"]),
                            (["--state", "failed", "--state", "running"], ["one-bad", "one-long"]),
                            (["--all", "--state", "failed"], ["one-bad"]),
                            (["--name", "one-*"], ["one-long"]),
                            (["-a", "--name", "one-*"], ["one-good", "one-bad", "one-long"]),
                            (["--state", "succeeded", "--name", "t??-good"], ["two-good"]),
                            (["-a", "--name", "one"], [])):
            with self.subTest(args=args):
                self.assertEqual(list(self.rows(*args)), names)
                ids = [jobs[name] for name in names]
                self.assertEqual(self.ask("ps", "-q", *args, at="b").lines(), ids)
                self.assertEqual([job["job"] for job in json.loads(self.ask("ps", "--json", *args).out)], ids)
        self.assertEqual(self.ask("ps", "-aq").lines(), list(jobs.values()))
        self.assert_said(self.ask("ps", "--state", "faild"), "--state faild: must be pending, .* or damaged$")
        self.assert_said(self.ask("ps", "-q", "--json"), "--quiet and --json exclude each other")
        self.assert_said(self.ask("ps", "-ax"), 'unknown option "-ax"')

    def test_a_node_that_does_not_answer_is_named_and_the_status_is_1(self):
        job = self.start_job("exec sleep 100", "--label", "where=a", "--name", "here")
        self.await_ready(job)
        self.assertEqual(self.ask("ps").errors(), [])
        self.nodes["b"].process.kill()
        self.nodes["b"].end()
        harness.wait_until(lambda: self.ask("ps").errors(), "what is missing")
        for form in ([], ["-q"], ["--json"]):
            run = self.ask("ps", *form)
            self.assertEqual(run.status, 1)
            self.assertEqual(len(run.errors()), 1)
            self.assertRegex(run.errors()[0], "^tfc_run: cannot list the jobs of node b: .+$")
            self.assertIn(job.encode(), run.out)
        listed, = json.loads(run.out)
        self.assertEqual((listed["job"], listed["task_count"], listed["nodes"]), (job, 1, ["a"]))

    def test_several_jobs_are_stopped_and_removed_and_a_failure_ends_nothing(self):
        jobs = [self.start_job("exec sleep 100", "--name", f"job-{at}", at=at) for at in "ab"]
        ended = self.end_job("exit 0", "ended")
        for job in jobs:
            self.await_ready(job)
        run = self.ask("stop", "--wait", "job-a", "nobody", ended, jobs[1])
        self.assertEqual((run.status, run.lines()), (125, jobs))
        self.assertEqual(run.errors(), ['tfc_run: job "nobody" not found; "tfc_run ps --all" lists all jobs',
                                        f"tfc_run: job {ended} has ended"])
        self.assertEqual({self.describe(job)["state"] for job in jobs}, {"stopped"})
        run = self.ask("stop", "--wait", ended, *jobs)
        self.assertEqual((run.status, run.lines()), (0, jobs))
        running = self.start_job("exec sleep 100")
        self.await_ready(running)
        run = self.ask("rm", "job-a", running, ended, jobs[1], at="b")
        self.assertEqual((run.status, run.lines()), (125, [jobs[0], ended, jobs[1]]))
        self.assertEqual(run.errors(), [f"tfc_run: job {running} has not ended; stop it first"])
        self.assertEqual(self.ask("ps", "-aq").lines(), [running])
        for command in ("stop", "rm"):
            self.assertIn(f"usage: tfc_run {command} [--gateway G] JOB...", self.ask(command).err.decode())

    def test_a_job_that_several_words_mean_is_stopped_or_removed_once(self):
        old, new = (self.end_job("exit 0", "twin") for _ in range(2))
        run = self.ask("rm", "twin", new, "twin", new[:15])
        self.assertEqual((run.status, run.lines(), run.errors()), (0, [new], []))
        self.assertEqual(self.ask("ps", "-aq").lines(), [old])
        running = self.start_job("exec sleep 100", "--name", "twin")
        self.await_ready(running)
        run = self.ask("stop", "--wait", "twin", running, "twin")
        self.assertEqual((run.status, run.lines(), run.errors()), (0, [running], []))
        run = self.ask("rm", "twin", old, "twin", old)
        self.assertEqual((run.status, run.lines(), run.errors()), (0, [running, old], []))


if __name__ == "__main__":
    harness.main()
