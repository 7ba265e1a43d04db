/*
 * What a task and one event cost on a node that runs N tasks:
 *
 *   scale N EVENTS DIR HELPERS TASK
 *
 * One job of N tasks is started; then one of them after the other is killed and restarted EVENTS
 * times; then all are stopped. Prints, in microseconds:
 *
 *   start_us S start_cpu_us C tree_cpu_us P event_us E host_us H guard_us G stop_us T
 *
 * S, C, P, T: per task, from submit to all running, the CPU time of host and guard in it, that of
 * shims and tasks, and from stop to the end. E: from a kill to the next attempt. H, G: CPU time
 * that one such event costs.
 *
 *   scale bare N DIR SHIM TASK
 *
 * What the kernel needs for the start: a bare loop that makes the same system calls for two levels
 * of processes, with a bound port, a socket and a log file for each task. Prints S, C (of the loop)
 * and P.
 */
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tfcluster/tfcluster.h>

#include "bare_port.h"

static void die(const char *what)
{
	fprintf(stderr, "scale: %s\n", what);
	exit(1);
}

static double clock_us(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* proc(5): the first number of schedstat is the time spent on a CPU, in nanoseconds. */
static double cpu_of(int pid)
{
	char path[64];
	unsigned long long ns = 0;
	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	FILE *file = fopen(path, "re");
	if (!file || fscanf(file, "%llu", &ns) != 1)
		die("no schedstat");
	fclose(file);
	return (double)ns / 1e3;
}

/* CPU time of the descendants of a process. */
static double cpu_below(int pid)
{
	char path[64];
	double us = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	FILE *file = fopen(path, "re");
	for (int child; file && fscanf(file, "%d", &child) == 1;)
		us += cpu_of(child) + cpu_below(child);
	if (file)
		fclose(file);
	return us;
}

/* The only child of this process is its guard. */
static int guard_pid(void)
{
	char path[64];
	int pid = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *file = fopen(path, "re");
	if (!file || fscanf(file, "%d", &pid) != 1)
		die("no guard");
	fclose(file);
	return pid;
}

static void raise_nofile(void)
{
	struct rlimit files;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/* ---- bare */

enum { SHIM_END = 3 }; /* where a shim has its end of the socket */

/* With descriptors of its own from here on, without a copy of thousands: as the guard does it. */
static int become_shim(void *argv)
{
	char *env[] = {NULL};
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
	    close_range(SHIM_END + 1, ~0U, CLOSE_RANGE_UNSHARE) == 0 &&
	    fcntl(SHIM_END, F_SETFD, 0) == 0)
		execve(*(char **)argv, argv, env);
	_exit(127);
}

/* Returns our end of its socket. */
static int start_shim(const char *dir, int number, char *shim, char *task, pid_t *ret_pid)
{
	static _Alignas(16) char stack[16384];
	char log[256], start[] = "-s", word[] = "pause";
	char *argv[] = {shim, start, log, task, word, NULL};
	int ends[2];
	snprintf(log, sizeof(log), "%s/%d.log", dir, number);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ||
	    dup3(ends[1], SHIM_END, O_CLOEXEC) < 0)
		die("socketpair");
	close(ends[1]);
	*ret_pid = clone(become_shim, stack + sizeof(stack),
			 CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, argv);
	if (*ret_pid < 0)
		die("clone");
	dup3(0, SHIM_END, O_CLOEXEC); /* else its socket would never end */
	return ends[0];
}

static void measure_bare(int count, const char *dir, char *shim, char *task)
{
	pid_t *shims = calloc((size_t)count, sizeof(*shims));
	int *ends = calloc((size_t)count, sizeof(*ends));
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* to reap the tasks, too */
	dup2(0, SHIM_END);                /* taken, before another descriptor gets this number */
	double begin = clock_us(CLOCK_MONOTONIC), cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < count; i++) {
		bare_port();
		ends[i] = start_shim(dir, i, shim, task, &shims[i]);
	}
	for (int i = 0, started; i < count; i++)
		if (read(ends[i], &started, sizeof(started)) != sizeof(started))
			die("a shim ended");
	double end = clock_us(CLOCK_MONOTONIC);
	printf("start_us %.1f start_cpu_us %.1f tree_cpu_us %.1f\n", (end - begin) / count,
	       (clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu) / count, cpu_below(getpid()) / count);
	for (int i = 0; i < count; i++)
		kill(-shims[i], SIGKILL); /* and its task */
	while (wait(NULL) > 0)
		continue;
	free(ends);
	free(shims);
}

/* ---- a job */

struct run {
	tfc_ctx *ctx;
	tfc_gateway *gateway;
	tfc_sub *sub;
	char *id;
	int *pids; /* by task, of its latest attempt */
	int count;
	int running; /* attempts that began to run */
	int is_over;
};

static void on_event(void *user, const tfc_event *event)
{
	struct run *run = user;
	if (event->kind == TFC_EVENT_END)
		run->is_over = 1;
	if (event->kind != TFC_EVENT_TASK || event->task_state != TFC_TASK_READY)
		return;
	run->pids[event->task_index] = event->pid;
	run->running++;
}

static void on_submitted(void *user, const tfc_reply *reply)
{
	struct run *run = user;
	if (reply->code < 0)
		die(reply->error->text);
	run->id = strdup(reply->text);
	if (!run->id ||
	    tfc_gateway_subscribe(run->gateway, run->id, NULL, on_event, run, &run->sub) < 0)
		die("subscribe");
}

static void on_stopped(void *user, const tfc_reply *reply)
{
	(void)user;
	if (reply->code < 0)
		die(reply->error->text);
}

static void wait_running(struct run *run, int count)
{
	while (run->running < count && !run->is_over)
		tfc_ctx_run(run->ctx, -1);
	if (run->is_over)
		die("the job ended too soon");
}

static tfc_job *make_job(const struct run *run, const char *dir, const char *task)
{
	char text[1024];
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job;
	int len =
		snprintf(text, sizeof(text),
			 "{\"framework\": \"none\", \"argv\": [\"%s\", \"pause\"], \"cwd\": \"%s\","
			 " \"roles\": {\"worker\": {\"count\": %d, \"ready\": \"started\"}},"
			 " \"restart\": {\"max\": 1000000, \"backoff_s\": [0, 0]}}",
			 task, dir, run->count);
	if (tfc_job_parse(text, (size_t)len, "scale", &error, &job) < 0)
		die(error.text);
	return job;
}

static void measure(struct run *run, int events, const char *dir, const char *task)
{
	tfc_job *job = make_job(run, dir, task);
	double begin = clock_us(CLOCK_MONOTONIC), cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID);
	if (tfc_gateway_submit(run->gateway, job, NULL, on_submitted, run, NULL) < 0)
		die(tfc_ctx_error(run->ctx)->text);
	wait_running(run, run->count);
	double started = clock_us(CLOCK_MONOTONIC);
	int guard = guard_pid();
	double start_cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu + cpu_of(guard);
	printf("start_us %.1f start_cpu_us %.1f tree_cpu_us %.1f ", (started - begin) / run->count,
	       start_cpu / run->count, cpu_below(guard) / run->count);
	double host = clock_us(CLOCK_PROCESS_CPUTIME_ID), guarded = cpu_of(guard);
	double kills = clock_us(CLOCK_MONOTONIC);
	for (int i = 0; i < events; i++) {
		kill(run->pids[(long)i * 7919 % run->count], SIGKILL);
		wait_running(run, run->count + i + 1);
	}
	double killed = clock_us(CLOCK_MONOTONIC);
	printf("event_us %.1f host_us %.1f guard_us %.1f ", (killed - kills) / events,
	       (clock_us(CLOCK_PROCESS_CPUTIME_ID) - host) / events,
	       (cpu_of(guard) - guarded) / events);
	double stop = clock_us(CLOCK_MONOTONIC);
	if (tfc_gateway_stop(run->gateway, run->id, NULL, on_stopped, NULL, NULL) < 0)
		die(tfc_ctx_error(run->ctx)->text);
	while (!run->is_over)
		tfc_ctx_run(run->ctx, -1);
	printf("stop_us %.1f\n", (clock_us(CLOCK_MONOTONIC) - stop) / run->count);
	tfc_job_free(job);
}

int main(int argc, char **argv)
{
	struct run run = {0};
	tfc_error error = TFC_ERROR_INIT;
	if (argc != 6)
		die("usage: scale N EVENTS DIR HELPERS TASK | scale bare N DIR SHIM TASK");
	raise_nofile();
	if (strcmp(argv[1], "bare") == 0) {
		measure_bare(atoi(argv[2]), argv[3], argv[4], argv[5]);
		return 0;
	}
	run.count = atoi(argv[1]);
	run.pids = calloc((size_t)run.count, sizeof(*run.pids));
	tfc_ctx_options ctx_options = TFC_CTX_OPTIONS_INIT;
	ctx_options.helper_dir = argv[4];
	if (tfc_ctx_new(&ctx_options, &error, &run.ctx) < 0)
		die(error.text);
	tfc_node *node = NULL;
	if (tfc_node_open(run.ctx, NULL, &node) < 0)
		die(tfc_ctx_error(run.ctx)->text);
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	options.node = node;
	if (tfc_gateway_open(run.ctx, &options, &run.gateway) < 0)
		die(tfc_ctx_error(run.ctx)->text);
	measure(&run, atoi(argv[2]), argv[3], argv[5]);
	tfc_sub_close(run.sub);
	tfc_gateway_close(run.gateway);
	tfc_node_close(node);
	tfc_ctx_free(run.ctx);
	free(run.id);
	free(run.pids);
	return 0;
}
