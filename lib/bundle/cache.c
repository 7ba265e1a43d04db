#include "bundle/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/names.h"

/* ---- a bundle */

static struct tfc__bundle *bundle_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__bundle, link);
}

static void bundle_notify_waiters(struct tfc__work *work)
{
	struct tfc__bundle *bundle = tfc__container_of(work, struct tfc__bundle, report);
	bundle->users++;
	tfc__observers_notify(&bundle->waiters, NULL);
	tfc__bundle_leave(bundle);
}

struct tfc__bundle *tfc__archive_new(struct tfc__bundles *bundles, enum tfc__bundle_state state)
{
	struct tfc__bundle *bundle = calloc(1, sizeof(*bundle));
	if (!bundle)
		return NULL;
	bundle->bundles = bundles;
	bundle->state = state;
	bundle->pipe.fd = -1;
	tfc__observers_init(&bundle->waiters);
	tfc__work_init(&bundle->report, bundles->ctx, bundle_notify_waiters);
	tfc__list_append(&bundles->all, &bundle->link);
	return bundle;
}

void tfc__archive_free(struct tfc__bundle *bundle)
{
	tfc__archive_end_work(bundle);
	tfc__work_cancel(&bundle->report);
	tfc__list_remove(&bundle->link);
	free(bundle->path);
	free(bundle->key);
	free(bundle->from);
	free(bundle);
}

char *tfc__archive_path(const struct tfc__bundles *bundles, const char *hash)
{
	char name[TFC_BUNDLE_HASH_SIZE + 8];
	snprintf(name, sizeof(name), "%s.zip", hash);
	return tfc__path_join(bundles->dir, name);
}

/* ---- the cache */

/* Whether another bundle refers to the same file. */
static bool bundle_file_is_shared(const struct tfc__bundle *bundle)
{
	TFC__LIST_EACH (link, &bundle->bundles->all)
		if (bundle_of(link) != bundle && strcmp(bundle_of(link)->hash, bundle->hash) == 0 &&
		    bundle_of(link)->path)
			return true;
	return false;
}

static void bundle_drop(struct tfc__bundle *bundle)
{
	if (bundle->path && !bundle_file_is_shared(bundle))
		unlink(bundle->path);
	tfc__archive_free(bundle);
}

void tfc__archives_trim(struct tfc__bundles *bundles)
{
	for (;;) {
		struct tfc__bundle *oldest = NULL;
		uint64_t total = 0;
		TFC__LIST_EACH (link, &bundles->all) {
			struct tfc__bundle *bundle = bundle_of(link);
			if (bundle->users || bundle->process || !bundle->path)
				continue;
			total += bundle->size;
			if (!oldest || bundle->used_at < oldest->used_at)
				oldest = bundle;
		}
		if (total <= bundles->max_bytes)
			return;
		bundle_drop(oldest);
	}
}

void tfc__bundle_leave(struct tfc__bundle *bundle)
{
	if (!bundle || --bundle->users)
		return;
	struct tfc__bundles *bundles = bundle->bundles;
	bool is_done = bundle->path && bundle->state != TFC__BUNDLE_FAILED;
	tfc__work_cancel(&bundle->report);
	free(bundle->key);
	bundle->key = NULL;
	bundle->is_kept = false;
	bundle->used_at = tfc__now();
	if (!is_done || bundle_file_is_shared(bundle))
		bundle_drop(bundle);
	tfc__archives_trim(bundles);
}

/* A file of a previous incarnation is hashed before it is used. */
static int bundle_check_cached(struct tfc__bundle *bundle, tfc_error *error)
{
	bool is_unchecked = bundle->state == TFC__BUNDLE_CHECKING && !bundle->process;
	return is_unchecked ? tfc__archive_check(bundle, error) : TFC_OK;
}

/* ---- by path or name */

const char *tfc__bundle_named(const char *name)
{
	size_t len = strlen(TFC__BUNDLE_NAME);
	return strncmp(name, TFC__BUNDLE_NAME, len) == 0 && tfc__is_bundle_hash(name + len)
		       ? name + len
		       : NULL;
}

struct tfc__bundle *tfc__bundle_keep(const struct tfc__bundles *bundles, const char *name)
{
	struct tfc__bundle *bundle = tfc__bundle_find(bundles, tfc__bundle_named(name));
	if (!bundle || bundle->state == TFC__BUNDLE_RECEIVING)
		return NULL;
	bundle->is_kept = true;
	bundle->users++;
	return bundle;
}

int tfc__bundle_pack(struct tfc__bundles *bundles, const char *key, const char *path,
		     tfc_error *error, struct tfc__bundle **ret_bundle)
{
	if (tfc__bundle_named(path)) {
		struct tfc__bundle *kept = tfc__bundle_keep(bundles, path);
		if (!kept)
			return tfc__bundle_failed(bundles,
						  "bundle: no longer in the cache of the job's "
						  "node; submit the job again",
						  error, ret_bundle);
		int code = bundle_check_cached(kept, error);
		if (code < 0)
			tfc__bundle_leave(kept);
		else
			*ret_bundle = kept;
		return code;
	}
	TFC__LIST_EACH (link, &bundles->all) {
		struct tfc__bundle *known = bundle_of(link);
		if (known->key && strcmp(known->key, key) == 0) {
			known->users++;
			*ret_bundle = known;
			return TFC_OK;
		}
	}
	struct tfc__bundle *bundle = tfc__archive_new(bundles, TFC__BUNDLE_PACKING);
	if (!bundle)
		return tfc__fail_nomem(error, "bundle");
	bundle->key = strdup(key);
	bundle->from = strdup(path);
	int code = bundle->key && bundle->from ? tfc__archive_pack(bundle, error)
					       : tfc__fail_nomem(error, "bundle");
	if (code < 0) {
		tfc__archive_free(bundle);
		return code;
	}
	bundle->users = 1;
	*ret_bundle = bundle;
	return TFC_OK;
}

/* ---- by hash */

struct tfc__bundle *tfc__bundle_find(const struct tfc__bundles *bundles, const char *hash)
{
	TFC__LIST_EACH (link, &bundles->all)
		if (strcmp(bundle_of(link)->hash, hash) == 0 &&
		    bundle_of(link)->state != TFC__BUNDLE_FAILED)
			return bundle_of(link);
	return NULL;
}

int tfc__bundle_acquire(struct tfc__bundles *bundles, const char *hash, uint64_t size,
			tfc_error *error, struct tfc__bundle **ret_bundle)
{
	if (!tfc__is_bundle_hash(hash))
		return tfc__fail(error, TFC_EINVAL, "bundle", 0, "\"%.80s\" is not a SHA-256",
				 hash);
	struct tfc__bundle *bundle = tfc__bundle_find(bundles, hash);
	if (!bundle) {
		bundle = tfc__archive_new(bundles, TFC__BUNDLE_RECEIVING);
		if (!bundle)
			return tfc__fail_nomem(error, "bundle");
		snprintf(bundle->hash, sizeof(bundle->hash), "%s", hash);
		bundle->size = size;
	}
	if (bundle->state != TFC__BUNDLE_READY && !bundle->users)
		bundle->size = size; /* a cached file that is damaged may have another size */
	if (bundle->state != TFC__BUNDLE_READY && bundle->size != size)
		return tfc__fail(error, TFC_EBUSY, "bundle", 0,
				 "bundle: its size is %llu bytes in another transfer, but %llu in "
				 "this one; one of the sizes is wrong",
				 (unsigned long long)bundle->size, (unsigned long long)size);
	int code = bundle_check_cached(bundle, error);
	if (code < 0)
		return code;
	bundle->users++;
	*ret_bundle = bundle;
	return TFC_OK;
}

int tfc__bundle_failed(struct tfc__bundles *bundles, const char *why, tfc_error *error,
		       struct tfc__bundle **ret_bundle)
{
	struct tfc__bundle *bundle = tfc__archive_new(bundles, TFC__BUNDLE_FAILED);
	if (!bundle)
		return tfc__fail_nomem(error, "bundle");
	tfc__fail(&bundle->error, TFC_EARCHIVE, "bundle", 0, "%s", why);
	bundle->users = 1;
	*ret_bundle = bundle;
	return TFC_OK;
}

void tfc__bundle_use(struct tfc__bundle *bundle)
{
	bundle->users++;
}

/* ---- waiting */

void tfc__bundle_await(struct tfc__bundle *bundle, struct tfc__observer *waiter)
{
	tfc__observers_add(&bundle->waiters, waiter);
}

int tfc__bundles_room(const struct tfc__bundles *bundles, uint64_t bytes, tfc_error *error)
{
	struct statvfs status;
	if (statvfs(bundles->dir, &status) < 0)
		return tfc__fail_errno(error, "bundle", errno, "%.200s", bundles->dir);
	uint64_t room = (uint64_t)status.f_bavail * status.f_frsize;
	if (bytes <= room)
		return TFC_OK;
	return tfc__fail(
		error, TFC_ENOSPC, "bundle", 0,
		"bundle: No space left on device: \"%.120s\" has %llu bytes free; %llu are needed",
		bundles->dir, (unsigned long long)room, (unsigned long long)bytes);
}

/* ---- open, close */

/*
 * Registers the archives that a previous incarnation left, to be hashed before use, and removes its
 * working directories.
 */
static int bundles_scan_cache(struct tfc__bundles *bundles, tfc_error *error)
{
	DIR *dir = opendir(bundles->dir);
	int code = TFC_OK;
	if (!dir)
		return tfc__fail_errno(error, "bundle", errno, "cannot read \"%.200s\"",
				       bundles->dir);
	for (struct dirent *entry; code == TFC_OK && (entry = readdir(dir));) {
		const char *name = entry->d_name;
		char hash[TFC_BUNDLE_HASH_SIZE];
		struct stat status;
		char *path = tfc__path_join(bundles->dir, name);
		snprintf(hash, sizeof(hash), "%.64s", name);
		if (path && strncmp(name, WORK_PREFIX, strlen(WORK_PREFIX)) == 0)
			tfc__remove_tree(path);
		bool is_one = path && tfc__is_bundle_hash(hash) &&
			      strcmp(name + strlen(hash), ".zip") == 0 && stat(path, &status) == 0;
		struct tfc__bundle *bundle = is_one ? tfc__archive_new(bundles,
								       TFC__BUNDLE_CHECKING)
						    : NULL;
		if (!path || (is_one && !bundle))
			code = tfc__fail_nomem(error, "bundle");
		if (!bundle) {
			free(path);
			continue;
		}
		snprintf(bundle->hash, sizeof(bundle->hash), "%s", hash);
		bundle->path = path;
		bundle->size = (uint64_t)status.st_size;
	}
	closedir(dir);
	return code;
}

int tfc__bundles_open(tfc_ctx *ctx, const char *dir, uint64_t max_bytes, tfc_error *error,
		      struct tfc__bundles **ret_bundles)
{
	struct tfc__bundles *bundles = calloc(1, sizeof(*bundles));
	if (!bundles)
		return tfc__fail_nomem(error, "bundle");
	bundles->ctx = ctx;
	bundles->max_bytes = max_bytes;
	bundles->idle_ns = OFFER_IDLE_NS;
	tfc__list_init(&bundles->all);
	tfc__list_init(&bundles->offers);
	int code = (bundles->dir = strdup(dir)) ? TFC_OK : tfc__fail_nomem(error, "bundle");
	if (code == TFC_OK && mkdir(dir, 0700) < 0 && errno != EEXIST)
		code = tfc__fail_errno(error, "bundle", errno, "cannot create \"%.200s\"", dir);
	if (code == TFC_OK)
		code = bundles_scan_cache(bundles, error);
	if (code < 0)
		tfc__bundles_close(bundles);
	else
		*ret_bundles = bundles;
	return code;
}

void tfc__bundles_close(struct tfc__bundles *bundles)
{
	if (!bundles)
		return;
	TFC__LIST_EACH (link, &bundles->all) {
		/* Nothing else completes the chunks that wait for the disk. */
		struct tfc__bundle *bundle = bundle_of(link);
		bundle->users++;
		bundle->state = TFC__BUNDLE_FAILED;
		tfc__fail(&bundle->error, TFC_ELOST, "bundle", 0, "bundle: the cache was closed");
		tfc__observers_notify(&bundle->waiters, NULL);
		tfc__archive_free(bundle);
	}
	free(bundles->dir);
	free(bundles);
}
