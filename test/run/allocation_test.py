"""tfc_run allocation: ranks that find each other run one job and end together; ranks that die; bad input."""
import contextlib
import glob
import json
import os
import re
import signal
import time
import unittest

import harness

# Tells that it is there, and on TERM takes a moment before it ends.
WAITING = ("trap 'echo stopping; sleep 0.3; echo saved; exit 5' TERM; echo up $TFC_TASK_INDEX; "
           "while :; do sleep 0.1; done")
ENGINES = ("SLURM_", "OMPI_", "PMIX_", "JOB_COMPLETION_INDEX", "TFC_KEY", "CUDA_VISIBLE_DEVICES")


class AllocationTest(harness.RunTest):
    def setUp(self):
        super().setUp()
        self.env = {name: value for name, value in self.env.items() if not name.startswith(ENGINES)}
        self.shared = os.path.join(self.dir, "shared")
        os.mkdir(self.shared)

    def rank(self, rank, size, *args, rendezvous=None, env=(), where=(), **popen):
        where = where or ("--rank", str(rank), "--size", str(size), "--rendezvous", rendezvous or self.shared)
        run = harness.Run(["allocation", *where, "--ports", self.ports, "--framework", "none", *args],
                          dict(self.env, **dict(env)), self.dir, **popen)
        self.runs.append(run)
        return run

    def ranks(self, size, *args, **options):
        """All of them, rank 0 last: the others have to wait for it."""
        return [self.rank(rank, size, *args, **options) for rank in reversed(range(size))][::-1]

    def await_up(self, runs, count):
        """Until so many attempts have started."""
        end = time.monotonic() + harness.PATIENCE
        while len(re.findall(rb" up \d", runs[0].out)) < count:
            self.assertLess(time.monotonic(), end, [run.err for run in runs])
            runs[0].read(0.1)

    def statuses(self, runs):
        return [run.end().status for run in runs]

    def assert_silent(self, runs):
        for run in runs:
            self.assertEqual((run.out, run.err), (b"", b""))


class JobTest(AllocationTest):
    def test_all_ranks_run_one_job_and_end_with_its_status(self):
        runs = self.ranks(3, "--worker", "3", "--", "sh", "-c", "echo $TFC_TASK_INDEX is here; touch up.$TFC_TASK_INDEX; "
                          "until [ $(ls up.* | wc -l) = 3 ]; do sleep 0.05; done; exit 7")
        self.assertEqual(self.statuses(runs), [7, 7, 7])
        self.assertEqual(sorted(runs[0].lines()), [f"[worker/{i}] {i} is here" for i in range(3)])
        self.assertRegex(runs[0].err.decode(), r"^tfc_run: rank 0 of 3 without an engine, with \d+ CPUs?, all memory, "
                                               r"GPUs: all\n")
        self.assertIn("exited with 7", runs[0].err.decode())
        self.assert_silent(runs[1:])
        self.assertEqual(os.listdir(self.shared), [])

    def test_each_task_has_the_environment_of_its_rank(self):
        args = ["--worker", "2", "--slots", "1", "--", "sh", "-c", "echo $TFC_TASK_INDEX at $WHERE with $PMIX_RANK."]
        runs = [self.rank(rank, 2, *args, env={"WHERE": f"host {rank}", "PMIX_RANK": "1"}) for rank in range(2)]
        self.assertEqual(self.statuses(runs), [0, 0])
        found = [re.fullmatch(r"\[worker/(\d)\] \1 at host (\d) with \.", line) for line in runs[0].lines()]
        self.assertEqual(sorted(match[2] for match in found), ["0", "1"])

    def test_the_engine_is_recognized_by_its_variables(self):
        args = ["--worker", "2", "--", "true"]
        runs = [self.rank(rank, 2, *args, where=("--rendezvous", self.shared),
                          env={"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "17",
                               "SLURM_STEP_ID": "3", "SLURM_NODEID": str(rank), "SLURM_CPUS_ON_NODE": "1",
                               "SLURM_MEM_PER_NODE": "512", "CUDA_VISIBLE_DEVICES": "2,3"}) for rank in range(2)]
        self.assertEqual(self.statuses(runs), [0, 0])
        self.assertIn("rank 0 of 2 in Slurm (slurm-17.3), with 1 CPU, 512 MiB, GPUs: 2,3", runs[0].err.decode())

    def test_the_logs_are_kept_by_each_rank(self):
        runs = self.ranks(2, "--worker", "2", "--slots", "1", "--output-dir", "logs", "--", "sh", "-c",
                          "echo of $TFC_TASK_INDEX")
        self.assertEqual(self.statuses(runs), [0, 0])
        found = glob.glob(os.path.join(self.dir, "logs", "rank-*", "*", "*"))
        self.assertEqual(len({path.split("/rank-")[1][0] for path in found}), 2, found)

    def test_events_as_json_come_from_rank_0_alone(self):
        runs = self.ranks(2, "--worker", "2", "--json", "--", "echo", "here")
        self.assertEqual(self.statuses(runs), [0, 0])
        events = runs[0].events()
        self.assertEqual([event["event"] for event in events][-1], "end")
        nodes = {event["node"] for event in events if event["event"] == "task" and event["state"] == "ready"}
        self.assertEqual(nodes, {"rank-0", "rank-1"})
        self.assert_silent(runs[1:])

    def test_a_single_rank(self):
        run = self.rank(0, 1, "--", "echo", "alone").end()
        self.assertEqual((run.status, run.lines()), (0, ["[worker/0] alone"]))


class AddressTest(AllocationTest):
    listens = True  # rank 0; a connection of the past may still wait there for its time to be over

    def test_an_address_and_a_key_in_the_environment(self):
        self.run_bare("keygen", os.path.join(self.dir, "key"))
        with open(os.path.join(self.dir, "key"), encoding="ascii") as file:
            key = file.read()
        runs = self.ranks(2, "--worker", "2", "--slots", "1", "--", "sh", "-c", "env | grep -c TFC_KEY; true",
                          rendezvous=f"127.0.0.1:{self.first_port + harness.PORTS_A_TEST - 1}", env={"TFC_KEY_DATA": key})
        self.assertEqual(self.statuses(runs), [0, 0])
        self.assertEqual(sorted(runs[0].lines()), ["[worker/0] 0", "[worker/1] 0"])


class EndTest(AllocationTest):
    def test_a_signal_to_all_ranks_gives_the_tasks_their_grace(self):
        runs = self.ranks(3, "--worker", "3", "--", "sh", "-c", WAITING)
        self.await_up(runs, 3)
        for run in runs:
            run.process.terminate()
        self.assertEqual(self.statuses(runs), [143, 143, 143])
        self.assertEqual(runs[0].out.count(b"saved"), 3, runs[0].out)
        self.assertEqual(runs[0].out.count(b" up "), 3, runs[0].out)

    def test_a_repeated_signal_does_not_cut_the_grace_short(self):
        runs = self.ranks(2, "--worker", "2", "--slots", "1", "--", "sh", "-c", WAITING)
        self.await_up(runs, 2)
        for run in runs:
            run.process.terminate()
        runs[0].await_output("stopping.*\n(.*\n)*.*stopping")
        for run in runs:
            run.process.terminate()
        self.assertEqual(self.statuses(runs), [143, 143])
        self.assertEqual(runs[0].out.count(b"saved"), 2, runs[0].out)

    def test_a_second_interrupt_kills_the_tasks_of_all_ranks(self):
        runs = self.ranks(2, "--worker", "2", "--slots", "1", "--grace", "60", "--", "sh", "-c",
                          "trap '' INT TERM; echo up $TFC_TASK_INDEX; while :; do sleep 0.1; done")
        self.await_up(runs, 2)
        for run in runs:
            run.process.send_signal(signal.SIGINT)
        runs[0].await_output("interrupted", "err")
        begin = time.monotonic()
        for run in runs:
            run.process.send_signal(signal.SIGINT)
        self.assertEqual(self.statuses(runs), [130, 130])
        self.assertLess(time.monotonic() - begin, 10, runs[0].err)
        self.assertNotIn("unreachable", runs[0].err.decode())

    def test_a_signal_to_rank_0_ends_all(self):
        runs = self.ranks(3, "--worker", "3", "--", "sh", "-c", WAITING)
        self.await_up(runs, 3)
        runs[0].process.terminate()
        self.assertEqual(self.statuses(runs), [143, 143, 143])
        self.assertEqual(runs[0].out.count(b"saved"), 3, runs[0].out)

    def test_a_signal_to_another_rank_moves_its_tasks(self):
        runs = self.ranks(2, "--worker", "2", "--slots", "2", "--", "sh", "-c", WAITING)
        self.await_up(runs, 2)
        runs[1].process.terminate()
        self.await_up(runs, 3)
        self.assertEqual(runs[1].end().status, 143)
        runs[0].await_output("rank 1 has left", "err")
        runs[0].process.terminate()
        self.assertEqual(runs[0].end().status, 143)
        self.assertGreaterEqual(runs[0].out.count(b"saved"), 2, runs[0].out)

    def test_the_tasks_of_a_killed_rank_move(self):
        runs = self.ranks(3, "--worker", "3", "--slots", "2", "--", "sh", "-c", WAITING)
        self.await_up(runs, 3)
        runs[2].process.kill()
        runs[0].await_output("rank 2 is lost", "err")
        self.await_up(runs, 4)
        runs[0].process.terminate()
        self.assertEqual(self.statuses(runs), [143, 143, -signal.SIGKILL])

    def test_a_killed_rank_ends_all_if_the_job_does_not_fit_any_more(self):
        runs = self.ranks(3, "--worker", "3", "--slots", "1", "--", "sh", "-c", WAITING)
        self.await_up(runs, 3)
        runs[2].process.kill()
        self.assertEqual(self.statuses(runs), [125, 125, -signal.SIGKILL])
        self.assertIn("tfc_run: rank 2 is lost, and the other ranks have 2 slots for 3 tasks", runs[0].errors())
        self.assertEqual(runs[0].out.count(b"saved"), 2, runs[0].out)

    def test_a_killed_rank_ends_all_if_the_others_have_too_few_gpus(self):
        runs = self.ranks(2, "--worker", "2", "--gpus", "2", "--slots", "2", "--", "sh", "-c", WAITING,
                          env={"CUDA_VISIBLE_DEVICES": "4,5"})
        self.await_up(runs, 2)
        runs[1].process.kill()
        self.assertEqual(self.statuses(runs), [125, -signal.SIGKILL])
        self.assertIn("tfc_run: rank 1 is lost, and the other ranks have 2 of the 4 GPUs that the tasks need", runs[0].errors())

    def test_a_killed_rank_ends_all_below_min_nodes(self):
        runs = self.ranks(3, "--worker", "1", "--min-nodes", "3", "--", "sh", "-c", WAITING)
        self.await_up(runs, 1)
        runs[2].process.kill()
        self.assertEqual(self.statuses(runs), [125, 125, -signal.SIGKILL])
        self.assertIn("tfc_run: rank 2 is lost, and 2 of at least 3 ranks are left", runs[0].errors())

    def test_without_rank_0_all_end(self):
        runs = self.ranks(2, "--worker", "2", "--", "sh", "-c", WAITING)
        self.await_up(runs, 2)
        begin = time.monotonic()
        runs[0].process.kill()
        self.assertEqual(self.statuses(runs), [-signal.SIGKILL, 125])
        self.assertLess(time.monotonic() - begin, 6)  # the leases of its tasks would last longer
        self.assertIn("tfc_run: rank 1: rank 0 is lost", runs[1].errors())

    def test_a_rank_that_comes_back_joins_again(self):
        args = ["--worker", "2", "--slots", "2", "--", "sh", "-c", WAITING]
        runs = self.ranks(2, *args)
        self.await_up(runs, 2)
        runs[1].process.kill()
        runs[0].await_output("rank 1 is lost", "err")
        back = self.rank(1, 2, *args)
        runs[0].await_output("rank 1 has joined", "err")
        self.await_up(runs, 3)
        runs[0].process.terminate()
        self.assertEqual(self.statuses([runs[0], back]), [143, 143])


class LauncherTest(AllocationTest):
    """A process that an engine would have on each host starts the rank, and is killed."""

    ENGINES = ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "PMIX_NAMESPACE": "17"},
               {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "3"})

    def launch(self, engine, *args):
        run = harness.Run(["-c", '"$@" & echo $!; wait', "sh", harness.TFC_RUN, "allocation", "--ports", self.ports,
                           "--rendezvous", self.shared, *args], dict(self.env, **engine), self.dir, program="sh")
        self.runs.append(run)
        run.await_output("\n")
        return run, int(run.lines()[0])

    def assert_ends(self, run, rank):
        run.end()
        harness.await_end(rank, time.monotonic() + harness.PATIENCE)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(rank, os.WNOHANG)[1]), 143)

    def test_a_rank_does_not_survive_its_launcher(self):
        for engine in self.ENGINES:
            with self.subTest(engine):
                run, rank = self.launch(engine, "--framework", "none", "--", "sh", "-c", WAITING)
                self.await_up([run], 1)
                run.process.kill()
                self.assert_ends(run, rank)
                self.assertIn(b"saved", run.out)

    def test_a_rank_does_not_survive_a_launcher_that_dies_at_once(self):
        """Here, before the rank has read its job."""
        job = os.path.join(self.dir, "job")
        os.mkfifo(job)
        run, rank = self.launch(self.ENGINES[0], "--job", "job")
        pipe = harness.wait_until(lambda: self.open_to_write(job), "the rank reads its job")
        run.process.kill()
        run.process.wait()
        with open(pipe, "w", encoding="ascii") as file:
            json.dump({"framework": "none", "roles": {"worker": {}}, "argv": ["sleep", "600"]}, file)
        self.assert_ends(run, rank)

    @staticmethod
    def open_to_write(path):
        """None: nobody reads it yet."""
        with contextlib.suppress(OSError):
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        return None


class JoinTest(AllocationTest):
    def assert_last_line(self, run, text):
        self.assertEqual(run.end().status, 125, run.err)
        self.assertEqual(run.errors()[-1], "tfc_run: " + text)

    def test_missing_ranks_are_named(self):
        run = self.rank(0, 4, "--wait", "3.5", "--", "true")
        other = self.rank(2, 4, "--", "true")
        run.await_output("waiting: ranks 1 and 3 have not joined yet", "err")
        self.assert_last_line(run, "ranks 1 and 3 have not joined within 3.5 s; every rank must be started with the same "
                                   "command, and share the directory of --rendezvous")
        self.assertEqual(other.end().status, 125)

    def test_a_missing_rank_0_is_named(self):
        run = self.rank(1, 2, "--wait", "0.5", "--", "true")
        self.assert_last_line(run, f'rank 1: rank 0 has not written "{self.shared}/tfcluster-ranks" within 0.5 s; every rank '
                                   "must be started with the same command, and share the directory of --rendezvous")

    def test_fewer_ranks_suffice_if_so_asked(self):
        args = ["--wait", "4", "--min-nodes", "2", "--worker", "2", "--", "echo", "here"]
        runs = [self.rank(rank, 3, *args) for rank in range(2)]
        self.assertEqual(self.statuses(runs), [0, 0])
        self.assertEqual(len(runs[0].lines()), 2)

    def test_ranks_that_are_missing_are_named_when_the_others_have_too_few_slots(self):
        args = ["--wait", "4", "--min-nodes", "2", "--slots", "1", "--worker", "3", "--", "true"]
        runs = [self.rank(rank, 3, *args) for rank in range(2)]
        self.assertEqual(self.statuses(runs), [125, 125])
        self.assert_last_line(runs[0], "rank 2 has not joined, and the other ranks have 2 slots for 3 tasks")

    def test_the_file_of_an_earlier_run_is_replaced(self):
        args = ["--worker", "2", "--", "echo", "here"]
        killed = self.rank(0, 2, "--", "true")
        path = os.path.join(self.shared, "tfcluster-ranks")
        harness.wait_until(lambda: os.path.exists(path), "the file of rank 0")
        killed.process.kill()
        killed.end()
        self.assertEqual(os.stat(path).st_mode & 0o7777, 0o600)
        other = self.rank(1, 2, *args)
        other.await_output("cannot join the other nodes yet", "err")
        runs = [self.rank(0, 2, *args), other]
        self.assertEqual(self.statuses(runs), [0, 0])

    def test_a_rank_that_joined_and_died_is_missing(self):
        run = self.rank(0, 3, "--wait", "5", "--", "true")
        other = self.rank(1, 3, "--", "true")
        run.await_output("waiting: rank 2 has not joined yet", "err")
        other.process.kill()
        self.assert_last_line(run, "ranks 1 and 2 have not joined within 5 s; every rank must be started with the same "
                                   "command, and share the directory of --rendezvous")
        other.end()

    def test_a_second_run_in_one_directory_is_refused(self):
        first = self.rank(0, 2, "--worker", "1", "--", "echo", "first")
        path = os.path.join(self.shared, "tfcluster-ranks")
        harness.wait_until(lambda: os.path.exists(path), "the file of rank 0")
        self.assert_refused(self.rank(0, 2, "--worker", "1", "--", "echo", "second").end(),
                            f'rendezvous: another run has "{path}" in use; set --rendezvous to a directory of this '
                            "run's own")
        self.assertEqual(self.statuses([first, self.rank(1, 2, "--worker", "1", "--", "echo", "first")]), [0, 0])
        self.assertEqual(first.lines(), ["[worker/0] first"])

    def test_ranks_that_disagree_on_their_number(self):
        runs = [self.rank(rank, 2 + rank, "--worker", "2", "--", "true") for rank in range(2)]
        self.assertEqual(self.statuses(runs), [125, 125])
        self.assertIn("tfc_run: rank 1 was started with another command than rank 0; start all ranks with the same one",
                      runs[0].errors())

    def test_ranks_that_disagree_on_the_job(self):
        runs = [self.rank(rank, 2, "--worker", str(1 + rank), "--", "true") for rank in range(2)]
        self.assertEqual(self.statuses(runs), [125, 125])
        self.assertIn("tfc_run: rank 1 was started with another command than rank 0; start all ranks with the same one",
                      runs[0].errors())

    def test_a_job_that_does_not_fit(self):
        runs = self.ranks(2, "--worker", "3", "--slots", "1", "--", "true")
        self.assertEqual(self.statuses(runs), [125, 125])
        self.assertIn("tfc_run: the job has 3 tasks, and the ranks have 2 slots, one for each CPU that they were granted; "
                      "request more CPUs for each rank, or set --slots", runs[0].errors())

    def test_a_job_with_too_few_gpus(self):
        env = {"CUDA_VISIBLE_DEVICES": "4,5"}
        runs = self.ranks(2, "--worker", "2", "--gpus", "3", "--slots", "1", "--", "true", env=env)
        self.assertEqual(self.statuses(runs), [125, 125])
        self.assertIn("tfc_run: the tasks need 6 GPUs, and the ranks have 4; request more GPUs for each rank (those in "
                      "its CUDA_VISIBLE_DEVICES count)", runs[0].errors())

    def test_a_job_that_no_rank_has_room_for(self):
        """By their sum the GPUs suffice."""
        env = {"CUDA_VISIBLE_DEVICES": "4,5"}
        runs = self.ranks(2, "--worker", "1", "--gpus", "3", "--wait", "5", "--", "true", env=env)
        self.assertEqual(self.statuses(runs), [124, 124])
        self.assertIn("tfc_run: failed (deadline): the pending deadline of 5 s has passed: worker/0 needs 3 GPUs on one node: "
                      "the most that one has is 2", runs[0].errors())

    def test_a_job_may_wait_longer_for_room_than_ranks_for_each_other(self):
        for args, end in ((["--pending-deadline", "0", "--deadline", "6"], "the deadline of 6 s has passed"),
                          (["--pending-deadline", "5"], "the pending deadline of 5 s has passed: worker/0 needs 3 GPUs")):
            with self.subTest(args):
                runs = self.ranks(2, "--gpus", "3", "--wait", "4", *args, "--", "true", env={"CUDA_VISIBLE_DEVICES": "4,5"})
                self.assertEqual(self.statuses(runs), [124, 124])
                self.assertIn(end, runs[0].errors()[-1])

    def write_job(self, **keys):
        with open(os.path.join(self.dir, "job.json"), "w", encoding="ascii") as file:
            json.dump({"framework": "none", "roles": {"worker": {"gpus": 3}}, "argv": ["false"], **keys}, file)

    def test_a_job_file_that_sets_no_pending_deadline_waits_without_limit(self):
        self.write_job(pending_deadline_s=0, deadline_s=6)
        runs = self.ranks(2, "--job", "job.json", "--wait", "4", env={"CUDA_VISIBLE_DEVICES": "4,5"})
        self.assertEqual(self.statuses(runs), [124, 124])
        self.assertIn("the deadline of 6 s has passed", runs[0].errors()[-1])

    def test_slurm_delays_restarts_unless_the_job_file_says_when(self):
        slurm = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "3"}
        for restart, text in (({}, "restarting it in 1.0 s"), ({"backoff_s": [0, 1]}, "restarting it (1 of 1 restarts")):
            with self.subTest(restart):
                self.write_job(roles={"worker": {}}, restart={"on": "failure", "max": 1, **restart})
                run = self.rank(0, 1, "--job", "job.json", where=("--rendezvous", self.shared), env=slurm).end()
                self.assertIn(text, run.err.decode())

    def test_a_signal_while_ranks_are_missing(self):
        runs = [self.rank(rank, 3, "--", "true") for rank in range(2)]
        runs[0].await_output("waiting: rank 2 has not joined yet", "err")
        for run in runs:
            run.process.terminate()
        self.assertEqual(self.statuses(runs), [143, 143])


class BadInputTest(AllocationTest):
    def refuse(self, sentence, *args, env=(), where=("--",)):
        run = self.rank(0, 1, *args, "--", "true", where=where[:-1] or ("--rendezvous", self.shared), env=env).end()
        self.assert_refused(run, sentence)

    def test_bad_input_is_one_sentence(self):
        step = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0"}
        open_file = os.path.join(self.shared, "tfcluster-slurm-0")
        for sentence, args, env in (
                ("not in an allocation: there are no variables of Slurm (srun), Open MPI (mpirun) or an indexed job of "
                 "Kubernetes; set --rank, --size and --rendezvous to run without an engine", [], {}),
                ("this process is in a job of Slurm, but not in a step; start it on each node with \"srun "
                 "--ntasks-per-node 1\"", [], {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}),
                ("this process is in a job of Slurm, but not in a step; start it on each node with \"srun "
                 "--ntasks-per-node 1\"", [], {"SLURM_JOB_ID": "17"}),
                ("Kubernetes does not state the number of ranks; set --size", [], {"JOB_COMPLETION_INDEX": "0"}),
                ("--size is 2, but Slurm has started 1 rank", ["--size", "2"], step),
                ("--size is 4000000000, and may be 16384 at most", ["--rank", "0", "--size", "4000000000"], {}),
                ("Open MPI has started 2000000000 ranks; at most 16384 can find each other", [],
                 {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2000000000"}),
                ("rank is 3, which must be below --size, 2", ["--rank", "3", "--size", "2"], {}),
                ("--rank is set, but --size is missing", ["--rank", "0"], {}),
                ("--rank one: must be a whole number", ["--rank", "one"], {}),
                *((f"--wait {wait}: must be seconds, from 0.001 to 1000000", ["--wait", wait], {})
                  for wait in ("0", "1e7", "x")),
                ("--slots: \"0\" is not a whole number of at least 1", ["--slots", "0"], step),
                ("TFC_KEY_DATA is empty; set it to the text of a key file", [], {**step, "TFC_KEY_DATA": ""}),
                ("TFC_KEY_DATA:1: not a key; a line of a key file, which \"tfc_run keygen\" makes, has the form "
                 "\"tfcluster-key 1 ROLE ID KEY\"", [], {**step, "TFC_KEY_DATA": "secret"}),
                (f'key file "{self.dir}/none" does not exist; make one with "tfc_run keygen"', ["--key", f"{self.dir}/none"],
                 step),
                ("CUDA_VISIBLE_DEVICES: gpus: \"all\" is not a GPU; write auto, none, or a list such as 0,1 or "
                 "GPU-8932f937-d72c-...", [], {**step, "CUDA_VISIBLE_DEVICES": "all"}),
                (f'rendezvous "{self.dir}/nowhere" is neither HOST:PORT nor a directory that can be used: No such file or '
                 "directory", ["--rendezvous", f"{self.dir}/nowhere"], step),
                (f'rendezvous "{open_file}" is neither HOST:PORT nor a directory', ["--rendezvous", open_file], step),
        ):
            with self.subTest(sentence):
                self.write("shared/tfcluster-slurm-0", "")
                self.refuse(sentence, *args, env=env)

    def test_a_directory_that_cannot_be_used(self):
        path = os.path.join(self.shared, "tfcluster-ranks")
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        os.chmod(self.dir, 0o755)
        os.chmod(self.tmp, 0o777)
        for mode, rank, what in ((0o555, 0, "write"), (0, 0, "write"), (0, 1, "read")):
            with self.subTest(what, mode=mode):
                os.chmod(self.shared, mode)
                run = self.rank(rank, 2, "--", "true", **user).end()
                who = "rank 1" if rank else "rendezvous"
                self.assert_refused(run, f'{who}: cannot {what} "{path}": Permission denied')
        os.chmod(self.shared, 0o700)
        self.assertEqual(os.listdir(self.shared), [])

    @unittest.skipUnless(os.getuid() == 0, "two users are needed")
    def test_the_file_of_another_user_is_not_replaced(self):
        """Although the directory permits it."""
        path = self.write("shared/tfcluster-ranks", "another's", 0o600)
        os.chmod(self.dir, 0o755)
        for folder in (self.tmp, self.shared):
            os.chmod(folder, 0o777)
        run = self.rank(0, 2, "--", "true", user=65534, group=65534, extra_groups=[]).end()
        self.assert_refused(run, f'rendezvous: cannot replace "{path}", which another user has made: Permission denied')
        self.assertEqual(os.listdir(self.shared), ["tfcluster-ranks"])

    def test_a_file_with_a_damaged_key_is_refused(self):
        path = self.write("shared/tfcluster-ranks", "tfcluster-rendezvous 1\naddress 127.0.0.1:1\n"
                          "key tfcluster-key 1 node 00 00\n", 0o600)
        self.assert_refused(self.rank(1, 2, "--", "true").end(), f"rank 1: {path}:1: key id is not 16 hexadecimal digits")

    def test_a_file_that_others_can_read_is_refused(self):
        path = self.write("shared/tfcluster-ranks", "tfcluster-rendezvous 1\naddress 127.0.0.1:1\n")
        run = self.rank(1, 2, "--", "true")
        self.assert_refused(run.end(), f'rank 1: secret file "{path}" is accessible by other users (mode 0644); run "chmod '
                                       f'600 {path}"')


if __name__ == "__main__":
    harness.main()
