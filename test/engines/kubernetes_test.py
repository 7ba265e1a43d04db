"""tfc_run allocation with what Kubernetes gives the pods of an indexed job: the variables, a network of their own for each
pod, and a DNS server with the names of a headless service. No Kubernetes runs. The manifests in examples/kubernetes are
checked against the schema of Kubernetes, if this Python has kubernetes-validate.
"""
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import unittest

for folder in ("run", "net"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))
import world
from harness import PATIENCE, TFC_RUN, wait_until

MANIFESTS = pathlib.Path(__file__).parents[2] / "examples/kubernetes"
PODS = 3
DOMAIN = "default.svc.cluster.local"


def closed(required=(), **properties):
    """The schema of an object that has no other keys."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


TEXT, NUMBER, FLAG, ANY = ({"type": name} for name in ("string", "integer", "boolean", "object"))
# The part of a JobSet that is not Kubernetes' own, as far as it is used here: the names and types of
# config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml in github.com/kubernetes-sigs/jobset, commit 08dfbdfd6827. The
# manifest was valid by the whole of that file, too.
JOBSET = closed(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"}, kind={"const": "JobSet"}, metadata=closed(("name",), name=TEXT),
    spec=closed(
        network=closed(enableDNSHostnames=FLAG, publishNotReadyAddresses=FLAG, subdomain=TEXT),
        failurePolicy=closed(maxRestarts=NUMBER),
        replicatedJobs={"type": "array", "items": closed(("name", "template"), name=TEXT, replicas=NUMBER, template=ANY)}))


class HeadlessService:
    """Answers queries for A records (RFC 1035) of names that it was told."""

    def __init__(self, host):
        self.addresses = {}
        self.socket = world.in_namespace(host.netns, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.socket.bind((host.address, 53))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            query, client = self.socket.recvfrom(512)
            if not query:
                return
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            kind, = struct.unpack_from("!H", query, at + 1)
            address = self.addresses.get(".".join(labels).lower())
            answers = b""
            if address and kind == 1:
                answers = struct.pack("!HHHIH", 0xc00c, 1, 1, 1, 4) + socket.inet_aton(address)
            flags = 0x8580 if address else 0x8583  # no such name
            self.socket.sendto(query[:2] + struct.pack("!HHHHH", flags, 1, bool(answers), 0, 0) + query[12:at + 5] + answers,
                               client)

    def close(self):
        self.socket.sendto(b"", self.socket.getsockname())  # ends the thread
        self.thread.join(PATIENCE)
        self.socket.close()


@unittest.skipUnless(world.is_possible(), "network namespaces need root")
class PodTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pods-")
        self.addCleanup(shutil.rmtree, self.dir)
        net = self.enterContext(world.World(PODS + 1))
        self.pods, dns = net.hosts[:PODS], net.hosts[PODS]
        self.service = HeadlessService(dns)
        self.addCleanup(self.service.close)
        for pod in self.pods:
            folder = pathlib.Path("/etc/netns", pod.netns)
            folder.mkdir(parents=True)
            self.addCleanup(shutil.rmtree, folder)
            (folder / "resolv.conf").write_text(f"nameserver {dns.address}\nsearch {DOMAIN} svc.cluster.local\n"
                                                "options ndots:5 timeout:1\n", encoding="ascii")
        status, self.key, _ = self.pods[0].call(["sh", "-c", f"{TFC_RUN} keygen {self.dir}/key >&2 && cat {self.dir}/key"])
        self.assertEqual(status, 0)

    def start(self, index, *args):
        """A pod whose name is known once it runs."""
        pod = self.pods[index]
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "TFC_KEY"))}
        env.update(JOB_COMPLETION_INDEX=str(index), TFC_KEY_DATA=self.key, HOME="/nonexistent",
                   KUBERNETES_SERVICE_HOST="10.96.0.1")
        with open(f"{self.dir}/{index}", "wb") as out, open(f"{self.dir}/{index}.err", "wb") as err:
            process = pod.start([TFC_RUN, "allocation", "--size", str(PODS), "--rendezvous", "digits-0.digits:7400",
                                 "--framework", "none", "--worker", str(PODS), *args], env=env, stdout=out, stderr=err)
        self.service.addresses[f"digits-{index}.digits.{DOMAIN}"] = pod.address
        return process

    def text(self, name="0"):
        return pathlib.Path(self.dir, name).read_text(encoding="utf-8")

    def test_pods_find_rank_0_by_its_name(self):
        args = ("--slots", "1", "--", "sh", "-c", "hostname -I | tr -d '\\n'; echo with ${TFC_KEY_DATA-no key}")
        pods = [self.start(index, *args) for index in (2, 1)]
        wait_until(lambda: "cannot resolve host name" in self.text("1.err"), "the message about the missing name")
        pods.append(self.start(0, *args))
        self.assertEqual([pod.wait(PATIENCE) for pod in pods], [0, 0, 0], self.text("0.err"))
        found = sorted(line.split("] ")[1] for line in self.text().splitlines())
        self.assertEqual(found, [f"{pod.address} with no key" for pod in self.pods])
        self.assertRegex(self.text("0.err"), r"tfc_run: rank 0 of 3 in Kubernetes \(kubernetes\), with \d+ CPUs?, ")

    def test_a_deleted_pod_is_replaced_and_joins_again(self):
        args = ("--slots", "2", "--", "sh", "-c", "trap 'echo stopping; exit 0' TERM; echo up $TFC_TASK_INDEX; "
                                                  "while :; do sleep 0.1; done")
        pods = [self.start(index, *args) for index in range(PODS)]
        wait_until(lambda: self.text().count(" up ") == PODS, "the tasks")
        pods[1].send_signal(signal.SIGTERM)
        self.assertEqual(pods[1].wait(PATIENCE), 143)
        wait_until(lambda: self.text().count(" up ") > PODS, "the moved task")
        self.assertIn("stopping", self.text())
        pods[1] = self.start(1, *args)
        wait_until(lambda: "rank 1 has joined" in self.text("0.err"), "the new pod")
        pods[0].send_signal(signal.SIGTERM)
        self.assertEqual([pod.wait(PATIENCE) for pod in pods], [143] * PODS, self.text("0.err"))


@unittest.skipUnless(importlib.util.find_spec("kubernetes_validate"), "this Python has no kubernetes-validate")
class ManifestTest(unittest.TestCase):
    VERSION = "1.31"

    def read(self, name):
        import yaml
        return list(yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8")))

    def validate(self, document):
        import kubernetes_validate
        kubernetes_validate.validate(document, self.VERSION, strict=True)

    def assert_pods(self, job, rank_0):
        """The command has the job's own number and names."""
        spec = job["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual(spec["completions"], spec["parallelism"])
        command = spec["template"]["spec"]["containers"][0]["command"]
        self.assertEqual(command[:2], ["tfc_run", "allocation"])
        self.assertEqual(command[command.index("--size") + 1], str(spec["completions"]))
        self.assertEqual(command[command.index("--rendezvous") + 1], rank_0 + ":7400")

    def test_the_indexed_job(self):
        service, job = self.read("indexed-job.yaml")
        self.validate(service)
        self.validate(job)
        name = job["metadata"]["name"]
        self.assertEqual(service["spec"]["selector"], {"job-name": name})
        self.assertEqual(service["metadata"]["name"], job["spec"]["template"]["spec"]["subdomain"])
        self.assert_pods(job, f"{name}-0.{service['metadata']['name']}")

    def test_the_jobset(self):
        import jsonschema
        jobset, = self.read("jobset.yaml")
        jsonschema.validate(jobset, JOBSET)
        replicated, = jobset["spec"]["replicatedJobs"]
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": replicated["name"]}, **replicated["template"]}
        self.validate(job)
        self.assert_pods(job, f"{jobset['metadata']['name']}-{replicated['name']}-0-0.{jobset['spec']['network']['subdomain']}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
