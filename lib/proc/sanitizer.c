/*
 * Part of guard and shim in a build with AddressSanitizer or UndefinedBehaviorSanitizer: the
 * options of these. A helper program has neither an environment nor a stderr. It writes a report
 * into a file of the build and aborts, which its host and its parent notice as they do any death.
 */

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/* The run-time library finds them by name. */
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
	return TFC__SANITIZER_OPTIONS;
}

__attribute__((visibility("default"))) const char *__ubsan_default_options(void)
{
	return TFC__SANITIZER_OPTIONS;
}
