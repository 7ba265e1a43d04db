"""Random hangs of a real mirrored group: whoever is named as the cause must be the one that hangs.

    hang_campaign.py HANGS [SEED]

Each generation of a job hangs once (hanging.py) and is restarted by its stall. Prints how many
causes were named and how many could not be told; a wrong name fails. Needs TFC_RUN, as the tests do.
"""

import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PER_JOB = 10
STALL_S = 6


def run_job(members, hangs, seed):
    """The events of one job in which `hangs` generations hang."""
    env = dict(os.environ, HANG_SEED=str(seed), HANG_MEMBERS=str(members), HANG_COUNT=str(hangs),
               TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    job = {"argv": [sys.executable, os.path.join(HERE, "hanging.py")],
           "roles": {"worker": {"count": members}}, "stall_s": STALL_S, "on_stall": "restart",
           "restart": {"max": 10 * hangs, "window_s": 86400, "backoff_s": [0, 0]}}
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        done = subprocess.run(
            [os.environ["TFC_RUN"], "local", "--json", "--job", path], cwd=directory, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=120 + 90 * hangs,
            check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def judge(events):
    """Per hang: (kind, who hangs, who was named or None, the sentence)."""
    hang = named = None
    for event in events:
        found = event["event"] == "output" and re.match(r"hang (\d+) (\S+) (\S+)", event["text"])
        if found:
            hang, named = found.groups(), None
        elif event["event"] == "task" and event.get("reason") == "stalled" \
                and event["state"] == "ready":
            named = event["task"]
        elif event["event"] == "job" and event["state"] == "restarting" \
                and "; restarting " in event["text"]:
            # A busy machine may be silent for so long without a hang: nobody is to be named then.
            yield hang[2] if hang else "no hang", hang and hang[1], named, event["text"]
            hang = named = None


def main():
    hangs = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    counts = collections.defaultdict(collections.Counter)
    is_wrong = False
    print(f"seed {seed}", flush=True)
    done = 0
    while done < hangs:
        now = min(PER_JOB, hangs - done)
        events, status = run_job(2 + seed % 2, now, seed)
        judged = list(judge(events))
        if status != 0:
            print(f"seed {seed}: status {status}, {events[-1:]}")
            is_wrong = True
        for kind, culprit, named, text in judged:
            verdict = "not told" if named is None else "named" if named == culprit else "WRONG"
            is_wrong |= verdict == "WRONG"
            counts[kind][verdict] += 1
            print(f"  {verdict:8} {kind} of {culprit}: {text}", flush=True)
        done += now
        seed += 1
    for kind, verdicts in sorted(counts.items()):
        print(f"{kind}: {dict(verdicts)}")
    total = sum(counts.values(), collections.Counter())
    print(f"all: {dict(total)}")
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
