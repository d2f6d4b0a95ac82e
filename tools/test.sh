#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test.
#   tools/test.sh [BUILD_DIR] [CTEST OPTIONS...]      default: build, the folder of the preset dev
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
[[ $# -gt 0 ]] && shift

tools/install-deps.sh
jobs=${TESSERA_JOBS:-$(nproc)}
start=$SECONDS
cmake --preset dev -B "$build" >"$build.configure.log" 2>&1 || {
  cat "$build.configure.log"
  exit 1
}
rm -f "$build.configure.log"
ninja -C "$build" -j"$jobs" --quiet
echo "test.sh: built in $((SECONDS - start)) s"
start=$SECONDS
# The tests that use several ranks oversubscribe cores on purpose; run them side by side all the same.
ctest --test-dir "$build" --output-on-failure -j"$jobs" "$@"
echo "test.sh: tested in $((SECONDS - start)) s"
