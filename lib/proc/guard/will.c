/*
 * The node's last will (proc/will.h): sent when the host is dead and everything that it started has
 * ended, over tcp to each address, and in datagrams where the receiver has a socket for them.
 * The guard does not know what it sends; it has no keys.
 */
#include "guard.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/sweep.h"

#define EVIDENCE_MS 1000 /* until the host is reported dead, and until all children are reaped */
#define FIRST_MS 100     /* responses are awaited that long before directories are removed */
#define CONNECTION_MS 1000
#define PAUSE_MS 50 /* before another connection or datagram; doubles up to: */
#define PAUSE_MAX_MS 1000
#define LEASE_MS 10000 /* how long the will is sent, unless a lease here was longer */

void will_set(struct guard *guard, const void *text, size_t len)
{
	guard->will.is_set = len == sizeof(guard->will.text);
	if (guard->will.is_set)
		memcpy(&guard->will.text, text, len);
}

void will_set_addresses(struct guard *guard, uint32_t count, const void *addresses, size_t len)
{
	struct will *will = &guard->will;
	if (count > TFC__WILL_ADDRESSES || len != count * sizeof(struct tfc__will_address))
		return;
	for (will->count = 0; will->count < count; will->count++) {
		struct will_target *target = &will->targets[will->count];
		*target = (struct will_target){.fd = -1,
					       .pause_ms = PAUSE_MS,
					       .datagram_pause_ms = PAUSE_MS};
		memcpy(&target->address,
		       (const char *)addresses + will->count * sizeof(target->address),
		       sizeof(target->address));
	}
}

/* ---- the evidence */

/* Only the pidfd proves it: a host that executed another program has closed its socket as well. */
static bool will_host_is_dead(void)
{
	struct pollfd host = {.fd = TFC__GUARD_PIDFD, .events = POLLIN};
	return poll(&host, 1, EVIDENCE_MS) > 0;
}

/* Whatever the tasks have left behind was adopted, so the guard without children is alone. */
static bool will_is_alone(const struct guard *guard)
{
	struct pollfd signals = {.fd = guard->signals, .events = POLLIN};
	struct signalfd_siginfo info;
	uint64_t until = tfc__boot_time() + EVIDENCE_MS * TFC__MS;
	do {
		pid_t pid;
		(void)!read(guard->signals, &info, sizeof(info)); /* else poll would not wait */
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0)
			return errno == ECHILD;
		tfc__sweep(getpid(), NULL, NULL);
		poll(&signals, 1, EVIDENCE_MS / 100);
	} while (tfc__boot_time() < until);
	return false;
}

/* ---- over tcp */

static uint32_t next_pause(uint32_t pause_ms)
{
	return pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
}

static socklen_t target_sockaddr(const struct tfc__will_address *address,
				 struct sockaddr_storage *ret_sockaddr)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(address->port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons(address->port),
				  .sin6_scope_id = address->scope};
	memcpy(&v4.sin_addr, address->ip, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, address->ip, sizeof(v6.sin6_addr));
	socklen_t len = address->is_ipv6 ? sizeof(v6) : sizeof(v4);
	memcpy(ret_sockaddr, address->is_ipv6 ? (const void *)&v6 : &v4, len);
	return len;
}

static void target_close(struct will_target *target, uint64_t now)
{
	if (target->fd >= 0)
		close(target->fd);
	target->fd = -1;
	target->is_sent = false;
	target->received = 0;
	target->at = now + target->pause_ms * TFC__MS;
	target->pause_ms = next_pause(target->pause_ms);
}

static void target_connect(struct will_target *target, uint64_t now)
{
	struct sockaddr_storage to;
	socklen_t len = target_sockaddr(&target->address, &to);
	target->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (target->fd < 0 ||
	    (connect(target->fd, (const struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS))
		target_close(target, now);
	else
		target->at = now + CONNECTION_MS * TFC__MS;
}

static void target_acknowledge(struct will_target *target, const uint8_t ack[TFC__WILL_ACK],
			       const struct tfc__will_text *text, uint64_t now)
{
	target->is_acknowledged = memcmp(ack, text->ack, sizeof(text->ack)) == 0;
	if (target->is_acknowledged && target->fd >= 0)
		target_close(target, now);
}

/* The connection can be written or read, or has failed. */
static void target_go_on(struct will_target *target, const struct tfc__will_text *text,
			 uint64_t now)
{
	ssize_t len;
	if (!target->is_sent) {
		len = send(target->fd, text->message, sizeof(text->message), MSG_NOSIGNAL);
		target->is_sent = len == (ssize_t)sizeof(text->message);
		if (!target->is_sent)
			target_close(target, now);
		return;
	}
	len = recv(target->fd, target->ack + target->received,
		   sizeof(target->ack) - target->received, 0);
	if (len > 0)
		target->received += (uint32_t)len;
	else if (len == 0 || errno != EAGAIN)
		target_close(target, now);
	if (target->received < sizeof(target->ack))
		return;
	target_acknowledge(target, target->ack, text, now);
	if (!target->is_acknowledged)
		target_close(target, now);
}

/* ---- in datagrams */

/* The sockets are not connected: an ICMP message about one address does not concern the others. */
static void target_send_datagram(struct will *will, struct will_target *target, uint64_t now)
{
	struct sockaddr_storage to;
	socklen_t len = target_sockaddr(&target->address, &to);
	int *fd = &will->datagrams[target->address.is_ipv6 ? 1 : 0];
	if (*fd < 0)
		*fd = socket(to.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	sendto(*fd, will->text.message, sizeof(will->text.message), MSG_NOSIGNAL,
	       (const struct sockaddr *)&to, len);
	target->datagram_at = now + target->datagram_pause_ms * TFC__MS;
	target->datagram_pause_ms = next_pause(target->datagram_pause_ms);
}

static bool target_is_at(const struct will_target *target, const struct sockaddr_storage *from)
{
	const struct tfc__will_address *address = &target->address;
	const struct sockaddr_in *v4 = (const void *)from;
	const struct sockaddr_in6 *v6 = (const void *)from;
	if (address->is_ipv6)
		return from->ss_family == AF_INET6 && ntohs(v6->sin6_port) == address->port &&
		       memcmp(&v6->sin6_addr, address->ip, sizeof(v6->sin6_addr)) == 0;
	return from->ss_family == AF_INET && ntohs(v4->sin_port) == address->port &&
	       memcmp(&v4->sin_addr, address->ip, sizeof(v4->sin_addr)) == 0;
}

static void will_receive_datagram(struct will *will, int fd, uint64_t now)
{
	uint8_t ack[TFC__WILL_ACK + 1]; /* a longer datagram is recognized */
	struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof(from);
	if (recvfrom(fd, ack, sizeof(ack), 0, (struct sockaddr *)&from, &len) != TFC__WILL_ACK)
		return;
	for (uint32_t i = 0; i < will->count; i++)
		if (!will->targets[i].is_acknowledged && target_is_at(&will->targets[i], &from))
			target_acknowledge(&will->targets[i], ack, &will->text, now);
}

/* ---- until all have acknowledged it */

/* Sends what is due, and returns when something is due next. */
static uint64_t target_send(struct will *will, struct will_target *target, uint64_t now)
{
	if (target->at <= now) {
		if (target->fd >= 0)
			target_close(target, now);
		else
			target_connect(target, now);
	}
	if (!target->address.has_datagrams)
		return target->at;
	if (target->datagram_at <= now)
		target_send_datagram(will, target, now);
	return target->at < target->datagram_at ? target->at : target->datagram_at;
}

/* Sends where that is due, and waits until something happens or `until`. False: all is done. */
static bool will_send_turn(struct will *will, uint64_t until)
{
	struct pollfd fds[TFC__WILL_ADDRESSES + 2];
	uint64_t now = tfc__boot_time(), next = until;
	bool is_missing = false;
	for (uint32_t i = 0; i < will->count; i++) {
		struct will_target *target = &will->targets[i];
		uint64_t at = target->is_acknowledged ? until : target_send(will, target, now);
		is_missing |= !target->is_acknowledged;
		if (at < next)
			next = at;
		fds[i] = (struct pollfd){.fd = target->fd,
					 .events = target->is_sent ? POLLIN : POLLOUT};
	}
	for (uint32_t i = 0; i < 2; i++)
		fds[will->count + i] = (struct pollfd){.fd = will->datagrams[i], .events = POLLIN};
	if (!is_missing || now >= until)
		return false;
	poll(fds, will->count + 2, next > now ? (int)((next - now) / TFC__MS) + 1 : 0);
	now = tfc__boot_time();
	for (uint32_t i = 0; i < will->count; i++)
		if (fds[i].fd >= 0 && fds[i].revents)
			target_go_on(&will->targets[i], &will->text, now);
	for (uint32_t i = 0; i < 2; i++)
		if (fds[will->count + i].revents & POLLIN)
			will_receive_datagram(will, will->datagrams[i], now);
	return true;
}

static void will_send(struct will *will, uint64_t ms)
{
	uint64_t until = tfc__boot_time() + ms * TFC__MS;
	while (will_send_turn(will, until))
		;
}

void will_open(struct guard *guard)
{
	struct will *will = &guard->will;
	will->datagrams[0] = will->datagrams[1] = -1;
	will->is_set = will->is_set && will->count && will_host_is_dead() && will_is_alone(guard);
	if (will->is_set)
		will_send(will, FIRST_MS);
}

void will_finish(struct guard *guard)
{
	uint64_t ms = LEASE_MS;
	for (uint32_t i = 0; i < guard->core.lease_count; i++)
		if (guard->core.leases[i].length_ms > ms)
			ms = guard->core.leases[i].length_ms;
	if (guard->will.is_set)
		will_send(&guard->will, ms);
}
