"""Submits to three hosts, one of which is killed, stopped or cut off while they are under way. The
referee counts: one submit is one job, one client key is one job, over the stores of all hosts.

TFC_CAMPAIGN is how many times as long it takes, TFC_CAMPAIGN_SEED which of them it is."""
import json
import os
import random
import signal
import sys
import time
import unittest

import fleet
import client_keys

ROUNDS = int(24 * float(os.environ.get("TFC_CAMPAIGN", "1")))
SEED = int(os.environ.get("TFC_CAMPAIGN_SEED", time.time_ns() % 1000000000))


class SubmitTest(fleet.FleetTest):
    # -- what is done to a node while it may be the home

    def kill(self, node):
        node.kill()
        return node.start

    def stop(self, node):
        node.kill(signal.SIGSTOP)
        return lambda: node.kill(signal.SIGCONT)

    def cut(self, node):
        self.net.cut(node.host)
        return lambda: self.net.heal(node.host)

    def reset(self, node):
        for other in self.nodes:
            node.host.break_connections(other.host)
        return lambda: None

    # -- a round

    def submit(self, host, nodes, name):
        return host.start(
            [fleet.TFC_RUN, "start", "--detach", "--gateway",
             ",".join(node.address for node in nodes), "--key", self.key, "--framework", "none",
             "--name", name, "--", "/bin/true"], stdout=-1, stderr=-1, env=dict(os.environ,
                                                                               TMPDIR=self.dir))

    def jobs_named(self, name):
        found = {}

        def listed():
            status, out, err = self.nodes[0].run("ps", "--all", "--json")
            found["jobs"] = {each["job"] for each in json.loads(out) if each["name"] == name} \
                if status == 0 and not err else None
            return found["jobs"] is not None
        self.wait_until(listed, "a list of all jobs")
        return found["jobs"]

    def play(self, number):
        dice = random.Random(f"{SEED}/{number}")
        nodes = dice.sample(self.nodes, 3)
        how = dice.choice([self.kill, self.kill, self.stop, self.cut, self.reset])
        host, delay, lasting = dice.choice(self.net.hosts), dice.uniform(0, 0.08), dice.uniform(0, 0.7)
        if how == self.cut:  # who is cut off itself asks nobody
            host = nodes[1].host
        what = f"seed {SEED}, round {number}: {how.__name__} {nodes[0].name} after {delay:.3f} s"
        client = self.submit(host, nodes, f"submit-{number}")
        time.sleep(delay)  # the moment is what is tested
        undo = how(nodes[0])
        time.sleep(lasting)
        undo()
        out, err = client.communicate(timeout=60)
        for node in self.nodes:
            self.await_members(node, {each.name: "alive" for each in self.nodes}, 60)
        jobs = self.jobs_named(f"submit-{number}")
        if client.returncode == 125 and b"cannot reach a gateway" in err:
            self.assertEqual(jobs, set(), what)
        else:
            self.assertEqual((client.returncode, jobs), (0, {out.decode().strip()}),
                             f"{what}: {err.decode()}")
        return len(jobs)

    def test_one_submit_is_one_job_whatever_becomes_of_its_home(self):
        self.start_nodes()
        made = sum(self.play(number) for number in range(ROUNDS))
        self.assertGreater(made, ROUNDS // 2)
        self.assertEqual(len(client_keys.jobs_by_key(node.state for node in self.nodes)), made)


if __name__ == "__main__":
    if not fleet.world.is_possible():
        print("network namespaces need root")
        sys.exit(77)
    unittest.main(verbosity=2)
