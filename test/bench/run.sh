#!/bin/bash
# Measures libtfcluster against its peers and prints one table. Installs what it needs.
#   test/bench/run.sh [--markdown] [--full] [ROW...]
#                                only these rows: launch allocation restart port logs subscribe bundle rpc relay
#                                cluster gossip feed killed_node renewals idle scale size
#                                python_import train warm torch_start;
#                                --markdown: into doc/benchmarks.md, too; --full: gossip with more
#                                sizes and stalls
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/../../examples/setup.sh"
tfc_help "$@"
build=$TFC_SOURCE/build/bench
tfc_need_packages "${TFC_BUILD_PACKAGES[@]}" "${TFC_PYTHON_PACKAGES[@]}" libcmocka-dev python3-pycparser \
	supervisor runit openmpi-bin slurmctld slurmd slurm-client munge binutils iproute2 nftables
[ -n "${TFC_TORCH_PYTHON:-}" ] || tfc_need_packages "${TFC_TORCH_PACKAGES[@]}"
tfc_venv
tfc_python_tests # pyarrow
case "$(printf '%s\n' "$@" | grep -v '^-')" in
'' | *feed*)
	tfc_feed_peers
	export TFC_SPARK_PYTHON
	;;
esac
tfc_build "$build" --buildtype=debugoptimized # the default: what a user installs
exec "$TFC_PYTHON" "$TFC_SOURCE/test/bench/bench.py" --build "$build" "$@"
