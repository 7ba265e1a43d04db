"""The contexts of tfc_run's clients: which gateway and key a command uses, and what is wrong with the file."""
import json
import os

import clients_test
import harness


class ContextsTest(clients_test.ClientsTest):
    """Node a, and a file of contexts in the test's own HOME."""

    def setUp(self):
        super().setUp()
        self.env.pop("TFC_GATEWAY", None)
        self.env.pop("XDG_CONFIG_HOME", None)
        self.path = os.path.join(self.dir, ".config/tfcluster/config.json")
        os.makedirs(os.path.dirname(self.path))
        self.run_bare("keygen", ".config/tfcluster/other.key")
        os.link(os.path.join(self.dir, "key"), os.path.join(os.path.dirname(self.path), "a.key"))

    def config(self, value):
        with open(self.path, "w") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))

    def contexts(self, default=None, **more):
        contexts = {"here": {"gateway": f"unix:{self.dir}/state-a/node.sock"},
                    "tcp": {"gateway": self.address[0], "key": "a.key"},
                    "keyless": {"gateway": self.address[0]},
                    "other": {"gateway": self.address[0], "key": "other.key"},
                    "nowhere": {"gateway": f"unix:{self.dir}/nowhere.sock"}}
        self.config(dict({"default": default} if default else {}, contexts=contexts, **more))

    def reached(self, *args, **env):
        """Whether `members` with these options reached node a; else its message."""
        return self.result("members", *args, **env)

    def result(self, *args, **env):
        run = harness.Run([*args], dict(self.env, **env), self.dir)
        self.runs.append(run)
        run.end()
        if run.status == 0:
            self.assertRegex(run.out, rb"(?m)^a +alive ")
            return True
        self.assertEqual((run.status, run.out, len(run.errors())), (125, b"", 1))
        return run.errors()[0].removeprefix("tfc_run: ")

    def test_a_context_has_the_gateway_and_the_key(self):
        self.contexts()
        for context in "here", "tcp":
            for args in (["members", "--context", context], ["members", f"--context={context}"],
                         ["--context", context, "members"], [f"--context={context}", "members"]):
                self.assertIs(self.result(*args), True, args)
        self.assertIn("nowhere.sock", self.reached("--context", "nowhere"))
        self.assertIsNot(self.reached("--context", "other"), True)

    def test_without_one_the_default_context_is_used(self):
        self.contexts("tcp")
        self.assertIs(self.reached(), True)
        self.assertIs(self.reached(XDG_CONFIG_HOME="relative, and therefore ignored"), True)
        self.contexts("nowhere")
        self.assertIn("nowhere.sock", self.reached())
        self.assertIs(self.reached("--context", "tcp"), True)
        self.contexts()  # no default: this machine's node, as without the file
        self.assertIn("node.sock", self.reached(XDG_STATE_HOME=f"{self.dir}/no-state"))

    def test_before_the_command_it_is_an_option_of_the_command(self):
        self.contexts("nowhere")
        self.assertIs(self.result(f"--gateway=unix:{self.dir}/state-a/node.sock", "members"), True)
        self.assertEqual(self.result("--contxt", "here", "members"), 'unknown option "--contxt"; did you mean --context?')
        self.assertIn("command missing", self.result("--context", "here"))
        self.assertIn("command missing", self.result("--context"))
        self.assertEqual(self.result("--context", "here", "membrs"), 'unknown command "membrs"; did you mean members?')
        self.assertIn('unknown option "--context"', self.result("--context", "here", "keygen", "members"))

    def test_xdg_config_home(self):
        self.contexts("tcp")
        os.rename(os.path.join(self.dir, ".config"), os.path.join(self.dir, "elsewhere"))
        self.assertIs(self.reached(XDG_CONFIG_HOME=f"{self.dir}/elsewhere"), True)

    def test_options_precede_a_named_context_then_the_environment_then_the_default(self):
        self.contexts("nowhere")
        here, nowhere = f"unix:{self.dir}/state-a/node.sock", f"unix:{self.dir}/other.sock"
        self.assertIs(self.reached(TFC_GATEWAY=here), True)
        self.assertIs(self.reached("--gateway", here, TFC_GATEWAY=nowhere), True)
        self.assertIs(self.reached("--gateway", here, "--context", "nowhere"), True)
        self.assertIs(self.reached("--context", "here", TFC_GATEWAY=nowhere), True)
        self.assertIn("other.sock", self.reached(TFC_GATEWAY=nowhere))
        right, wrong = f"{self.dir}/key", f"{self.dir}/.config/tfcluster/other.key"
        self.assertIs(self.reached("--context", "tcp", TFC_KEY=wrong), True)
        self.assertIs(self.reached("--context", "other", "--key", right), True)
        self.assertIs(self.reached("--context", "keyless", TFC_KEY=right), True)
        self.contexts("other")
        self.assertIs(self.reached(TFC_KEY=right), True)
        self.contexts("tcp")
        self.assertIsNot(self.reached(TFC_KEY=wrong), True)
        # the default context's key belongs to its gateway
        self.assertIsNot(self.reached("--gateway", self.address[0]), True)
        self.assertIsNot(self.reached(TFC_GATEWAY=self.address[0]), True)

    def test_the_file_is_not_read_without_need(self):
        self.config("{")
        here = f"unix:{self.dir}/state-a/node.sock"
        self.assertIs(self.reached("--gateway", here), True)
        self.assertIs(self.reached(TFC_GATEWAY=here), True)

    def test_each_mistake_gets_file_line_and_key(self):
        for text, message in (
                ("{", ":1: string or '}' expected near end of file"),
                ("", ":1: '[' or '{' expected near end of file"),
                ("[]", ":1: must be an object"),
                ('{"default": "lab"}', ':1: default: context "lab" not found'),
                ('{\n"default": ["lab"]}', ":2: default: must be a text that is not empty"),
                ('{\n\n"contxts": {}}', ":3: contxts: unknown key; did you mean contexts?"),
                ('{"contexts": {},\n"zzzzzzzz": 1}', ":2: zzzzzzzz: unknown key"),
                ('{"contexts":\n[]}', ":1: contexts: must be an object"),
                ('{"contexts": {\n"a": "unix:x"}}', ":2: contexts.a: must be an object"),
                ('{"contexts": {"b": {"gateway": "unix:b"},\n"a": {}}}', ":2: contexts.a: has no gateway"),
                ('{"contexts": {"b":\n{"gatway": "unix:b"}}}', ":2: contexts.b.gatway: unknown key; did you mean gateway?"),
                ('{"contexts": {"b": {\n"key": "unix:b"}}}', ":1: contexts.b: has no gateway"),
                ('{"contexts": {"a": {"gateway": "key",\n"key": "gatewy",\n"gatewy": "x"}}}',
                 ":3: contexts.a.gatewy: unknown key; did you mean gateway?"),
                ('{"contexts": {"a": {"gateway": "key",\n"key" :\n""}}}',
                 ":2: contexts.a.key: must be a text that is not empty"),
                ('{"contexts": {"a": {"gateway": 7}}}', ":1: contexts.a.gateway: must be a text that is not empty"),
                ('{"contexts": {},\n"contexts": {}}', ":2: duplicate object key near '\"contexts\"'")):
            with self.subTest(text=text):
                self.config(text)
                self.assertEqual(self.reached(), self.path + message)

    def test_a_context_that_is_not_there(self):
        self.contexts()
        self.assertEqual(self.reached("--context", "tpc"), f'context "tpc" not found in "{self.path}"; did you mean tcp?')
        self.assertEqual(self.reached("--context", "zzzzzzzz"), f'context "zzzzzzzz" not found in "{self.path}"')
        os.remove(self.path)
        self.assertEqual(self.reached("--context", "tcp"), f'context "tcp" not found: cannot open "{self.path}": '
                         "No such file or directory")
        os.mkdir(self.path)
        self.assertEqual(self.reached("--context", "tcp"), f'cannot open "{self.path}": Is a directory')
        os.rmdir(self.path)
        os.mkfifo(self.path)
        self.assertEqual(self.reached("--context", "tcp"), f'"{self.path}" is not a regular file')

    def test_contexts_are_completed(self):
        self.contexts()
        run = self.run_bare("--complete", "ps", "--context", "")
        self.assertEqual([line.rstrip("\t") for line in run.lines()], ["here", "tcp", "keyless", "other", "nowhere"])
        self.assertEqual(self.run_bare("--complete", "ps", "--context=no").lines(), ["--context=nowhere\t"])
        run = self.run_bare("--complete", "drain", "--context", "tcp", "")
        self.assertEqual(run.lines(), ["a\talive"])


if __name__ == "__main__":
    harness.main()
