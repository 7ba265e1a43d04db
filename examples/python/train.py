"""Trains on mirrored workers that are started from here: a function in place of a program.

    python3 train.py --workers 2
    python3 train.py --workers 8 --gateway tcp://10.0.0.1:7400 --key cluster.key --checkpoint-dir /shared/digits

The data are the 1,797 handwritten digits of scikit-learn. The programs in ../tensorflow have a module for them, and go
along as the bundle. Kill a worker, and the training resumes from its checkpoint. The last line is the accuracy.
"""

import argparse
import os

import tfcluster as tfc

MODULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tensorflow")


def train(ctx, steps, batch):
    """What each worker runs; returns the accuracy on held-out digits."""
    import digits
    import tensorflow as tf

    strategy = ctx.strategy()
    with strategy.scope():
        model = digits.network()
        optimizer = tf.keras.optimizers.Adam(0.003)
        optimizer.build(model.trainable_variables)
    checkpoints = ctx.checkpoints(model=model, optimizer=optimizer)

    def dataset(context):
        return digits.dataset(context.get_per_replica_batch_size(batch), context.input_pipeline_id,
                              context.num_input_pipelines)

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(digits.loss_of(model(x, training=True), y)) / batch
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    batches = iter(strategy.distribute_datasets_from_function(dataset))
    for step in range(checkpoints.step + 1, steps + 1):
        loss = train_step(*next(batches))
        if step % 20 == 0 or step == steps:
            ctx.report({"loss": loss}, step=step)
        if step % 50 == 0 or step == steps:
            checkpoints.save(step)
    return {"accuracy": digits.accuracy(model), "attempt": ctx.attempt}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=60, help="examples per step, over all workers; a multiple of them")
    parser.add_argument("--checkpoint-dir", default="checkpoints", help="on storage that all nodes share")
    parser.add_argument("--gateway", help="the address of a node; without it, this machine")
    parser.add_argument("--key", help="the key file of the cluster")
    args = parser.parse_args()
    with tfc.run(train, args=(args.steps, args.batch), workers=args.workers, checkpoint_dir=args.checkpoint_dir,
                 bundle=MODULES, gateway=args.gateway, key=args.key, restart=tfc.RestartPolicy(max_restarts=3)) as job:
        result = job.result()
    print(f"accuracy={result['accuracy']:.3f} attempt={result['attempt']}")


if __name__ == "__main__":
    main()
