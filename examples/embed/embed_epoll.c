/*
 * A job inside a host that has its own event loop on epoll: the loop watches the library's
 * descriptor together with the host's, here a signalfd.
 *
 *   embed_epoll [--edge] PROGRAM [ARGUMENT...]       two workers, each running the program
 *   embed_epoll python3 examples/tensorflow/mirrored.py
 *
 * The descriptor is level-triggered: it stays readable while there is work, so one call of
 * tfc_ctx_dispatch per wake-up is enough, and no other source of the host has to wait long. With
 * --edge it is watched edge-triggered (EPOLLET), where a wake-up occurs only for a new event:
 * then dispatch must be called again as long as it returns 1.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "job.h"

/* Ctrl-C is received through a signalfd. */
static int open_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void read_signals(struct job *job, int signals)
{
	struct signalfd_siginfo info;
	while (read(signals, &info, sizeof(info)) == sizeof(info))
		job_stop(job, (int)info.ssi_signo);
}

static void dispatch(struct job *job, bool is_edge)
{
	int more;
	do
		more = tfc_ctx_dispatch(job->ctx, 0);
	while (is_edge && more == 1 && !job->is_over);
	if (more < 0)
		job_fail(job, NULL);
}

static int watch(int loop, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};
	return epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
}

static void run(struct job *job, int loop, int signals, bool is_edge)
{
	struct epoll_event events[8];
	while (!job->is_over) {
		int count = epoll_wait(loop, events, 8, -1);
		if (count < 0 && errno != EINTR)
			job_fail(job, "epoll_wait failed");
		for (int i = 0; i < count; i++)
			if (events[i].data.fd == signals)
				read_signals(job, signals);
			else
				dispatch(job, is_edge);
	}
}

int main(int argc, char **argv)
{
	struct job job = {0};
	bool is_edge = argc > 1 && strcmp(argv[1], "--edge") == 0;
	if (argc < 2 + is_edge) {
		fprintf(stderr, "usage: embed_epoll [--edge] PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	int loop = epoll_create1(EPOLL_CLOEXEC);
	int signals = open_signals();
	if (loop < 0 || signals < 0 || watch(loop, signals, EPOLLIN) < 0) {
		perror("embed_epoll");
		return 125;
	}
	if (job_open(&job, argv + 1 + is_edge)) {
		if (watch(loop, tfc_ctx_fd(job.ctx), EPOLLIN | (is_edge ? EPOLLET : 0)) < 0)
			job_fail(&job, "epoll_ctl failed");
		run(&job, loop, signals, is_edge);
	}
	job_close(&job);
	close(loop);
	close(signals);
	return job.status;
}
