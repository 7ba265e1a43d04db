/*
 * Cause, not consequence.
 *
 * When one member of a TensorFlow cluster dies, the others exit with status 1: an end that looks
 * permanent and says nothing about the program. Therefore:
 *
 * - A retryable death (signal, loss, preemption) has its cause outside: it decides at once.
 * - A permanent death that a peer could have caused makes its task the suspect. Every node is
 * queried (QUERY); its response comes after every death there that had happened when it was
 * queried. Deaths of the suspect's peers are collected meanwhile. A node that does not respond is
 * waited for until it does or is lost.
 * - A collected retryable death is the cause at once, whatever its time: a lost host is noticed
 * after its peers have failed, and one restart too many costs less than the job.
 * - If a response shows a peer that is stopped (SIGSTOP) or has no process, that peer is the cause.
 * - If the node of the suspect or of a peer was unreachable at that time, the network is the cause.
 * - Else the earliest of the collected deaths is the cause; all others are consequences.
 * - A coordinator that fails while a ps restarts, or shortly after, restarts too: workers that have
 * lived on fail its calls until they have connected to the ps again.
 * - The cause decides, with its status. If a peer had ended with 0 shortly before, the text says
 * so: the rest of a group cannot continue without it. But the failure may have another reason.
 */
#include "cluster/core_state.h"

#include <stdio.h>
#include <string.h>

#define SECOND_NS 1000000000ull
/* TensorFlow notices late that a member has left: its barrier at the end waits for 20 s. */
#define LEFT_NS (60 * SECOND_NS)
/* A TensorFlow worker that could not connect to a ps tries again after 1.2 s at most
 * (distributed_runtime/rpc/grpc_channel.cc: 1 s, and gRPC's jitter). The rest is for the end of the
 * coordinator on a busy node. */
#define RECONNECT_NS (10 * SECOND_NS)

/* The tasks whose death or silence could explain the suspect's death. */
static bool is_peer(const struct tfc__core *core, const struct task *suspect, const struct task *t)
{
	if (t == suspect)
		return false;
	if (tfc__task_role(core, suspect)->scope == TFC__SCOPE_GROUP)
		return t->is_member;
	return tfc__task_is_coordinator(core, suspect) && tfc__task_is_ps(core, t);
}

static bool has_peer(const struct tfc__core *core, const struct task *t)
{
	if (tfc__task_role(core, t)->scope == TFC__SCOPE_GROUP)
		return core->member_count > 1;
	return tfc__task_is_coordinator(core, t) && core->ps_count > 0;
}

/* Whether its death waits for the open verdict. This includes the death of a second coordinator. */
static bool is_death_collected(const struct tfc__core *core, const struct task *t)
{
	const struct task *suspect = core->suspect;
	return is_peer(core, suspect, t) ||
	       (tfc__task_is_coordinator(core, suspect) && tfc__task_is_coordinator(core, t));
}

static void verdict_collect(struct tfc__core *core, struct task *t)
{
	t->judged = core->judged;
	core->judged = t;
	tfc__task_phase(core, t, PHASE_JUDGED);
}

static void verdict_remove(struct tfc__core *core, struct task *t)
{
	for (struct task **at = &core->judged; *at; at = &(*at)->judged) {
		if (*at == t) {
			*at = t->judged;
			return;
		}
	}
}

static bool is_verdict_open(const struct tfc__core *core)
{
	return core->query == QUERY_VERDICT || core->query == QUERY_VERDICT_CUT;
}

static void verdict_close(struct tfc__core *core)
{
	if (is_verdict_open(core))
		core->query = QUERY_NONE;
	core->suspect = NULL;
}

void tfc__judge_drop(struct tfc__core *core, bool is_consequence)
{
	verdict_close(core);
	while (core->judged) {
		struct task *t = core->judged;
		core->judged = t->judged;
		uint32_t reason = tfc__death_reason(&t->death);
		uint32_t state = t->death.reason == TFC_EXIT_LOST ? TFC_TASK_LOST : TFC_TASK_FAILED;
		char text[ACTION_TEXT];
		tfc__death_text(core, t, text, sizeof(text));
		if (is_consequence)
			reason = TFC_END_CONSEQUENCE;
		else if (core->phase == CORE_FINISHING && state == TFC_TASK_FAILED)
			state = TFC_TASK_EXITED; /* it decides nothing */
		tfc__report_end(core, t, state, reason, text);
		tfc__task_phase(core, t, PHASE_DEAD);
	}
}

/* The first of t's peers that ended with 0 while t was running; NULL: none. */
static const struct task *find_leaver(const struct tfc__core *core, const struct task *t)
{
	const struct task *leaver = NULL;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *u = &core->tasks[i];
		uint64_t at = u->death.time_ns;
		bool is_done = u->phase == PHASE_OVER && u->attempt &&
			       tfc__death_class(core, &u->death) == CLASS_DONE;
		if (!is_done || !is_peer(core, t, u) || at < t->launched_at ||
		    at > t->death.time_ns || t->death.time_ns - at > LEFT_NS)
			continue;
		if (!leaver || at < leaver->death.time_ns)
			leaver = u;
	}
	return leaver;
}

static void text_add_leaver(const struct tfc__core *core, const struct task *t, char *text,
			    size_t size)
{
	const struct task *leaver = find_leaver(core, t);
	if (!leaver)
		return;
	tfc__text_add(text, size, ", %.1f s after %s/%u had exited with 0",
		      (double)(t->death.time_ns - leaver->death.time_ns) / (double)SECOND_NS,
		      tfc__task_role(core, leaver)->name, leaver->index);
}

/* Whether a worker is older than this attempt of the ps, and has to connect to it again. */
static bool has_worker_lived_on(const struct tfc__core *core, const struct task *ps)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *t = &core->tasks[i];
		if (t->is_member && !tfc__task_is_ps(core, t) &&
		    !tfc__task_is_coordinator(core, t) && tfc__task_is_alive(t) && t->ready_at &&
		    t->ready_at < ps->launched_at)
			return true;
	}
	return false;
}

/* The ps of the coordinator t that was the last to restart, if it was not ready long before t died;
 * NULL: none. If the workers have restarted, too, nobody has to connect again. */
static const struct task *find_restarted_ps(const struct tfc__core *core, const struct task *t)
{
	const struct task *last = NULL;
	if (!tfc__task_is_coordinator(core, t))
		return NULL;
	for (uint32_t i = 0; i < core->task_count; i++) {
		const struct task *ps = &core->tasks[i];
		bool is_recent = !ps->ready_at || t->death.time_ns < ps->ready_at + RECONNECT_NS;
		if (tfc__task_is_ps(core, ps) && tfc__task_is_alive(ps) && ps->attempt > 1 &&
		    is_recent && ps->launched_at <= t->death.time_ns &&
		    (!last || ps->launched_at > last->launched_at))
			last = ps;
	}
	return last && has_worker_lived_on(core, last) ? last : NULL;
}

/* Carries out the verdict that t's death, or the network, is the cause. */
static void judge_decide(struct tfc__core *core, struct task *t, bool is_cut)
{
	char text[ACTION_TEXT];
	tfc__death_status_text(core, t, text, sizeof(text));
	enum death_class class = is_cut ? CLASS_RETRYABLE : tfc__death_class(core, &t->death);
	bool is_loss = is_cut || tfc__death_is_loss(core, t);
	bool is_unexplained = class == CLASS_PERMANENT && tfc__death_is_explainable(&t->death);
	const struct task *ps = is_unexplained ? find_restarted_ps(core, t) : NULL;
	if (ps)
		class = CLASS_RETRYABLE;
	if (is_cut)
		tfc__text_add(text, sizeof(text), " while a node was unreachable");
	else if (ps)
		tfc__text_add(text, sizeof(text), ", %.1f s after %s/%u had restarted",
			      (double)(t->death.time_ns - ps->launched_at) / (double)SECOND_NS,
			      tfc__task_role(core, ps)->name, ps->index);
	else if (is_unexplained)
		text_add_leaver(core, t, text, sizeof(text));
	tfc__death_text_add_why(t, text, sizeof(text));
	if (tfc__restart_failed(core, t, class, is_loss, text, sizeof(text)) == RESTART_REFUSED)
		tfc__end_failed(core, t, text);
}

void tfc__judge_unreachable(struct tfc__core *core, const struct task *t)
{
	if (core->query == QUERY_VERDICT && (t == core->suspect || is_peer(core, core->suspect, t)))
		core->query = QUERY_VERDICT_CUT;
}

void tfc__judge_death(struct tfc__core *core, struct task *t)
{
	enum death_class class = tfc__death_class(core, &t->death);
	if (class == CLASS_DONE) {
		tfc__end_done(core, t);
	} else if (is_verdict_open(core) && is_death_collected(core, t)) {
		verdict_collect(core, t);
		if (class == CLASS_RETRYABLE) {
			verdict_remove(core, t);
			judge_decide(core, t, false);
		}
	} else if (class == CLASS_PERMANENT && tfc__death_is_explainable(&t->death) &&
		   has_peer(core, t) && !is_verdict_open(core)) {
		verdict_collect(core, t);
		core->suspect = t;
		core->query = QUERY_VERDICT;
		for (uint32_t i = 0; i < core->task_count; i++)
			if (tfc__node_was_unreachable(&core->tasks[i], t->death.time_ns))
				tfc__judge_unreachable(core, &core->tasks[i]);
		tfc__query_nodes(core);
	} else {
		judge_decide(core, t, false);
	}
}

/* A living peer that cannot be working: stopped, or without a process. */
static struct task *find_silent_peer(struct tfc__core *core)
{
	for (uint32_t i = 0; i < core->task_count; i++) {
		struct task *t = &core->tasks[i];
		if (!is_peer(core, core->suspect, t) || !tfc__task_is_alive(t) ||
		    t->ending == ENDING_STOP)
			continue;
		if (t->process == TFC__PROC_STOPPED || t->process == TFC__PROC_NONE)
			return t;
	}
	return NULL;
}

static struct task *find_earliest_death(struct tfc__core *core)
{
	struct task *earliest = core->judged;
	for (struct task *t = core->judged; t; t = t->judged)
		if (t->death.time_ns < earliest->death.time_ns ||
		    (t->death.time_ns == earliest->death.time_ns && t < earliest))
			earliest = t;
	return earliest;
}

/* A silent peer is the cause, and is restarted like a dead one. If the restart is refused, the
 * suspect, which has a status, decides. */
static void judge_silent(struct tfc__core *core, struct task *t, bool is_stopped)
{
	struct task *suspect = core->suspect;
	char text[ACTION_TEXT];
	tfc__text_name(core, t, text, sizeof(text));
	tfc__text_add(text, sizeof(text), is_stopped ? " is stopped (SIGSTOP)" : " is not running");
	t->death = (struct tfc__attempt_end){.reason = TFC_EXIT_LOST, .time_ns = core->now};
	t->cause = CAUSE_SILENT;
	if (tfc__restart_failed(core, t, CLASS_RETRYABLE, !is_stopped, text, sizeof(text)) ==
	    RESTARTED)
		return;
	verdict_remove(core, suspect);
	char whole[ACTION_TEXT];
	tfc__death_text(core, suspect, whole, sizeof(whole));
	tfc__text_add(whole, sizeof(whole), "; %s", text);
	tfc__end_failed(core, suspect, whole);
}

void tfc__judge_response(struct tfc__core *core)
{
	struct task *silent = find_silent_peer(core);
	bool is_network = !silent && core->query == QUERY_VERDICT_CUT;
	if (silent)
		judge_silent(core, silent, silent->process == TFC__PROC_STOPPED);
	/* Each task whose death this does not explain is judged by its own death, the earliest
	 * first. That ends the job or restarts the task's group, which clears the list, unless its
	 * failure is ignored. */
	verdict_close(core);
	while (core->judged) {
		struct task *t = find_earliest_death(core);
		verdict_remove(core, t);
		judge_decide(core, t, is_network && tfc__death_is_explainable(&t->death));
	}
}
