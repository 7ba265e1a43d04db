/*
 * What the files of the bundles share.
 *
 *   bundles.c         which there are, who uses them, what stays cached
 *   cache_work.c  tfc-bundle, which packs, checks and receives them
 *   receive.c         bytes that come, on their way to it
 */
#ifndef TFC_AGENT_BUNDLES_INSIDE_H
#define TFC_AGENT_BUNDLES_INSIDE_H

#include "bundle/cache.h"

#define WORK_PREFIX ".work-"

struct tfc__bundles {
	tfc_ctx *ctx;
	char *dir;
	uint64_t max_bytes;
	struct tfc__link all;
};

/* One more, which nobody uses yet; NULL: out of memory. */
struct tfc__bundle *tfc__archive_new(struct tfc__bundles *bundles, enum tfc__bundle_state state);
void tfc__archive_free(struct tfc__bundle *bundle);
char *tfc__archive_path(const struct tfc__bundles *bundles, const char *hash);
void tfc__archives_trim(struct tfc__bundles *bundles);

/* Runs tfc-bundle with these words in a new directory of its own, which `make_work` makes. */
int tfc__archive_make_work(struct tfc__bundle *bundle, tfc_error *error);
int tfc__archive_start(struct tfc__bundle *bundle, const char *const words[5], tfc_error *error);
int tfc__archive_pack(struct tfc__bundle *bundle, tfc_error *error);
int tfc__archive_check(struct tfc__bundle *bundle, tfc_error *error);
void tfc__archive_end_work(struct tfc__bundle *bundle);

#endif
