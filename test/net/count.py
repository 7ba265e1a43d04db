"""A task that counts aloud until a file appears: `line 1`, `line 2`, ... of each attempt.

    count.py STOP [PAUSE]
"""
import os
import socket
import sys
import time

stop, pause = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
listener = socket.create_server(("::", int(os.environ["TFC_PORT"])), family=socket.AF_INET6,
                                dualstack_ipv6=True) if os.environ.get("TFC_PORT") else None
number = 0
while not os.path.exists(stop):
    number += 1
    print(f"line {number}", flush=True)
    time.sleep(pause)
print(f"counted {number}", flush=True)
