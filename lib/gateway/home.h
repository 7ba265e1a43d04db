/*
 * The home of a submit: the one node that makes the job, and knows the submit again by its client
 * key (doc/internals/gateway.md). It is asked until it answers, or its patience is over: directly,
 * or through the node that is connected. It belongs to an errand, which frees it.
 */
#ifndef TFC_GATEWAY_HOME_H
#define TFC_GATEWAY_HOME_H

#include "gateway/errand.h"

/* The node that is connected. */
struct tfc__server {
	const char *address;
	char node_id[TFC__NODE_ID_SIZE];
	char name[64];
	bool is_old; /* as 0.2: it is no home, and passes no submit on */
};

/* What the homes of one gateway share; embedded in it. */
struct tfc__homes {
	tfc_ctx *ctx;
	uint32_t patience_ms;                    /* for which a home is asked */
	void (*ask)(struct tfc__errand *errand); /* its pause is over: tfc__home_go, soon */
	struct tfc__server server;
};

/* For a submit. node_id: the host's choice, or NULL. False: no memory, and the errand has failed.
 */
bool tfc__home_add(struct tfc__homes *homes, struct tfc__errand *errand, const char *node_id);

/* Puts the submit to the node that is connected over `rpc`, or lets it wait when that is no way. */
void tfc__home_go(struct tfc__errand *errand, struct tfc__rpc *rpc);

/* The submit was lost. True: its home is asked again after a pause; false: nothing was sent to it,
 * or the errand is no submit. */
bool tfc__home_ask_again(struct tfc__errand *errand, const tfc_error *why);

/* Says in the log, once, that a home is waited for. */
void tfc__home_note_wait(struct tfc__errand *errand, const tfc_error *why);

/* Of any errand. Whether it is a submit whose home has been asked, one whose home will be asked
 * after a pause, and one whose home is connected. */
bool tfc__home_is_asked(const struct tfc__errand *errand);
bool tfc__home_is_paused(const struct tfc__errand *errand);
bool tfc__home_is_here(const struct tfc__errand *errand);

#endif
