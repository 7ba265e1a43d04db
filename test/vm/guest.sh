# Runs in the virtual machine, as root in the root cgroup, whose controllers nobody has enabled. The
# environment of the tests stands before it.
export HOME=/tmp TMPDIR=/tmp
status=0

# A skipped test is a failed one: here nothing is missing that they need.
run() {
	echo "guest: $*"
	timeout 60 "$@" >/tmp/log 2>&1 || status=1
	! grep -q 'SKIPPED\|skipped' /tmp/log || [ "$1" = setpriv ] || status=1
	cat /tmp/log
}

run "$TESTS/proc_limits_test"
run "$TESTS/proc_oom_test"
run "$TESTS/proc_cgroup_test"

# As systemd does it for a service of another user, with Delegate=yes and DelegateSubgroup=node.
delegated=/sys/fs/cgroup/delegated
mkdir -p $delegated/node
python3 -c 'import os; os.setxattr("'$delegated'", "user.delegate", b"1")'
chown 1234:1234 $delegated/{,node/}{,cgroup.procs,cgroup.subtree_control,cgroup.threads}
for test in proc_limits_test proc_cgroup_test; do
	echo $$ >$delegated/node/cgroup.procs
	run setpriv --reuid 1234 --regid 1234 --clear-groups "$TESTS/$test"
	grep -q 'OK.*memory_and_cpus_need_a_cgroup' /tmp/log || [ $test != proc_limits_test ] || status=1
done

# In a cgroup that has the controllers and cannot pass them on: tasks start without limits.
mkdir /sys/fs/cgroup/full
echo $$ >/sys/fs/cgroup/full/cgroup.procs
timeout 60 "$TESTS/proc_limits_test" >/tmp/log 2>&1 || status=1
grep -q 'SKIPPED.*memory_and_cpus_need_a_cgroup' /tmp/log || status=1
cat /tmp/log
exit $status
