"""examples/embed/embed_grid: workers read the partitions of the grid where they are, and follow them."""
import os
import re

import harness


class GridTest(harness.RunTest):
    def test_workers_follow_the_partitions(self):
        run = harness.Run([], self.env, self.dir)
        self.runs.append(run)
        run.end()
        self.assertEqual(run.status, 0, run.err + run.out)
        lines = run.out.decode().splitlines()
        sums = [re.search(r"\] (\S+) on (\w): (\d+)$", line).groups()
                for line in lines if line.startswith("[")]
        total = sum(range(10 * 6))
        self.assertEqual(sorted(sums[:3]), [("p0,p3", "a", "390"), ("p1,p4", "b", "590"),
                                            ("p2,p5", "c", "790")])
        self.assertEqual(len(sums), 6)
        self.assertEqual(sum(int(number) for _, _, number in sums[3:]), total)
        self.assertEqual({node for _, node, _ in sums[3:]}, {"a", "b"})
        self.assertTrue(any("the partitions of grid have moved" in line for line in lines), lines)
        self.assertEqual(lines[-1], "job succeeded")
        self.assertEqual(os.listdir(self.tmp), [])


if __name__ == "__main__":
    harness.main()
