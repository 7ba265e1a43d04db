/*
 * The logs here of jobs that other nodes keep. Each such job's log directory says in a file which
 * node that is; its time is when the node was last heard to have the job.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/names.h"

#define OWNER "maintainer" /* a log's file has a '-' in its name */

static struct tfc__guest *find(struct tfc__agent *agent, const char *id)
{
	TFC__LIST_EACH (link, &agent->guests) {
		struct tfc__guest *guest = tfc__container_of(link, struct tfc__guest, link);
		if (strcmp(guest->id, id) == 0)
			return guest;
	}
	return NULL;
}

/* NULL: out of memory. */
static struct tfc__guest *add(struct tfc__agent *agent, const char *id)
{
	struct tfc__guest *guest = calloc(1, sizeof(*guest));
	if (!guest)
		return NULL;
	snprintf(guest->id, sizeof(guest->id), "%s", id);
	tfc__list_append(&agent->guests, &guest->link);
	return guest;
}

static bool name_file(const struct tfc__agent *agent, const char *id, char *path, size_t size)
{
	return snprintf(path, size, "%s/%s/" OWNER, agent->log_dir, id) < (int)size;
}

/* ---- what is there when the agent is opened */

static void load(struct tfc__agent *agent, const char *id)
{
	char path[4096];
	struct stat status;
	struct tfc__guest *guest;
	if (!name_file(agent, id, path, sizeof(path)) || stat(path, &status) < 0 ||
	    !(guest = add(agent, id)))
		return;
	tfc__read_text(path, guest->maintainer, sizeof(guest->maintainer));
	guest->heard_ns = (uint64_t)status.st_mtim.tv_sec * TFC__SECOND;
}

void tfc__remote_job_logs_load(struct tfc__agent *agent)
{
	DIR *dir = agent->log_dir ? opendir(agent->log_dir) : NULL;
	const struct dirent *entry;
	while (dir && (entry = readdir(dir)))
		if (tfc__is_job_id(entry->d_name))
			load(agent, entry->d_name);
	if (dir)
		closedir(dir);
}

/* ---- what comes and goes */

/* Without the file they are nobody's after the next start, and stay. */
static void write_owner(const struct tfc__agent *agent, const struct tfc__guest *guest)
{
	char path[4096];
	int fd = name_file(agent, guest->id, path, sizeof(path))
			 ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)
			 : -1;
	if (fd < 0)
		return;
	if (tfc__write_all(fd, guest->maintainer, strlen(guest->maintainer)) < 0)
		unlink(path);
	close(fd);
}

static bool renew(const struct tfc__agent *agent, const struct tfc__guest *guest)
{
	char path[4096];
	return name_file(agent, guest->id, path, sizeof(path)) &&
	       utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0;
}

void tfc__agent_guest_heard(struct tfc__agent *agent, const char *id, const char *maintainer)
{
	if (!agent->log_dir)
		return;
	struct tfc__guest *guest = find(agent, id);
	if (!guest && !(guest = add(agent, id)))
		return;
	guest->heard_ns = tfc__wall();
	if (strcmp(guest->maintainer, maintainer) == 0 && renew(agent, guest))
		return;
	snprintf(guest->maintainer, sizeof(guest->maintainer), "%s", maintainer);
	write_owner(agent, guest);
}

void tfc__remote_job_logs_remove(struct tfc__agent *agent, const char *id)
{
	struct tfc__guest *guest = find(agent, id);
	if (!guest)
		return;
	tfc__list_remove(&guest->link);
	free(guest);
}

const struct tfc__link *tfc__agent_guests(const struct tfc__agent *agent)
{
	return &agent->guests;
}

void tfc__remote_job_logs_close(struct tfc__agent *agent)
{
	TFC__LIST_EACH (link, &agent->guests)
		free(tfc__container_of(link, struct tfc__guest, link));
}
