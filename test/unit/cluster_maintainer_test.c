/* cluster: a maintainer at work over agents that a test plays: what is ordered where, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cluster/maintainer_state.h"
#include "played_agent.h"

#define NODES 3

struct world {
	tfc_ctx *ctx;
	tfc_membership *membership;
	struct tfc__members *members;
	struct tfc__nodes *nodes;
	struct played_agent agents[NODES];
	struct tfc__buf orders;
	tfc_job *job;
	struct tfc__agent_job_info info;
	struct tfc__journal journal;
	struct tfc__journal_writer writer; /* keeps entries back until the test shows them */
	struct tfc__maintainer *maintainer;
	enum tfc__maintainer_end end;
	uint8_t states[8];
};

static struct played_agent *agent_named(struct world *w, const char *name)
{
	for (uint32_t i = 0; i < NODES; i++)
		if (strcmp(w->agents[i].name, name) == 0)
			return &w->agents[i];
	fail_msg("no node %s", name);
	return NULL;
}

static struct tfc__agent_handle agent_of(void *user, const char *node)
{
	return (struct tfc__agent_handle){&played_agent_ops, agent_named(user, node)};
}

/* ---- the test's hand */

static void turn(struct world *w)
{
	int code = 1;
	while (code > 0)
		code = tfc_ctx_dispatch(w->ctx, 0);
	assert_int_equal(code, 0);
}

static void expect(struct world *w, const char *orders)
{
	turn(w);
	tfc__buf_add(&w->orders, "", 0);
	assert_string_equal(w->orders.len ? w->orders.data : "", orders);
	w->orders.len = 0;
	if (w->orders.data)
		w->orders.data[0] = '\0';
}

static void report(struct world *w, const char *node, struct tfc__task_event event)
{
	struct played_agent *agent = agent_named(w, node);
	agent->fn(agent->user, &event);
	turn(w);
}

static void held(struct world *w, const char *node, uint32_t task, const char *address)
{
	report(w, node,
	       (struct tfc__task_event){.kind = TFC__AGENT_HELD,
					.task = task,
					.number = agent_named(w, node)->holds[task],
					.address = address});
}

static void started(struct world *w, const char *node, uint32_t task, uint32_t attempt)
{
	report(w, node,
	       (struct tfc__task_event){.kind = TFC__AGENT_STARTED,
					.task = task,
					.attempt = attempt,
					.process = TFC_PROCESS_STARTED,
					.pid = 1});
}

static void exited(struct world *w, const char *node, uint32_t task, uint32_t attempt, int code)
{
	report(w, node,
	       (struct tfc__task_event){.kind = TFC__AGENT_EXITED,
					.task = task,
					.attempt = attempt,
					.process = TFC_PROCESS_EXITED,
					.end = {.reason = TFC_EXIT_CODE, .status = code}});
}

static void show(struct world *w)
{
	tfc__journal_show(&w->journal, w->journal.added);
	turn(w);
}

static void on_entry(struct tfc__journal_writer *writer)
{
}

static void on_end(void *user, enum tfc__maintainer_end end)
{
	((struct world *)user)->end = end;
}

static bool has_b_at_first; /* and no message of it has come yet */

static int begin_notifying(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	const tfc_member_info b = {.size = sizeof(b),
				   .name = "b",
				   .slots = 4,
				   .address = "tcp://127.0.0.1:1"};
	((struct world *)user)->membership = membership;
	return has_b_at_first ? tfc_membership_put(membership, &b) : TFC_OK;
}

static void stop_notifying(void *user, tfc_membership *membership)
{
}

static void add_member(struct world *w, const char *name, uint32_t slots)
{
	tfc_member_info info = {.size = sizeof(info), .name = name, .slots = slots};
	info.address = "tcp://127.0.0.1:1";
	info.state = TFC_MEMBER_ALIVE;
	assert_int_equal(tfc_membership_put(w->membership, &info), TFC_OK);
	assert_int_equal(tfc_membership_set_state(w->membership, name, TFC_MEMBER_ALIVE), TFC_OK);
	turn(w);
}

static void open_world(struct world *w, const char *job)
{
	static const char *const names[NODES] = {"a", "b", "c"};
	static tfc_membership_ops membership = {
		.size = sizeof(membership),
		.flags = TFC_MEMBERSHIP_REPORTS_STATES,
		.start = begin_notifying,
		.stop = stop_notifying,
	};
	const tfc_member_info self = {.size = sizeof(self), .name = "a", .slots = 1};
	const struct tfc__members_options options = {.self = &self, .ops = &membership, .user = w};
	tfc_error error = TFC_ERROR_INIT;
	*w = (struct world){.info = {.id = "0123456789abcdef", .epoch = 7}};
	for (uint32_t i = 0; i < NODES; i++)
		w->agents[i] = (struct played_agent){.name = names[i], .orders = &w->orders};
	assert_int_equal(tfc_ctx_new(NULL, &error, &w->ctx), TFC_OK);
	assert_int_equal(tfc__members_open(w->ctx, &options, &error, &w->members), TFC_OK);
	assert_int_equal(tfc__nodes_open(w->ctx, w->members, agent_of, w, &error, &w->nodes),
			 TFC_OK);
	assert_int_equal(tfc_job_parse(job, strlen(job), NULL, &error, &w->job), TFC_OK);
	assert_int_equal(tfc__journal_init(&w->journal), TFC_OK);
	w->info.job = w->job;
}

static void begin(struct world *w)
{
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__maintainer_open(w->ctx, w->nodes, &w->info, NULL, &w->journal, on_end,
					      w, &error, &w->maintainer),
			 TFC_OK);
}

static void close_world(struct world *w)
{
	tfc__maintainer_close(w->maintainer);
	for (uint32_t i = 0; i < NODES; i++)
		assert_false(w->agents[i].is_open);
	tfc__nodes_close(w->nodes);
	tfc__members_close(w->members);
	tfc__journal_fini(&w->journal);
	tfc_job_free(w->job);
	tfc__buf_fini(&w->orders);
	tfc_ctx_free(w->ctx);
}

#define PLAIN                                                                   \
	"{\"framework\":\"none\",\"argv\":[\"x\"],\"success\":\"all_workers\"," \
	"\"restart\":{\"scope\":\"group\",\"backoff_s\":[0,0]},"                \
	"\"roles\":{\"worker\":{\"count\":2,\"ready\":\"started\"}}}"

static const struct tfc__journal_entry *last_entry(const struct world *w)
{
	assert_true(w->journal.count > 0);
	return &w->journal.entries[w->journal.count - 1];
}

/* Both run, at a and b. */
static void run_on_a_and_b(struct world *w)
{
	open_world(w, PLAIN);
	add_member(w, "b", 1);
	begin(w);
	turn(w);
	w->orders.len = 0;
	uint32_t at_a = strcmp(tfc__maintainer_node(w->maintainer, 0), "a") == 0 ? 0 : 1;
	held(w, "a", at_a, "a:1");
	held(w, "b", 1 - at_a, "b:1");
	turn(w);
	w->orders.len = 0;
	started(w, "a", at_a, 1);
	started(w, "b", 1 - at_a, 1);
	assert_int_equal(w->journal.job_state, TFC_JOB_RUNNING);
}

/* ---- tests */

static void job_waits_for_room_and_takes_it_when_a_member_comes(void **state)
{
	struct world w;
	open_world(&w, PLAIN);
	begin(&w);
	expect(&w, "");
	assert_int_equal(last_entry(&w)->job_state, TFC_JOB_PENDING);
	assert_true(strlen(last_entry(&w)->text) > 0);
	uint32_t reported = w.journal.count;
	add_member(&w, "b", 1);
	turn(&w);
	assert_int_equal(w.journal.count, reported);
	const char *first = tfc__maintainer_node(w.maintainer, 0);
	const char *second = tfc__maintainer_node(w.maintainer, 1);
	assert_string_not_equal(first, second);
	assert_int_equal(agent_named(&w, "b")->epoch, 7);
	close_world(&w);
}

static void attempts_are_ordered_when_their_entries_are_kept(void **state)
{
	struct world w;
	open_world(&w, PLAIN);
	add_member(&w, "b", 1);
	w.writer.fn = on_entry;
	w.journal.writer = &w.writer;
	begin(&w);
	turn(&w);
	w.orders.len = 0;
	uint32_t at_a = strcmp(tfc__maintainer_node(w.maintainer, 0), "a") == 0 ? 0 : 1;
	held(&w, "a", at_a, "a:1");
	held(&w, "b", 1 - at_a, "b:1");
	expect(&w, "");
	show(&w);
	expect(&w, at_a == 0 ? "a: spec g1 a:1 b:1\n"
			       "a: launch 0 #1 g1\n"
			       "b: spec g1 a:1 b:1\n"
			       "b: launch 1 #1 g1\n"
			     : "b: spec g1 b:1 a:1\n"
			       "b: launch 0 #1 g1\n"
			       "a: spec g1 b:1 a:1\n"
			       "a: launch 1 #1 g1\n");
	close_world(&w);
}

static void attempt_that_is_stopped_before_it_is_kept_is_never_ordered(void **state)
{
	struct world w;
	open_world(&w, PLAIN);
	add_member(&w, "b", 1);
	w.writer.fn = on_entry;
	w.journal.writer = &w.writer;
	begin(&w);
	turn(&w);
	uint32_t at_a = strcmp(tfc__maintainer_node(w.maintainer, 0), "a") == 0 ? 0 : 1;
	held(&w, "a", at_a, "a:1");
	held(&w, "b", 1 - at_a, "b:1");
	w.orders.len = 0;
	tfc__maintainer_stop(w.maintainer, 0, false);
	turn(&w);
	show(&w);
	expect(&w, at_a == 0 ? "a: release 0\nb: release 1\na: end\nb: end\n"
			     : "b: release 0\na: release 1\nb: end\na: end\n");
	assert_int_equal(w.end, TFC__MAINTAINER_ENDED);
	assert_int_equal(w.journal.job_state, TFC_JOB_STOPPED);
	close_world(&w);
}

static void lost_node_is_left_for_another_one(void **state)
{
	struct world w;
	run_on_a_and_b(&w);
	uint32_t at_b = strcmp(tfc__maintainer_node(w.maintainer, 0), "b") == 0 ? 0 : 1;
	add_member(&w, "c", 1);
	tfc_membership_set_state(w.membership, "b", TFC_MEMBER_DOWN);
	turn(&w);
	expect(&w, ""); /* membership only suggests */
	report(&w, "b", (struct tfc__task_event){.kind = TFC__AGENT_LOST, .text = "it is down"});
	expect(&w, at_b ? "a: stop 0\n" : "a: stop 1\n");
	exited(&w, "a", 1 - at_b, 1, 1);
	expect(&w, at_b ? "c: hold 1\n" : "c: hold 0\n");
	held(&w, "c", at_b, "c:1");
	expect(&w, at_b ? "a: spec g2 a:1 c:1\n"
			  "a: launch 0 #2 g2\n"
			  "c: spec g2 a:1 c:1\n"
			  "c: launch 1 #2 g2\n"
			: "c: spec g2 c:1 a:1\n"
			  "c: launch 0 #2 g2\n"
			  "a: spec g2 c:1 a:1\n"
			  "a: launch 1 #2 g2\n");
	assert_string_equal(tfc__maintainer_node(w.maintainer, at_b), "c");
	close_world(&w);
}

static void report_zygote(struct world *w, const char *node, uint32_t number, uint32_t state)
{
	static const char *const modules[] = {"tensorflow", "sklearn", NULL};
	const tfc_zygote zygote = {.state = state,
				   .node = "",
				   .interpreter = "python3",
				   .modules = modules,
				   .text = state == TFC_ZYGOTE_FAILED ? "no such module" : ""};
	report(w, node,
	       (struct tfc__task_event){.kind = TFC__AGENT_ZYGOTE,
					.number = number,
					.zygote = state ? &zygote : NULL});
}

/* "a ready, b failed: no such module", in the order of the reports */
static void expect_zygotes(struct world *w, const char *expected)
{
	tfc_zygote zygotes[64];
	char text[1024] = "";
	uint32_t count = tfc__maintainer_zygote_count(w->maintainer);
	assert_in_range(count, 0, 64);
	tfc__maintainer_zygotes(w->maintainer, zygotes);
	for (uint32_t i = 0; i < count; i++) {
		size_t len = strlen(text);
		assert_string_equal(zygotes[i].interpreter, "python3");
		assert_string_equal(zygotes[i].modules[1], "sklearn");
		assert_null(zygotes[i].modules[2]);
		snprintf(text + len, sizeof(text) - len, "%s%s %s%s%s", i ? ", " : "",
			 zygotes[i].node, tfc_zygote_state_name(zygotes[i].state),
			 *zygotes[i].text ? ": " : "", zygotes[i].text);
	}
	assert_string_equal(text, expected);
}

static void zygotes_are_known_as_they_were_last_reported(void **state)
{
	struct world w;
	run_on_a_and_b(&w);
	uint32_t entries = w.journal.count;
	expect_zygotes(&w, "");
	report_zygote(&w, "a", 1, TFC_ZYGOTE_IMPORTING);
	report_zygote(&w, "b", 1, TFC_ZYGOTE_IMPORTING);
	expect_zygotes(&w, "a importing, b importing");
	report_zygote(&w, "b", 1, TFC_ZYGOTE_FAILED);
	report_zygote(&w, "a", 1, TFC_ZYGOTE_READY);
	report_zygote(&w, "a", 2, TFC_ZYGOTE_IMPORTING);
	expect_zygotes(&w, "b failed: no such module, a ready, a importing");
	report_zygote(&w, "a", 1, 0);
	report_zygote(&w, "a", 7, 0); /* an unknown one */
	expect_zygotes(&w, "b failed: no such module, a importing");
	report(&w, "b", (struct tfc__task_event){.kind = TFC__AGENT_LOST, .text = "it is down"});
	report_zygote(&w, "b", 1, TFC_ZYGOTE_READY);
	expect_zygotes(&w, "a importing");
	assert_true(w.journal.count > entries); /* the loss; a zygote is in no journal */
	close_world(&w);
}

static void an_agent_that_reports_many_zygotes_fills_no_memory(void **state)
{
	struct world w;
	run_on_a_and_b(&w);
	uint32_t entries = w.journal.count;
	report_zygote(&w, "b", 1, TFC_ZYGOTE_READY);
	for (uint32_t i = 1; i < 1000; i++)
		report_zygote(&w, "a", i, i < 999 ? TFC_ZYGOTE_READY : TFC_ZYGOTE_FAILED);
	assert_int_equal(tfc__maintainer_zygote_count(w.maintainer), 17);
	for (uint32_t i = 1; i < 999; i++)
		report_zygote(&w, "a", i, 0);
	expect_zygotes(&w, "b ready, a failed: no such module");
	assert_int_equal(w.journal.count, entries);
	close_world(&w);
}

static void node_that_reports_to_be_full_gets_no_request_again_at_once(void **state)
{
	struct world w;
	open_world(&w, PLAIN);
	add_member(&w, "b", 1);
	begin(&w);
	turn(&w);
	uint32_t at_b = strcmp(tfc__maintainer_node(w.maintainer, 0), "b") == 0 ? 0 : 1;
	w.orders.len = 0;
	report(&w, "b",
	       (struct tfc__task_event){.kind = TFC__AGENT_HOLD_FAILED,
					.task = at_b,
					.number = agent_named(&w, "b")->holds[at_b],
					.is_full = true,
					.text = "node b is full"});
	/* There is no other room: all is given back. */
	expect(&w, at_b ? "b: release 1\na: release 0\n" : "b: release 0\na: release 1\n");
	assert_int_equal(last_entry(&w)->job_state, TFC_JOB_PENDING);
	add_member(&w, "c", 1);
	turn(&w);
	assert_string_not_equal(tfc__maintainer_node(w.maintainer, 0), "b");
	assert_string_not_equal(tfc__maintainer_node(w.maintainer, 1), "b");
	close_world(&w);
}

#define WITH_PORTS "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":2}}}"

static void say_it_has_no_port(struct world *w, const char *node, uint32_t task, bool is_lasting)
{
	char text[64];
	snprintf(text, sizeof(text), "%s has no port", node);
	report(w, node,
	       (struct tfc__task_event){.kind = TFC__AGENT_HOLD_FAILED,
					.task = task,
					.number = agent_named(w, node)->holds[task],
					.missing = 1,
					.is_lasting = is_lasting,
					.text = text});
}

static void task_without_a_port_goes_to_another_node(void **state)
{
	struct world w;
	open_world(&w, WITH_PORTS);
	add_member(&w, "b", 1);
	add_member(&w, "c", 1);
	begin(&w);
	turn(&w);
	const char *at = tfc__maintainer_node(w.maintainer, 0);
	const char *other = tfc__maintainer_node(w.maintainer, 1);
	say_it_has_no_port(&w, at, 0, true);
	const char *now = tfc__maintainer_node(w.maintainer, 0);
	assert_string_not_equal(now, at);
	assert_string_not_equal(now, other);
	assert_string_equal(tfc__maintainer_node(w.maintainer, 1), other);
	close_world(&w);
}

static void ports_that_another_job_has_are_waited_for(void **state)
{
	struct world w;
	open_world(&w, WITH_PORTS);
	add_member(&w, "b", 1);
	begin(&w);
	turn(&w);
	uint32_t at_b = strcmp(tfc__maintainer_node(w.maintainer, 0), "b") == 0 ? 0 : 1;
	w.orders.len = 0;
	say_it_has_no_port(&w, "b", at_b, false);
	expect(&w, at_b ? "b: release 1\na: release 0\n" : "b: release 0\na: release 1\n");
	assert_int_equal(last_entry(&w)->job_state, TFC_JOB_PENDING);
	assert_non_null(strstr(last_entry(&w)->text, "on node b: b has no port"));
	close_world(&w);
}

static void ports_that_no_node_will_have_fail_the_job(void **state)
{
	struct world w;
	open_world(&w, WITH_PORTS);
	add_member(&w, "b", 1);
	begin(&w);
	turn(&w);
	uint32_t at_b = strcmp(tfc__maintainer_node(w.maintainer, 0), "b") == 0 ? 0 : 1;
	say_it_has_no_port(&w, "b", at_b, true);
	assert_int_equal(w.end, TFC__MAINTAINER_ENDED);
	assert_int_equal(last_entry(&w)->job_state, TFC_JOB_FAILED);
	assert_non_null(strstr(last_entry(&w)->text, "on node b: b has no port"));
	close_world(&w);
}

static void ports_of_a_node_that_may_come_back_are_waited_for(void **state)
{
	struct world w;
	open_world(&w, WITH_PORTS);
	add_member(&w, "b", 1);
	begin(&w);
	turn(&w);
	add_member(&w, "c", 1);
	tfc_membership_set_state(w.membership, "c", TFC_MEMBER_DOWN);
	uint32_t at_b = strcmp(tfc__maintainer_node(w.maintainer, 0), "b") == 0 ? 0 : 1;
	say_it_has_no_port(&w, "b", at_b, true);
	assert_int_equal(last_entry(&w)->job_state, TFC_JOB_PENDING);
	tfc_membership_set_state(w.membership, "c", TFC_MEMBER_ALIVE);
	turn(&w);
	assert_string_not_equal(tfc__maintainer_node(w.maintainer, 0), "b");
	assert_string_not_equal(tfc__maintainer_node(w.maintainer, 1), "b");
	close_world(&w);
}

static uint32_t count_lost(const struct world *w)
{
	uint32_t count = 0;
	for (uint64_t i = 0; i < w->journal.count; i++)
		count += w->journal.entries[i].task_state == TFC_TASK_LOST;
	return count;
}

/* Its disk is full, say; what ran there is not lost before it has ended. */
static void node_that_opens_no_job_is_lost_after_its_previous_incarnation(void **state)
{
	struct world w;
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__resume_task tasks[2] = {{.attempt = 1, .was_running = true, .node = "a"},
						  {.attempt = 1, .was_running = true, .node = "a"}};
	const struct tfc__resume resume = {.generation = 1,
					   .job_state = TFC_JOB_RUNNING,
					   .task = UINT32_MAX,
					   .tasks = tasks};
	open_world(&w, PLAIN);
	add_member(&w, "b", 2);
	agent_named(&w, "a")->is_refusing = true;
	assert_int_equal(tfc__maintainer_open(w.ctx, w.nodes, &w.info, &resume, &w.journal, on_end,
					      &w, &error, &w.maintainer),
			 TFC_OK);
	expect(&w, "");
	assert_non_null(agent_named(&w, "a")->parked);
	assert_int_equal(count_lost(&w), 0);
	tfc__work_schedule(agent_named(&w, "a")->parked);
	turn(&w);
	assert_int_equal(count_lost(&w), 2);
	close_world(&w);
}

/* With gossip a node that has just started knows no other one. */
static void nothing_is_lost_on_a_node_that_is_no_member_yet_before_its_agent_says_so(void **state)
{
	struct world w;
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__resume_task tasks[2] = {{.attempt = 1, .was_running = true, .node = "b"},
						  {.attempt = 1, .was_running = true, .node = "b"}};
	const struct tfc__resume resume = {.generation = 1,
					   .job_state = TFC_JOB_RUNNING,
					   .task = UINT32_MAX,
					   .tasks = tasks};
	open_world(&w, PLAIN);
	assert_int_equal(tfc__maintainer_open(w.ctx, w.nodes, &w.info, &resume, &w.journal, on_end,
					      &w, &error, &w.maintainer),
			 TFC_OK);
	expect(&w, "b: query 1\n");
	add_member(&w, "c", 2);
	expect(&w, "");
	assert_int_equal(count_lost(&w), 0);
	report(&w, "b", (struct tfc__task_event){.kind = TFC__AGENT_LOST, .text = "silent"});
	assert_int_equal(count_lost(&w), 2);
	expect(&w, "c: hold 0\na: hold 1\n");
	close_world(&w);
}

/* A spec without it may be refused: parameter servers need a worker. */
static void task_that_was_done_before_keeps_its_address(void **state)
{
	struct world w;
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__resume_task tasks[2] = {
		{.attempt = 1, .is_done = true, .node = "a", .address = "a:1"}, {.attempt = 1}};
	const struct tfc__resume resume = {.generation = 1,
					   .job_state = TFC_JOB_RUNNING,
					   .task = UINT32_MAX,
					   .tasks = tasks};
	open_world(
		&w,
		"{\"framework\":\"none\",\"argv\":[\"x\"],\"success\":\"all_workers\",\"restart\":{"
		"\"scope\":\"task\"},\"roles\":{\"worker\":{\"count\":2,\"ready\":\"started\"}}}");
	add_member(&w, "b", 1);
	assert_int_equal(tfc__maintainer_open(w.ctx, w.nodes, &w.info, &resume, &w.journal, on_end,
					      &w, &error, &w.maintainer),
			 TFC_OK);
	turn(&w);
	expect(&w, "b: hold 1\n");
	held(&w, "b", 1, "b:1");
	expect(&w, "b: spec g2 a:1 b:1\nb: launch 1 #2 g2\n");
	close_world(&w);
}

#define WITH_EVALUATOR                                                          \
	"{\"framework\":\"none\",\"argv\":[\"x\"],\"success\":\"all_workers\"," \
	"\"restart\":{\"scope\":\"group\",\"backoff_s\":[0,0]},"                \
	"\"roles\":{\"worker\":{\"count\":2,\"ready\":\"started\"},"            \
	"\"evaluator\":{\"count\":1,\"ready\":\"started\"}}}"

/* As `expect`; 0, 1 and 2 after a '%' stand for the nodes of the three tasks. */
static void expect_at(struct world *w, const char *const *nodes, const char *orders)
{
	struct tfc__buf text = {0};
	for (; *orders; orders++)
		if (*orders == '%')
			tfc__buf_addf(&text, "%s", nodes[*++orders - '0']);
		else
			tfc__buf_add_char(&text, *orders);
	tfc__buf_add(&text, "", 1);
	expect(w, text.data);
	tfc__buf_fini(&text);
}

static void held_at(struct world *w, const char *node, uint32_t task, uint32_t port)
{
	char address[32];
	snprintf(address, sizeof(address), "%s:%u", node, port);
	held(w, node, task, address);
}

/* Three nodes run a task each. */
static void run_with_evaluator(struct world *w, const char *nodes[3])
{
	open_world(w, WITH_EVALUATOR);
	add_member(w, "b", 1);
	add_member(w, "c", 1);
	begin(w);
	turn(w);
	w->orders.len = 0;
	for (uint32_t i = 0; i < 3; i++) {
		nodes[i] = agent_named(w, tfc__maintainer_node(w->maintainer, i))->name;
		held_at(w, nodes[i], i, 1);
	}
	expect_at(w, nodes,
		  "%0: spec g1 %0:1 %1:1 %2:1\n%0: launch 0 #1 g1\n"
		  "%1: spec g1 %0:1 %1:1 %2:1\n%1: launch 1 #1 g1\n"
		  "%2: spec g1 %0:1 %1:1 %2:1\n%2: launch 2 #1 g1\n");
	for (uint32_t i = 0; i < 3; i++)
		started(w, nodes[i], i, 1);
	assert_int_equal(w->journal.job_state, TFC_JOB_RUNNING);
}

/* The evaluator's spec is of the same generation, but older. */
static void gang_that_waited_for_room_starts_with_its_new_addresses(void **state)
{
	struct world w;
	const char *nodes[3];
	run_with_evaluator(&w, nodes);
	tfc_membership_set_state(w.membership, nodes[1], TFC_MEMBER_DOWN);
	report(&w, nodes[1], (struct tfc__task_event){.kind = TFC__AGENT_LOST, .text = "down"});
	expect_at(&w, nodes, "%0: stop 0\n");
	exited(&w, nodes[0], 0, 1, 1);
	expect_at(&w, nodes, "%0: release 0\n");
	exited(&w, nodes[2], 2, 1, 1);
	expect_at(&w, nodes, "%2: spec g2 %0:1 %1:1 %2:1\n%2: launch 2 #2 g2\n");
	tfc_membership_set_state(w.membership, nodes[1], TFC_MEMBER_ALIVE);
	turn(&w);
	for (uint32_t i = 0; i < 2; i++)
		nodes[i] = agent_named(&w, tfc__maintainer_node(w.maintainer, i))->name;
	expect_at(&w, nodes, "%0: hold 0\n%1: hold 1\n");
	held_at(&w, nodes[0], 0, 2);
	held_at(&w, nodes[1], 1, 2);
	expect_at(&w, nodes,
		  "%0: spec g2 %0:2 %1:2 %2:1\n%0: launch 0 #2 g2\n"
		  "%1: spec g2 %0:2 %1:2 %2:1\n%1: launch 1 #2 g2\n");
	started(&w, nodes[2], 2, 2);
	exited(&w, nodes[2], 2, 2, 1);
	expect_at(&w, nodes, "%2: spec g2 %0:2 %1:2 %2:1\n%2: launch 2 #3 g2\n");
	close_world(&w);
}

/* Its port was occupied. The others keep the spec that they were started with. */
static void task_that_gets_another_port_is_notified(void **state)
{
	struct world w;
	const char *nodes[3];
	run_with_evaluator(&w, nodes);
	report(&w, nodes[2],
	       (struct tfc__task_event){
		       .kind = TFC__AGENT_EXITED,
		       .task = 2,
		       .attempt = 1,
		       .process = TFC_PROCESS_EXITED,
		       .end = {.reason = TFC_EXIT_CODE, .status = 1, .is_port_occupied = true}});
	expect_at(&w, nodes, "%2: release 2\n%2: hold 2\n");
	held_at(&w, nodes[2], 2, 2);
	expect_at(&w, nodes, "%2: spec g1 %0:1 %1:1 %2:2\n%2: launch 2 #2 g1\n");
	close_world(&w);
}

#define WITH_HELPERS                                                               \
	"{\"framework\":\"none\",\"argv\":[\"x\"],\"success\":\"all_workers\","    \
	"\"restart\":{\"scope\":\"task\",\"on\":\"failure\",\"backoff_s\":[0,0]}," \
	"\"roles\":{\"worker\":{\"count\":2,\"ready\":\"started\"},"               \
	"\"helper\":{\"count\":2,\"ready\":\"started\"}}}"

static uint32_t first_at_b(const struct world *w, uint32_t task)
{
	return strcmp(tfc__maintainer_node(w->maintainer, task), "b") == 0 ? task : task + 1;
}

/* Of four tasks three are at b. What it refused may have been the spec. */
static void node_that_refused_a_launch_gets_the_spec_again(void **state)
{
	struct world w;
	open_world(&w, WITH_HELPERS);
	add_member(&w, "b", 3);
	begin(&w);
	turn(&w);
	for (uint32_t i = 0; i < 4; i++)
		held_at(&w, tfc__maintainer_node(w.maintainer, i), i, i + 1);
	turn(&w);
	uint32_t helper = first_at_b(&w, 2), worker = first_at_b(&w, 0);
	for (uint32_t i = 0; i < 4; i++)
		if (i != helper)
			started(&w, tfc__maintainer_node(w.maintainer, i), i, 1);
	report(&w, "b",
	       (struct tfc__task_event){
		       .kind = TFC__AGENT_REFUSED, .task = helper, .attempt = 1, .text = "no"});
	w.orders.len = 0;
	exited(&w, "b", worker, 1, 1);
	turn(&w);
	assert_int_equal(strncmp(w.orders.data, "b: spec g1 ", 11), 0);
	w.orders.len = 0;
	started(&w, "b", worker, 2);
	exited(&w, "b", worker, 2, 1);
	expect(&w, worker ? "b: launch 1 #3 g1\n" : "b: launch 0 #3 g1\n");
	close_world(&w);
}

/* Of two nodes that fail in one turn, each for a reason of its own, that of worker/0 is named. */
static void failure_is_reported_with_its_own_reason(void **state)
{
	struct world w;
	char expected[64];
	for (int is_refusing = 0; is_refusing <= 1; is_refusing++) {
		open_world(&w, PLAIN);
		add_member(&w, "b", 1);
		agent_named(&w, "a")->is_refusing = agent_named(&w, "b")->is_refusing = is_refusing;
		begin(&w);
		turn(&w);
		if (!is_refusing)
			snprintf(expected, sizeof(expected), "worker/0 got no port: the disk of %s",
				 tfc__maintainer_node(w.maintainer, 0));
		else
			assert_non_null(strstr(last_entry(&w)->text, expected));
		close_world(&w);
	}
}

/* ---- the head start of PyTorch's rank 0 */

#define RANKS                                                                      \
	"{\"framework\":\"pytorch\",\"argv\":[\"x\"],\"success\":\"all_workers\"," \
	"\"roles\":{\"helper\":{\"sidecar\":true,\"ready\":\"started\"},"          \
	"\"worker\":{\"count\":1},\"chief\":{}}}"

enum { HELPER, WORKER, CHIEF };

/* All ports are held: the chief, which is rank 0, and the sidecar are launched; the worker is not.
 */
static void launch_first_rank(struct world *w, const char *nodes[3])
{
	open_world(w, RANKS);
	add_member(w, "b", 1);
	add_member(w, "c", 1);
	begin(w);
	turn(w);
	for (uint32_t i = 0; i < 3; i++) {
		nodes[i] = agent_named(w, tfc__maintainer_node(w->maintainer, i))->name;
		if (i == CHIEF)
			w->orders.len = 0;
		held_at(w, nodes[i], i, 1);
	}
	expect_at(w, nodes,
		  "%0: spec g1 %2:1 %1:1\n%0: launch 0 #1 g1\n"
		  "%2: spec g1 %2:1 %1:1\n%2: launch 2 #1 g1\n");
}

static void other_ranks_are_launched_when_the_first_listens(void **state)
{
	struct world w;
	const char *nodes[3];
	launch_first_rank(&w, nodes);
	started(&w, nodes[CHIEF], CHIEF, 1);
	expect(&w, "");
	report(&w, nodes[CHIEF],
	       (struct tfc__task_event){.kind = TFC__AGENT_READY, .task = CHIEF, .attempt = 1});
	expect_at(&w, nodes, "%1: spec g1 %2:1 %1:1\n%1: launch 1 #1 g1\n");
	close_world(&w);
}

static void other_ranks_wait_half_a_second_at_most(void **state)
{
	struct world w;
	const char *nodes[3];
	launch_first_rank(&w, nodes);
	assert_in_range(w.maintainer->head_start.at, 1, tfc__now() + 500 * TFC__MS);
	while (w.orders.len == 0)
		assert_true(tfc_ctx_run(w.ctx, 10000) >= 0);
	expect_at(&w, nodes, "%1: spec g1 %2:1 %1:1\n%1: launch 1 #1 g1\n");
	close_world(&w);
}

static void other_ranks_do_not_wait_for_a_dead_one(void **state)
{
	struct world w;
	const char *nodes[3];
	launch_first_rank(&w, nodes);
	started(&w, nodes[CHIEF], CHIEF, 1);
	exited(&w, nodes[CHIEF], CHIEF, 1, 0);
	assert_non_null(strstr(w.orders.data, ": launch 1 #1 g1\n"));
	close_world(&w);
}

static void rank_that_is_stopped_while_it_waits_is_never_launched(void **state)
{
	struct world w;
	const char *nodes[3];
	launch_first_rank(&w, nodes);
	tfc__maintainer_stop(w.maintainer, 0, false);
	expect_at(&w, nodes, "%0: stop 0\n%2: stop 2\n");
	exited(&w, nodes[HELPER], HELPER, 1, 143);
	exited(&w, nodes[CHIEF], CHIEF, 1, 143);
	assert_null(strstr(w.orders.data, "launch"));
	assert_int_equal(w.end, TFC__MAINTAINER_ENDED);
	assert_int_equal(w.journal.job_state, TFC_JOB_STOPPED);
	close_world(&w);
}

static void fenced_maintainer_lets_go_and_says_nothing(void **state)
{
	struct world w;
	run_on_a_and_b(&w);
	uint32_t reported = w.journal.count;
	report(&w, "b", (struct tfc__task_event){.kind = TFC__AGENT_FENCED, .text = "epoch 8"});
	assert_int_equal(w.end, TFC__MAINTAINER_FENCED);
	expect(&w, "");
	assert_int_equal(w.journal.count, reported);
	for (uint32_t i = 0; i < NODES; i++)
		assert_false(w.agents[i].is_open);
	for (uint32_t task = 0; task < 2; task++) /* as `describe` does */
		assert_int_equal(tfc__maintainer_unreachable_ns(w.maintainer, task), 0);
	close_world(&w);
}

/* Each entry of the journal is stored, and read by every subscriber. */
static void node_that_is_unreachable_again_and_again_fills_no_journal(void **state)
{
	struct world w;
	run_on_a_and_b(&w);
	uint32_t reported = w.journal.count;
	for (int i = 0; i < 10; i++) {
		report(&w, "b",
		       (struct tfc__task_event){.kind = TFC__AGENT_UNREACHABLE, .number = 9000});
		report(&w, "b", (struct tfc__task_event){.kind = TFC__AGENT_REACHABLE});
	}
	assert_int_equal(w.journal.count, reported + 2);
	assert_non_null(strstr(last_entry(&w)->text, "node b responds again"));
	close_world(&w);
}

static void nothing_is_placed_before_the_members_were_received_of(void **state)
{
	static const char job[] = "{\"framework\":\"none\",\"argv\":[\"x\"],"
				  "\"roles\":{\"worker\":{\"count\":1}}}";
	struct world w;
	has_b_at_first = true;
	open_world(&w, job);
	has_b_at_first = false;
	begin(&w);
	expect(&w, "");
	assert_int_equal(last_entry(&w)->job_state, TFC_JOB_PENDING);
	assert_non_null(strstr(last_entry(&w)->text, "node b"));
	tfc_membership_set_state(w.membership, "b", TFC_MEMBER_ALIVE);
	turn(&w);
	assert_true(w.orders.len > 0);
	close_world(&w);
}

/* Three seconds are awaited in earnest: nobody else can end them. */
static void member_that_is_not_received_of_is_done_without(void **state)
{
	static const char job[] = "{\"framework\":\"none\",\"argv\":[\"x\"],"
				  "\"roles\":{\"worker\":{\"count\":1}}}";
	struct world w;
	has_b_at_first = true;
	open_world(&w, job);
	has_b_at_first = false;
	begin(&w);
	expect(&w, "");
	while (w.orders.len == 0)
		assert_true(tfc_ctx_run(w.ctx, 10000) >= 0);
	expect(&w, "a: hold 0\n");
	close_world(&w);
}

static void logs_are_read_where_the_task_was(void **state)
{
	struct world w;
	tfc_error error = TFC_ERROR_INIT;
	run_on_a_and_b(&w);
	add_member(&w, "c", 1);
	assert_null(tfc__maintainer_log_open(w.maintainer, "b", 0, 0, &error));
	assert_null(tfc__maintainer_log_open(w.maintainer, "c", 1, 0, &error));
	expect(&w, "b: log 0\nc: log 1\n");
	assert_null(tfc__maintainer_log_open(w.maintainer, "gone", 0, 0, &error));
	assert_int_equal(error.code, TFC_ELOST);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_waits_for_room_and_takes_it_when_a_member_comes),
		cmocka_unit_test(attempts_are_ordered_when_their_entries_are_kept),
		cmocka_unit_test(attempt_that_is_stopped_before_it_is_kept_is_never_ordered),
		cmocka_unit_test(lost_node_is_left_for_another_one),
		cmocka_unit_test(zygotes_are_known_as_they_were_last_reported),
		cmocka_unit_test(an_agent_that_reports_many_zygotes_fills_no_memory),
		cmocka_unit_test(node_that_reports_to_be_full_gets_no_request_again_at_once),
		cmocka_unit_test(task_without_a_port_goes_to_another_node),
		cmocka_unit_test(ports_that_another_job_has_are_waited_for),
		cmocka_unit_test(ports_that_no_node_will_have_fail_the_job),
		cmocka_unit_test(ports_of_a_node_that_may_come_back_are_waited_for),
		cmocka_unit_test(node_that_opens_no_job_is_lost_after_its_previous_incarnation),
		cmocka_unit_test(
			nothing_is_lost_on_a_node_that_is_no_member_yet_before_its_agent_says_so),
		cmocka_unit_test(task_that_was_done_before_keeps_its_address),
		cmocka_unit_test(gang_that_waited_for_room_starts_with_its_new_addresses),
		cmocka_unit_test(task_that_gets_another_port_is_notified),
		cmocka_unit_test(node_that_refused_a_launch_gets_the_spec_again),
		cmocka_unit_test(failure_is_reported_with_its_own_reason),
		cmocka_unit_test(other_ranks_are_launched_when_the_first_listens),
		cmocka_unit_test(other_ranks_wait_half_a_second_at_most),
		cmocka_unit_test(other_ranks_do_not_wait_for_a_dead_one),
		cmocka_unit_test(rank_that_is_stopped_while_it_waits_is_never_launched),
		cmocka_unit_test(fenced_maintainer_lets_go_and_says_nothing),
		cmocka_unit_test(node_that_is_unreachable_again_and_again_fills_no_journal),
		cmocka_unit_test(nothing_is_placed_before_the_members_were_received_of),
		cmocka_unit_test(member_that_is_not_received_of_is_done_without),
		cmocka_unit_test(logs_are_read_where_the_task_was),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
