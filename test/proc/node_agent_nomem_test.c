/* node: a job on another node, both in one process, while one allocation after the other fails at
 * either end: each order is answered once or all of them by LOST, each event is reported once, and
 * when the job is closed nothing of it is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent_order.h"
#include "agent_pair.h"
#include "base/clock.h"
#include "base/file.h"
#include "failing_malloc.h"
#include "node/internal.h"
#include "proc_run.h"

#define LEASE_MS 5000
#define PATIENCE (60 * TFC__SECOND)
#define EVERY 31        /* one allocation in so many; $TFC_TEST_EVERY: 1 takes minutes */
#define FAILING_TURNS 3 /* of the loop, until there is memory again */

enum kind { PLAIN, BUNDLED, BROKEN, KINDS };

static const char *const names[] = {"plain", "with a bundle", "over two connections"};

static struct agent_pair pair;
static struct agent_pair *const both = &pair;
static tfc_job *jobs[KINDS];
static tfc_spec *spec;

/* ---- one job from its opening to its end */

struct walk {
	void *handle;
	long number;    /* of the allocation that fails */
	uint32_t turns; /* of the loop since an allocation failed */
	uint32_t held, started, ended, answered;
	bool is_refused; /* the hold or the attempt, in a sentence */
	bool is_lost;
	int status;
	uint64_t log_end;
	struct tfc__log_source *log;
	struct tfc__buf text;
};

static void receive(void *user, const struct tfc__task_event *event)
{
	struct walk *walk = user;
	bool is_bad = event->kind == TFC__AGENT_HOLD_FAILED || event->kind == TFC__AGENT_REFUSED;
	assert_false(walk->is_lost && event->kind != TFC__AGENT_LOST);
	assert_true(!is_bad || (event->text && *event->text));
	walk->is_refused |= is_bad;
	walk->held += event->kind == TFC__AGENT_HELD;
	walk->started += event->kind == TFC__AGENT_STARTED;
	walk->answered += event->kind == TFC__AGENT_STATES;
	walk->is_lost |= event->kind == TFC__AGENT_LOST;
	if (event->kind != TFC__AGENT_EXITED)
		return;
	walk->ended++;
	walk->status = event->end.reason == TFC_EXIT_CODE ? event->end.status : -1;
	walk->log_end = event->end.log_end;
}

/* As a transport does that ran out of memory: the connection ends, and there is another. */
static void mend_connection(void)
{
	if (!pair.rpc.ends[0].broken.code && !pair.rpc.ends[1].broken.code)
		return;
	agent_pair_cut(both);
	agent_pair_connect(both);
}

static void turn(struct walk *walk, bool is_for_good, uint64_t end)
{
	if (tfc__now() >= end)
		fail_msg("allocation %ld failed: held %u, started %u, ended %u, refused %d, %zu "
			 "bytes "
			 "read, answered %u, lost %d",
			 walk->number, walk->held, walk->started, walk->ended, walk->is_refused,
			 walk->text.len, walk->answered, walk->is_lost);
	assert_true(tfc_ctx_run(pair.ctx, 100) >= 0);
	if (is_for_good && failing_has_struck() && ++walk->turns == FAILING_TURNS)
		failing_relent();
	if (!is_for_good || !failing_has_struck() || walk->turns >= FAILING_TURNS)
		mend_connection();
}

static bool is_held(struct walk *walk)
{
	return walk->held || walk->is_refused;
}

static bool is_started(struct walk *walk)
{
	return walk->started || walk->ended || walk->is_refused;
}

static bool is_ended(struct walk *walk)
{
	return walk->ended || walk->is_refused;
}

static bool is_answered(struct walk *walk)
{
	return walk->answered > 0;
}

static bool is_read(struct walk *walk)
{
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_error error = TFC_ERROR_INIT;
	int code;
	while ((code = walk->log->ops->next(walk->log, &record, &error)) == 1) {
		tfc__buf_add(&walk->text, record.data, record.len);
		if (record.next >= walk->log_end)
			return true;
	}
	assert_true(code >= 0 || code == TFC_EAGAIN || *error.text);
	return code < 0 && code != TFC_EAGAIN && code != TFC_ELOST;
}

static bool is_gone(struct walk *walk)
{
	return !tfc__agent_service_jobs(pair.service) && tfc__list_is_empty(&pair.remote->jobs);
}

/* Until it is so, or the job is lost. */
static bool await(struct walk *walk, bool is_for_good, bool (*is_so)(struct walk *walk))
{
	uint64_t end = tfc__now() + PATIENCE;
	while (!is_so(walk) && (!walk->is_lost || is_so == is_gone))
		turn(walk, is_for_good, end);
	return !walk->is_lost;
}

static void run_task(struct walk *walk, enum kind kind, bool is_for_good)
{
	const struct tfc__agent_ops *ops = &tfc__remote_agent_ops;
	tfc_error error = TFC_ERROR_INIT;
	agent_hold(ops, walk->handle, 0, 1);
	if (!await(walk, is_for_good, is_held) || walk->is_refused)
		return;
	agent_launch(ops, walk->handle, 0, spec);
	if (kind == BROKEN) {
		failing_relent();
		agent_pair_cut(both);
		agent_pair_connect(both);
	}
	if (!await(walk, is_for_good, is_started))
		return;
	walk->log = ops->log_open(walk->handle, 0, 0, &error);
	if (!await(walk, is_for_good, is_ended))
		return;
	if (walk->log && walk->log_end)
		await(walk, is_for_good, is_read);
	agent_query(ops, walk->handle, 1);
	await(walk, is_for_good, is_answered);
}

static void check(const struct walk *walk, bool has_struck)
{
	static const char output[] = "hello";
	assert_true(walk->held <= 1 && walk->started <= 1 && walk->ended <= 1);
	assert_true(walk->answered <= 1);
	assert_true(walk->text.len <= strlen(output) &&
		    memcmp(walk->text.data ? walk->text.data : "", output, walk->text.len) == 0);
	if (has_struck)
		return;
	assert_true(walk->ended && walk->answered && !walk->is_lost && !walk->is_refused);
	assert_int_equal(walk->status, 3);
	assert_int_equal(walk->text.len, strlen(output));
}

/* Whether an allocation failed. */
static bool try_with(enum kind kind, long number, bool is_for_good)
{
	struct walk walk = {.number = number};
	tfc_error error = TFC_ERROR_INIT;
	char id[17];
	const struct tfc__agent_job_info info = {.id = id, .job = jobs[kind], .epoch = 1};
	snprintf(id, sizeof(id), "%016lx", number * 2 + is_for_good); /* with a log of its own */
	failing_begin(number, is_for_good);
	int code = failing_said(tfc__remote_agent_ops.job_open(pair.remote, &info, receive, &walk,
							       &walk.handle, &error),
				&error);
	if (code == TFC_OK)
		run_task(&walk, kind, is_for_good);
	if (walk.log)
		walk.log->ops->close(walk.log);
	if (code == TFC_OK)
		tfc__remote_agent_ops.job_close(walk.handle);
	await(&walk, is_for_good, is_gone);
	bool has_struck = failing_has_struck();
	failing_relent();
	check(&walk, has_struck);
	tfc__buf_fini(&walk.text);
	failing_end();
	assert_true(code == TFC_OK || has_struck);
	return has_struck;
}

/* ---- all of them */

static char *make_program(uint32_t number)
{
	char text[16], path[256];
	char *dir = tfc__path_join(pair.dir, "program");
	mkdir(dir, 0700);
	snprintf(path, sizeof(path), "%s/number", dir);
	snprintf(text, sizeof(text), "%u", number);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	return dir;
}

static tfc_job *parse(const char *bundle)
{
	char *json;
	tfc_job *job;
	tfc_error error = TFC_ERROR_INIT;
	assert_true(asprintf(&json,
			     "{\"argv\": [\"%s\", \"print\", \"hello\", \"exit\", \"3\"], %s%s%s"
			     "\"roles\": {\"worker\": {\"ready\": \"started\"}}}",
			     proc_task_program(), bundle ? "\"bundle\": \"" : "",
			     bundle ? bundle : "", bundle ? "\", " : "") > 0);
	if (tfc_job_parse(json, strlen(json), "job", &error, &job) < 0)
		fail_msg("%s", error.text);
	free(json);
	return job;
}

static void set_up(void)
{
	agent_pair_begin(both, LEASE_MS);
	agent_pair_connect(both);
	char *dir = make_program(0);
	jobs[PLAIN] = jobs[BROKEN] = parse(NULL);
	jobs[BUNDLED] = parse(dir);
	free(dir);
	assert_int_equal(tfc_spec_new(&spec), 0);
	assert_int_equal(tfc_spec_add(spec, "worker", 0, "127.0.0.1:20000", NULL), 0);
}

static void tear_down(void)
{
	tfc_spec_free(spec);
	tfc_job_free(jobs[PLAIN]);
	tfc_job_free(jobs[BUNDLED]);
	agent_pair_end(both);
}

static void sweep(enum kind kind)
{
	const char *said = getenv("TFC_TEST_EVERY");
	long every = said ? atol(said) : EVERY;
	uint32_t number = 0;
	set_up();
	for (int is_for_good = 0; is_for_good < 2; is_for_good++) {
		long n = kind;
		do {
			free(make_program(number++)); /* another bundle: none is cached */
		} while (try_with(kind, n, is_for_good) && (n += every));
		print_message("%s: %ld allocations\n", names[kind], n);
		assert_true(n > 50);
	}
	tear_down();
}

static void a_job_elsewhere(void **state)
{
	sweep(PLAIN);
}

static void a_job_whose_connection_breaks(void **state)
{
	sweep(BROKEN);
}

static void a_job_whose_bundle_is_sent(void **state)
{
	sweep(BUNDLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_elsewhere),
		cmocka_unit_test(a_job_whose_connection_breaks),
		cmocka_unit_test(a_job_whose_bundle_is_sent),
	};
	return cmocka_run_group_tests_name("node_agent_nomem", tests, NULL, NULL);
}
