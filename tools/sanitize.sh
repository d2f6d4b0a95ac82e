#!/usr/bin/env bash
# Builds the tests with sanitizers and runs them.
#   tools/sanitize.sh [address|compiler|thread]...       default: address thread
# address: the address and undefined-behaviour sanitizers over the runtime and the searchers (unit tests, conformance
# suites, the fuzz targets' fixed runs), in build-asan; compiler: over the compiler's tests too, whose build takes several
# times as long. thread: the thread sanitizer over what has threads (collectives, data, devices, executor), in build-tsan.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -gt 0 ]] || set -- address thread

tools/install-deps.sh --fuzz
jobs=${TESSERA_JOBS:-$(nproc)}

# sanitize PRESET TESTS MPI_PRESET TARGETS...: the tests are a regular expression of CTest, among those of the test preset;
# those of MPI_PRESET run as well, if it is not empty. The targets of unit tests and fuzz targets have the tests' names up
# to the next dot: unit.backend.bits.avx2 is one of the target backend.
sanitize() {
  local preset=$1 tests=$2 mpi=$3
  shift 3
  local build=build-$preset start=$SECONDS
  mkdir -p "$build"
  cmake --preset "$preset" >"$build/configure.log" 2>&1 || {
    cat "$build/configure.log"
    exit 1
  }
  local named
  named=$( (ctest --preset "$preset" -N -R "$tests" && if [[ -n $mpi ]]; then ctest --preset "$mpi" -N; fi) |
    sed -nE 's/.*: (unit|fuzz)\.([^.]*).*/\2/p' | sort -u)
  # shellcheck disable=SC2086
  cmake --build --preset "$preset" -j"$jobs" --target $named "$@" >"$build/build.log" 2>&1 || {
    grep -B2 -A20 -E 'FAILED|error:' "$build/build.log"
    exit 1
  }
  echo "sanitize.sh: $preset: built in $((SECONDS - start)) s"
  start=$SECONDS
  ctest --preset "$preset" -j"$jobs" -R "$tests"
  [[ -z $mpi ]] || ctest --preset "$mpi" -j"$jobs"
  echo "sanitize.sh: $preset: tested in $((SECONDS - start)) s"
}

for kind in "$@"; do
  case $kind in
  address)
    sanitize asan \
      '^unit\.(search|time|pipeline|stages|overlap|test_support|test_plan|test_checkpoint|comm|backend|data|device|executor|telemetry|launch|check|session)|^conformance\.(comm\.thread|backend)|^fuzz\.fuzz_[^o]' \
      asan-mpi comm_conformance backend_conformance tessera-run tessera-solve
    ;;
  compiler)
    sanitize asan '^unit\.|^conformance\.|^fuzz\.' asan-mpi all
    ;;
  thread)
    sanitize tsan \
      '^unit\.(search_search|test_support|test_checkpoint|comm|data|device|executor|telemetry|launch|session)|^conformance\.comm\.thread' '' \
      comm_conformance tessera-run
    ;;
  *)
    echo "sanitize.sh: unknown sanitizer '$kind': address, compiler or thread" >&2
    exit 2
    ;;
  esac
done
