"""A rank of PyTorch: writes the time of its first collective into a file of its own."""

import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
ended = time.monotonic()
with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w") as file:
    file.write(str(ended))
dist.barrier()
dist.destroy_process_group()
