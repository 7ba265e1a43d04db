#include "base/rlimit.h"

#include <string.h>
#include <sys/resource.h>

static const struct {
	const char *name;
	uint32_t resource;
} names[] = {
	{"as", RLIMIT_AS},
	{"core", RLIMIT_CORE},
	{"cpu", RLIMIT_CPU},
	{"data", RLIMIT_DATA},
	{"fsize", RLIMIT_FSIZE},
	{"memlock", RLIMIT_MEMLOCK},
	{"msgqueue", RLIMIT_MSGQUEUE},
	{"nice", RLIMIT_NICE},
	{"nofile", RLIMIT_NOFILE},
	{"nproc", RLIMIT_NPROC},
	{"rss", RLIMIT_RSS},
	{"rtprio", RLIMIT_RTPRIO},
	{"rttime", RLIMIT_RTTIME},
	{"sigpending", RLIMIT_SIGPENDING},
	{"stack", RLIMIT_STACK},
};
#define COUNT (sizeof(names) / sizeof(names[0]))
_Static_assert(COUNT == TFC__RLIMITS, "as many as the header says");

const char *tfc__rlimit_name(uint32_t resource)
{
	for (size_t i = 0; i < COUNT; i++)
		if (names[i].resource == resource)
			return names[i].name;
	return NULL;
}

bool tfc__rlimit_find(const char *name, uint32_t *ret_resource)
{
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(names[i].name, name) == 0) {
			*ret_resource = names[i].resource;
			return true;
		}
	return false;
}

const char *tfc__rlimit_nth(size_t i)
{
	return i < COUNT ? names[i].name : NULL;
}
