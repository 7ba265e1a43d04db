"""tfc_run --complete and completion: what a shell offers for a command line, and that it is all that the
help has."""
import json
import re

import clients_test
import harness

OPERANDS = {"node": 0, "ps": 0, "attach": 1, "keygen": 1}  # how many; of others two words may follow


class CompletionTest(harness.RunTest):
    def candidates(self, *words):
        """What can stand in place of the last word."""
        run = self.run_bare("--complete", *words)
        self.assertEqual((run.status, run.err), (0, b""))
        return [line.split("\t")[0] for line in run.lines()]

    def commands(self):
        return re.findall(r"\n  ([a-z]+)  ", self.run_bare("--help").out.decode())

    def test_the_first_word_is_a_command(self):
        commands = self.commands()
        self.assertIn("completion", commands)
        self.assertEqual(self.candidates(), commands)
        self.assertEqual(self.candidates(""), commands)
        self.assertEqual(self.candidates("st"), ["start", "stacks", "stop"])
        self.assertEqual(self.candidates("frobnicate"), [])
        self.assertEqual(self.candidates("frobnicate", ""), [])

    def test_options_of_the_gateway_may_come_first(self):
        self.assertEqual(self.candidates("--c"), ["--context"])
        self.assertEqual(self.candidates("--key="), ["file"])
        self.assertEqual(self.candidates("--key", ""), ["file"])
        self.assertEqual(self.candidates("--key", "x", "--gateway=y", "st"), ["start", "stacks", "stop"])
        self.assertEqual(self.candidates("--gateway", "ps", "dr"), ["drain"])
        self.assertEqual(self.candidates("--gateway=y", "--key", "x", "ps", "--al"), ["--all"])

    def test_each_option_that_the_help_has_is_offered(self):
        for command in self.commands():
            with self.subTest(command=command):
                text = self.run_bare(command, "--help").out.decode()
                names = re.findall(r"^  (?:-\w, )?(--[a-z-]+) ", text, re.M)
                self.assertIn("--version", names)
                self.assertEqual(self.candidates(command, "--"), names)
                for name in names:
                    self.assertIn(name, self.candidates(command, name[:-1]))
                letters = re.findall(r"^  (-\w), --", text, re.M)
                for letter in letters:
                    self.assertIn(letter, self.candidates(command, "-"))

    def test_the_values_that_are_offered_are_those_that_are_accepted(self):
        seen = 0
        for command in self.commands():
            for name in self.candidates(command, "--"):
                values = self.candidates(command, f"{name}=")
                if not values or values in (["file"], ["directory"]):
                    continue
                with self.subTest(command=command, option=name):
                    self.assertEqual([f"{name}={value}" for value in self.candidates(command, name, "")], values)
                    values = [value.removeprefix(f"{name}=") for value in values]
                    self.assertEqual(self.candidates(command, name, values[-1][:1]),
                                     [value for value in values if value[0] == values[-1][0]])
                    run = self.run_bare(command, name, "no-such", *["a", "b"][:OPERANDS.get(command, 2)])
                    self.assertEqual(run.status, 125)
                    listed = " or ".join([", ".join(values[:-1])] * (len(values) > 1) + values[-1:])
                    expected = f'(must be|use|is neither) "?{listed}"?[,\n]'
                    self.assertRegex(run.err.decode().replace(" nor ", " or "), expected)
                    seen += 1
        self.assertGreaterEqual(seen, 19)

    def test_files_directories_and_programs_are_those_of_the_shell(self):
        for words, expected in (
                (["local", "--job", ""], "file"), (["local", "--job="], "file"),
                (["local", "--log-dir", "x"], "directory"), (["start", "--key=x"], "file"),
                (["keygen", ""], "file"), (["local", ""], "command"), (["start", "--worker", "2", "p"], "command"),
                (["local", "--", "-"], "command"), (["local", "python3", "--"], "file"),
                (["local", "--chief", "--", "python3", ""], "file")):
            with self.subTest(words=words):
                self.assertEqual(self.candidates(*words), [expected])

    def test_options_are_offered_where_no_word_can_follow(self):
        self.assertIn("--all", self.candidates("ps", ""))
        self.assertIn("--role", self.candidates("keygen", "key", ""))
        self.assertEqual(self.candidates("ps", "x"), [])

    def test_a_value_is_not_taken_for_an_option(self):
        self.assertEqual(self.candidates("local", "--env", "--w"), [])
        self.assertEqual(self.candidates("local", "--worker=", "--wor"), ["--worker"])
        self.assertEqual(self.candidates("local", "--no-such=", "--wor"), ["--worker"])
        self.assertEqual(self.candidates("local", "--no-such="), [])
        self.assertEqual(self.candidates("local", "--chief="), [])

    def test_the_scripts_are_printed(self):
        for shell, word in (("bash", b"complete -F"), ("zsh", b"#compdef tfc_run"), ("fish", b"complete -c tfc_run")):
            run = self.run_bare("completion", shell)
            self.assertEqual((run.status, run.err), (0, b""))
            self.assertIn(word, run.out)
        self.assertEqual(self.candidates("completion", ""), ["bash", "zsh", "fish"])
        self.assert_refused(self.run_bare("completion", "csh"),
                            'unknown shell "csh"; there are scripts for bash, zsh and fish')
        self.assertEqual(self.run_bare("completion").status, 125)


class GatewayTest(clients_test.ClientsTest):
    """What only a node knows."""

    def candidates(self, command, *words, at="a"):
        run = self.run_bare("--complete", command, *self.gateway(at), *words)
        self.assertEqual((run.status, run.err), (0, b""))
        return [line.split("\t")[0] for line in run.lines()]

    def test_a_name_that_a_shell_would_run_is_not_offered(self):
        for name in "x;touch y", "x$(touch y)", "x`touch y`", "x y", "x'y", "--all":
            job = self.start_job("sleep 60", f"--name={name}")
            self.assertEqual(self.candidates("stop", ""), [job])
            self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_jobs_tasks_and_nodes(self):
        running = self.start_job("sleep 60", "--name", "runs", "--worker", "2")
        ended = self.start_job("true", "--name", "done")
        self.assertEqual(self.ask("attach", ended).status, 0)
        nameless = self.start_job("sleep 60")
        self.await_ready(running, 2)
        self.await_ready(nameless)
        every = {"runs", "done", running, ended, nameless}
        for command in "attach", "describe", "logs", "spec":
            self.assertEqual(set(self.candidates(command, "")), every)
        self.assertEqual(set(self.candidates("stop", "")), every - {"done", ended})
        self.assertEqual(set(self.candidates("rm", "")), {"done", ended})
        self.assertEqual(self.candidates("rm", "do"), ["done"])
        self.assertIn(running, self.candidates("stop", running[:4]))
        self.assertEqual(self.candidates("logs", "runs", ""), ["worker/0", "worker/1"])
        self.assertEqual(self.candidates("spec", running, "--format", "env", "worker/1"), ["worker/1"])
        self.assertEqual(self.candidates("drain", ""), ["a"])
        run = self.run_bare("--complete", "logs", *self.gateway("a"), "")
        self.assertIn(f"runs\trunning, {running}", run.lines())
        self.assertEqual([line for line in run.lines() if line.startswith(nameless)], [f"{nameless}\trunning"])
        for job in running, nameless:
            self.assertEqual(self.ask("stop", job, "--wait").status, 0)

    def test_without_a_node_there_are_none(self):
        run = self.run_bare("--complete", "stop", "--gateway", "unix:/no/such", "")
        self.assertEqual((run.status, run.out), (0, b""))


if __name__ == "__main__":
    harness.main()
