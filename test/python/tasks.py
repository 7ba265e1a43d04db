"""What the tests of a task's side share: a bundle with a function, and a task that runs it, without a job."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "bindings/python/tfcluster"
PATIENCE = 60  # seconds until something awaited counts as never coming

try:
    import cloudpickle
except ImportError:
    print(f"{sys.executable} lacks cloudpickle (meson option tf_python)")
    sys.exit(77)


sys.path.insert(0, str(PACKAGE.parent))
from tfcluster import _sources  # noqa: E402


class Ended:
    """A task's end: its exit status (-N after signal N), output, and reports."""

    def __init__(self, status, out, err, reports):
        self.status, self.out, self.err, self.reports = status, out, err, reports

    def of_kind(self, kind):
        return [report for report in self.reports if report["kind"] == kind]


class TaskTest(unittest.TestCase):
    """Each test has a directory, with a bundle in it that `pack` fills."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tfc-task-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.bundle = self.dir / "bundle"
        self.bundle.mkdir()
        shutil.copytree(PACKAGE, self.bundle / "tfcluster", ignore=shutil.ignore_patterns("__pycache__"))
        os.symlink(os.path.dirname(cloudpickle.__file__), self.bundle / "cloudpickle")

    def pack(self, function, *args, evaluator=None, python=None, **settings):
        """Makes the function that of the bundle."""
        inside = self.bundle / "tfcluster_function"
        inside.mkdir(exist_ok=True)
        calls: dict[str, tuple[object, tuple[object, ...], dict[str, object]]] = {"train": (function, args, {})}
        if evaluator:
            calls["evaluator"] = (evaluator, (), {})
        with open(inside / "function.pickle", "wb") as file:
            (inside / "sources.json").write_text(json.dumps(_sources.dump(cloudpickle, calls, file)))
        version = python or f"{sys.version_info.major}.{sys.version_info.minor}"
        (inside / "function.json").write_text(json.dumps({"python": version, **settings}))

    def environ(self, **variables):
        environ = {name: value for name, value in os.environ.items()
                   if not name.startswith(("TFC_", "TF_CONFIG", "TF_CLUSTER"))}
        return {**environ, "PYTHONPATH": str(self.bundle), "PYTHONUNBUFFERED": "1", **variables}

    def run_task(self, argv=("-m", "tfcluster.task"), cwd=None, **variables):
        """Runs a task to its end, and reads its reports."""
        report, report_end = os.pipe()
        with open(report, "rb") as reports:
            with subprocess.Popen([sys.executable, *argv], cwd=cwd or self.bundle, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[report_end],
                                  env=self.environ(TFC_REPORT_FD=str(report_end), **variables)) as task:
                os.close(report_end)
                lines = reports.read()
                out, err = task.communicate(timeout=PATIENCE)
        return Ended(task.returncode, out.decode(), err.decode(), [json.loads(line) for line in lines.splitlines()])
