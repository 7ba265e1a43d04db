#!/usr/bin/env bash
# Builds the Python package as a wheel that carries the library, its helper programs, and what they link but
# the C library: it runs on every Linux with a glibc not older than this machine's.
#
#   bindings/python/build_wheel.sh DIR
#
# The wheel is put into DIR. Environment: TFC_WHEEL_PYTHON, an interpreter with the tools (examples/setup.sh);
# TFC_WHEEL_BUILD, the meson build folder, to build again what has changed.
set -eu
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source/examples/setup.sh"
tfc_help "${1:---help}"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
tfc_need_packages "${TFC_BUILD_PACKAGES[@]}" "${TFC_PYTHON_PACKAGES[@]}"
tfc_wheel_tools
PATH=$(dirname "$TFC_WHEEL_PYTHON"):$PATH
tfc_make_temp_dir built "${TMPDIR:-/tmp}"

options=()
[ -z "${TFC_WHEEL_BUILD:-}" ] || options=("--config-settings=build-dir=$TFC_WHEEL_BUILD")
tfc_step "build the wheel" tfc_await "$TFC_WHEEL_PYTHON" -m pip wheel --disable-pip-version-check \
	--no-build-isolation --no-deps --wheel-dir "$built" ${options[@]+"${options[@]}"} "$source"
# Of Python the wheel needs no ABI: the library is loaded with ctypes.
tfc_step "tag the wheel" "$TFC_WHEEL_PYTHON" -m wheel tags --remove --python-tag py3 --abi-tag none "$built"/*.whl
tfc_step "add shared libraries to the wheel" tfc_await "$TFC_WHEEL_PYTHON" -m auditwheel repair --wheel-dir "$dir" \
	"$built"/*.whl
