"""Nodes that find each other by gossip, each on a host of its own: all at once, over lossy links, killed, cut off."""
import re
import sys
import unittest

import fleet


class GossipTest(fleet.FleetTest):
    IS_GOSSIP = True

    def states(self, node):
        return node.members() or {}

    def await_all_alive(self, nodes, patience=60):
        wanted = {node.name: "alive" for node in nodes}
        for node in nodes:
            self.await_members(node, wanted, patience)

    def declared_down(self, node):
        """The members that the node has ever declared down."""
        return set(re.findall(r"^\S+ tfc_run: node (\S+) is down", node.said(), re.M))


class ManyTest(GossipTest):
    HOSTS = 20

    def test_twenty_start_at_once_over_lossy_links_and_one_is_killed(self):
        for host in self.net.hosts[:4]:
            self.net.loosen(host, loss=0.1)
        for node in self.nodes:
            node.start()
        self.await_all_alive(self.nodes, patience=120)
        killed, rest = self.nodes[7], self.nodes[:7] + self.nodes[8:]
        killed.kill()
        for node in rest:
            self.await_members(node, {killed.name: "down"}, 60)
        for node in rest:
            self.assertLessEqual(self.declared_down(node), {killed.name}, node.name)
        killed.start()
        self.await_all_alive(self.nodes)


class CutTest(GossipTest):
    HOSTS = 4

    def test_a_host_is_cut_off_and_comes_back(self):
        self.start_nodes()
        cut, rest = self.nodes[3], self.nodes[:3]
        self.net.cut(cut.host)
        for node in rest:
            self.await_members(node, {cut.name: "down"}, 60)
        for node in rest:
            self.assertEqual(self.declared_down(node), {cut.name})
        self.wait_until(lambda: "more than a third of the members became unreachable at once" in cut.said(),
                        "the warning of the node that is cut off", 60)
        self.net.heal(cut.host)
        self.await_all_alive(self.nodes)

    def test_a_lossy_link_makes_nobody_down(self):
        """Probes go round by others, and over tcp."""
        self.start_nodes()
        relay = self.net.loosen(self.nodes[1].host, loss=0.25)
        carried = relay.carried
        self.wait_until(lambda: relay.carried > carried + 600, "traffic over the lossy link", 90)
        for node in self.nodes:
            self.assertEqual(self.declared_down(node), set(), node.name)


if __name__ == "__main__":
    if not fleet.world.is_possible():
        print("network namespaces need root")
        sys.exit(77)
    unittest.main(verbosity=2)
