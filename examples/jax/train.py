"""Trains with jax.distributed: the examples are spread over all processes, the weights are copied.

    tfc_run local --framework jax --worker 2 -- python3 train.py

Nothing here is the library's: initialize() without arguments finds its cluster. XLA sees that a mean
over examples on several processes needs their sum, and adds the communication. When a process dies
the others are useless, so the library starts all of them again; each reads the checkpoint of
process 0, and training goes on.
"""

import argparse
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

FEATURES = 8
EXAMPLES = 64  # of each process


def options():
    parser = argparse.ArgumentParser(description="Linear regression on several processes.")
    parser.add_argument("--steps", type=int, default=200, help="train up to this step")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--checkpoint", default="jax-checkpoint.npz", metavar="FILE")
    parser.add_argument("--step-delay", type=float, default=0, metavar="SECONDS",
                        help="wait after each step, to watch it work")
    parser.add_argument("--delay-while", metavar="FILE", help="wait only while FILE exists")
    return parser.parse_args()


def data(process):
    """This process's examples: the weights 1, 2, ... 8 and some noise."""
    seed = np.random.default_rng(process)
    x = seed.standard_normal((EXAMPLES, FEATURES), dtype=np.float32)
    noise = seed.standard_normal(EXAMPLES, dtype=np.float32)
    return x, x @ np.arange(1, FEATURES + 1, dtype=np.float32) + noise


def restore(path):
    """(weights, step) to begin with."""
    if not os.path.exists(path):
        return np.zeros(FEATURES, np.float32), 0
    with np.load(path) as saved:
        weights, step = saved["weights"], int(saved["step"])
    print(f"resumed step={step}", flush=True)
    return weights, step


def save(path, weights, step):
    """Whole or not at all: a process may be killed at any moment."""
    with open(path + ".new", "wb") as file:
        np.savez(file, weights=weights, step=step)
    os.replace(path + ".new", path)
    print(f"saved step={step}", flush=True)


@jax.jit
def train_step(weights, x, y):
    def loss(weights):
        return jnp.mean((x @ weights - y) ** 2)

    return weights - 0.1 * jax.grad(loss)(weights)


def main():
    args = options()
    jax.distributed.initialize()
    process = jax.process_index()
    mesh = Mesh(np.array(jax.devices()), ("processes",))
    spread = NamedSharding(mesh, PartitionSpec("processes"))
    copied = NamedSharding(mesh, PartitionSpec())
    x, y = (jax.make_array_from_process_local_data(spread, part) for part in data(process))
    start, step = restore(args.checkpoint)
    weights = jax.make_array_from_process_local_data(copied, start)
    while step < args.steps:
        weights = train_step(weights, x, y)
        weights.block_until_ready()
        step += 1
        print(f"step={step}", flush=True)
        if process == 0 and step % args.save_every == 0:
            save(args.checkpoint, np.asarray(weights), step)
        if args.step_delay and (not args.delay_while or os.path.exists(args.delay_while)):
            time.sleep(args.step_delay)
    print("weights=" + ",".join(f"{weight:.4f}" for weight in np.asarray(weights)), flush=True)


if __name__ == "__main__":
    main()
