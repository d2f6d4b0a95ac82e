#!/usr/bin/env python3
"""One model, several meshes and modes: the losses of training must be those of one rank.

usage: train_equivalence.py --bin DIR --model FILE.onnx [--f64] [--backend NAME] [--steps N] [--tolerance T]
                            [--dim NAME=N]... [--compile OPTION]... CONFIG...

CONFIG is MESH:MODE[:PATTERN], for example data=2,model=2:auto or model=2:semi-auto:f=model (a pattern of
make_strategies.py, or a strategy file NAME.json beside this one). The first run is always one rank. Inputs are random numbers by seed, targets random classes. Exit
code 1 and one line per configuration that differs.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def run(command, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=1500, **kwargs)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(c) for c in command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_data(folder, shape, classes, target_shape):
    rng = np.random.default_rng(7)
    np.save(folder / "x.npy", rng.standard_normal(shape).astype(np.float32))
    np.save(folder / "y.npy", rng.integers(0, classes, target_shape).astype(np.int64))
    return f"npy:{folder / 'x.npy'},{folder / 'y.npy'}"


def losses(args, folder, data, mesh, mode, pattern, tag):
    plan = folder / f"plan-{tag}"
    strategy = None
    if pattern and pattern.endswith(".json"):
        strategy = pathlib.Path(__file__).parent / pattern
    elif pattern:
        strategy = folder / f"{tag}.json"
        run([sys.executable, pathlib.Path(__file__).parent / "make_strategies.py", folder / "plan-one/report.json", mesh,
             pattern, "-o", strategy])
    command = [args.bin / "tessera-compile", args.model, "--mesh", mesh, "--mode", mode, "--train", "--loss",
               args.loss, "--optimizer", args.optimizer, "--seed", "1", "-o", plan]
    for dim in args.dim:
        command += ["--dim", dim]
    if strategy:
        command += ["--strategy", strategy]
    run(command + args.compile)
    log = folder / f"{tag}.jsonl"
    command = [args.bin / "tessera-run", plan, "--data", data, "--steps", args.steps, "--log", log,
               "--backend", args.backend]
    run(command + (["--f64"] if args.f64 else []))
    return [json.loads(line)["loss"] for line in log.read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--input-shape", required=True, help="for example 8,3,32,32")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--loss", default="cross_entropy")
    parser.add_argument("--optimizer", default="sgd:lr=0.05,momentum=0.9,weight_decay=0.0005")
    parser.add_argument("--f64", action="store_true")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--compile", action="append", default=[])
    parser.add_argument("configs", nargs="+")
    args = parser.parse_args()

    shape = [int(n) for n in args.input_shape.split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = make_data(folder, shape, args.classes, shape[:1])
        expected = losses(args, folder, data, "1", "data", None, "one")
        if len(expected) != args.steps or not np.all(np.isfinite(expected)) or expected[0] == expected[-1]:
            sys.exit(f"one rank: expected {args.steps} changing finite losses, found {expected}")
        print(f"one rank: {expected}")
        bad = 0
        for i, config in enumerate(args.configs):
            mesh, mode, *rest = config.split(":")
            found = losses(args, folder, data, mesh, mode, rest[0] if rest else None, f"c{i}")
            worst = max(abs(a - b) / max(abs(a), 1e-30) for a, b in zip(expected, found))
            ok = len(found) == len(expected) and worst <= args.tolerance
            print(f"{config}: largest relative difference {worst:.3g}" + ("" if ok else "  FAILED"))
            bad += not ok
        sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
