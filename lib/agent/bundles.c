#include "agent/bundles.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "proc/proc.h"
#include <tfcluster/process.h>
#include <tfcluster/spec.h>

#define WORK_PREFIX ".work-"
#define LOG_NAME "log"
#define LOST_MAX 3
#define PIPE_BYTES (1 << 20)

struct tfc__bundles {
	tfc_ctx *ctx;
	char *dir;
	uint64_t max_bytes;
	struct tfc__link all;
};

static void on_process(void *user, const tfc_process_event *event);

/* ---- one of them */

static struct tfc__bundle *bundle_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__bundle, link);
}

static void tell_all(struct tfc__work *work)
{
	struct tfc__bundle *bundle = tfc__container_of(work, struct tfc__bundle, tell);
	bundle->users++;
	TFC__LIST_EACH (link, &bundle->waiters) {
		struct tfc__bundle_waiter *waiter =
			tfc__container_of(link, struct tfc__bundle_waiter, link);
		waiter->fn(waiter);
	}
	tfc__bundle_leave(bundle);
}

static struct tfc__bundle *new_bundle(struct tfc__bundles *bundles, enum tfc__bundle_state state)
{
	struct tfc__bundle *bundle = calloc(1, sizeof(*bundle));
	if (!bundle)
		return NULL;
	bundle->bundles = bundles;
	bundle->state = state;
	bundle->pipe.fd = -1;
	tfc__list_init(&bundle->waiters);
	tfc__work_init(&bundle->tell, bundles->ctx, tell_all);
	tfc__list_append(&bundles->all, &bundle->link);
	return bundle;
}

static void end_work(struct tfc__bundle *bundle)
{
	int fd = bundle->pipe.fd;
	tfc_process_close(bundle->process);
	bundle->process = NULL;
	tfc__io_close(&bundle->pipe);
	if (fd >= 0)
		close(fd);
	bundle->pipe.fd = -1;
	if (bundle->work)
		tfc__remove_tree(bundle->work);
	free(bundle->work);
	free(bundle->waiting);
	bundle->work = bundle->waiting = NULL;
	bundle->waiting_at = bundle->waiting_len = bundle->waiting_capacity = 0;
}

static void free_bundle(struct tfc__bundle *bundle)
{
	end_work(bundle);
	tfc__work_cancel(&bundle->tell);
	tfc__list_remove(&bundle->link);
	free(bundle->path);
	free(bundle->key);
	free(bundle->from);
	free(bundle);
}

static char *path_of(const struct tfc__bundles *bundles, const char *hash)
{
	char name[TFC_BUNDLE_HASH_SIZE + 8];
	snprintf(name, sizeof(name), "%s.zip", hash);
	return tfc__path_join(bundles->dir, name);
}

static void fail(struct tfc__bundle *bundle, const char *why)
{
	tfc__fail(&bundle->error, TFC_EARCHIVE, "agent", 0, "bundle: %s",
		  *why ? why : "tfc-bundle ended without a word");
	bundle->state = TFC__BUNDLE_FAILED;
	end_work(bundle);
	tfc__work_schedule(&bundle->tell);
}

/* ---- the cache */

/* Whether another one lies in the same file. */
static bool is_shared(const struct tfc__bundle *bundle)
{
	TFC__LIST_EACH (link, &bundle->bundles->all)
		if (bundle_of(link) != bundle && strcmp(bundle_of(link)->hash, bundle->hash) == 0 &&
		    bundle_of(link)->path)
			return true;
	return false;
}

static void drop(struct tfc__bundle *bundle)
{
	if (bundle->path && !is_shared(bundle))
		unlink(bundle->path);
	free_bundle(bundle);
}

static void trim(struct tfc__bundles *bundles)
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
		drop(oldest);
	}
}

void tfc__bundle_leave(struct tfc__bundle *bundle)
{
	if (!bundle || --bundle->users)
		return;
	struct tfc__bundles *bundles = bundle->bundles;
	bool is_done = bundle->path && bundle->state != TFC__BUNDLE_FAILED;
	tfc__work_cancel(&bundle->tell);
	free(bundle->key);
	bundle->key = NULL;
	bundle->used_at = tfc__now();
	if (!is_done || is_shared(bundle))
		drop(bundle);
	trim(bundles);
}

/* ---- processes */

static int make_work(struct tfc__bundle *bundle, tfc_error *error)
{
	free(bundle->work);
	bundle->work = NULL;
	return tfc__make_private_dir(bundle->bundles->dir, WORK_PREFIX, "agent", error,
				     &bundle->work);
}

/* tfc-bundle with these words. */
static int start(struct tfc__bundle *bundle, const char *const words[5], tfc_error *error)
{
	tfc_ctx *ctx = bundle->bundles->ctx;
	char *program = tfc__path_join(tfc__ctx_helper_dir(ctx), "tfc-bundle");
	if (!program)
		return tfc__fail_nomem(error, "agent");
	const char *const argv[] = {program,  words[0], words[1], words[2],
				    words[3], words[4], NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.log_dir = bundle->work;
	options.log_name = LOG_NAME;
	int code = tfc_process_spawn(ctx, &options, on_process, bundle, &bundle->process);
	if (code < 0 && error && error != tfc__ctx_error(ctx))
		*error = *tfc__ctx_error(ctx);
	free(program);
	return code;
}

static int start_packing(struct tfc__bundle *bundle, tfc_error *error)
{
	int code = make_work(bundle, error);
	const char *const words[5] = {"add", bundle->from, bundle->work, bundle->bundles->dir};
	return code < 0 ? code : start(bundle, words, error);
}

static int start_check(struct tfc__bundle *bundle, tfc_error *error)
{
	int code = make_work(bundle, error);
	const char *const words[5] = {"check", bundle->path, bundle->hash};
	return code < 0 ? code : start(bundle, words, error);
}

/* The last line that it wrote: what is wrong, or the hash. */
static void read_word(const struct tfc__bundle *bundle, const tfc_process_event *event, char *text,
		      size_t size)
{
	char **lines = NULL;
	int code = tfc__log_tail(bundle->work, LOG_NAME, 0, 1, &lines);
	snprintf(text, size, "%s", code >= 0 && lines[0] ? lines[0] : event->text);
	if (code >= 0)
		tfc_env_free(lines);
}

static void be_ready(struct tfc__bundle *bundle)
{
	struct stat status;
	if (!bundle->path)
		bundle->path = path_of(bundle->bundles, bundle->hash);
	if (!bundle->path || stat(bundle->path, &status) < 0) {
		fail(bundle, bundle->path ? "it is gone from the cache" : "out of memory");
		return;
	}
	bundle->size = (uint64_t)status.st_size;
	bundle->state = TFC__BUNDLE_READY;
	end_work(bundle);
	tfc__work_schedule(&bundle->tell);
	trim(bundle->bundles);
}

/* The guard has died, or the archive in the cache is damaged. */
static void start_again(struct tfc__bundle *bundle, bool is_damaged)
{
	int code = TFC_OK;
	end_work(bundle);
	if (is_damaged) {
		unlink(bundle->path);
		free(bundle->path);
		bundle->path = NULL;
		bundle->state = TFC__BUNDLE_RECEIVING;
	}
	if (bundle->state == TFC__BUNDLE_RECEIVING) {
		bundle->received = 0; /* its sender hears so with the next bytes */
		tfc__work_schedule(&bundle->tell);
		return;
	}
	code = bundle->state == TFC__BUNDLE_PACKING ? start_packing(bundle, &bundle->error)
						    : start_check(bundle, &bundle->error);
	if (code < 0)
		fail(bundle, bundle->error.text);
}

static void on_process(void *user, const tfc_process_event *event)
{
	struct tfc__bundle *bundle = user;
	char word[256] = "";
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	bool has_succeeded = event->reason == TFC_EXIT_CODE && event->status == 0;
	if (event->reason == TFC_EXIT_LOST && ++bundle->lost < LOST_MAX) {
		start_again(bundle, false);
		return;
	}
	read_word(bundle, event, word, sizeof(word));
	if (!has_succeeded && bundle->state == TFC__BUNDLE_CHECKING) {
		start_again(bundle, true);
	} else if (!has_succeeded) {
		fail(bundle, word);
	} else {
		if (bundle->state == TFC__BUNDLE_PACKING)
			snprintf(bundle->hash, sizeof(bundle->hash), "%.64s", word);
		be_ready(bundle);
	}
}

/* ---- packing */

int tfc__bundle_pack(struct tfc__bundles *bundles, const char *key, const char *path,
		     tfc_error *error, struct tfc__bundle **ret_bundle)
{
	TFC__LIST_EACH (link, &bundles->all) {
		struct tfc__bundle *known = bundle_of(link);
		if (known->key && strcmp(known->key, key) == 0) {
			known->users++;
			*ret_bundle = known;
			return TFC_OK;
		}
	}
	struct tfc__bundle *bundle = new_bundle(bundles, TFC__BUNDLE_PACKING);
	if (!bundle)
		return tfc__fail_nomem(error, "agent");
	bundle->key = strdup(key);
	bundle->from = strdup(path);
	int code = bundle->key && bundle->from ? start_packing(bundle, error)
					       : tfc__fail_nomem(error, "agent");
	if (code < 0) {
		free_bundle(bundle);
		return code;
	}
	bundle->users = 1;
	*ret_bundle = bundle;
	return TFC_OK;
}

/* ---- receiving */

struct tfc__bundle *tfc__bundle_find(const struct tfc__bundles *bundles, const char *hash)
{
	TFC__LIST_EACH (link, &bundles->all)
		if (strcmp(bundle_of(link)->hash, hash) == 0 &&
		    bundle_of(link)->state != TFC__BUNDLE_FAILED)
			return bundle_of(link);
	return NULL;
}

static bool is_hash(const char *text)
{
	return strlen(text) == TFC_BUNDLE_HASH_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == TFC_BUNDLE_HASH_SIZE - 1;
}

int tfc__bundle_want(struct tfc__bundles *bundles, const char *hash, uint64_t size,
		     tfc_error *error, struct tfc__bundle **ret_bundle)
{
	if (!is_hash(hash))
		return tfc__fail(error, TFC_EINVAL, "agent", 0, "\"%.80s\" is no SHA-256", hash);
	struct tfc__bundle *bundle = tfc__bundle_find(bundles, hash);
	if (!bundle) {
		bundle = new_bundle(bundles, TFC__BUNDLE_RECEIVING);
		if (!bundle)
			return tfc__fail_nomem(error, "agent");
		snprintf(bundle->hash, sizeof(bundle->hash), "%s", hash);
		bundle->size = size;
	}
	if (bundle->state == TFC__BUNDLE_CHECKING && !bundle->process) {
		int code = start_check(bundle, error);
		if (code < 0)
			return code;
	}
	bundle->users++;
	*ret_bundle = bundle;
	return TFC_OK;
}

/* What the pipe does not take now waits; it never blocks. */
static void push(struct tfc__bundle *bundle)
{
	size_t before = tfc__bundle_backlog(bundle);
	while (bundle->waiting_at < bundle->waiting_len) {
		ssize_t n = write(bundle->pipe.fd, bundle->waiting + bundle->waiting_at,
				  bundle->waiting_len - bundle->waiting_at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* full; or its process is gone, which is told */
		bundle->waiting_at += (size_t)n;
	}
	if (bundle->waiting_at == bundle->waiting_len)
		bundle->waiting_at = bundle->waiting_len = 0;
	tfc__io_set(&bundle->pipe, bundle->waiting_len ? EPOLLOUT : 0);
	if (before != tfc__bundle_backlog(bundle))
		tfc__work_schedule(&bundle->tell);
}

static void on_pipe(struct tfc__io *io, uint32_t events)
{
	push(tfc__container_of(io, struct tfc__bundle, pipe));
}

/* The pipe has a name, since a process is given no descriptor; both ends are opened here, so that
 * neither side waits for the other. The process knows how many bytes there are. */
static int start_receiving(struct tfc__bundle *bundle, tfc_error *error)
{
	char size[24];
	int code = make_work(bundle, error);
	char *fifo = code == TFC_OK ? tfc__path_join(bundle->work, "pipe") : NULL;
	if (!fifo)
		return code < 0 ? code : tfc__fail_nomem(error, "agent");
	if (mkfifo(fifo, 0600) == 0)
		bundle->pipe.fd = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (bundle->pipe.fd < 0)
		code = tfc__fail_errno(error, "agent", errno, "cannot make %.200s", fifo);
	free(fifo);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)bundle->size);
	const char *const words[5] = {"receive", bundle->work, bundle->bundles->dir, bundle->hash,
				      size};
	if (code == TFC_OK) {
		fcntl(bundle->pipe.fd, F_SETPIPE_SZ, PIPE_BYTES);
		code = tfc__io_open(&bundle->pipe, bundle->bundles->ctx, bundle->pipe.fd, 0,
				    on_pipe);
	}
	if (code == TFC_OK)
		code = start(bundle, words, error);
	if (code < 0)
		end_work(bundle);
	return code;
}

static int keep(struct tfc__bundle *bundle, const void *data, size_t len)
{
	if (bundle->waiting_len + len > bundle->waiting_capacity) {
		size_t capacity = bundle->waiting_len + len;
		char *grown = realloc(bundle->waiting, capacity);
		if (!grown)
			return TFC_ENOMEM;
		bundle->waiting = grown;
		bundle->waiting_capacity = capacity;
	}
	memcpy(bundle->waiting + bundle->waiting_len, data, len);
	bundle->waiting_len += len;
	return TFC_OK;
}

int tfc__bundle_write(struct tfc__bundle *bundle, uint64_t at, const void *data, size_t len,
		      tfc_error *error)
{
	if (bundle->state != TFC__BUNDLE_RECEIVING || at != bundle->received ||
	    len > bundle->size - at)
		return tfc__fail(error, TFC_ESTATE, "agent", 0, "these bytes are not wanted now");
	int code = bundle->process ? TFC_OK : start_receiving(bundle, error);
	if (code == TFC_OK && keep(bundle, data, len) < 0)
		code = tfc__fail_nomem(error, "agent");
	if (code < 0)
		return code;
	bundle->received += len;
	push(bundle);
	return TFC_OK;
}

size_t tfc__bundle_backlog(const struct tfc__bundle *bundle)
{
	return bundle->waiting_len - bundle->waiting_at;
}

int tfc__bundle_failed(struct tfc__bundles *bundles, const char *why, tfc_error *error,
		       struct tfc__bundle **ret_bundle)
{
	struct tfc__bundle *bundle = new_bundle(bundles, TFC__BUNDLE_FAILED);
	if (!bundle)
		return tfc__fail_nomem(error, "agent");
	tfc__fail(&bundle->error, TFC_EARCHIVE, "agent", 0, "%s", why);
	bundle->users = 1;
	*ret_bundle = bundle;
	return TFC_OK;
}

void tfc__bundle_use(struct tfc__bundle *bundle)
{
	bundle->users++;
}

/* ---- waiting */

void tfc__bundle_await(struct tfc__bundle *bundle, struct tfc__bundle_waiter *waiter)
{
	tfc__list_append(&bundle->waiters, &waiter->link);
}

void tfc__bundle_unawait(struct tfc__bundle_waiter *waiter)
{
	tfc__list_remove(&waiter->link);
}

/* ---- open, close */

/* What an earlier run has left: archives, to be hashed before they are used, and debris. */
static int find_cached(struct tfc__bundles *bundles, const char *name)
{
	char hash[TFC_BUNDLE_HASH_SIZE];
	struct stat status;
	char *path = tfc__path_join(bundles->dir, name);
	if (!path)
		return TFC_ENOMEM;
	snprintf(hash, sizeof(hash), "%.64s", name);
	if (strncmp(name, WORK_PREFIX, strlen(WORK_PREFIX)) == 0)
		tfc__remove_tree(path);
	bool is_one = is_hash(hash) && strcmp(name + strlen(hash), ".zip") == 0 &&
		      stat(path, &status) == 0;
	struct tfc__bundle *bundle = is_one ? new_bundle(bundles, TFC__BUNDLE_CHECKING) : NULL;
	if (!bundle) {
		free(path);
		return is_one ? TFC_ENOMEM : TFC_OK;
	}
	snprintf(bundle->hash, sizeof(bundle->hash), "%s", hash);
	bundle->path = path;
	bundle->size = (uint64_t)status.st_size;
	return TFC_OK;
}

static int scan(struct tfc__bundles *bundles, tfc_error *error)
{
	DIR *dir = opendir(bundles->dir);
	struct dirent *entry;
	int code = dir ? TFC_OK
		       : tfc__fail_errno(error, "agent", errno, "cannot read %.200s", bundles->dir);
	while (code == TFC_OK && (entry = readdir(dir)))
		if (find_cached(bundles, entry->d_name) < 0)
			code = tfc__fail_nomem(error, "agent");
	if (dir)
		closedir(dir);
	return code;
}

int tfc__bundles_open(tfc_ctx *ctx, const char *dir, uint64_t max_bytes, tfc_error *error,
		      struct tfc__bundles **ret_bundles)
{
	struct tfc__bundles *bundles = calloc(1, sizeof(*bundles));
	if (!bundles)
		return tfc__fail_nomem(error, "agent");
	bundles->ctx = ctx;
	bundles->max_bytes = max_bytes;
	tfc__list_init(&bundles->all);
	int code = (bundles->dir = strdup(dir)) ? TFC_OK : tfc__fail_nomem(error, "agent");
	if (code == TFC_OK && mkdir(dir, 0700) < 0 && errno != EEXIST)
		code = tfc__fail_errno(error, "agent", errno, "cannot make %.200s", dir);
	if (code == TFC_OK)
		code = scan(bundles, error);
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
	TFC__LIST_EACH (link, &bundles->all)
		free_bundle(bundle_of(link));
	free(bundles->dir);
	free(bundles);
}
