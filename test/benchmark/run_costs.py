#!/usr/bin/env python3
"""What --check-numerics and checkpoints in the background cost a training step of ResNet-18.

usage: /usr/bin/python3 test/benchmark/run_costs.py --bin build/bin [--steps 33] [--rounds 3] [--batch 32] [--mesh 2]

Runs alternate: plain, with --check-numerics skip (which copies parameters before every sixteenth step), and with a checkpoint
every third step. Prints means and medians of the steps' times over all rounds but each run's first step, with quartiles; and
of the pauses (the phase "at a checkpoint" of a trace, on the slowest rank) in steps that began a checkpoint and in those that
did not.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return (f"mean {statistics.mean(values) * 1e3:.1f} ms, median {middle * 1e3:.1f} ms (quartiles {low * 1e3:.1f} and "
            f"{high * 1e3:.1f}, {len(values)} steps)")


def pauses(trace):
    """By step, the longest pause of any rank."""
    found = {}
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X" and e["tid"] == 0]
    for step in (e for e in events if e["cat"] == "step"):
        for e in events:
            if e["name"] == "at a checkpoint" and e["pid"] == step["pid"] and 0 <= e["ts"] - step["ts"] < step["dur"]:
                number = step["args"]["step"]
                found[number] = max(found.get(number, 0), e["dur"] / 1e6)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=33)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--mesh", default="2")
    args = parser.parse_args()
    models = pathlib.Path(__file__).resolve().parents[1] / "models"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plan = folder / "plan"

        def run(*command):
            subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)

        run(args.bin / "tessera-compile", models / "resnet18_cifar_train.onnx", "--mesh", args.mesh, "--mode", "data", "--dim",
            f"batch={args.batch}", "--train", "--loss", "cross_entropy", "--optimizer", "sgd:lr=0.001,momentum=0.9", "-o", plan)
        log, trace = folder / "log.jsonl", folder / "trace.json"
        seconds = {"plain": [], "with --check-numerics skip": [], "with a checkpoint every third step": []}
        begun, other = [], []
        for round_ in range(args.rounds):
            for what, found in seconds.items():
                options = ()
                if "numerics" in what:
                    options = ("--check-numerics", "skip")
                if "checkpoint" in what:
                    options = ("--checkpoint-dir", folder / f"run{round_}", "--checkpoint-every", 3, "--keep", 1, "--trace",
                               f"steps=2:{args.steps}", "--trace-file", trace)
                run(args.bin / "tessera-run", plan, "--data", "synthetic", "--steps", args.steps, "--log", log, *options)
                found += [json.loads(line)["seconds"] for line in log.read_text().splitlines()][1:]
            for step, pause in pauses(trace).items():
                (begun if step % 3 == 0 else other).append(pause)
        for what, found in seconds.items():
            print(f"{what}: {quartiles(found)}")
        print(f"pause where a checkpoint begins: {quartiles(begun)}")
        print(f"pause in the other steps: {quartiles(other)}")


if __name__ == "__main__":
    main()
