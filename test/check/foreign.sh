#!/bin/bash
# Installs the build into an empty place and lets strangers use it: a C and a C++ program that know
# nothing but `pkg-config --cflags --libs libtfcluster` each run a job, and so does each whole program
# in the README and the guide.
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
for page in man1/tfc_run.1 man3/libtfcluster.3 man3/tfc_ctx_new.3 man3/tfc_version.3; do
	[ -e "$prefix/share/man/$page" ] || { echo "not installed: man page $page"; exit 1; }
done
for script in bash-completion/completions/tfc_run zsh/site-functions/_tfc_run fish/vendor_completions.d/tfc_run.fish; do
	[ -e "$prefix/share/$script" ] || { echo "not installed: $script"; exit 1; }
done
unit=$prefix/lib/systemd/system/tfcluster-node.service
grep -q "^ExecStart=${prefix#"$place"}/bin/tfc_run node " "$unit" || { echo "no unit for systemd is installed"; exit 1; }
[ -e "$prefix/share/doc/libtfcluster/reference/ctx.md" ] || { echo "no reference is installed"; exit 1; }
for header in "$source"/include/tfcluster/*.h; do
	cmp "$header" "$prefix/include/tfcluster/${header##*/}"
done

strict="-Wall -Wextra -pedantic -Werror"
read -ra flags <<<"$(pkg-config --cflags --libs libtfcluster)"
cp "$source"/test/check/foreign/*.c* "$place"
cd "$place"
gcc -std=c11 $strict run_job.c -o run_c "${flags[@]}"
g++ -std=c++17 $strict run_job.cpp -o run_cpp "${flags[@]}"
read -ra closure <<<"$(PKG_CONFIG_SYSROOT_DIR= pkg-config --libs jansson libsodium libzip msgpack)"
gcc -std=c11 $strict "-I$prefix/include" run_job.c own_names.c -o run_static "$lib/libtfcluster.a" "${closure[@]}"
for program in run_c run_cpp run_static; do
	LD_LIBRARY_PATH=$lib timeout 60 ./$program "$prefix/libexec/tfcluster" ||
		{ echo "$program failed with status $?"; exit 1; }
	echo "$program ran a job"
done

# The Nth fenced block of C in a file, if it is a whole program.
snippet() {
	awk -v wanted="$2" '
		/^```c$/ { n++; on = n == wanted; next }
		/^```$/ { on = 0 }
		on' "$1" >snippet.c
	grep -q 'int main(' snippet.c
}

programs=0
for page in "$source"/README.md "$source"/doc/guide/*.md; do
	count=$(grep -c '^```c$' "$page" || true)
	for ((i = 1; i <= count; i++)); do
		snippet "$page" "$i" || continue
		gcc -std=gnu11 -Wall -Werror snippet.c -o snippet "${flags[@]}" ||
			{ echo "program $i of $page does not compile"; exit 1; }
		LD_LIBRARY_PATH=$lib TFC_HELPER_DIR=$prefix/libexec/tfcluster \
			timeout 60 ./snippet "$prefix/libexec/tfcluster" >snippet.out ||
			{ echo "program $i of $page failed with status $?"; exit 1; }
		grep -q hello snippet.out || { echo "program $i of $page did not say hello"; exit 1; }
		sed 's|\\"[/bin]*echo\\"|\\"/missing-program\\"|' snippet.c >broken.c
		gcc -std=gnu11 -Wall -Werror broken.c -o broken "${flags[@]}"
		code=0
		LD_LIBRARY_PATH=$lib timeout 60 ./broken "$prefix/libexec/tfcluster" 2>broken.err || code=$?
		{ [ "$code" -eq 127 ] && grep -q /missing-program broken.err; } ||
			{ echo "program $i of $page hides a failed job: status $code: $(cat broken.err)"; exit 1; }
		programs=$((programs + 1))
	done
done
[ "$programs" -ge 1 ] || { echo "no program found in the documents"; exit 1; }
echo "$programs programs of the documents ran a job"

# The installed tfc_run finds its library by itself.
if [ -e "$prefix/bin/tfc_run" ]; then
	said=$(TFC_HELPER_DIR=$prefix/libexec/tfcluster timeout 60 "$prefix/bin/tfc_run" local echo hello)
	[ "$said" = "[worker/0] hello" ] || { echo "the installed tfc_run says: $said"; exit 1; }
fi
