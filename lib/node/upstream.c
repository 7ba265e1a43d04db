/*
 * Where the host's data is, as the node asks for it: the host's own upstreams, or a file.
 */
#include "cluster/upstream.h"
#include "node/internal.h"
#include "node/upstream_map.h"

int tfc__node_open_upstreams(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	int code = TFC_OK;
	if (options->upstream && options->upstream_map)
		return tfc__fail(error, TFC_EINVAL, "node", 0,
				 "tfc_node_options has both upstream and upstream_map");
	const tfc_upstream_ops *ops = options->upstream_map ? &tfc__upstream_map_ops
							    : options->upstream;
	if (options->upstream_map)
		code = tfc__upstream_map_open(node->ctx, options->upstream_map, error, &node->map);
	if (code == TFC_OK)
		code = tfc__upstreams_open(node->ctx, ops,
					   node->map ? (void *)node->map : options->upstream_impl,
					   error, &node->upstreams);
	if (code < 0)
		return code;
	if (node->map)
		tfc__upstream_map_tell(node->map, node->upstreams);
	tfc__nodes_set_upstreams(node->nodes, node->upstreams);
	return TFC_OK;
}

void tfc__node_close_upstreams(tfc_node *node)
{
	tfc__upstreams_close(node->upstreams);
	tfc__upstream_map_close(node->map);
}

int tfc_node_upstream_changed(tfc_node *node, const char *upstream, uint64_t version)
{
	int code = tfc__ctx_enter(node ? node->ctx : NULL);
	if (code < 0)
		return code;
	if (!upstream || !*upstream)
		return tfc__ctx_fail(node->ctx, TFC_EINVAL, "node", 0, "upstream is missing");
	tfc__upstreams_changed(node->upstreams, upstream, version);
	return TFC_OK;
}
