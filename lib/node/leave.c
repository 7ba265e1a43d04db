/*
 * How a node leaves: it takes no new task, and its maintainers stop their tasks without ending the
 * jobs; maintainers elsewhere move theirs; then it says goodbye. What takes too long is left for
 * tfc_node_close.
 */
#include "base/clock.h"
#include "node/inside.h"

#define LOOK_MS 20 /* whether the last task of others has gone */
#define PATIENCE_MS 30000

static void on_goodbye(void *user)
{
	tfc_node *node = user;
	node->left(node->left_user);
}

static void say_goodbye(tfc_node *node)
{
	tfc__timer_cancel(&node->leaving);
	tfc__peers_leave(node->peers, on_goodbye, node);
}

static void on_look(struct tfc__timer *timer)
{
	tfc_node *node = tfc__container_of(timer, tfc_node, leaving);
	uint64_t now = tfc__now();
	bool is_empty = node->is_suspended && tfc__agent_taken(node->agent) == 0;
	if (is_empty || now >= node->leave_by)
		say_goodbye(node);
	else
		tfc__timer_set(timer, now + LOOK_MS * TFC__MS);
}

static void on_suspended(void *user)
{
	tfc_node *node = user;
	node->is_suspended = true;
	tfc__timer_set(&node->leaving, tfc__now());
}

int tfc_node_leave(tfc_node *node, tfc_drain_fn fn, void *user)
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
	node->leave_by = tfc__now() + PATIENCE_MS * TFC__MS;
	tfc__node_set_draining(node, true);
	tfc__timer_init(&node->leaving, node->ctx, on_look);
	tfc__timer_set(&node->leaving, node->leave_by);
	/* A node that is drained has stopped its jobs already, or is about to. */
	if (tfc__directory_suspend(node->directory, on_suspended, node, error) < 0)
		on_suspended(node);
	return TFC_OK;
}
