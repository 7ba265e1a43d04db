/*
 * The network: "tcp" between machines, "unix" inside one. Bytes keep their order and arrive after a
 * delay; a path that is cut delivers nothing until it heals, and an end whose bytes are not
 * acknowledged for long is lost, as TCP_USER_TIMEOUT has it.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "transport/builtin.h"
#include "transport/pipe.h"

#define ROOM (UINT32_C(256) << 10) /* bytes on their way and not read */
#define SLOW_ROOM 512              /* of an end whose host reads slowly */
#define SLOW_PAUSE (20 * SIM_MS)   /* between two of its reads, or more */
#define RETRANSMIT (200 * SIM_MS)
#define UNACKNOWLEDGED (20 * SIM_SECOND) /* UNACKNOWLEDGED_MS, lib/transport/tcp.c */
#define CONNECT (60 * SIM_SECOND)
#define KEEPALIVE (4 * SIM_SECOND) /* between two probes */
#define KEEPALIVE_LOST (22 * SIM_SECOND)

struct chunk {
	struct chunk *next;
	uint64_t sent;
	uint64_t at;
	size_t len; /* 0: the end */
	char data[];
};

struct net_fault {
	uint64_t until;
	bool *ret_hit;
};

struct end {
	struct end *other;
	struct sim_host *host; /* NULL: closed, or its host is dead */
	const struct sim_machine *machine;
	tfc_pipe *pipe;
	bool is_unix;
	bool is_connected;
	bool is_closed;      /* by its host */
	bool is_at_end;      /* the other end has closed, and all was delivered */
	tfc_error failure;   /* code not 0: of no more use */
	struct chunk *first; /* on their way to this end */
	struct chunk **last;
	uint64_t last_at;
	size_t coming; /* bytes of these */
	struct tfc__buf in;
	size_t at;
	bool wants_room; /* the other end has had no room to write */
	struct net_fault faults[SIM_NET_FAULTS];
	uint64_t reads_at; /* a slow one, next */
	bool was_late;
	uint64_t dialed;
	uint64_t probed;       /* when a probe was answered last */
	char to[SIM_PATH];     /* the address that was dialed, until it is accepted */
	struct letter *letter; /* which this end has sent; NULL: it belongs to a process */
};

/* A last will on its way. It is sent until it is acknowledged. */
struct letter {
	struct letter *next;
	const struct sim_machine *from;
	char to[SIM_PATH];
	uint64_t until;
	bool is_acknowledged;
	size_t len;
	uint8_t bytes[SIM_LETTER];
};

struct sim_listener {
	struct sim_listener *next;
	struct sim_host *host; /* NULL: closed */
	tfc_listener *listener;
	char address[SIM_PATH];
};

static struct sim_listener *listeners;
static struct letter *letters;
static struct net_fault refusals[SIM_MACHINES], delays[SIM_MACHINES];

/* All ends that were ever made, for hosts that die. */
static struct end **ends;
static size_t end_count, end_capacity;

static struct end *end_new(struct sim_host *host, const struct sim_machine *machine)
{
	struct end *end = calloc(1, sizeof(*end));
	if (end_count == end_capacity) {
		end_capacity = end_capacity ? 2 * end_capacity : 64;
		ends = realloc(ends, end_capacity * sizeof(*ends));
	}
	if (!end || !ends)
		abort();
	end->host = host;
	end->machine = machine;
	end->last = &end->first;
	ends[end_count++] = end;
	return end;
}

static bool meets(const struct net_fault *fault)
{
	bool is_met = sim.now < fault->until;
	if (is_met && fault->ret_hit)
		*fault->ret_hit = true;
	return is_met;
}

static bool is_blocked(const struct sim_machine *from, const struct sim_machine *to)
{
	bool is_deaf = to->power == SIM_SUSPENDED || from->power == SIM_SUSPENDED;
	return sim.cuts[from->number][to->number] || is_deaf;
}

static uint64_t delay(const struct end *end)
{
	return end->is_unix ? 5000 + sim_draw(20000) : 100000 + sim_draw(2 * SIM_MS);
}

/* The transport's side of a pipe that is alive: something has changed. */
static void wake(struct end *end, uint32_t events)
{
	if (!end->host || !end->pipe)
		return;
	struct sim_host *before = sim.current;
	sim_enter(end->host);
	tfc_pipe_ready(end->pipe, events);
	if (before)
		sim_enter(before);
	else
		sim_leave();
}

static void fail_end(struct end *end, int code, const char *why)
{
	if (end->failure.code || !end->host)
		return;
	tfc__fail(&end->failure, code, "transport", 0, "%s", why);
	wake(end, TFC_PIPE_EVENT_READABLE | TFC_PIPE_EVENT_WRITABLE);
}

/* ---- bytes on their way */

static void deliver(void *user, uint64_t number);

static void drop_chunks(struct end *end)
{
	for (struct chunk *chunk = end->first, *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	end->first = NULL;
	end->last = &end->first;
	end->coming = 0;
}

static void send_chunk(struct end *to, const void *data, size_t len)
{
	struct chunk *chunk = malloc(sizeof(*chunk) + len);
	if (!chunk)
		abort();
	uint64_t at = sim.now + delay(to);
	*chunk = (struct chunk){.sent = sim.now,
				.at = at > to->last_at ? at : to->last_at,
				.len = len};
	if (len)
		memcpy(chunk->data, data, len);
	bool is_first = !to->first;
	to->last_at = chunk->at;
	*to->last = chunk;
	to->last = &chunk->next;
	to->coming += len;
	if (is_first)
		sim_at(chunk->at, deliver, to, 0);
}

static void reset(struct end *end)
{
	drop_chunks(end);
	drop_chunks(end->other);
	fail_end(end, TFC_ELOST, "connection reset by peer");
	fail_end(end->other, TFC_ELOST, "connection reset by peer");
}

static void receive(struct end *end, const struct chunk *chunk)
{
	if (end->letter) {
		end->letter->is_acknowledged |= chunk->len != 0;
		return;
	}
	if (!end->host) { /* a kernel without the process answers with a reset */
		fail_end(end->other, TFC_ELOST, "connection reset by peer");
		return;
	}
	if (chunk->len)
		tfc__buf_add(&end->in, chunk->data, chunk->len);
	else
		end->is_at_end = true;
	wake(end, TFC_PIPE_EVENT_READABLE);
}

static void deliver(void *user, uint64_t number)
{
	struct end *end = user;
	struct chunk *chunk = end->first;
	if (!chunk)
		return;
	if (is_blocked(end->other->machine, end->machine) || end->machine->power == SIM_OFF ||
	    meets(&end->faults[SIM_NET_STALL])) {
		bool is_too_late = sim.now - chunk->sent > UNACKNOWLEDGED;
		if (is_too_late)
			fail_end(end->other, TFC_ELOST, "connection timed out");
		if (is_too_late && end->machine->power == SIM_OFF)
			drop_chunks(end);
		else
			sim_at(sim.now + RETRANSMIT, deliver, end, 0);
		return;
	}
	bool is_slow = end->host && meets(&end->faults[SIM_NET_SLOW]);
	if (is_slow && sim.now < end->reads_at) {
		sim_at(end->reads_at, deliver, end, 0);
		return;
	}
	end->reads_at = sim.now + SLOW_PAUSE + (is_slow ? sim_draw(SLOW_PAUSE) : 0);
	bool is_cut_off = chunk->len && end->host && meets(&end->faults[SIM_NET_RESET]);
	end->coming -= chunk->len;
	if (is_cut_off)
		chunk->len = sim_draw(chunk->len);
	end->first = chunk->next;
	if (!end->first)
		end->last = &end->first;
	if (chunk->len || !is_cut_off)
		receive(end, chunk);
	if (is_cut_off)
		reset(end);
	free(chunk);
	if (end->first)
		sim_at(end->first->at, deliver, end, 0);
}

/* ---- connecting */

static struct sim_listener *find_listener(const char *address)
{
	for (struct sim_listener *one = listeners; one; one = one->next)
		if (one->host && strcmp(one->address, address) == 0)
			return one;
	return NULL;
}

/* An end that says nothing finds out all the same that the other one is gone. */
static void probe(void *user, uint64_t number)
{
	struct end *end = user;
	const struct end *other = end->other;
	bool is_blocked_now = is_blocked(end->machine, other->machine) ||
			      is_blocked(other->machine, end->machine) ||
			      other->machine->power == SIM_OFF ||
			      sim.now < end->faults[SIM_NET_STALL].until;
	if (!end->host || end->failure.code || end->is_at_end)
		return;
	if (!is_blocked_now)
		end->probed = sim.now;
	if (!is_blocked_now && !other->host && !end->first)
		fail_end(end, TFC_ELOST, "connection reset by peer");
	else if (sim.now - end->probed > KEEPALIVE_LOST)
		fail_end(end, TFC_ELOST, "connection timed out");
	else
		sim_at(sim.now + KEEPALIVE, probe, end, 0);
}

static void watch(struct end *end)
{
	end->probed = sim.now;
	if (!end->is_unix)
		sim_at(sim.now + KEEPALIVE, probe, end, 0);
}

static void connected(void *user, uint64_t number)
{
	struct end *end = user;
	end->is_connected = true;
	watch(end);
	wake(end, TFC_PIPE_EVENT_READABLE | TFC_PIPE_EVENT_WRITABLE);
}

static const struct sim_machine *machine_of(const char *address)
{
	for (uint32_t i = 0; i < SIM_MACHINES; i++)
		if (strcmp(sim.machines[i].address, address) == 0)
			return &sim.machines[i];
	return NULL;
}

/* The first packet has come to where the address is; or it has not, and is sent again. */
static void arrive(void *user, uint64_t number)
{
	struct end *end = user, *there = end->other;
	const struct sim_machine *to = there->machine;
	struct sim_listener *listener = find_listener(end->to);
	if (!end->host)
		return;
	if (is_blocked(end->machine, to) || is_blocked(to, end->machine) || to->power == SIM_OFF) {
		if (sim.now - end->dialed > CONNECT)
			fail_end(end, TFC_EUNREACH, "connection timed out");
		else
			sim_at(sim.now + SIM_SECOND, arrive, end, 0);
		return;
	}
	if (!end->is_unix && !end->was_late && meets(&delays[to->number])) {
		end->was_late = true;
		sim_at(sim.now + SIM_SECOND / 2 + sim_draw(8 * SIM_SECOND), arrive, end, 0);
		return;
	}
	if (!listener || (!end->is_unix && meets(&refusals[to->number]))) {
		fail_end(end, TFC_EUNREACH, "connection refused");
		return;
	}
	there->host = listener->host;
	there->is_connected = true;
	sim_enter(listener->host);
	int code = tfc_listener_accept(listener->listener, there, &there->pipe);
	sim_leave();
	if (code < 0) {
		there->host = NULL;
		fail_end(end, TFC_ELOST, "connection reset by peer");
		return;
	}
	watch(there);
	sim_at(sim.now + delay(end), connected, end, 0);
}

static void letter_arrive(void *user, uint64_t number)
{
	struct letter *letter = user;
	const struct sim_machine *to = machine_of(letter->to);
	struct sim_listener *listener = find_listener(letter->to);
	if (letter->is_acknowledged || sim.now > letter->until || letter->from->power == SIM_OFF)
		return;
	sim_at(sim.now + SIM_SECOND, letter_arrive, letter, 0);
	if (!to || !listener || to->power == SIM_OFF || is_blocked(letter->from, to) ||
	    is_blocked(to, letter->from) || meets(&refusals[to->number]))
		return;
	struct end *here = end_new(NULL, letter->from), *there = end_new(listener->host, to);
	here->other = there;
	there->other = here;
	here->letter = letter;
	here->is_connected = there->is_connected = true;
	tfc__buf_add(&there->in, letter->bytes, letter->len);
	sim_enter(listener->host);
	int code = tfc_listener_accept(listener->listener, there, &there->pipe);
	sim_leave();
	if (code < 0)
		there->host = NULL;
	else
		wake(there, TFC_PIPE_EVENT_READABLE);
}

void sim_net_post(const struct sim_machine *from, const char *to, const uint8_t *bytes, size_t len,
		  uint64_t later)
{
	struct letter *letter = calloc(1, sizeof(*letter));
	if (!letter || len > sizeof(letter->bytes))
		abort();
	*letter = (struct letter){.next = letters,
				  .from = from,
				  .until = sim.now + later + 10 * SIM_SECOND,
				  .len = len};
	letters = letter;
	snprintf(letter->to, sizeof(letter->to), "%s", to);
	memcpy(letter->bytes, bytes, len);
	sim_at(sim.now + later, letter_arrive, letter, 0);
}

static int dial(void *user, const char *address, uint32_t flags, tfc_pipe *pipe, void **ret_state,
		tfc_error *error)
{
	bool is_unix = strncmp(address, "unix:", 5) == 0;
	const struct sim_machine *to = is_unix ? sim.kernel : machine_of(address);
	if (!to)
		return tfc__fail(error, TFC_EUNREACH, "transport", 0, "%s: no such host", address);
	struct end *here = end_new(sim.current, sim.kernel), *there = end_new(NULL, to);
	here->other = there;
	there->other = here;
	here->is_unix = there->is_unix = is_unix;
	here->pipe = pipe;
	here->dialed = sim.now;
	snprintf(here->to, sizeof(here->to), "%s", address);
	sim_at(sim.now + delay(there), arrive, here, 0);
	*ret_state = here;
	return TFC_OK;
}

static int listen_at(void *user, const char *address, uint32_t flags, tfc_listener *listener,
		     void **ret_state, tfc_error *error)
{
	if (find_listener(address))
		return tfc__fail(error, TFC_EBUSY, "transport", 0, "%s is in use", address);
	struct sim_listener *one = calloc(1, sizeof(*one));
	if (!one)
		abort();
	one->host = sim.current;
	one->listener = listener;
	one->next = listeners;
	snprintf(one->address, sizeof(one->address), "%s", address);
	listeners = one;
	*ret_state = one;
	return TFC_OK;
}

static const char *listener_address(void *state)
{
	return ((struct sim_listener *)state)->address;
}

static void listener_close(void *state)
{
	((struct sim_listener *)state)->host = NULL;
}

/* ---- one end */

static int describe(void *state, tfc_pipe_info *info, tfc_error *error)
{
	const struct end *end = state;
	if (end->failure.code) {
		*error = end->failure;
		return error->code;
	}
	if (!end->is_connected)
		return TFC_ESTATE;
	snprintf(info->address, sizeof(info->address), "%s", end->other->machine->address);
	if (end->is_unix) {
		info->flags = TFC_PIPE_FLAG_HAS_USER;
		info->uid = geteuid();
		info->gid = getegid();
	}
	return TFC_OK;
}

static int64_t read_some(void *state, void *data, size_t len, tfc_error *error)
{
	struct end *end = state;
	size_t waiting = end->in.len - end->at;
	size_t count = waiting < len ? waiting : len;
	if (!waiting && end->failure.code) {
		*error = end->failure;
		return error->code;
	}
	if (!waiting && end->is_at_end)
		return tfc__fail(error, TFC_ELOST, "transport", 0,
				 "the peer closed the connection");
	if (!count)
		return 0;
	memcpy(data, end->in.data + end->at, count);
	end->at += count;
	if (end->at == end->in.len) {
		tfc__buf_clear(&end->in);
		end->at = 0;
	}
	if (end->wants_room)
		wake(end->other, TFC_PIPE_EVENT_WRITABLE);
	end->wants_room = false;
	return (int64_t)count;
}

static int64_t write_some(void *state, const void *data, size_t len, tfc_error *error)
{
	struct end *end = state, *other = end->other;
	if (end->failure.code) {
		*error = end->failure;
		return error->code;
	}
	if (!end->is_connected)
		return 0;
	size_t taken = other->coming + other->in.len - other->at;
	size_t most = sim.now < other->faults[SIM_NET_SLOW].until ? SLOW_ROOM : ROOM;
	size_t room = taken < most ? most - taken : 0;
	size_t count = len < room ? len : room;
	other->wants_room = count < len;
	if (count)
		send_chunk(other, data, count);
	return (int64_t)count;
}

static void want(void *state, uint32_t events)
{
}

/* By its host: the other end reads what is on its way, then the end. */
static void close_end(void *state)
{
	struct end *end = state;
	end->host = NULL;
	end->pipe = NULL;
	end->is_closed = true;
	tfc__buf_fini(&end->in);
	if (end->is_connected && !end->failure.code && end->other->host)
		send_chunk(end->other, NULL, 0);
}

void sim_net_lose_host(struct sim_host *host, bool has_power)
{
	for (struct sim_listener *one = listeners; one; one = one->next)
		if (one->host == host)
			one->host = NULL;
	for (size_t i = 0; i < end_count; i++) {
		struct end *end = ends[i];
		if (end->host != host)
			continue;
		if (has_power) {
			close_end(end);
		} else {
			end->host = NULL;
			end->pipe = NULL;
			drop_chunks(end->other); /* what its kernel had not sent */
		}
	}
}

uint32_t sim_net_count(const struct sim_host *host)
{
	uint32_t count = 0;
	for (size_t i = 0; i < end_count; i++)
		count += ends[i]->host == host;
	for (const struct sim_listener *one = listeners; one; one = one->next)
		count += one->host == host;
	return count;
}

static bool is_alive(const struct end *end)
{
	return end->host && end->other->host && end->is_connected && !end->failure.code;
}

/* One of the connections that are alive, drawn by that number; NULL: there is none. */
static struct end *find_alive(uint64_t which, bool may_be_unix)
{
	size_t count = 0;
	for (size_t i = 0; i < end_count; i++)
		count += is_alive(ends[i]) && (may_be_unix || !ends[i]->is_unix);
	if (!count)
		return NULL;
	which %= count;
	for (size_t i = 0;; i++)
		if (is_alive(ends[i]) && (may_be_unix || !ends[i]->is_unix) && which-- == 0)
			return ends[i];
}

bool sim_net_reset(uint64_t which)
{
	struct end *end = find_alive(which, true);
	if (end)
		reset(end);
	return end;
}

void sim_net_break(enum sim_net_fault how, uint64_t which, uint64_t until, bool *ret_hit)
{
	struct end *end = find_alive(which, false);
	const struct net_fault fault = {until, ret_hit};
	if (!end)
		return;
	end->faults[how] = fault;
	if (how == SIM_NET_STALL)
		end->other->faults[how] = fault;
}

void sim_net_refuse(const struct sim_machine *machine, uint64_t until, bool *ret_hit)
{
	refusals[machine->number] = (struct net_fault){until, ret_hit};
}

void sim_net_delay(const struct sim_machine *machine, uint64_t until, bool *ret_hit)
{
	delays[machine->number] = (struct net_fault){until, ret_hit};
}

/* ---- in place of lib/builtins.c */

#define OPS(name, its_traits)                                                              \
	{                                                                                  \
		.size = sizeof(tfc_transport_ops), .traits = its_traits, .scheme = name,   \
		.dial = dial, .listen = listen_at, .listener_address = listener_address,   \
		.listener_close = listener_close, .describe = describe, .read = read_some, \
		.write = write_some, .want = want, .close = close_end,                     \
	}

static const tfc_transport_ops tcp = OPS("tcp", 0);
static const tfc_transport_ops unix_ops = OPS("unix", TFC_TRANSPORT_TRAIT_AUTHENTIC);

const struct tfc__builtin_transport tfc__builtin_transports[] = {
	{&tcp, NULL, false},
	{&unix_ops, NULL, false},
	{NULL, NULL, false},
};
