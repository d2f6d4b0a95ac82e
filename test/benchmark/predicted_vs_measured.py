#!/usr/bin/env python3
"""Predicted step time against measured, on this machine's CPU ranks: three networks under many strategies.

usage: /usr/bin/python3 test/benchmark/predicted_vs_measured.py --bin build/bin [--networks resnet18,gpt,unet] [--steps 8]
                                    [--rounds 3] [--profiles DIR] [--seconds 0.02] [--estimate [TOPOLOGY]] [--json FILE]

ResNet-18 (32x32, batch 16), a GPT (4 layers, width 256, 128 words, batch 16) and a U-Net (64x64, batch 16), each under eight
strategies on one and two ranks, and under eleven on four ranks together. Four ranks need four cores: where they share cores,
their rows say how far that misleads the prediction, and count apart.

Kernels and collectives are measured first (tessera-profile, for 1, 2 and 4 ranks of each network; kept in DIR if it is given, and
not measured again where DIR has them): predictions, and what `auto` chooses, rest on that. --estimate leaves it out: predictions
rest on a topology, `cpu` or another.
Every strategy is compiled once and run in turn, --rounds times over, so that a disturbance hits all of them; a step's time
is the median over the steps after the first of a round, and the best round counts. Printed: predicted and measured,
Spearman's rank correlation, the ratios, and how far `auto` is from the fastest. Needs a quiet machine, for the profiles as well.
"""
import argparse
import json
import math
import os
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



def entries(cut, *patterns):
    return [{"op": pattern, "in": cut} for pattern in patterns]


ATTENTION = entries(COLUMNS, "l*.qkv") + entries(ROWS, "l*.out")
FEED_FORWARD = entries(COLUMNS, "l*.up") + entries(ROWS, "l*.down")
MEGATRON = ATTENTION + FEED_FORWARD
SEQUENCE = entries([[None, "x", None], [None, None]], "l*.qkv", "l*.out", "l*.up", "l*.down")
# The batch where images are large, output channels where weights are ("One weird trick", Krizhevsky, 2014).
IMAGES, FILTERS = [["x", None, None, None], [None] * 4], [[None] * 4, ["x", None, None, None]]
RESNET_BY_DEPTH = entries(IMAGES, "/conv1/Conv", "/layer1*/Conv", "/layer2*/Conv") + entries(FILTERS, "/layer3*/Conv", "/layer4*/Conv")
UNET_BY_DEPTH = (entries(IMAGES, "down1.a", "down1.b", "up1.a", "up1.b") +
                 entries(FILTERS, "down2.a", "down2.b", "bottom.a", "bottom.b", "up2.a", "up2.b"))


def resnet18(folder):
    return ROOT / "test/models/resnet18_cifar_train.onnx", ["--dim", "batch=16"]


def gpt(folder):
    networks.gpt(folder / "gpt.onnx", layers=4, hidden=256, heads=4, words=2000, batch=16, length=128)
    return folder / "gpt.onnx", ["--inputs", "ids"]


def unet(folder):
    small_networks.unet(folder / "unet.onnx", batch=16, size=64)
    return folder / "unet.onnx", ["--inputs", "image"]


# name, mesh, mode, pattern of make_strategies.py or entries of a strategy file
NETWORKS = {resnet18: [
    ("one rank", "1", "data", None),
    ("auto", "2", "auto", None),
    ("data", "data=2", "data", None),
    ("output channels", "x=2", "semi-auto", "f=x"),
    ("input channels", "x=2", "semi-auto", "c=x"),
    ("height", "x=2", "semi-auto", "h=x"),
    ("width", "x=2", "semi-auto", "w=x"),
    ("batch, then channels", "x=2", "auto", RESNET_BY_DEPTH),
    ("auto, 4 ranks", "4", "auto", None),
    ("data, 4 ranks", "data=4", "data", None),
    ("output channels, 4 ranks", "x=4", "semi-auto", "f=x"),
    ("height, 4 ranks", "x=4", "semi-auto", "h=x"),
    ("batch x output channels", "x=2,y=2", "semi-auto", "n=x,f=y"),
    ("batch x height", "x=2,y=2", "semi-auto", "n=x,h=y"),
], gpt: [
    ("one rank", "1", "data", None),
    ("auto", "2", "auto", None),
    ("data", "data=2", "data", None),
    ("attention", "x=2", "auto", ATTENTION),
    ("feed-forward", "x=2", "auto", FEED_FORWARD),
    ("Megatron", "x=2", "auto", MEGATRON),
    ("sequence", "x=2", "auto", SEQUENCE),
    ("output channels", "x=2", "auto", entries(COLUMNS, "l*.qkv", "l*.out", "l*.up", "l*.down")),
    ("auto, 4 ranks", "4", "auto", None),
    ("data, 4 ranks", "data=4", "data", None),
    ("batch x Megatron", "y=2,x=2", "auto", MEGATRON),
], unet: [
    ("one rank", "1", "data", None),
    ("auto", "2", "auto", None),
    ("data", "data=2", "data", None),
    ("output channels", "x=2", "semi-auto", "f=x"),
    ("input channels", "x=2", "semi-auto", "c=x"),
    ("height", "x=2", "semi-auto", "h=x"),
    ("width", "x=2", "semi-auto", "w=x"),
    ("batch, then channels", "x=2", "auto", UNET_BY_DEPTH),
    ("auto, 4 ranks", "4", "auto", None),
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
        rows.append({"network": network.__name__, "name": label, "ranks": ranks, "plan": plan, "predicted": train["predicted_ns"] / 1e6,
                     "communication": train["communication_ns"] / 1e6, "measured": np.inf})
    return rows


def compare(rows):
    """The rank correlation of rows and their smallest and largest ratio."""
    correlation = spearman([r["predicted"] for r in rows], [r["measured"] for r in rows])
    ratios = [r["measured"] / r["predicted"] for r in rows]
    return correlation, min(ratios), max(ratios)


def behind_fastest(rows):
    """The fastest row that was searched, in times of the fastest."""
    return min(r["measured"] for r in rows if r["name"].startswith("auto")) / min(r["measured"] for r in rows)


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
        results[network] = {"auto_over_fastest": behind_fastest(mine)}
        print(f"  auto is {100 * (behind_fastest(mine) - 1):.1f} % from the fastest")
    cores = len(os.sched_getaffinity(0))
    own = [r for r in rows if r["ranks"] <= cores]
    groups = [(network, [r for r in own if r["network"] == network]) for network in args.networks.split(",")]
    groups += [("a core for each rank", own), ("ranks that share cores", [r for r in rows if r["ranks"] > cores])]
    for name, group in groups:
        if len(group) > 1:
            correlation, low, high = compare(group)
            results.setdefault(name, {}).update(correlation=correlation, ratios=[low, high])
            print(f"{name}: {len(group)} strategies, rank correlation {correlation:.3f}, ratios {low:.2f} to {high:.2f}")
    if args.json:
        args.json.write_text(json.dumps({**results, "rows": [{k: v for k, v in r.items() if k != "plan"} for r in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
