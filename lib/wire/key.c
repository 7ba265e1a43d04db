#include <tfcluster/key.h>

#include "base/fail.h"
#include "wire/keyring.h"

int tfc_key_generate(const char *path, const char *role, tfc_error *error)
{
	enum tfc__key_role known;
	if (!path || !*path)
		return tfc__fail(error, TFC_EINVAL, "wire", 0, "no path for the key");
	if (!role || !tfc__key_role_parse(role, &known))
		return tfc__fail(error, TFC_EINVAL, "wire", 0,
				 "role \"%s\": must be node, submit or read", role ? role : "");
	return tfc__keyring_generate(path, known, error);
}
