#!/bin/bash
# Compares the library with the newest baseline.
#
#   check.sh LIBRARY.so
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
baseline=$(find "$here" -maxdepth 1 -type d -name '[0-9]*.[0-9]*' -printf '%f\n' | sort -V | tail -n 1)
[ -n "$baseline" ] || { echo "no baseline in test/abi: test/abi/make_baseline.sh makes one"; exit 77; }
command -v abidw >/dev/null && command -v abidiff >/dev/null ||
	{ echo "abidw and abidiff are not installed: package abigail-tools"; exit 77; }
new=$(mktemp --suffix=.abi)
trap 'rm -f "$new"' EXIT
"$here/compare.sh" describe "$1" "$new"
if ! "$here/compare.sh" diff "$here/$baseline/libtfcluster.abi" "$new"; then
	echo "programs built against $baseline would break. If no release has this baseline yet and the"
	echo "change is meant, test/abi/make_baseline.sh makes a new one; after a release it never is."
	exit 1
fi
echo "compatible with $baseline"
