/*
 * What is said of a member, as a value: see also tfc__member_check (member.h).
 */
#ifndef TFC_MEMBER_INFO_H
#define TFC_MEMBER_INFO_H

#include "base/strv.h"
#include "member/member.h"

#define TFC__LABELS_MAX 64

/* "NAME=value"; the sentence begins with "labels: ". */
int tfc__member_check_label(const char *label, tfc_error *error);

/* A sorted copy; NULL where there are none. TFC_ENOMEM. The caller frees it with tfc_strv_free. */
int tfc__labels_copy(const char *const *labels, char ***ret_labels);
bool tfc__labels_equal(char *const *a, char *const *b);

#endif
