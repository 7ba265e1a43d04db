/*
 * The options of AddressSanitizer and UndefinedBehaviorSanitizer for guard and shim, compiled in
 * when the build uses one of these. A helper program has neither an environment nor a stderr. It
 * writes its report to a file of the build and aborts; its host and its parent treat that as any
 * other death.
 */

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/* The sanitizer's run-time library finds the functions by name. */
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
	return TFC__SANITIZER_OPTIONS;
}

__attribute__((visibility("default"))) const char *__ubsan_default_options(void)
{
	return TFC__SANITIZER_OPTIONS;
}
