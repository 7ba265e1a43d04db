/*
 * Launch N static tasks and reap them all, three ways, in milliseconds:
 *
 *   launch bare N DIR SHIM TASK       a bare loop with the same system calls, no features
 *   launch process N DIR HELPERS TASK tfc_process_spawn, with held ports and logs
 *   launch job N DIR HELPERS TASK     one job of N workers, from submit to its end
 */
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tfcluster/tfcluster.h>

#include "bare_port.h"

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void die(const char *what)
{
	fprintf(stderr, "launch: %s\n", what);
	exit(1);
}

/* ---- bare */

static int bare_spawn(const char *dir, int number, char *shim, char *task)
{
	int pair[2];
	pid_t pid;
	char log[256];
	snprintf(log, sizeof(log), "%s/%d.log", dir, number);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair");
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pair[1], 3);
	char exit_word[] = "exit";
	char *argv[] = {shim, log, task, exit_word, NULL};
	char *env[] = {NULL};
	if (posix_spawn(&pid, shim, &actions, NULL, argv, env) != 0)
		die("posix_spawn");
	posix_spawn_file_actions_destroy(&actions);
	close(pair[1]);
	return pair[0];
}

static void bare(int count, const char *dir, char *shim, char *task)
{
	int *holds = calloc((size_t)count, sizeof(*holds));
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < count; i++) {
		holds[i] = bare_port();
		int fd = bare_spawn(dir, i, shim, task);
		struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	}
	for (int left = count; left > 0;) {
		struct epoll_event events[64];
		int ready = epoll_wait(epoll, events, 64, -1);
		for (int i = 0; i < ready; i++, left--) {
			int status = 0;
			ssize_t len = read(events[i].data.fd, &status, sizeof(status));
			if (len != sizeof(status) || status != 0)
				die("a task failed");
			epoll_ctl(epoll, EPOLL_CTL_DEL, events[i].data.fd, NULL);
			close(events[i].data.fd);
		}
	}
	for (int i = 0; i < count; i++) {
		if (wait(NULL) < 0)
			die("wait");
		close(holds[i]);
	}
	free(holds);
}

/* ---- the library */

static tfc_ctx *new_ctx(const char *helpers)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx *ctx;
	options.helper_dir = helpers;
	if (tfc_ctx_new(&options, &error, &ctx) < 0)
		die(error.text);
	return ctx;
}

static void on_process(void *user, const tfc_process_event *event)
{
	int *left = user;
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	if (event->reason != TFC_EXIT_CODE || event->status != 0)
		die(event->text);
	(*left)--;
}

static void process(tfc_ctx *ctx, int count, const char *dir, const char *task)
{
	tfc_port_pool *pool;
	tfc_port_hold **holds = calloc((size_t)count, sizeof(*holds));
	tfc_process **processes = calloc((size_t)count, sizeof(*processes));
	const char *const argv[] = {task, "exit", NULL};
	int left = count;
	if (tfc_port_pool_open(ctx, NULL, &pool) < 0)
		die(tfc_ctx_error(ctx)->text);
	for (int i = 0; i < count; i++) {
		char name[16];
		snprintf(name, sizeof(name), "task-%d", i);
		tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
		options.argv = argv;
		options.log_dir = dir;
		options.log_name = name;
		if (tfc_port_acquire(pool, 0, &holds[i]) < 0)
			die(tfc_ctx_error(ctx)->text);
		options.hold = holds[i];
		if (tfc_process_spawn(ctx, &options, on_process, &left, &processes[i]) < 0)
			die(tfc_ctx_error(ctx)->text);
	}
	while (left > 0)
		tfc_ctx_run(ctx, -1);
	for (int i = 0; i < count; i++) {
		tfc_process_close(processes[i]);
		tfc_port_hold_release(holds[i]);
	}
	tfc_port_pool_close(pool);
	free(processes);
	free(holds);
}

static void on_event(void *user, const tfc_event *event)
{
	if (event->kind != TFC_EVENT_END)
		return;
	if (event->job_state != TFC_JOB_SUCCEEDED)
		die(event->text);
	*(int *)user = 1;
}

struct submitted {
	tfc_gateway *gateway;
	tfc_sub *sub;
	int is_over;
};

static void on_submitted(void *user, const tfc_reply *reply)
{
	struct submitted *submitted = user;
	if (reply->code < 0)
		die(reply->error->text);
	if (tfc_gateway_subscribe(submitted->gateway, reply->text, NULL, on_event,
				  &submitted->is_over, &submitted->sub) < 0)
		die("subscribe");
}

static void set(tfc_job *job, const char *key, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_job_set(job, key, value, &error) < 0)
		die(error.text);
}

static double job(tfc_ctx *ctx, int count, const char *task)
{
	tfc_node *node = NULL;
	tfc_job *job = NULL;
	struct submitted submitted = {0};
	char number[16];
	snprintf(number, sizeof(number), "%d", count);
	if (tfc_node_open(ctx, NULL, &node) < 0)
		die(tfc_ctx_error(ctx)->text);
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	options.node = node;
	if (tfc_gateway_open(ctx, &options, &submitted.gateway) < 0 || tfc_job_new(&job) < 0)
		die(tfc_ctx_error(ctx)->text);
	set(job, "framework", "none");
	set(job, "roles.worker.count", number);
	set(job, "roles.worker.ready", "started");
	set(job, "argv[]", task);
	set(job, "argv[]", "exit");
	double begin = now_ms();
	if (tfc_gateway_submit(submitted.gateway, job, NULL, on_submitted, &submitted, NULL) < 0)
		die(tfc_ctx_error(ctx)->text);
	while (!submitted.is_over)
		tfc_ctx_run(ctx, -1);
	double end = now_ms();
	tfc_job_free(job);
	tfc_sub_close(submitted.sub);
	tfc_gateway_close(submitted.gateway);
	tfc_node_close(node);
	return end - begin;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		die("usage: launch bare|process|job N DIR HELPERS|SHIM TASK");
	int count = atoi(argv[2]);
	struct rlimit files;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	double begin = now_ms();
	if (strcmp(argv[1], "bare") == 0) {
		bare(count, argv[3], argv[4], argv[5]);
		printf("%.1f\n", now_ms() - begin);
		return 0;
	}
	tfc_ctx *ctx = new_ctx(argv[4]);
	double took = 0;
	if (strcmp(argv[1], "process") == 0) {
		process(ctx, count, argv[3], argv[5]);
		took = now_ms() - begin;
	} else {
		took = job(ctx, count, argv[5]);
	}
	printf("%.1f\n", took);
	tfc_ctx_free(ctx);
	return 0;
}
