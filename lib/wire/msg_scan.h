/* Shared by the files of msg. */
#ifndef TFC_WIRE_MSG_SCAN_H
#define TFC_WIRE_MSG_SCAN_H

#include "wire/msg.h"

/* Like tfc__msg_scan; *ret_objects is the total number of values. */
int tfc__msg_scan_count(const void *data, size_t len, const struct tfc__msg_limits *limits,
			tfc_error *error, uint32_t *ret_objects);

bool tfc__msg_is_utf8(const void *text, size_t len);

#endif
