#!/bin/bash
# Installs the build into an empty place and lets strangers use it: a C and a C++ program that know
# nothing but `pkg-config --cflags --libs libtfcluster` each run a job.
#
#   foreign.sh SOURCE_ROOT BUILD_ROOT
set -eu
source=$1 build=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

DESTDIR=$place meson install -C "$build" --no-rebuild --quiet
pc=$(find "$place" -name libtfcluster.pc)
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$place
lib=$place$(PKG_CONFIG_SYSROOT_DIR= pkg-config --variable=libdir libtfcluster)
prefix=$place$(PKG_CONFIG_SYSROOT_DIR= pkg-config --variable=prefix libtfcluster)

# What a prefix holds; the helper programs are in one directory.
for file in "$lib/libtfcluster.so.0" "$lib/libtfcluster.so" "$lib/libtfcluster.a" \
	"$prefix/include/tfcluster/tfcluster.h" "$prefix/libexec/tfcluster/tfc-guard" \
	"$prefix/libexec/tfcluster/tfc-shim" "$prefix/libexec/tfcluster/tfc-bundle"; do
	[ -e "$file" ] || { echo "not installed: ${file#"$place"}"; exit 1; }
done
for header in "$source"/include/tfcluster/*.h; do
	cmp "$header" "$prefix/include/tfcluster/${header##*/}"
done

strict="-Wall -Wextra -pedantic -Werror"
read -ra flags <<<"$(pkg-config --cflags --libs libtfcluster)"
cp "$source"/test/check/foreign/run_job.c* "$place"
cd "$place"
gcc -std=c11 $strict run_job.c -o run_c "${flags[@]}"
g++ -std=c++17 $strict run_job.cpp -o run_cpp "${flags[@]}"
for program in run_c run_cpp; do
	LD_LIBRARY_PATH=$lib timeout 60 ./$program "$prefix/libexec/tfcluster" ||
		{ echo "$program failed with status $?"; exit 1; }
	echo "$program ran a job"
done
