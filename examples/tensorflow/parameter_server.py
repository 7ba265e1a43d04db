"""Trains with parameter servers: the chief hands steps to whichever worker is free.

Run by each chief, worker, ps and evaluator of a job:

    tfc_run local --chief --worker 2 --ps 1 -- python3 parameter_server.py

Workers and parameter servers only serve TensorFlow; `"server": true` in a job file does without the
program there.
"""

import tensorflow as tf

import digits
import evaluator


def build(strategy):
    """(model, optimizer, sum of losses), whose variables live on the parameter servers."""
    with strategy.scope():
        model = digits.network()
        optimizer = tf.keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
        losses = tf.Variable(0.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    return model, optimizer, losses


def make_train_step(strategy, model, optimizer, losses, batch):
    """A function that trains on one worker's next batch and adds its mean loss to `losses`.

    It returns nothing: a result would be kept on the worker, and lost with it.
    """

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(digits.loss_of(model(x, training=True), y)) / batch
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        losses.assign_add(loss)

    @tf.function
    def train_step(batches):
        strategy.run(replica_step, args=next(batches))

    return train_step


def train(args, resolver):
    """Trains from the newest checkpoint up to args.steps, then prints the held-out accuracy.

    Steps run `report_every` at a time, as many at once as there are workers. A worker that dies
    only slows that down: the coordinator gives its step to another and uses it again when it is
    back. A parameter server that dies takes the variables along: the coordinator raises, and the
    next attempt resumes from the checkpoint.
    """
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    model, optimizer, losses = build(strategy)
    step = tf.Variable(0, dtype=tf.int64)
    checkpoints = digits.Checkpoints(
        args.checkpoint_dir, model=model, optimizer=optimizer, step=step)
    checkpoints.restore()
    train_step = make_train_step(strategy, model, optimizer, losses, args.batch)
    batches = iter(coordinator.create_per_worker_dataset(lambda: digits.dataset(args.batch)))

    while int(step) < args.steps:
        count = min(args.report_every, args.steps - int(step))
        losses.assign(0.0)
        for _ in range(count):
            coordinator.schedule(train_step, args=(batches,))
            digits.pace(args)
        coordinator.join()
        step.assign_add(count)
        now = int(step)
        digits.say(f"step={now} loss={float(losses) / count:.3f}")
        if now // args.save_every > (now - count) // args.save_every or now == args.steps:
            checkpoints.save(now)
    digits.say(f"accuracy={digits.accuracy(model):.3f}")


def serve(resolver):
    """Serves as a worker or parameter server until killed."""
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc")
    server.join()


def main():
    args = digits.options(__doc__.splitlines()[0])
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "evaluator":
        evaluator.watch(args)
    elif resolver.task_type in ("worker", "ps"):
        serve(resolver)
    else:
        train(args, resolver)


if __name__ == "__main__":
    main()
