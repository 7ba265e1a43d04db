/* membership: what every source of members does: the file, one of a host's own, and gossip. */
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

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "gossip_member.h"
#include "leaks.h"
#include "member/member.h"
#include "member/static_file.h"

#define REPORTED_MAX 64
#define NODES_MAX 4

struct world;

/* How a test drives a backend. `open` and `set` get all members that there are from now on, "a"
 * first: it is this node. */
struct backend {
	const char *name;
	int (*open)(struct world *world, const tfc_member_info *members, size_t count);
	void (*set)(struct world *world, const tfc_member_info *members, size_t count);
	void (*close)(struct world *world);
	/* Each member reports its own fields and state to the backend. */
	bool is_from_members;
};

struct world {
	const struct backend *backend;
	tfc_ctx *ctx;
	struct tfc__members *members;
	struct tfc__members_options options;
	struct tfc__observer watch;
	char reported[REPORTED_MAX][48]; /* "+b" "~b alive" "-b" */
	size_t reported_count;
	/* static file */
	struct tfc__static_file *file;
	char directory[LEAKS_PATH];
	char path[LEAKS_PATH + 32];
	char new_path[LEAKS_PATH + 32];
	/* a host's own */
	const tfc_member_info *first;
	size_t first_count;
	tfc_membership *membership;
	bool is_started;
	/* gossip: this node is the first; `given` is what each was started with */
	struct gossip_member nodes[NODES_MAX];
	tfc_member_info given[NODES_MAX];
};

static void await_turn(struct world *world, uint64_t deadline)
{
	assert_true(tfc_ctx_run(world->ctx, 100) >= 0);
	assert_true(tfc__now() < deadline);
}

/* ---- the file */

static void write_file(const char *path, const tfc_member_info *members, size_t count)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs("{\"members\": [", file);
	for (size_t i = 0; i < count; i++) {
		const tfc_member_info *m = &members[i];
		fprintf(file, "%s\n {\"name\": \"%s\", \"address\": \"%s\", \"slots\": %u, ",
			i ? "," : "", m->name, m->address, m->slots);
		fprintf(file, "\"memory\": %llu, \"gpus\": %u, \"labels\": {",
			(unsigned long long)m->memory_bytes, m->gpus);
		for (size_t j = 0; m->labels && m->labels[j]; j++) {
			int len = (int)strcspn(m->labels[j], "=");
			fprintf(file, "%s\"%.*s\": \"%s\"", j ? ", " : "", len, m->labels[j],
				m->labels[j] + len + 1);
		}
		fputs("}}", file);
	}
	fputs("]}\n", file);
	fclose(file);
}

static int open_file(struct world *world, const tfc_member_info *members, size_t count)
{
	tfc_error error = TFC_ERROR_INIT;
	leaks_make_dir(world->directory);
	snprintf(world->path, sizeof(world->path), "%s/members.json", world->directory);
	snprintf(world->new_path, sizeof(world->new_path), "%s/members.new", world->directory);
	write_file(world->path, members, count);
	assert_int_equal(tfc__static_file_new(world->path, &error, &world->file), TFC_OK);
	world->options.ops = &tfc__static_file_ops;
	world->options.user = world->file;
	return tfc__members_open(world->ctx, &world->options, &error, &world->members);
}

static void set_file(struct world *world, const tfc_member_info *members, size_t count)
{
	write_file(world->new_path, members, count);
	assert_int_equal(rename(world->new_path, world->path), 0);
}

static void close_file(struct world *world)
{
	tfc__static_file_free(world->file);
	tfc__remove_tree(world->directory);
}

/* ---- a host's own */

static int start(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	struct world *world = user;
	assert_false(world->is_started);
	world->is_started = true;
	world->membership = membership;
	for (size_t i = 0; i < world->first_count; i++)
		assert_int_equal(tfc_membership_put(membership, &world->first[i]), TFC_OK);
	return TFC_OK;
}

static void stop(void *user, tfc_membership *membership)
{
	struct world *world = user;
	assert_true(world->is_started && world->membership == membership);
	world->is_started = false;
}

static const tfc_membership_ops host_ops = {.size = sizeof(host_ops), .start = start, .stop = stop};

static int open_host(struct world *world, const tfc_member_info *members, size_t count)
{
	tfc_error error = TFC_ERROR_INIT;
	world->first = members;
	world->first_count = count;
	world->options.ops = &host_ops;
	world->options.user = world;
	return tfc__members_open(world->ctx, &world->options, &error, &world->members);
}

static bool is_named(const tfc_member_info *members, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(members[i].name, name) == 0)
			return true;
	return false;
}

static void set_host(struct world *world, const tfc_member_info *members, size_t count)
{
	TFC__LIST_EACH (link, tfc__members_all(world->members)) {
		const struct tfc__member *member = tfc__container_of(link, struct tfc__member,
								     link);
		if (!is_named(members, count, member->name))
			assert_int_equal(tfc_membership_remove(world->membership, member->name),
					 TFC_OK);
	}
	for (size_t i = 0; i < count; i++)
		assert_int_equal(tfc_membership_put(world->membership, &members[i]), TFC_OK);
}

static void close_host(struct world *world)
{
	assert_false(world->is_started);
}

/* ---- gossip: every member is a node of this process, with sockets of its own */

/* `state_of`: the name of the node that has the state directory. */
static void start_node_with_state(struct world *world, size_t i, const tfc_member_info *info,
				  const char *state_of)
{
	char key[LEAKS_PATH + 8], state[LEAKS_PATH + 8];
	snprintf(key, sizeof(key), "%s/key", world->directory);
	snprintf(state, sizeof(state), "%s/%s", world->directory, state_of);
	const struct gossip_member_options options = {
		.key_file = key,
		.state_dir = state,
		.self = info,
		.seed = i ? world->nodes[0].address : NULL,
		.interval_ns = 100 * TFC__MS,
	};
	mkdir(state, 0700); /* it exists when the node was there before */
	world->given[i] = *info;
	gossip_member_start(&world->nodes[i], world->ctx, &options);
}

static void start_node(struct world *world, size_t i, const tfc_member_info *info)
{
	start_node_with_state(world, i, info, info->name);
}

static void end_node(struct world *world, size_t i)
{
	gossip_member_kill(&world->nodes[i]);
	world->nodes[i].ctx = NULL;
}

static size_t node_of_name(const struct world *world, const char *name)
{
	size_t i = 0;
	while (i < NODES_MAX && !(world->nodes[i].ctx && strcmp(world->nodes[i].name, name) == 0))
		i++;
	return i;
}

static size_t unused_node(const struct world *world)
{
	size_t i = 0;
	while (world->nodes[i].ctx)
		i++;
	assert_true(i < NODES_MAX);
	return i;
}

static bool is_alive(struct world *world, const char *name)
{
	const struct tfc__member *member = tfc__members_find(world->members, name);
	return member && member->state == TFC_MEMBER_ALIVE;
}

static int open_gossip(struct world *world, const tfc_member_info *members, size_t count)
{
	uint64_t deadline = tfc__now() + 20 * TFC__SECOND;
	tfc_error error = TFC_ERROR_INIT;
	char key[LEAKS_PATH + 8];
	leaks_make_dir(world->directory);
	snprintf(key, sizeof(key), "%s/key", world->directory);
	assert_int_equal(tfc__keyring_generate(key, TFC__KEY_NODE, &error), TFC_OK);
	for (size_t i = 0; i < count; i++)
		if (strcmp(members[i].name, "a") == 0)
			start_node(world, 0, &members[i]);
	world->members = world->nodes[0].members;
	for (size_t i = 0; i < count; i++)
		if (strcmp(members[i].name, "a") != 0)
			start_node(world, unused_node(world), &members[i]);
	for (size_t i = 0; i < count; i++)
		while (!is_alive(world, members[i].name))
			await_turn(world, deadline);
	while (tfc_ctx_run(world->ctx, 0) > 0)
		; /* what is reported of these members */
	return TFC_OK;
}

static bool is_same_info(const tfc_member_info *a, const tfc_member_info *b)
{
	return strcmp(a->address, b->address) == 0 && a->slots == b->slots &&
	       a->labels == b->labels;
}

/* A node that is not listed any more leaves; one that has changed is started again. */
static void set_gossip(struct world *world, const tfc_member_info *members, size_t count)
{
	uint64_t deadline = tfc__now() + 20 * TFC__SECOND;
	for (size_t i = 0; i < NODES_MAX; i++) {
		if (!world->nodes[i].ctx || is_named(members, count, world->nodes[i].name))
			continue;
		gossip_member_leave(&world->nodes[i]);
		while (!world->nodes[i].has_left)
			await_turn(world, deadline);
		end_node(world, i);
	}
	for (size_t i = 0; i < count; i++) {
		size_t known = node_of_name(world, members[i].name);
		if (known == NODES_MAX) {
			start_node(world, unused_node(world), &members[i]);
		} else if (!is_same_info(&world->given[known], &members[i])) {
			end_node(world, known);
			start_node(world, known, &members[i]);
		}
	}
}

static void close_gossip(struct world *world)
{
	for (size_t i = 0; i < NODES_MAX; i++)
		if (world->nodes[i].ctx)
			end_node(world, i);
	tfc__remove_tree(world->directory);
}

static const struct backend backends[] = {
	{"static_file", open_file, set_file, close_file, false},
	{"host", open_host, set_host, close_host, false},
	{"gossip", open_gossip, set_gossip, close_gossip, true},
};

/* ---- the world of one test */

static const char *const labels_of_b[] = {"zone=1", "gpu=a100", NULL};
static const char *const other_labels[] = {"zone=2", NULL};

static char addresses[10][40];
static tfc_member_info two[2], only_a[1];

/* At port `21000 + number` of this process's own loopback address. */
static tfc_member_info member_at(const char *name, unsigned number)
{
	return (tfc_member_info){.size = sizeof(tfc_member_info),
				 .name = name,
				 .address = addresses[number],
				 .slots = 4};
}

static int make_addresses(void **state)
{
	for (unsigned i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
		snprintf(addresses[i], sizeof(addresses[i]), "tcp://%s:%u", gossip_member_host(),
			 21000 + i);
	two[0] = only_a[0] = member_at("a", 1);
	two[1] = member_at("b", 2);
	return 0;
}

static void note(struct tfc__observer *watch, const void *event)
{
	struct world *world = tfc__container_of(watch, struct world, watch);
	const struct tfc__member_event *what = event;
	assert_true(world->reported_count < REPORTED_MAX);
	snprintf(world->reported[world->reported_count++], sizeof(world->reported[0]), "%c%s %s",
		 " +~-"[what->change], what -> member -> name,
		 tfc_member_state_name(what->member->state));
}

static void begin(struct world *world, const struct backend *backend,
		  const tfc_member_info *members, size_t count)
{
	static const tfc_member_info self = {.size = sizeof(self), .name = "a"};
	*world = (struct world){.backend = backend, .watch.fn = note};
	world->options.self = &self;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &world->ctx), TFC_OK);
	assert_int_equal(backend->open(world, members, count), TFC_OK);
	tfc__members_watch(world->members, &world->watch);
}

static void end(struct world *world)
{
	if (!world->nodes[0].ctx)
		tfc__members_close(world->members);
	world->backend->close(world);
	tfc_ctx_free(world->ctx);
}

/* Until so many changes were reported; forgets them. */
static void await_reported(struct world *world, size_t count, const char *const *reported)
{
	uint64_t deadline = tfc__now() + 20 * TFC__SECOND;
	while (world->reported_count < count)
		await_turn(world, deadline);
	assert_int_equal(world->reported_count, count);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(world->reported[i], reported[i]);
	world->reported_count = 0;
}

#define AWAIT(world, ...)                                                                \
	do {                                                                             \
		const char *const reported[] = {__VA_ARGS__};                            \
		await_reported(world, sizeof(reported) / sizeof(reported[0]), reported); \
	} while (0)

/* The state of a member of which this node knows only what its backend reports. */
static uint32_t first_state(const struct world *world)
{
	return world->backend->is_from_members ? TFC_MEMBER_ALIVE : TFC_MEMBER_SUSPECT;
}

/* Until one change was reported: `change` with that state. */
static void await_in_state(struct world *world, const char *change, uint32_t state)
{
	char text[48];
	const char *const reported[] = {text};
	snprintf(text, sizeof(text), "%s %s", change, tfc_member_state_name(state));
	await_reported(world, 1, reported);
}

static struct tfc__member *find(struct world *world, const char *name)
{
	struct tfc__member *member = tfc__members_find(world->members, name);
	assert_non_null(member);
	return member;
}

/* Runs a test on every backend. */
#define EACH_BACKEND(world)                                                       \
	for (size_t nth = 0; nth < sizeof(backends) / sizeof(backends[0]); nth++) \
		for (struct world world, *once = &world;                          \
		     once && (print_message("%s\n", backends[nth].name), true); once = NULL)

/* ---- the promises */

static void what_it_reports_at_the_start_is_there_at_once(void **state)
{
	EACH_BACKEND(world)
	{
		begin(&world, &backends[nth], two, 2);
		assert_int_equal(tfc__members_count(world.members), 2);
		assert_true(find(&world, "a")->is_self);
		assert_ptr_equal(tfc__members_self(world.members), find(&world, "a"));
		assert_int_equal(find(&world, "a")->state, TFC_MEMBER_ALIVE);
		assert_int_equal(find(&world, "b")->state, first_state(&world));
		assert_string_equal(find(&world, "b")->address, two[1].address);
		assert_int_equal(find(&world, "b")->slots, 4);
		assert_null(tfc__members_find(world.members, "c"));
		end(&world);
	}
}

static void all_fields_arrive(void **state)
{
	tfc_member_info members[] = {two[0], two[1]};
	members[1].labels = labels_of_b;
	members[1].memory_bytes = UINT64_C(8) << 30;
	members[1].gpus = 2;
	EACH_BACKEND(world)
	{
		begin(&world, &backends[nth], members, 2);
		tfc_member_info info;
		tfc__member_info(find(&world, "b"), &info);
		assert_int_equal(info.size, sizeof(info));
		assert_int_equal(info.memory_bytes, UINT64_C(8) << 30);
		assert_int_equal(info.gpus, 2);
		assert_int_equal(info.slots, 4);
		assert_string_equal(info.labels[0], "gpu=a100");
		assert_string_equal(info.labels[1], "zone=1");
		assert_null(info.labels[2]);
		assert_int_equal(info.is_self, 0);
		end(&world);
	}
}

static void a_member_comes_and_changes(void **state)
{
	EACH_BACKEND(world)
	{
		tfc_member_info members[] = {two[0], two[1]};
		begin(&world, &backends[nth], only_a, 1);
		world.backend->set(&world, members, 2);
		await_in_state(&world, "+b", first_state(&world));
		members[1].labels = other_labels;
		world.backend->set(&world, members, 2);
		await_in_state(&world, "~b", first_state(&world));
		assert_string_equal(find(&world, "b")->labels[0], "zone=2");
		members[1].labels = NULL;
		members[1].address = addresses[3];
		world.backend->set(&world, members, 2);
		await_in_state(&world, "~b", first_state(&world));
		assert_string_equal(find(&world, "b")->address, addresses[3]);
		assert_null(find(&world, "b")->labels);
		end(&world);
	}
}

/* A list forgets it. Gossip shows for a day that it has left. */
static void a_member_goes_and_comes_back(void **state)
{
	EACH_BACKEND(world)
	{
		bool is_shown = backends[nth].is_from_members;
		begin(&world, &backends[nth], two, 2);
		world.backend->set(&world, only_a, 1);
		await_in_state(&world, is_shown ? "~b" : "-b",
			       is_shown ? TFC_MEMBER_LEFT : TFC_MEMBER_SUSPECT);
		assert_int_equal(tfc__members_find(world.members, "b") != NULL, is_shown);
		assert_int_equal(tfc__members_count(world.members), is_shown ? 2 : 1);
		world.backend->set(&world, two, 2);
		await_in_state(&world, is_shown ? "~b" : "+b", first_state(&world));
		assert_int_equal(tfc__members_count(world.members), 2);
		end(&world);
	}
}

static void the_order_is_that_of_the_names(void **state)
{
	const tfc_member_info members[] = {member_at("d", 4), two[0], member_at("c", 3), two[1]};
	EACH_BACKEND(world)
	{
		char name = 'a';
		begin(&world, &backends[nth], members, 4);
		TFC__LIST_EACH (link, tfc__members_all(world.members)) {
			const struct tfc__member *member =
				tfc__container_of(link, struct tfc__member, link);
			assert_int_equal(member->name[0], name++);
		}
		assert_int_equal(name, 'e');
		end(&world);
	}
}

static void a_member_that_refuses_connections_is_down_until_it_is_received_from(void **state)
{
	EACH_BACKEND(world)
	{
		begin(&world, &backends[nth], two, 2);
		tfc__members_received(world.members, find(&world, "b"));
		if (first_state(&world) != TFC_MEMBER_ALIVE)
			AWAIT(&world, "~b alive");
		tfc__members_broken(world.members, find(&world, "b"), false);
		tfc__members_broken(world.members, find(&world, "b"), true);
		AWAIT(&world, "~b down");
		tfc__members_received(world.members, find(&world, "b"));
		AWAIT(&world, "~b alive");
		end(&world);
	}
}

static void connections_report_who_is_alive(void **state)
{
	EACH_BACKEND(world)
	{
		if (backends[nth].is_from_members)
			continue; /* the members report it */
		begin(&world, &backends[nth], two, 2);
		tfc__members_received(world.members, find(&world, "b"));
		AWAIT(&world, "~b alive");
		tfc__members_broken(world.members, find(&world, "b"), false);
		AWAIT(&world, "~b suspect");
		tfc__members_left(world.members, find(&world, "b"));
		AWAIT(&world, "~b left");
		end(&world);
	}
}

/* Until the member has responded to a probe of gossip once more. */
static void await_response(struct world *world, const char *name)
{
	uint64_t deadline = tfc__now() + 20 * TFC__SECOND;
	uint64_t before, received_at, rtt;
	assert_true(tfc__gossip_membership_contact(world->nodes[0].gossip, name, &before, &rtt));
	for (received_at = before; received_at <= before;) {
		await_turn(world, deadline);
		tfc__gossip_membership_contact(world->nodes[0].gossip, name, &received_at, &rtt);
	}
}

/* A connection may break though the node is well: the others decide. */
static void a_broken_connection_makes_no_member_of_gossip_suspect(void **state)
{
	struct world world;
	begin(&world, &backends[2], two, 2);
	tfc__members_broken(world.members, find(&world, "b"), false);
	await_response(&world, "b"); /* it is probed */
	assert_int_equal(world.reported_count, 0);
	assert_int_equal(find(&world, "b")->state, TFC_MEMBER_ALIVE);
	end(&world);
}

/* Others may reach a member that this node cannot reach: here it is suspect, and gets no tasks. */
static void a_member_of_gossip_that_this_node_cannot_reach_is_suspect_here(void **state)
{
	struct world world;
	begin(&world, &backends[2], two, 2);
	tfc__members_unreached(world.members, find(&world, "b"));
	AWAIT(&world, "~b suspect");
	for (int i = 0; i < 5; i++)
		await_response(&world, "b"); /* over udp: that is not enough */
	assert_int_equal(find(&world, "b")->state, TFC_MEMBER_SUSPECT);
	tfc__members_received(world.members, find(&world, "b"));
	AWAIT(&world, "~b alive");
	end(&world);
}

/* Its old name must not stay alive. */
static void a_member_of_gossip_that_returns_with_another_name_replaces_its_old_one(void **state)
{
	struct world world;
	begin(&world, &backends[2], two, 2);
	const tfc_member_info renamed = member_at("c", 2);
	end_node(&world, 1);
	start_node_with_state(&world, 1, &renamed, "b");
	AWAIT(&world, "-b alive", "+c alive");
	assert_null(tfc__members_find(world.members, "b"));
	assert_int_equal(tfc__members_count(world.members), 2);
	end(&world);
}

static void what_a_node_says_of_itself_counts(void **state)
{
	static const char *const own_labels[] = {"rack=7", NULL};
	tfc_member_info said = {.size = sizeof(said), .slots = 9, .labels = own_labels};
	tfc_member_info members[] = {two[0], two[1]};
	tfc_error error = TFC_ERROR_INIT;
	EACH_BACKEND(world)
	{
		begin(&world, &backends[nth], members, 2);
		said.is_draining = 1;
		assert_int_equal(tfc__members_learn(world.members, find(&world, "b"), &said,
						    &error),
				 TFC_OK);
		await_in_state(&world, "~b", first_state(&world));
		assert_true(find(&world, "b")->is_draining);
		members[1].slots = 5;
		members[1].address = addresses[9];
		world.backend->set(&world, members, 2);
		await_in_state(&world, "~b", first_state(&world));
		assert_string_equal(find(&world, "b")->address, addresses[9]);
		/* in gossip, the node itself has just said what it was started with */
		bool is_later = backends[nth].is_from_members;
		assert_int_equal(find(&world, "b")->slots, is_later ? 5 : 9);
		if (!is_later)
			assert_string_equal(find(&world, "b")->labels[0], "rack=7");
		else
			assert_null(find(&world, "b")->labels);
		members[1] = two[1];
		end(&world);
	}
}

/* ---- what only a host can get wrong */

static void a_host_learns_what_is_wrong(void **state)
{
	static const struct {
		tfc_member_info info;
		int code;
		const char *sentence;
	} cases[] = {
		{{.size = 1}, TFC_EINVAL, "tfc_member_info.size is 1"},
		{{.size = sizeof(tfc_member_info)}, TFC_EINVAL, "name: missing"},
		{{.size = sizeof(tfc_member_info), .name = "a b"},
		 TFC_EINVAL,
		 "name: must be 1 to"},
		{{.size = sizeof(tfc_member_info), .name = "b", .address = "10.0.0.1:80"},
		 TFC_EINVAL,
		 "address: must be \"tcp://HOST:PORT\", not \"10.0.0.1:80\""},
		{{.size = sizeof(tfc_member_info), .name = "b", .address = "tcp://b:0"},
		 TFC_EINVAL,
		 "address: must be"},
		{{.size = sizeof(tfc_member_info), .name = "b", .node_id = "xyz"},
		 TFC_EINVAL,
		 "node_id: must be"},
		{{.size = sizeof(tfc_member_info), .name = "b", .gpus = 5000},
		 TFC_EINVAL,
		 "gpus: must be"},
	};
	struct world world;
	begin(&world, &backends[1], two, 2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(tfc_membership_put(world.membership, &cases[i].info),
				 cases[i].code);
		assert_non_null(strstr(tfc_ctx_error(world.ctx)->text, cases[i].sentence));
	}
	assert_int_equal(tfc_membership_put(NULL, &two[0]), TFC_EINVAL);
	assert_int_equal(tfc_membership_remove(world.membership, "x"), TFC_ENOENT);
	assert_int_equal(tfc_membership_remove(world.membership, NULL), TFC_EINVAL);
	assert_int_equal(tfc_membership_remove(world.membership, "a"), TFC_ESTATE);
	assert_int_equal(tfc_membership_set_state(world.membership, "b", TFC_MEMBER_DOWN),
			 TFC_ESTATE);
	assert_int_equal(tfc__members_count(world.members), 2);
	end(&world);
}

static int start_and_fail(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	tfc_membership_put(membership, &two[1]);
	snprintf(error->text, sizeof(error->text), "the grid is closed");
	return error->code = TFC_EAGAIN;
}

static void a_backend_that_cannot_start_says_why(void **state)
{
	static const tfc_membership_ops failing = {.size = sizeof(failing),
						   .start = start_and_fail,
						   .stop = stop};
	static const tfc_membership_ops half = {.size = sizeof(half), .start = start};
	static const tfc_membership_ops strange = {.size = sizeof(strange),
						   .start = start,
						   .stop = stop,
						   .flags = 1u << 31};
	struct tfc__members_options options = {.self = &two[0], .ops = &failing};
	struct tfc__members *members = NULL;
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx *ctx;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
	assert_int_equal(tfc__members_open(ctx, &options, &error, &members), TFC_EAGAIN);
	assert_string_equal(error.text, "the grid is closed");
	options.ops = &half;
	assert_int_equal(tfc__members_open(ctx, &options, &error, &members), TFC_EINVAL);
	assert_string_equal(error.text, "tfc_membership_ops.stop is NULL");
	options.ops = &strange;
	assert_int_equal(tfc__members_open(ctx, &options, &error, &members), TFC_ENOTSUP);
	assert_null(members);
	tfc_ctx_free(ctx);
}

/* A host that knows better than connections: they change nothing. */
static void a_host_may_report_the_states_itself(void **state)
{
	tfc_membership_ops ops = host_ops;
	struct world world = {.backend = &backends[1], .watch.fn = note};
	tfc_error error = TFC_ERROR_INIT;
	ops.flags = TFC_MEMBERSHIP_REPORTS_STATES;
	world.first = two;
	world.first_count = 2;
	world.options = (struct tfc__members_options){.self = &two[0], .ops = &ops, .user = &world};
	assert_int_equal(tfc_ctx_new(NULL, NULL, &world.ctx), TFC_OK);
	assert_int_equal(tfc__members_open(world.ctx, &world.options, &error, &world.members),
			 TFC_OK);
	tfc__members_watch(world.members, &world.watch);
	assert_int_equal(tfc_membership_set_state(world.membership, "b", TFC_MEMBER_ALIVE), TFC_OK);
	AWAIT(&world, "~b alive");
	tfc__members_broken(world.members, find(&world, "b"), false);
	tfc__members_broken(world.members, find(&world, "b"), true);
	assert_int_equal(find(&world, "b")->state, TFC_MEMBER_ALIVE);
	assert_int_equal(tfc_membership_set_state(world.membership, "b", TFC_MEMBER_LEFT), TFC_OK);
	tfc__members_received(world.members, find(&world, "b"));
	assert_int_equal(find(&world, "b")->state, TFC_MEMBER_LEFT);
	AWAIT(&world, "~b left");
	assert_int_equal(tfc_membership_set_state(world.membership, "b", 5), TFC_EINVAL);
	assert_int_equal(tfc_membership_set_state(world.membership, "c", TFC_MEMBER_LEFT),
			 TFC_ENOENT);
	end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_reports_at_the_start_is_there_at_once),
		cmocka_unit_test(all_fields_arrive),
		cmocka_unit_test(a_member_comes_and_changes),
		cmocka_unit_test(a_member_goes_and_comes_back),
		cmocka_unit_test(the_order_is_that_of_the_names),
		cmocka_unit_test(
			a_member_that_refuses_connections_is_down_until_it_is_received_from),
		cmocka_unit_test(connections_report_who_is_alive),
		cmocka_unit_test(a_broken_connection_makes_no_member_of_gossip_suspect),
		cmocka_unit_test(a_member_of_gossip_that_this_node_cannot_reach_is_suspect_here),
		cmocka_unit_test(
			a_member_of_gossip_that_returns_with_another_name_replaces_its_old_one),
		cmocka_unit_test(what_a_node_says_of_itself_counts),
		cmocka_unit_test(a_host_learns_what_is_wrong),
		cmocka_unit_test(a_backend_that_cannot_start_says_why),
		cmocka_unit_test(a_host_may_report_the_states_itself),
	};
	return cmocka_run_group_tests_name("membership", tests, make_addresses, NULL);
}
