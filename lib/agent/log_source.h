/*
 * Where log records of a task come from: a file here, or a stream from another node. It is pulled:
 * nothing is read ahead but what a window allows, so a slow reader holds bounded memory.
 */
#ifndef TFC_AGENT_LOG_SOURCE_H
#define TFC_AGENT_LOG_SOURCE_H

#include <tfcluster/log.h>

struct tfc__log_source_ops {
	/* As tfc_log_next; 0: nothing there now, `wake` is called when there may be more.
	 * TFC_ELOST: the node cannot be asked now (wake comes when it can). */
	int (*next)(void *source, tfc_log_record *record, tfc_error *error);
	void (*close)(void *source);
};

struct tfc__log_source {
	const struct tfc__log_source_ops *ops;
	void (*wake)(void *user); /* set by the reader; called in dispatch */
	void *user;
};

#endif
