"""Runs the benchmarks side by side and prints one table of ratios.

Every row interleaves the contenders, so that a noisy machine is noisy for all of them; figures are
medians over the repetitions with the range behind them. Nothing here is a test: a missed goal is
printed, not failed.
"""

import argparse
import os

import allocation
import calls
import cost
import feed
import gossip
import measure
import nodes
import output
import page
import renewals
import start
import torch_start
import train
import warm

ROWS = {
    "launch": start.Launch,
    "allocation": allocation.Allocation,
    "restart": start.Restart,
    "port": cost.Port,
    "logs": output.Logs,
    "subscribe": output.Subscribe,
    "bundle": nodes.Bundle,
    "rpc": calls.Rpc,
    "relay": nodes.Relay,
    "cluster": nodes.Cluster,
    "gossip": gossip.Gossip,
    "feed": feed.Feed,
    "killed_node": nodes.KilledNode,
    "renewals": renewals.Renewals,
    "idle": cost.Idle,
    "scale": cost.Scale,
    "size": cost.Size,
    "python_import": cost.PythonImport,
    "train": train.Train,
    "warm": warm.Warm,
    "torch_start": torch_start.TorchStart,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--markdown", action="store_true",
                        help="also put the table into doc/benchmarks.md")
    parser.add_argument("--full", action="store_true",
                        help="gossip with 20, 50 and 100 members and stalls of 5, 10 and 20 s")
    parser.add_argument("rows", nargs="*", default=[], help="of " + " ".join(ROWS))
    options = parser.parse_args()
    table = measure.Table()
    lines = [*page.surroundings(options.rows), ""]
    for name in options.rows or ROWS:
        print(f"bench: {name}", flush=True)
        ROWS[name](os.path.abspath(options.build), table, options.full).run()
    lines += table.lines()
    print("\n" + "\n".join(lines))
    if options.markdown:
        page.publish(lines)


if __name__ == "__main__":
    main()
