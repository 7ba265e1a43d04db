/*
 * A host with one node, whose library may be linked or loaded: every call goes through a table of
 * the library's public functions. For tests that have several copies of it in one process.
 */
#ifndef TEST_HOST_H
#define TEST_HOST_H

#include <stdbool.h>
#include <tfcluster/tfcluster.h>

#define HOST_CALLS(X)        \
	X(ctx_new)           \
	X(ctx_free)          \
	X(ctx_run)           \
	X(ctx_error)         \
	X(node_open)         \
	X(node_close)        \
	X(gateway_open)      \
	X(gateway_close)     \
	X(gateway_submit)    \
	X(gateway_subscribe) \
	X(sub_close)         \
	X(job_parse)         \
	X(job_free)

struct host_calls {
#define HOST_FIELD(name) __typeof__(&tfc_##name) name;
	HOST_CALLS(HOST_FIELD)
#undef HOST_FIELD
};

struct host {
	const struct host_calls *calls;
	tfc_ctx *ctx;
	tfc_node *node;
	tfc_gateway *gateway;
	tfc_sub *sub;
	char output[256]; /* all lines of the job, each with a newline */
	bool is_over;
	uint32_t state; /* of the job, at its end */
	uint32_t reason;
	int32_t status;
};

/* The library that the test is linked with. */
extern const struct host_calls host_linked;

/* The library behind a handle of dlopen. */
void host_load(void *library, struct host_calls *ret_calls);

/* Each fails the test when it does not succeed. */
void host_open(struct host *host, const struct host_calls *calls);
/* One worker that runs a line of sh. */
void host_submit(struct host *host, const char *line);
void host_run(struct host *host); /* once */
void host_await_output(struct host *host, const char *text);
void host_await_end(struct host *host);
void host_close(struct host *host);

#endif
