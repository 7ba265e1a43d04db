/* proc: what the shim believes of the memfd that it is handed. Whatever is in it, all that it is
 * led to lies inside; and what the host built arrives as it was. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "proc/guard.h"
#include "proc/shim/shim.h"

#define STRINGS_MAX 16
#define RAW 0xff

/* The shim finds it under a fixed number; nothing else may have got that number before. */
__attribute__((constructor)) static void take_number(void)
{
	int fd = memfd_create("launch", MFD_CLOEXEC);
	if (fd != TFC__SHIM_LAUNCH)
		dup2(fd, TFC__SHIM_LAUNCH);
}

struct strings {
	char *items[STRINGS_MAX + 1];
	size_t count;
};

static void read_strings(struct fuzz_input *input, size_t count, struct strings *strings)
{
	char *text;
	while (strings->count < count && (text = fuzz_line(input, '\n')))
		strings->items[strings->count++] = text;
	strings->items[strings->count] = NULL;
}

static void free_strings(struct strings *strings)
{
	while (strings->count)
		free(strings->items[--strings->count]);
}

static bool is_string_inside(const struct shim_launch *launch, const char *text)
{
	const char *base = (const char *)launch->head;
	return text >= base && text < base + launch->size &&
	       memchr(text, '\0', launch->size - (size_t)(text - base));
}

static void check_strings(const struct shim_launch *launch, char **strings)
{
	const char *base = (const char *)launch->head;
	for (;; strings++) {
		CHECK((const char *)strings >= base + sizeof(*launch->head));
		CHECK((const char *)(strings + 1) <= base + launch->size);
		if (!*strings)
			return;
		CHECK(is_string_inside(launch, *strings));
	}
}

static void check_inside(const struct shim_launch *launch)
{
	const char *end = (const char *)launch->head + launch->size;
	check_strings(launch, launch->argv);
	check_strings(launch, launch->env);
	CHECK(launch->argv[0]);
	CHECK(is_string_inside(launch, launch->cwd));
	if (launch->log_dir) {
		CHECK(is_string_inside(launch, launch->log_dir));
		CHECK(is_string_inside(launch, launch->log_name));
		CHECK(!strchr(launch->log_name, '/') && launch->log_name[0] != '.');
	}
	CHECK((const char *)(launch->rlimits + launch->head->rlimit_count) <= end);
	CHECK((const char *)(launch->groups + launch->head->group_count) <= end);
}

static void check_same(const struct shim_launch *launch, const tfc_process_options *options)
{
	size_t i = 0;
	for (; options->argv[i]; i++)
		CHECK(strcmp(options->argv[i], launch->argv[i]) == 0);
	CHECK(!launch->argv[i]);
	for (i = 0; options->env[i]; i++)
		CHECK(strcmp(options->env[i], launch->env[i]) == 0);
	CHECK(!launch->env[i]);
	CHECK(strcmp(options->cwd, launch->cwd) == 0);
	CHECK(strcmp(options->log_name, launch->log_name) == 0);
}

/* Maps `data`; with `options` it was built from them and must be accepted. */
static void map(const void *data, size_t len, const tfc_process_options *options)
{
	struct shim_launch launch = {0};
	CHECK(ftruncate(TFC__SHIM_LAUNCH, 0) == 0);
	CHECK(pwrite(TFC__SHIM_LAUNCH, data, len, 0) == (ssize_t)len);
	int code = launch_map(&launch);
	CHECK(code == 0 || !options);
	if (code == 0)
		check_inside(&launch);
	if (options)
		check_same(&launch, options);
	if (launch.head)
		munmap(launch.head, launch.size);
}

/* Changes single numbers of a good one. */
static void patch(struct fuzz_input *input, uint8_t count, char *data, size_t len)
{
	while (count--) {
		size_t at = (size_t)fuzz_number(input, 2) % (len / 4) * 4;
		uint64_t number = fuzz_number(input, 8);
		memcpy(data + at, &number, len - at < 8 ? len - at : 8);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	struct strings argv = {0}, env = {0}, rest = {0};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	void *built = NULL;
	size_t len = 0;
	uint8_t patches = (uint8_t)fuzz_number(&input, 1);
	if (patches == RAW) {
		map(input.at, input.len, NULL);
		return 0;
	}
	struct fuzz_input numbers = {input.at, 0};
	fuzz_bytes(&input, patches % 8 * (size_t)10, &numbers.len);
	read_strings(&input, 1 + fuzz_number(&input, 1) % STRINGS_MAX, &argv);
	read_strings(&input, fuzz_number(&input, 1) % STRINGS_MAX, &env);
	read_strings(&input, 2, &rest);
	options.argv = (const char *const *)argv.items;
	options.env = (const char *const *)env.items;
	options.cwd = rest.count > 0 && *rest.items[0] ? rest.items[0] : "/";
	options.log_dir = "/tmp";
	options.log_name = rest.count > 1 && tfc__is_log_name(rest.items[1]) ? rest.items[1]
									     : "worker";
	if (argv.count) {
		CHECK(tfc__launch_build(&options, &error, &built, &len) == TFC_OK);
		patch(&numbers, patches % 8, built, len);
		map(built, len, patches % 8 ? NULL : &options);
	}
	free(built);
	free_strings(&argv);
	free_strings(&env);
	free_strings(&rest);
	return 0;
}
