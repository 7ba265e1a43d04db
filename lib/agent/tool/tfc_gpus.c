/*
 * tfc-gpus: prints the GPUs of this machine, one per line, in the form of CUDA_VISIBLE_DEVICES. A
 * separate program because NVML starts threads and keeps descriptors. Without a driver it prints
 * nothing. If the driver does not work, the last line has the reason and the exit status is 1.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "base/signals.h"

/* The used part of nvml.h: stable since version 11 of the driver's library. */
typedef struct nvml_device *nvml_device;
enum { NVML_SUCCESS = 0, NVML_DRIVER_NOT_LOADED = 9, UUID_SIZE = 96 };

static struct {
	int (*init)(void);
	const char *(*error)(int code);
	int (*count)(unsigned *ret_count);
	int (*device)(unsigned index, nvml_device *ret_device);
	int (*uuid)(nvml_device device, char *ret_uuid, unsigned size);
	/* of partitioned GPUs (MIG); may be missing */
	int (*mig_mode)(nvml_device device, unsigned *ret_current, unsigned *ret_pending);
	int (*mig_count)(nvml_device device, unsigned *ret_count);
	int (*mig_device)(nvml_device device, unsigned index, nvml_device *ret_device);
} nvml;

static int print_failure(const char *what, int code)
{
	printf("%s: %s\n", what, nvml.error(code));
	return 1;
}

/* POSIX defines the conversion of dlsym's result to a function pointer; ISO C does not. */
static void *find_symbol(void *library, const char *name)
{
	return dlsym(library, name);
}

#define FIND(field, name) (*(void **)&nvml.field = find_symbol(library, name))

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

static int print_gpu(nvml_device device)
{
	char uuid[UUID_SIZE];
	int code = nvml.uuid(device, uuid, sizeof(uuid));
	if (code != NVML_SUCCESS)
		return print_failure("cannot get the id of a GPU", code);
	printf("%s\n", uuid);
	return 0;
}

static int is_partitioned(nvml_device device)
{
	unsigned current = 0, pending = 0;
	return nvml.mig_mode && nvml.mig_count && nvml.mig_device &&
	       nvml.mig_mode(device, &current, &pending) == NVML_SUCCESS && current;
}

/*
 * A partitioned GPU can only be used through its partitions; an index without one fails and is
 * skipped.
 */
static int print_partitions(nvml_device device)
{
	unsigned count = 0;
	nvml.mig_count(device, &count);
	for (unsigned i = 0; i < count; i++) {
		nvml_device part;
		if (nvml.mig_device(device, i, &part) == NVML_SUCCESS && print_gpu(part) != 0)
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
		return print_failure("cannot initialize the driver", code);
	if ((code = nvml.count(&count)) != NVML_SUCCESS)
		return print_failure("cannot get the number of GPUs", code);
	for (unsigned i = 0; i < count; i++) {
		nvml_device device;
		if ((code = nvml.device(i, &device)) != NVML_SUCCESS)
			return print_failure("cannot get a GPU", code);
		if ((is_partitioned(device) ? print_partitions(device) : print_gpu(device)) != 0)
			return 1;
	}
	return 0;
}
