#include "fuzz.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/utf8.h"

uint64_t fuzz_number(struct fuzz_input *input, size_t bytes)
{
	uint64_t number = 0;
	for (size_t i = 0; i < bytes && input->len; i++) {
		number |= (uint64_t)*input->at++ << 8 * i;
		input->len--;
	}
	return number;
}

const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t len, size_t *ret_len)
{
	const uint8_t *bytes = input->at;
	*ret_len = len < input->len ? len : input->len;
	input->at += *ret_len;
	input->len -= *ret_len;
	return bytes;
}

char *fuzz_line(struct fuzz_input *input, char end)
{
	size_t len;
	if (!input->len)
		return NULL;
	const uint8_t *found = memchr(input->at, end, input->len);
	const char *text = (const char *)
		fuzz_bytes(input, found ? (size_t)(found - input->at) : input->len, &len);
	fuzz_number(input, 1);
	char *line = strndup(text, len);
	CHECK(line);
	return line;
}

void fuzz_check_error(int code, const tfc_error *error)
{
	CHECK(code < 0);
	CHECK(error->code == code);
	CHECK(error->text[0]);
	CHECK(memchr(error->text, '\0', sizeof(error->text)));
	CHECK(tfc__is_plain_text(error->text));
}

static char *dir;

static void remove_dir(void)
{
	tfc__remove_tree(dir);
	free(dir);
}

const char *fuzz_dir(void)
{
	if (!dir) {
		const char *parent = getenv("TFC_TEST_SHM"); /* removed by test/run.sh */
		if (!parent)
			parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
		CHECK(tfc__make_private_dir(parent, "tfc-fuzz-", "test", NULL, &dir) == TFC_OK);
		atexit(remove_dir);
	}
	return dir;
}

void fuzz_write(const char *path, const void *data, size_t len)
{
	FILE *file = fopen(path, "we");
	CHECK(file);
	CHECK(fwrite(data, 1, len, file) == len);
	CHECK(fclose(file) == 0);
}
