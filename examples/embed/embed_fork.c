/*
 * A job inside a host that forks workers without exec, as PostgreSQL's postmaster does, and reaps
 * every child. A worker has copies of all the host's descriptors and memory. First of all it calls
 * tfc_ctx_abandon, which closes the library's descriptors; then it may open a context of its own.
 * With or without that call, a worker that outlives the host keeps no task of the job alive: the
 * guard watches the host process, not the socket.
 *
 *   embed_fork PROGRAM [ARGUMENT...]       two workers, each running the program
 *   embed_fork python3 examples/tensorflow/mirrored.py
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"

#define BACKENDS 2

struct host {
	struct job job;
	int signals;
	pid_t backends[BACKENDS]; /* 0: has ended */
};

/* ---- a worker of the host, which in this example only waits for SIGTERM */

static _Noreturn void be_backend(struct host *host, int number)
{
	tfc_ctx *own = NULL;
	int signal_number;
	sigset_t set;
	tfc_ctx_abandon(host->job.ctx);
	close(host->signals);
	bool is_open = tfc_ctx_new(NULL, NULL, &own) == TFC_OK; /* a worker may run jobs, too */
	printf("backend %d is process %d, its own context is %s\n", number, (int)getpid(),
	       is_open ? "open" : "missing");
	fflush(stdout);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigwait(&set, &signal_number);
	tfc_ctx_free(own);
	_exit(0);
}

static void fork_backends(struct host *host)
{
	for (int i = 0; i < BACKENDS; i++) {
		pid_t pid = fork();
		if (pid == 0)
			be_backend(host, i);
		if (pid < 0)
			job_fail(&host->job, "cannot fork");
		host->backends[i] = pid > 0 ? pid : 0;
	}
}

/* Reaps every child, including those of the library, which does not use waitpid to learn how a task
 * has ended. */
static bool reap(struct host *host)
{
	bool is_one_left = false;
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < BACKENDS; i++)
			if (host->backends[i] == pid) {
				printf("backend %d ended with %d\n", i, WEXITSTATUS(status));
				host->backends[i] = 0;
			}
	for (int i = 0; i < BACKENDS; i++)
		is_one_left |= host->backends[i] != 0;
	return is_one_left;
}

/* ---- the host */

static int open_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void read_signals(struct host *host)
{
	struct signalfd_siginfo info;
	while (read(host->signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGCHLD)
			reap(host);
		else
			job_stop(&host->job, (int)info.ssi_signo);
}

static void run(struct host *host)
{
	struct pollfd fds[] = {
		{.fd = host->signals, .events = POLLIN},
		{.fd = tfc_ctx_fd(host->job.ctx), .events = POLLIN},
	};
	while (!host->job.is_over && poll(fds, 2, -1) >= 0) {
		if (fds[0].revents)
			read_signals(host);
		if (fds[1].revents && tfc_ctx_dispatch(host->job.ctx, 0) < 0)
			job_fail(&host->job, NULL);
	}
}

static void end_backends(struct host *host)
{
	struct pollfd poller = {.fd = host->signals, .events = POLLIN};
	for (int i = 0; i < BACKENDS; i++)
		if (host->backends[i])
			kill(host->backends[i], SIGTERM);
	while (reap(host) && poll(&poller, 1, -1) >= 0)
		read_signals(host);
}

int main(int argc, char **argv)
{
	struct host host = {0};
	if (argc < 2) {
		fprintf(stderr, "usage: embed_fork PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	host.signals = open_signals();
	if (host.signals < 0) {
		perror("embed_fork");
		return 125;
	}
	if (job_open(&host.job, argv + 1)) {
		fork_backends(&host);
		run(&host);
	}
	end_backends(&host);
	job_close(&host.job);
	close(host.signals);
	return host.job.status;
}
