/* proc: what the host believes of its guard. Whatever a program in the guard's place says, each
 * process has at most one end, nothing comes behind it, and a word that no guard of this version
 * says is the last one. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pass.h"
#include "ctx/ctx.h"
#include "fuzz.h"
#include "proc/guard.h"

#define PROCESSES 3
#define MESSAGES_MAX 24

static struct seen {
	tfc_process *process;
	unsigned started, exited;
} seen[PROCESSES];

static void on_event(void *user, const tfc_process_event *event)
{
	struct seen *one = user;
	CHECK(!one->exited);
	CHECK(event->text && memchr(event->text, '\0', 320));
	if (event->kind == TFC_PROCESS_STARTED)
		CHECK(event->pid > 0);
	one->started += event->kind == TFC_PROCESS_STARTED;
	one->exited += event->kind == TFC_PROCESS_EXITED;
	if (event->kind == TFC_PROCESS_EXITED && event->reason == TFC_EXIT_CODE)
		CHECK(event->status >= 0 && event->status <= 255);
	if (event->kind == TFC_PROCESS_EXITED && event->reason == TFC_EXIT_SIGNAL)
		CHECK(event->status > 0 && event->status <= 64);
}

static void ignore_work(struct tfc__work *work)
{
}

static void ignore_timer(struct tfc__timer *timer)
{
}

/* No program is started: the fuzzer is the guard. */
static void make_guard(struct tfc__guard *guard, tfc_ctx *ctx, int socket)
{
	*guard = (struct tfc__guard){.ctx = ctx};
	guard->socket.fd = socket;
	guard->pidfd.fd = guard->lifeline.fd = -1;
	tfc__list_init(&guard->link);
	tfc__list_init(&guard->queue);
	tfc__list_init(&guard->parked);
	tfc__list_init(&guard->releasing);
	tfc__list_init(&guard->keeps);
	tfc__timer_init(&guard->patience, ctx, ignore_timer);
	tfc__timer_init(&guard->heartbeat, ctx, ignore_timer);
	tfc__work_init(&guard->end, ctx, ignore_work);
	for (size_t i = 0; i < PROCESSES; i++) {
		tfc_process *process = calloc(1, sizeof(*process));
		CHECK(process);
		process->ctx = ctx;
		process->fn = on_event;
		process->user = &seen[i];
		process->program = strdup("program");
		seen[i] = (struct seen){process, 0, 0};
		CHECK(tfc__guard_add(guard, process) == TFC_OK);
	}
}

static void close_io(struct tfc__io *io)
{
	int fd = io->fd;
	tfc__io_close(io);
	if (fd >= 0)
		close(fd);
}

static void end_guard(struct tfc__guard *guard)
{
	for (size_t i = 0; i < PROCESSES; i++) {
		CHECK(seen[i].exited <= 1);
		CHECK(!seen[i].process->guard == (seen[i].exited == 1));
		tfc__process_free(seen[i].process);
	}
	close_io(&guard->socket);
	close_io(&guard->pidfd);
	close_io(&guard->lifeline);
	tfc__timer_cancel(&guard->patience);
	tfc__timer_cancel(&guard->heartbeat);
	tfc__work_cancel(&guard->end);
	tfc__guard_drop_queue(guard);
	tfc__list_remove(&guard->link);
	free(guard->table);
}

/* Fields that lead somewhere are made likely; the rest are the fuzzer's. */
static struct tfc__report make_report(struct fuzz_input *input, const struct tfc__guard *guard)
{
	struct tfc__report report = {0};
	uint8_t how = (uint8_t)fuzz_number(input, 1);
	size_t len;
	report.kind = TFC__MSG_HELLO + how % 10;
	uint8_t process = (uint8_t)fuzz_number(input, 1);
	report.id = process & 0x80
			    ? fuzz_number(input, 8)
			    : (uint64_t)(process % PROCESSES + 1) << 32 | process % PROCESSES;
	report.reason = (uint32_t)fuzz_number(input, 1) % 6;
	report.pid = (int32_t)fuzz_number(input, 4);
	report.status = how & 0x40 ? TFC__PROTOCOL_VERSION : (int32_t)fuzz_number(input, 4);
	report.step = (uint32_t)fuzz_number(input, 1);
	if (how & 0x80) {
		const uint8_t *bytes = fuzz_bytes(input, sizeof(report), &len);
		memcpy(&report, bytes, len);
	}
	return report;
}

/* As many descriptors as it likes, of the wrong kind. */
static void send_report(int socket, const struct tfc__report *report, size_t len, size_t fds)
{
	const int sent[4] = {socket, socket, socket, socket};
	struct iovec part = {(void *)report, len};
	CHECK(tfc__pass_send(socket, &part, 1, sent, fds, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0);
}

static void talk(struct fuzz_input *input, struct tfc__guard *guard, int socket)
{
	for (int i = 0; i < MESSAGES_MAX && input->len && !guard->is_dead; i++) {
		struct tfc__report report = make_report(input, guard);
		uint8_t odd = (uint8_t)fuzz_number(input, 1);
		size_t len = odd & 0x80 ? odd % sizeof(report) + 1 : sizeof(report);
		bool was_known = guard->is_known;
		bool is_fine = len == sizeof(report) && tfc__guard_report_is_valid(guard, &report);
		send_report(socket, &report, len, odd & 0x80 ? 0 : odd % 5);
		tfc__guard_receive(guard);
		CHECK(guard->is_dead == !is_fine);
		CHECK(guard->is_known == (was_known || (is_fine && report.kind == TFC__MSG_HELLO)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	struct tfc__guard guard, *none;
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx *ctx = NULL;
	int ends[2];
	options.helper_dir = "/nonexistent"; /* a real guard cannot be started */
	CHECK(tfc_ctx_new(&options, &error, &ctx) == TFC_OK);
	CHECK(tfc__guard_get(ctx, &none) < 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	make_guard(&guard, ctx, ends[0]);
	talk(&input, &guard, ends[1]);
	end_guard(&guard);
	close(ends[1]);
	tfc_ctx_free(ctx);
	return 0;
}
