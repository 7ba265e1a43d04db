#include "candidates.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "contexts.h"

#define GATEWAY_TIMEOUT_MS 2000 /* a user waits for the candidates */

/* The command line up to the word that is completed, and this word. */
struct typed {
	struct client client; /* with the gateway options that were given */
	char *operands[2];
	unsigned operand_count;
	bool are_options_over;
	const struct option *option; /* the word is its value; NULL: it is not a value */
	const char *what;            /* what the word is, as in command_line.operands */
	const char *word;
	size_t prefix_len; /* of the word, "--color=" */
};

static void print_candidate(const struct typed *typed, const char *text, const char *help)
{
	const char *begun = typed->word + typed->prefix_len;
	if (strncmp(text, begun, strlen(begun)) != 0)
		return;
	char *word = printable(text, ""), *description = printable(help, "");
	printf("%.*s%s\t%s\n", (int)typed->prefix_len, typed->word, word, description);
	free(word);
	free(description);
}

void candidate_print(const char *word, const char *text, const char *help)
{
	print_candidate(&(struct typed){.word = word}, text, help);
}

/* bash inserts a candidate as it is. A name that the shell would read as more than a word, or
 * tfc_run as an option, is not offered. */
static void print_name(const struct typed *typed, const char *name, const char *help)
{
	bool is_word = *name != 0 && *name != '-';
	for (const char *c = name; *c && is_word; c++)
		is_word = isalnum((unsigned char)*c) || (unsigned char)*c >= 0x80 ||
			  strchr("_./:=,@%+-", *c);
	if (is_word)
		print_candidate(typed, name, help);
}

/* ---- what the gateway knows */

static int complete_jobs(void *user, const tfc_reply *reply)
{
	const struct typed *typed = user;
	bool are_ended = strcmp(typed->what, "ENDED-JOB") == 0;
	const tfc_job_info *job;
	for (uint32_t i = 0; (job = tfc_jobs_at(reply->jobs, i)); i++) {
		const char *state = tfc_job_state_name(job->state);
		char help[512];
		if (strcmp(typed->what, "JOB") != 0 && job_has_ended(job) != are_ended)
			continue;
		snprintf(help, sizeof(help), "%s, %s", state, job->job);
		print_name(typed, job->name, help);
		snprintf(help, sizeof(help), "%s%s%s", state, *job->name ? ", " : "", job->name);
		print_candidate(typed, job->job, help);
	}
	return 0;
}

static int complete_tasks(void *user, const tfc_reply *reply)
{
	const tfc_job_task *task;
	for (uint32_t i = 0; (task = tfc_job_info_task(reply->job, i)); i++) {
		char name[128];
		snprintf(name, sizeof(name), "%s/%u", task->task_type, task->task_index);
		print_candidate(user, name, tfc_task_state_name(task->state));
	}
	return 0;
}

static int complete_nodes(void *user, const tfc_reply *reply)
{
	const tfc_member_info *member;
	for (uint32_t i = 0; (member = tfc_members_at(reply->members, i)); i++)
		print_candidate(user, member->name, tfc_member_state_name(member->state));
	return 0;
}

static void query_gateway(struct typed *typed)
{
	bool is_task = strcmp(typed->what, "TASK") == 0, is_node = strcmp(typed->what, "NODE") == 0;
	struct response response = {.handle = is_task   ? complete_tasks
					      : is_node ? complete_nodes
							: complete_jobs,
				    .user = typed};
	tfc_request_options options = TFC_REQUEST_OPTIONS_INIT;
	struct client *client = &typed->client;
	options.timeout_ms = GATEWAY_TIMEOUT_MS;
	if (client_open(client) < 0)
		return;
	int begun = is_task   ? tfc_gateway_describe(client->gateway, typed->operands[0], &options,
						     client_on_reply, &response, NULL)
		    : is_node ? tfc_gateway_members(client->gateway, &options, client_on_reply,
						    &response, NULL)
			      : tfc_gateway_jobs(client->gateway, &options, client_on_reply,
						 &response, NULL);
	client_await(client, begun, &response);
}

/* ---- values and operands */

static void complete_contexts(const struct typed *typed)
{
	struct contexts contexts;
	const char *name;
	if (contexts_open(&contexts) == 0)
		for (unsigned i = 0; (name = contexts_at(&contexts, i)); i++)
			print_name(typed, name, "");
	contexts_close(&contexts);
}

static void complete_listed(const struct typed *typed)
{
	char value[128];
	for (const char *at = typed->what; *at; at += strspn(at, ",")) {
		size_t len = strcspn(at, ",");
		snprintf(value, sizeof(value), "%.*s", (int)len, at);
		print_candidate(typed, value, "");
		at += len;
	}
}

static void complete_values(struct typed *typed)
{
	static const char *const of_gateway[] = {"JOB", "ENDED-JOB", "LIVE-JOB", "TASK", "NODE"};
	const char *what = typed->what;
	if (islower((unsigned char)*what))
		complete_listed(typed);
	else if (strcmp(what, "FILE") == 0 || strcmp(what, "PATH") == 0)
		puts("file");
	else if (strcmp(what, "DIR") == 0)
		puts("directory");
	else if (strcmp(what, "CONTEXT") == 0)
		complete_contexts(typed);
	for (size_t i = 0; i < sizeof(of_gateway) / sizeof(of_gateway[0]); i++)
		if (strcmp(what, of_gateway[i]) == 0)
			query_gateway(typed);
}

static void complete_options(const struct command_line *line, const struct typed *typed)
{
	char word[64];
	const struct option *option;
	for (size_t i = 0; (option = options_at(line, i, NULL)); i++) {
		if (!option->name || !option->help)
			continue;
		snprintf(word, sizeof(word), "-%c", option->letter);
		if (option->letter)
			print_candidate(typed, word, option->help);
		snprintf(word, sizeof(word), "--%s", option->name);
		print_candidate(typed, word, option->help);
	}
}

/* An operand, or an option where the command takes no operand. */
static void complete_operand(const struct command_line *line, struct typed *typed)
{
	unsigned last = line->operands[1] ? 1 : 0;
	if (line->has_program) {
		puts(typed->operand_count ? "file" : "command");
	} else if (typed->operand_count < line->most) {
		typed->what = line->operands[typed->operand_count < last ? 0 : last];
		complete_values(typed);
	} else {
		complete_options(line, typed);
	}
}

/* ---- the command line */

/* Reads the option at *at, and advances *at to its value if that is a word of its own. */
static void read_typed_option(const struct command_line *line, struct typed *typed, char ***at)
{
	char *word = **at;
	size_t len = strcspn(word, "=");
	const struct option *option = options_find(line, word, len, NULL);
	if (!option || !option->value)
		return;
	const char *value = word[len] ? word + len + 1 : *++*at;
	bool is_last = !(*at)[1];
	if (is_last)
		typed->option = option;
	else if (option >= gateway_options && option < gateway_options + gateway_option_count)
		option->set(&typed->client.options, option, value);
}

/* Reads the words before the last one, and which option's value the last one is. */
static void read_typed_words(const struct command_line *line, struct typed *typed, char **words)
{
	for (char **at = words; at[0] && at[1]; at++) {
		bool is_option = **at == '-' && strcmp(*at, "-") != 0 && !typed->are_options_over;
		if (is_option && strcmp(*at, "--") == 0) {
			typed->are_options_over = true;
		} else if (is_option) {
			read_typed_option(line, typed, &at);
		} else {
			typed->are_options_over |= line->has_program;
			if (typed->operand_count < 2)
				typed->operands[typed->operand_count] = *at;
			typed->operand_count++;
		}
	}
}

void candidates_print(const struct command_line *line, char **words)
{
	struct typed typed = {.word = ""};
	for (char **at = words; *at; at++)
		typed.word = *at;
	read_typed_words(line, &typed, words);
	size_t name_len = strcspn(typed.word, "=");
	bool is_option = *typed.word == '-' && !typed.option && !typed.are_options_over;
	if (is_option && typed.word[name_len]) {
		typed.option = options_find(line, typed.word, name_len, NULL);
		typed.prefix_len = name_len + 1;
	}
	if (typed.option && typed.option->value) {
		typed.what = typed.option->values ? typed.option->values : typed.option->value;
		complete_values(&typed);
	} else if (is_option && !typed.prefix_len) {
		complete_options(line, &typed);
	} else if (!is_option) {
		complete_operand(line, &typed);
	}
	client_end(&typed.client);
}
