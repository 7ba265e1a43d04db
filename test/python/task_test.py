"""python -m tfcluster.task: how a function's call ends."""

import linecache
import os
import signal
import subprocess
import sys
import unittest

import tasks


def give(ctx, value):
    return value


def fail(ctx):
    def deeper():
        raise ValueError("bad shape")
    try:
        int("x")
    except ValueError:
        deeper()


def leave(ctx, status):
    sys.exit(status)


class ResultTest(tasks.TaskTest):

    def result(self, function, *args, **variables):
        self.pack(function, *args)
        end = self.run_task(**variables)
        self.assertEqual((end.status, end.err), (0, ""))
        self.assertEqual(len(end.reports), 1)
        return end.reports[0]

    def refusal(self, value):
        self.pack(give, value)
        end = self.run_task()
        self.assertEqual(end.status, 1)
        [error] = end.reports
        self.assertEqual(end.err, error["traceback"])
        return f'{error["exception"]}: {error["message"]}'

    def test_a_result_is_reported_once_as_json(self):
        value = {"accuracy": 0.9, "steps": [1, 2], "name": "é", "none": None, "ok": True, "pair": (1, "a")}
        self.assertEqual(self.result(give, value), {
            "kind": "result", "encoding": "json", "value": {**value, "pair": [1, "a"]}})

    def test_numpy_becomes_numbers_and_lists(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        value = {"scalar": numpy.float32(0.5), "count": numpy.int64(3), "row": numpy.arange(3), "ok": numpy.bool_(1)}
        self.assertEqual(self.result(give, value)["value"], {"scalar": 0.5, "count": 3, "row": [0, 1, 2], "ok": True})

    def test_numbers_that_are_not_finite_arrive(self):
        self.assertEqual(str(self.result(give, [float("nan"), float("inf")])["value"]), "[nan, inf]")

    def test_what_cannot_be_returned_is_an_error_that_names_it(self):
        self.assertEqual(self.refusal({"model": [1, object()]}),
                         'TypeError: result["model"][1]: cannot return a object; return numbers, strings, lists and '
                         "dicts of it, or save it and return the path")
        self.assertEqual(self.refusal({3: 1}), "TypeError: result: the keys of a dict must be strings, and 3 is not one; "
                                                "use str()")
        self.assertEqual(self.refusal("x" * (16 << 20)),
                         "ValueError: result: cannot return 16777263 bytes, at most 16777216 are possible; save it, "
                         "and return the path")

    def test_arrow_tables_are_returned_as_a_stream(self):
        try:
            import pyarrow
        except ImportError:
            self.skipTest("no pyarrow")
        report = self.result(give, pyarrow.table({"x": [1, 2]}))
        import base64
        stream = base64.b64decode(report["value"])
        self.assertEqual(report["encoding"], "arrow")
        self.assertEqual(pyarrow.ipc.open_stream(stream).read_all().to_pydict(), {"x": [1, 2]})

    def test_an_evaluator_calls_its_own_function(self):
        self.pack(give, "train", evaluator=lambda ctx: "evaluated by " + ctx.name)
        for task_type, value in ("worker", "train"), ("evaluator", "evaluated by evaluator/0"):
            end = self.run_task(TFC_JOB="j", TFC_TASK_TYPE=task_type, TFC_TASK_INDEX="0")
            self.assertEqual([report["value"] for report in end.reports], [value], end.err)

    def test_without_anybody_who_listens_it_runs_all_the_same(self):
        self.pack(give, 1)
        done = subprocess.run([sys.executable, "-m", "tfcluster.task"], cwd=self.bundle, env=self.environ(),
                              capture_output=True, timeout=tasks.PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class ErrorTest(tasks.TaskTest):

    def end(self, function, *args, **settings):
        self.pack(function, *args, **settings)
        return self.run_task()

    def test_an_exception_is_printed_as_a_script_prints_it(self):
        """The same function, called by a script: the traceback differs in the script's own frame alone."""
        end = self.end(fail)
        self.assertEqual(end.status, 1)
        script = self.dir / "script.py"
        script.write_text("import pickle\n"
                          f"call = pickle.load(open({str(self.bundle / 'tfcluster_function/function.pickle')!r}, 'rb'))\n"
                          "call['train'][0](None)\n")
        done = subprocess.run([sys.executable, script], env=self.environ(), capture_output=True, text=True,
                              timeout=tasks.PATIENCE)
        printed = [line for line in done.stderr.splitlines(keepends=True)]
        own = next(i for i, line in enumerate(printed) if "script.py" in line)
        after = next(i for i in range(own + 1, len(printed)) if printed[i].startswith("  File"))
        self.assertEqual(end.err, "".join(printed[:own] + printed[after:]))
        self.assertTrue(end.err.endswith("ValueError: bad shape\n"))

    def test_the_lines_of_a_notebooks_cell_are_shown(self):
        """Its file exists on no machine: Python knows it by linecache alone."""
        name, text = "<cell 1>", "def train(ctx):\n    import inspect\n    raise ValueError(inspect.getsource(train))\n"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        cell = {"__name__": "__main__"}
        exec(compile(text, name, "exec"), cell)
        end = self.end(cell["train"])
        self.assertEqual(end.reports[0]["message"], text)
        self.assertIn('  File "<cell 1>", line 3, in train\n    raise ValueError(inspect.getsource(train))\n', end.err)
        self.assertEqual(end.err, end.reports[0]["traceback"])

    def test_an_exception_is_reported_with_its_type_message_and_traceback(self):
        end = self.end(fail)
        self.assertEqual(end.reports, [{"kind": "error", "exception": "ValueError", "module": "builtins",
                                        "message": "bad shape", "traceback": end.err}])

    def test_another_python_is_refused_before_unpickling(self):
        self.pack(give, 1, python="3.9")
        (self.bundle / "tfcluster_function/function.pickle").write_bytes(b"not a pickle")
        end = self.run_task()
        mine = f"{sys.version_info.major}.{sys.version_info.minor}"
        self.assertEqual(end.status, 1)
        self.assertEqual(end.err, f"RuntimeError: {end.reports[0]['message']}\n")
        self.assertEqual(end.reports[0]["message"],
                         f"the function comes from Python 3.9, and this task's Python is {mine} ({sys.executable}); "
                         "name a Python 3.9 of the node with python=")

    def test_the_bundles_function_is_found_where_another_copy_of_the_package_comes_first(self):
        self.pack(give, 1)
        os.symlink(tasks.PACKAGE, self.dir / "tfcluster")
        end = self.run_task(cwd=self.dir)
        self.assertEqual([report["value"] for report in end.reports], [1], end.err)

    def test_a_module_that_is_missing_here_is_named_with_its_remedy(self):
        module = self.dir / "only_there.py"
        module.write_text("def train(ctx):\n    pass\n")
        sys.path.insert(0, str(self.dir))
        self.addCleanup(sys.path.remove, str(self.dir))
        import only_there
        end = self.end(only_there.train)
        self.assertEqual(end.status, 1)
        self.assertEqual(end.err, "ModuleNotFoundError: No module named 'only_there', which the function needs; "
                                  f"install it for {sys.executable}, name another Python with python=, or add the "
                                  "module to the bundle with bundle=\n")

    def test_sys_exit_gives_the_status_of_a_script(self):
        for status, expected, err in (3, 3, ""), ("no data", 1, "no data\n"), (0, 0, ""), (None, 0, ""):
            with self.subTest(status=status):
                end = self.end(leave, status)
                self.assertEqual((end.status, end.err), (expected, err))
                [report] = end.reports
                if expected:
                    self.assertEqual((report["exception"], report["message"]), ("SystemExit", str(status)))
                else:
                    self.assertEqual((report["kind"], report["value"]), ("result", None))

    def test_a_keyboard_interrupt_ends_it_by_the_signal(self):
        def interrupt(ctx):
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
        end = self.end(interrupt)
        self.assertEqual(end.status, -signal.SIGINT)
        self.assertTrue(end.err.endswith("KeyboardInterrupt\n"), end.err)
        self.assertNotIn("tfcluster", end.err)
        self.assertEqual(end.reports[0]["exception"], "KeyboardInterrupt")

    def test_an_exception_that_cannot_be_described_is_reported(self):
        def fail(ctx):
            class Broken(Exception):
                def __str__(self):
                    raise RuntimeError("no text")
            raise Broken()
        end = self.end(fail)
        self.assertEqual(end.status, 1)
        self.assertTrue(end.reports[0]["exception"].endswith("Broken"))

    def test_a_reader_that_left_changes_nothing(self):
        self.pack(give, "x" * 100000)
        report, report_end = os.pipe()
        os.close(report)
        done = subprocess.run([sys.executable, "-m", "tfcluster.task"], cwd=self.bundle, pass_fds=[report_end],
                              env=self.environ(TFC_REPORT_FD=str(report_end)), capture_output=True,
                              timeout=tasks.PATIENCE)
        os.close(report_end)
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class ProcessesTest(tasks.TaskTest):

    def test_processes_of_the_function_do_not_run_it_again(self):
        """multiprocessing imports the main module of a spawned child; the child's reports go nowhere."""
        (self.bundle / "helper.py").write_text(
            "import tfcluster\n"
            "def square(x):\n"
            "    tfcluster.context().report({'from': 'child'})\n"
            "    return x * x\n")

        def train(ctx, method):
            import multiprocessing

            import helper
            ctx.report({"from": "parent"})
            with multiprocessing.get_context(method).Pool(1) as pool:
                return pool.map(helper.square, [2, 3])
        for method in "fork", "spawn", "forkserver":
            with self.subTest(method=method):
                self.pack(train, method)
                end = self.run_task()
                self.assertEqual((end.status, end.err), (0, ""))
                self.assertEqual([report["value"] for report in end.of_kind("result")], [[4, 9]])
                self.assertEqual([report["values"]["from"] for report in end.of_kind("metrics")],
                                 ["parent"] + ["child"] * 2 * (method == "fork"))

    def test_the_programs_own_arguments_are_empty(self):
        def train(ctx):
            import argparse
            argparse.ArgumentParser().parse_args()
            return len(sys.argv)
        self.pack(train)
        self.assertEqual([report["value"] for report in self.run_task().reports], [1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
