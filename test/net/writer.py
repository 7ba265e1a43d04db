"""A task that only KILL ends: again and again it writes its name and attempt into a file that all
attempts share, until another file appears.

    writer.py STOP FILE
"""
import os
import signal
import sys
import time

stop, path = sys.argv[1:]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
line = "{TFC_TASK_TYPE}/{TFC_TASK_INDEX} {TFC_ATTEMPT}\n".format(**os.environ).encode()
file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
print("writing", flush=True)
while not os.path.exists(stop):
    os.write(file, line)
    time.sleep(0.005)
