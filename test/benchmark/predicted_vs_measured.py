#!/usr/bin/env python3
"""Predicted step time against measured: ResNet-18 (32x32) on this machine's CPU ranks under many strategies.

usage: /usr/bin/python3 test/benchmark/predicted_vs_measured.py --bin build/bin [--batch 16] [--steps 8] [--rounds 3]
                                    [--profiles DIR] [--seconds 0.02] [--estimate] [--json FILE]

Kernels and collectives are measured first (tessera-profile, once for 1, 2 and 4 ranks; kept in DIR if it is given, and not
measured again where DIR has them): predictions, and what `auto` chooses, rest on that. --estimate leaves it out.
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
# name, mesh, mode, pattern of make_strategies.py; two ranks each, so that they differ in strategy and not in size
CONFIGS = [
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
]
PROFILED = {1: "1", 2: "data=2", 4: "x=2,y=2"}  # by ranks: a mesh under which every shape occurs


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profiles", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=0.02, help="that the profile spends on a kernel")
    parser.add_argument("--estimate", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        base = [args.bin / "tessera-compile", ROOT / "test/models/resnet18_cifar_train.onnx", "--dim", f"batch={args.batch}",
                "--train", "--loss", "cross_entropy", "--optimizer", "sgd:lr=0.001,momentum=0.9"]
        run(*base, "--mesh", "1", "-q", "--dump-phases", folder / "phases", "-o", folder / "one")
        profiles = args.profiles or folder
        profiles.mkdir(parents=True, exist_ok=True)
        for ranks, mesh in PROFILED.items():
            # Kernels know shapes and no axes: one mesh serves all of its size.
            if not args.estimate and not (profiles / f"{ranks}.json").exists():
                run(args.bin / "tessera-profile", folder / "phases/2-training.mlir", "--mesh", mesh, "-q", "--seconds", args.seconds,
                    "-o", profiles / f"{ranks}.json")
        rows = []
        for i, (label, mesh, mode, pattern) in enumerate(CONFIGS):
            ranks = math.prod(int(axis.split("=")[-1]) for axis in mesh.split(","))
            extra = [] if args.estimate else ["--profile", profiles / f"{ranks}.json"]
            if pattern:
                strategy = folder / f"{i}.json"
                run(sys.executable, ROOT / "test/e2e/make_strategies.py", folder / "one/report.json", mesh, pattern,
                    "-o", strategy)
                extra += ["--strategy", strategy]
            plan = folder / f"plan{i}"
            run(*base, "--mesh", mesh, "--mode", mode, "-q", *extra, "-o", plan)
            train = next(f for f in json.loads((plan / "report.json").read_text())["functions"] if f["name"] == "train")
            rows.append({"name": label, "plan": plan, "predicted": train["predicted_ns"] / 1e6,
                         "communication": train["communication_ns"] / 1e6, "measured": np.inf})
        for _ in range(args.rounds):
            for row in rows:
                log = folder / "log.jsonl"
                log.unlink(missing_ok=True)
                run(args.bin / "tessera-run", row["plan"], "--data", "synthetic", "--steps", args.steps, "--log", log)
                times = [json.loads(line)["seconds"] * 1e3 for line in log.read_text().splitlines()]
                row["measured"] = min(row["measured"], float(np.median(times[1:])))
        for row in sorted(rows, key=lambda r: r["measured"]):
            print(f"{row['name']:26} predicted {row['predicted']:9.2f} ms (communication {row['communication']:8.2f})   "
                  f"measured {row['measured']:9.2f} ms   ratio {row['measured'] / row['predicted']:6.2f}")
        correlation = spearman([r["predicted"] for r in rows], [r["measured"] for r in rows])
        fastest = min(r["measured"] for r in rows)
        automatic = min(r["measured"] for r in rows if r["name"].startswith("auto"))
        print(f"rank correlation {correlation:.3f}; auto is {100 * (automatic / fastest - 1):.1f} % from the fastest")
        if args.json:
            args.json.write_text(json.dumps({"correlation": correlation, "auto_over_fastest": automatic / fastest, "rows": [
                {k: v for k, v in r.items() if k != "plan"} for r in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
