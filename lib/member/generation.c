#include "member/generation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "member/gossip_core.h"
#include "wire/secret_file.h"

#define HEAD "tfcluster-generation 1 "

enum { GENERATION_FILE_MAX = 64 };

/* 0 if there is no file. */
static int generation_read(const char *path, tfc_error *error, uint32_t *ret_generation)
{
	char *text = NULL, *end = NULL;
	size_t len = 0;
	int code = tfc__secret_read(path, GENERATION_FILE_MAX, error, &text, &len);
	*ret_generation = 0;
	if (code == TFC_ENOENT)
		return TFC_OK;
	if (code < 0)
		return code;
	bool is_right = strncmp(text, HEAD, strlen(HEAD)) == 0 && text[strlen(HEAD)] >= '1' &&
			text[strlen(HEAD)] <= '9';
	unsigned long long number = is_right ? strtoull(text + strlen(HEAD), &end, 10) : 0;
	if (!is_right || strcmp(end, "\n") != 0 || number >= TFC__GOSSIP_LIMIT - 1)
		code = tfc__fail(
			error, TFC_EPARSE, "member", 0,
			"generation file \"%s\" is damaged; remove it, and the node gets a "
			"new one when it joins the other nodes",
			path);
	*ret_generation = (uint32_t)number;
	tfc__secret_free(text, len);
	return code;
}

static int generation_sync_directory(const char *directory, tfc_error *error)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = TFC_OK;
	if (fd < 0 || fsync(fd) < 0)
		code = tfc__fail_errno(error, "member", errno, "cannot sync \"%s\"", directory);
	if (fd >= 0)
		close(fd);
	return code;
}

/* The directory is locked by this node: nobody else writes the temporary file. */
static int generation_write(const char *directory, const char *path, uint32_t generation,
			    tfc_error *error)
{
	char line[GENERATION_FILE_MAX], *temp = tfc__path_join(directory, "generation.new");
	int len = snprintf(line, sizeof(line), HEAD "%u\n", generation);
	if (!temp)
		return tfc__fail_nomem(error, "member");
	unlink(temp);
	int code = tfc__secret_write(temp, line, (size_t)len, error);
	if (code == TFC_OK && rename(temp, path) < 0)
		code = tfc__fail_errno(error, "member", errno, "cannot write \"%s\"", path);
	if (code == TFC_OK)
		code = generation_sync_directory(directory, error);
	free(temp);
	return code;
}

int tfc__generation_next(const char *directory, uint32_t least, tfc_error *error,
			 uint32_t *ret_generation)
{
	const uint64_t year_2026 = UINT64_C(1767225600); /* counted from there, so that it fits */
	uint64_t wall = tfc__wall() / TFC__SECOND;
	uint32_t generation = wall > year_2026 ? (uint32_t)(wall - year_2026) : 1;
	int code = TFC_OK;
	if (least >= TFC__GOSSIP_LIMIT)
		return tfc__fail(error, TFC_EINVAL, "member", 0,
				 "generation %u is beyond the limit of %u", least,
				 TFC__GOSSIP_LIMIT - 1);
	if (directory) {
		char *path = tfc__path_join(directory, "generation");
		if (!path)
			return tfc__fail_nomem(error, "member");
		code = generation_read(path, error, &generation);
		generation = generation + 1 > least ? generation + 1 : least;
		if (code == TFC_OK)
			code = generation_write(directory, path, generation, error);
		free(path);
	} else if (generation < least) {
		generation = least;
	}
	if (code == TFC_OK)
		*ret_generation = generation;
	return code;
}
