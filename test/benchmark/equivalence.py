#!/usr/bin/env python3
"""The partitioned program is the same function: training ResNets on 1, 2, 4 and 8 ranks in every mode.

usage: /usr/bin/python3 test/benchmark/equivalence.py --bin build/bin [--models resnet18,resnet50] [--steps 50]
                                                      [--batch 16] [--f64-steps 20] [--f64-batch 8]

float32: losses of the first 20 of --steps steps on the synthetic images, relative to one rank, for modes data,
semi-auto (channels split, height split, batch x channels) and auto; then the evaluation accuracy of the trained
weights. float64: the same losses over --f64-steps steps on the reference backend. If PyTorch is there, what per-device
BatchNorm (ordinary data parallelism) does to the losses stands beside it.

The residual branches start at zero, as recipes that train ResNets have it (the last BatchNorm's scale; Goyal et al.,
"Accurate, Large Minibatch SGD", 2017; torchvision's zero_init_residual). With --plain-init they start at one, and
ResNet-50 is then a chaotic system: its first gradient already differs by 1 % to 3.5 % from float64's in PyTorch, by the
layout, and losses part exponentially from there, whatever computes them. float64 shows that nothing but rounding differs.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Learning rates at which no single rounding decides a loss's fourth digit within 20 steps. At 0.01 ResNet-50's loss rises to
# 2.8 at first, and one ReLU whose input rounds to the other side of zero moves the 20th loss by 4e-4.
RATE = {"resnet18": 0.01, "resnet50": 0.003}
LAST_SCALE = {"resnet18": "*.bn2.weight", "resnet50": "*.bn3.weight"}
# name, mesh, mode, pattern of make_strategies.py
CONFIGS = [
    ("data, 2 ranks", "data=2", "data", None),
    ("data, 4 ranks", "data=4", "data", None),
    ("data, 8 ranks", "data=8", "data", None),
    ("channels split, 2 ranks", "model=2", "semi-auto", "f=model"),
    ("channels split, 4 ranks", "model=4", "semi-auto", "f=model"),
    ("channels split, 8 ranks", "model=8", "semi-auto", "f=model"),
    ("height split, 2 ranks", "space=2", "semi-auto", "h=space"),
    ("height split, 4 ranks", "space=4", "semi-auto", "h=space"),
    ("batch x channels, 4 ranks", "data=2,model=2", "semi-auto", "n=data,f=model"),
    ("batch x channels, 8 ranks", "data=4,model=2", "semi-auto", "n=data,f=model"),
    ("auto, 2 ranks", "data=2", "auto", None),
    ("auto, 4 ranks", "data=2,model=2", "auto", None),
    ("auto, 8 ranks", "data=4,model=2", "auto", None),
]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_plan(args, model, batch, mesh, mode, pattern, folder, name):
    base = [args.bin / "tessera-compile", ROOT / f"test/models/{model}_cifar_train.onnx", "--dim", f"batch={batch}",
            "--train", "--loss", "cross_entropy", "--optimizer", f"sgd:lr={args.lr or RATE[model]},momentum=0.9,weight_decay=0.0005",
            "--seed", "1"]
    if not args.plain_init:
        base += ["--init", LAST_SCALE[model] + "=zeros"]
    plan = folder / name
    extra = []
    if pattern:
        one = folder / f"one-{batch}"
        if not one.exists():
            run(*base, "--mesh", "1", "--mode", "data", "-o", one)
        strategies = folder / f"{name}.json"
        run(sys.executable, ROOT / "test/e2e/make_strategies.py", one / "report.json", mesh, pattern, "-o", strategies)
        extra = ["--strategy", strategies]
    run(*base, "--mesh", mesh, "--mode", mode, *extra, "-o", plan)
    return plan


def train(args, plan, steps, folder, f64):
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    checkpoint = folder / (plan.name + "-checkpoint")
    run(args.bin / "tessera-run", plan, "--data", "synthetic", "--steps", steps, "--log", log,
        *(["--backend", "reference", "--f64"] if f64 else ["--checkpoint-dir", checkpoint]))
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    accuracy = None
    if not f64:
        text = run(args.bin / "tessera-run", plan, "--data", "synthetic", "--eval", "--resume", checkpoint,
                   "--steps", 1024 // args.batch)
        match = re.search(r"accuracy[ :=]+([0-9.]+)", text)
        accuracy = float(match.group(1)) if match else float("nan")
    return losses, accuracy


def per_device_batch_norm(steps, batch):
    """PyTorch, ResNet-18: one device against four that normalise their own quarter of the batch."""
    try:
        import copy

        import torch
        import torchvision
    except ImportError:
        return "PyTorch is not installed: per-device BatchNorm not measured"
    torch.manual_seed(0)
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = torch.nn.Identity()
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    curves = []
    for devices in (1, 4):
        model = copy.deepcopy(net).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
        curve = []
        for _ in range(steps):
            optimizer.zero_grad()
            total = 0.0
            for xs, ys in zip(x.chunk(devices), y.chunk(devices)):
                loss = torch.nn.functional.cross_entropy(model(xs), ys) / devices
                loss.backward()
                total += loss.item()
            optimizer.step()
            curve.append(total)
        curves.append(curve)
    worst = max(abs(a - b) / a for a, b in zip(*curves))
    return f"per-device BatchNorm elsewhere (PyTorch, ResNet-18, 4 x {batch // 4} images): relative difference {worst:.2g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--models", default="resnet18,resnet50")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, help="instead of each model's own")
    parser.add_argument("--plain-init", action="store_true", help="residual branches start at one")
    parser.add_argument("--f64-steps", type=int, default=20)
    parser.add_argument("--f64-batch", type=int, default=8)
    parser.add_argument("--only", default="", help="configurations whose name contains this")
    args = parser.parse_args()
    bad = 0
    for model in args.models.split(","):
        for f64 in (False, True):
            batch, steps = (args.f64_batch, args.f64_steps) if f64 else (args.batch, args.steps)
            if steps == 0:
                continue
            limit = 1e-10 if f64 else 1e-4
            print(f"{model}, 32x32, batch {batch}, {steps} steps, {'float64 reference' if f64 else 'float32'}", flush=True)
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                plan = compile_plan(args, model, batch, "1", "data", None, folder, "one")
                expected, accuracy = train(args, plan, steps, folder, f64)
                print(f"  {'one rank':28} loss {expected[0]:.6f} -> {expected[-1]:.6f}"
                      + ("" if f64 else f"  accuracy {accuracy:.4f}"), flush=True)
                for i, (title, mesh, mode, pattern) in enumerate(CONFIGS):
                    if args.only not in title:
                        continue
                    plan = compile_plan(args, model, batch, mesh, mode, pattern, folder, f"c{i}")
                    found, mine = train(args, plan, steps, folder, f64)
                    worst = max(abs(a - b) / abs(a) for a, b in list(zip(expected, found))[:20])
                    ok = worst <= limit and len(found) == len(expected)
                    bad += not ok
                    print(f"  {title:28} largest relative difference {worst:.2g}"
                          + ("" if f64 else f"  accuracy {mine:.4f}") + ("" if ok else "  ABOVE THE LIMIT"), flush=True)
    print(per_device_batch_norm(20, 32))
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
