/*
 * How long a task's output takes into its log, in milliseconds, from the spawn to the end that is
 * reported when all of it is there:
 *
 *   logs DIR HELPERS TASK BYTES SIZE     TASK writes BYTES, SIZE at a time, through the shim
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tfcluster/tfcluster.h>

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void die(const char *what)
{
	fprintf(stderr, "logs: %s\n", what);
	exit(1);
}

static void on_process(void *user, const tfc_process_event *event)
{
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	if (event->reason != TFC_EXIT_CODE || event->status != 0 || event->log_dropped)
		die(event->text);
	*(int *)user = 1;
}

static void run(tfc_ctx *ctx, const char *dir, const char *name, const char *const *argv)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	tfc_process *process = NULL;
	int is_over = 0;
	options.argv = argv;
	options.log_dir = dir;
	options.log_name = name;
	if (tfc_process_spawn(ctx, &options, on_process, &is_over, &process) < 0)
		die(tfc_ctx_error(ctx)->text);
	while (!is_over)
		tfc_ctx_run(ctx, -1);
	tfc_process_close(process);
}

int main(int argc, char **argv)
{
	if (argc != 6)
		die("usage: logs DIR HELPERS TASK BYTES SIZE");
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx *ctx = NULL;
	options.helper_dir = argv[2];
	if (tfc_ctx_new(&options, &error, &ctx) < 0)
		die(error.text);
	run(ctx, argv[1], "warm", (const char *const[]){argv[3], "exit", NULL});
	double begin = now_ms();
	run(ctx, argv[1], "flood", (const char *const[]){argv[3], "flood", argv[4], argv[5], NULL});
	printf("%.1f\n", now_ms() - begin);
	tfc_ctx_free(ctx);
	return 0;
}
