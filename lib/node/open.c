/*
 * Puts a node together: state, members, agent, jobs. Each part stands on those opened before it,
 * and they are closed in the opposite order.
 */
#include <stdlib.h>

#include "base/file.h"
#include "node/inside.h"
#include "node/state.h"

/* ---- agent and jobs */

static void on_gpus(void *user, uint32_t count)
{
	tfc_node *node = user;
	tfc__members_set_gpus(node->members, count);
}

static int open_agent(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	const struct tfc__member *self = tfc__members_self(node->members);
	char *own_log_dir = NULL;
	if (options->state_dir && !options->log_dir &&
	    !(own_log_dir = tfc__path_join(options->state_dir, "logs")))
		return tfc__fail_nomem(error, "node");
	struct tfc__agent_options agent = {
		.port_first = options->port_first,
		.port_last = options->port_last,
		.name = options->name,
		.host = options->host,
		.env = options->env,
		.python = options->python,
		.log_dir = own_log_dir ? own_log_dir : options->log_dir,
		.temp_dir = options->temp_dir,
		.slots = self->slots,
		.memory = self->memory,
		.gpus = options->gpus,
		.gpu_count = self->gpus,
		.gpus_fn = on_gpus,
		.gpus_user = node,
		.hook_user = options->hook_user,
		.before_launch = options->before_launch,
		.after_exit = options->after_exit,
	};
	int code = tfc__agent_open(node->ctx, &agent, &node->agent);
	free(own_log_dir);
	if (code == TFC_OK)
		tfc__members_set_gpus(node->members, tfc__agent_gpus(node->agent));
	return code;
}

/* The agent of a member. */
static struct tfc__agent_handle agent_of(void *user, const struct tfc__member *member)
{
	const tfc_node *node = user;
	if (member->is_self)
		return (struct tfc__agent_handle){&tfc__local_agent_ops, node->agent};
	return (struct tfc__agent_handle){NULL, NULL};
}

int tfc__node_open_parts(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	int code;
	if (options->listen || options->key_file)
		return tfc__fail(error, TFC_ENOTSUP, "node", 0,
				 "tfc_node_options.listen and key_file: this node is alone");
	if ((options->state_dir && (code = tfc__state_dir_open(options->state_dir, error)) < 0) ||
	    (code = tfc__node_open_members(node, options, error)) < 0 ||
	    (code = open_agent(node, options, error)) < 0 ||
	    (code = tfc__nodes_open(node->ctx, node->members, agent_of, node, error,
				    &node->nodes)) < 0)
		return code;
	return tfc__directory_open(node->ctx, node->agent, node->nodes, &node->directory);
}

void tfc__node_close_parts(tfc_node *node)
{
	tfc__directory_close(node->directory);
	tfc__nodes_close(node->nodes);
	tfc__agent_close(node->agent);
	tfc__node_close_members(node);
}
