#!/bin/sh
# Makes the copy in this folder from the core's sources at a commit, under the prefix old__.
# usage: test/sim/old_core/copy.sh COMMIT
cd "$(git rev-parse --show-toplevel)" || exit 1
for name in core_ask core_budget core_death core_end core_gang core_node core_place core_restart core_resume \
	core_stall core_task core_verdict maintainer_core; do
	git show "$1:lib/cluster/$name.c" > test/sim/old_core/$name.c
done
for name in core_state maintainer_core; do
	git show "$1:lib/cluster/$name.h" > test/sim/old_core/$name.h
done
sed -i -e 's/\bTFC__\(CORE_\|DO_\|PROC_\|LOOKED\|NO_NODE\)/OLD__\1/g' -e 's/TFC_CLUSTER_\(.*\)_H/TEST_SIM_OLD_\1_H/' \
	-e 's/\btfc__\(core\|death\|proc_state\|looked\|resume\|act\b\|act_\|tell_\|tasks\?_\|text_\|budget_\|judge_\|gang_\|place_\|node_\|ask_\|stall_\|start_\|end_\)/old__\1/g' \
	-e 's/\btfc__restart\b/old__restart/g' -e 's/\btfc__restart_\(alone\|timer\|reaped\|moving\|deadline\|group\)/old__restart_\1/g' \
	-e 's/old__core_policy_from_job/old__unused_policy_from_job/' -e 's/old__activity/tfc__activity/g' \
	-e 's,"cluster/\(core_state\|maintainer_core\).h","\1.h",' $(ls test/sim/old_core/*.[ch] | grep -v twin.c)
clang-format-14 -i test/sim/old_core/*.[ch]
