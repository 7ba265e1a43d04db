/*
 * A source of a task's log records: a file of this node, or a stream from another node. The reader
 * pulls: nothing is read ahead beyond a window, so a slow reader uses bounded memory.
 */
#ifndef TFC_LOG_SOURCE_H
#define TFC_LOG_SOURCE_H

#include <stdint.h>
#include <tfcluster/log.h>

struct tfc__log_source;

/*
 * `source` is the struct tfc__log_source itself. It may outlive its job and even its agent: `next`
 * then returns 0, and the record it returned last stays valid until the source is closed.
 */
struct tfc__log_source_ops {
	/*
	 * As tfc_log_next: 1, or 0 when the reader has every record that exists now; `wake` is
	 * called when there may be more. TFC_EAGAIN: more records are on their way, and `wake` is
	 * called when they arrive. TFC_ELOST: the node cannot be queried now; `wake` is called when
	 * it can be.
	 */
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
