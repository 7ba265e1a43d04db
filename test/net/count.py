"""A task that counts aloud until a file appears: `line 1`, `line 2`, ... of each attempt.

    count.py STOP [PAUSE [QUIET]]

With QUIET those with an even number write so many lines at once, and then none until the file appears.
"""
import os
import socket
import sys
import time

stop, pause = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
quiet = int(sys.argv[3]) if len(sys.argv) > 3 and int(os.environ["TFC_TASK_INDEX"]) % 2 == 0 else 0
listener = socket.create_server(("::", int(os.environ["TFC_PORT"])), family=socket.AF_INET6,
                                dualstack_ipv6=True) if os.environ.get("TFC_PORT") else None
number = 0
while not os.path.exists(stop):
    if not quiet or number < quiet:
        number += 1
        print(f"line {number}", flush=True)
    if number >= quiet:
        time.sleep(pause)
print(f"counted {number}", flush=True)
