/* The processes of a guard, by the index in the low half of their ids. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "proc/guard.h"

int tfc__guard_add(struct tfc__guard *guard, tfc_process *process)
{
	if (guard->count == guard->capacity) {
		uint32_t capacity = guard->capacity ? guard->capacity * 2 : 16;
		tfc_process **table = realloc(guard->table, capacity * sizeof(tfc_process *));
		if (!table)
			return tfc__fail_nomem(tfc__ctx_error(guard->ctx), "proc");
		memset(table + guard->capacity, 0,
		       (capacity - guard->capacity) * sizeof(tfc_process *));
		guard->free_hint = guard->capacity;
		guard->table = table;
		guard->capacity = capacity;
	}
	uint32_t index = guard->free_hint;
	while (guard->table[index])
		index = (index + 1) % guard->capacity;
	guard->free_hint = (index + 1) % guard->capacity;
	guard->table[index] = process;
	guard->count++;
	process->guard = guard;
	process->id = (uint64_t)++guard->serial << 32 | index;
	const struct tfc__command stop = {.kind = TFC__MSG_STOP, .id = process->id};
	tfc__outgoing_init(&process->stop, &stop);
	return TFC_OK;
}

tfc_process *tfc__guard_find(const struct tfc__guard *guard, uint64_t id)
{
	uint32_t index = (uint32_t)id;
	tfc_process *process = index < guard->capacity ? guard->table[index] : NULL;
	return process && process->id == id ? process : NULL;
}

void tfc__guard_remove(tfc_process *process)
{
	struct tfc__guard *guard = process->guard;
	guard->table[(uint32_t)process->id] = NULL;
	guard->count--;
	guard->stops -= process->is_stopping;
	tfc__list_remove(&process->stop.link);
	process->guard = NULL;
}

/*
 * Reports every process of a dead guard as lost; processes that the callbacks spawn go to another
 * guard.
 */
void tfc__guard_report_all_lost(struct tfc__guard *guard)
{
	struct tfc__report report = {.kind = TFC__MSG_EXITED, .reason = TFC__END_LOST};
	for (uint32_t i = 0; i < guard->capacity; i++)
		if (guard->table[i]) {
			report.pid = guard->table[i]->pid;
			report.time_ns = tfc__wall();
			tfc__process_receive(guard->table[i], &report);
		}
}

bool tfc__guard_has_groups(const struct tfc__guard *guard)
{
	for (uint32_t i = 0; i < guard->capacity; i++)
		if (guard->table[i] && guard->table[i]->isolation == TFC_ISOLATION_CGROUP)
			return true;
	return false;
}

void tfc__guard_free_processes(struct tfc__guard *guard)
{
	for (uint32_t i = 0; i < guard->capacity; i++) {
		tfc_process *process = guard->table[i];
		if (!process)
			continue;
		tfc__list_remove(&process->stop.link);
		tfc__process_free(process);
	}
}
