/*
 * The command line of one command: tables of options drive parsing, --help, the suggestions for
 * mistyped names and the completion by shells. A command has its own table and those that it shares
 * with others.
 */
#ifndef TFC_RUN_OPTIONS_H
#define TFC_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option {
	const char *name; /* NULL: a heading of the help */
	/* its value's name in the help; "[...]": it may be left out; NULL: takes no value */
	const char *value;
	const char *help; /* NULL: not available in this version, which an error says */
	int (*set)(void *target, const struct option *option, const char *value); /* or NULL */
	const char *path;   /* the job's key that it sets */
	const char *fixed;  /* the value set there if the option takes none */
	size_t at;          /* the field of the target that it sets */
	char letter;        /* 'f': -f is a short form; 0: none */
	const char *values; /* those that it can have, separated by commas; NULL: any */
};

struct option_table {
	const struct option *options;
	size_t count;
	void *target; /* handed to `set` */
};

#define OPTION_TABLE(table, target)                               \
	{                                                         \
		table, sizeof(table) / sizeof((table)[0]), target \
	}
#define OPTION_TABLES_MAX 5 /* the last one is empty */

/* An option of the command line. */
struct given {
	const struct option *option;
	void *target;
	const char *value; /* "" if it takes none */
};

struct command_line {
	const char *command; /* "local" */
	const char *usage;   /* the text of the help above the tables */
	const char *footer;  /* the help below; or NULL */
	struct option_table tables[OPTION_TABLES_MAX];
	/* Options end at the first word that is no option; otherwise options may be anywhere. */
	bool has_program;
	unsigned least, most; /* how many words it takes, without has_program */
	/* What these words are, for candidates_print; the last one stands for all that follow. */
	const char *operands[2];
	/* The result of parsing: */
	struct given *items;
	size_t count;
	char **words; /* words that are no options, NULL-terminated: the program, the job, ... */
	size_t word_count;
	bool is_separated; /* "--" precedes the words */
};

/* HELP: the help, the version or candidates were printed; there is nothing else to do. */
enum options_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_BAD };

/* Reads argv[1...]; prints the help, the candidates of --complete or an error message. Sets no
 * option yet. Strings point into argv. Call options_end in every case. */
enum options_result options_read(struct command_line *line, int argc, char **argv);

/* Calls `set` for the given options, in order. 0, or -1 after an error message. */
int options_set(const struct command_line *line);

/* Both, for a command that needs nothing in between. */
enum options_result options_parse(struct command_line *line, int argc, char **argv);

void options_end(struct command_line *line);

/* The option that `word`, of `len` bytes, names: "--worker" or "-f"; NULL: none. */
const struct option *options_find(const struct command_line *line, const char *word, size_t len,
				  void **ret_target);

/* The option at `index`, of the line's tables and then of those that every command has; NULL: there
 * is none. */
const struct option *options_at(const struct command_line *line, size_t index, void **ret_target);

/* The last value of an option; NULL: not given. */
const char *options_value(const struct command_line *line, const char *name);

/* Prints an error about an option's value. Returns -1. */
int bad_value(const struct option *option, const char *value, const char *why);

/* Makes a path absolute, relative to the current directory: *path then points to *ret_own, which
 * the caller frees. 0, or -1 after an error message. */
int make_absolute(const char **path, char **ret_own);

/* Setters of a field: const char * (not empty), bool, uint16_t[2] (first and last port), and
 * uint32_t (not 0). */
int set_text(void *target, const struct option *option, const char *value);
int set_flag(void *target, const struct option *option, const char *value);
int set_ports(void *target, const struct option *option, const char *value);
int set_number(void *target, const struct option *option, const char *value);

#define FLAG(type, field) set_flag, .at = offsetof(type, field)
#define TEXT(type, field) set_text, .at = offsetof(type, field)
#define NUMBER(type, field) set_number, .at = offsetof(type, field)

#endif
