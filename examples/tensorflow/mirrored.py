"""Trains on mirrored workers: each holds the whole model, every step sums their gradients.

Run by each worker, the chief and the evaluator of a job:

    tfc_run local --worker 2 -- python3 mirrored.py

Keras 3's Model.fit does not work under this strategy; a Keras 3 model in a loop of one's own does.
"""

import tensorflow as tf

import digits
import evaluator


def build(strategy):
    """(model, optimizer, step), mirrored on all workers."""
    with strategy.scope():
        model = digits.network()
        optimizer = tf.keras.optimizers.Adam(0.003)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, name="step")
    return model, optimizer, step


def make_train_step(strategy, model, optimizer, batch):
    """A function from one distributed batch to its mean loss, a float32 scalar."""

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_sum(digits.loss_of(logits, y)) / batch
        variables = model.trainable_variables
        # The optimizer sums the gradients of all replicas itself.
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    @tf.function
    def train_step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return train_step


def train(args, resolver):
    """Trains from the newest checkpoint up to args.steps, then prints the held-out accuracy."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    task_type, task_index = resolver.task_type or "worker", resolver.task_id or 0
    is_chief = task_type == "chief" or (
        task_index == 0 and "chief" not in resolver.cluster_spec().jobs)

    def worker_dataset(context):
        return digits.dataset(context.get_per_replica_batch_size(args.batch),
                              context.input_pipeline_id, context.num_input_pipelines)

    batches = iter(strategy.distribute_datasets_from_function(worker_dataset))
    model, optimizer, step = build(strategy)
    checkpoints = digits.Checkpoints(
        args.checkpoint_dir, saves=is_chief, scratch=f"scratch-{task_type}-{task_index}",
        model=model, optimizer=optimizer, step=step)
    checkpoints.restore()
    train_step = make_train_step(strategy, model, optimizer, args.batch)

    for now in range(int(step.numpy()) + 1, args.steps + 1):
        loss = train_step(*next(batches))
        step.assign(now)
        if now % args.report_every == 0:
            digits.say(f"step={now} loss={float(loss):.3f}")
        if now % args.save_every == 0 or now == args.steps:
            checkpoints.save(now)
        digits.pace(args)
    if is_chief:
        digits.say(f"accuracy={digits.accuracy(model):.3f}")


def main():
    args = digits.options(__doc__.splitlines()[0])
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "evaluator":
        evaluator.watch(args)
    else:
        train(args, resolver)


if __name__ == "__main__":
    main()
