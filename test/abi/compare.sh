#!/bin/bash
# Whether programs that were built against an older library run with this one.
#
#   compare.sh describe LIBRARY.so FILE.abi     writes what the library offers
#   compare.sh diff OLD.abi NEW.abi             0: compatible; else says what is not
#
# Compatible are new functions, new enumerators, and structs that grew at their end.
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

case ${1-} in
describe)
	readelf -S "$2" | grep -q '\.debug_info' || { echo "$2 has no debug information"; exit 77; }
	abidw --suppressions "$here/describe.suppr" --no-corpus-path --no-comp-dir-path --no-show-locs \
		--drop-undefined-syms --type-id-style hash --out-file "$3" "$2"
	# Where the sources lay is nobody's business and differs from build to build.
	sed -i "s|path='[^']*/lib/|path='lib/|" "$3"
	;;
diff)
	status=0
	abidiff --suppressions "$here/growth.suppr" --no-added-syms "$2" "$3" || status=$?
	/usr/bin/env python3 "$here/layouts.py" "$2" "$3" || status=1
	exit "$status"
	;;
*)
	sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
	exit 2
	;;
esac
