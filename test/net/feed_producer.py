"""A producer on a host without a node: what feed_test.py runs there. Prints its result as JSON."""
import json
import os
import sys
import time

import numpy as np
import tfcluster as tfc

PATIENCE = 120
ENV = {name: os.environ[name] for name in ("PYTHONPATH", "TFCLUSTER_LIBRARY")}
JOB = {"framework": "none", "strategy": "none", "output": False, "env": ENV, "python": sys.executable}
WIDTH = 100  # float32 columns of a row


def rows_of(begin, end):
    ids = np.arange(begin, end)
    return {"id": ids, "x": np.repeat(ids.astype(np.float32)[:, None], WIDTH, 1)}


def check_rows(ctx, directory, die_at=0):
    """Writes the ids it got, a batch a line; each row must have the values of its id."""
    import os
    import signal
    batches = 0
    with open(f"{directory}/ids-{ctx.task_index}-{ctx.attempt}", "w") as file:
        for batch in ctx.feed("train").batches(100):
            assert (batch["x"] == batch["id"][:, None].astype("float32")).all()
            print(*batch["id"].tolist(), file=file, flush=True)
            batches += 1
            if die_at and ctx.task_index == 0 and ctx.attempt == 1 and batches == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
    return batches


def feed(client, directory, rows, die_at=0, restart=0, until=None):
    """Feeds partitions of 1,000 rows."""
    with client.run(check_rows, args=[directory, die_at], workers=2, restart=restart, placement="spread", **JOB) as job:
        print(json.dumps({"job": job.id}), flush=True)
        with job.feed("train") as producer:
            for begin in range(0, rows, 1000):
                producer.put(rows_of(begin, min(begin + 1000, rows)))
                if until:
                    print(json.dumps({"fed": begin}), flush=True)
                    until(begin)
        return job.result(PATIENCE)


def read_to_the_end(ctx, directory):
    """Worker 0 dies once, after the feed has ended."""
    import os
    import signal
    rows = sum(len(batch["0"]) for batch in ctx.feed("train").batches())
    if ctx.task_index == 0 and ctx.attempt == 1:
        with open(f"{directory}/ended") as file:  # a FIFO
            file.read()
        os.kill(os.getpid(), signal.SIGKILL)
    return rows


def end(client, directory):
    """Returns how many rows the second attempt of worker 0 has got."""
    os.mkfifo(f"{directory}/ended")
    with client.run(read_to_the_end, args=[directory], workers=2, restart=1, placement="spread", **JOB) as job:
        with job.feed("train") as producer:
            producer.put(np.arange(1000))
        open(f"{directory}/ended", "w").close()
        return job.result(PATIENCE)


def square(batch):
    return {"y": batch["x"].sum(axis=1) ** 2, "copy": batch["x"]}


def infer(client, rows):
    results = list(tfc.map_batches(square, rows_of(0, rows), workers=2, batch_size=100, gateway=client, **JOB))
    got = {name: np.concatenate([np.asarray(each[name]) for each in results]) for name in ("y", "copy")}
    x = rows_of(0, rows)["x"]
    return {"rows": len(got["y"]), "equal": bool((got["copy"] == x).all() and (got["y"] == x.sum(axis=1) ** 2).all())}


def main(what, gateway, key, directory, rows="0", die_at="0"):
    with tfc.connect(gateway, key=key, reconnect_s=5) as client:
        try:
            if what == "infer":
                result = infer(client, int(rows))
            elif what == "end":
                result = end(client, directory)
            elif what == "slowly":
                result = feed(client, directory, int(rows), until=lambda begin: time.sleep(0.02))
            else:
                result = feed(client, directory, int(rows), int(die_at), 1 if int(die_at) else 0)
            print(json.dumps({"result": result}), flush=True)
        except tfc.Error as error:
            print(json.dumps({"error": str(error)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
