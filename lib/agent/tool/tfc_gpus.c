/*
 * tfc-gpus: prints the GPUs of this machine, one a line, as CUDA_VISIBLE_DEVICES takes them. A
 * program of its own because NVML starts threads and keeps descriptors. No driver is no GPU; a
 * driver that does not work is a sentence in the last line and status 1.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "base/signals.h"

/* nvml.h, as far as it is used: stable since version 11 of the driver's library. */
typedef struct nvml_device *nvml_device;
enum { NVML_SUCCESS = 0, NVML_DRIVER_NOT_LOADED = 9, UUID_SIZE = 96 };

static struct {
	int (*init)(void);
	const char *(*error)(int code);
	int (*count)(unsigned *ret_count);
	int (*device)(unsigned index, nvml_device *ret_device);
	int (*uuid)(nvml_device device, char *ret_uuid, unsigned size);
	/* of GPUs that are cut in parts; may be missing */
	int (*mig_mode)(nvml_device device, unsigned *ret_current, unsigned *ret_pending);
	int (*mig_count)(nvml_device device, unsigned *ret_count);
	int (*mig_device)(nvml_device device, unsigned index, nvml_device *ret_device);
} nvml;

static int fail(const char *what, int code)
{
	printf("%s: %s\n", what, nvml.error(code));
	return 1;
}

/* POSIX wants a function behind the pointer that dlsym gives; C does not say how. */
static void *find(void *library, const char *name)
{
	return dlsym(library, name);
}

#define FIND(field, name) (*(void **)&nvml.field = find(library, name))

static int open_library(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!library)
		return 0;
	FIND(mig_mode, "nvmlDeviceGetMigMode");
	FIND(mig_count, "nvmlDeviceGetMaxMigDeviceCount");
	FIND(mig_device, "nvmlDeviceGetMigDeviceHandleByIndex");
	return FIND(init, "nvmlInit_v2") && FIND(error, "nvmlErrorString") &&
	       FIND(count, "nvmlDeviceGetCount_v2") &&
	       FIND(device, "nvmlDeviceGetHandleByIndex_v2") && FIND(uuid, "nvmlDeviceGetUUID");
}

static int print(nvml_device device)
{
	char uuid[UUID_SIZE];
	int code = nvml.uuid(device, uuid, sizeof(uuid));
	if (code != NVML_SUCCESS)
		return fail("cannot get the id of a GPU", code);
	printf("%s\n", uuid);
	return 0;
}

static int is_cut(nvml_device device)
{
	unsigned current = 0, pending = 0;
	return nvml.mig_mode && nvml.mig_count && nvml.mig_device &&
	       nvml.mig_mode(device, &current, &pending) == NVML_SUCCESS && current;
}

/* A cut GPU can be used by its parts only; places without one are an error to be passed over. */
static int print_parts(nvml_device device)
{
	unsigned count = 0;
	nvml.mig_count(device, &count);
	for (unsigned i = 0; i < count; i++) {
		nvml_device part;
		if (nvml.mig_device(device, i, &part) == NVML_SUCCESS && print(part) != 0)
			return 1;
	}
	return 0;
}

int main(void)
{
	unsigned count = 0;
	tfc__block_node_signals();
	if (!open_library())
		return 0;
	int code = nvml.init();
	if (code == NVML_DRIVER_NOT_LOADED)
		return 0;
	if (code != NVML_SUCCESS)
		return fail("cannot initialize the driver", code);
	if ((code = nvml.count(&count)) != NVML_SUCCESS)
		return fail("cannot get the number of GPUs", code);
	for (unsigned i = 0; i < count; i++) {
		nvml_device device;
		if ((code = nvml.device(i, &device)) != NVML_SUCCESS)
			return fail("cannot get a GPU", code);
		if ((is_cut(device) ? print_parts(device) : print(device)) != 0)
			return 1;
	}
	return 0;
}
