/*
 * Whole nodes and clients on virtual time: the shipped objects of three machines and two clients in
 * one process (doc/internals/simulation.md). This header is what its files share.
 *
 * A machine is a kernel: clocks, a state directory, a store, ports. A host is a process on it that
 * has a context: a node, or a client. What belongs to no host outlives it: guards, their tasks, and
 * bytes on their way.
 */
#ifndef TEST_SIM_NODES_SIM_H
#define TEST_SIM_NODES_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/list.h"
#include <tfcluster/tfcluster.h>

#define SIM_NODES 3
#define SIM_CLIENTS 2
#define SIM_MACHINES (SIM_NODES + SIM_CLIENTS) /* each client has one of its own */
#define SIM_TASKS 3
#define SIM_FOLLOWERS (SIM_CLIENTS + 8) /* of the job: the clients, and passing ones */
#define SIM_PATH 160
#define SIM_UID 1000 /* of nodes and tasks; strangers have another */

#define SIM_MS UINT64_C(1000000)
#define SIM_SECOND UINT64_C(1000000000)

/* What a machine's kernel does with its processes. */
enum sim_power {
	SIM_RUNS,
	SIM_FROZEN,    /* no process steps, all clocks run, the kernel acknowledges what comes */
	SIM_SUSPENDED, /* nothing happens; the boot and the wall clock run */
	SIM_OFF,
};

struct sim_guard;
struct sim_store;

struct sim_machine {
	uint32_t number; /* from 0 */
	enum sim_power power;
	int32_t drift_ppm;
	uint64_t started;   /* what its clocks showed at time 0 */
	uint64_t suspended; /* time that its monotonic clock has not counted */
	uint64_t asleep_since;
	int64_t wall_ahead;
	char dir[SIM_PATH]; /* a folder of its own */
	char address[32];   /* "tcp://10.0.0.1:7400" */
	struct sim_store *store;
	struct sim_host *host; /* its node or client; NULL: it does not run */
	uint32_t incarnations;
	uint64_t thawed; /* true time */
};

struct sim_host {
	struct sim_machine *machine;
	tfc_ctx *ctx;
	tfc_node *node; /* NULL: it is a client, or has closed its node */
	tfc_member_watch *watch;
	uint32_t owner; /* of its descriptors */
	uint64_t wake;  /* its monotonic clock, for which its timer is set; 0: for none */
	bool is_leaving;
	bool is_dead;
};

struct sim {
	uint64_t seed;
	uint64_t now;    /* true time, ns */
	uint64_t random; /* state of the generator of all that is not a fault */
	uint64_t hash;   /* of all that happened */
	bool is_loud;
	bool is_waiting; /* a process blocks inside a call: only its machine and the network go on
			  */
	uint64_t waited_at; /* when a process went on that had blocked */
	uint64_t calm_at;
	uint64_t steps;
	char dir[SIM_PATH];
	char key_file[SIM_PATH];
	struct sim_machine machines[SIM_MACHINES];
	bool cuts[SIM_MACHINES][SIM_MACHINES]; /* from, to: nothing arrives */
	struct sim_host *current;              /* who runs now; NULL: the simulator */
	struct sim_machine *kernel;            /* on which machine; NULL: on none */
};

extern struct sim sim;

/* ---- sim.c */

uint64_t sim_draw(uint64_t below); /* from 0; not of faults */
/* Ends the process of a world. */
_Noreturn void sim_exit(int status);
/* Something that must be the same the next time. */
void sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A promise is broken: ends the run. */
_Noreturn void sim_broken(const char *promise, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Calls `fn` at a time. What it is about must still be there then. */
typedef void (*sim_event_fn)(void *user, uint64_t number);
void sim_at(uint64_t at, sim_event_fn fn, void *user, uint64_t number);
uint64_t sim_next_event(void); /* UINT64_MAX: none */
bool sim_run_event(void);      /* one that is due */
/* The current process blocks inside a call: a guard, an event, or else time goes on by a step. */
void sim_wait(uint64_t until);

/* ---- clock.c: three clocks a machine, and the library's calls that read or wait for them */

uint64_t sim_clock(const struct sim_machine *machine, clockid_t clock);
/* The true time at which a machine's clock shows that. */
uint64_t sim_true_time(const struct sim_machine *machine, clockid_t clock, uint64_t shown);

/* ---- fds.c: whose each descriptor is, so that a process can be killed */

uint32_t sim_new_owner(void);
uint32_t sim_set_owner(uint32_t owner); /* of what is opened from now on; the one before */
void sim_close_all(uint32_t owner);
uint32_t sim_count_fds(uint32_t owner);

/* ---- net.c: "tcp" and "unix" */

void sim_net_lose_host(struct sim_host *host, bool has_power); /* its kernel says goodbye, or not */
/* Its connections and listeners: each is a descriptor of the real transports. */
/* Sends a message without a process behind it, so much later, until it is acknowledged or for 10 s.
 */
#define SIM_LETTER 128 /* its longest */
void sim_net_post(const struct sim_machine *from, const char *to, const uint8_t *bytes, size_t len,
		  uint64_t later);
uint32_t sim_net_count(const struct sim_host *host);
bool sim_net_reset(uint64_t which); /* a connection; false: there is none */
enum sim_net_fault {
	SIM_NET_SLOW,  /* its host reads little, and seldom */
	SIM_NET_STALL, /* no byte of this connection moves */
	SIM_NET_RESET, /* in the middle of what it is sent next */
	SIM_NET_FAULTS,
};
/* One end of a connection, for a while; *ret_hit is set when a byte meets it. */
void sim_net_break(enum sim_net_fault how, uint64_t which, uint64_t until, bool *ret_hit);
/* Connections to a machine are refused, or take seconds. */
void sim_net_refuse(const struct sim_machine *machine, uint64_t until, bool *ret_hit);
void sim_net_delay(const struct sim_machine *machine, uint64_t until, bool *ret_hit);

/* ---- port.c: TCP ports, as the kernel of a machine knows them */

/* A process that listens, or may. */
struct sim_process {
	const struct sim_machine *machine;
	int32_t pid; /* 0: none */
	int32_t parent;
	uint32_t uid;
	char name[16];
};

/* Binds with SO_REUSEADDR, and listens. 0, or an errno. */
int sim_port_listen(const struct sim_process *process, uint16_t port);
void sim_port_close(const struct sim_machine *machine, int32_t pid); /* that process ends */
void sim_ports_lose_power(const struct sim_machine *machine);

/* A socket that is bound to any address of its machine. */
struct sim_port {
	uint16_t port;
	uint32_t inode;
	bool is_listening;
	const struct sim_process *process; /* NULL: a hold, of a node or its guard */
};
typedef void (*sim_port_fn)(void *user, const struct sim_port *port);
void sim_ports_each(const struct sim_machine *machine, sim_port_fn fn, void *user);
void sim_port_of_fd(int fd, uint16_t *ret_port, uint32_t *ret_inode); /* 0: it is none */

/* ---- guard.c, shim.c: guards, shims and tasks */

struct sim_task_view {
	const char *job; /* its id */
	const char *name;
	uint32_t attempt;
	const struct sim_machine *machine;
};
void sim_guards_step(void); /* all that have something to read */
bool sim_guards_are_ready(void);
void sim_guards_wake(const struct sim_machine *machine); /* it runs again */
void sim_guards_lose_power(const struct sim_machine *machine);
void sim_guards_kill(const struct sim_machine *machine); /* SIGKILL to its guards */
/* SIGSTOP and SIGCONT. False: there is none that could be stopped. */
bool sim_guards_stop(const struct sim_machine *machine);
void sim_guards_continue(const struct sim_machine *machine);
/* The same for a shim whose guard runs, one of those that there are. */
bool sim_shim_stop(const struct sim_machine *machine, uint64_t which);
bool sim_shims_are_stopped(const struct sim_machine *machine); /* one of them */
void sim_shims_continue(const struct sim_machine *machine);
bool sim_shim_kill_one(const struct sim_machine *machine, uint64_t which); /* SIGKILL */
uint32_t sim_guards_alive(const struct sim_machine *machine);
uint32_t sim_tasks_alive(void);

/* ---- store.c: a disk, and the helper process that has it */

/* What a disk does for a while. */
enum sim_disk_fault {
	SIM_DISK_FULL,
	SIM_DISK_FAILS, /* half of all requests, of which some are done all the same */
	SIM_DISK_SLOW,  /* each write takes seconds */
	SIM_DISK_HANGS, /* each write takes until the end */
	SIM_DISK_FAULTS,
};

struct sim_store *sim_store_new(struct sim_machine *machine);
void sim_store_lose_host(struct sim_store *store); /* what it was asked for may still be done */
void sim_store_lose_power(struct sim_store *store);
void sim_store_wake(struct sim_store *store); /* its machine runs again */
/* *ret_hit is set when something meets it. */
void sim_store_break(struct sim_store *store, enum sim_disk_fault how, uint64_t until,
		     bool *ret_hit);
/* SIGKILL to its helper at one of the requests that it begins until then. */
void sim_store_kill_helper(struct sim_store *store, uint64_t until, bool *ret_hit);
uint64_t sim_store_opens_at(const struct sim_store *store); /* now, or when its disk answers */
bool sim_store_may_refuse(const struct sim_store *store);   /* to be opened */
uint32_t sim_store_failed_removals(const struct sim_store *store); /* answered so, or not at all */
uint32_t sim_store_unreported_removals(const struct sim_store *store); /* of these: carried out */
uint32_t sim_store_jobs(const struct sim_store *store); /* job records, of any state */

/* ---- machine.c */

void sim_machine_init(struct sim_machine *machine, uint32_t number);
void sim_machine_start(struct sim_machine *machine);
void sim_machine_kill(struct sim_machine *machine); /* kill -9 of its node */
/* Its node leaves in order and is closed, or is closed at once; then the program ends. */
void sim_machine_leave(struct sim_machine *machine);
void sim_machine_close(struct sim_machine *machine);
void sim_machine_set_power(struct sim_machine *machine, enum sim_power power);
struct sim_host *sim_host_new(struct sim_machine *machine);
void sim_host_kill(struct sim_host *host);
/* Runs `fn` as that process. */
void sim_enter(struct sim_host *host);
void sim_leave(void);

/* ---- client.c: who submits the job and follows it */

void sim_client_start(uint32_t client);
void sim_client_kill(uint32_t client);          /* what it has written down outlives it */
bool sim_clients_are_done(void);                /* all have followed the job to its end */
const char *sim_client_job(void);               /* its id, once the first one knows it; or "" */
const char *sim_client_cursor(uint64_t client); /* NULL: it has seen nothing */
bool sim_client_has_ended(uint64_t client);     /* its cursor is that of the end */

/* ---- job.c: the job that is submitted, and what its programs do */

void sim_job_draw(void);
tfc_job *sim_job_new(void);
uint64_t sim_job_time(void); /* that it needs when nothing happens to it */
uint64_t sim_job_grace(void);
bool sim_job_is_ready_on_listen(void);

/* ---- requests.c, visitors.c, extra_jobs.c: what else is requested */

void sim_requests_begin(uint64_t mask); /* draws them */
uint64_t sim_requests_over(void);       /* when they change nothing any more */
void sim_requests_calm(void);           /* what is done at sim.calm_at */
bool sim_requests_are_answered(void);   /* those of hosts that are alive */
bool sim_requests_are_done(void);
void sim_requests_report(void);
void sim_requests_count(uint64_t *ret_made, uint64_t *ret_answered); /* adds */
uint32_t sim_requests_jobs(void); /* that they have submitted, at the end */
/* A program closes its gateways; all that it asked must be answered before it ends. */
void sim_requests_close(const struct sim_host *host);
void sim_requests_closed(const struct sim_host *host);

/* ---- referee.c: what is promised */

void sim_referee_started(const struct sim_task_view *task);
void sim_referee_ended(const struct sim_task_view *task);
void sim_referee_thawed(const struct sim_machine *machine); /* a while ago */
/* What follower `number` is notified of, in this order; a replay is judged by the first one's. */
void sim_referee_event(uint32_t number, const tfc_event *event);
/* An event as a host shows it. */
void sim_referee_json(const tfc_event *event);
/* A follower joins, from the start or, `like` a client, from where that one is. */
void sim_referee_follow(uint32_t number, uint32_t like);
bool sim_referee_has_ended(void); /* somebody was notified of the job's end */
void sim_referee_finish(void);

/* ---- referee_port.c: what is promised of ports */

/* A task is started whose port is held by the socket `hold`. */
struct sim_tenant {
	struct sim_task_view task;
	const struct sim_process *process;
	const struct sim_host *host; /* that started it */
	int32_t guard;
	uint16_t port;
	uint32_t hold;
	bool is_awaited; /* its program is to listen, and it is not ready before */
};
void sim_referee_port_given(const struct sim_tenant *tenant);
/* Its program has ended, by itself or not; held: by a guard that lives. */
void sim_referee_port_left(const struct sim_process *process, bool is_by_itself, bool is_held);
void sim_referee_bound(const struct sim_machine *machine, uint16_t port); /* somebody has it */
/* Its program could not bind its port. */
void sim_referee_port_refused(const struct sim_process *process);
void sim_referee_port_event(const tfc_event *event); /* for one of the followers */
bool sim_referee_ports_are_free(void);
void sim_referee_ports_finish(void);
/* ---- bounds.c: what no host may use more of, and what must be left once times are calm */

void sim_bounds_begin(void);
void sim_bounds_finish(void);

/* ---- world.c */

void sim_world_begin(const char *dir, uint64_t mask);
/* The key of a role: "node", "submit" or "read". */
void sim_key_file(const char *role, char ret_path[SIM_PATH + 8]);
/* Where the partitions of the upstream "grid" are. */
void sim_write_upstreams(uint64_t which);
void sim_world_run(void); /* to the end of the job; returns only if no promise was broken */

/* ---- faults.c */

#define SIM_FAULT_KINDS 28
const char *sim_fault_name(int kind);
bool sim_faults_leave_out(const char *name); /* false: there is no such kind */
void sim_faults_begin(uint64_t mask);        /* draws them; mask: which of them happen */
void sim_faults_count(uint64_t counts[SIM_FAULT_KINDS]); /* adds those that hit something */
uint64_t sim_faults_over(void);                          /* when the last one ends */
bool sim_faults_are_over_since(uint64_t since);          /* none was under way from then to now */
/* Nor on that machine; foreign listeners do not count. */
bool sim_faults_spare(const struct sim_machine *machine, uint64_t since);
void sim_faults_report(void);
bool sim_faults_have_foreign(const struct sim_machine *machine); /* that listens, or has */
/* From now on a program with SO_REUSEADDR can bind a port that is held. */
void sim_faults_window_opens(const struct sim_machine *machine, uint16_t port);

#endif
