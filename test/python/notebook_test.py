"""A notebook, executed without a screen: what its cells show, run again, and interrupted."""

import ast
import contextlib
import importlib.util
import os
import pathlib
import time
import unittest

try:
    import nbformat
    from nbclient import NotebookClient
except ImportError:
    nbformat = None

CELL_S = 120
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/python/digits.ipynb"
SLEEPER = "job = tfc.run(['/bin/sh', '-c', 'echo began; sleep 60'], framework='none', name='sleeper')"


@unittest.skipIf(nbformat is None, "nbclient is not installed")
class NotebookTest(unittest.TestCase):
    def setUp(self) -> None:
        self.notebook = nbformat.v4.new_notebook()
        self.client = NotebookClient(self.notebook, timeout=CELL_S, kernel_name="python3", allow_errors=True)
        self.kernel = contextlib.ExitStack()
        self.kernel.enter_context(self.client.setup_kernel())
        self.addCleanup(self.kernel.close)
        self.run_cell("import tfcluster as tfc")

    def begin_cell(self, source: str) -> "nbformat.NotebookNode":
        cell = nbformat.v4.new_code_cell(source)
        self.notebook.cells.append(cell)
        return cell

    def run_cell(self, source: str) -> "nbformat.NotebookNode":
        cell = self.begin_cell(source)
        return self.client.execute_cell(cell, len(self.notebook.cells) - 1)

    def text(self, cell: "nbformat.NotebookNode", stream: str) -> str:
        return "".join(output.text for output in cell.outputs if output.output_type == "stream" and output.name == stream)

    def shown(self, cell: "nbformat.NotebookNode", kind: str) -> str:
        """The last thing that the cell shows. An update replaces what is shown."""
        return str([output.data[kind] for output in cell.outputs if "data" in output and kind in output.data][-1])

    def test_output_streams_below_the_cell_that_waits(self) -> None:
        cell = self.run_cell("job = tfc.run(['/bin/sh', '-c', 'echo out; echo err >&2'], framework='none', workers=2)\n"
                             "job.result()")
        self.assertEqual(sorted(self.text(cell, "stdout").splitlines()), ["[worker/0] out", "[worker/1] out"])
        self.assertEqual(sorted(self.text(cell, "stderr").splitlines()),
                         ["[worker/0] err", "[worker/1] err", "tfcluster: succeeded"])

    def test_the_table_of_a_job_stays_up_to_date(self) -> None:
        self.run_cell("job = tfc.run(['/bin/sh', '-c', 'sleep 0.5; exit 3'], framework='none', output=False)")
        table = self.run_cell("job")
        self.assertIn("<table>", self.shown(table, "text/html"))
        self.run_cell("job.wait()")
        self.assertIn("failed: worker/0 exited with 3", self.shown(table, "text/plain"))
        self.assertIn("worker/0 exited with 3", self.shown(table, "text/html"))

    def test_the_loop_of_the_kernel_drives_a_job(self) -> None:
        self.run_cell("job = tfc.run(['/bin/sh', '-c', 'sleep 0.3'], framework='none')")
        cell = self.run_cell("import asyncio\nwhile not job.done(): await asyncio.sleep(0.05)\nprint(job.state)")
        self.assertEqual(self.text(cell, "stdout"), "succeeded\n")

    def test_a_cell_that_runs_again_stops_its_job_of_before(self) -> None:
        self.run_cell(SLEEPER)
        self.run_cell("first = job")
        again = self.run_cell(SLEEPER)
        states = self.run_cell("print(first.state, job.done(), first.id)")
        state, is_done, name = self.text(states, "stdout").split()
        self.assertEqual((state, is_done), ("stopped", "False"))
        self.assertIn(f"tfcluster: stopping job {name}, which this cell has started before", self.text(again, "stderr"))

    def test_a_cell_may_start_several_jobs(self) -> None:
        sweep = ("jobs = [tfc.run(['/bin/sleep', '60'], framework='none', output=False) for _ in range(2)]\n"
                 "print(jobs[0].done(), jobs[0].id, jobs[1].id)")
        first = self.run_cell(sweep)
        is_done, *names = self.text(first, "stdout").split()
        self.assertEqual((is_done, self.text(first, "stderr")), ("False", ""))
        again = self.run_cell(sweep)
        self.assertEqual(self.text(again, "stdout").split()[0], "False")
        self.assertEqual(self.text(again, "stderr").splitlines(),
                         [f"tfcluster: stopping job {name}, which this cell has started before" for name in names])

    def test_an_edited_function_runs_in_tasks_that_one_process_forks(self) -> None:
        """The task returns whether its shim was forked together with it, and the place of a module."""
        source = ("def function(ctx):\n"
                  "    import os, sys\n"
                  "    words = open(f'/proc/{{os.getppid()}}/cmdline').read().split('\\0')[:-1]\n"
                  "    return {value}, words == ['tfc-shim', str(os.getpid())], id(sys.modules['xml.dom.minidom'])\n"
                  "tfc.run(function, gateway=client, warm=['xml.dom.minidom'], output=False).result()")
        self.run_cell("client = tfc.local()")
        cell = self.run_cell(source.format(value=1))
        first = ast.literal_eval(self.shown(cell, "text/plain"))
        cell.source = source.format(value=2)
        self.client.execute_cell(cell, self.notebook.cells.index(cell))
        second = ast.literal_eval(self.shown(cell, "text/plain"))
        self.assertEqual((first[:2], second[:2]), ([1, True], [2, True]))
        self.assertEqual(first[2], second[2], "another process has imported the module again")

    def test_an_interrupted_cell_leaves_its_job(self) -> None:
        self.run_cell(SLEEPER)
        self.run_cell("import os, signal, threading\n"
                      "timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))")
        cell = self.run_cell("timer.start()\njob.result()")
        self.assertEqual([output.ename for output in cell.outputs if output.output_type == "error"], ["KeyboardInterrupt"])
        self.assertIn("goes on in this process; result() follows it again, stop() stops it", self.text(cell, "stderr"))
        state = self.run_cell("print(job.done()); job.stop(); print(job.state)")
        self.assertEqual(self.text(state, "stdout").split(), ["False", "stopped"])

    def test_an_interrupted_await_leaves_its_job(self) -> None:
        self.run_cell(SLEEPER)
        cell = self.run_cell("import asyncio\nasyncio.get_running_loop().call_later(0.5, asyncio.current_task().cancel)\n"
                             "await job")
        self.assertEqual([output.ename for output in cell.outputs if output.output_type == "error"], ["CancelledError"])
        self.assertIn("goes on in this process; result() follows it again, stop() stops it", self.text(cell, "stderr"))

    def test_no_process_is_left_when_the_kernel_ends(self) -> None:
        cell = self.run_cell(SLEEPER + "\nprint(job.describe().tasks[0].pid)")
        task = int(self.text(cell, "stdout").split()[-1])
        self.kernel.close()
        deadline = time.monotonic() + 20
        while os.path.exists(f"/proc/{task}"):
            self.assertLess(time.monotonic(), deadline, "the task of an ended kernel still runs")
            time.sleep(0.05)


@unittest.skipIf(nbformat is None, "nbclient is not installed")
@unittest.skipUnless(importlib.util.find_spec("tensorflow"), "TensorFlow is not installed")
class ExampleTest(unittest.TestCase):
    def test_the_example_trains_and_returns_the_accuracy(self) -> None:
        notebook = nbformat.read(EXAMPLE, as_version=4)
        NotebookClient(notebook, timeout=CELL_S, kernel_name="python3").execute()
        *_, table, result, metrics = [cell for cell in notebook.cells if cell.cell_type == "code"]
        self.assertIn("<td style=\"text-align:left\">worker/1</td>", table.outputs[-1].data["text/html"])
        value = ast.literal_eval(result.outputs[-1].data["text/plain"])
        self.assertEqual(value["workers"], 2)
        self.assertGreater(value["accuracy"], 0.8)
        self.assertEqual(sorted(ast.literal_eval(metrics.outputs[-1].data["text/plain"])), ["worker/0", "worker/1"])


if __name__ == "__main__":
    unittest.main()
