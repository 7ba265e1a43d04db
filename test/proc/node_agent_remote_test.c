/* node: an agent elsewhere does as the one here, whatever becomes of the connections to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_order.h"
#include "agent_pair.h"
#include "base/clock.h"
#include "base/file.h"
#include "proc_run.h"

#define LEASE_MS 60000

struct reading {
	struct tfc__log_source *source;
	struct tfc__buf text;
	uint32_t wakes;
	uint32_t refused; /* times that the node could not be asked */
	uint64_t next;
};

static void note_wake(void *user)
{
	((struct reading *)user)->wakes++;
}

static void begin_reading(struct reading *reading, struct paired_job *job, uint64_t position)
{
	tfc_error error = TFC_ERROR_INIT;
	*reading = (struct reading){.source = job->ops->log_open(job->handle, 0, position, &error)};
	assert_non_null(reading->source);
	reading->source->wake = note_wake;
	reading->source->user = reading;
}

/* All that is there; whether the node could be asked. */
static bool read_on(struct reading *reading, size_t most)
{
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_error error = TFC_ERROR_INIT;
	int code = 0;
	while (reading->text.len < most &&
	       (code = reading->source->ops->next(reading->source, &record, &error)) == 1) {
		assert_int_equal(record.stream, TFC_STREAM_STDOUT);
		assert_true(reading->next <= record.position);
		reading->next = record.next;
		tfc__buf_add(&reading->text, record.data, record.len);
	}
	assert_true(code >= 0 || code == TFC_ELOST || code == TFC_EAGAIN);
	reading->refused += code == TFC_ELOST;
	return code != TFC_ELOST;
}

static void end_reading(struct reading *reading)
{
	reading->source->ops->close(reading->source);
	tfc__buf_fini(&reading->text);
}

static void await_text(struct agent_pair *pair, struct reading *reading, size_t len)
{
	for (uint64_t end = tfc__now() + 30 * TFC__SECOND; reading->text.len < len;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(pair->ctx, 100) >= 0);
		read_on(reading, SIZE_MAX);
	}
}

static void tasks_run_on_another_node(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	struct reading reading;
	char **lines;
	agent_pair_up(&pair, LEASE_MS);
	paired_open_task(&pair, &job, 1, "'print', 'hello', 'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	paired_await(&job, TFC__AGENT_STARTED, 1, 1);
	begin_reading(&reading, &job, 0);
	await_text(&pair, &reading, strlen("hello"));
	end_reading(&reading);
	proc_stop(pid);
	agent_query(job.ops, job.handle, 1);
	const struct received_event *answer = paired_await(&job, TFC__AGENT_STATES, 0, 1);
	assert_int_equal(answer->number, 1);
	assert_int_equal(answer->states[0], TFC__PROC_STOPPED);
	assert_int_equal(answer->states[1], TFC__PROC_RUNNING);
	agent_stop(job.ops, job.handle, 0, 5000);
	const struct received_event *end = paired_await(&job, TFC__AGENT_EXITED, 0, 1);
	assert_int_equal(end->reason, TFC_EXIT_SIGNAL);
	assert_int_equal(end->status, SIGTERM);
	assert_in_range(end->time_ns, tfc__wall() - 10 * TFC__SECOND, tfc__wall());
	assert_int_equal(job.ops->log_tail(job.handle, 0, &lines), 0);
	assert_string_equal(lines[0], "hello");
	tfc_strv_free(lines);
	assert_int_equal(job.ops->log_tail(job.handle, 1, &lines), 0);
	assert_null(lines[0]);
	tfc_strv_free(lines);
	pid = paired_find(&job, TFC__AGENT_STARTED, 1, 1)->pid;
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	assert_true(proc_await_gone(pid, 5000));
	agent_pair_end(&pair);
}

static void assert_each_once(const struct paired_job *job)
{
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(paired_count(job, TFC__AGENT_HELD, i), 1);
		assert_int_equal(paired_count(job, TFC__AGENT_STARTED, i), 1);
		assert_int_equal(paired_count(job, TFC__AGENT_EXITED, i), 1);
		assert_int_equal(paired_find(job, TFC__AGENT_EXITED, i, 1)->status, 3);
	}
	assert_null(paired_find(job, TFC__AGENT_LOST, 0, 1));
}

/* Cut once after so many turns of the loop, wherever that is; answers are lost, too. */
static void cut_after(struct agent_pair *pair, uint32_t turns)
{
	static struct paired_job job;
	tfc_spec *spec;
	agent_pair_connect(pair);
	paired_open_task(pair, &job, 1, "'exit', '3'");
	agent_hold(job.ops, job.handle, 0, 1);
	agent_hold(job.ops, job.handle, 1, 2);
	bool is_launched = false;
	for (uint32_t turn = 0; !paired_find(&job, TFC__AGENT_EXITED, 0, 1) ||
				!paired_find(&job, TFC__AGENT_EXITED, 1, 1);
	     turn++) {
		assert_true(turn < 5000);
		if (turn == turns) {
			agent_pair_cut(pair);
			agent_pair_connect(pair);
		}
		assert_true(tfc_ctx_dispatch(pair->ctx, 1) >= 0);
		tfc_ctx_run(pair->ctx, turn < turns ? 0 : 10);
		if (is_launched || !paired_find(&job, TFC__AGENT_HELD, 0, 1) ||
		    !paired_find(&job, TFC__AGENT_HELD, 1, 1))
			continue;
		is_launched = true;
		assert_int_equal(tfc_spec_new(&spec), 0);
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(
				tfc_spec_add(spec, "worker", i,
					     paired_find(&job, TFC__AGENT_HELD, i, 1)->address,
					     NULL),
				0);
		for (uint32_t i = 0; i < 2; i++)
			agent_launch(job.ops, job.handle, i, spec);
		tfc_spec_free(spec);
	}
	agent_pair_run_for(pair, 5);
	assert_each_once(&job);
	paired_close(&job);
	agent_pair_await_no_jobs(pair);
	agent_pair_cut(pair);
}

static void a_connection_that_is_cut_anywhere_doubles_and_loses_nothing(void **state)
{
	struct agent_pair pair;
	agent_pair_begin(&pair, LEASE_MS);
	for (uint32_t turns = 0; turns < 60; turns++)
		cut_after(&pair, turns);
	agent_pair_end(&pair);
}

static void silence_is_reported_and_so_is_its_end(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_begin(&pair, LEASE_MS);
	paired_open_task(&pair, &job, 1, "'wait'");
	paired_await(&job, TFC__AGENT_UNREACHABLE, 0, 1); /* there is no connection yet */
	agent_pair_connect(&pair);
	paired_await(&job, TFC__AGENT_REACHABLE, 0, 1);
	paired_start(&job, 2);
	paired_await(&job, TFC__AGENT_STARTED, 1, 1);
	agent_pair_cut(&pair);
	paired_await(&job, TFC__AGENT_UNREACHABLE, 0, 2);
	agent_stop(job.ops, job.handle, 0, 5000);
	agent_pair_run_for(&pair, 50);
	assert_null(paired_find(&job, TFC__AGENT_EXITED, 0, 1));
	agent_pair_connect(&pair);
	paired_await(&job, TFC__AGENT_EXITED, 0, 1);
	assert_int_equal(paired_count(&job, TFC__AGENT_REACHABLE, 0), 2);
	assert_null(paired_find(&job, TFC__AGENT_EXITED, 1, 1));
	paired_close(&job);
	agent_pair_end(&pair);
}

static void a_higher_epoch_ends_the_lower_one_first(void **state)
{
	struct agent_pair pair;
	static struct paired_job job, next, stale;
	agent_pair_up(&pair, LEASE_MS);
	paired_open_task(&pair, &job, 2, "'deaf', 'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	paired_await(&job, TFC__AGENT_STARTED, 1, 1);
	paired_open_task(&pair, &next, 3, "'wait'");
	paired_start(&next, 2);
	paired_await(&next, TFC__AGENT_STARTED, 0, 1);
	assert_false(proc_is_alive(pid));
	paired_await(&job, TFC__AGENT_FENCED, 0, 1);
	paired_open_task(&pair, &stale, 2, "'wait'");
	agent_hold(stale.ops, stale.handle, 0, 1);
	paired_await(&stale, TFC__AGENT_FENCED, 0, 1);
	assert_null(paired_find(&stale, TFC__AGENT_HELD, 0, 1));
	assert_true(proc_is_alive(paired_find(&next, TFC__AGENT_STARTED, 0, 1)->pid));
	paired_close(&job);
	paired_close(&stale);
	paired_close(&next);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

/* As when the node's clock stood still while the maintainer waited for the end of the lease. */
static void a_maintainer_that_opens_its_job_anew_is_not_fenced(void **state)
{
	struct agent_pair pair;
	static struct paired_job first, job, again;
	agent_pair_up(&pair, LEASE_MS);
	paired_open(&pair, &first, "fedcba9876543210", 2,
		    "{'argv': ['true'], 'roles': {'worker': {'count': 1}}}");
	paired_close(&first); /* the number of its handle is free then */
	agent_pair_await_no_jobs(&pair);
	paired_open_task(&pair, &job, 2, "'deaf', 'wait'");
	paired_start(&job, 2);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 1, 1)->pid;
	agent_pair_forget_jobs(&pair, LEASE_MS);
	tfc_job_free(job.job);
	agent_pair_connect(&pair);
	paired_open_task(&pair, &again, 2, "'wait'");
	paired_start(&again, 2);
	paired_await(&again, TFC__AGENT_STARTED, 0, 1);
	assert_false(proc_is_alive(pid));
	assert_int_equal(paired_count(&again, TFC__AGENT_FENCED, 0), 0);
	paired_close(&again);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

/* A maintainer that asks what is alive does not wait for ever. */
static void of_a_job_that_could_not_be_opened_nothing_is_alive(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, LEASE_MS);
	paired_open(
		&pair, &job, "0123456789abcdef", 2,
		"{'argv': ['true'], 'roles': {'worker': {'count': 2, 'user': 'no-such-user'}}}");
	agent_query(job.ops, job.handle, 7);
	const struct received_event *answer = paired_await(&job, TFC__AGENT_STATES, 0, 1);
	assert_int_equal(answer->number, 7);
	assert_int_equal(answer->states[0], TFC__PROC_NONE);
	assert_int_equal(answer->states[1], TFC__PROC_NONE);
	agent_hold(job.ops, job.handle, 0, 1);
	paired_await(&job, TFC__AGENT_HOLD_FAILED, 0, 1);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

/* ---- the spec and the variables of a launch */

static void launch(struct paired_job *job, uint32_t attempt, uint32_t generation)
{
	job->ops->order(job->handle, &(struct tfc__task_order){.kind = TFC__ORDER_LAUNCH,
							       .attempt = attempt,
							       .generation = generation});
}

static void send_spec(struct paired_job *job, uint32_t generation, tfc_spec *spec)
{
	job->ops->order(job->handle, &(struct tfc__task_order){.kind = TFC__ORDER_SPEC,
							       .generation = generation,
							       .spec = spec});
}

static void send_env(struct paired_job *job, const char *line)
{
	const char *const env[] = {line, NULL};
	job->ops->order(job->handle, &(struct tfc__task_order){.kind = TFC__ORDER_ENV, .env = env});
}

static void expect_refused(struct paired_job *job, uint32_t attempt, const char *text)
{
	const struct received_event *refused = paired_await(job, TFC__AGENT_REFUSED, 0, attempt);
	assert_int_equal(refused->attempt, attempt);
	assert_string_equal(refused->text, text);
}

static void a_launch_is_refused_until_its_spec_and_variables_can_be_read(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	tfc_spec *spec;
	agent_pair_up(&pair, LEASE_MS);
	paired_open_task(&pair, &job, 1, "'exit', '3'");
	agent_hold(job.ops, job.handle, 0, 1);
	assert_int_equal(tfc_spec_new(&spec), 0);
	const char *address = paired_await(&job, TFC__AGENT_HELD, 0, 1)->address;
	assert_int_equal(tfc_spec_add(spec, "worker", 0, address, NULL), 0);
	launch(&job, 1, 0);
	expect_refused(&job, 1, "the node has no cluster spec of generation 0");
	launch(&job, 2, 1);
	expect_refused(&job, 2, "the node has no cluster spec of generation 1");
	send_spec(&job, 1, NULL);
	launch(&job, 3, 1);
	expect_refused(&job, 3, "an order cannot be read: spec: is missing");
	send_spec(&job, 1, spec);
	send_env(&job, "A");
	launch(&job, 4, 1);
	expect_refused(&job, 4, "an order cannot be read: env: must have a '=' in each line");
	send_spec(&job, 1, spec);
	send_env(&job, "A=1");
	launch(&job, 5, 1);
	const struct received_event *end = paired_await(&job, TFC__AGENT_EXITED, 0, 1);
	assert_int_equal(end->attempt, 5);
	assert_int_equal(end->status, 3);
	tfc_spec_free(spec);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

static void a_job_that_could_not_be_opened_keeps_its_reason(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, LEASE_MS);
	paired_open(
		&pair, &job, "0123456789abcdef", 2,
		"{'argv': ['true'], 'roles': {'worker': {'count': 2, 'user': 'no-such-user'}}}");
	launch(&job, 1, 1);
	const char *why = paired_await(&job, TFC__AGENT_REFUSED, 0, 1)->text;
	assert_non_null(strstr(why, "no-such-user"));
	send_env(&job, "A");
	launch(&job, 2, 1);
	expect_refused(&job, 2, why);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

#define HUGE (17 << 20) /* more than one message has */

/* It would be too large over each connection. */
static void a_job_is_given_up_when_an_order_is_too_large(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	char *line = malloc(HUGE);
	agent_pair_up(&pair, LEASE_MS);
	paired_open_task(&pair, &job, 1, "'deaf', 'wait'");
	paired_start(&job, 1);
	pid_t pid = paired_await(&job, TFC__AGENT_STARTED, 0, 1)->pid;
	assert_non_null(line);
	memset(line, '=', HUGE - 1);
	line[HUGE - 1] = '\0';
	send_env(&job, line);
	free(line);
	assert_string_equal(paired_await(&job, TFC__AGENT_LOST, 0, 1)->text,
			    "gave up the job's tasks on node there: an order is too large");
	assert_false(proc_is_alive(pid));
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

/* ---- logs */

#define FLOOD 3000000

static void a_log_is_read_over_connections_that_break(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	struct reading reading, whole;
	agent_pair_up(&pair, LEASE_MS);
	paired_open_task(&pair, &job, 1, "'flood', '3000000', 'wait'");
	paired_start(&job, 1);
	begin_reading(&reading, &job, 0);
	for (size_t len = 200000; len < FLOOD; len += 300000) {
		await_text(&pair, &reading, len);
		agent_pair_cut(&pair);
		while (read_on(&reading, SIZE_MAX))
			agent_pair_run_for(&pair, 1);
		uint32_t wakes = reading.wakes;
		agent_pair_connect(&pair);
		while (reading.wakes == wakes)
			assert_true(tfc_ctx_run(pair.ctx, 100) >= 0);
	}
	await_text(&pair, &reading, FLOOD);
	assert_int_equal(reading.text.len, FLOOD);
	assert_true(reading.refused > 0);
	begin_reading(&whole, &job, 0);
	await_text(&pair, &whole, FLOOD);
	assert_memory_equal(whole.text.data, reading.text.data, FLOOD);
	end_reading(&whole);
	end_reading(&reading);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

/* What a reader does not take stays on the other node. */
static void a_slow_reader_is_sent_no_more_than_its_credit(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	struct reading reading;
	agent_pair_up(&pair, LEASE_MS);
	paired_open_task(&pair, &job, 1, "'flood', '3000000', 'exit', '0'");
	paired_start(&job, 1);
	paired_await(&job, TFC__AGENT_EXITED, 0, 1);
	begin_reading(&reading, &job, 0);
	agent_pair_run_for(&pair, 100);
	uint32_t sent = pair.rpc.ends[1].sent;
	agent_pair_run_for(&pair, 100);
	assert_int_equal(pair.rpc.ends[1].sent, sent);
	assert_in_range(reading.wakes, 1, 4);
	await_text(&pair, &reading, FLOOD);
	assert_int_equal(reading.next, paired_find(&job, TFC__AGENT_EXITED, 0, 1)->log_end);
	end_reading(&reading);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

/* Also of a job that has no handle any more, and after the node has restarted, until it was sent.
 */
static void a_log_stays_until_it_is_forgotten(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	struct reading reading = {0};
	tfc_error error = TFC_ERROR_INIT;
	agent_pair_up(&pair, LEASE_MS);
	paired_open_task(&pair, &job, 1, "'print', 'hello', 'exit', '0'");
	paired_start(&job, 2);
	paired_await(&job, TFC__AGENT_EXITED, 0, 1);
	job.ops->job_close(job.handle);
	agent_pair_await_no_jobs(&pair);
	agent_pair_reboot(&pair);
	reading.source = job.ops->kept_log(pair.remote, "0123456789abcdef", job.job, 0, 0, &error);
	assert_non_null(reading.source);
	assert_false(read_on(&reading, SIZE_MAX)); /* not connected */
	agent_pair_connect(&pair);
	await_text(&pair, &reading, strlen("hello"));
	job.ops->forget(pair.remote, "0123456789abcdef");
	char *dir = tfc__path_join(pair.log_dir, "0123456789abcdef");
	for (uint64_t end = tfc__now() + 20 * TFC__SECOND; access(dir, F_OK) == 0;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(pair.ctx, 10) >= 0);
	}
	free(dir);
	end_reading(&reading);
	tfc_job_free(job.job);
	agent_pair_run_for(&pair, 50);
	agent_pair_end(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_run_on_another_node),
		cmocka_unit_test(a_connection_that_is_cut_anywhere_doubles_and_loses_nothing),
		cmocka_unit_test(silence_is_reported_and_so_is_its_end),
		cmocka_unit_test(a_higher_epoch_ends_the_lower_one_first),
		cmocka_unit_test(a_maintainer_that_opens_its_job_anew_is_not_fenced),
		cmocka_unit_test(of_a_job_that_could_not_be_opened_nothing_is_alive),
		cmocka_unit_test(a_launch_is_refused_until_its_spec_and_variables_can_be_read),
		cmocka_unit_test(a_job_that_could_not_be_opened_keeps_its_reason),
		cmocka_unit_test(a_job_is_given_up_when_an_order_is_too_large),
		cmocka_unit_test(a_log_is_read_over_connections_that_break),
		cmocka_unit_test(a_slow_reader_is_sent_no_more_than_its_credit),
		cmocka_unit_test(a_log_stays_until_it_is_forgotten),
	};
	return cmocka_run_group_tests_name("node_agent_remote", tests, NULL, NULL);
}
