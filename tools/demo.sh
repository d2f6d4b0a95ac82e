#!/usr/bin/env bash
# From nothing to a trained ResNet on 4 ranks: installs what is missing, builds, compiles ResNet-18 as PyTorch
# exported it, shows the chosen strategies, trains it on the synthetic image set, and shows that 1, 2 and 4 ranks
# give the same losses.
#   tools/demo.sh [BUILD_DIR]          default: build
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
model=test/models/resnet18_cifar_train.onnx

tools/install-deps.sh
jobs=${TESSERA_JOBS:-$(nproc)}
echo "== building (several minutes the first time)"
cmake --preset dev -B "$build" >/dev/null
ninja -C "$build" -j"$jobs" --quiet tessera-compile tessera-dump tessera-run

export TESSERA_TOPOLOGY=cpu # the machine of the picture in docs/, whatever this one is
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() { # MESH MODE LEARNING_RATE PLAN
  "$build/bin/tessera-compile" "$model" --mesh "$1" --mode "$2" --dim batch=32 --train --loss cross_entropy \
    --optimizer "sgd:lr=$3,momentum=0.9,weight_decay=0.0005" --seed 1 -o "$4"
}

echo
echo "== ResNet-18, 4 ranks, strategies chosen by search"
compile data=2,model=2 auto 0.01 "$work/demo"
"$build/bin/tessera-dump" "$work/demo" >"$work/dump.txt"
head -40 "$work/dump.txt"
"$build/bin/tessera-dump" "$work/demo" --svg "$build/demo.svg"
echo "   as a picture: $build/demo.svg"
echo
echo "== training it on the synthetic images"
"$build/bin/tessera-run" "$work/demo" --data synthetic --steps 30

echo
echo "== the same five steps on 1, 2 and 4 ranks (a small learning rate, so that float32 rounding stays small)"
for ranks in 1 2 4; do
  compile "data=$ranks" data 0.0005 "$work/data$ranks" >/dev/null
  "$build/bin/tessera-run" "$work/data$ranks" --data synthetic --steps 5 --log "$work/data$ranks.jsonl" >/dev/null
done
compile data=2,model=2 auto 0.0005 "$work/auto4" >/dev/null
"$build/bin/tessera-run" "$work/auto4" --data synthetic --steps 5 --log "$work/auto4.jsonl" >/dev/null
python3 - "$work" <<'PY'
import json, sys
runs = {name: [json.loads(line)["loss"] for line in open(f"{sys.argv[1]}/{name}.jsonl")]
        for name in ("data1", "data2", "data4", "auto4")}
print("step " + "".join(f"{name:>14}" for name in runs))
for step, row in enumerate(zip(*runs.values())):
    print(f"{step:4} " + "".join(f"{loss:14.8f}" for loss in row))
worst = max(abs(a - b) / abs(a) for run in runs.values() for a, b in zip(runs["data1"], run))
print(f"largest relative difference from one rank: {worst:.2g}")
sys.exit(worst > 1e-4)
PY
