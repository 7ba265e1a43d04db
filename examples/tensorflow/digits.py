"""What the programs here share: the data, the model, the checkpoints and their options.

The data are the 1,797 handwritten digits that scikit-learn brings along: 8 x 8 pixels, ten classes.
All programs train the same small network, save the same checkpoints, and print the same lines:
`resumed step=120`, `step=140 loss=0.31`, `saved step=150`, `accuracy=0.95`.
"""

import argparse
import gzip
import importlib.util
import os
import shutil
import time

import numpy as np
import tensorflow as tf

PIXELS = 64
CLASSES = 10
HELD_OUT = 360


def options(description):
    """The command line: every program here has the same one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=300, help="train up to this step")
    parser.add_argument("--batch", type=int, default=60, help="examples per step, over all workers; a multiple of their number")
    parser.add_argument("--step-delay", type=float, default=0, metavar="SECONDS",
                        help="wait after each step, to watch it work")
    parser.add_argument("--delay-while", metavar="FILE", help="wait only while FILE exists")
    parser.add_argument("--report-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--save-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--checkpoint-dir", default=os.environ.get("CHECKPOINT_DIR", "checkpoints"),
                        help="resume from here and save here (or $CHECKPOINT_DIR)")
    parser.add_argument("--log-dir", default=os.environ.get("TFC_LOG_DIR"),
                        help="the evaluator writes TensorBoard summaries here (or $TFC_LOG_DIR)")
    return parser.parse_args()


@tf.autograph.experimental.do_not_convert  # it runs inside a traced dataset function
def load():
    """((x, y) to train on, (x, y) held out); x: float32 [n, 64] in 0..1, y: int64 [n].

    Reads scikit-learn's file itself: `import sklearn` would cost each start two seconds.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None:
        raise SystemExit("digits: the data come with scikit-learn: pip install scikit-learn")
    path = os.path.join(package.submodule_search_locations[0], "datasets/data/digits.csv.gz")
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)  # [1797, 64 pixels + 1 label]
    table = np.random.default_rng(0).permutation(table)
    x, y = table[:, :PIXELS] / 16, table[:, PIXELS].astype(np.int64)
    return (x[HELD_OUT:], y[HELD_OUT:]), (x[:HELD_OUT], y[:HELD_OUT])


def dataset(batch, shard=0, shards=1):
    """Endless shuffled batches of one worker's part: float32 [batch, 64], int64 [batch]."""
    x, y = load()[0]
    x, y = x[shard::shards], y[shard::shards]
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).repeat()
    return data.batch(batch, drop_remainder=True).prefetch(2)


def network():
    """A Keras model: float32 [batch, 64] to logits [batch, 10]."""
    return tf.keras.Sequential([
        tf.keras.Input((PIXELS,)),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(CLASSES),
    ])


def loss_of(logits, y):
    """Cross entropy per example: logits [batch, 10], y int64 [batch] to float32 [batch]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)


def accuracy(model):
    """The part of the held-out digits that the model reads right."""
    x, y = load()[1]
    return float(np.mean(np.argmax(model(x), axis=1) == y))


def pace(args):
    """Waits after a step as the options say."""
    if args.step_delay and (not args.delay_while or os.path.exists(args.delay_while)):
        time.sleep(args.step_delay)


def say(text):
    """One whole line, at once: programs and people follow the log."""
    print(text, flush=True)


class Checkpoints:
    """Saves and restores model, optimizer and step under one directory."""

    def __init__(self, directory, saves=True, scratch=None, **objects):
        """`saves`: this task's files are the ones to keep. Mirrored workers must all take part in
        a save; the others write into `scratch`, a name under `directory`, and drop it again."""
        self._scratch = None if saves else os.path.join(directory, scratch)
        self._directory = directory
        self._checkpoint = tf.train.Checkpoint(**objects)
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, self._scratch or directory, max_to_keep=3)

    def restore(self):
        """Restores the newest checkpoint, if there is one, and says so."""
        path = tf.train.latest_checkpoint(self._directory)
        if path:
            self._checkpoint.restore(path).expect_partial()
            say(f"resumed step={step_of(path)}")

    def save(self, step):
        """Saves as checkpoint number `step`."""
        self._manager.save(checkpoint_number=step)
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
        else:
            say(f"saved step={step}")


def step_of(path):
    """The step a checkpoint was saved at: its number."""
    return int(path.rsplit("-", 1)[1])
