"""What the gateway's requests return, through ctypes, as a binding sees it: the JSON of each reply is
valid by its schema in doc/reference/schema, and the structs beside it say the same. The keys of a
schema are those that the tables of lib/gateway/results.c can show."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ["TFC_SOURCE_ROOT"])
HELPERS = os.environ["TFC_HELPER_DIR"]
PATIENCE = 30
JOB_RUNNING, JOB_DAMAGED, TASK_READY = 3, 9, 5
SCHEMAS = {path.stem: json.loads(path.read_text())
           for path in (SOURCE / "doc/reference/schema").glob("*.json")}


class CtxOptions(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("log_level", c_uint32), ("log", c_void_p), ("log_user", c_void_p),
                ("helper_dir", c_char_p)]


class Error(ctypes.Structure):
    _fields_ = [("code", c_int32), ("sys_errno", c_int32), ("component", c_char_p),
                ("text", c_char * 1024)]


class Reply(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("code", c_int32), ("error", POINTER(Error)), ("text", c_char_p),
                ("len", c_size_t), ("home", c_char_p), ("jobs", c_void_p), ("job", c_void_p),
                ("members", c_void_p), ("explanation", c_void_p)]


class JobInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("state", c_uint32), ("job", c_char_p), ("name", c_char_p),
                ("maintainer", c_char_p), ("text", c_char_p), ("host_tag", c_void_p),
                ("host_tag_len", c_uint64), ("epoch", c_uint64), ("submitted_ns", c_uint64),
                ("started_ns", c_uint64), ("ended_ns", c_uint64), ("age_ms", c_uint64),
                ("restarts", c_uint64), ("generation", c_uint32), ("task_count", c_uint32),
                ("ready_count", c_uint32), ("reason", c_uint32), ("exit_status", c_int32)]


class JobTask(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("state", c_uint32), ("task_type", c_char_p),
                ("task_index", c_uint32), ("attempt", c_uint32), ("node", c_char_p),
                ("address", c_char_p), ("pid", c_int32)]


class MemberInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32)]


class TaskPlan(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("task_index", c_uint32), ("task_type", c_char_p),
                ("node", c_char_p), ("address", c_char_p), ("cwd", c_char_p),
                ("argv", POINTER(c_char_p)), ("env", POINTER(c_char_p))]


REPLY_FN = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Reply))
tfc = ctypes.CDLL(os.environ["TFC_LIBRARY"])
tfc.tfc_jobs_at.restype = POINTER(JobInfo)
tfc.tfc_job_info_task.restype = POINTER(JobTask)
tfc.tfc_members_at.restype = POINTER(MemberInfo)
tfc.tfc_explanation_task.restype = POINTER(TaskPlan)
tfc.tfc_ctx_error.restype = POINTER(Error)
for name in "tfc_ctx_error", "tfc_ctx_free", "tfc_node_close", "tfc_gateway_close", "tfc_job_free":
    getattr(tfc, name).argtypes = [c_void_p]
for name in "tfc_jobs_at", "tfc_job_info_task", "tfc_members_at", "tfc_explanation_task":
    getattr(tfc, name).argtypes = [c_void_p, c_uint32]


class Host:
    """A context with a node whose state is in `state`, and a gateway of that node."""

    def __init__(self, state):
        options = CtxOptions(ctypes.sizeof(CtxOptions), 0, None, None, HELPERS.encode())
        error, self.ctx = Error(), c_void_p()
        assert tfc.tfc_ctx_new(byref(options), byref(error), byref(self.ctx)) == 0, error.text
        text = json.dumps({"name": "a", "state": state, "slots": 8, "label": ["rack=1", "fast="]})
        node, self.gateway = c_void_p(), c_void_p()
        self.check(tfc.tfc_node_open_json(self.ctx, text.encode(), c_size_t(len(text)), None, None,
                                          None, byref(node)))
        self.check(tfc.tfc_gateway_open_json(self.ctx, node, b"{}", c_size_t(2), None,
                                             byref(self.gateway)))

    def check(self, code):
        assert code >= 0, tfc.tfc_ctx_error(self.ctx).contents.text

    def request(self, name, *args, read=lambda reply: None):
        """The JSON of the reply, and what `read` has made of it."""
        found = []

        def replied(_, reply):
            reply = reply.contents
            found.append((reply.code, reply.error.contents.text, reply.text[:reply.len],
                          read(reply) if reply.code == 0 else None))
        callback = REPLY_FN(replied)
        self.check(getattr(tfc, name)(self.gateway, *args, None, callback, None, None))
        while not found:
            self.check(tfc.tfc_ctx_run(self.ctx, 1000))
        code, error, text, made = found[0]
        assert code == 0, error
        return text.decode(), made

    @contextlib.contextmanager
    def job(self, **keys):
        error, job = Error(), c_void_p()
        text = json.dumps(keys).encode()
        code = tfc.tfc_job_parse(text, c_size_t(len(text)), b"job.json", byref(error), byref(job))
        assert code == 0, error.text
        yield job
        tfc.tfc_job_free(job)

    def submit(self, **keys):
        keys = {"framework": "none", "roles": {"worker": {"count": 1, "ready": "started"}}, **keys}
        with self.job(**keys) as job:
            return self.request("tfc_gateway_submit", job)[0]

    def describe(self, job, read=lambda reply: None):
        text, made = self.request("tfc_gateway_describe", job.encode(), read=read)
        return json.loads(text), made

    def await_state(self, job, *states):
        deadline = time.monotonic() + PATIENCE
        while (found := self.describe(job)[0])["state"] not in states:
            assert time.monotonic() < deadline, found
            tfc.tfc_ctx_run(self.ctx, 100)
        return found

    def close(self):
        tfc.tfc_ctx_free(self.ctx)


class ResultsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tfc-test-")
        self.state = os.path.join(self.folder.name, "state")
        self.host = Host(self.state)

    def tearDown(self):
        self.host.close()
        self.folder.cleanup()

    def validate(self, name, value):
        jsonschema.Draft202012Validator(SCHEMAS[name]).validate(value)
        return value

    def ended(self, *argv):
        job = self.host.submit(argv=list(argv))
        return self.validate("job", self.host.await_state(job, "succeeded", "failed", "stopped"))

    def test_ends_of_every_kind(self):
        for argv, state, reason, status, end in (
                (["true"], "succeeded", "exit", 0, {"exit": 0}),
                (["sh", "-c", "exit 7"], "failed", "exit", 7, {"exit": 7}),
                (["sh", "-c", "kill -9 $$"], "failed", "signal", 137, {"signal": 9}),
                (["/nonexistent"], "failed", "not_found", 127, {})):
            job = self.ended(*argv)
            self.assertEqual((job["state"], job["reason"], job["exit"]), (state, reason, status))
            last = job["tasks"][0]["last_end"]
            self.assertEqual(last["reason"], reason)
            self.assertEqual({key: last[key] for key in ("exit", "signal") if key in last}, end)

    def test_the_structs_say_what_the_json_says(self):
        job = self.host.submit(argv=["sleep", "600"], name="sleeper",
                               roles={"worker": {"count": 2, "ready": "started"}})
        shown = self.host.await_state(job, "running")

        def read(reply):
            info = ctypes.cast(reply.job, POINTER(JobInfo)).contents
            tasks = [tfc.tfc_job_info_task(reply.job, i).contents for i in range(info.task_count)]
            self.assertFalse(tfc.tfc_job_info_task(reply.job, info.task_count))
            return ((info.state, info.job.decode(), info.name.decode(), info.ended_ns,
                     info.exit_status),
                    [(task.task_type.decode(), task.task_index, task.pid) for task in tasks],
                    {task.state for task in tasks})
        shown, (info, tasks, states) = self.host.describe(job, read)
        self.validate("job", shown)
        self.assertEqual(info, (JOB_RUNNING, job, "sleeper", 0, -1))
        self.assertEqual(tasks, [("worker", i, shown["tasks"][i]["pid"]) for i in range(2)])
        self.assertEqual(states, {TASK_READY})

    def test_the_list_has_jobs_of_every_state_and_damaged_ones(self):
        good = self.ended("true")["job"]
        damaged = self.ended("true")["job"]
        self.host.close()
        records = [path for path in pathlib.Path(self.state).rglob("*")
                   if path.is_file() and damaged in str(path) and path.name == "record"]
        self.assertEqual(len(records), 1)
        records[0].write_bytes(b"this is not a record")
        self.host = Host(self.state)
        running = self.host.submit(argv=["sleep", "600"])
        self.host.await_state(running, "running")

        def read(reply):
            states, index = {}, 0
            while info := tfc.tfc_jobs_at(reply.jobs, index):
                states[info.contents.job.decode()] = info.contents.state
                index += 1
            return states
        text, states = self.host.request("tfc_gateway_jobs", read=read)
        listed = self.validate("jobs", json.loads(text))
        self.assertEqual({job["job"]: job["state"] for job in listed["jobs"]},
                         {good: "succeeded", damaged: "damaged", running: "running"})
        self.assertEqual((states[damaged], states[running]), (JOB_DAMAGED, JOB_RUNNING))

    def test_members(self):
        text, has_member = self.host.request(
            "tfc_gateway_members", read=lambda reply: bool(tfc.tfc_members_at(reply.members, 0)))
        member, = self.validate("members", json.loads(text))
        self.assertTrue(has_member)
        self.assertEqual((member["name"], member["slots"], member["self"]), ("a", 8, True))
        self.assertEqual(member["labels"], {"rack": "1", "fast": ""})

    def test_an_explanation_hides_secrets(self):
        secret = os.path.join(self.folder.name, "secret")
        pathlib.Path(secret).write_text("hunter2")
        os.chmod(secret, 0o600)

        def read(reply):
            plan = tfc.tfc_explanation_task(reply.explanation, 0).contents
            env, index = [], 0
            while plan.env[index]:
                env.append(plan.env[index].decode())
                index += 1
            return plan.argv[0].decode(), env
        with self.host.job(argv=["true", "{task_index}"], roles={"worker": {}}, env={"EPOCHS": "3"},
                           secret_env={"TOKEN": secret}) as job:
            text, (program, env) = self.host.request("tfc_gateway_explain", job, read=read)
        plan, = self.validate("explanation", json.loads(text))["tasks"]
        self.assertEqual((plan["env"]["EPOCHS"], plan["env"]["TOKEN"]), ("3", None))
        self.assertEqual((program, plan["argv"]), ("true", ["true", "0"]))
        self.assertIn("EPOCHS=3", env)
        self.assertIn("TOKEN", env)
        self.assertNotIn("hunter2", text + "".join(env))


class SchemaTest(unittest.TestCase):
    TABLES = {"end": ("job", "end"), "task": ("job", "task"), "zygote": ("job", "zygote"), "job": ("job", None),
              "jobs": ("jobs", None), "missing": ("jobs", "missing"), "member": ("members", "member"),
              "explanation": ("explanation", None), "plan": ("explanation", "plan")}

    def test_each_schema_is_one(self):
        self.assertEqual(set(SCHEMAS), {"jobs", "job", "members", "explanation"})
        for schema in SCHEMAS.values():
            jsonschema.Draft202012Validator.check_schema(schema)

    def test_keys_are_those_of_the_tables(self):
        source = (SOURCE / "lib/gateway/results.c").read_text()
        tables = dict(re.findall(r"(\w+)_rows\[\] = \{(.*?)\n\};", source, re.S))
        del tables["members"]  # shown as a list
        self.assertEqual(set(tables), set(self.TABLES))
        for table, (schema, part) in self.TABLES.items():
            found = SCHEMAS[schema]["$defs"][part] if part else SCHEMAS[schema]
            shown = set(re.findall(r'\.json = "(\w+)"', tables[table]))
            self.assertEqual(set(found["properties"]), shown, table)

    def test_a_listed_job_has_the_keys_of_a_described_one_but_for_its_tasks_and_zygotes(self):
        listed = SCHEMAS["jobs"]["$defs"]["job"]["properties"]
        described = dict(SCHEMAS["job"]["properties"])
        del described["tasks"], described["zygotes"]
        self.assertEqual(listed, described)

    def test_words_are_those_of_the_library(self):
        def names(function, count):
            function = getattr(tfc, function)
            function.restype = c_char_p
            return [function(c_uint32(i)).decode() for i in range(1, count)]
        job, task = SCHEMAS["job"]["properties"], SCHEMAS["job"]["$defs"]["task"]["properties"]
        self.assertEqual(job["state"]["enum"] + ["damaged", "?"], names("tfc_job_state_name", 11))
        self.assertEqual(task["state"]["enum"] + ["?"], names("tfc_task_state_name", 11))
        zygote = SCHEMAS["job"]["$defs"]["zygote"]["properties"]
        self.assertEqual(zygote["state"]["enum"] + ["?"], names("tfc_zygote_state_name", 5))
        self.assertEqual(job["reason"]["enum"] + ["?"], names("tfc_end_reason_name", 14))
        strategy = SCHEMAS["explanation"]["properties"]["strategy"]
        self.assertEqual(strategy["enum"][1:] + ["?"], names("tfc_strategy_name", 5))


if __name__ == "__main__":
    unittest.main(verbosity=2)
