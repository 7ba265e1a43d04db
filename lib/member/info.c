/*
 * Fields of a member: checks, copies and comparisons.
 */
#include "member/info.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/utf8.h"
#include "spec/spec.h"

#define NAME_MAX_LEN 63
#define LABEL_MAX_LEN 255
#define GPUS_MAX 1024

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

const char *tfc_member_state_name(uint32_t state)
{
	static const char *const names[] = {"?", "alive", "suspect", "down", "left"};
	return names[state < sizeof(names) / sizeof(names[0]) ? state : 0];
}

int tfc_member_info_init(tfc_member_info *info, uint32_t size)
{
	return tfc__options_init(info, size, sizeof(*info));
}

#define FAIL(error, ...) tfc__fail(error, TFC_EINVAL, "member", 0, __VA_ARGS__)

/* Only letters, digits and the characters of `more`; a letter or digit first. */
static bool is_word(const char *text, size_t len, const char *more)
{
	if (len == 0 || len > NAME_MAX_LEN || !strchr(letters, text[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!text[i] || (!strchr(letters, text[i]) && !strchr(more, text[i])))
			return false;
	return true;
}

static int member_check_address(const char *address, tfc_error *error)
{
	static const char tcp[] = "tcp://";
	const char *colon = strchr(address, ':');
	char key[TFC__ADDRESS_SIZE];
	if (strncmp(address, tcp, strlen(tcp)) == 0) {
		tfc_error detail = TFC_ERROR_INIT;
		if (tfc__address_check("", 0, address + strlen(tcp), &detail, key) == TFC_OK)
			return TFC_OK;
	} else if (colon && colon[1] && is_word(address, (size_t)(colon - address), "+-.")) {
		char after = colon[1]; /* "host:2222" has no scheme */
		if (after < '0' || after > '9')
			return TFC_OK;
	}
	return FAIL(error, "address: must be \"tcp://HOST:PORT\", not \"%.80s\"", address);
}

int tfc__member_check_label(const char *label, tfc_error *error)
{
	size_t name_len = strcspn(label, "=");
	if (!label[name_len])
		return FAIL(error, "labels: must be NAME=VALUE, not \"%.70s\"", label);
	if (!is_word(label, name_len, "._-/"))
		return FAIL(error,
			    "labels: a label's name is 1 to %d letters, digits, '.', '_', '-' and "
			    "'/', a letter or digit first, not \"%.*s\"",
			    NAME_MAX_LEN, (int)(name_len > 70 ? 70 : name_len), label);
	if (strlen(label + name_len + 1) > LABEL_MAX_LEN || !tfc__is_plain_text(label))
		return FAIL(error,
			    "labels: the value of \"%.*s\" must be text without control "
			    "characters, up to %d bytes",
			    (int)name_len, label, LABEL_MAX_LEN);
	return TFC_OK;
}

static int label_compare_names(const char *a, const char *b)
{
	size_t a_len = strcspn(a, "="), b_len = strcspn(b, "=");
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
	return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int member_check_labels(const char *const *labels, tfc_error *error)
{
	for (uint32_t i = 0; labels && labels[i]; i++) {
		int code = tfc__member_check_label(labels[i], error);
		if (code < 0)
			return code;
		if (i == TFC__LABELS_MAX)
			return FAIL(error, "labels: a member has at most %d", TFC__LABELS_MAX);
		for (uint32_t j = 0; j < i; j++)
			if (label_compare_names(labels[i], labels[j]) == 0)
				return FAIL(error, "labels: duplicate label \"%.*s\"",
					    (int)strcspn(labels[i], "="), labels[i]);
	}
	return TFC_OK;
}

int tfc__member_check(const tfc_member_info *info, tfc_error *error)
{
	if (!info->name || !*info->name)
		return FAIL(error, "name: missing");
	if (!is_word(info->name, strlen(info->name), "._-"))
		return FAIL(error,
			    "name: must be 1 to %d letters, digits, '.', '_' and '-', a letter or "
			    "digit first, not \"%.40s\"",
			    NAME_MAX_LEN, info->name);
	int code = info->address ? member_check_address(info->address, error) : TFC_OK;
	if (code < 0)
		return code;
	size_t len = info->node_id ? strlen(info->node_id) : 0;
	if (info->node_id &&
	    (len < 16 || len > 64 || strspn(info->node_id, "0123456789abcdef") != len))
		return FAIL(error, "node_id: must be 16 to 64 hexadecimal digits, not \"%.70s\"",
			    info->node_id);
	if (info->gpus > GPUS_MAX)
		return FAIL(error, "gpus: must be a whole number from 0 to %d, not %u", GPUS_MAX,
			    info->gpus);
	return member_check_labels(info->labels, error);
}

/* ---- copies */

static int label_compare(const void *a, const void *b)
{
	return label_compare_names(*(char *const *)a, *(char *const *)b);
}

int tfc__labels_copy(const char *const *labels, char ***ret_labels)
{
	struct tfc__strv copy = {0};
	if (!labels || !labels[0]) {
		*ret_labels = NULL;
		return TFC_OK;
	}
	tfc__strv_add_all(&copy, labels);
	if (copy.is_failed) {
		tfc__strv_fini(&copy);
		return TFC_ENOMEM;
	}
	qsort(copy.items, copy.count, sizeof(copy.items[0]), label_compare);
	*ret_labels = copy.items;
	return TFC_OK;
}

bool tfc__labels_equal(char *const *a, char *const *b)
{
	for (; a && b && *a && *b; a++, b++)
		if (strcmp(*a, *b) != 0)
			return false;
	return !(a && *a) && !(b && *b);
}
