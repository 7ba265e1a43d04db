"""Every variable that is read while TensorFlow is imported makes another zygote, unless it is known to be harmless."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

RECORDER, KEY_C = sys.argv.pop(1), sys.argv.pop(1)

IMPORT = """
import os, sys

class Recorded(type(os.environ)):
    def __getitem__(self, name):
        if isinstance(name, str):
            with open(self._data[b'RECORDED_NAMES'], 'a') as file: file.write(name + '\\n')
        return super().__getitem__(name)

os.environ.__class__ = Recorded
import tensorflow, numpy, pyarrow, tf_keras, cloudpickle
"""

HARMLESS = {
    # A test's, a developer's or a build's.
    "ACC_DEVICE_NUM", "ACC_DEVICE_TYPE", "IN_SPHINX_RUN", "LLVM_OVERRIDE_PRODUCER", "PSUTIL_DEBUG", "PSUTIL_TESTING",
    "TEST_RANDOM_SEED", "TEST_SRCDIR", "TEST_TMPDIR", "RECORDED_NAMES", "SOURCE_DATE_EPOCH", "__PYVENV_LAUNCHER__",
    # Of notebooks and terminals.
    "IPYTHON_TESTING_TIMEOUT_SCALE", "TERM", "TRAITLETS_APPLICATION_RAISE_CONFIG_FILE_ERROR",
    "TEMP", "TMP",  # the module tempfile is renewed
    "ENABLE_RUNTIME_UPTIME_TELEMETRY",  # TensorFlow sets it
}


def table(name):
    with open(KEY_C, encoding="utf-8") as file:
        return re.findall(r'"([^"]+)"', re.search(rf"{name}\[\] = {{([^}}]*)}}", file.read())[1])


def is_named(name, names):
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in names)


class ImportVariablesTest(unittest.TestCase):
    def test_what_an_import_reads_makes_another_zygote(self):
        with tempfile.TemporaryDirectory() as home:  # Keras writes a file there
            names = os.path.join(home, "names")
            subprocess.run([sys.executable, "-c", IMPORT], check=True, stderr=subprocess.DEVNULL,
                           env={"RECORDED_NAMES": names, "LD_PRELOAD": RECORDER, "HOME": home})
            with open(names, encoding="utf-8") as file:
                read = {line.rstrip("\n") for line in file}
        self.assertIn("TF_CPP_MIN_LOG_LEVEL", read)  # by a library
        self.assertIn("TF_USE_LEGACY_KERAS", read)  # by a module
        known = table("keyed") + table("base") + sorted(HARMLESS)
        self.assertEqual([name for name in sorted(read) if not is_named(name, known)], [])


if __name__ == "__main__":
    unittest.main()
