"""Progress bars of the real libraries: bars_test.py tqdm, bars_test.py keras. Each task's bar has one row
on a terminal while it runs, and a file has one line per finished bar."""
import importlib.util
import os
import re
import sys

import harness
from progress_test import screen

LIBRARY = sys.argv.pop(1)
PRELUDE = """
import os
step = os.open("{dir}/step" + os.environ["TFC_TASK_INDEX"], os.O_RDONLY)
"""
# The format leaves out the times. A byte from `step` allows the next state.
TQDM = PRELUDE + """
from tqdm import tqdm
OPTIONS = {"mininterval": 0, "ncols": 40, "bar_format": "{desc}{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}"}
"""
TWO_BARS = TQDM + """
for name in "one", "two":
    for i in tqdm(range(3), desc=name, **OPTIONS):
        os.read(step, 1)
"""
NESTED = TQDM + """
for epoch in tqdm(range(2), desc="epoch", **OPTIONS):
    for batch in tqdm(range(3), desc="batch", leave=LEAVE, **OPTIONS):
        os.read(step, 1)
"""
# Keras shows a state at most every 50 ms; a batch takes longer. stderr has messages of TensorFlow.
KERAS = PRELUDE + """
os.dup2(os.open("{dir}/errors" + os.environ["TFC_TASK_INDEX"], os.O_WRONLY | os.O_CREAT), 2)
import time, keras, numpy as np
class Steps(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        os.read(step, 1)
        time.sleep(0.06)
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile(loss="mse", optimizer="sgd")
model.fit(np.ones((16, 4)), np.ones((16, 1)), batch_size=4, epochs=2, verbose=1, callbacks=[Steps()],
          validation_split=0.25)
"""
COLOR = r"\x1b\[\d*m"


class BarsTest(harness.RunTest):
    def begin(self, program, **options):
        self.steps = [self.make_fifo(f"step{i}") for i in range(2)]
        env = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        return self.start("--framework", "none", "--color", "never", "--worker", "2", "--", sys.executable,
                          self.write("bars.py", program.replace("{dir}", self.dir)), env=env, **options)

    def step(self, task, count=1):
        os.write(self.steps[task], b"x" * count)

    def rows_of(self, text, task):
        """The rows of a task behind its prefix."""
        return [row[len("[worker/0] "):] for row in text if row.startswith(f"[worker/{task}]")]

    def await_last_rows(self, run, *patterns):
        """Until each task's last row is the pattern, at the same time."""
        def shows():
            run.read(0.05)
            rows = [self.rows_of(screen(run.out), task) for task in (0, 1)]
            return all(each and re.fullmatch(pattern, each[-1]) for each, pattern in zip(rows, patterns))
        try:
            harness.wait_until(shows, patterns)
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(screen(run.out)))

    def assert_rows(self, rows, *patterns):
        """Of either task."""
        for task in (0, 1):
            found = self.rows_of(rows, task)
            self.assertEqual(len(found), len(patterns), found)
            for text, pattern in zip(found, patterns):
                self.assertRegex(text, f"^(?:{pattern})$")

    def run_into_file(self, program, steps):
        """The lines of a file that has both streams of tfc_run."""
        path = os.path.join(self.dir, "out")
        with open(path, "wb") as file:
            run = self.begin(program, stdout=file)
            for task in (0, 1):
                self.step(task, steps)
            run.end()
        self.assertEqual(run.status, 0, run.err)
        with open(path, encoding="utf-8", newline="\n") as file:
            text = file.read() + run.err.decode()
        self.assertNotRegex(text, r"[\r\b]|\x1b\[A")
        return re.sub(COLOR, "", text).splitlines()


class TqdmTest(BarsTest):
    def test_bars_on_a_terminal(self):
        run = self.begin(TWO_BARS, on_terminal=True)
        self.await_last_rows(run, r"one  0%\|.*\| 0/3", r"one  0%\|.*\| 0/3")
        self.step(1)
        self.await_last_rows(run, r"one  0%\|.*\| 0/3", r"one 33%\|█.*\| 1/3")
        self.step(0, 4)
        self.await_last_rows(run, r"two 33%\|█.*\| 1/3", r"one 33%\|█.*\| 1/3")
        self.step(0, 2)
        self.step(1, 5)
        self.assertEqual(run.end().status, 0)
        self.assert_rows(screen(run.out), r"one100%\|█+\| 3/3", r"two100%\|█+\| 3/3")

    def test_a_file_has_one_line_per_bar(self):
        self.assert_rows(self.run_into_file(TWO_BARS, 6), r"one100%\|█+\| 3/3", r"two100%\|█+\| 3/3")

    def test_nested_bars_on_a_terminal(self):
        run = self.begin(NESTED.replace("LEAVE", "False"), on_terminal=True)
        for done, percent in enumerate((" 0", "33", "67")):
            self.await_last_rows(run, *[rf"batch {percent}%\|.*\| {done}/3"] * 2)
            self.assert_rows(screen(run.out), r"epoch  0%\|.*", "batch.*")
            for task in (0, 1):
                self.step(task)
        self.await_last_rows(run, *[r"batch  0%\|.*\| 0/3"] * 2)
        for task in (0, 1):
            self.step(task, 3)
        self.assertEqual(run.end().status, 0)
        self.assert_rows(screen(run.out), "epoch  0%.*", "epoch 50%.*", r"epoch100%\|█+\| 2/2")

    def test_nested_bars_in_a_file(self):
        outer = ["epoch  0%.*", "epoch 50%.*", r"epoch100%\|█+\| 2/2"]
        lines = self.run_into_file(NESTED.replace("LEAVE", "False"), 6)
        self.assert_rows(lines, *outer)

    def test_nested_bars_that_stay_in_a_file(self):
        inner = r"batch100%\|█+\| 3/3"
        lines = self.run_into_file(NESTED.replace("LEAVE", "True"), 6)
        self.assert_rows(lines, "epoch  0%.*", inner, "epoch 50%.*", inner, r"epoch100%\|█+\| 2/2")

    def test_a_bar_that_is_erased_leaves_no_line(self):
        program = TWO_BARS.replace("desc=name", "desc=name, leave=False")
        self.assert_rows(self.run_into_file(program, 6))

    def test_a_bar_that_is_erased_leaves_no_row(self):
        run = self.begin(TWO_BARS.replace("desc=name", "desc=name, leave=False") + "os.read(step, 1)",
                         on_terminal=True)
        for task in (0, 1):
            self.step(task, 5)
        self.await_last_rows(run, r"two 67%\|.*\| 2/3", r"two 67%\|.*\| 2/3")
        for task in (0, 1):
            self.step(task)
        def are_gone():
            run.read(0.05)
            return not any(row.startswith("[worker") for row in screen(run.out))
        harness.wait_until(are_gone, "no rows")
        for task in (0, 1):
            self.step(task)
        self.assertEqual(run.end().status, 0)
        self.assert_rows(screen(run.out))


class KerasTest(BarsTest):
    FINISHED = ["Epoch 1/2", r"3/3 ━+ \d+s \S+/step - loss: \S+ - val_loss: \S+",
                "Epoch 2/2", r"3/3 ━+ \d+s \S+/step - loss: \S+ - val_loss: \S+"]

    def test_bars_on_a_terminal(self):
        run = self.begin(KERAS, on_terminal=True)
        self.await_last_rows(run, "Epoch 1/2", "Epoch 1/2")
        self.step(1)
        self.await_last_rows(run, "Epoch 1/2", r"1/3 ━+ .*s/step - loss: \S+")
        self.step(0)
        self.await_last_rows(run, *[r"1/3 ━+ .*s/step - loss: \S+"] * 2)
        self.step(0)
        self.await_last_rows(run, r"2/3 ━+ .*s/step - loss: \S+", r"1/3 ━+ .*s/step - loss: \S+")
        for row in screen(run.out):
            self.assertNotIn("[A", row)
        self.step(0, 4)
        self.step(1, 5)
        self.assertEqual(run.end().status, 0)
        self.assert_rows(screen(run.out), *self.FINISHED)

    def test_a_file_has_one_line_per_bar(self):
        self.assert_rows(self.run_into_file(KERAS, 6), *self.FINISHED)


if __name__ == "__main__":
    if not importlib.util.find_spec(LIBRARY):
        print(f"{sys.executable} lacks {LIBRARY}")
        sys.exit(77)
    harness.unittest.main(verbosity=2, argv=[sys.argv[0], {"tqdm": "TqdmTest", "keras": "KerasTest"}[LIBRARY],
                                             *sys.argv[1:]])
