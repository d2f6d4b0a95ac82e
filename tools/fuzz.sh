#!/usr/bin/env bash
# Runs every fuzz target with libFuzzer (guided by coverage) under the address and undefined-behaviour sanitizers.
# Then the programs themselves, built in the same way, on mutated files of every kind and mutated command lines.
#   tools/fuzz.sh [SECONDS] [BUILD_DIR] [SEED] [TARGET...]      default: 60 seconds each, build-fuzz, a random seed, all
# With a seed and no corpus from earlier runs the same inputs come in the same order: continuous integration judges a
# change so; longer hunts leave it out.
# The corpus starts from test/models, from plans that build/bin/tessera-compile makes where it is built, and from each
# target's own seeds; it stays in BUILD_DIR/corpus, so that the next run goes on from there. An input that fails stays
# in BUILD_DIR/findings: run BUILD_DIR/bin/fuzz_TARGET FILE to see it again. Of the programs (target `tools`), what is
# printed says how to run a trial again (test/fuzz/tools_fuzz.py).
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
build=${2:-build-fuzz}
seed=${3:-0} # libFuzzer's 0: any
targets=("${@:4}")
[[ ${#targets[@]} -gt 0 ]] || targets=(onnx plan manifest safetensors npy solve schedule stages tools)
programs=
for i in "${!targets[@]}"; do
  [[ ${targets[i]} == tools ]] && programs=1 && unset "targets[$i]"
done
targets=("${targets[@]}")
build_targets=("${targets[@]/#/fuzz_}")
[[ -n $programs ]] && build_targets+=(tessera-{compile,run,ckpt,dump,solve,profile,opt} fuzz_image)

tools/install-deps.sh --fuzz
jobs=${TESSERA_JOBS:-$(nproc)}
start=$SECONDS
mkdir -p "$build"
cmake --preset fuzz -B "$build" >"$build/configure.log" 2>&1 || {
  cat "$build/configure.log"
  exit 1
}
ninja -C "$build" -j"$jobs" "${build_targets[@]}" >"$build/build.log" 2>&1 || {
  grep -B2 -A20 -E 'FAILED|error:' "$build/build.log"
  exit 1
}
echo "fuzz.sh: built in $((SECONDS - start)) s"

mkdir -p "$build/findings"
for target in "${targets[@]}"; do
  mkdir -p "$build/corpus/$target"
  "$build/bin/fuzz_$target" --write-seeds "$build/corpus/$target"
done
mkdir -p "$build/corpus/onnx" "$build/corpus/plan"
cp test/models/*.onnx "$build/corpus/onnx/"
if [[ -x build/bin/tessera-compile ]]; then
  for mode in data auto; do
    rm -rf "$build/plan"
    build/bin/tessera-compile test/models/lenet_train.onnx --dim batch=4 --mesh data=2,model=2 --mode "$mode" \
      --train --loss cross_entropy --optimizer sgd:lr=0.1,momentum=0.9 --init kaiming -o "$build/plan" >/dev/null
    for plan in "$build"/plan/*.plan; do
      cp "$plan" "$build/corpus/plan/$mode-$(basename "$plan")"
    done
  done
fi

fuzz() { # TARGET
  local log=$build/fuzz_$1.log
  if ! ASAN_OPTIONS=detect_stack_use_after_return=1 "$build/bin/fuzz_$1" "$build/corpus/$1" -max_total_time="$seconds" -seed="$seed" \
    -max_len=131072 -timeout=20 -rss_limit_mb=4096 -artifact_prefix="$build/findings/$1-" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "fuzz.sh: fuzz_$1 found an input that fails: $(grep -o 'Test unit written to .*' "$log" | cut -d' ' -f5-)"
    return 1
  fi
  grep -E '^#[0-9]+\s+DONE' "$log" | sed "s/^/fuzz.sh: fuzz_$1 /"
}
export -f fuzz
export build seconds seed
if [[ ${#targets[@]} -gt 0 ]]; then
  printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz {}'
fi
if [[ -n $programs ]]; then
  mkdir -p "$build/corpus/image"
  "$build/bin/fuzz_image" --write-seeds "$build/corpus/image"
  [[ $seed -ne 0 ]] || seed=$RANDOM
  /usr/bin/python3 test/fuzz/tools_fuzz.py --bin "$build/bin" --seconds "$seconds" --seed "$seed" --jobs "$jobs" \
    --images "$build/corpus/image" --findings "$build/findings"
fi
