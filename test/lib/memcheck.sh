#!/bin/sh
# Runs one test program under valgrind's memcheck: memcheck.sh PROGRAM [ARGUMENT...]
#
# What valgrind cannot run is skipped, by name. Valgrind replaces the allocator of shared libraries
# alone: that of a program which brings its own (failing_malloc.c) asks the one below it.
case ${1##*/} in
bundle_*) why="valgrind of this age does not know the system call openat2" ;;
host_threads_test | node_options_test | options_test | tfcluster_hpp_test)
	why="valgrind of this age does not know the system call pidfd_open" ;;
feed_limits_test) why="valgrind keeps a limit of descriptors from the kernel" ;;
*) why= ;;
esac
if [ -n "$why" ]; then
	echo "skipped: $why"
	exit 77
fi
# What glibc keeps of a thread's stack for the next is reachable from its middle alone.
exec valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect \
	--errors-for-leak-kinds=definite,indirect --trace-children=no \
	--soname-synonyms=somalloc=nouserintercepts "$@"
