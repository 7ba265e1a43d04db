#!/bin/sh
# Measures libtfcluster against its peers and prints one table. Installs what it needs.
#   test/bench/run.sh [NAME...]    only the named rows: launch restart port idle size train
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/examples/setup.sh"
tfc_need_packages supervisor runit openmpi-bin binutils
tfc_venv
build=$top/build/bench
tfc_build "$build" --buildtype=release
exec "$TFC_VENV/bin/python" "$top/test/bench/bench.py" --build "$build" --prefix "$TFC_PREFIX" "$@"
