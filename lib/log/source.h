/*
 * Where log records of a task come from: a file here, or a stream from another node. It is pulled:
 * nothing is read ahead but what a window allows, so a slow reader holds bounded memory.
 */
#ifndef TFC_LOG_SOURCE_H
#define TFC_LOG_SOURCE_H

#include <stdint.h>
#include <tfcluster/log.h>

struct tfc__log_source;

/* `source` is the struct tfc__log_source itself. It may outlive the job that it belongs to, and
 * even its agent: then next says 0, and what it told last stays as it was until it is closed. */
struct tfc__log_source_ops {
	/* As tfc_log_next: 1, or 0 when the reader has all that there is now. `wake` comes when
	 * there may be more. TFC_EAGAIN: more is on its way, then `wake` comes. TFC_ELOST: the node
	 * cannot be asked now; `wake` comes when it can. */
	int (*next)(void *source, tfc_log_record *record, tfc_error *error);
	void (*close)(void *source);
};

struct tfc__log_source {
	const struct tfc__log_source_ops *ops;
	void (*wake)(void *user); /* set by the reader, or NULL; called in dispatch */
	void *user;
};

static inline void tfc__log_source_close(struct tfc__log_source *source)
{
	if (source)
		source->ops->close(source);
}

#endif
