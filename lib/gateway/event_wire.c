#include "gateway/event_wire.h"

#include "gateway/sub.h"
#include "proc/proc.h"
#include <tfcluster/log.h>

static const char *name_stream(uint32_t stream)
{
	return stream == TFC_STREAM_STDERR ? "stderr" : "stdout";
}

static const char *name_error(uint32_t code)
{
	return tfc_err_name((int)code);
}

enum {
	JOB = TFC__SHOWN_JOB,
	TASK = TFC__SHOWN_TASK,
	STALLED = TFC__SHOWN_TASK_STALLED,
	ENDED = TFC__SHOWN_TASK_ENDED,
	EXITED = TFC__SHOWN_TASK_EXITED,
	KILLED = TFC__SHOWN_TASK_KILLED,
	LINE = TFC__SHOWN_OUTPUT | TFC__SHOWN_REPORT,
	OUTPUT = TFC__SHOWN_OUTPUT,
	GAP = TFC__SHOWN_GAP,
	END = TFC__SHOWN_END,
	LOST = TFC__SHOWN_LOST,
	LIVE = TFC__SHOWN_LIVE,
	WATCHED = TFC__SHOWN_WATCHED | TFC__SHOWN_ENDED,
	FORGOTTEN = TFC__SHOWN_FORGOTTEN,
	NODE = TFC__SHOWN_NODE | TFC__SHOWN_UNSEEN,
};

#define FIELD(...) TFC__FIELD(struct tfc__sub_event, __VA_ARGS__)
static const struct tfc__field rows[] = {
	FIELD("k", TFC__UINT, event.kind, TFC__V0_2),
	FIELD("ts", TFC__UINT, event.time_ns, TFC__V0_2),
	FIELD(NULL, TFC__STRING, event.job, TFC__V0_2, .json = "job",
	      .shown = JOB | END | LOST | LIVE | WATCHED | FORGOTTEN),
	FIELD(NULL, TFC__STRING, event.name, TFC__V0_2, .json = "name",
	      .shown = JOB | END | WATCHED),
	FIELD(NULL, TFC__STRING, task, TFC__V0_2, .json = "task", .shown = TASK | LINE | GAP),
	FIELD("tt", TFC__STRING, event.task_type, TFC__V0_2),
	FIELD("ti", TFC__UINT, event.task_index, TFC__V0_2),
	FIELD("a", TFC__UINT, event.attempt, TFC__V0_2, .json = "attempt",
	      .shown = TASK | LINE | GAP),
	FIELD("js", TFC__UINT, event.job_state, TFC__V0_2, .json = "state",
	      .shown = JOB | END | WATCHED, .word = tfc_job_state_name),
	FIELD("s", TFC__UINT, event.task_state, TFC__V0_2, .json = "state", .shown = TASK,
	      .word = tfc_task_state_name),
	FIELD("g", TFC__UINT, event.generation, TFC__V0_2, .json = "generation",
	      .shown = JOB | TASK | WATCHED),
	FIELD("e", TFC__UINT, event.epoch, TFC__V0_2, .json = "epoch", .shown = JOB | WATCHED),
	FIELD("n", TFC__STRING, event.node, TFC__V0_2, .json = "node",
	      .shown = TASK | WATCHED | FORGOTTEN | NODE, .shown_if_set = LOST),
	FIELD("p", TFC__INT, event.pid, TFC__V0_2, .json = "pid", .shown = TASK),
	FIELD("ad", TFC__STRING, event.address, TFC__V0_2, .json = "address", .shown = TASK),
	FIELD("iso", TFC__UINT, event.isolation, TFC__V0_2, .json = "isolation",
	      .shown_if_set = TASK, .word = tfc__isolation_name),
	FIELD("sr", TFC__UINT, event.stream, TFC__V0_3, .json = "stream", .shown = OUTPUT,
	      .word = name_stream),
	FIELD("st", TFC__INT, event.exit_code, TFC__V0_2, .json = "exit", .shown = EXITED),
	FIELD("sg", TFC__INT, event.signal, TFC__V0_3, .json = "signal", .shown = KILLED),
	FIELD(NULL, TFC__INT, exit_status, TFC__V0_2, .json = "exit", .shown = END),
	FIELD(NULL, TFC__STRING, task, TFC__V0_2, .json = "decided_by", .shown = END),
	FIELD("r", TFC__UINT, event.reason, TFC__V0_2, .json = "reason",
	      .shown = STALLED | ENDED | END | TFC__SHOWN_ENDED, .word = tfc_end_reason_name),
	FIELD("er", TFC__INT, event.error_code, TFC__V0_3, .json = "reason", .shown = LOST,
	      .word = name_error),
	FIELD("xr", TFC__UINT, event.exit_reason, TFC__V0_2),
	FIELD("dl", TFC__UINT, gap_bytes, TFC__V0_2, .json = "bytes", .shown = GAP),
	FIELD("x", TFC__STRING, event.text, TFC__V0_2, .json = "text",
	      .shown = STALLED | END | LOST,
	      .shown_if_set = JOB | TASK | GAP | WATCHED | NODE | LIVE),
	FIELD("d", TFC__BYTES, output, TFC__V0_2,
	      .count = offsetof(struct tfc__sub_event, output_len), .json = "text", .shown = LINE),
	FIELD("ln", TFC__BYTES, lines, TFC__V0_3,
	      .count = offsetof(struct tfc__sub_event, lines_len)),
	FIELD("lr", TFC__BOOL, has_reports, TFC__V0_3),
	FIELD(NULL, TFC__BOOL, event.is_partial, TFC__V0_2, .json = "partial",
	      .shown_if_set = LINE),
	FIELD("u", TFC__UINT, event.user_us, TFC__V0_2, .json = "user_us", .shown = ENDED),
	FIELD("sy", TFC__UINT, event.system_us, TFC__V0_2, .json = "system_us", .shown = ENDED),
	FIELD("rss", TFC__UINT, event.max_rss_kib, TFC__V0_2, .json = "max_rss_kib",
	      .shown = ENDED),
	FIELD("lt", TFC__LINES, event.log_tail, TFC__V0_2, .json = "log_tail", .shown = END),
	FIELD("el", TFC__STRING, event.error_line, TFC__V0_3, .json = "error_line", .shown = END),
	FIELD("if", TFC__LINES, event.ignored_failures, TFC__V0_3, .json = "ignored_failures",
	      .shown = END),
	FIELD(NULL, TFC__STRING, event.cursor, TFC__V0_2, .json = "cursor",
	      .shown = LINE | GAP | WATCHED | FORGOTTEN | NODE),
	FIELD("mn", TFC__UINT, mark.next, TFC__V0_2),
	FIELD("mg", TFC__BOOL, mark.is_gap_reported, TFC__V0_2),
	FIELD("mc", TFC__TEXT, cursor_text.text, TFC__V0_2),
	FIELD("mt", TFC__UINT, mark.task, TFC__V0_2),
	FIELD("me", TFC__UINT, mark.ended_task, TFC__V0_2),
	FIELD("mr", TFC__UINT, mark.missing, TFC__V0_3),
	FIELD("mo", TFC__UINT, mark.missing_over, TFC__V0_3),
	FIELD("wj", TFC__STRING, job, TFC__V0_3),
	FIELD("wn", TFC__STRING, name, TFC__V0_3),
	FIELD("wt", TFC__BYTES, host_tag, TFC__V0_3,
	      .count = offsetof(struct tfc__sub_event, host_tag_len)),
	FIELD("wv", TFC__UINT, event.version, TFC__V0_3, .json = "version", .shown = WATCHED),
	FIELD("wr", TFC__UINT, event.restarts, TFC__V0_3, .json = "restarts", .shown = WATCHED),
	FIELD("wm", TFC__UINT, mark.watch, TFC__V0_3),
	FIELD("wi", TFC__UINT, mark.at.incarnation, TFC__V0_3),
	FIELD("wa", TFC__UINT, mark.at.appeared, TFC__V0_3),
	FIELD("wc", TFC__UINT, mark.at.changed, TFC__V0_3),
};

static const struct tfc__sub_event nothing = {
	.event = TFC__EVENT_INIT,
	.mark = {.task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .missing = UINT32_MAX,
		 .missing_over = UINT32_MAX},
	.lines = "",
	.output = "",
	.job = "",
	.name = "",
	.host_tag = "",
};
const struct tfc__fields tfc__sub_event_fields = TFC__FIELDS(rows, struct tfc__sub_event, &nothing);

#define HEAD(...) TFC__FIELD(tfc_event, __VA_ARGS__)
static const struct tfc__field head_rows[] = {
	HEAD("job", TFC__STRING, job, TFC__V0_2),
	HEAD("name", TFC__STRING, name, TFC__V0_2),
	HEAD("tag", TFC__BYTES, host_tag, TFC__V0_2, .count = offsetof(tfc_event, host_tag_len)),
};
static const tfc_event no_head = TFC__EVENT_INIT;
static const struct tfc__fields head_fields = TFC__FIELDS(head_rows, tfc_event, &no_head);

/* ---- writing */

void tfc__sub_event_write(struct tfc__buf *buf, const struct tfc__sub_event *event)
{
	struct tfc__sub_event sent = *event;
	sent.has_reports = event->has_reports && event->lines;
	if (event->event.kind != TFC_EVENT_PROGRESS)
		sent.event.stream = 0; /* each line has its own */
	if (event->event.kind == TFC_EVENT_GAP)
		sent.gap_bytes = event->event.data_len;
	if (event->event.kind == TFC_EVENT_PROGRESS) {
		sent.output = event->event.data;
		sent.output_len = event->event.data_len;
	}
	if (event->mark.task != UINT32_MAX || event->mark.missing != UINT32_MAX)
		tfc__cursor_write(&sent.cursor_text, &event->mark.cursor);
	else
		sent.cursor_text.text[0] = '\0';
	sent.job = sent.name = sent.host_tag = "";
	sent.host_tag_len = 0;
	if (event->mark.watch) {
		sent.job = event->event.job;
		sent.name = event->event.name;
		sent.host_tag = event->event.host_tag;
		sent.host_tag_len = event->event.host_tag_len;
	}
	tfc__fields_write(buf, &tfc__sub_event_fields, &sent);
}

/* Whether a line belongs to the batch: all that is not stored for each line is the same. Between
 * two lines of an attempt without another event, only the mark and the attempt can differ. */
static bool continues_batch(const struct tfc__sub_item *item, const struct tfc__sub_event *line)
{
	const struct tfc__sub_event *first = &item->output;
	return item->batch.count && line->mark.task == first->mark.task &&
	       line->mark.missing == first->mark.missing && line->mark.missing_over == UINT32_MAX &&
	       line->event.attempt == first->event.attempt;
}

void tfc__sub_item_add(struct tfc__sub_item *item, const struct tfc__sub_event *event)
{
	const tfc_event *line = &event->event;
	bool is_line = tfc__event_is_line(line) && !event->lines;
	/* A subscription that waits may not know its head yet. */
	if (!item->head.len && line->kind != TFC_EVENT_RECONNECTING)
		tfc__fields_write(&item->head, &head_fields, event->mark.watch ? &no_head : line);
	if (!is_line || !continues_batch(item, event))
		tfc__sub_item_end_batch(item);
	if (!is_line) {
		tfc__sub_event_write(&item->events, event);
		item->count++;
		return;
	}
	if (!item->batch.count) {
		item->output = *event;
		item->output.event.kind = TFC_EVENT_OUTPUT;
		item->batch.has_reports = event->has_reports;
	}
	item->output.mark.cursor = event->mark.cursor;
	tfc__line_batch_add(&item->batch, &(struct tfc__line){
						  .stream = line->stream,
						  .time_ns = line->time_ns,
						  .is_partial = line->is_partial,
						  .data = line->data,
						  .len = line->data_len,
						  .cursor = event->mark.cursor,
					  });
}

void tfc__sub_item_confirm(struct tfc__sub_item *item, const tfc_event *head)
{
	if (!item->head.len)
		tfc__fields_write(&item->head, &head_fields, head);
	item->confirms = true;
}

void tfc__sub_item_end_batch(struct tfc__sub_item *item)
{
	struct tfc__line_batch *batch = &item->batch;
	struct tfc__sub_event *output = &item->output;
	if (!batch->count)
		return;
	output->event.time_ns = 0; /* each line has its own */
	output->output = batch->text.data;
	output->output_len = batch->text.len;
	output->lines = batch->table.data;
	output->lines_len = batch->table.len;
	tfc__sub_event_write(&item->events, output);
	item->events.is_failed |= batch->text.is_failed || batch->table.is_failed;
	item->count++;
	tfc__line_batch_clear(batch);
}

bool tfc__sub_item_is_empty(const struct tfc__sub_item *item)
{
	return !item->count && !item->batch.count && !item->confirms;
}

size_t tfc__sub_item_bytes(const struct tfc__sub_item *item)
{
	return item->events.len + item->batch.text.len + item->batch.table.len;
}

int tfc__sub_item_write(struct tfc__sub_item *item, struct tfc__buf *buf)
{
	tfc__sub_item_end_batch(item);
	tfc__msg_array(buf, item->count + 1);
	if (item->head.len)
		tfc__buf_add(buf, item->head.data, item->head.len);
	else
		tfc__fields_write(buf, &head_fields, &no_head);
	tfc__buf_add(buf, item->events.data, item->events.len);
	bool is_failed = buf->is_failed || item->events.is_failed || item->head.is_failed;
	return is_failed ? TFC_ENOMEM : TFC_OK;
}

void tfc__sub_item_clear(struct tfc__sub_item *item)
{
	tfc__buf_clear(&item->events);
	tfc__line_batch_clear(&item->batch);
	item->count = 0;
	item->confirms = false;
}

void tfc__sub_item_fini(struct tfc__sub_item *item)
{
	tfc__buf_fini(&item->head);
	tfc__buf_fini(&item->events);
	tfc__line_batch_fini(&item->batch);
	item->count = 0;
	item->confirms = false;
}

/* ---- reading */

int tfc__sub_event_read_head(struct tfc__reader *reader, const msgpack_object *object,
			     tfc_error *error, tfc_event *ret_head)
{
	return tfc__fields_read(reader, &head_fields, object, error, ret_head);
}

int tfc__sub_event_read(struct tfc__reader *reader, const tfc_event *head,
			const msgpack_object *object, tfc_error *error,
			struct tfc__sub_event *ret_event)
{
	tfc_event *event = &ret_event->event;
	struct tfc__mark *mark = &ret_event->mark;
	*ret_event = nothing;
	int code = tfc__fields_read(reader, &tfc__sub_event_fields, object, error, ret_event);
	if (code < 0)
		return code;
	if (event->kind < TFC_EVENT_JOB || event->kind > TFC_EVENT_RECONNECTING ||
	    event->kind == TFC_EVENT_LOST)
		return tfc__fail(error, TFC_ENOTSUP, "gateway", 0, "unknown kind of event");
	if (event->kind == TFC_EVENT_OUTPUT &&
	    (!ret_event->lines_len || !ret_event->cursor_text.text[0] ||
	     (mark->task == UINT32_MAX && mark->missing == UINT32_MAX)))
		return tfc__fail(error, TFC_EPARSE, "gateway", 0,
				 "output must have lines (ln), and a cursor (mc) of a task (mt) or "
				 "of missing output (mr)");
	event->job = mark->watch ? ret_event->job : head->job;
	event->name = mark->watch ? ret_event->name : head->name;
	event->host_tag = mark->watch ? ret_event->host_tag : head->host_tag;
	event->host_tag_len = mark->watch ? ret_event->host_tag_len : head->host_tag_len;
	if (event->kind == TFC_EVENT_OUTPUT || event->kind == TFC_EVENT_PROGRESS) {
		event->data = ret_event->output;
		event->data_len = ret_event->output_len;
	} else if (event->kind == TFC_EVENT_GAP) {
		event->data_len = ret_event->gap_bytes;
	}
	if (!ret_event->cursor_text.text[0])
		mark->task = mark->missing = UINT32_MAX;
	else if (!tfc__cursor_read(ret_event->cursor_text.text, &mark->cursor))
		return tfc__fail(error, TFC_EPARSE, "gateway", 0,
				 "mc: must be the cursor of a line");
	return TFC_OK;
}
