"""Evaluates each new checkpoint on the held-out digits, until the one of the last step.

Prints `eval step=150 accuracy=0.94` and writes the same for TensorBoard when there is a --log-dir.
The training programs here call watch() when their task is the evaluator; it also runs by itself.
"""

import os

import tensorflow as tf

import digits


def evaluate(path, model, writer):
    """Restores one checkpoint, prints and records its accuracy; returns its step."""
    step = digits.step_of(path)
    tf.train.Checkpoint(model=model).restore(path).expect_partial()
    accuracy = digits.accuracy(model)
    digits.say(f"eval step={step} accuracy={accuracy:.3f}")
    if writer:
        with writer.as_default(step=step):
            tf.summary.scalar("held_out/accuracy", accuracy)
        writer.flush()
    return step


def watch(args):
    """Evaluates checkpoints as they appear; ends after the one of step args.steps."""
    model = digits.network()
    writer = None
    if args.log_dir:
        writer = tf.summary.create_file_writer(os.path.join(args.log_dir, "eval"))
    for path in tf.train.checkpoints_iterator(args.checkpoint_dir, min_interval_secs=0):
        try:
            step = evaluate(path, model, writer)
        except tf.errors.NotFoundError:
            continue  # the training deleted it meanwhile: a newer one is there
        if step >= args.steps:
            return


if __name__ == "__main__":
    watch(digits.options(__doc__.splitlines()[0]))
