#!/usr/bin/env bash
# Lets libFuzzer look for inputs that break a promise.
#
#   test/fuzz/run.sh [SECONDS [TARGET...]]     default: 300 seconds each, all targets
#
# What breaks one is left in build/fuzz-found/TARGET-*, and belongs into test/fuzz/corpus/TARGET
# once it is mended. What was learned otherwise stays in build/fuzz-learned/TARGET; with MERGE=1 the
# smallest set of inputs that covers as much goes into the corpus, for all that is new in it.
# Exit status: 0 when nothing was found.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${TFC_FUZZ_BUILD:-$root/build/fuzz}
found=$root/build/fuzz-found
learned=$root/build/fuzz-learned
seconds=${1:-300}
shift
[ $# -gt 0 ] || set -- $(cd "$here/corpus" && ls)
status=0

if [ ! -f "$build/build.ninja" ]; then
	CC=clang meson setup "$build" "$root" -Dfuzz=true -Dexamples=false \
		-Db_sanitize=address,undefined -Db_lundef=false >/dev/null || exit 1
fi
ninja -C "$build" fuzzers >/dev/null || exit 1

export TFC_HELPER_DIR=$build/lib
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
for target in "$@"; do
	options=(-rss_limit_mb=2048 -timeout=20 -max_len=8192 -print_final_stats=1)
	[ -f "$here/dict/$target" ] && options+=("-dict=$here/dict/$target")
	mkdir -p "$found" "$learned/$target"
	log=$found/$target.log
	if "$build/test/fuzz/fuzz_$target" "${options[@]}" "-max_total_time=$seconds" \
		"-artifact_prefix=$found/$target-" "$learned/$target" "$here/corpus/$target" \
		>"$log" 2>&1; then
		echo "$target: $(grep -o '^Done .*' "$log"), $(grep -o 'cov: [0-9]*' "$log" | tail -n 1)"
	else
		echo "$target: found something; see $log"
		status=1
	fi
	if [ -n "${MERGE:-}" ]; then
		"$build/test/fuzz/fuzz_$target" -merge=1 -max_len=2048 "$here/corpus/$target" \
			"$learned/$target" >>"$log" 2>&1
	fi
done
exit "$status"
