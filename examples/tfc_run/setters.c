/*
 * Setters of options.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "tfc_run.h"

int bad_value(const struct option *option, const char *value, const char *why)
{
	return complain("--%s%s%s: %s", option->name, *value ? " " : "", value, why);
}

int make_absolute(const char **path, char **ret_own)
{
	char *here, *whole;
	if (**path == '/')
		return 0;
	if (!(here = getcwd(NULL, 0)))
		return complain("cannot get the current directory: %s", strerror(errno));
	int len = asprintf(&whole, "%s/%s", here, *path);
	free(here);
	if (len < 0)
		return complain("out of memory");
	*path = *ret_own = whole;
	return 0;
}

int set_text(void *target, const struct option *option, const char *value)
{
	if (!*value)
		return bad_value(option, value, "must not be empty");
	*(const char **)((char *)target + option->at) = value;
	return 0;
}

int set_flag(void *target, const struct option *option, const char *value)
{
	*(bool *)((char *)target + option->at) = true;
	return 0;
}

int set_ports(void *target, const struct option *option, const char *value)
{
	uint16_t *ports = (uint16_t *)(void *)((char *)target + option->at);
	unsigned first, last;
	int end = 0;
	if (sscanf(value, "%5u-%5u%n", &first, &last, &end) != 2 || value[end] || value[0] == '-' ||
	    value[0] == '+')
		return bad_value(option, value, "must be a range LO-HI, such as 20000-29999");
	if (first > UINT16_MAX || last > UINT16_MAX)
		return bad_value(option, value, "the highest port is 65535");
	if (first == 0 || first > last)
		return bad_value(option, value,
				 first ? "the range is reversed" : "the lowest port is 1");
	ports[0] = (uint16_t)first;
	ports[1] = (uint16_t)last;
	return 0;
}

/* Reads a whole number up to `most`; *ret_end points to what follows. */
static bool read_number(const char *value, uint64_t most, uint64_t *ret_number, char **ret_end)
{
	errno = 0;
	*ret_number = strtoull(value, ret_end, 10);
	return *value >= '0' && *value <= '9' && errno == 0 && *ret_number <= most;
}

/* The library treats 0 as not set, so an explicit 0 is refused. */
#define AT_LEAST_1 "must be at least 1"

int set_number(void *target, const struct option *option, const char *value)
{
	uint64_t number;
	char *end;
	if (!read_number(value, UINT32_MAX, &number, &end) || *end)
		return bad_value(option, value, "must be a whole number");
	if (number == 0)
		return bad_value(option, value, AT_LEAST_1);
	*(uint32_t *)(void *)((char *)target + option->at) = (uint32_t)number;
	return 0;
}
