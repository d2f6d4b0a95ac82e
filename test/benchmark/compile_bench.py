#!/usr/bin/env python3
"""How long it takes, and in how much memory, to compile GPT with 96 layers into plans: from the ONNX file to one file per rank.

usage: /usr/bin/python3 test/benchmark/compile_bench.py --bin build/bin [--small] [--phases]
       /usr/bin/python3 test/benchmark/compile_bench.py --bin build/bin --beside [--runs 3] [--mesh 4] [--model NAME=FILE]

The model (GPT-3: 175 billion parameters, forward, backward and Adam) is written by test/models/networks.py without weights; the
plans say how each rank makes what it holds of them. "cpu" is the time of all threads, memory the largest resident set, both of
the whole program; --phases also prints the program's own times. --small takes two narrow layers: a check that everything works.
Prints Markdown; the exit code is 1 where something takes more than 20 s of CPU time or 4 GiB.

--beside shows how much longer a compilation in mode auto takes, since it joins messages and runs them beside kernels: user time
of ResNet-50, VGG-11 and each --model on --mesh of eight H100, with `--overlap off --fusion off` and without options, in turns,
the medians of --runs (smallest to largest). Files of U-Net and of the vision transformer are those that versus_pytorch.py leaves.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

import measured
from program_search_bench import SMALL, networks

# ranks in words, mode, mesh, topology, more options
CASES = [
    ("one", "data", "1", "8xh200", ["--memory", "40TiB"]),
    ("4", "auto", "data=2,model=2", "8xh200", ["--memory", "40TiB"]),
    ("8", "auto", "data=2,model=4", "8xh200", ["--memory", "40TiB"]),
    ("128", "auto", "data=16,model=8", "16x8xh200", []),
]

# name, file, options
TRAINED = [("ResNet-50, 32x32", "resnet50_cifar_train.onnx", ["--dim", "batch=32"]),
           ("ResNet-50, 224x224", "resnet50_224_train.onnx", ["--dim", "batch=8"]),
           ("VGG-11", "vgg11_cifar_train.onnx", ["--dim", "batch=32"])]
GOAL = 1.25


def beside(args, folder):
    models = pathlib.Path(__file__).resolve().parents[1] / "models"
    cases = [(name, models / file, options) for name, file, options in TRAINED]
    cases += [(*model.split("=", 1), []) for model in args.model]
    print(f"| network | off | today | times, goal {GOAL} |\n|---|---|---|---|")
    for name, file, options in cases[-1:] if args.small else cases:
        command = [args.bin / "tessera-compile", file, *options, "--train", "--mode", "auto", "--mesh", args.mesh, "--topology",
                   "8xh100", "-o", folder / "plan"]
        times = {"off": [], "today": []}
        for _ in range(1 if args.small else args.runs):
            for kind, more in (("off", ["--overlap", "off", "--fusion", "off"]), ("today", [])):
                code, text, _, usage = measured.run(command + more, folder)
                if code:
                    sys.exit(f"{' '.join(map(str, command + more))}: exit code {code}\n{text}")
                times[kind].append(usage.ru_utime)
        median = {kind: statistics.median(list) for kind, list in times.items()}
        shown = [f"{median[kind]:.2f} s ({min(list):.2f} to {max(list):.2f})" for kind, list in times.items()]
        print(f"| {name} | {' | '.join(shown)} | {median['today'] / median['off']:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--phases", action="store_true")
    parser.add_argument("--only", default="", help="numbers of ranks, separated by commas")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--mesh", default="4")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FILE")
    args = parser.parse_args()
    if args.beside:
        with tempfile.TemporaryDirectory() as name:
            return beside(args, pathlib.Path(name))
    bad = False
    print("| ranks | mesh | mode | cpu | wall clock | memory | plans |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        networks.NETWORKS["gpt"](folder / "gpt.onnx", **(SMALL if args.small else {}))
        for ranks, mode, mesh, topology, options in CASES:
            if args.only and ranks not in args.only.split(","):
                continue
            command = [args.bin / "tessera-compile", folder / "gpt.onnx", "--inputs", "ids", "--mesh", mesh, "--mode", mode,
                       "--topology", topology, "--train", "--loss", "cross_entropy", "--optimizer", "adam:lr=0.001",
                       "--init-at-start", "--search-gap", "0.01", *options, "-o", folder / "plan"]
            code, text, wall, usage = measured.run(command, folder)
            if code:
                sys.exit(f"{' '.join(map(str, command))}: exit code {code}\n{text}")
            cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
            size = sum(p.stat().st_size for p in (folder / "plan").iterdir()) / 2 ** 20
            bad |= cpu > 20 or memory > 4096
            print(f"| {ranks} | {mesh} | {mode} | {cpu:.1f} s | {wall:.1f} s | {memory:,.0f} MiB | {size:,.0f} MiB |", flush=True)
            if args.phases:
                print(text)
    if bad:
        sys.exit("above 20 s or 4 GiB")


if __name__ == "__main__":
    main()
