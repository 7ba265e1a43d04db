#include "base/options.h"

#include <string.h>

#include "base/fail.h"

int tfc__options_copy(void *copy, size_t known, const void *options, const char *component,
		      const char *name, size_t reserved, tfc_error *error)
{
	uint32_t size = 0;
	memset(copy, 0, known);
	if (options) {
		memcpy(&size, options, sizeof(size));
		if (size < sizeof(size))
			return tfc__fail(error, TFC_EINVAL, component, 0,
					 "%s.size is %u; initialize it with sizeof(%s)", name, size,
					 name);
		memcpy(copy, options, size < known ? size : known);
	}
	for (size_t i = known; i < size; i++)
		if (((const unsigned char *)options)[i])
			return tfc__fail(error, TFC_ENOTSUP, component, 0,
					 "%s has a nonzero field at byte %zu that this version of "
					 "the library does not know",
					 name, i);
	uint32_t reserved_value = 0;
	if (reserved)
		memcpy(&reserved_value, (const char *)copy + reserved, sizeof(reserved_value));
	if (reserved_value)
		return tfc__fail(error, TFC_EINVAL, component, 0, "%s.reserved is %u; it must be 0",
				 name, reserved_value);
	uint32_t now = (uint32_t)known;
	memcpy(copy, &now, sizeof(now));
	return TFC_OK;
}

int tfc__options_init(void *options, uint32_t size, size_t known)
{
	if (!options || size < sizeof(size))
		return TFC_EINVAL;
	if (size > known + 4096) /* no options struct is that large: the size is not initialized */
		return TFC_ENOTSUP;
	memset(options, 0, size);
	memcpy(options, &size, sizeof(size));
	return TFC_OK;
}
