/* Specs from JSON in tests. */
#ifndef TEST_LIB_SPEC_TEXT_H
#define TEST_LIB_SPEC_TEXT_H

#include <string.h>
#include <tfcluster/spec.h>

/* The spec of a JSON text that is known to be good; fails the test when it is not. */
static inline tfc_spec *spec_of(const char *json)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_spec *spec = NULL;
	if (tfc_spec_parse(json, strlen(json), &error, &spec) < 0)
		fail_msg("%s: %s", json, error.text);
	return spec;
}

#endif
