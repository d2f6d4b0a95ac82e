#!/usr/bin/env python3
"""Predicted step time against measured, on this machine's CPU ranks: three networks under many strategies.

usage: /usr/bin/python3 test/benchmark/predicted_vs_measured.py --bin build/bin [--networks resnet18,gpt,unet] [--steps 8]
                                    [--rounds 3] [--profiles DIR] [--seconds 0.02] [--estimate [TOPOLOGY]] [--json FILE]

ResNet-18 (32x32, batch 16) under thirteen strategies, a GPT (4 layers, width 256, 128 words, batch 16) under six, and a U-Net
(64x64, batch 16) under five.

Kernels and collectives are measured first (tessera-profile, for 1, 2 and 4 ranks of each network; kept in DIR if it is given, and
not measured again where DIR has them): predictions, and what `auto` chooses, rest on that. --estimate leaves it out: predictions
rest on a topology, `cpu` or another.
Every strategy is compiled once and run in turn, --rounds times over, so that a disturbance hits all of them; a step's time
is the median over the steps after the first of a round, and the best round counts. Printed: predicted and measured,
Spearman's rank correlation, and how far `auto` is from the fastest. Needs a quiet machine, for the profiles as well.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/models"))
import networks  # noqa: E402
import small_networks  # noqa: E402

PROFILED = {1: "1", 2: "data=2", 4: "x=2,y=2"}  # by ranks: a mesh under which every shape occurs
# Megatron-LM's cut (Shoeybi et al., 2019): columns of the first product of a pair, rows of the second.
# Axis y, where there is one, cuts the batch.
COLUMNS, ROWS = [["y", None, None], [None, "x"]], [["y", None, "x"], ["x", None]]
MEGATRON = [{"op": f"l*.{name}", "in": cut} for name, cut in (("qkv", COLUMNS), ("out", ROWS), ("up", COLUMNS), ("down", ROWS))]


def resnet18(folder):
    return ROOT / "test/models/resnet18_cifar_train.onnx", ["--dim", "batch=16"]


def gpt(folder):
    networks.gpt(folder / "gpt.onnx", layers=4, hidden=256, heads=4, words=2000, batch=16, length=128)
    return folder / "gpt.onnx", ["--inputs", "ids"]


def unet(folder):
    small_networks.unet(folder / "unet.onnx", batch=16, size=64)
    return folder / "unet.onnx", ["--inputs", "image"]


# name, mesh, mode, pattern of make_strategies.py or entries of a strategy file; most on two ranks, so that they differ in strategy and
# not in size
NETWORKS = {resnet18: [
    ("auto", "2", "auto", None),
    ("data", "data=2", "data", None),
    ("output channels", "x=2", "semi-auto", "f=x"),
    ("input channels", "x=2", "semi-auto", "c=x"),
    ("height", "x=2", "semi-auto", "h=x"),
    ("width", "x=2", "semi-auto", "w=x"),
    ("auto, 4 ranks", "4", "auto", None),
    ("data, 4 ranks", "data=4", "data", None),
    ("output channels, 4 ranks", "x=4", "semi-auto", "f=x"),
    ("height, 4 ranks", "x=4", "semi-auto", "h=x"),
    ("batch x output channels", "x=2,y=2", "semi-auto", "n=x,f=y"),
    ("batch x height", "x=2,y=2", "semi-auto", "n=x,h=y"),
    ("one rank", "1", "data", None),
], gpt: [
    ("auto", "2", "auto", None),
    ("data", "data=2", "data", None),
    ("Megatron", "x=2", "auto", MEGATRON),
    ("auto, 4 ranks", "4", "auto", None),
    ("data, 4 ranks", "data=4", "data", None),
    ("batch x Megatron", "y=2,x=2", "auto", MEGATRON),
], unet: [
    ("auto", "2", "auto", None),
    ("data", "data=2", "data", None),
    ("output channels", "x=2", "semi-auto", "f=x"),
    ("height", "x=2", "semi-auto", "h=x"),
    ("batch x height", "x=2,y=2", "semi-auto", "n=x,h=y"),
]}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def ranks_of(values):
    """Positions in order of size, 1 for the smallest; equal values share the mean of theirs."""
    values = np.asarray(values, float)
    return np.array([(np.sum(values < v) + np.sum(values <= v) + 1) / 2 for v in values])


def spearman(a, b):
    return float(np.corrcoef(ranks_of(a), ranks_of(b))[0, 1])


def strategy_of(pattern, mesh, report, path):
    """Writes the strategy file of a pattern, or of entries, whose axes the mesh may lack."""
    if isinstance(pattern, str):
        run(sys.executable, ROOT / "test/e2e/make_strategies.py", report, mesh, pattern, "-o", path)
    else:
        axes = [axis.split("=")[0] for axis in mesh.split(",")]
        path.write_text(json.dumps([{**entry, "in": [[axis if axis in axes else None for axis in dims] for dims in entry["in"]]}
                                    for entry in pattern]))


def plans_of(args, network, folder):
    """The plans of a network under its strategies, with what is predicted."""
    model, options = network(folder)
    base = [args.bin / "tessera-compile", model, *options, "--train", "--loss", "cross_entropy", "--optimizer",
            "sgd:lr=0.001,momentum=0.9"]
    run(*base, "--mesh", "1", "-q", "--dump-phases", folder / "phases", "-o", folder / "one")
    profiles = (args.profiles or folder) / network.__name__
    profiles.mkdir(parents=True, exist_ok=True)
    for ranks, mesh in PROFILED.items():
        # Kernels know shapes and no axes: one mesh serves all of its size.
        if not args.estimate and not (profiles / f"{ranks}.json").exists():
            run(args.bin / "tessera-profile", folder / "phases/2-training.mlir", "--mesh", mesh, "-q", "--seconds", args.seconds,
                "-o", profiles / f"{ranks}.json")
    rows = []
    for i, (label, mesh, mode, pattern) in enumerate(NETWORKS[network]):
        ranks = math.prod(int(axis.split("=")[-1]) for axis in mesh.split(","))
        extra = ["--topology", args.estimate] if args.estimate else ["--profile", profiles / f"{ranks}.json"]
        if pattern:
            strategy_of(pattern, mesh, folder / "one/report.json", folder / f"{i}.json")
            extra += ["--strategy", folder / f"{i}.json"]
        plan = folder / f"plan{i}"
        run(*base, "--mesh", mesh, "--mode", mode, "-q", *extra, "-o", plan)
        train = next(f for f in json.loads((plan / "report.json").read_text())["functions"] if f["name"] == "train")
        rows.append({"network": network.__name__, "name": label, "plan": plan, "predicted": train["predicted_ns"] / 1e6,
                     "communication": train["communication_ns"] / 1e6, "measured": np.inf})
    return rows


def compare(rows):
    """The rank correlation of rows, how far the fastest that was searched is from the fastest, and the ratios."""
    correlation = spearman([r["predicted"] for r in rows], [r["measured"] for r in rows])
    automatic = min(r["measured"] for r in rows if r["name"].startswith("auto"))
    ratios = [r["measured"] / r["predicted"] for r in rows]
    return correlation, automatic / min(r["measured"] for r in rows), min(ratios), max(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--networks", default="resnet18,gpt,unet")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profiles", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=0.02, help="that the profile spends on a kernel")
    parser.add_argument("--estimate", nargs="?", const="cpu", metavar="TOPOLOGY")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    by_name = {network.__name__: network for network in NETWORKS}
    if unknown := set(args.networks.split(",")) - set(by_name):
        parser.error(f"--networks: no {', '.join(sorted(unknown))} among {', '.join(by_name)}")
    with tempfile.TemporaryDirectory() as name:
        rows = []
        for network in args.networks.split(","):
            folder = pathlib.Path(name) / network
            folder.mkdir()
            rows += plans_of(args, by_name[network], folder)
        for _ in range(args.rounds):
            for row in rows:
                log = pathlib.Path(name) / "log.jsonl"
                log.unlink(missing_ok=True)
                run(args.bin / "tessera-run", row["plan"], "--data", "synthetic", "--steps", args.steps, "--log", log)
                times = [json.loads(line)["seconds"] * 1e3 for line in log.read_text().splitlines()]
                row["measured"] = min(row["measured"], float(np.median(times[1:])))
    results = {}
    for network in args.networks.split(","):
        mine = sorted((r for r in rows if r["network"] == network), key=lambda r: r["measured"])
        print(network)
        for row in mine:
            print(f"  {row['name']:26} predicted {row['predicted']:9.2f} ms (communication {row['communication']:8.2f})   "
                  f"measured {row['measured']:9.2f} ms   ratio {row['measured'] / row['predicted']:6.2f}")
        correlation, behind, low, high = compare(mine)
        results[network] = {"correlation": correlation, "auto_over_fastest": behind}
        print(f"  rank correlation {correlation:.3f}; ratios {low:.2f} to {high:.2f}; auto is {100 * (behind - 1):.1f} % from the "
              "fastest")
    correlation, _, low, high = compare(rows)
    print(f"all {len(rows)}: rank correlation {correlation:.3f}; ratios {low:.2f} to {high:.2f}")
    if args.json:
        args.json.write_text(json.dumps({**results, "correlation": correlation, "rows": [
            {k: v for k, v in r.items() if k != "plan"} for r in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
