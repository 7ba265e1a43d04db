"""Reports: what a task writes to TFC_REPORT_FD is printed with --json, and only then."""
import collections
import json

import clients_test
import harness

BOTH = ('i=0; while [ $i -lt 200 ]; do echo out $i; echo "{\\"step\\": $i}" >&$TFC_REPORT_FD; i=$((i+1)); done; '
        'printf "50%%\\r100%%" >&$TFC_REPORT_FD; [ $TFC_ATTEMPT = 2 ] || kill -9 $$')
REPORTS = [f'{{"step": {i}}}' for i in range(200)] + ["50%\r100%"]
OUTPUT = [f"out {i}" for i in range(200)]


def lines(run, kind):
    """The texts of this kind of event, by task and attempt. None comes behind the attempt's end."""
    found = collections.defaultdict(list)
    ended = set()
    for event in run.events():
        where = event.get("task"), event.get("attempt")
        if event["event"] == kind:
            assert where not in ended, event
            assert event["cursor"] and event["time"]
            found[where].append(event["text"])
        if event["event"] == "task" and event["state"] in ("failed", "exited"):
            ended.add(where)
    return found


class LocalTest(harness.RunTest):
    def test_json_has_the_reports_of_a_task_that_is_killed(self):
        run = self.run_local("--json", "--reports", "--framework", "none", "--", "sh", "-c", BOTH)
        self.assertEqual(run.status, 0)
        self.assertEqual(lines(run, "report"), {("worker/0", 1): REPORTS, ("worker/0", 2): REPORTS})
        self.assertEqual(lines(run, "output"), {("worker/0", 1): OUTPUT, ("worker/0", 2): OUTPUT})
        report = next(event for event in run.events() if event["event"] == "report")
        self.assertEqual(list(report), ["time", "event", "task", "attempt", "text", "cursor"])

    def test_people_see_none(self):
        run = self.run_local("--reports", "--framework", "none", "--restart", "0", "--", "sh", "-c",
                             "echo out; echo report >&4; exit 3")
        self.assertEqual(run.lines(), ["[worker/0] out"])
        self.assertNotIn(b"report", run.err)
        self.assertEqual(run.status, 3)

    def test_a_job_without_reports_has_no_descriptor(self):
        run = self.run_local("--json", "--framework", "none", "--", "sh", "-c",
                             "echo ${TFC_REPORT_FD-none}; [ -e /proc/$$/fd/4 ] || echo no descriptor")
        self.assertEqual(lines(run, "output"), {("worker/0", 1): ["none", "no descriptor"]})
        self.assertFalse(lines(run, "report"))

    def test_reports_are_signs_of_life(self):
        run = self.run_local("--json", "--reports", "--framework", "none", "--stall", "1.8", "--", "sh",
                             "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.25; echo $i >&4; done")
        self.assertEqual([event for event in run.events() if event.get("reason") == "stalled"], [])
        self.assertEqual(lines(run, "report"), {("worker/0", 1): list("12345678")})

    def test_the_library_sets_the_variable(self):
        job = self.job_file(framework="none", reports=True, env={"TFC_REPORT_FD": "1"},
                            argv=["sh", "-c", "echo $TFC_REPORT_FD"], roles={"worker": {}})
        self.assertEqual(self.run_local("--job", job).lines(), ["[worker/0] 4"])


class NodesTest(clients_test.ClientsTest):
    """One worker on each node; the other node is asked, which passes the request on."""
    names = "ab"

    def test_every_node_has_the_reports_now_and_later(self):
        job = self.start_job(BOTH, "--worker", "2", "--reports", at="a")
        whole = {(f"worker/{i}", attempt): REPORTS for i in (0, 1) for attempt in (1, 2)}
        for command in ("attach", "logs"):
            for at in self.names:
                run = self.ask(command, job, "--json", at=at)
                self.assertEqual(lines(run, "report"), whole, (command, at))
                self.assertEqual({task: len(texts) for task, texts in lines(run, "output").items()},
                                 {task: 200 for task in whole})
        self.assertEqual({task["node"] for task in self.describe(job)["tasks"]}, {"a", "b"})
        run = self.ask("logs", job, at="b")
        self.assertEqual(len(run.lines()), 4 * 200)
        self.assertNotIn(b"step", run.out)

    def test_a_cursor_of_a_report_is_good_on_every_node(self):
        job = self.start_job(BOTH, "--worker", "2", "--reports", at="a")
        events = self.ask("attach", job, "--json", at="a").events()
        number, report = [(i, event) for i, event in enumerate(events) if event["event"] == "report"][150]
        behind = [event for event in events[number + 1:] if event["event"] in ("report", "output")]
        for at in self.names:
            run = self.ask("logs", job, "--json", "--since", report["cursor"], at=at)
            told = [event for event in run.events() if event["event"] in ("report", "output")]
            order = [(event["task"], event["event"], event["text"]) for event in told]
            self.assertEqual(sorted(order), sorted((event["task"], event["event"], event["text"])
                                                   for event in behind))

    def test_tail_keeps_reports_whole(self):
        job = self.start_job(BOTH, "--reports", at="a")
        self.ask("attach", job)
        last = self.ask("logs", job, "--json", "--tail", "2").lines()
        self.assertEqual(json.loads(last[-1])["text"], "50%\r100%")


if __name__ == "__main__":
    harness.main()
