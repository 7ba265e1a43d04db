/*
 * How a node leaves: it takes no new task, and its maintainers stop their tasks without ending the
 * jobs; maintainers elsewhere move theirs; then it says goodbye. What takes too long is left for
 * tfc_node_close.
 */
#include "base/clock.h"
#include "node/internal.h"

#define QUIET_MS 1000 /* then it says what it waits for */
#define PATIENCE_S 30 /* for jobs whose tasks are elsewhere */
#define MARGIN_S 5    /* beyond a grace, until the end of the last task is known everywhere */

static void on_goodbye(void *user)
{
	tfc_node *node = user;
	node->left(node->left_user);
}

static void say_goodbye(tfc_node *node)
{
	tfc__node_stop_leaving(node);
	tfc__peers_leave(node->peers, on_goodbye, node);
}

static void go_when_empty(struct tfc__work *work)
{
	tfc_node *node = tfc__container_of(work, tfc_node, emptied);
	if (node->is_suspended && tfc__agent_taken(node->agent) == 0)
		say_goodbye(node);
}

static void on_suspended(void *user)
{
	tfc_node *node = user;
	node->is_suspended = true;
	tfc__work_schedule(&node->emptied);
}

static void say_what_lasts(const tfc_node *node)
{
	char tasks[200];
	tfc__agent_taken_text(node->agent, tasks, sizeof(tasks));
	tfc__log(node->ctx, TFC_LOG_WARNING, "node", "", "leaving: waits for %s to end",
		 *tasks ? tasks : "tasks of its jobs on other nodes");
}

static void on_timer(struct tfc__timer *timer)
{
	tfc_node *node = tfc__container_of(timer, tfc_node, leaving);
	if (tfc__now() >= node->leave_by) {
		say_goodbye(node);
		return;
	}
	say_what_lasts(node);
	tfc__timer_set(timer, node->leave_by);
}

int tfc_node_leave(tfc_node *node, tfc_node_ended_fn fn, void *user)
{
	int code = tfc__ctx_enter(node ? node->ctx : NULL);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(node->ctx);
	if (!fn)
		return tfc__fail(error, TFC_EINVAL, "node", 0, "fn is NULL");
	if (node->left)
		return tfc__fail(error, TFC_ESTATE, "node", 0, "the node is leaving already");
	node->left = fn;
	node->left_user = user;
	double graces_s = tfc__agent_longest_grace_s(node->agent) + MARGIN_S;
	double patience_s = graces_s > PATIENCE_S ? graces_s : PATIENCE_S;
	node->leave_by = tfc__now() + (uint64_t)(patience_s * TFC__SECOND);
	tfc__node_set_draining(node, true);
	tfc__timer_init(&node->leaving, node->ctx, on_timer);
	tfc__timer_set(&node->leaving, tfc__now() + QUIET_MS * TFC__MS);
	tfc__work_init(&node->emptied, node->ctx, go_when_empty);
	tfc__agent_on_empty(node->agent, &node->emptied);
	/* A node that is drained has stopped its jobs already, or is about to. */
	if (tfc__directory_suspend(node->directory, on_suspended, node, error) < 0)
		on_suspended(node);
	return TFC_OK;
}

void tfc__node_stop_leaving(tfc_node *node)
{
	if (!node->left)
		return;
	tfc__agent_on_empty(node->agent, NULL);
	tfc__work_cancel(&node->emptied);
	tfc__timer_cancel(&node->leaving);
}
