#!/usr/bin/env python3
"""The limit of a training step on this machine, and how near the step comes.

usage: /usr/bin/python3 test/benchmark/limits.py --bin build/bin [--networks mlp,vit,...] [--precisions f32,bf16] [--threads 2]
                                                 [--rounds 3] [--steps 6] [--small] [--products]

The limit (limit_bench, LimitBench.cpp) is the time of the step's products, each by the fastest kernel that oneDNN has for
its shape in any layout, and of the least bytes at the measured bandwidth: what products read and write, once more, and
parameters and states, read and written. Nothing computes a step faster with these kernels; loops that are fused into
products could. The networks are those of equal_bits_price.py. A round measures the step (median without the first) and the
limit in turn; printed are medians over rounds with the smallest and largest. --products: also the slowest products and
their kernels. Run it on a quiet machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from equal_bits_price import contestants, run, spread


def limit_of(args, plan):
    done = subprocess.run([str(args.bin / "limit_bench"), str(plan), "--threads", str(args.threads)], capture_output=True,
                          text=True)
    if done.returncode:
        raise SystemExit(done.stderr or f"limit_bench ended with status {done.returncode} and said nothing")
    return json.loads(done.stdout)


def step_of(args, plan, log):
    log.unlink(missing_ok=True)
    run(args.bin / "tessera-run", plan, "--data", "synthetic", "--steps", args.steps, "--log", log, "--threads", args.threads)
    return statistics.median(json.loads(line)["seconds"] for line in log.read_text().splitlines()[1:])


def measure(args, name, precision, make, options):
    """Prints a network's line, and its products if they are asked for."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make(folder / "net.onnx")
        run(args.bin / "tessera-compile", folder / "net.onnx", "--mesh", "1", "--mode", "data", "--train", *options,
            "--precision", precision, "-o", folder / "plan")
        rounds = [(step_of(args, folder / "plan", folder / "log.jsonl"), limit_of(args, folder / "plan"))
                  for _ in range(args.rounds)]
    seconds = lambda s: f"{s:.3f} s"
    cells = [spread([step for step, _ in rounds], seconds), spread([limit["product_seconds"] for _, limit in rounds], seconds),
             f"{rounds[0][1]['bytes'] / 1e9:.2f} GB", spread([limit["byte_seconds"] for _, limit in rounds], seconds),
             spread([limit["limit"] / step for step, limit in rounds], lambda share: f"{share:.0%}")]
    print(f"| {name} | {precision} | " + " | ".join(cells) + " |", flush=True)
    for row in sorted(rounds[-1][1]["products"], key=lambda p: -p["calls"] * p["seconds"])[:10 if args.products else 0]:
        print(f"    {1e3 * row['calls'] * row['seconds']:9.3f} ms  {row['calls']} x {row['product']}: {row['implementation']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(contestants(True)))
    parser.add_argument("--precisions", type=lambda text: text.split(","), default=["f32", "bf16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="steps a round; the first is a warm-up")
    parser.add_argument("--small", action="store_true", help="small networks")
    parser.add_argument("--products", action="store_true", help="also the slowest products")
    args = parser.parse_args()
    every = contestants(args.small)
    if unknown := [name for name in args.networks if name not in every]:
        parser.error(f"--networks: there is no {unknown[0]}; there are {', '.join(every)}")
    if args.steps < 2 or args.rounds < 1:
        parser.error("give 2 steps or more, since the first is a warm-up, and a round or more")
    print(f"{args.threads} threads, {args.rounds} rounds of {args.steps - 1} steps: median (smallest to largest)\n")
    columns = ["training step", "type", "step", "products", "least bytes", "their time", "limit / step"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name in args.networks:
        for precision in args.precisions:
            measure(args, name, precision, *every[name])


if __name__ == "__main__":
    main()
