#include <tfcluster/version.h>

unsigned tfc_version(void)
{
	return TFC_VERSION_NUMBER;
}

static const char *const feature_names[] = {
	"unix", "tcp", "members_file", "state_dir", "bundles", "upstreams", "json_options",
};

#define FEATURE_COUNT (sizeof(feature_names) / sizeof(feature_names[0]))

uint64_t tfc_features(void)
{
	return (UINT64_C(1) << FEATURE_COUNT) - 1;
}

const char *tfc_feature_name(uint64_t feature)
{
	for (unsigned i = 0; i < FEATURE_COUNT; i++)
		if (feature == UINT64_C(1) << i)
			return feature_names[i];
	return "?";
}
