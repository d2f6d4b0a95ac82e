#!/usr/bin/env python3
"""Table of searchers on strategy graphs: cost, lower bound, gap, time and memory.

usage: search_bench.py --bin DIR [--seconds 60] [--threads 2] [--work W] [--searchers exact,recursive,...] [--programs]
                       [--only NAME,...] FILE...

FILE: strategy graphs, JSON plain or gzip: instances of the ASPLOS 2025 contest, or what
`tessera-compile --dump-strategy-graph` wrote. --programs adds the training steps of program_search_bench.py, each stated by
`tessera-compile` and then solved alone (costs are nanoseconds). "default" is what mode auto does: `exact` until a gap of
0.1 % or two units of counted work. --work W ends the searches after counted work (1e9 elementary steps) instead of wall
clock, so that a busy machine gives the same answers. "wall" is the search alone, as tessera-solve prints it; "cpu" is
user time, "rss" the largest resident set, both of the whole program, reading the file included. A choice that was found
is read back and must have one option index per node. Prints Markdown.
"""
import argparse
import json
import pathlib
import sys
import tempfile

import measured
import program_search_bench as programs

SEARCHERS = "default,exact,elimination,recursive,propagation,data,random"

COUNTED = ("default", "exact", "elimination")  # these end by counted work; the others by themselves or by time

NO_ANSWER = [("(proven)", "nothing fits (proven)"), ("does not fit", "does not fit"), ("does not say", "not stated"),
             ("", "no answer")]


def state(args, label, network, mesh, topology, folder):
    """Writes the strategy graph of a program's training step."""
    path = folder / f"{label}.json.gz"
    code, text, _, _ = measured.run(programs.search_command(args.bin, network, mesh, topology, False, folder) +
                                    ["--search-budget", 0.001, "--dump-strategy-graph", path], folder)
    if code:
        sys.exit(f"{label}: {text}")
    return path


def solve(args, path, searcher, folder):
    choice = folder / "choice.json"
    choice.unlink(missing_ok=True)
    work = min(2, args.work or 2) if searcher == "default" else args.work
    command = [args.bin / "tessera-solve", path, "--searcher", "exact" if searcher == "default" else searcher, "--threads",
               args.threads, "--output", choice, "--seconds", 1000 * args.work if args.work and searcher in COUNTED else args.seconds]
    if work:
        command += ["--work", work]
    if searcher == "default":
        command += ["--gap", 0.001]
    code, text, wall, usage = measured.run(command, folder)
    row = {"wall": wall, "cpu": usage.ru_utime, "rss": usage.ru_maxrss / 1024, "code": code}
    if code == 2:  # nothing found, or nothing fits
        return row | {"note": next(note for said, note in NO_ANSWER if said in text)}
    if code != 0:
        sys.exit(f"{path}, {searcher}: exit code {code}\n{text}")
    fields = {line.split("  ")[0].strip(): line.split("  ", 1)[1].split() for line in text.splitlines() if "  " in line}
    if not all(type(option) is int for option in json.loads(choice.read_text())):
        sys.exit(f"{path}, {searcher}: the choice is no list of option indices")
    return row | {"wall": float(fields["time"][0]), "cost": int(fields["cost"][0]), "bound": int(fields["lower bound"][0]),
                  "gap": float(fields["gap"][0]), "optimal": "(optimal)" in text, "peak": fields["memory peak"][0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=float, default=0)
    parser.add_argument("--searchers", default=SEARCHERS)
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--only", default="", help="beginnings of programs' names, separated by commas")
    parser.add_argument("files", nargs="*", metavar="FILE")
    args = parser.parse_args()
    if not args.files and not args.programs:
        parser.error("FILE or --programs is needed")
    print("| graph | searcher | cost | lower bound | gap | wall | cpu | rss | memory peak |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        graphs = [(pathlib.Path(path).name.split(".json")[0], lambda path=path: path) for path in args.files]
        graphs += [(case[0], lambda case=case: state(args, *case[:4], folder)) for case in programs.CASES if "=" in case[2]
                   if args.programs and case[0].startswith(tuple(args.only.split(",")))]
        for label, write in graphs:
            path = write()
            for searcher in args.searchers.split(","):
                r = solve(args, path, searcher, folder)
                gap = "optimal" if r.get("optimal") else f"{r.get('gap', 0):.4f} %"
                found = f"{r['cost']:,} | {r['bound']:,} | {gap}" if "cost" in r else f"{r['note']} | | "
                print(f"| {label} | {searcher} | {found} | {r['wall']:.2f} s | {r['cpu']:.1f} s | {r['rss']:.0f} MiB | "
                      f"{r.get('peak', '')} |", flush=True)


if __name__ == "__main__":
    main()
