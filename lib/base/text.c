#include "base/text.h"

#include <string.h>

int tfc__port_read(const char *text)
{
	size_t len = strspn(text, "0123456789");
	int port = 0;
	if (len == 0 || len > 5 || text[len])
		return -1;
	for (; *text; text++)
		port = port * 10 + (*text - '0');
	return port <= 65535 ? port : -1;
}
