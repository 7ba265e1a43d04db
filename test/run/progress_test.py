"""Progress bars, which write carriage returns: on a terminal each task's bar shows its state in a row
of its own while it runs; a file or pipe has one line per finished bar."""
import os
import re

import clients_test
import harness

# As tqdm does: a carriage return before each state, on stderr. A byte from `step` allows the next.
TQDM = r"""
import os, sys
step = os.open("{dir}/step" + os.environ["TFC_TASK_INDEX"], os.O_RDONLY)
for i in range(3):
    sys.stderr.write("\r%3d%%|" % (i * 50) + "█" * i + " " * (2 - i) + "| %d/2" % i)
    sys.stderr.flush()
    os.read(step, 1)
sys.stderr.write("\n")
print("done")
"""
# As Keras does: backspaces and a carriage return, colors, on stdout.
KERAS = r"""
import os, sys
step = os.open("{dir}/step" + os.environ["TFC_TASK_INDEX"], os.O_RDONLY)
print("Epoch 1/1")
width = 0
for i in range(1, 4):
    text = "%d/3 %s - loss: 0.%d" % (i, "━" * i, 9 - i)
    sys.stdout.write("\b" * width + "\r\x1b[1m%s\x1b[0m" % text + ("\n" if i == 3 else ""))
    sys.stdout.flush()
    width = len(text)
    os.read(step, 1)
"""


def screen(data):
    """The rows that a terminal shows after `data`; of its escape sequences, those that tfc_run writes."""
    rows, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\n\b]|[^\x1b\r\n\b]", data.decode()):
        if token == "\r":
            column = 0
        elif token == "\b":
            column = max(column - 1, 0)
        elif token == "\n":
            row += 1
            rows.extend([""] * (row + 1 - len(rows)))
        elif token == "\x1b[A":
            row = max(row - 1, 0)
        elif token == "\x1b[K":
            rows[row] = rows[row][:column]
        elif token.startswith("\x1b"):
            assert re.fullmatch(r"\x1b\[([0-9;]*m|\?7[lh])", token), repr(token)
        else:
            rows[row] = rows[row][:column].ljust(column) + token + rows[row][column + 1:]
            column += 1
    return [text.rstrip() for text in rows]



class Bars:
    def program(self, text):
        self.steps = [self.make_fifo(f"step{i}") for i in range(2)]
        return self.write("bar.py", text.replace("{dir}", self.dir))

    def step(self, task):
        os.write(self.steps[task], b"x")

    def await_screen(self, run, *rows):
        """Until the terminal shows these rows below each other, somewhere, and what it shows;
        a list has the texts that a row may have."""
        def shows():
            run.read(0.05)
            shown = screen(run.out)
            for i in range(len(shown) - len(rows) + 1):
                if all(text in ([row] if isinstance(row, str) else row)
                       for text, row in zip(shown[i:], rows)):
                    return shown[i:i + len(rows)]
        try:
            return harness.wait_until(shows, rows)
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(screen(run.out)))

    def follow_bars(self, run):
        """Both tasks' bars, each in a row of its own, whichever moves."""
        either = [f"[worker/{i}]   0%|  | 0/2" for i in range(2)]
        rows = self.await_screen(run, either, either)
        self.assertNotEqual(rows[0], rows[1])
        first = 0 if "worker/0" in rows[0] else 1
        self.step(1 - first)
        rows[1] = rows[1].replace("  0%|  | 0/2", " 50%|█ | 1/2")
        self.await_screen(run, *rows)
        self.step(first)
        rows[0] = rows[0].replace("  0%|  | 0/2", " 50%|█ | 1/2")
        self.await_screen(run, *rows)
        for task in (0, 0, 1, 1):
            self.step(task)
        run.end()
        self.assertEqual(run.status, 0)
        shown = [row for row in screen(run.out) if row.startswith("[")]
        self.assertEqual(sorted(shown), ["[worker/0] 100%|██| 2/2", "[worker/0] done",
                                         "[worker/1] 100%|██| 2/2", "[worker/1] done"])
        self.assertFalse([row for row in screen(run.out) if "50%" in row or "  0%" in row])


class LocalTest(Bars, harness.RunTest):
    def start_bars(self, text, workers, *args, **options):
        return self.start("--framework", "none", "--worker", str(workers), *args, "--", "python3",
                          self.program(text), **options)

    def test_bars_of_two_tasks_on_a_terminal(self):
        self.follow_bars(self.start_bars(TQDM, 2, on_terminal=True))

    def test_a_bar_of_keras_on_a_terminal(self):
        run = self.start_bars(KERAS, 1, on_terminal=True)
        self.await_screen(run, "[worker/0] Epoch 1/1", "[worker/0] 1/3 ━ - loss: 0.8")
        self.step(0)
        self.await_screen(run, "[worker/0] Epoch 1/1", "[worker/0] 2/3 ━━ - loss: 0.7")
        self.step(0)
        self.step(0)
        run.end()
        self.assertEqual(screen(run.out)[-4:], ["[worker/0] Epoch 1/1", "[worker/0] 3/3 ━━━ - loss: 0.6",
                                                "tfc_run: succeeded", ""])

    def test_a_bar_takes_one_row_however_wide_it_is(self):
        run = self.start_bars(TQDM.replace('"| %d/2" % i', '"| %d/2" % i + "x" * 500'), 1, "--color", "never",
                              on_terminal=True)
        self.await_screen(run, ("[worker/0]   0%|  | 0/2" + "x" * 500)[:200])
        for _ in range(3):
            self.step(0)
        run.end()
        self.assertIn("[worker/0] 100%|██| 2/2" + "x" * 500, screen(run.out))
        self.assertNotIn(b"0%|  | 0/2" + b"x" * 300, run.out)

    def test_no_rows_on_a_dumb_terminal(self):
        run = self.start_bars(TQDM, 1, on_terminal=True, env={"TERM": "dumb"})
        for _ in range(3):
            self.step(0)
        run.end()
        self.assertNotIn(b"\033[A", run.out)
        self.assertIn("[worker/0] 100%|██| 2/2", screen(run.out))

    def assert_lines_of_a_pipe(self, program, lines):
        run = self.start_bars(program, 1, "--quiet")
        for _ in range(3):
            self.step(0)
        run.end()
        self.assertEqual(run.lines() + run.errors(), lines)

    def test_a_pipe_has_one_line_per_bar_of_tqdm(self):
        self.assert_lines_of_a_pipe(TQDM, ["[worker/0] done", "[worker/0] 100%|██| 2/2"])

    def test_a_pipe_has_one_line_per_bar_of_keras(self):
        self.assert_lines_of_a_pipe(KERAS, ["[worker/0] Epoch 1/1",
                                            "[worker/0] \x1b[1m3/3 ━━━ - loss: 0.6\x1b[0m"])

    def test_json_has_finished_lines(self):
        run = self.start_bars(TQDM, 1, "--json", on_terminal=True)
        for _ in range(3):
            self.step(0)
        run.end()
        self.assertEqual({event["text"] for event in run.events() if event["event"] == "output"},
                         {"100%|██| 2/2", "done"})
        self.assertNotIn("progress", [event["event"] for event in run.events()])

    def test_a_bar_that_ends_in_the_middle_is_a_line(self):
        run = self.start_bars("import sys; sys.stderr.write('\\r 10%'); sys.stderr.write('\\r 20%')", 1)
        run.end()
        self.assertEqual(run.errors()[0], "[worker/0]  20%")

    def test_windows_line_ends_end_lines(self):
        run = self.start_bars("import sys; sys.stdout.write('one\\r\\ntwo\\r\\n')", 1)
        self.assertEqual(run.end().lines(), ["[worker/0] one", "[worker/0] two"])


class NodesTest(Bars, clients_test.ClientsTest):
    names = "ab"

    def start_bars(self, *args):
        run = self.ask("start", "--detach", "--framework", "none", *args, "--", "python3",
                       self.program(TQDM))
        self.assertEqual(run.status, 0, run.err)
        return run.lines()[0]

    def test_bars_of_tasks_on_two_nodes_by_way_of_the_other_node(self):
        job = self.start_bars("--worker", "2")
        self.follow_bars(self.begin("attach", job, at="b", on_terminal=True))

    def test_logs_shows_a_bar_and_leaves_nothing_of_it_on_the_terminal(self):
        job = self.start_bars()
        run = self.begin("logs", "-f", job, on_terminal=True)
        self.await_screen(run, "[worker/0]   0%|  | 0/2")
        self.step(0)
        self.await_screen(run, "[worker/0]  50%|█ | 1/2")
        os.write(run.master, b"\x03")
        run.end()
        self.assertEqual("".join(screen(run.out)).replace("^C", ""), "")
        self.step(0)
        self.step(0)
        self.assertEqual(self.ask("attach", job).errors()[0], "[worker/0] 100%|██| 2/2")


if __name__ == "__main__":
    harness.main()
