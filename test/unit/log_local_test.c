/* log: a source is woken when its own log grows, and outlives the directory that it came from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "log/format.h"
#include "log/local.h"
#include "log/tail.h"
#include <tfcluster/ctx.h>

#define SOURCES 4
#define LINE "a line\n"

static const char *const names[SOURCES] = {"worker-1", "worker-11", "worker.1-1", "worker"};

struct scene {
	char path[LEAKS_PATH];
	tfc_ctx *ctx;
	struct tfc__log_dir dir;
	struct tfc__log_source *sources[SOURCES];
	int wakes[SOURCES];
	uint32_t open_count;
};

static void on_wake(void *user)
{
	++*(int *)user;
}

/* A record at the end of a log of one segment. */
static void append(struct scene *scene, const char *name)
{
	char segment[TFC__LOG_PATH_SIZE], record[TFC__LOG_HEADER + sizeof(LINE)];
	const struct tfc__log_header header = {.time_ns = 1,
					       .stream = 'o',
					       .attempt = 1,
					       .len = strlen(LINE)};
	tfc__log_segment_name(segment, name, 0);
	char *path = tfc__path_join(scene->path, segment);
	FILE *file = fopen(path, "ae");
	assert_non_null(file);
	tfc__log_header_write(record, &header);
	memcpy(record + TFC__LOG_HEADER, LINE, strlen(LINE));
	assert_int_equal(fwrite(record, TFC__LOG_HEADER + strlen(LINE), 1, file), 1);
	fclose(file);
	free(path);
}

static void open_scene(struct scene *scene)
{
	tfc_error error = TFC_ERROR_INIT;
	memset(scene, 0, sizeof(*scene));
	leaks_make_dir(scene->path);
	assert_int_equal(tfc_ctx_new(NULL, &error, &scene->ctx), TFC_OK);
	tfc__log_dir_init(&scene->dir, scene->ctx, scene->path, "job", &scene->open_count);
	for (int i = 0; i < SOURCES; i++)
		append(scene, names[i]);
	for (int i = 0; i < SOURCES; i++) {
		scene->sources[i] = tfc__log_dir_open(&scene->dir, names[i], 0, &error);
		assert_non_null(scene->sources[i]);
		scene->sources[i]->wake = on_wake;
		scene->sources[i]->user = &scene->wakes[i];
	}
}

static void close_scene(struct scene *scene)
{
	for (int i = 0; i < SOURCES; i++)
		tfc__log_source_close(scene->sources[i]);
	tfc__log_dir_fini(&scene->dir);
	assert_int_equal(scene->open_count, 0);
	tfc_ctx_free(scene->ctx);
	tfc__remove_tree(scene->path);
}

static void run(struct scene *scene)
{
	int code = tfc_ctx_run(scene->ctx, 1000);
	while (code > 0)
		code = tfc_ctx_dispatch(scene->ctx, 0);
	assert_int_equal(code, 0);
}

static int records_left(struct tfc__log_source *source)
{
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_error error = TFC_ERROR_INIT;
	int count = 0, code;
	while ((code = source->ops->next(source, &record, &error)) > 0)
		count++;
	assert_int_equal(code, 0);
	return count;
}

static void a_source_is_woken_for_its_own_log_alone(void **state)
{
	struct scene scene;
	open_scene(&scene);
	for (int i = 0; i < SOURCES; i++) {
		memset(scene.wakes, 0, sizeof(scene.wakes));
		append(&scene, names[i]);
		run(&scene);
		for (int k = 0; k < SOURCES; k++)
			assert_int_equal(scene.wakes[k] > 0, k == i);
		assert_int_equal(records_left(scene.sources[i]), 2);
	}
	close_scene(&scene);
}

static void nothing_is_watched_once_the_logs_are_complete(void **state)
{
	struct scene scene;
	tfc_error error = TFC_ERROR_INIT;
	open_scene(&scene);
	int fds = folder_count_fds();
	tfc__log_dir_complete(&scene.dir);
	for (int i = 1; i < SOURCES; i++) {
		tfc__log_source_close(scene.sources[i]);
		scene.sources[i] = NULL;
	}
	append(&scene, names[0]); /* who watches already goes on */
	run(&scene);
	assert_int_equal(scene.wakes[0], 1);
	tfc__log_source_close(scene.sources[0]);
	assert_int_equal(folder_count_fds(), fds - 1);
	scene.sources[0] = tfc__log_dir_open(&scene.dir, names[0], 0, &error);
	assert_int_equal(folder_count_fds(), fds - 1);
	assert_int_equal(records_left(scene.sources[0]), 2);
	close_scene(&scene);
}

static void a_source_outlives_its_directory(void **state)
{
	struct scene scene;
	open_scene(&scene);
	assert_int_equal(records_left(scene.sources[0]), 1);
	tfc__log_dir_fini(&scene.dir);
	assert_int_equal(scene.open_count, 0);
	append(&scene, names[0]);
	assert_int_equal(records_left(scene.sources[0]), 0);
	scene.dir = (struct tfc__log_dir){0};
	close_scene(&scene);
}

/* Its opening would wait for a writer. */
static void a_log_that_was_replaced_by_a_pipe_blocks_nobody(void **state)
{
	struct scene scene;
	char name[TFC__LOG_PATH_SIZE], path[LEAKS_PATH + TFC__LOG_PATH_SIZE];
	open_scene(&scene);
	tfc__log_segment_name(name, names[0], 0);
	snprintf(path, sizeof(path), "%s/%s", scene.path, name);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	alarm(10);
	assert_int_equal(records_left(scene.sources[0]), 0);
	assert_int_equal(tfc__log_end(scene.path, names[0]), 0);
	alarm(0);
	close_scene(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_source_is_woken_for_its_own_log_alone),
		cmocka_unit_test(nothing_is_watched_once_the_logs_are_complete),
		cmocka_unit_test(a_source_outlives_its_directory),
		cmocka_unit_test(a_log_that_was_replaced_by_a_pipe_blocks_nobody),
	};
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
