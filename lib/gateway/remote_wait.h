/*
 * Why a subscription over a connection gets no events, and for how long at most it waits:
 * - LOST: there is no connection; the subscription retries until the time is over.
 * - SILENT: the connection is open, and the node at its other end does not respond.
 * - The node at the other end itself waits for the node that has the job, and has reported this
 *   (relayed). This can precede the other two.
 * It also knows what of this was reported: RECONNECTING comes once for each reason.
 */
#ifndef TFC_GATEWAY_REMOTE_WAIT_H
#define TFC_GATEWAY_REMOTE_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tfcluster/gateway.h>

struct tfc__remote_wait {
	enum { TFC__WAIT_NONE, TFC__WAIT_LOST, TFC__WAIT_SILENT } kind;
	uint64_t lost_since;    /* tfc__now; LOST */
	uint64_t unknown_since; /* LOST: since when each node has said that the job is not known; 0
				 */
	uint64_t until;         /* LOST: when the time is over */
	uint64_t relayed_since; /* 0: no wait of the other end was reported */
	tfc_error error;        /* the reason */
	char node[128];         /* the node that has the job; "": not known */
	char neighbor[64];      /* SILENT: the node at the other end; "": not known */
	bool is_due;            /* RECONNECTING is to be reported */
	bool is_reported;       /* RECONNECTING was reported, and RECONNECTED was not */
	int32_t reported_code;  /* of the error reported last */
	bool is_logged;
};

/* The connection is lost or cannot be made, or the job is not known there (TFC_ENOENT). The time is
 * over after `patience`, or when nobody has known the job for `unknown_patience`. */
void tfc__remote_wait_lose(struct tfc__remote_wait *wait, const tfc_error *why, uint64_t patience,
			   uint64_t unknown_patience);
/* The connection is established: items arrive. */
void tfc__remote_wait_connect(struct tfc__remote_wait *wait);

/* The node at the other end does not respond (node: its name, or ""), or responds again: whether
 * this is news. */
bool tfc__remote_wait_silence(struct tfc__remote_wait *wait, const char *node,
			      const tfc_error *error);
bool tfc__remote_wait_respond(struct tfc__remote_wait *wait);

/* The node at the other end has reported that it waits. */
void tfc__remote_wait_relay(struct tfc__remote_wait *wait);

/* Events arrive again. Returns whether RECONNECTING was reported before. */
bool tfc__remote_wait_end(struct tfc__remote_wait *wait);

/* Makes RECONNECTING due, unless it was reported for this reason. Returns whether it is due. */
bool tfc__remote_wait_make_due(struct tfc__remote_wait *wait);
/* Fills RECONNECTING of this wait, which was due. `text` is the result of tfc__remote_wait_text. */
void tfc__remote_wait_event(struct tfc__remote_wait *wait, const char *text, tfc_event *ret_event);
/* RECONNECTING is reported now, of this wait or a relayed one. */
void tfc__remote_wait_note_report(struct tfc__remote_wait *wait, const tfc_event *event);

/* What cannot be done, why, and for how long is waited at most. `what`: "cannot follow job X". */
#define TFC__WAIT_TEXT_SIZE (sizeof(((tfc_error *)NULL)->text) + 256)
void tfc__remote_wait_text(const struct tfc__remote_wait *wait, const char *what,
			   char ret_text[TFC__WAIT_TEXT_SIZE]);

#endif
