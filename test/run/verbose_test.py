"""What the library logs for those who want to know what happened: tfc_run node --verbose."""
import os

import clients_test
import harness


class VerboseTest(clients_test.ClientsTest):
    names = "ab"

    def node(self, name, *args):
        return super().node(name, "--verbose", "--lease", "1", *args)

    def await_log(self, name, *patterns):
        for pattern in patterns:
            self.nodes[name].await_output(f"(?m)^\\S+ tfc_run: {pattern}$", "err")

    def test_a_lost_node_its_tasks_and_a_resumed_job(self):
        job = self.start_job("sleep 600", "--worker", "2", "--restart", "5")
        self.await_ready(job, 2)
        self.nodes["b"].process.kill()
        self.await_log("a", "b: is down", f"{job}: node b has been unreachable since .+", f"{job}: lost 1 task: node b: .+")
        self.nodes["a"].process.kill()
        self.nodes["a"].end()
        self.nodes["a"] = self.node("a")
        self.await_log("a", f"{job}: resumed in epoch 2; the job was (running|restarting|starting)")
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_node_that_was_never_up_is_not_down(self):
        for node in self.nodes.values():
            node.process.terminate()
            node.end()
        self.nodes["a"] = self.node("a")
        self.await_log("a", "b: has not been reached yet")
        self.nodes["b"] = self.node("b")
        self.await_log("a", "b: is alive")
        self.assertNotIn(b"b: is down", self.nodes["a"].err)

    def test_a_node_that_drops_out_for_a_moment_loses_its_tasks(self):
        job = self.start_job("sleep 600", "--worker", "2", "--restart", "5")
        self.await_ready(job, 2)
        self.nodes["b"].process.kill()
        self.nodes["b"].end()
        self.nodes["b"] = self.node("b")
        self.await_log("a", f"{job}: lost 1 task: node b: .+", "b: is alive")
        self.assertEqual(self.ask("stop", job, "--kill", "--wait").status, 0)

    def test_a_refused_node(self):
        os.rename(self.write_members("abc"), os.path.join(self.dir, "mine.json"))
        self.write_members("ab")
        self.start_bare(*self.node_args("c", "--members", "mine.json"))
        self.await_log("a", 'c: refused the node at \\S+: node "c" is not in the members file of node "a"; '
                       "use the same name in all members files")

    def test_without_it_only_warnings_are_logged(self):
        self.nodes["a"].process.terminate()
        self.nodes["a"].end()
        run = super().node("a")
        self.await_state(run, "b", "alive")
        self.assertNotIn(b"b: is alive", run.err)
        self.await_log("b", "a: is alive")


if __name__ == "__main__":
    harness.main()
