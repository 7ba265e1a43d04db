#include "warm/zygotes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "log/tail.h"
#include "zygote_source.h"
#include <tfcluster/memory.h>

#define TEXT_SIZE TFC__WARM_TEXT

struct zygote_user {
	void *user;
	uint32_t attempts; /* that were to be forked */
};

struct zygote_entry {
	struct tfc__link link; /* in the order of use: the first was not used for longest */
	struct tfc__zygotes *zygotes;
	tfc_process *process; /* NULL: it has failed */
	char *key;
	char *interpreter;
	struct tfc__strv modules;
	uint64_t started_ns;
	uint32_t number; /* of all that the node has had */
	char log_name[24];
	struct zygote_user *users;
	size_t user_count;
	bool is_ready;
	char failure[TEXT_SIZE];
};

struct tfc__zygotes {
	struct tfc__zygotes_options options;
	struct tfc__link list;
	uint32_t last_number;
};

int tfc__zygotes_open(const struct tfc__zygotes_options *options, tfc_error *error,
		      struct tfc__zygotes **ret_zygotes)
{
	struct tfc__zygotes *zygotes = calloc(1, sizeof(*zygotes));
	if (!zygotes)
		return tfc__fail_nomem(error, "warm");
	zygotes->options = *options;
	if (!options->max)
		zygotes->options.max = TFC__ZYGOTES;
	if (!options->import_ms)
		zygotes->options.import_ms = TFC__IMPORT_MS;
	tfc__list_init(&zygotes->list);
	*ret_zygotes = zygotes;
	return TFC_OK;
}

static void zygote_free(struct zygote_entry *zygote)
{
	tfc__list_remove(&zygote->link);
	tfc_process_close(zygote->process);
	free(zygote->key);
	free(zygote->interpreter);
	tfc__strv_fini(&zygote->modules);
	free(zygote->users);
	free(zygote);
}

void tfc__zygotes_close(struct tfc__zygotes *zygotes)
{
	if (!zygotes)
		return;
	TFC__LIST_EACH (link, &zygotes->list)
		zygote_free(tfc__container_of(link, struct zygote_entry, link));
	free(zygotes);
}

/* ---- reports */

/*
 * proc(5): the second number of statm is the resident memory, the third what of it is of files, in
 * pages. Unlike smaps, it costs nothing to read.
 */
static void zygote_measure(pid_t pid, tfc_zygote *zygote)
{
	char path[64], text[128];
	unsigned long long resident = 0, of_files = 0;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	if (tfc__read_text(path, text, sizeof(text)) < 0 ||
	    sscanf(text, "%*u %llu %llu", &resident, &of_files) != 2 || of_files > resident)
		return;
	zygote->rss_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
	zygote->anonymous_bytes = (resident - of_files) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Borrowed from the zygote. */
static void zygote_fill(const struct zygote_entry *zygote, tfc_zygote *info)
{
	*info = (tfc_zygote){.size = sizeof(*info),
			     .state = *zygote->failure   ? TFC_ZYGOTE_FAILED
				      : zygote->is_ready ? TFC_ZYGOTE_READY
							 : TFC_ZYGOTE_IMPORTING,
			     .node = "",
			     .interpreter = zygote->interpreter,
			     .modules = (const char *const *)zygote->modules.items,
			     .text = zygote->failure,
			     .pid = zygote->process ? (int32_t)tfc_process_pid(zygote->process) : 0,
			     .started_ns = zygote->started_ns};
	if (info->state == TFC_ZYGOTE_READY && info->pid)
		zygote_measure((pid_t)info->pid, info);
}

/* Of all users, or with `user` of this one. */
static void zygote_report(const struct zygote_entry *zygote, const void *user, bool has_ended)
{
	const struct tfc__zygotes_options *options = &zygote->zygotes->options;
	tfc_zygote info;
	zygote_fill(zygote, &info);
	for (size_t i = 0; i < zygote->user_count && options->fn; i++) {
		if (user && zygote->users[i].user != user)
			continue;
		info.attempts = zygote->users[i].attempts;
		options->fn(zygote->users[i].user, zygote->number, has_ended ? NULL : &info);
	}
}

void tfc__zygotes_report(struct tfc__zygotes *zygotes, const void *user)
{
	TFC__LIST_EACH (link, &zygotes->list)
		zygote_report(tfc__container_of(link, struct zygote_entry, link), user, false);
}

static bool zygote_has_user(const struct zygote_entry *zygote, const void *user)
{
	for (size_t i = 0; i < zygote->user_count; i++)
		if (zygote->users[i].user == user)
			return true;
	return false;
}

bool tfc__zygotes_are_importing(const struct tfc__zygotes *zygotes, const void *user)
{
	TFC__LIST_EACH (link, &zygotes->list) {
		struct zygote_entry *zygote = tfc__container_of(link, struct zygote_entry, link);
		if (zygote->process && !zygote->is_ready && zygote_has_user(zygote, user))
			return true;
	}
	return false;
}

/* ---- its import */

static char *join_modules(const struct tfc__strv *modules)
{
	char *text = strdup("");
	for (size_t i = 0; i < modules->count && text; i++) {
		char *longer = NULL;
		if (asprintf(&longer, "%s%s%s", text, i ? " " : "", modules->items[i]) < 0)
			longer = NULL;
		free(text);
		text = longer;
	}
	return text;
}

static void zygote_log_ready(const struct zygote_entry *zygote)
{
	char memory[TFC__MEMORY_TEXT_SIZE];
	char *modules = join_modules(&zygote->modules);
	tfc_zygote info;
	zygote_fill(zygote, &info);
	tfc__memory_text(info.rss_bytes, memory);
	tfc__log(zygote->zygotes->options.ctx, TFC_LOG_INFO, "warm", "",
		 "process %d has imported %s and uses %s; tasks are forked from it", (int)info.pid,
		 modules ? modules : "its modules", memory);
	free(modules);
}

/* ---- its end */

/* The last line of its output says why it cannot serve. */
static void zygote_describe_end(struct zygote_entry *zygote, const tfc_process_event *event)
{
	char **lines = NULL, *modules = join_modules(&zygote->modules);
	const char *line = NULL;
	if (tfc__log_tail(tfc__private_dir_path(zygote->zygotes->options.dir), zygote->log_name, 0,
			  0, 1, &lines) >= 0)
		line = lines[0];
	const char *what = modules ? modules : "its modules";
	uint32_t import_ms = zygote->zygotes->options.import_ms;
	if (event->reason == TFC_EXIT_SIGNAL && event->status == SIGKILL &&
	    tfc__wall() - zygote->started_ns >= import_ms * TFC__MS)
		snprintf(zygote->failure, TEXT_SIZE, "the import of %.200s took longer than %.7g s",
			 what, import_ms / 1e3);
	else if (event->reason == TFC_EXIT_SIGNAL)
		snprintf(zygote->failure, TEXT_SIZE,
			 "the process was killed by signal %d while it imported %.200s",
			 event->status, what);
	else if (event->reason == TFC_EXIT_NOT_STARTED)
		snprintf(zygote->failure, TEXT_SIZE, "%s", event->text);
	else if (line && *line)
		snprintf(zygote->failure, TEXT_SIZE, "%s", line);
	else
		snprintf(zygote->failure, TEXT_SIZE, "the process ended with status %d",
			 event->status);
	free(modules);
	if (lines)
		tfc_strv_free(lines);
}

/*
 * One that ends before it is ready, or later with an error, would do so again. It stays in the list
 * as failed while it has users, so that they do not import again for each attempt. One that is
 * killed when it is ready, or exits with 0 because its modules have changed, is replaced when it is
 * wanted.
 */
static void zygote_on_event(void *user, const tfc_process_event *event)
{
	struct zygote_entry *zygote = user;
	if (event->kind == TFC__PROCESS_READY) {
		zygote->is_ready = true;
		zygote_log_ready(zygote);
	}
	if (event->kind == TFC__PROCESS_READY || event->kind == TFC_PROCESS_STARTED)
		zygote_report(zygote, NULL, false);
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	bool has_failed = !zygote->is_ready ||
			  (event->reason == TFC_EXIT_CODE && event->status != 0);
	if (!has_failed || event->reason == TFC_EXIT_LOST || !zygote->user_count) {
		zygote_report(zygote, NULL, true);
		zygote_free(zygote);
		return;
	}
	zygote_describe_end(zygote, event);
	tfc_process_close(zygote->process);
	zygote->process = NULL;
	zygote_report(zygote, NULL, false);
}

/* ---- its start */

static int zygote_spawn(struct zygote_entry *zygote, const struct tfc__warm_attempt *attempt,
			const struct tfc__strv *env)
{
	struct tfc__zygotes *zygotes = zygote->zygotes;
	const struct tfc__run_terms terms = {.dir = zygotes->options.dir,
					     .is_zygote = true,
					     .import_ms = zygotes->options.import_ms};
	struct tfc__strv argv = {0};
	tfc__strv_add(&argv, zygote->interpreter);
	tfc__strv_add(&argv, "-c");
	tfc__strv_add(&argv, tfc__zygote_source);
	tfc__strv_add_all(&argv, (const char *const *)attempt->modules->items);
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = (const char *const *)argv.items;
	options.env = (const char *const *)env->items;
	options.log_dir = tfc__private_dir_path(zygotes->options.dir);
	options.log_name = zygote->log_name;
	options.grace_ms = TFC__HELPER_GRACE_MS;
	options.isolation = TFC_ISOLATION_PLAIN;
	int code = argv.is_failed ? TFC_ENOMEM
				  : tfc__process_spawn(zygotes->options.ctx, &options, &terms,
						       zygote_on_event, zygote, &zygote->process);
	tfc__strv_fini(&argv);
	return code;
}

static struct zygote_entry *zygote_new(struct tfc__zygotes *zygotes,
				       const struct tfc__warm_attempt *attempt, char *key)
{
	struct zygote_entry *zygote = calloc(1, sizeof(*zygote));
	char *interpreter = tfc__warm_interpreter(attempt);
	if (zygote)
		tfc__strv_add_all(&zygote->modules, (const char *const *)attempt->modules->items);
	if (!zygote || !interpreter || zygote->modules.is_failed) {
		if (zygote)
			tfc__strv_fini(&zygote->modules);
		free(zygote);
		free(interpreter);
		free(key);
		return NULL;
	}
	zygote->zygotes = zygotes;
	zygote->key = key;
	zygote->interpreter = interpreter;
	zygote->started_ns = tfc__wall();
	zygote->number = ++zygotes->last_number;
	snprintf(zygote->log_name, sizeof(zygote->log_name), "zygote-%u", zygote->number);
	tfc__list_append(&zygotes->list, &zygote->link);
	return zygote;
}

/* ---- its users */

/* NULL: out of memory. */
static struct zygote_user *zygote_add_user(struct zygote_entry *zygote, void *user)
{
	for (size_t i = 0; i < zygote->user_count; i++)
		if (zygote->users[i].user == user)
			return &zygote->users[i];
	struct zygote_user *users = realloc(zygote->users,
					    (zygote->user_count + 1) * sizeof(*users));
	if (!users)
		return NULL;
	zygote->users = users;
	users[zygote->user_count] = (struct zygote_user){.user = user};
	return &users[zygote->user_count++];
}

static bool zygote_has_failed(const struct zygote_entry *zygote)
{
	return !zygote->process;
}

void tfc__zygotes_leave(struct tfc__zygotes *zygotes, const void *user)
{
	if (!zygotes)
		return;
	TFC__LIST_EACH (link, &zygotes->list) {
		struct zygote_entry *zygote = tfc__container_of(link, struct zygote_entry, link);
		for (size_t i = zygote->user_count; i-- > 0;)
			if (zygote->users[i].user == user)
				zygote->users[i] = zygote->users[--zygote->user_count];
		if (zygote_has_failed(zygote) && !zygote->user_count)
			zygote_free(zygote); /* for the next user, it is tried again */
	}
}

static struct zygote_entry *zygotes_find(struct tfc__zygotes *zygotes, const char *key)
{
	TFC__LIST_EACH (link, &zygotes->list) {
		struct zygote_entry *zygote = tfc__container_of(link, struct zygote_entry, link);
		if (strcmp(zygote->key, key) == 0)
			return zygote;
	}
	return NULL;
}

/*
 * Whether another one may be started; if there are too many, ends the one that was not used for
 * longest. One that a job uses stays: otherwise two jobs would import in turn. Those that have
 * failed do not count.
 */
static bool zygotes_limit(struct tfc__zygotes *zygotes)
{
	struct zygote_entry *unused = NULL;
	uint32_t count = 0;
	TFC__LIST_EACH (link, &zygotes->list) {
		struct zygote_entry *zygote = tfc__container_of(link, struct zygote_entry, link);
		if (zygote_has_failed(zygote))
			continue;
		count++;
		if (!unused && !zygote->user_count)
			unused = zygote;
	}
	if (count < zygotes->options.max)
		return true;
	if (unused)
		zygote_free(unused);
	return unused != NULL;
}

static struct zygote_entry *zygotes_make(struct tfc__zygotes *zygotes,
					 const struct tfc__warm_attempt *attempt, char *key,
					 const struct tfc__strv *env, char *text)
{
	if (!zygotes_limit(zygotes)) {
		snprintf(text, TEXT_SIZE,
			 "jobs use all zygotes that the node may have (%u); jobs with the same "
			 "modules, "
			 "interpreter and variables share one, and the node's option zygotes sets "
			 "the limit",
			 zygotes->options.max);
		free(key);
		return NULL;
	}
	struct zygote_entry *zygote = zygote_new(zygotes, attempt, key);
	if (!zygote)
		return NULL;
	if (zygote_spawn(zygote, attempt, env) < 0) {
		snprintf(text, TEXT_SIZE, "%.500s", tfc_ctx_error(zygotes->options.ctx)->text);
		zygote_free(zygote);
		return NULL;
	}
	return zygote;
}

const tfc_process *tfc__zygotes_get(struct tfc__zygotes *zygotes,
				    const struct tfc__warm_attempt *attempt,
				    char ret_text[TFC__WARM_TEXT], uint32_t *ret_number)
{
	struct tfc__strv env = {0};
	*ret_number = 0;
	if (!tfc__warm_check(attempt, ret_text))
		return NULL;
	char *key = tfc__warm_key(attempt, &env);
	struct zygote_entry *zygote = key ? zygotes_find(zygotes, key) : NULL;
	if (zygote)
		free(key);
	else if (key && !env.is_failed)
		zygote = zygotes_make(zygotes, attempt, key, &env, ret_text);
	else
		free(key);
	tfc__strv_fini(&env);
	struct zygote_user *user = zygote ? zygote_add_user(zygote, attempt->user) : NULL;
	if (!user)
		return NULL;
	*ret_number = zygote->number;
	user->attempts += zygote->process != NULL;
	tfc__list_remove(&zygote->link);
	tfc__list_append(&zygotes->list, &zygote->link);
	if (*zygote->failure)
		snprintf(ret_text, TEXT_SIZE, "%s", zygote->failure);
	zygote_report(zygote, attempt->user, false);
	return zygote->process;
}
