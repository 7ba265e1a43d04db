"""Real TensorFlow and real TensorBoard on held ports."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

SERVER = """
import tensorflow as tf
server = tf.distribute.Server({"worker": ["localhost:%d"]}, job_name="worker", task_index=0)
print("serving", flush=True)
server.join()
"""
PATIENCE = 120  # seconds: several of these start at once on a small machine


class Keeper:
    """The C program that holds the port."""

    def __init__(self, program):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline().split()
        while line and line[0] == "port":  # an intruder, in detail
            line = self.process.stdout.readline().split()
        assert line and line[0] == "ok", line
        return line[1:]

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class Task:
    """A process whose output is watched for one line."""

    def __init__(self, argv):
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"}
        env.pop("TF_GRPC_REUSE_PORT", None)
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, env=env, start_new_session=True)
        self.output = []

    def wait_for(self, text):
        """True once the line is there; False when the output ends without it."""
        timer = threading.Timer(PATIENCE, self.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                self.output.append(line)
                if text in line:
                    return True
            return False
        finally:
            timer.cancel()

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end(self):
        self.kill()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class HeldPorts(unittest.TestCase):
    program = ""

    def setUp(self):
        self.keeper = Keeper(self.program)
        self.addCleanup(self.keeper.end)
        self.port = int(self.keeper.tell("acquire", 0)[0])

    def launch(self, argv, line):
        task = Task(argv)
        self.addCleanup(task.end)
        self.assertTrue(task.wait_for(line), "".join(task.output[-20:]))
        return task

    def assert_alone(self, task):
        count, _, _, is_ours, *_ = self.keeper.tell("listener", task.process.pid)
        self.assertEqual((int(count), is_ours), (1, "1"))
        self.assertEqual(self.keeper.tell("intruders"), ["0"])

    def run_twice_on_one_port(self, argv, line, use):
        """The walk of a task: strangers refused before, while and after; killed; same port."""
        for _ in range(2):
            self.assertEqual(self.keeper.tell("intruders"), ["0"])
            self.keeper.tell("admit", 1)
            task = self.launch(argv, line)
            self.keeper.tell("admit", 0)
            self.assert_alone(task)
            use()
            task.end()

    def test_server_serves_on_a_held_port_again_after_a_kill(self):
        def use():
            self.connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
            self.addCleanup(self.connection.close)
        self.run_twice_on_one_port([sys.executable, "-c", SERVER % self.port], "serving", use)

    def test_server_is_kept_out_by_a_closed_door(self):
        task = Task([sys.executable, "-c", SERVER % self.port])
        self.addCleanup(task.end)
        self.assertFalse(task.wait_for("serving"))
        self.assertIn("Could not start gRPC server", "".join(task.output))

    @unittest.skipUnless(importlib.util.find_spec("tensorboard"), "no tensorboard")
    def test_tensorboard_serves_on_a_held_port_again_after_a_kill(self):
        logs = tempfile.TemporaryDirectory()
        self.addCleanup(logs.cleanup)

        def use():
            url = f"http://127.0.0.1:{self.port}/"
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                self.assertEqual(answer.status, 200)
        argv = [sys.executable, "-m", "tensorboard.main", "--logdir", logs.name,
                "--port", str(self.port), "--bind_all"]
        self.run_twice_on_one_port(argv, "Press CTRL+C to quit", use)


if __name__ == "__main__":
    if not importlib.util.find_spec("tensorflow"):
        print("no tensorflow in", sys.executable)
        sys.exit(77)
    HeldPorts.program = sys.argv.pop(1)
    unittest.main(verbosity=2)
