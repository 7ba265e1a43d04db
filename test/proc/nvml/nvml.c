/*
 * In the place of the driver's library, for tfc-gpus: FAKE_NVML is a list of words, one a GPU.
 *   whole  a GPU      cut  one in two parts, of three possible      broken  one that has no id
 * "init" alone: the driver does not work. "absent" alone: it is not loaded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_FOUND = 6, NOT_LOADED = 9, UNKNOWN = 999 };

struct device {
	char word[16];
	unsigned index;
	int part; /* -1: the whole */
};

static struct device devices[16], parts[16][3];
static unsigned device_count;

#pragma GCC visibility push(default)
int nvmlInit_v2(void);
const char *nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned *ret_count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **ret_device);
int nvmlDeviceGetUUID(struct device *device, char *ret_uuid, unsigned size);
int nvmlDeviceGetMigMode(struct device *device, unsigned *ret_current, unsigned *ret_pending);
int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *ret_count);
int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index,
					struct device **ret_device);
#pragma GCC visibility pop

int nvmlInit_v2(void)
{
	const char *list = getenv("FAKE_NVML");
	char copy[256];
	if (!list || strcmp(list, "init") == 0)
		return UNKNOWN;
	if (strcmp(list, "absent") == 0)
		return NOT_LOADED;
	snprintf(copy, sizeof(copy), "%s", list);
	for (char *word = strtok(copy, " "); word && device_count < 16; word = strtok(NULL, " ")) {
		struct device *device = &devices[device_count];
		snprintf(device->word, sizeof(device->word), "%s", word);
		device->index = device_count++;
		device->part = -1;
	}
	return SUCCESS;
}

const char *nvmlErrorString(int code)
{
	return code == UNKNOWN ? "Unknown Error" : "Not Found";
}

int nvmlDeviceGetCount_v2(unsigned *ret_count)
{
	*ret_count = device_count;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **ret_device)
{
	*ret_device = &devices[index];
	return SUCCESS;
}

int nvmlDeviceGetUUID(struct device *device, char *ret_uuid, unsigned size)
{
	if (strcmp(device->word, "broken") == 0)
		return NOT_FOUND;
	if (device->part < 0)
		snprintf(ret_uuid, size, "GPU-0000-%u", device->index);
	else
		snprintf(ret_uuid, size, "MIG-0000-%u-%d", device->index, device->part);
	return SUCCESS;
}

int nvmlDeviceGetMigMode(struct device *device, unsigned *ret_current, unsigned *ret_pending)
{
	*ret_current = *ret_pending = strcmp(device->word, "cut") == 0;
	return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *ret_count)
{
	*ret_count = 3;
	return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index,
					struct device **ret_device)
{
	if (index == 1)
		return NOT_FOUND;
	*ret_device = &parts[device->index][index];
	**ret_device = *device;
	(*ret_device)->part = (int)index;
	return SUCCESS;
}
