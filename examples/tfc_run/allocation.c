/*
 * `tfc_run allocation`: the same command on every host of an allocation. The ranks become nodes of
 * one cluster; rank 0 submits the job to its node and follows it, as `local` does.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "allocation_options.h"
#include "local.h"

#define ALL_STOP_NS UINT64_C(1000000000) /* until a rank that got a signal leaves by itself */

struct allocation_run {
	struct local local; /* its job: rank 0 only */
	const struct allocation_options *options;
	tfc_allocation *allocation;
	pid_t launcher; /* the parent when the process began */
	uint32_t rank;
	bool is_joined;  /* not rank 0: the tasks of its job may be here */
	bool is_ready;   /* rank 0: the job may be submitted */
	bool is_over;    /* nothing is left but to leave */
	bool is_settled; /* is_ready or is_over */
	bool has_failed;
	bool has_left;
	uint64_t hasty_at_ns; /* a second Ctrl-C: then it does not wait for the tasks; 0: none */
	uint64_t leave_at_ns; /* a signal came; 0: none */
	int status;
	char who[24];
	char reason[512]; /* which rank 0 announces with its status; "": none */
};

static void allocation_say(struct allocation_run *run, enum weight weight, const char *text)
{
	if (run->rank == 0 || weight == ERROR)
		output_message(&run->local.output, weight, "%s%s", run->local.who, text);
}

static void allocation_stop(struct allocation_run *run, int status)
{
	run->status = status;
	run->is_over = run->is_settled = true;
}

/* The job of rank 0 is stopped, with its grace periods, before the rank leaves. While it is stopped
 * because of a signal, the other ranks leave because of the same one. */
static void allocation_fail(struct allocation_run *run, const char *text)
{
	if (run->local.is_stopping)
		return;
	allocation_say(run, ERROR, text);
	snprintf(run->reason, sizeof(run->reason), "%s", text);
	run->has_failed = true;
	allocation_stop(run, RUN_FAILED);
	if (run->local.gateway)
		local_stop(&run->local, SIGTERM, 0, false);
}

static void allocation_on_event(void *user, const tfc_allocation_event *event)
{
	struct allocation_run *run = user;
	char text[512];
	switch (event->kind) {
	case TFC_ALLOCATION_WAITING:
		snprintf(text, sizeof(text), "waiting: %s yet", event->text);
		allocation_say(run, NOTICE, text);
		break;
	case TFC_ALLOCATION_READY:
		run->is_joined = run->rank != 0;
		run->is_ready = run->is_settled = run->rank == 0;
		break;
	case TFC_ALLOCATION_LOST:
	case TFC_ALLOCATION_RETURNED:
		allocation_say(run, NOTICE, event->text);
		break;
	case TFC_ALLOCATION_ENDED:
		allocation_stop(run, (int)event->exit_status);
		break;
	case TFC_ALLOCATION_FAILED:
		allocation_fail(run, event->text);
		break;
	}
}

static void allocation_on_left(void *user)
{
	struct allocation_run *run = user;
	run->has_left = true;
}

/* ---- the loop of a rank without a job, and of rank 0 before and after its job */

/* The engine may have sent the signal to all ranks: then rank 0 stops the job, and its tasks here
 * end without moving to another rank first. Engines repeat TERM, which must not cut the grace of
 * the tasks short; only a second Ctrl-C does. */
static void allocation_read_signals(struct allocation_run *run)
{
	struct signalfd_siginfo info;
	while (read(run->local.signals, &info, sizeof(info)) == sizeof(info)) {
		if (!run->is_over && !run->leave_at_ns) {
			run->status = 128 + (int)info.ssi_signo;
			run->leave_at_ns = now_ns() + (run->is_joined ? ALL_STOP_NS : 0);
		} else if (info.ssi_signo == SIGINT && !run->hasty_at_ns) {
			/* Rank 0 had the same Ctrl-C, as a rule, and kills the tasks here. */
			run->hasty_at_ns = now_ns() + (run->is_joined ? ALL_STOP_NS : 0);
		}
	}
}

/* Waits until *is_done, or until a second Ctrl-C. */
static void allocation_run_until(struct allocation_run *run, const bool *is_done)
{
	while (!*is_done) {
		uint64_t now = now_ns(), leave_at = run->is_over ? 0 : run->leave_at_ns;
		uint64_t wake_at = run->hasty_at_ns;
		if (!wake_at || (leave_at && leave_at < wake_at))
			wake_at = leave_at;
		if (run->hasty_at_ns && now >= run->hasty_at_ns)
			break;
		if (leave_at && now >= leave_at) {
			allocation_stop(run, run->status);
			break;
		}
		if (!output_poll(&run->local.output, run->local.signals, run->local.ctx,
				 wake_at ? (int)((wake_at - now) / 1000000) + 1 : -1))
			break;
		allocation_read_signals(run);
		if (tfc_ctx_dispatch(run->local.ctx, 0) < 0)
			break;
		output_flush(&run->local.output);
	}
}

/* ---- the parts of a run */

static void allocation_run_job(struct allocation_run *run)
{
	local_submit(&run->local, tfc_allocation_node(run->allocation));
	local_run_loop(&run->local);
	if (!run->has_failed)
		allocation_stop(run, run->local.status);
}

static void allocation_leave(struct allocation_run *run)
{
	if (tfc_allocation_end(run->allocation, (uint32_t)run->status, run->reason,
			       allocation_on_left, run) < 0)
		local_fail(&run->local, NULL);
	else
		allocation_run_until(run, &run->has_left);
}

/* The daemon of the engine that has started this rank (mpirun, orted, slurmstepd) ends it, unless
 * the daemon itself is killed. */
static void allocation_end_with_launcher(const struct allocation_run *run)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != run->launcher) /* it has died before that */
		kill(getpid(), SIGTERM);
}

static void allocation_run(struct allocation_run *run)
{
	const tfc_allocation_options *options = &run->options->library;
	if (tfc_allocation_open(run->local.ctx, options, allocation_on_event, run,
				&run->allocation) < 0) {
		local_fail(&run->local, NULL);
		run->status = RUN_FAILED;
		return;
	}
	const tfc_allocation_info *info = tfc_allocation_describe(run->allocation);
	run->rank = info->rank;
	if (info->engine == TFC_ENGINE_OPEN_MPI || info->engine == TFC_ENGINE_SLURM)
		allocation_end_with_launcher(run);
	if (run->rank) {
		snprintf(run->who, sizeof(run->who), "rank %u: ", run->rank);
		run->local.who = run->who;
		run->local.output.has_status = false;
	}
	allocation_say(run, NOTICE, info->text);
	allocation_run_until(run, run->rank == 0 ? &run->is_settled : &run->is_over);
	if (run->is_ready && !run->is_over && !run->leave_at_ns)
		allocation_run_job(run);
	allocation_leave(run);
}

int allocation_main(int argc, char **argv)
{
	struct allocation_options options;
	struct allocation_run run = {.options = &options, .launcher = getppid()};
	enum options_result result = allocation_options_read(argc, argv, &options);
	int status = result == OPTIONS_HELP ? 0 : RUN_FAILED;
	if (result == OPTIONS_OK) {
		local_open(&run.local, &options.local);
		if (!run.local.is_ended)
			allocation_run(&run);
		run.local.is_ended = true;
		local_run_loop(&run.local); /* writes what is left of the output */
		local_close_gateway(&run.local);
		tfc_allocation_close(run.allocation);
		status = local_close(&run.local);
		if (run.status)
			status = run.status;
	}
	allocation_options_end(&options);
	return status;
}
