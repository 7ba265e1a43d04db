/*
 * Completion by shells: `tfc_run --complete WORD...` prints how the last word can be completed. The
 * scripts in completion/ call it, so that completion follows the tables of commands and options.
 *
 * One line for each candidate: the whole word, a tab, what it is. A line without a tab requests the
 * shell's own candidates: "file", "directory" or "command". Of a word --OPTION=VALUE they
 * complete VALUE.
 */
#ifndef TFC_RUN_CANDIDATES_H
#define TFC_RUN_CANDIDATES_H

#include "options.h"

/* Prints `text` as a candidate if it begins with `word`. */
void candidate_print(const char *word, const char *text, const char *help);

/*
 * Prints the candidates for the last one of `words`, the NULL-terminated words after the command.
 * The words before it select the gateway.
 *
 * The values of an option, and the operands of a command, are either listed (lower case, separated
 * by commas), or named: FILE, PATH, DIR; JOB, ENDED-JOB, LIVE-JOB; TASK, of the first operand;
 * NODE; CONTEXT. Other names have no candidates.
 */
void candidates_print(const struct command_line *line, char **words);

#endif
