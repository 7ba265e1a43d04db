#!/usr/bin/env bash
# Runs every test there is, on a fresh Debian 12 or again on a used one: installs what is missing
# (as root or through sudo), makes the Python environment, builds four times below build/, tests.
#
#   test/run.sh [gcc] [clang] [asan] [tsan]     default: all four
#
#   gcc     all tests, real TensorFlow included; warnings are errors
#   clang   unit tests and checks; warnings are errors
#   asan    unit, conformance and sim under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan    the same under ThreadSanitizer
#
# The last line counts; a test that runs in two builds counts twice. Exit status: 0 when none
# failed. Environment: see examples/setup.sh.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../examples/setup.sh"
build=$TFC_SOURCE/build
results=()
broken=0

packages=("${TFC_BUILD_PACKAGES[@]}" "${TFC_PYTHON_PACKAGES[@]}" g++ binutils libcmocka-dev
	clang llvm libclang-rt-14-dev clang-format-14 iproute2 procps util-linux)

# A run whose build or environment is broken counts as one failure.
break_run() {
	tfc_say "FAIL $1"
	broken=$((broken + 1))
}

# run_tests NAME MESON_TEST_OPTION... : tests the build of that name, its results into a file. A
# command in the array `under` runs meson.
under=()
run_tests() {
	local name=$1 log=$build/$1/meson-logs/testlog-$1.json
	shift
	rm -f "$log"
	tfc_say "test $name"
	${under[@]+"${under[@]}"} meson test -C "$build/$name" --no-rebuild --logbase "testlog-$name" "$@" \
		>"$TFC_LOGS/test-$name.log" 2>&1 </dev/null
	if [ -s "$log" ]; then
		results+=("$log")
	else
		tail -n 20 "$TFC_LOGS/test-$name.log"
		break_run "$name: no test ran"
	fi
}

strict=(--fatal-meson-warnings --werror)
sanitized=(--suite unit --suite conformance --suite sim)

run_gcc() {
	CC=gcc tfc_build "$build/gcc" "${strict[@]}" -Dtf_python="$TFC_PYTHON" || return
	run_tests gcc --timeout-multiplier 2
}

run_clang() {
	CC=clang tfc_build "$build/clang" "${strict[@]}" || return
	run_tests clang --suite unit --suite check
}

run_asan() {
	CC=clang tfc_build "$build/asan" -Db_sanitize=address,undefined -Db_lundef=false || return
	ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		run_tests asan "${sanitized[@]}" --timeout-multiplier 5
}

# ThreadSanitizer of this age does not find room where the kernel spreads mappings widely.
run_tsan() {
	local under=()
	CC=clang tfc_build "$build/tsan" -Db_sanitize=thread -Db_lundef=false || return
	setarch -R true 2>/dev/null && under=(setarch -R)
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
		run_tests tsan "${sanitized[@]}" --timeout-multiplier 10
}

prepare() {
	tfc_need_packages "${packages[@]}" && tfc_venv
}

mkdir -p "$TFC_LOGS"
if prepare; then
	[ $# -gt 0 ] || set -- gcc clang asan tsan
	for name in "$@"; do
		case $name in
		gcc | clang | asan | tsan) "run_$name" || break_run "$name: not built" ;;
		*) break_run "$name: there is no such run" ;;
		esac
	done
else
	break_run "packages or the Python environment are missing"
fi
exec python3 "$here/results.py" "$broken" ${results[@]+"${results[@]}"}
