/*
 * `tfc_run node`: a member of a cluster. Like `local`, it is an ordinary host of the library: a
 * context, a node, and an event loop.
 */
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <tfcluster/tfcluster.h>
#include <unistd.h>

#include "node_options.h"
#include "output.h"
#include "tfc_run.h"

#define LARGE_BUFFER (64 << 10) /* bytes; from this size on malloc uses mmap */
#define TRIM_EVERY_NS (5 * UINT64_C(1000000000))

struct node {
	const struct node_options *options;
	int signals; /* signalfd */
	int manager; /* a connected socket of the service manager, or -1 */
	tfc_ctx *ctx;
	tfc_node *node;
	tfc_member_watch *watch;
	bool has_times; /* its messages begin with the time */
	bool is_leaving;
	bool is_done;
	int status;
};

static void node_fail(struct node *node, const char *text)
{
	complain("%s", text ? text : tfc_ctx_error(node->ctx)->text);
	node->status = RUN_FAILED;
	node->is_done = true;
}

/* The journal of systemd adds the time itself: sd_journal_stream_fd(3). */
static bool is_stderr_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, inode;
	struct stat stat;
	return stream && sscanf(stream, "%llu:%llu", &dev, &inode) == 2 &&
	       fstat(STDERR_FILENO, &stat) == 0 && stat.st_dev == dev && stat.st_ino == inode;
}

static void node_write_log(const struct node *node, const char *text)
{
	char time[TIME_SIZE + 1] = "";
	char *line = message_line(text);
	if (node->has_times) {
		time_text(wall_ns(), time);
		strcat(time, " ");
	}
	fprintf(stderr, "%stfc_run: %s\n", time, line);
	free(line);
}

static void node_message(const struct node *node, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void node_message(const struct node *node, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!node->options->is_quiet)
		node_write_log(node, text);
}

/* Prints one object per line on stdout. Takes ownership of `event`. */
static void print_event(json_t *event)
{
	char time[TIME_SIZE], *text = NULL;
	time_text(wall_ns(), time);
	if (!event || json_object_set_new(event, "time", json_string(time)) < 0 ||
	    !(text = json_dumps(event, JSON_COMPACT)))
		die_without_memory();
	char *line = printable(text, "");
	puts(line);
	fflush(stdout);
	free(line);
	free(text);
	json_decref(event);
}

/* ---- callbacks of the library */

static void node_on_log(void *user, const tfc_log_entry *entry)
{
	char *text;
	if (asprintf(&text, "%s%s%s", entry->subject, *entry->subject ? ": " : "", entry->text) < 0)
		die_without_memory();
	node_write_log(user, text);
	free(text);
}

static void node_on_member(void *user, uint32_t change, const tfc_member_info *member)
{
	struct node *node = user;
	const char *state = change == TFC_MEMBER_EVENT_REMOVED
				    ? "removed"
				    : tfc_member_state_name(member->state);
	bool is_unknown = member->state == TFC_MEMBER_DOWN && !member->was_reached;
	if (node->options->is_json)
		print_event(json_pack("{ss ss ss* ss sb}", "event", "member", "name", member->name,
				      "address", member->address, "state", state, "draining",
				      (int)member->is_draining));
	if (!member->is_self && is_unknown && change != TFC_MEMBER_EVENT_REMOVED)
		node_message(node, "node %s has not been reached yet", member->name);
	else if (!member->is_self)
		node_message(node, "node %s %s %s%s", member->name,
			     member->state == TFC_MEMBER_LEFT && change != TFC_MEMBER_EVENT_REMOVED
				     ? "has"
				     : "is",
			     state,
			     member->is_draining && member->state == TFC_MEMBER_ALIVE ? ", draining"
										      : "");
}

static void node_on_refused(void *user, const tfc_error *error)
{
	node_fail(user, error->text);
}

static void node_on_left(void *user)
{
	struct node *node = user;
	node->is_done = true;
}

/* ---- the service manager (systemd, Type=notify) */

/* sd_notify(3): NOTIFY_SOCKET is the path of a datagram socket; '@' stands for an abstract one. The
 * tasks must not have the variable. */
static int open_manager(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	if (!len || len >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, path, len);
	if (*path == '@')
		address.sun_path[0] = '\0';
	unsetenv("NOTIFY_SOCKET");
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) == 0)
		return fd;
	complain("cannot connect to the service manager: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static void notify_manager(const struct node *node, const char *state)
{
	if (node->manager >= 0 && send(node->manager, state, strlen(state), MSG_NOSIGNAL) < 0)
		complain("cannot notify the service manager: %s", strerror(errno));
}

/* ---- signals */

static void node_on_signal(struct node *node, int number)
{
	if (node->is_leaving) {
		node_message(node, "stopping at once");
		node->status = 128 + number;
		node->is_done = true;
		return;
	}
	node_message(node,
		     "leaving; the tasks here move to other nodes or end; a second %s stops "
		     "at once",
		     number == SIGINT ? "Ctrl-C" : "signal");
	node->is_leaving = true;
	notify_manager(node, "STOPPING=1\nSTATUS=leaving the cluster");
	if (tfc_node_leave(node->node, node_on_left, node) < 0)
		node_fail(node, NULL);
}

static void node_read_signals(struct node *node)
{
	struct signalfd_siginfo info;
	while (!node->is_done && read(node->signals, &info, sizeof(info)) == sizeof(info))
		node_on_signal(node, (int)info.ssi_signo);
}

/* ---- opening and running */

static void node_report_ready(const struct node *node)
{
	const char *address = tfc_node_address(node->node, 0);
	json_t *listen = json_array();
	for (uint32_t i = 0; tfc_node_address(node->node, i); i++)
		json_array_append_new(listen, json_string(tfc_node_address(node->node, i)));
	if (node->options->is_json)
		print_event(json_pack("{ss ss ss sO}", "event", "node", "name", node->options->name,
				      "state", "ready", "listen", listen));
	json_decref(listen);
	node_message(node, "node %s is ready at %s", node->options->name,
		     address ? address : "nowhere");
	notify_manager(node, "READY=1");
}

static int node_open_ctx(struct node *node)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	ctx.helper_dir = getenv("TFC_HELPER_DIR"); /* for helpers that are not installed yet */
	ctx.log = node_on_log;
	ctx.log_user = node;
	ctx.log_level = node->options->is_verbose ? TFC_LOG_INFO : TFC_LOG_WARNING;
	if (tfc_ctx_new(&ctx, &error, &node->ctx) == TFC_OK)
		return 0;
	node_fail(node, error.text);
	return -1;
}

static void node_start(struct node *node)
{
	extern char **environ;
	const struct node_options *options = node->options;
	const tfc_node_hooks hooks = {.size = sizeof(hooks),
				      .user = node,
				      .refused = node_on_refused};
	if (node_open_ctx(node) < 0)
		return;
	if (tfc_node_open_json(node->ctx, options->json, strlen(options->json), NULL,
			       (const char *const *)environ, &hooks, &node->node) < 0 ||
	    tfc_member_watch_open(node->node, node_on_member, node, &node->watch) < 0)
		node_fail(node, NULL);
	else
		node_report_ready(node);
}

/*
 * A node runs for months: returns memory that was used for past requests to the system, at most
 * once in TRIM_EVERY_NS, and once after the last thing that the node did. Returns the milliseconds
 * until it wants to be called again, or -1.
 */
static int trim_heap(bool was_active)
{
#ifdef __GLIBC__
	static uint64_t trimmed_at;
	static bool is_due;
	uint64_t now = now_ns();
	is_due = is_due || was_active;
	if (!is_due)
		return -1;
	if (now - trimmed_at < TRIM_EVERY_NS)
		return (int)((trimmed_at + TRIM_EVERY_NS - now) / 1000000) + 1;
	trimmed_at = now;
	is_due = false;
	malloc_trim(0);
#endif
	return -1;
}

static void node_run_loop(struct node *node)
{
	int timeout_ms = -1;
	while (!node->is_done) {
		struct pollfd fds[] = {
			{.fd = node->signals, .events = POLLIN},
			{.fd = tfc_ctx_fd(node->ctx), .events = POLLIN},
		};
		int ready = poll(fds, 2, timeout_ms);
		if (ready < 0 && errno != EINTR)
			break;
		node_read_signals(node);
		if (!node->is_done && tfc_ctx_dispatch(node->ctx, 0) < 0)
			node_fail(node, NULL);
		timeout_ms = trim_heap(ready > 0);
	}
}

int node_main(int argc, char **argv)
{
	struct node_options options;
	struct node node = {.options = &options, .has_times = !is_stderr_journal()};
	enum options_result result = node_options_read(argc, argv, &options);
	if (result == OPTIONS_OK) {
#ifdef __GLIBC__
		mallopt(M_MMAP_THRESHOLD, LARGE_BUFFER); /* no holes in the heap */
#endif
		node.signals = signals_open();
		node.manager = open_manager();
		if (node.signals < 0)
			node_fail(&node, strerror(errno));
		else
			node_start(&node);
		node_run_loop(&node);
		tfc_member_watch_close(node.watch);
		tfc_node_close(node.node);
		tfc_ctx_free(node.ctx);
		close(node.signals);
		if (node.manager >= 0)
			close(node.manager);
	}
	node_options_end(&options);
	return result == OPTIONS_BAD ? RUN_FAILED : node.status;
}
