/*
 * A host that keeps what a watch reports, by the rules of tfc_gateway_watch, and checks each event
 * by them. All jobs that it watches are named "watched".
 */
#ifndef TEST_LIB_WATCHER_H
#define TEST_LIB_WATCHER_H

#include "node_run.h"

#define WATCHED_JOBS_MAX 256
#define WATCHED_NODES_MAX 4

struct watched_job {
	char id[17];
	char node[64];
	uint64_t version;
	uint32_t state;
	uint32_t submitted; /* how often each event came */
	uint32_t ended;
	uint64_t submitted_ns;
	tfc_event end; /* its numbers */
	bool is_forgotten;
	bool is_marked; /* reported since the reset of its node */
};

struct watched_node {
	char name[64];
	bool is_seen;
	bool is_in_replay;
	uint32_t resets;
	uint32_t unseen;
	uint32_t seen;
};

struct watcher {
	struct node_run *run;
	tfc_sub *sub;
	struct watched_job jobs[WATCHED_JOBS_MAX];
	uint32_t job_count;
	struct watched_node nodes[WATCHED_NODES_MAX];
	uint32_t lives;
	uint32_t events;
	uint32_t act_at; /* at this event `act` is called; 0: never */
	void (*act)(struct watcher *watcher);
	void *act_on;
	int32_t lost; /* code of LOST */
	char cursor[1024];
};

/* Opens a watch, from the beginning or behind a cursor; what was kept before stays. The test closes
 * watcher->sub. */
void watcher_open(struct watcher *watcher, struct node_run *run, const char *cursor);

/* NULL: no event of the job has come. */
struct watched_job *watcher_job(struct watcher *watcher, const char *id);
/* Made at its first use. */
struct watched_node *watcher_node(struct watcher *watcher, const char *name);

void watcher_await_live(struct watcher *watcher);
/* Dispatches until the condition holds for a job or a node. */
typedef bool (*watcher_condition)(struct watcher *watcher, const char *what);
void watcher_await(struct watcher *watcher, watcher_condition is_met, const char *what);
bool watcher_has_ended(struct watcher *watcher, const char *job);
bool watcher_has_forgotten(struct watcher *watcher, const char *job);
bool watcher_sees(struct watcher *watcher, const char *node);
bool watcher_does_not_see(struct watcher *watcher, const char *node);

/* Jobs that end at once, and that last; in node_json's form. */
#define WATCHED_QUICK \
	"{'name':'watched','framework':'none','argv':['/bin/true'],'roles':{'worker':{}}}"
#define WATCHED_LASTING                                                              \
	"{'name':'watched','framework':'none','argv':['/bin/sleep','1000'],'roles':" \
	"{'worker':{}}}"

/* As node_submit, of a job in node_json's form. */
char *watched_submit(struct node_run *run, const char *job);

#endif
