#!/bin/sh
# Fresh worlds of the simulator for so many minutes, one for each core at a time; of each that breaks
# a promise, the story. At the end: worlds, virtual hours, requests, and the faults by kind.
#   test/sim/campaign.sh MINUTES [BUILD]    BUILD: build/gcc
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${2:-$source/build/gcc}
[ $# -ge 1 ] || { echo "usage: $0 MINUTES [BUILD]" >&2; exit 2; }
exec "$build/test/sim/nodes/nodes" --jobs "$(nproc)" --shrink --seconds "$(($1 * 60))"
