#!/usr/bin/env python3
"""How far is a step from what its kernels and messages take at least? Every network, data parallel and as mode auto cuts it.

usage: /usr/bin/python3 test/benchmark/schedule_gaps.py --bin build/bin [--exported DIR] [--topologies 8xh100,2x8xa100,cpu]
           [--ranks 4,8] [--limit 5] [--all] [--json FILE] [NETWORK ...]

NETWORK: beginnings of names; all networks without: those of test/models and of --exported, a folder with a folder for each network
(train_op17.onnx). Their training steps are compiled with --search-only; nothing is measured, and the figures are the same on
every machine.

"in any order": the gap to the bound of all schedules of the plan's kernels and collectives, however they are joined and hidden.
"all hidden": of mode auto, the gap to the bound over all strategies, with all hidden that can be; "-" where no such bound is printed.

Prints Markdown: by topology and mode the largest gaps, and a row for each step whose schedule is further than --limit per cent from
its bound (--all: for every step). The exit code is 1 if there is one.
"""
import argparse
import json
import pathlib
import re
import sys
import tempfile

import measured
from exported_networks import AUXILIARY, LOSSES

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODES = ("data", "auto")
PREDICTED = re.compile(r"predicted (\S+) ms .*? compute (\S+) ms \+ communication (\S+) ms")
EXPOSED = re.compile(r"exposed communication (\S+) ms")
IN_ANY_ORDER = re.compile(r"in any order at least \S+ ms, gap to that bound (\S+) %")
ALL_HIDDEN = re.compile(r"with all hidden that can be: at least \S+ ms, gap to that bound (\S+) %")


def networks(exported):
    """Name, file, options."""
    for path in sorted((ROOT / "test/models").glob("*_train.onnx")):
        yield path.stem.removesuffix("_train"), path, ("--loss", "cross_entropy", "--dim", "batch=32")
    for path in sorted((ROOT / "test/models/families").glob("*.onnx")):
        yield path.stem, path, ("--loss", "cross_entropy")
    for folder in sorted(exported.iterdir()) if exported else ():
        if (path := folder / "train_op17.onnx").exists():
            other = ("--aux-outputs", AUXILIARY[folder.name]) if folder.name in AUXILIARY else ()
            yield folder.name + ", exported", path, ("--loss", LOSSES.get(folder.name, "cross_entropy"), *other)


def step(args, folder, path, options, topology, ranks, mode):
    """What is said about a training step."""
    command = [args.bin / "tessera-compile", path, "--train", "--search-only", "--optimizer", "sgd:lr=0.01,momentum=0.9",
               "--topology", topology, "--mesh", f"data={ranks}", "--mode", mode, *options]
    code, text, _, _ = measured.run(command, folder)
    said = re.search(r"^train  .*(?:\n .*)*", text, re.M)
    if code or not said:
        sys.exit(f"{' '.join(map(str, command))}: exit code {code}\n{text}")
    predicted, compute, communication = map(float, PREDICTED.search(said[0]).groups())
    number = lambda pattern: float(found[1]) if (found := pattern.search(said[0])) else None
    schedule = number(IN_ANY_ORDER) if communication else 0.0
    if schedule is None:
        sys.exit(f"{' '.join(map(str, command))}: nothing is said about other schedules\n{text}")
    return {"predicted": predicted, "compute": compute, "communication": communication, "exposed": number(EXPOSED),
            "schedule": schedule, "strategies": number(ALL_HIDDEN)}


def largest(rows, key, limit):
    gaps = [row[key] for row in rows if row[key] is not None]
    return f"{max(gaps):.2f} % | {sum(gap > limit for gap in gaps)} of {len(gaps)}" if gaps else "- | -"


def told(value, form):
    return "-" if value is None else form.format(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--exported", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--topologies", default="8xh100,2x8xa100,cpu")
    parser.add_argument("--ranks", default="4,8")
    parser.add_argument("--limit", type=float, default=5, help="per cent")
    parser.add_argument("--all", action="store_true", help="a row for every step")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("network", nargs="*")
    args = parser.parse_args()
    args.bin = args.bin.resolve()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for network, path, options in networks(args.exported):
            if args.network and not network.startswith(tuple(args.network)):
                continue
            for topology in args.topologies.split(","):
                for ranks in args.ranks.split(","):
                    for mode in MODES:
                        rows.append({"network": network, "topology": topology, "ranks": int(ranks), "mode": mode,
                                     **step(args, pathlib.Path(name), path, options, topology, ranks, mode)})
                        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"| topology | mode | steps | in any order: largest gap | above {args.limit:g} % | all hidden: largest gap | above "
          f"{args.limit:g} % |\n|" + "---|" * 7)
    for topology in args.topologies.split(","):
        for mode in MODES:
            here = [row for row in rows if (row["topology"], row["mode"]) == (topology, mode)]
            print(f"| {topology} | {mode} | {len(here)} | {largest(here, 'schedule', args.limit)} | "
                  f"{largest(here, 'strategies', args.limit)} |")
    missed = [row for row in rows if row["schedule"] > args.limit]
    if listed := rows if args.all else missed:
        print("\n| network | topology | ranks | mode | step, ms | compute | communication | exposed | in any order | all hidden |\n|"
              + "---|" * 10)
        for row in listed:
            print(f"| {row['network']} | {row['topology']} | {row['ranks']} | {row['mode']} | {row['predicted']:.3f} | "
                  f"{row['compute']:.3f} | {row['communication']:.3f} | {told(row['exposed'], '{:.3f}')} | "
                  f"{told(row['schedule'], '{:.2f} %')} | {told(row['strategies'], '{:.2f} %')} |")
    print(f"\n{len(rows) - len(missed)} of {len(rows)} steps are within {args.limit:g} % of the bound of their schedules.")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
