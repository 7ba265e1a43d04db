"""The systemd unit of `tfc_run node`, and what the node reports to systemd."""
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import unittest

import harness

UNIT = pathlib.Path(os.environ["TFC_UNIT"]).read_text()


class ServiceTest(harness.RunTest):
    def unit(self):
        """Of the program that is tested, which is not installed."""
        return re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={harness.TFC_RUN}", UNIT)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_the_unit_is_valid(self):
        path = self.write("tfcluster-node.service", self.unit())
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True,
                              timeout=harness.PATIENCE)
        # systemd before 254 ignores the key
        errors = [line for line in done.stderr.splitlines() if "'DelegateSubgroup'" not in line]
        self.assertEqual((done.returncode, errors), (0, []))

    def test_the_node_reports_its_states(self):
        for name in f"{self.dir}/notify", f"@tfc-test-{os.getpid()}":
            with self.subTest(name=name), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as states:
                states.bind(name.replace("@", "\0"))
                states.settimeout(harness.PATIENCE)
                self.serve(name, states)

    def serve(self, name, states):
        config = self.write("node.json", "{}")
        line = re.search("(?m)^ExecStart=(.*)$", self.unit())[1]
        args = shlex.split(line.replace("%S", self.dir).replace("/etc/tfcluster/node.json", config))
        node = harness.Run([*args[1:], "--ports", self.ports], dict(self.env, NOTIFY_SOCKET=name), self.dir)
        self.runs.append(node)
        self.assertEqual(states.recv(4096), b"READY=1")
        run = self.run_bare("start", "--gateway", f"unix:{self.dir}/tfcluster/node.sock", "--framework", "none",
                            "--no-prefix", "--", "sh", "-c", "echo ${NOTIFY_SOCKET-none}")
        self.assertEqual((run.status, run.lines()[1:]), (0, ["none"]), run.err)
        node.process.send_signal(signal.SIGTERM)
        self.assertEqual(states.recv(4096), b"STOPPING=1\nSTATUS=leaving the cluster")
        self.assertEqual(node.end().status, 0)

    def test_a_service_manager_that_does_not_listen_is_no_reason_to_end(self):
        node = harness.Run(["node", "--state", "state", "--ports", self.ports],
                           dict(self.env, NOTIFY_SOCKET="/no/such"), self.dir)
        self.runs.append(node)
        node.await_output("cannot connect to the service manager: No such file or directory", "err")
        node.await_output("is ready", "err")
        node.process.send_signal(signal.SIGTERM)
        self.assertEqual(node.end().status, 0)


if __name__ == "__main__":
    harness.main()
