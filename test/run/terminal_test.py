"""No control character from outside reaches a terminal, whatever a gateway, a file, a name or an argument says."""
import json
import os
import pathlib
import re
import sys

import harness

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
from played_gateway import PlayedGateway, pack  # noqa: E402

# Changes the title, the color, and the order of letters, as C0 and as C1; then a line that is not ours.
HOSTILE = "x\x1b]0;t\x07\x9b31m\x85\x7f\u202e\u2066\u061c\nFORGED y\r"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

END = {"a": 1, "st": 1, "n": HOSTILE, "s": 7, "r": 1, "x": HOSTILE}
TASK = {"tt": HOSTILE, "ti": 0, "n": HOSTILE, "ad": HOSTILE, "p": 7, "a": 1, "s": 4, "ac": HOSTILE, "end": END}
BOARD = dict(TASK, tt="tensorboard", s=5)
LISTED = {"job": HOSTILE, "name": HOSTILE, "state": 3, "maintainer": HOSTILE, "text": HOSTILE, "generation": 1,
          "epoch": 1, "age_ms": 1000, "nodes": [HOSTILE], "task_count": 2, "ready": 1, "restarts": 0}
ZYGOTE = {"n": HOSTILE, "i": HOSTILE, "m": [HOSTILE, HOSTILE], "s": 3, "x": HOSTILE, "at": 1}
JOB = dict(LISTED, tasks=[TASK, BOARD], zygotes=[ZYGOTE])
DAMAGED = {"job": HOSTILE, "name": HOSTILE, "state": 9, "maintainer": HOSTILE, "text": HOSTILE}
MEMBER = {"name": HOSTILE, "state": 1, "address": HOSTILE, "labels": [f"{HOSTILE}={HOSTILE}"]}
EVENTS = [
    {"k": 1, "ts": 1, "js": 2, "g": 1, "e": 1, "x": HOSTILE},
    {"k": 2, "ts": 1, "tt": HOSTILE, "ti": 0, "a": 2, "s": 4, "n": HOSTILE, "ad": HOSTILE},
    {"k": 3, "ts": 1, "tt": HOSTILE, "ti": 0, "a": 2, "d": "a task's own line\n", "mn": 1,
     "ln": b"\x98\x02\1\0\1\0", "mc": "1", "mt": 0},
    {"k": 4, "ts": 1, "tt": HOSTILE, "ti": 0, "a": 2, "f": 1, "dl": 9, "x": HOSTILE},
    {"k": 2, "ts": 1, "tt": HOSTILE, "ti": 0, "a": 2, "s": 7, "r": 1, "st": 1, "n": HOSTILE, "x": HOSTILE},
    {"k": 5, "ts": 1, "js": 7, "r": 1, "st": 1, "tt": HOSTILE, "a": 2, "x": HOSTILE, "lt": ["a line"]},
]


def as_json(value):
    return json.dumps(value, ensure_ascii=False)


class TerminalTest(harness.RunTest):
    def assert_harmless(self, run, *words):
        for name in ("out", "err"):
            text = getattr(run, name).decode()
            found = CONTROLS.search(text)
            self.assertFalse(found, f"{found and found.group()!r} in {name}: {text!r}")
            self.assertFalse(re.search("^FORGED", text, re.M), text)
        said = (run.out + run.err).decode()
        for word in words:
            self.assertIn(word.lower(), said.lower())

    def play(self, answers):
        gateway = PlayedGateway(os.path.join(self.dir, "gateway.sock"), answers)
        self.addCleanup(gateway.close)
        return gateway

    def ask(self, command, *args):
        return self.run_bare(command, "--gateway", f"unix:{self.dir}/gateway.sock", *args)

    def on_terminal(self, columns, *args):
        command = " ".join([harness.TFC_RUN, args[0], "--gateway", f"unix:{self.dir}/gateway.sock", *args[1:]])
        run = harness.Run(["-c", f"stty cols {columns}; exec {command}"], self.env, self.dir, on_terminal=True,
                          program="/bin/sh")
        self.runs.append(run)
        return run.end().out.decode()

    def test_the_responses_of_a_gateway(self):
        self.play({
            "gateway.jobs": pack({"jobs": [LISTED, DAMAGED], "not_asked": [{"node": HOSTILE, "reason": HOSTILE}]}),
            "gateway.describe": pack(JOB),
            "gateway.members": pack({"members": [MEMBER]}),
            "gateway.spec": as_json({"cluster": {"worker": [HOSTILE]}}) + "\nA=" + HOSTILE.replace("\n", ""),
            "gateway.hello": {"node_id": "ab" * 16, "name": HOSTILE},
            "gateway.submit": "0123456789abcdef",
            "gateway.subscribe": [[{"job": HOSTILE, "name": HOSTILE, "tag": ""}, *EVENTS]],
        })
        for args in (["ps", "--all"], ["ps", "--all", "--json"], ["describe", "j"], ["describe", "j", "--json"],
                     ["members"], ["members", "--json"], ["spec", "j", "worker/0"], ["attach", "j"],
                     ["spec", "j", "worker/0", "--format", "env"], ["attach", "--json", "j"],
                     ["start", "--", "true"], ["start", "--json", "--", "true"], ["logs", "j"]):
            with self.subTest(args):
                self.assert_harmless(self.ask(*args), "x\\u001b]0;t\\u0007\\u009b31m\\u0085\\u007f\\u202e")

    def test_the_reason_in_ps_ends_at_the_terminals_edge(self):
        reason = "the reason in full: " + "é" * 280
        job = dict(LISTED, job="0123456789abcdef", name="digits", text=reason, nodes=["a"])
        self.play({"gateway.jobs": pack({"jobs": [job], "not_asked": []})})
        # at 70 columns too little room is left: the row takes two lines
        for columns, width in ((200, 200), (120, 120), (70, 140)):
            head, row = self.on_terminal(columns, "ps").splitlines()
            self.assertEqual((len(row), row[-3:]), (width, "..."))
            self.assertEqual(row[head.index("REASON"):][:20], reason[:20])
        self.assertTrue(self.ask("ps").out.decode().endswith(reason + "\n"))

    def test_the_state_in_describe_and_the_labels_in_members_end_there_too(self):
        doing = "what it does: " + "é" * 280
        task = dict(TASK, tt="worker", n="a", ad="", ac=doing)
        member = {"name": "a", "state": 1, "address": "tcp://a:1", "labels": ["what=" + "l" * 280]}
        self.play({"gateway.describe": pack(dict(LISTED, text="", name="", tasks=[task])),
                   "gateway.members": pack({"members": [member]})})
        for args, head, text in ((["describe", "j"], "STATE", "running: " + doing), (["members"], "LABELS", "what=l")):
            lines = self.on_terminal(160, *args).splitlines()
            number, at = next((i, line.index(head)) for i, line in enumerate(lines) if head in line)
            row = lines[number + 1]
            self.assertEqual((len(row), row[-3:]), (160, "..."))
            self.assertEqual(row[at:][:6], text[:6])
            self.assertIn(text, self.ask(*args).out.decode())

    def test_json_of_a_gateways_response_keeps_its_values(self):
        self.play({"gateway.describe": pack(JOB), "gateway.members": pack({"members": [MEMBER]}),
                   "gateway.jobs": pack({"jobs": [LISTED], "not_asked": []})})
        job = json.loads(self.ask("describe", "j", "--json").out)
        self.assertEqual({job[key] for key in ("job", "name", "maintainer", "text")}, {HOSTILE})
        task = job["tasks"][0]
        self.assertEqual(task["task"], HOSTILE + "/0")
        self.assertEqual({task["node"], task["address"], task["doing"], task["last_end"]["text"]}, {HOSTILE})
        zygote, = job["zygotes"]
        self.assertEqual({zygote["node"], zygote["interpreter"], *zygote["modules"], zygote["text"]}, {HOSTILE})
        member, = json.loads(self.ask("members", "--json").out)
        self.assertEqual((member["name"], member["labels"]), (HOSTILE, {HOSTILE: HOSTILE}))
        listed, = json.loads(self.ask("ps", "--all", "--json").out)
        self.assertEqual((listed["job"], listed["nodes"]), (HOSTILE, [HOSTILE]))

    def test_why_a_gateway_refuses(self):
        why = Exception(HOSTILE)
        self.play({"gateway.hello": {"node_id": "ab" * 16, "name": "n"},
                   **{f"gateway.{verb}": why for verb in ("jobs", "describe", "members", "spec", "submit", "subscribe",
                                                          "stop", "forget", "drain")}})
        for args in (["ps"], ["describe", "j"], ["members"], ["spec", "j", "worker/0"], ["start", "--", "true"],
                     ["attach", "j"], ["stop", "j"], ["rm", "j"], ["drain", "n"]):
            with self.subTest(args):
                self.assert_harmless(self.ask(*args), "31m")

    def test_what_is_given_on_the_command_line_and_in_files(self):
        word = HOSTILE
        self.write("job.json", as_json({"name": "n", word: 1}))
        self.write("node.json", as_json({word: 1}))
        for args in (["local", "--name", word, "--", "true"], ["local", "--" + word], [word],
                     ["local", "--", word], ["local", "--framework", "none", "--cwd", "/" + word, "--", "true"],
                     ["local", "--bundle", "/" + word, "--", "true"], ["local", "--job", word],
                     ["local", "--label", "k=" + word, "--", "true"], ["local", "--worker", word, "--", "true"],
                     ["local", "--env", word, "--", "true"], ["local", "--upstream", word, "--", "true"],
                     ["local", "--job", "job.json"], ["node", "--config", "node.json"], ["node", "--config", word],
                     ["node", "--name", word, "--state", "s"], ["node", "--members", word, "--state", "s"],
                     ["node", "--label", "k=" + word, "--state", "s"], ["ps", "--gateway", word], ["ps", word],
                     ["ps", "--gateway", "unix:/" + word], ["keygen", word, "--role", word], ["describe"]):
            with self.subTest(args):
                self.assert_harmless(self.run_bare(*args))

    def test_a_plan(self):
        args = ("--explain", "--framework", "none", "--env", f"A={HOSTILE}", "--", "echo", HOSTILE, "it's")
        run = self.run_local(*args)
        self.assert_harmless(run, r"$'x\u001b]0;t\u0007\u009b31m\u0085\u007f\u202e\u2066\u061c\nFORGED y\r'")
        self.assertIn("'it'\\''s'", run.out.decode())
        run = self.run_local("--json", *args)
        self.assert_harmless(run)
        self.assertEqual(run.events()[0]["argv"], ["echo", HOSTILE, "it's"])
        self.assertEqual(run.events()[0]["env"]["A"], HOSTILE)

    def test_a_program_under_a_strange_name(self):
        """What a task is doing is shown with the name of a program that it has started."""
        program = self.write("x\x1b[31m", "#!/bin/sh\nwhile :; do :; done\n", 0o755)
        run = self.run_local("--start-deadline", "2", "--grace", "1", "--", "/bin/sh", "-c", '"$0"; :', program)
        self.assert_harmless(run, "(x\\u001b[31m, pid ")
        self.assertEqual(run.status, 124)

    def test_the_lines_of_a_task_are_what_they_are(self):
        run = self.run_local("--framework", "none", "--", "printf", "\\033[31mred\\033[0m\\n")
        self.assertEqual(run.out, b"[worker/0] \x1b[31mred\x1b[0m\n")
        run = self.run_local("--json", "--framework", "none", "--", "printf", "\\302\\23331m\\177\\n")
        self.assert_harmless(run, "\\u009b31m\\u007f")
        self.assertEqual([e["text"] for e in run.events() if e["event"] == "output"], ["\x9b31m\x7f"])


if __name__ == "__main__":
    harness.main()
