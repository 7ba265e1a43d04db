"""What travels with a function, what must not, and how the keywords of `run` become a job file."""

import functools
import inspect
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from typing import Any
from unittest import mock

import tfcluster as tfc
from tfcluster import _job_file
from tfcluster._run import _roles, run

LOCK = threading.Lock()
OPTIONS: dict[str, Any] = {"framework": "none", "output": False}


def uses_lock(ctx: object) -> None:
    with LOCK:
        pass


def calls_uses_lock(ctx: object) -> None:
    uses_lock(ctx)


class CapturedTest(unittest.TestCase):
    def refuse(self, function: object, text: str, **options: object) -> None:
        with self.assertRaises(tfc.InvalidError) as caught:
            tfc.run(function, **{**OPTIONS, **options})  # type: ignore[arg-type]
        self.assertIn(text, str(caught.exception))

    def test_a_global_lock_is_named(self) -> None:
        self.refuse(uses_lock, "uses_lock uses LOCK, a lock")

    def test_a_lock_of_a_function_that_it_calls_is_named(self) -> None:
        self.refuse(calls_uses_lock, "uses_lock uses LOCK, a lock")

    def test_a_captured_thread_file_and_socket_are_named(self) -> None:
        thread, file = threading.Thread(), io.BytesIO()
        self.refuse(lambda ctx: thread, "uses thread, a thread")
        self.refuse(lambda ctx: file, "uses file, an open file")

    def test_a_lock_inside_an_argument_is_named(self) -> None:
        self.refuse(lambda ctx, settings: None, "args[0]", args=[{"a": [threading.Lock()]}])
        self.refuse(lambda ctx, settings=None: None, "kwargs['settings']", kwargs={"settings": threading.Lock()})

    def test_a_secret_of_the_environment_is_named_and_not_shown(self) -> None:
        with mock.patch.dict(os.environ, {"SOME_API_TOKEN": "0123456789abcdef"}):
            token = os.environ["SOME_API_TOKEN"]
            with self.assertRaises(tfc.InvalidError) as caught:
                tfc.run(lambda ctx: token, **OPTIONS)
        self.assertIn('secret_env=["SOME_API_TOKEN"]', str(caught.exception))
        self.assertNotIn("0123456789abcdef", str(caught.exception))

    def test_what_cannot_be_pickled_is_named(self) -> None:
        generator = (number for number in range(3))
        self.refuse(lambda ctx: generator, "uses generator, a generator that cannot be pickled")

    def test_nothing_is_left_of_a_refused_function(self) -> None:
        before = sorted(os.listdir(tempfile.gettempdir()))
        self.refuse(uses_lock, "a lock")
        self.assertEqual([name for name in sorted(os.listdir(tempfile.gettempdir()))
                          if name.startswith("tfcluster-") and name not in before], [])


class KeywordsTest(unittest.TestCase):
    # Keywords that are no keys of a job file, and the key that is `program`.
    SHORTCUTS = {"program", "args", "kwargs", "workers", "chief", "ps", "evaluator", "tensorboard", "gpus", "memory", "cpus",
                 "checkpoint_dir", "gateway", "key", "output", "submit_timeout"}

    def test_each_key_of_a_job_file_is_a_keyword(self) -> None:
        keywords = set(inspect.signature(run).parameters) - self.SHORTCUTS
        self.assertEqual(keywords, set(_job_file.defaults()) - {"argv", "reports"})

    def test_a_restart_policy_has_each_key_of_restart(self) -> None:
        policy = tfc.RestartPolicy(3, 600, "retryable", "auto", (0, 30), 100, 86400)
        self.assertEqual(policy.to_json(), _job_file.defaults()["restart"])

    def test_a_keyword_of_a_wrong_type_is_named(self) -> None:
        def train(ctx: object) -> None:
            pass

        cases: list[tuple[Any, dict[str, Any], str]] = [
            ({"loss": 1}, {}, "program: must be a function (train, not train()), the path of a Python script, or a list, "
             "not {'loss': 1}"),
            (None, {}, "not None"),
            (train, {"args": 20}, "args: must be a list of arguments, not 20"),
            (train, {"args": "abc"}, "args: must be a list of arguments, not 'abc'"),
            (train, {"kwargs": [1]}, "kwargs: must be a dict of arguments by name, not [1]"),
            (train, {"evaluator": "evaluate"}, "evaluator: must be True, False or a function, not 'evaluate'"),
            (train, {"tensorboard": True}, "tensorboard: must be a directory, not True"),
            (train, {"roles": ["worker"]}, "roles: must be a dict of keys by role, not ['worker']"),
            (train, {"ps": "1"}, 'roles.ps.count: must be a whole number from 0 to 100000, not "1"'),
            (train, {"ps": -1}, "roles.ps.count: must be a whole number from 0 to 100000, not -1"),
            (train, {"env": ["A=1"]}, "env: must be an object"),
            (train, {"env": {"A": None}}, "env.A: must be a string, not null"),
            (train, {"restart": "3"}, "restart: must be an object"),
            (train, {"secret_env": "HOME"}, "secret_env: must be an object"),
            (train, {"workers": object()}, "a job file cannot have a object")]
        for program, keywords, text in cases:
            with self.subTest(text=text):
                with self.assertRaises(tfc.InvalidError) as caught:
                    tfc.run(program, **{**OPTIONS, **keywords})
                self.assertIn(text, str(caught.exception))
        with self.assertRaisesRegex(tfc.InvalidError, "gateway: must be the address of a node"):
            tfc.attach("0123456789abcdef", gateway=None)  # type: ignore[arg-type]

    def test_an_address_is_no_relative_path(self) -> None:
        def directory(ctx: tfc.TaskContext) -> str | None:
            from tfcluster import _bundle
            return _bundle.settings().checkpoint_dir

        for path, wanted in [("gs://bucket/run", "gs://bucket/run"), ("run", os.path.abspath("run"))]:
            with self.subTest(path=path), tfc.run(directory, checkpoint_dir=path, **OPTIONS) as job:
                self.assertEqual(job.result(timeout=60), wanted)
            self.assertEqual(_roles(1, False, 0, False, path, None, {}, True)["tensorboard"]["log_dir"], wanted)

    def test_a_function_that_cannot_be_called_so_is_refused(self) -> None:
        def needs_steps(ctx: object, steps: int) -> None:
            pass

        async def coroutine(ctx: object) -> None:
            pass

        cases: list[tuple[Any, dict[str, Any], str]] = [
            (needs_steps, {}, "missing a required argument: 'steps'"),
            (needs_steps, {"args": [1, 2]}, "too many positional arguments"),
            (needs_steps, {"kwargs": {"step": 1}}, "missing a required argument: 'steps'"),
            (lambda: 1, {}, "<lambda> is called as <lambda>(ctx, *args, **kwargs), and has <lambda>(): "),
            (lambda ctx: 1, {"evaluator": needs_steps}, "needs_steps is called as"),
            (coroutine, {}, "coroutine must return its result")]
        for program, keywords, text in cases:
            with self.subTest(text=text):
                with self.assertRaises(tfc.InvalidError) as caught:
                    tfc.run(program, **{**OPTIONS, **keywords})
                self.assertIn(text, str(caught.exception))

    def test_numbers_of_a_program_and_of_env_become_text(self) -> None:
        with tfc.run(["/bin/sh", "-c", 'echo $0 $A', 1], env={"A": 2}, **OPTIONS) as job:
            job.result(timeout=60)
            self.assertEqual(list(job.logs("worker/0")), ["1 2"])

    def test_a_relative_cwd_starts_at_the_current_directory(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            wanted = os.path.relpath(directory)
            with tfc.run(lambda ctx: os.getcwd(), cwd=wanted, **OPTIONS) as job:
                self.assertEqual(job.result(timeout=60), os.path.realpath(directory))


class BundleTest(unittest.TestCase):
    def test_a_module_that_is_not_installed_travels_by_value(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "only_here.py").write_text("def double(number):\n    return 2 * number\n")
            script = textwrap.dedent(f"""
                import os, sys
                sys.path.insert(0, {directory!r})
                import only_here
                import tfcluster as tfc
                def train(ctx):
                    return only_here.double(21)
                os.chdir("/")
                del sys.path[0]
                with tfc.run(train, framework="none", output=False) as job:
                    print(job.result(timeout=60))
            """)
            path = pathlib.Path(directory, "script.py")
            path.write_text(script)
            out = subprocess.run([sys.executable, path], check=True, capture_output=True, text=True, timeout=60).stdout
        self.assertEqual(out, "42\n")

    def test_a_cached_function_travels(self) -> None:
        @functools.lru_cache(maxsize=7)
        def fibonacci(number: int) -> int:
            return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

        def train(ctx: object) -> tuple[int, int, int | None]:
            return fibonacci(10), fibonacci.cache_info().hits, fibonacci.cache_parameters()["maxsize"]

        fibonacci(30)
        with tfc.run(train, **OPTIONS) as job:
            self.assertEqual(job.result(timeout=60), [55, 8, 7])

    def test_a_package_that_is_installed_elsewhere_does_not_travel(self) -> None:
        # A lock in a module cannot be pickled: that the job runs shows that the module was not.
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "elsewhere-1.0.dist-info").mkdir()
            pathlib.Path(directory, "elsewhere.py").write_text("import threading\nLOCK = threading.Lock()\nVALUE = 42\n")
            path = pathlib.Path(directory, "main", "script.py")
            path.parent.mkdir()
            path.write_text(textwrap.dedent("""
                import elsewhere
                import tfcluster as tfc
                def train(ctx):
                    return elsewhere.VALUE
                with tfc.run(train, framework="none", output=False) as job:
                    print(job.result(timeout=60))
            """))
            places = os.pathsep.join([directory, *filter(None, [os.environ.get("PYTHONPATH")])])
            done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "PYTHONPATH": places})
        self.assertEqual((done.stdout, done.stderr), ("42\n", ""))

    def test_a_directory_travels_with_the_function(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "vocabulary.txt").write_text("word\n")

            def read(ctx: object) -> str:
                import tfcluster
                return (pathlib.Path(tfcluster.__file__).parent.parent / "vocabulary.txt").read_text()

            with tfc.run(read, bundle=directory, **OPTIONS) as job:
                self.assertEqual(job.result(timeout=60), "word\n")


class KilledDriverTest(unittest.TestCase):
    def test_nothing_is_left_of_a_driver_that_is_killed(self) -> None:
        script = ("import tfcluster as tfc\n"
                  "def train(ctx):\n"
                  "    import os, time\n"
                  "    print(os.getpid(), flush=True)\n"
                  "    time.sleep(60)\n"
                  "tfc.run(train, framework='none').result()\n")
        with tempfile.TemporaryDirectory() as directory:
            driver = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "TMPDIR": directory})
            assert driver.stdout is not None
            task = pathlib.Path("/proc", driver.stdout.readline().rpartition(" ")[2].strip())
            deadline = time.monotonic() + 30
            while [name for name in os.listdir(directory) if name.startswith("tfcluster-")]:
                self.assertLess(time.monotonic(), deadline, "the bundle is still there")
                time.sleep(0.02)
            driver.kill()
            driver.communicate()
            while task.exists():
                self.assertLess(time.monotonic(), deadline, "the task still runs")
                time.sleep(0.02)


class ResultTest(unittest.TestCase):
    def test_the_value_of_the_chief_is_the_result(self) -> None:
        def train(ctx: tfc.TaskContext, factor: int, offset: int = 0) -> dict[str, object]:
            ctx.report({"loss": 0.5}, step=7)
            return {"task": ctx.task_type, "value": factor * 2 + offset, "rank": ctx.rank, "size": ctx.world_size}

        with tfc.run(train, args=(3,), kwargs={"offset": 1}, workers=2, chief=True, strategy="none", **{
                **OPTIONS, "framework": "tensorflow"}) as job:
            self.assertEqual(job.result(timeout=60), {"task": "chief", "value": 7, "rank": 0, "size": 3})
            self.assertEqual(job.metrics["worker/1"], {"loss": 0.5})
            self.assertEqual(job.tasks["worker/1"].step, 7)

    def test_a_large_result_arrives_whole(self) -> None:
        with tfc.run(lambda ctx: "x" * 1_000_000, **OPTIONS) as job:
            self.assertEqual(job.result(timeout=60), "x" * 1_000_000)

    def test_an_exception_in_one_worker_is_the_failure(self) -> None:
        def train(ctx: tfc.TaskContext) -> None:
            if ctx.task_index == 1:
                raise LookupError("no shard 1")
            import time
            time.sleep(60)

        with tfc.run(train, workers=2, **OPTIONS) as job:
            failure = job.exception(timeout=60)
        assert isinstance(failure, tfc.TaskFailed)
        self.assertEqual((failure.task, failure.exit_status, failure.exception), ("worker/1", 1, "LookupError"))
        self.assertIn("raise LookupError", failure.traceback)
        self.assertIn("LookupError: no shard 1", str(failure))
        self.assertNotIn("tfcluster/task.py", failure.traceback)

    def test_a_long_message_is_quoted_once_and_whole(self) -> None:
        def train(ctx: object) -> None:
            raise LookupError("no shard " + 300 * "x")

        with tfc.run(train, **OPTIONS) as job:
            failure = job.exception(timeout=60)
        self.assertEqual(str(failure), f"worker/0 exited with 1: LookupError: no shard {300 * 'x'}")

    def test_a_result_that_json_cannot_have_is_named(self) -> None:
        with tfc.run(lambda ctx: {"model": object()}, **OPTIONS) as job:
            failure = job.exception(timeout=60)
        self.assertIn('result["model"]', str(failure))

    def test_the_result_of_a_restarted_task_is_that_of_its_last_attempt(self) -> None:
        def train(ctx: tfc.TaskContext) -> int:
            import os
            import signal
            if ctx.attempt == 1:
                ctx.report({"loss": 9.0})
                os.kill(os.getpid(), signal.SIGKILL)
            return ctx.attempt

        with tfc.run(train, **OPTIONS) as job:
            self.assertEqual(job.result(timeout=60), 2)


if __name__ == "__main__":
    unittest.main()
