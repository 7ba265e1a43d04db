#!/bin/bash
# Installs what it needs, builds libtfcluster and trains a real TensorFlow cluster with it: a chief,
# two workers, a parameter server, an evaluator and a TensorBoard, on scikit-learn's digits. On the
# way it kills a worker with SIGKILL. Ends with 0 only if the job succeeded in spite of that.
#
#   examples/quickstart.sh      from any directory, as root or with sudo, as often as you like
set -u
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
tfc_help "$@"

build=$TFC_SOURCE/build/quickstart-build
work=$TFC_SOURCE/build/quickstart
patience=300 # seconds until what is awaited counts as never coming

# Pid of the Python of worker/1 of this run, once it is there.
worker_pid() {
	local dir
	for dir in /proc/[0-9]*; do
		if tr '\0' '\n' 2>/dev/null <"$dir/environ" |
			awk -v run="$$" '
				$0 == "QUICKSTART=" run || $0 == "TFC_TASK_TYPE=worker" ||
					$0 == "TFC_TASK_INDEX=1" { found++ }
				END { exit found != 3 }' 2>/dev/null; then
			printf '%s\n' "${dir#/proc/}"
			return
		fi
	done
	return 1
}

# Waits until a line of the output matches; false when it does not come.
await_output() {
	local end=$((SECONDS + patience))
	until grep -q "$1" "$work/output"; do
		[ "$SECONDS" -lt "$end" ] || return
		sleep 0.2
	done
}

# Kills worker/1 in the middle of the training, which is kept slow until it is back.
kill_a_worker() {
	local pid
	if await_output '^\[chief/0\] step=40' && pid=$(worker_pid); then
		tfc_say "--- quickstart: kill -9 $pid, which is worker/1: the others go on, and it comes back"
		kill -KILL "$pid"
		await_output '^\[worker/1#2\] .* serves '
		tfc_say "--- quickstart: worker/1 is back; from here on at full speed"
	fi
	rm "$work/slow"
}

train() {
	local killer status
	rm -rf "$work" && mkdir -p "$work" && touch "$work/output" "$work/slow" || return
	cd "$TFC_SOURCE/examples/tensorflow" || return
	export QUICKSTART=$$ PATH=${TFC_PYTHON%/*}:$PATH TFC_HELPER_DIR=$build/lib
	export TF_CPP_MIN_LOG_LEVEL=3 TF_ENABLE_ONEDNN_OPTS=0 # less to read
	tfc_say "cd $PWD" "&&" "PATH=${TFC_PYTHON%/*}:\$PATH TFC_HELPER_DIR=$TFC_HELPER_DIR" \
		"$build/examples/tfc_run/tfc_run local --job quickstart.json"
	kill_a_worker &
	killer=$!
	# tee ends after tfc_run, whose last words are still to be shown after a signal
	"$build/examples/tfc_run/tfc_run" local --job quickstart.json 2>&1 |
		(trap '' TERM && exec tee "$work/output")
	status=${PIPESTATUS[0]}
	kill "$killer" 2>/dev/null
	wait "$killer" 2>/dev/null
	return "$status"
}

show_result() {
	local status=$1 accuracy attempts board ending=succeeded fate="not killed"
	[ "$status" -eq 0 ] || ending="failed, status $status"
	accuracy=$(sed -n 's/^\[chief\/0\(#[0-9]*\)\{0,1\}\] accuracy=//p' "$work/output" | tail -n 1)
	attempts=$(sed -n 's/^\[worker\/1#\([0-9]*\)\] .*/\1/p' "$work/output" | tail -n 1)
	board=$(sed -n 's/^tfc_run: TensorBoard: //p' "$work/output")
	[ -z "$attempts" ] || fate="killed once, restarted $((attempts - 1)) time(s)"
	tfc_say ""
	tfc_say "job:                $ending"
	tfc_say "held-out accuracy:  ${accuracy:-none}"
	tfc_say "worker/1:           $fate"
	tfc_say "TensorBoard:        ${board:+answered at $board}"
	tfc_say "  to see it again:  $TFC_PYTHON -m tensorboard.main --logdir $work/summaries"
	[ "$status" -eq 0 ] || return "$status"
	if [ -z "$accuracy" ] || [ -z "$attempts" ] || [ -z "$board" ]; then
		tfc_say "quickstart: no accuracy, no TensorBoard, or the worker was not restarted" >&2
		return 1
	fi
}

tfc_make_temp_dir TMPDIR "${TMPDIR:-/tmp}" || exit
tfc_need_packages "${TFC_BUILD_PACKAGES[@]}" "${TFC_PYTHON_PACKAGES[@]}" || exit
tfc_venv || exit
tfc_build "$build" -Dtests=false || exit
tfc_await train
show_result $?
