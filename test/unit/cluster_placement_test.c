/* cluster: which node each task goes to; random cases against a slow search of all ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/placement.h"

#define NODES 5
#define TASKS 40
#define NOWHERE UINT32_MAX

struct world {
	struct tfc__member members[NODES];
	char names[NODES][4];
	struct tfc__place_node nodes[NODES];
	struct tfc__place_ports ports[NODES];
	uint8_t barred[NODES][TASKS];
	uint32_t node_count;
	tfc_job *job;
	uint32_t tasks[TASKS], placed[TASKS], wanted[TASKS];
	uint32_t task_count;
	uint64_t seed;
	tfc_error error;
};

static struct world w;

static void begin(uint32_t node_count, const char *json)
{
	tfc_error error = TFC_ERROR_INIT;
	memset(&w, 0, sizeof(w));
	w.node_count = node_count;
	for (uint32_t i = 0; i < node_count; i++) {
		snprintf(w.names[i], sizeof(w.names[i]), "n%u", i);
		w.members[i] = (struct tfc__member){.name = w.names[i], .state = TFC_MEMBER_ALIVE};
		w.nodes[i].member = &w.members[i];
	}
	if (tfc_job_parse(json, strlen(json), "job.json", &error, &w.job) < 0)
		fail_msg("%s", error.text);
	for (uint32_t i = 0; i < w.job->role_count; i++)
		w.task_count += w.job->roles[i].count;
	assert_true(w.task_count <= TASKS);
	for (uint32_t i = 0; i < TASKS; i++) {
		w.tasks[i] = i;
		w.wanted[i] = NOWHERE;
	}
}

static void end(void)
{
	tfc_job_free(w.job);
	w.job = NULL;
}

static struct tfc__place_request request_of_world(void)
{
	return (struct tfc__place_request){
		.job = w.job,
		.tasks = w.tasks,
		.task_count = w.task_count,
		.wanted = w.wanted,
		.nodes = w.nodes,
		.node_count = w.node_count,
		.seed = w.seed,
	};
}

static int place(void)
{
	const struct tfc__place_request request = request_of_world();
	return tfc__place_tasks(&request, &w.error, w.placed);
}

/* It has said that the job can have so many ports of its pool. */
static void limit_ports(uint32_t node, uint32_t pool, const char *text)
{
	w.ports[node] =
		(struct tfc__place_ports){.pool = pool, .barred = w.barred[node], .text = text};
	w.nodes[node].ports = &w.ports[node];
}

static void place_well(void)
{
	if (place() < 0)
		fail_msg("%s", w.error.text);
}

static void refuse(const char *sentence)
{
	assert_int_equal(place(), TFC_EAGAIN);
	assert_string_equal(w.error.text, sentence);
}

static uint32_t count_on(uint32_t node)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < w.task_count; i++)
		count += w.placed[i] == node;
	return count;
}

#define WORKERS(n) "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":" #n "}}}"
#define PACKED(n)                                                                       \
	"{\"argv\":[\"x\"],\"placement\":{\"policy\":\"pack\"},\"roles\":{\"worker\":{" \
	"\"count\":" #n "}}}"

/* ---- policies */

static void spread_is_even(void **state)
{
	for (uint64_t seed = 0; seed < 7; seed++) {
		begin(3, WORKERS(8));
		w.seed = seed;
		place_well();
		for (uint32_t i = 0; i < 3; i++)
			assert_in_range(count_on(i), 2, 3);
		assert_int_equal(w.placed[0], seed % 3);
		end();
	}
}

static void spread_goes_where_little_is_done(void **state)
{
	begin(3, WORKERS(1));
	w.nodes[0].tasks = 4;
	w.nodes[1].tasks = 1;
	w.nodes[2].tasks = 3;
	place_well();
	assert_int_equal(w.placed[0], 1);
	assert_int_equal(w.nodes[1].tasks, 2);
	end();
}

static void pack_fills_one_node_after_the_other(void **state)
{
	begin(4, PACKED(7));
	for (uint32_t i = 0; i < 4; i++)
		w.members[i].slots = 3;
	w.nodes[2].tasks = 1;
	place_well();
	assert_int_equal(count_on(2), 2);
	assert_int_equal(count_on(0) + count_on(1) + count_on(3), 5);
	assert_true(!count_on(0) || !count_on(1) || !count_on(3));
	end();
}

static void only_nodes_with_the_labels_are_used(void **state)
{
	static char gpu[] = "gpu=a100", zone[] = "zone=1";
	static char *both[] = {gpu, zone, NULL}, *one[] = {zone, NULL};
	begin(3, "{\"argv\":[\"x\"],\"placement\":{\"labels\":{\"zone\":\"1\",\"gpu\":\"a100\"}},"
		 "\"roles\":{\"worker\":{\"count\":4}}}");
	w.members[0].labels = one;
	w.members[2].labels = both;
	place_well();
	assert_int_equal(count_on(2), 4);
	end();
}

static void roles_have_labels_of_their_own(void **state)
{
	static char gpu[] = "gpu=a100", disk[] = "disk=ssd";
	static char *trains[] = {gpu, NULL}, *stores[] = {disk, NULL}, *both[] = {disk, gpu, NULL};
	begin(4,
	      "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":2,\"labels\":{\"gpu\":\"a100\"}},"
	      "\"data\":{\"sidecar\":true,\"count\":3,\"labels\":{\"disk\":\"ssd\"}},"
	      "\"dispatcher\":{\"sidecar\":true}}}");
	w.members[0].labels = trains;
	w.members[1].labels = stores;
	w.members[2].labels = both;
	w.members[0].slots = 1;
	w.members[1].slots = 2;
	w.members[2].slots = 2;
	w.members[3].slots = 1;
	place_well();
	assert_int_equal(w.placed[0] + w.placed[1], 0 + 2); /* one of the workers is at n0 */
	for (uint32_t data = 2; data < 5; data++)
		assert_in_range(w.placed[data], 1, 2);
	assert_int_equal(w.placed[5], 3);
	end();
}

static void whoever_takes_no_tasks_gets_none(void **state)
{
	begin(5, WORKERS(6));
	w.members[0].state = TFC_MEMBER_SUSPECT;
	w.members[1].state = TFC_MEMBER_DOWN;
	w.members[2].is_draining = true;
	w.members[3].is_out = true;
	place_well();
	assert_int_equal(count_on(4), 6);
	end();
}

static void gpus_and_memory_count(void **state)
{
	begin(3, "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":3,\"gpus\":2,\"memory\":100},"
		 "\"chief\":{\"memory\":50}}}");
	w.members[0].gpus = 4;
	w.members[1].gpus = 2;
	w.members[1].memory_bytes = 120;
	w.members[2].memory_bytes = 60;
	place_well();
	assert_int_equal(count_on(0), 2);
	assert_int_equal(w.placed[3], 2); /* the chief */
	assert_int_equal(w.nodes[0].gpus, 4);
	assert_int_equal(w.nodes[1].gpus, 2);
	assert_int_equal(w.nodes[1].memory, 100);
	assert_int_equal(w.nodes[2].memory, 50);
	end();
}

/* A node that is avoided is better than none. */
static void an_avoided_node_comes_last(void **state)
{
	begin(2, WORKERS(3));
	w.nodes[0].is_cooling_down = true;
	w.members[1].slots = 3;
	place_well();
	assert_int_equal(count_on(1), 3);
	w.members[1].slots = 2;
	w.nodes[1].tasks = 0;
	place_well();
	assert_int_equal(count_on(1), 2);
	assert_int_equal(count_on(0), 1);
	end();
}

/* worker/1 alone is placed again; the others count where they are. */
static void a_task_that_moves_keeps_away_from_the_others(void **state)
{
	begin(4, WORKERS(4));
	w.members[1].state = TFC_MEMBER_DOWN;
	w.nodes[0].own = 1;
	w.nodes[0].tasks = 9;
	w.nodes[3].own = 2; /* two of this job there, although little is done */
	w.nodes[3].tasks = 2;
	w.nodes[2].tasks = 5;
	w.tasks[0] = 1;
	w.task_count = 1;
	place_well();
	assert_int_equal(w.placed[0], 2);
	end();
}

static void data_decides_where_it_is(void **state)
{
	begin(3, WORKERS(4));
	w.wanted[0] = w.wanted[1] = w.wanted[2] = 2;
	place_well();
	assert_int_equal(w.placed[0], 2);
	assert_int_equal(w.placed[1], 2);
	assert_int_equal(w.placed[2], 2);
	assert_int_not_equal(w.placed[3], 2);
	end();
}

/* ---- what it waits for */

static void what_does_not_fit_is_named(void **state)
{
	static char gpu[] = "gpu=a100", zone[] = "zone=1";
	static char *a[] = {gpu, NULL}, *b[] = {zone, NULL};
	begin(2, WORKERS(3));
	w.members[0].slots = w.members[1].slots = 4;
	w.nodes[0].tasks = w.nodes[1].tasks = 4;
	refuse("all 8 slots are in use");
	w.nodes[0].tasks = 2;
	refuse("3 slots are needed; 2 of 8 are free");
	w.nodes[0].tasks = 3;
	w.members[1].state = TFC_MEMBER_SUSPECT;
	refuse("3 slots are needed; 1 of 4 is free");
	w.members[0].slots = 1;
	refuse("the 1 slot is in use");
	w.members[0].is_draining = true;
	refuse("no node accepts tasks: the only alive node is drained");
	w.members[0].state = TFC_MEMBER_DOWN;
	refuse("no node is alive");
	w.node_count = 0;
	refuse("no node is alive");
	end();
	begin(2, "{\"argv\":[\"x\"],\"placement\":{\"labels\":{\"gpu\":\"a100\",\"zone\":\"1\"}},"
		 "\"roles\":{\"worker\":{\"count\":3}}}");
	w.members[0].labels = b;
	refuse("worker/0 needs a node with label \"gpu=a100\"; no node has it");
	w.members[1].labels = a;
	refuse("worker/0 needs a node with all of its 2 labels (gpu=a100, ...); no node has them "
	       "all");
	end();
	begin(2, "{\"argv\":[\"x\"],\"placement\":{\"labels\":{\"zone\":\"1\"}},"
		 "\"roles\":{\"worker\":{},\"chief\":{\"labels\":{\"gpu\":\"a100\"}}}}");
	w.members[0].labels = b;
	refuse("chief/0 needs a node with label \"gpu=a100\"; no node has it");
	w.members[1].labels = a;
	refuse("chief/0 needs a node with all of its 2 labels (zone=1, ...); no node has them all");
	w.wanted[1] = 0;
	refuse("chief/0 must run on node n0, which does not have the labels that the task needs");
	end();
}

static void refuse_alone(const char *sentence)
{
	struct tfc__place_request request = request_of_world();
	request.is_alone = true;
	assert_int_equal(tfc__place_tasks(&request, &w.error, w.placed), TFC_EAGAIN);
	assert_string_equal(w.error.text, sentence);
}

static void the_only_node_is_named_with_what_it_has(void **state)
{
	static char zone[] = "zone=1", disk[] = "disk=ssd";
	static char *labels[] = {disk, zone, NULL};
	begin(1, "{\"argv\":[\"x\"],\"placement\":{\"labels\":{\"gpu\":\"a100\"}},"
		 "\"roles\":{\"worker\":{}}}");
	refuse_alone("worker/0 needs a node with label \"gpu=a100\"; this node has no labels");
	w.members[0].labels = labels;
	refuse_alone("worker/0 needs a node with label \"gpu=a100\"; this node has only disk=ssd, "
		     "zone=1");
	end();
	begin(1, "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":3,\"gpus\":2}}}");
	refuse_alone("worker/0 needs 2 GPUs; this node has none");
	w.members[0].gpus = 1;
	refuse_alone("worker/0 needs 2 GPUs; this node has 1");
	w.members[0].gpus = 4;
	refuse_alone("6 GPUs are needed; this node has 4");
	w.members[0].slots = 2;
	refuse_alone("3 slots are needed; this node has 2");
	end();
	begin(1, "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":3,\"memory\":3221225472}}}");
	w.members[0].memory_bytes = 2147483648;
	refuse_alone("worker/0 needs 3 GiB of memory; this node has 2 GiB");
	w.members[0].memory_bytes = 2 * 3221225472;
	refuse_alone("9 GiB of memory are needed; this node has 6 GiB");
	end();
}

static void node_without_ports_takes_what_needs_none(void **state)
{
	begin(2, "{\"argv\":[\"x\"],\"placement\":{\"policy\":\"pack\"},\"roles\":{"
		 "\"worker\":{\"count\":3},\"side\":{\"count\":2,\"sidecar\":true}}}");
	w.members[1].slots = 3;
	limit_ports(0, 0, "all are taken");
	place_well();
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(w.placed[i], 1);
	assert_int_equal(w.placed[3], 0);
	assert_int_equal(w.placed[4], 0);
	w.members[1].slots = 2;
	w.nodes[1].tasks = 0;
	refuse("cannot acquire a port for worker/2 on node n0: all are taken");
	end();
}

static void ports_of_tasks_that_stay_count(void **state)
{
	begin(2, WORKERS(3));
	w.nodes[0].own = w.nodes[0].own_pooled = w.nodes[1].own = w.nodes[1].own_pooled = 1;
	w.tasks[0] = 2;
	w.task_count = 1;
	limit_ports(0, 1, "all 1 ports are taken");
	place_well();
	assert_int_equal(w.placed[0], 1);
	w.members[1].is_draining = true;
	refuse("cannot acquire a port for worker/2 on node n0: all 1 ports are taken");
	end();
}

static void fixed_port_that_is_taken_bars_one_task_only(void **state)
{
	begin(2, "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":2,\"port\":2222}}}");
	limit_ports(0, UINT32_MAX, "port 2222 is in use");
	limit_ports(1, UINT32_MAX, "port 2223 is in use");
	w.barred[0][0] = w.barred[1][1] = 1;
	place_well();
	assert_int_equal(w.placed[0], 1);
	assert_int_equal(w.placed[1], 0);
	w.barred[0][1] = 1;
	refuse("cannot acquire a port for worker/1 on node n0: port 2222 is in use");
	end();
}

static void gpus_and_memory_that_are_missing_are_named(void **state)
{
	begin(2, "{\"argv\":[\"x\"],\"roles\":{\"chief\":{},\"worker\":{\"count\":2,\"gpus\":2}}}");
	refuse("worker/0 needs 2 GPUs; no node has any");
	w.members[0].gpus = w.members[1].gpus = 1;
	refuse("worker/0 needs 2 GPUs on one node: the most that one has is 1");
	w.members[0].gpus = w.members[1].gpus = 2;
	w.nodes[1].gpus = 1;
	refuse("4 GPUs are needed; 3 of 4 are free");
	w.members[0].gpus = 3;
	refuse("no node has enough free capacity for worker/1 in addition to the job's other "
	       "tasks");
	w.members[0].gpus = 2;
	w.members[1].gpus = 4;
	w.nodes[0].gpus = w.nodes[1].gpus = 1;
	refuse("no node has enough free capacity for worker/1 in addition to the job's other "
	       "tasks");
	w.nodes[1].gpus = 3;
	w.tasks[0] = 1;
	w.task_count = 1;
	refuse("worker/0 needs 2 GPUs on one node: the most that are free on one is 1");
	end();
	begin(2, "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"count\":2,\"memory\":3221225472}}}");
	w.members[0].memory_bytes = 1610612736;
	w.members[1].memory_bytes = 1024;
	refuse("worker/0 needs 3 GiB of memory on one node: the most that one offers is 1.5 GiB");
	w.members[0].memory_bytes = UINT64_C(4) << 30;
	w.nodes[0].memory = UINT64_C(2) << 30;
	refuse("worker/0 needs 3 GiB of memory on one node: the most that is free on one is 2 GiB");
	end();
	begin(2, "{\"argv\":[\"x\"],\"roles\":{\"worker\":{\"gpus\":1,\"memory\":100}}}");
	w.members[0].memory_bytes = 200;
	w.members[1].memory_bytes = 50;
	w.members[1].gpus = 1;
	refuse("no node has both the GPUs and the memory that worker/0 needs");
	end();
}

static void a_node_with_the_data_that_cannot_is_named(void **state)
{
	static const struct {
		struct tfc__member member;
		const char *sentence;
	} cases[] = {
		{{.state = TFC_MEMBER_DOWN, .was_reached = true},
		 "worker/1 must run on node n1, which is down"},
		{{.state = TFC_MEMBER_DOWN},
		 "worker/1 must run on node n1, which has not been reached yet"},
		{{.state = TFC_MEMBER_ALIVE, .is_draining = true},
		 "worker/1 must run on node n1, which is drained"},
		{{.state = TFC_MEMBER_ALIVE, .slots = 1},
		 "worker/1 must run on node n1, whose slots, memory or GPUs are in use"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(2, WORKERS(2));
		w.members[1] = cases[i].member;
		w.members[1].name = w.names[1];
		w.nodes[1].tasks = 1;
		w.wanted[1] = 1;
		refuse(cases[i].sentence);
		end();
	}
}

/* ---- random cases */

static uint32_t draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33) % below;
}

#define RANDOM_NODES 3
#define RANDOM_TASKS 6

static bool is_node_fit(uint32_t node)
{
	const struct tfc__member *member = &w.members[node];
	return member->state == TFC_MEMBER_ALIVE && !member->is_draining;
}

static bool has_labels_of(uint32_t node, const struct tfc__role *role)
{
	return !role->labels.count || w.members[node].labels;
}

static bool has_ports(uint32_t node, const uint32_t *assignment)
{
	const struct tfc__place_ports *ports = w.nodes[node].ports;
	uint32_t pooled = 0;
	for (uint32_t i = 0; ports && i < w.task_count; i++) {
		uint32_t index;
		if (assignment[i] != node)
			continue;
		if (ports->barred[i])
			return false;
		pooled += !tfc__job_task_role(w.job, i, &index)->port;
	}
	return !ports || pooled <= ports->pool;
}

/* Whether an assignment is possible, counted from scratch. */
static bool is_possible(const uint32_t *assignment, const struct tfc__place_node *before,
			bool uses_avoided)
{
	struct tfc__place_node nodes[NODES];
	memcpy(nodes, before, sizeof(nodes));
	for (uint32_t i = 0; i < w.node_count; i++)
		if (!has_ports(i, assignment))
			return false;
	for (uint32_t i = 0; i < w.task_count; i++) {
		uint32_t index;
		const struct tfc__role *need = tfc__job_task_role(w.job, i, &index);
		struct tfc__place_node *node = &nodes[assignment[i]];
		const struct tfc__member *member = node->member;
		if (!is_node_fit(assignment[i]) || (node->is_cooling_down && !uses_avoided) ||
		    !has_labels_of(assignment[i], need))
			return false;
		node->tasks++;
		node->memory += need->memory;
		node->gpus += need->gpus;
		if ((member->slots && node->tasks > member->slots) ||
		    (member->memory_bytes && need->memory && node->memory > member->memory_bytes) ||
		    (need->gpus && node->gpus > member->gpus))
			return false;
	}
	return true;
}

static bool is_any_possible(const struct tfc__place_node *before, bool uses_avoided)
{
	uint32_t assignment[RANDOM_TASKS] = {0};
	for (;;) {
		if (is_possible(assignment, before, uses_avoided))
			return true;
		uint32_t i = 0;
		while (i < w.task_count && ++assignment[i] == w.node_count)
			assignment[i++] = 0;
		if (i == w.task_count)
			return false;
	}
}

static void draw_world(uint64_t *seed)
{
	char json[512];
	uint32_t workers = 1 + draw(seed, 3), others = draw(seed, 4);
	bool is_short_of_ports = draw(seed, 2);
	static const char *const labels[] = {"", "", "\"disk\":\"ssd\""};
	static char disk[] = "disk=ssd", *own_labels[] = {disk, NULL};
	snprintf(json, sizeof(json),
		 "{\"argv\":[\"x\"],\"placement\":{\"policy\":\"%s\"},\"roles\":{"
		 "\"worker\":{\"count\":%u,\"memory\":%u,\"gpus\":%u,\"labels\":{%s}},"
		 "\"ps\":{\"count\":%u,\"memory\":%u,\"gpus\":%u,\"labels\":{%s},\"port\":3000}}}",
		 draw(seed, 2) ? "spread" : "pack", workers, draw(seed, 4), draw(seed, 3),
		 labels[draw(seed, 3)], others, draw(seed, 4), draw(seed, 3),
		 labels[draw(seed, 3)]);
	begin(1 + draw(seed, RANDOM_NODES), json);
	w.seed = draw(seed, 100);
	for (uint32_t i = 0; i < w.node_count; i++) {
		w.members[i].labels = draw(seed, 3) ? own_labels : NULL;
		w.members[i].slots = draw(seed, 5);
		w.members[i].memory_bytes = draw(seed, 9);
		w.members[i].gpus = draw(seed, 5);
		w.members[i].is_draining = !draw(seed, 8);
		w.members[i].state = 1 + draw(seed, 8) / 7;
		w.nodes[i].is_cooling_down = !draw(seed, 4);
		w.nodes[i].tasks = w.members[i].slots ? draw(seed, w.members[i].slots + 1) : 0;
		w.nodes[i].gpus = draw(seed, w.members[i].gpus + 1);
		w.nodes[i].memory = draw(seed, (uint32_t)w.members[i].memory_bytes + 1);
		if (!is_short_of_ports || draw(seed, 3) == 0)
			continue;
		limit_ports(i, draw(seed, 2) ? draw(seed, 4) : UINT32_MAX, "none");
		for (uint32_t k = workers; k < workers + others; k++)
			w.barred[i][k] = !draw(seed, 3);
	}
}

static void check_counts(const struct tfc__place_node *before)
{
	for (uint32_t node = 0; node < w.node_count; node++) {
		struct tfc__place_node expected = before[node];
		for (uint32_t i = 0; i < w.task_count; i++) {
			uint32_t index;
			const struct tfc__role *need = tfc__job_task_role(w.job, i, &index);
			expected.tasks += w.placed[i] == node;
			expected.memory += w.placed[i] == node ? need->memory : 0;
			expected.gpus += w.placed[i] == node ? need->gpus : 0;
		}
		assert_int_equal(w.nodes[node].tasks, expected.tasks);
		assert_int_equal(w.nodes[node].memory, expected.memory);
		assert_int_equal(w.nodes[node].gpus, expected.gpus);
	}
}

/* The same question has the same answer. */
static void check_repeatable(const struct tfc__place_node *before)
{
	uint32_t first[TASKS];
	memcpy(first, w.placed, sizeof(first));
	memcpy(w.nodes, before, sizeof(w.nodes));
	place_well();
	assert_memory_equal(first, w.placed, w.task_count * sizeof(first[0]));
}

static void what_is_possible_is_found(void **state)
{
	uint64_t seed = 20260601;
	uint32_t placed = 0, avoided = 0, refused = 0;
	for (int round = 0; round < 30000; round++) {
		struct tfc__place_node before[NODES];
		draw_world(&seed);
		memcpy(before, w.nodes, sizeof(before));
		bool is_easy = is_any_possible(before, false);
		bool is_hard = is_easy || is_any_possible(before, true);
		int code = place();
		if (code != (is_hard ? TFC_OK : TFC_EAGAIN))
			fail_msg("round %d: %d %s", round, code, w.error.text);
		if (code == TFC_OK) {
			assert_true(is_possible(w.placed, before, !is_easy));
			check_counts(before);
			check_repeatable(before);
		} else {
			assert_memory_equal(before, w.nodes, sizeof(before));
			assert_true(strlen(w.error.text) > 10);
		}
		placed += is_easy;
		avoided += is_hard && !is_easy;
		refused += !is_hard;
		end();
	}
	assert_true(placed > 1000 && avoided > 500 && refused > 1000);
}

/* Nothing is taken twice when many are placed at once. */
static void many_are_placed_quickly(void **state)
{
	uint32_t counts[NODES] = {0};
	begin(5, WORKERS(40));
	for (uint32_t i = 0; i < 5; i++)
		w.members[i].slots = 8;
	place_well();
	for (uint32_t i = 0; i < 40; i++)
		counts[w.placed[i]]++;
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(counts[i], 8);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spread_is_even),
		cmocka_unit_test(spread_goes_where_little_is_done),
		cmocka_unit_test(pack_fills_one_node_after_the_other),
		cmocka_unit_test(only_nodes_with_the_labels_are_used),
		cmocka_unit_test(roles_have_labels_of_their_own),
		cmocka_unit_test(whoever_takes_no_tasks_gets_none),
		cmocka_unit_test(gpus_and_memory_count),
		cmocka_unit_test(an_avoided_node_comes_last),
		cmocka_unit_test(a_task_that_moves_keeps_away_from_the_others),
		cmocka_unit_test(data_decides_where_it_is),
		cmocka_unit_test(what_does_not_fit_is_named),
		cmocka_unit_test(the_only_node_is_named_with_what_it_has),
		cmocka_unit_test(node_without_ports_takes_what_needs_none),
		cmocka_unit_test(ports_of_tasks_that_stay_count),
		cmocka_unit_test(fixed_port_that_is_taken_bars_one_task_only),
		cmocka_unit_test(gpus_and_memory_that_are_missing_are_named),
		cmocka_unit_test(a_node_with_the_data_that_cannot_is_named),
		cmocka_unit_test(what_is_possible_is_found),
		cmocka_unit_test(many_are_placed_quickly),
	};
	return cmocka_run_group_tests_name("cluster_placement", tests, NULL, NULL);
}
