"""mirrored.py's training under TensorFlow's PreemptionCheckpointHandler, with saves that take long.

The environment says how long: SAVE_S seconds, "CHIEF,OTHERS".
"""

import os
import sys
import time

import tensorflow as tf

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../examples/tensorflow"))
import digits
import mirrored


def main():
    args = digits.options(__doc__.splitlines()[0])
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    is_chief = resolver.task_id == 0
    save_s = float(os.environ["SAVE_S"].split(",")[not is_chief])
    batches = iter(strategy.distribute_datasets_from_function(
        lambda context: digits.dataset(context.get_per_replica_batch_size(args.batch),
                                       context.input_pipeline_id, context.num_input_pipelines)))
    model, optimizer, step = mirrored.build(strategy)
    checkpoints = digits.Checkpoints(
        args.checkpoint_dir, saves=is_chief, scratch=f"scratch-{resolver.task_id}",
        model=model, optimizer=optimizer, step=step)
    checkpoints.restore()
    train_step = mirrored.make_train_step(strategy, model, optimizer, args.batch)

    def save():
        digits.say(f"saving step={int(step.numpy())}")
        time.sleep(save_s)
        checkpoints.save(int(step.numpy()))

    runs = tf.train.CheckpointManager(tf.train.Checkpoint(), f"{args.checkpoint_dir}-runs",
                                      max_to_keep=1)
    handler = tf.distribute.experimental.PreemptionCheckpointHandler(
        resolver, runs, termination_config=tf.distribute.experimental.TerminationConfig(
            save_fn=save))
    for now in range(int(step.numpy()) + 1, args.steps + 1):
        loss = handler.run(train_step, *next(batches))
        step.assign(now)
        if now % args.report_every == 0:
            digits.say(f"step={now} loss={float(loss):.3f}")
        digits.pace(args)
    if is_chief:
        digits.say(f"accuracy={digits.accuracy(model):.3f}")


if __name__ == "__main__":
    main()
