/* Preloaded: notes the name of every variable that a library asks for, in the file RECORDED_NAMES.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

extern char **environ;
char *getenv(const char *name);
char *secure_getenv(const char *name);

static char *find(const char *name)
{
	size_t len = strlen(name);
	for (char **variable = environ; variable && *variable; variable++)
		if (strncmp(*variable, name, len) == 0 && (*variable)[len] == '=')
			return *variable + len + 1;
	return NULL;
}

static char *record(const char *name)
{
	char line[256];
	const char *file = find("RECORDED_NAMES");
	size_t len = strlen(name);
	int fd = file && len < sizeof(line) ? open(file, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
	if (fd >= 0) {
		memcpy(line, name, len);
		line[len] = '\n';
		(void)!write(fd, line, len + 1);
		close(fd);
	}
	return find(name);
}

char *getenv(const char *name)
{
	return record(name);
}

char *secure_getenv(const char *name)
{
	return record(name);
}
