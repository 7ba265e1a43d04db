"""Trains with torch.distributed: every rank has its own data, each step averages the gradients.

    tfc_run local --framework pytorch --worker 2 -- python3 train.py

Nothing here is the library's: init_process_group() reads what torchrun would have set. When a rank
dies the others are useless, so the library starts all of them again; each reads the checkpoint of
rank 0, and training goes on.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist

FEATURES = 8
EXAMPLES = 64  # of each rank


def options():
    parser = argparse.ArgumentParser(description="Linear regression on several ranks.")
    parser.add_argument("--steps", type=int, default=200, help="train up to this step")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--checkpoint", default="pytorch-checkpoint.pt", metavar="FILE")
    parser.add_argument("--step-delay", type=float, default=0, metavar="SECONDS",
                        help="wait after each step, to watch it work")
    parser.add_argument("--delay-while", metavar="FILE", help="wait only while FILE exists")
    return parser.parse_args()


def data(rank):
    """This rank's examples: the weights 1, 2, ... 8 and some noise."""
    seed = torch.Generator().manual_seed(rank)
    x = torch.randn(EXAMPLES, FEATURES, generator=seed)
    return x, x @ torch.arange(1.0, FEATURES + 1) + torch.randn(EXAMPLES, generator=seed)


def restore(path):
    """(weights, step) to begin with."""
    if not os.path.exists(path):
        return torch.zeros(FEATURES), 0
    saved = torch.load(path)
    print(f"resumed step={saved['step']}", flush=True)
    return saved["weights"], saved["step"]


def save(path, weights, step):
    """Whole or not at all: a rank may be killed at any moment."""
    torch.save({"weights": weights, "step": step}, path + ".new")
    os.replace(path + ".new", path)
    print(f"saved step={step}", flush=True)


def main():
    args = options()
    dist.init_process_group("gloo")  # MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE say where
    rank, size = dist.get_rank(), dist.get_world_size()
    x, y = data(rank)
    weights, step = restore(args.checkpoint)
    while step < args.steps:
        error = x @ weights - y
        gradient = 2 * x.T @ error / EXAMPLES
        dist.all_reduce(gradient)  # the sum of all ranks' gradients
        weights -= 0.1 * gradient / size
        step += 1
        print(f"step={step}", flush=True)
        if rank == 0 and step % args.save_every == 0:
            save(args.checkpoint, weights, step)
        if args.step_delay and (not args.delay_while or os.path.exists(args.delay_while)):
            time.sleep(args.step_delay)
    print("weights=" + ",".join(f"{weight:.4f}" for weight in weights.tolist()), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
