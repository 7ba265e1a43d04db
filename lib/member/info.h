/*
 * Checks and copies of a member's fields. See also tfc__member_check (member.h).
 */
#ifndef TFC_MEMBER_INFO_H
#define TFC_MEMBER_INFO_H

#include "base/strv.h"
#include "member/member.h"

#define TFC__LABELS_MAX 64

/* Checks "NAME=value". The error text begins with "labels: ". */
int tfc__member_check_label(const char *label, tfc_error *error);

/* Makes a sorted copy, or NULL if there are no labels. The caller frees it with tfc_strv_free.
 * Returns TFC_OK or TFC_ENOMEM. */
int tfc__labels_copy(const char *const *labels, char ***ret_labels);
bool tfc__labels_equal(char *const *a, char *const *b);

#endif
