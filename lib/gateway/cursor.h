/* The text of a cursor: a task and how far its output was told. */
#ifndef TFC_GATEWAY_CURSOR_H
#define TFC_GATEWAY_CURSOR_H

#include "gateway/lines.h"

#define TFC__CURSOR_TASK_SIZE 96 /* "worker/0" and its NUL */
#define TFC__CURSOR_SIZE (TFC__CURSOR_TASK_SIZE + 4 * 21)

/* "worker/0:POSITION+SKIP,POSITION+SKIP": of stdout, of stderr. */
void tfc__cursor_write(char ret_text[TFC__CURSOR_SIZE], const char *task_type, uint32_t task_index,
		       const struct tfc__lines_cursor *cursor);

/* False for what tfc__cursor_write would not have written; the task may be any. */
bool tfc__cursor_read(const char *text, char ret_task[TFC__CURSOR_TASK_SIZE],
		      struct tfc__lines_cursor *ret_cursor);

#endif
