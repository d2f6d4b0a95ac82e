#!/usr/bin/env python3
"""Networks of many families: each is searched for four ranks, and the plan computes what the whole program does.

usage: networks_test.py --bin DIR MODEL...

A model is a file, NAME.onnx, or a network that test/models/networks.py writes with sizes, NAME:KEY=VALUE,... Every model is
compiled for the mesh data=2,model=2 in mode auto with weights by seed, and run with --verify: four ranks beside the
unpartitioned program. A model NAME.onnx:batch=4 gets the option --dim batch=4. Exit code 1 and one line per model that
differs.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import networks  # noqa: E402


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    bad = 0
    for text in args.models:
        model, _, sizes = text.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "plan"
            options = ["--dim", sizes] if sizes else []
            if not model.endswith(".onnx"):
                kind, model, options = model, pathlib.Path(folder) / f"{model}.onnx", ["--inputs", "ids"]
                networks.NETWORKS[kind](model, **{key: int(value) for key, value in (s.split("=") for s in sizes.split(","))})
            code, out = run([args.bin / "tessera-compile", model, "--mesh", "data=2,model=2", "--mode", "auto",
                             "--seed", 7, *options, "-o", plan])
            if code == 0:
                code, out = run([args.bin / "tessera-run", plan, "--verify", "--data", "synthetic"])
            name = pathlib.Path(model).stem
            if code != 0 or "verified: the plan computes what the unpartitioned program does" not in out:
                bad += 1
                print(f"{name}: exit code {code}\n{out}")
            else:
                print(f"{name}: equal")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
