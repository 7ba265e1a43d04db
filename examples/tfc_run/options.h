/*
 * The command line of one command: tables of options drive parsing, --help and the suggestions for
 * mistyped names. A command brings its own table and those that it shares with others.
 */
#ifndef TFC_RUN_OPTIONS_H
#define TFC_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option {
	const char *name;  /* NULL: a heading of the help */
	const char *value; /* what the help calls its value; NULL: takes none */
	const char *help;  /* NULL: it is not in this version, and says so */
	int (*set)(void *target, const struct option *option, const char *value); /* or NULL */
	const char *path;  /* the job's key that it sets */
	const char *fixed; /* what is set there when it takes no value */
	size_t at;         /* the field of the target that it sets */
	char letter;       /* 'f': -f is the same; 0: none */
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
#define OPTION_TABLES_MAX 4

/* An option as it was given. */
struct given {
	const struct option *option;
	void *target;
	const char *value; /* "" when it takes none */
};

struct command_line {
	const char *command; /* "local" */
	const char *usage;   /* the help above the tables */
	const char *footer;  /* the help below; or NULL */
	struct option_table tables[OPTION_TABLES_MAX];
	bool has_program; /* options end at the first other word; else they may stand anywhere */
	unsigned least, most; /* other words it takes, without has_program */
	/* What was read: */
	struct given *items;
	size_t count;
	char **words; /* what is no option, NULL-terminated; the program, the job, ... */
	size_t word_count;
};

/* HELP: what was asked for is printed, and there is nothing else to do. */
enum options_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_BAD };

/* Reads argv[1...]; prints the help or a sentence about what is wrong. Nothing is set yet. Strings
 * point into argv. The line is to be ended with options_end in every case. */
enum options_result options_read(struct command_line *line, int argc, char **argv);

/* Calls `set` of what was given, in order. 0, or -1 after a sentence. */
int options_set(const struct command_line *line);

/* Both, for a command that has no more to do than that. */
enum options_result options_take(struct command_line *line, int argc, char **argv);

void options_end(struct command_line *line);

/* The value of an option, the last one given; NULL: it was not. */
const char *options_value(const struct command_line *line, const char *name);

/* Complains about an option's value. Returns -1. */
int bad_value(const struct option *option, const char *value, const char *why);

/* Makes a path absolute as seen from the current directory: *path then points to *ret_own, which
 * the caller frees. 0, or -1 after a sentence. */
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
