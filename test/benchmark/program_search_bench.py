#!/usr/bin/env python3
"""How long the search of a whole training program takes: forward, backward and Adam; ResNet-50 and three transformers.

usage: /usr/bin/python3 test/benchmark/program_search_bench.py --bin build/bin [--runs 5] [--threads 2] [--gap 0.01]
                                                               [--only NAME,...] [--small] [--json FILE]

Models are written by test/models/networks.py, without weights. "build" states the search problem of the training step, "solve"
solves it until the gap to the proven bound is at most --gap, "search" is their sum (medians over the runs); "rest" is import,
gradients and the searches of the evaluation and inference programs; "cpu" and memory (the largest resident set) are those of
the whole program.
--small takes two layers of every transformer: a check that everything works. Prints Markdown. Needs a quiet machine.
"""
import argparse
import json
import pathlib
import re
import statistics
import sys
import tempfile

import measured

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/models"))
import networks  # noqa: E402

RESNET = ("resnet50", None, ["--dim", "batch=256"])
# name, (network, its writer's sizes or None for a stored file, options), mesh, topology, seconds that the search may take
CASES = [
    ("ResNet-50, 8", RESNET, "data=8", "8xh100", 1),
    ("ResNet-50, 4x2", RESNET, "x=4,y=2", "8xh100", 1),
    ("ResNet-50, 2x2x2", RESNET, "x=2,y=2,z=2", "8xh100", 1),
    ("BERT-large, 24 layers, 8x8", ("bert", {}, ["--inputs", "ids,segments"]), "data=8,model=8", "8x8xh100", 2),
    ("GPT, 96 layers, 16x8", ("gpt", {}, ["--inputs", "ids"]), "data=16,model=8", "16x8xh200", 5),
    ("experts, 32 layers, 8x8", ("experts", {}, ["--inputs", "ids"]), "data=8,model=8", "8x8xh100", 5),
]
SMALL = {"layers": 2, "hidden": 256, "heads": 8, "batch": 16, "length": 64, "words": 1000}


def write(network, small, folder):
    kind, sizes, _ = network
    if sizes is None:
        return ROOT / "test/models" / f"{kind}_224_train.onnx"
    path = folder / f"{kind}.onnx"
    if not path.exists():
        networks.NETWORKS[kind](path, **(sizes | SMALL if small else sizes))
    return path


def search_command(bin, network, mesh, topology, small, folder):
    return [bin / "tessera-compile", write(network, small, folder), *network[2], "--mesh", mesh, "--topology", topology, "--mode",
            "auto", "--train", "--loss", "cross_entropy", "--optimizer", "adam:lr=0.001", "--search-only"]


def measure(command, folder):
    """One run: facts of the training step's search, the largest resident set, the wall clock."""
    code, text, wall, usage = measured.run(command, folder)
    found = re.search(r"^train .*?predicted ([0-9.]+) ms.*?search: (\d+) nodes, (\d+) options, (\d+) edges, ([0-9.]+) s \+ "
                      r"([0-9.]+) s .*?gap ([0-9.]+) %", text, re.S | re.M)
    if code or not found:
        sys.exit(f"{' '.join(str(c) for c in command)}: exit code {code}\n{text}")
    predicted, nodes, options, edges, build, solve, gap = map(float, found.groups())
    return {"predicted_ms": predicted, "nodes": int(nodes), "options": int(options), "edges": int(edges), "build": build,
            "solve": solve, "search": build + solve, "gap": gap, "rest": wall - build - solve,
            "cpu": usage.ru_utime + usage.ru_stime, "rss_mib": usage.ru_maxrss / 1024}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--gap", type=float, default=0.01)
    parser.add_argument("--only", default="", help="beginnings of names, separated by commas")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows = []
    print("| program | nodes | strategies | edges | build | solve | search | goal | gap | rest | cpu | memory |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for label, network, mesh, topology, goal in CASES:
            if not label.startswith(tuple(args.only.split(","))):
                continue
            command = search_command(args.bin, network, mesh, topology, args.small, folder) + [
                "--search-threads", args.threads, "--search-gap", args.gap]
            runs = [measure(command, folder) for _ in range(args.runs)]
            row = {key: statistics.median(r[key] for r in runs) for key in runs[0]}
            rows.append({"name": label, "mesh": mesh, "topology": topology, "goal": goal, **row})
            print(f"| {label} | {row['nodes']:,} | {row['options']:,} | {row['edges']:,} | {row['build']:.2f} s | "
                  f"{row['solve']:.2f} s | {row['search']:.2f} s | {goal} s | {row['gap']:.2f} % | {row['rest']:.2f} s | "
                  f"{row['cpu']:.2f} s | {row['rss_mib']:.0f} MiB |", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    if any(r["gap"] > 1 for r in rows):
        sys.exit("a gap is above 1 %")


if __name__ == "__main__":
    main()
