#!/usr/bin/env bash
# Runs every test there is, on a fresh Debian 12 or again on a used one: installs what is missing
# (as root or through sudo), makes the Python environment, builds four times below build/, tests.
#
#   test/run.sh [gcc] [engines] [clang] [asan] [tsan] [valgrind]     default: all but engines
#
#   gcc     all tests, real TensorFlow, PyTorch and JAX included; warnings are errors
#           The long tests of engines are part of it after a change of what they test.
#   engines tfc_run allocation under real engines (Slurm, Open MPI), with TensorFlow
#   clang   unit tests; warnings are errors
#   asan    unit, conformance, sim, fuzz, proc with its campaign, and worlds of nodes, under
#           AddressSanitizer and UndefinedBehaviorSanitizer: library, helper programs, guard and shim
#   tsan    unit, conformance, sim, fuzz, and of proc the tests whose host has threads, under
#           ThreadSanitizer: the others have one thread, and take six minutes
#   valgrind
#           unit and sim of the first build, as valgrind's memcheck sees them
#
# The last line counts; a test that runs in two builds counts twice. Exit status: 0 when none
# failed. Environment: see examples/setup.sh.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../examples/setup.sh"
tfc_help "$@"
build=$TFC_SOURCE/build
results=()
broken=0

packages=("${TFC_BUILD_PACKAGES[@]}" "${TFC_PYTHON_PACKAGES[@]}" g++ binutils libcmocka-dev
	clang llvm libclang-rt-14-dev clang-format-14 iproute2 procps util-linux
	libuv1-dev libglib2.0-dev abigail-tools groff-base patch valgrind python3-jsonschema python3-pycparser python3-tqdm
	zsh fish qemu-system-x86 busybox-static slurmctld slurmd slurm-client munge openmpi-bin)

# A run whose build or environment is broken counts as one failure.
break_run() {
	tfc_say "FAIL $1"
	broken=$((broken + 1))
}

# run_tests BUILD NAME MESON_TEST_OPTION... : tests that build, the results into a file of that name.
# A command in the array `under` runs meson.
under=()
run_tests() {
	local dir=$build/$1 name=$2 log=$build/$1/meson-logs/testlog-$2.json begin=$SECONDS
	shift 2
	rm -f "${log%.json}"*.json
	tfc_say "test $name"
	tfc_await ${under[@]+"${under[@]}"} meson test -C "$dir" --no-rebuild --logbase "testlog-$name" "$@" \
		>"$TFC_LOGS/test-$name.log" 2>&1
	tfc_say "tested $name in $((SECONDS - begin)) s"
	# Of a run with a wrapper meson names the wrapper, too.
	[ -s "$log" ] || mv "${log%.json}"-*.json "$log" 2>/dev/null
	if [ -s "$log" ]; then
		results+=("$log")
	else
		tail -n 20 "$TFC_LOGS/test-$name.log"
		break_run "$name: no test ran"
	fi
}

strict=(--fatal-meson-warnings --werror -Dembeddings=enabled -Dpython=enabled)
threaded=(node_stop proc_orphan proc_reap)
sanitized=(--suite unit --suite conformance --suite sim --suite fuzz)

build_gcc() {
	tfc_python_tests && tfc_wheel_tools && tfc_frameworks && tfc_frames && tfc_noise || return
	tfc_kernel || TFC_VM_KERNEL= # its tests are skipped
	CC=gcc CXX=g++ tfc_build "$build/gcc" "${strict[@]}" -Dvm_kernel="$TFC_VM_KERNEL" -Dtf_python="$TFC_PYTHON" \
		-Djax_python="$TFC_JAX_PYTHON" -Dtorch_python="$TFC_TORCH_PYTHON" \
		-Dframes_python="$TFC_FRAMES_PYTHON" -Dnoise_python="$TFC_NOISE_PYTHON" -Dwheel_python="$TFC_WHEEL_PYTHON"
}

build_clang() {
	CC=clang CXX=clang++ tfc_build "$build/clang" "${strict[@]}"
}

build_asan() {
	CC=clang CXX=clang++ tfc_build "$build/asan" -Db_sanitize=address,undefined -Db_lundef=false
}

build_tsan() {
	CC=clang CXX=clang++ tfc_build "$build/tsan" -Db_sanitize=thread -Db_lundef=false
}

# The tests of gcc wait most of the time. The builds of the runs that follow compile meanwhile, at
# the lowest priority; each run builds again what has failed, and shows it.
compiling=
compile_ahead() {
	set -m
	(
		trap 'tfc_interrupt TERM' TERM
		renice -n 19 -p "$BASHPID"
		chrt --idle --pid 0 "$BASHPID"
		for name in "$@"; do
			case $name in clang | asan | tsan) "build_$name" ;; esac
		done
	) </dev/null >/dev/null 2>&1 &
	compiling=$!
	set +m
}

await_compiling() {
	[ -z "$compiling" ] || wait "$compiling"
	compiling=
}

run_gcc() {
	build_gcc || return
	compile_ahead "${runs[@]}"
	local without=(--no-suite engines_long)
	! engines_have_changed || without=()
	run_tests gcc gcc --timeout-multiplier 2 ${without[@]+"${without[@]}"}
	await_compiling
}

# Whether the last commit changed what the long tests of engines are about. Without history, no.
engines_have_changed() {
	git -C "$TFC_SOURCE" rev-parse -q --verify HEAD~1 >/dev/null 2>&1 || return
	! git -C "$TFC_SOURCE" diff --quiet HEAD~1 -- lib/allocation lib/node lib/member examples/tfc_run/allocation.c \
		examples/tfc_run/allocation_options.c test/engines
}

run_engines() {
	build_gcc || return
	run_tests gcc engines --suite engines --suite engines_long --timeout-multiplier 2
}

run_clang() {
	build_clang || return
	run_tests clang clang --suite unit
}

# Guard and shim have no stderr; lib/proc/sanitizer.c says where their reports are. A guard that is
# killed while it looks for leaks leaves a line that is no report.
find_reports() {
	local report
	for report in "$build"/asan/meson-logs/helper.*; do
		grep -qs -e 'ERROR: ' -e 'runtime error: ' "$report" || continue
		head -n 30 "$report"
		break_run "asan: guard or shim, see $report"
	done
}

run_asan() {
	build_asan || return
	rm -f "$build"/asan/meson-logs/helper.*
	ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		run_tests asan asan "${sanitized[@]}" --suite proc --suite node_worlds --timeout-multiplier 5
	find_reports
}

# ThreadSanitizer of this age does not find room where the kernel spreads mappings widely.
run_tsan() {
	local under=()
	build_tsan || return
	setarch -R true 2>/dev/null && under=(setarch -R)
	local -x TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 TFC_TEST_SEEDS=300
	run_tests tsan tsan "${sanitized[@]}" --timeout-multiplier 10
	run_tests tsan tsan-proc "${threaded[@]}" --timeout-multiplier 10
}

# Without sanitizers, so that memcheck also sees what the other libraries do with our memory.
run_valgrind() {
	build_gcc || return
	TFC_TEST_SEEDS=300 run_tests gcc valgrind --suite unit --suite sim --timeout-multiplier 10 \
		--wrapper "$here/lib/memcheck.sh"
}

prepare() {
	tfc_need_packages "${packages[@]}" && tfc_venv
}

mkdir -p "$TFC_LOGS" && tfc_make_temp_dir TMPDIR "${TMPDIR:-/tmp}" || exit
# tests with many small files keep them in memory
[ ! -w /dev/shm ] || tfc_make_temp_dir TFC_TEST_SHM /dev/shm || exit
if prepare; then
	runs=("$@")
	[ $# -gt 0 ] || runs=(gcc clang asan tsan valgrind)
	for name in "${runs[@]}"; do
		case $name in
		gcc | engines | clang | asan | tsan | valgrind) "run_$name" || break_run "$name: not built" ;;
		*) break_run "$name: there is no such run" ;;
		esac
	done
else
	break_run "packages or the Python environment are missing"
fi
python3 "$here/results.py" "$broken" ${results[@]+"${results[@]}"}
