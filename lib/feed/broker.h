/*
 * Where the producers and the consumers of one job's tasks on this node meet: a socket of the node.
 * It makes a connection between them and hands one end to each; no row passes through the node.
 */
#ifndef TFC_FEED_BROKER_H
#define TFC_FEED_BROKER_H

#include "ctx/ctx.h"

#define TFC__FEED_ADDRESS_SIZE 108

struct tfc__feed_broker;

/* The abstract address of the job `id` on the node `node`. */
void tfc__feed_address(char address[TFC__FEED_ADDRESS_SIZE], const char *id, const char *node);

/* Lets the broker of the task's node, which is on this machine, know that a producer has left: an
 * OVER message. TFC_ENOMEM, and those of tfc__feed_socket_dial. */
struct tfc__feed_connect;
int tfc__feed_broker_report_over(const struct tfc__feed_connect *over, tfc_error *error);

/* `uids`: the users of the job's tasks, who may connect besides this user and root; copied.
 * TFC_EBUSY, TFC_EMFILE, TFC_ENOMEM, TFC_ESYS. */
int tfc__feed_broker_open(tfc_ctx *ctx, const char *address, const uint32_t *uids,
			  uint32_t uid_count, tfc_error *error,
			  struct tfc__feed_broker **ret_broker);
const char *tfc__feed_broker_address(const struct tfc__feed_broker *broker);
/* Connections that it has made stay. NULL is a no-op. */
void tfc__feed_broker_close(struct tfc__feed_broker *broker);

#endif
