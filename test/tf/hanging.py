"""Mirrored workers of which one hangs in each generation, in a way and at a step that a seed draws.

    HANG_SEED=7 HANG_MEMBERS=2 HANG_STEPS=4 tfc_run local --worker 2 -- python3 hanging.py

Prints `hang GENERATION TASK KIND` before it hangs. After HANG_COUNT generations it trains to the end.
"""

import hashlib
import os
import random
import signal
import threading
import time

KINDS = ("loop", "stopped", "sleep", "lock", "input", "input_in_graph")
GENERATION = int(os.environ["TFC_GENERATION"])
INDEX = int(os.environ["TFC_TASK_INDEX"])
MEMBERS = int(os.environ["HANG_MEMBERS"])


class Plan:
    """What happens in this generation; all members draw the same."""

    def __init__(self):
        draw = random.Random(int(os.environ["HANG_SEED"]) * 1000 + GENERATION)
        self.kind = draw.choice(os.environ.get("HANG_KINDS", " ".join(KINDS)).split())
        self.member = draw.randrange(MEMBERS)
        self.step = draw.randrange(2, 6)
        self.polls = draw.random() < 0.5  # the others burn CPU while they wait
        self.hangs = GENERATION <= int(os.environ["HANG_COUNT"])

    def is_now(self, step, *kinds):
        return self.hangs and INDEX == self.member and step == self.step and self.kind in kinds

    def announce(self):
        print(f"hang {GENERATION} worker/{self.member} {self.kind}", flush=True)


PLAN = Plan()


def give_signs_of_life():
    """Until training begins: an import on a busy machine is silent for longer than a stall."""
    fd = int(os.environ["TFC_PROGRESS_FD"])
    done = threading.Event()

    def write():
        while not done.wait(0.5):
            os.write(fd, b".")

    threading.Thread(target=write, daemon=True).start()
    return done.set


def burn():
    """CPU time outside the interpreter's lock, as a collective that polls would use it."""
    block = bytes(1 << 16)
    while True:
        hashlib.sha256(block).digest()


def loop_for_ever():
    while True:
        pass


def take_for_ever():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def hang(step):
    if PLAN.is_now(step, "loop", "stopped", "sleep", "lock"):
        PLAN.announce()
        if PLAN.kind == "loop":
            loop_for_ever()
        elif PLAN.kind == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif PLAN.kind == "sleep":
            time.sleep(1e6)
        else:
            take_for_ever()


def examples():
    """One number per step; the input hangs before the step that the plan names."""
    step = 0
    while True:
        step += 1
        if PLAN.is_now(step, "input", "input_in_graph"):
            PLAN.announce()
            time.sleep(1e6)
        yield float(step)


def main():
    stop_signs = give_signs_of_life()
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = tf.Variable(1.0)
        total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    def dataset(_):
        return tf.data.Dataset.from_generator(
            examples, output_signature=tf.TensorSpec([], tf.float32)).batch(1)

    batches = iter(strategy.distribute_datasets_from_function(dataset))

    def replica_step(x):
        total.assign_add(tf.reduce_sum(x * weight))
        return tf.reduce_sum(x)

    @tf.function
    def step_of(batch):
        return strategy.reduce(tf.distribute.ReduceOp.SUM,
                               strategy.run(replica_step, args=(batch,)), axis=None)

    @tf.function
    def step_with_input(iterator):
        return step_of(next(iterator))

    for step in range(1, 9):
        hang(step)
        if PLAN.kind == "input_in_graph":
            value = step_with_input(batches)
        else:
            value = step_of(next(batches))
        print(f"step={step} value={float(value):.1f}", flush=True)
        if step == 1:
            stop_signs()
            if PLAN.polls and INDEX != PLAN.member:
                threading.Thread(target=burn, daemon=True).start()
        time.sleep(0.05)


if __name__ == "__main__":
    main()
