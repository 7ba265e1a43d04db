#!/bin/sh
# Which lines and functions of the library the simulator reaches by itself: builds with gcov, runs
# fixed worlds, and compares what no world reaches with test/sim/unreached.txt.
#   test/sim/coverage.sh [WORLDS [BUILD]]    WORLDS: 400; BUILD: build/coverage
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
worlds=${1:-400}
build=${2:-$source/build/coverage}
[ -f "$build/build.ninja" ] || meson setup "$build" "$source" -Db_coverage=true --buildtype=debug
ninja -C "$build" test/sim/nodes/nodes
find "$build" -name '*.gcda' -exec rm {} +
"$build/test/sim/nodes/nodes" --jobs "$(nproc)" 1 "$worlds"
exec python3 "$source/test/sim/coverage.py" "$build" "$source/test/sim/unreached.txt"
