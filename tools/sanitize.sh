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
launcher=()
if command -v ccache >/dev/null; then
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi

# sanitize BUILD_DIR SANITIZERS TESTS MPI_TESTS TARGETS...: the tests are regular expressions of CTest. The targets of unit
# tests and fuzz targets have the tests' names.
sanitize() {
  local build=$1 sanitizers=$2 tests=$3 mpi=$4
  shift 4
  local start=$SECONDS
  mkdir -p "$build"
  # The compiler whose warnings are errors is GCC. No NDEBUG: LLVM's header assertions find misuse.
  cmake -G Ninja -S . -B "$build" -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 "${launcher[@]}" \
    -DTESSERA_SANITIZE="$sanitizers" -DTESSERA_WERROR=OFF -DTESSERA_CUDA=OFF \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -gline-tables-only" >"$build/configure.log" 2>&1 || {
    cat "$build/configure.log"
    exit 1
  }
  local named
  named=$(ctest --test-dir "$build" -N -R "$tests|$mpi" | sed -n 's/.*: \(unit\|fuzz\)\.//p')
  # shellcheck disable=SC2086
  ninja -C "$build" -j"$jobs" $named "$@" >"$build/build.log" 2>&1 || {
    grep -B2 -A20 -E 'FAILED|error:' "$build/build.log"
    exit 1
  }
  echo "sanitize.sh: $sanitizers: built in $((SECONDS - start)) s"
  start=$SECONDS
  # Open MPI's plugins are unloaded when leaks are looked for, so that nothing could name what they leak.
  export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=suppressions=$PWD/test/support/sanitizer-thread.supp
  ASAN_OPTIONS=detect_stack_use_after_return=1 \
    ctest --test-dir "$build" --output-on-failure -j"$jobs" -R "$tests" -E "$mpi"
  ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=0 \
    ctest --test-dir "$build" --output-on-failure -j"$jobs" -R "$mpi"
  echo "sanitize.sh: $sanitizers: tested in $((SECONDS - start)) s"
}

for kind in "$@"; do
  case $kind in
  address)
    sanitize build-asan address,undefined \
      '^unit\.(search|test_plan|test_checkpoint|comm|backend|data|device)|^conformance\.(comm\.thread|backend)|^fuzz\.fuzz_[^o]' \
      '^conformance\.comm\.mpi|^unit\.test_executor' \
      comm_conformance backend_conformance tessera-run tessera-solve
    ;;
  compiler)
    sanitize build-asan address,undefined '^unit\.|^conformance\.|^fuzz\.' \
      '^conformance\.comm\.mpi|^unit\.test_executor' all
    ;;
  thread)
    # Kernel threads are OpenMP's, whose runtime the sanitizer does not see: one per rank here.
    OMP_NUM_THREADS=1 sanitize build-tsan thread '^unit\.(search_search|test_checkpoint|comm|data|device)|^conformance\.comm\.thread' \
      '^unit\.test_executor' \
      comm_conformance tessera-run
    ;;
  *)
    echo "sanitize.sh: unknown sanitizer '$kind': address, compiler or thread" >&2
    exit 2
    ;;
  esac
done
