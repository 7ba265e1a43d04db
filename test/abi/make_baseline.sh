#!/bin/bash
# Keeps what this version offers, to compare later ones with: its ABI, as abidw describes it, and its
# public headers, in test/abi/MAJOR.MINOR/. To be run for a release, and before it whenever the ABI of
# the coming version has changed on purpose; needs abigail-tools and what a build needs.
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

number() {
	awk -v name="TFC_VERSION_$1" '$2 == name { print $3; exit }' "$source/include/tfcluster/version.h"
}
version=$(number MAJOR).$(number MINOR)

CC=gcc meson setup "$place/build" "$source" -Dtests=false -Dexamples=false >"$place/log" &&
	ninja -C "$place/build" lib/libtfcluster.so.0 >>"$place/log" || { cat "$place/log"; exit 1; }
rm -rf "${here:?}/$version"
mkdir -p "$here/$version/include/tfcluster"
"$here/compare.sh" describe "$place/build/lib/libtfcluster.so.0" "$here/$version/libtfcluster.abi"
cp "$source"/include/tfcluster/*.h "$here/$version/include/tfcluster"
echo "test/abi/$version: $(grep -c '<elf-symbol ' "$here/$version/libtfcluster.abi") functions," \
	"$(find "$here/$version/include" -name '*.h' | wc -l) headers"
