/*
 * Shared by the files of tfc_run. The program is an ordinary host: it includes public headers only,
 * and owns the process around the library: arguments, signals, terminal, exit status.
 */
#ifndef TFC_RUN_H
#define TFC_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tfcluster/gateway.h>

/* Exit status when tfc_run itself fails; tfc_event_exit_status gives the status for a job's end. */
#define RUN_FAILED 125

/* Prints "tfc_run: " and one printable line on stderr, before there is an output. Returns -1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Makes external text safe for a terminal: control characters and those that change text direction
 * become \\n, \\u001b and so on, as in JSON, and bytes that are not UTF-8 become \\xff. keep:
 * control characters that stay unchanged. The caller frees the result.
 */
char *printable(const char *text, const char *keep);

/* Returns the length of the well-formed UTF-8 sequence (RFC 3629) at the start of a text, and its
 * code point; 0 if there is none. */
size_t read_utf8(const char *text, uint32_t *ret_code);

/* C0, DEL, C1, and the characters with Unicode's property Bidi_Control. */
bool is_control(uint32_t code);

/* A message as one printable line, in which the library's option names (key_file) are replaced by
 * those of the command line (--key), except in quotation marks, and which says what to do if no
 * node runs. The caller frees it. */
char *message_line(const char *text);

/* The bytes of the text, which is UTF-8, that fit in so many columns of a terminal. */
size_t fitting_len(const char *text, size_t columns);

/* Reads a text file, which has no NUL. The caller frees *ret_text. 0, or an errno. */
int read_file(const char *path, char **ret_text, size_t *ret_len);

/* Prints an error and exits at once, with the status of a failure of tfc_run itself. The guard,
 * which outlives this process, stops the tasks. */
void die_without_memory(void) __attribute__((noreturn));

void print_version(void);

/* The one of `names` (count of them, `stride` bytes apart, each the address of a string or NULL)
 * that is most similar to `word`; NULL if none is similar. */
const char *nearest(const char *word, const char *const *names, size_t count, size_t stride);

/* Returns a signalfd for INT, TERM and HUP, or -1 and errno. A SIGHUP that was ignored at start
 * (nohup) stays ignored. */
int signals_open(void);

/* ---- the commands, one per file. argv[0] is the command's name; they return the exit status. */

int allocation_main(int argc, char **argv);
int attach_main(int argc, char **argv);
int completion_main(int argc, char **argv);
int describe_main(int argc, char **argv);
int drain_main(int argc, char **argv);
int keygen_main(int argc, char **argv);
int local_main(int argc, char **argv);
int logs_main(int argc, char **argv);
int members_main(int argc, char **argv);
int node_main(int argc, char **argv);
int ps_main(int argc, char **argv);
int rm_main(int argc, char **argv);
int spec_main(int argc, char **argv);
int start_main(int argc, char **argv);
int signal_main(int argc, char **argv);
int stacks_main(int argc, char **argv);
int stop_main(int argc, char **argv);

/* explain.c: prints the response of tfc_gateway_explain as text, or one JSON object for each task.
 * 0, or an errno. */
int explain_print(const tfc_reply *reply, bool is_json);

#endif
