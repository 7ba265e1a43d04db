#include <tfcluster/version.h>

unsigned tfc_version(void)
{
	return TFC_VERSION_NUMBER;
}
