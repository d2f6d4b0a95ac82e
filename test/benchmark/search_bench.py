#!/usr/bin/env python3
"""Table of searchers on strategy graphs: cost, lower bound, gap, time and memory.

usage: search_bench.py --bin DIR [--seconds 60] [--threads 2] [--work W] [--searchers exact,recursive,...] FILE...

FILE: strategy graphs, JSON plain or gzip: instances of the ASPLOS 2025 contest, or what
`tessera-compile --dump-strategy-graph` wrote. --work W ends the searches after counted work (1e9 elementary steps)
instead of wall clock, so that a busy machine gives the same answers. "cpu" is user time, "rss" the largest resident
set; both of the whole program, reading the file included. A choice that was found is read back and must have one option
index per node. Prints Markdown.
"""
import argparse
import json
import pathlib
import sys
import tempfile

import measured

SEARCHERS = "exact,elimination,recursive,propagation,data,random"


def solve(args, path, searcher, folder):
    choice = folder / "choice.json"
    choice.unlink(missing_ok=True)
    command = [args.bin / "tessera-solve", path, "--searcher", searcher, "--threads", args.threads, "--output", choice,
               "--seconds", args.seconds if not args.work else 1000 * args.work]
    if args.work:
        command += ["--work", args.work]
    code, text, wall, usage = measured.run(command, folder)
    row = {"wall": wall, "cpu": usage.ru_utime, "rss": usage.ru_maxrss / 1024, "code": code}
    if code == 2:  # nothing found, or nothing fits
        return row | {"note": "infeasible (proven)" if "(proven)" in text else "no answer"}
    if code != 0:
        sys.exit(f"{path}, {searcher}: {text}")
    fields = {line.split("  ")[0].strip(): line.split("  ", 1)[1].split() for line in text.splitlines() if "  " in line}
    json.loads(choice.read_text())
    return row | {"cost": int(fields["cost"][0]), "bound": int(fields["lower bound"][0]),
                  "gap": float(fields["gap"][0]), "optimal": "(optimal)" in text, "peak": fields["memory peak"][0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=float, default=0)
    parser.add_argument("--searchers", default=SEARCHERS)
    parser.add_argument("files", nargs="+", metavar="FILE")
    args = parser.parse_args()
    print("| graph | searcher | cost | lower bound | gap | wall | cpu | rss | memory peak |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for path in args.files:
            name = pathlib.Path(path).name.split(".json")[0]
            for searcher in args.searchers.split(","):
                r = solve(args, path, searcher, pathlib.Path(folder))
                found = (f"{r['cost']:,} | {r['bound']:,} | {'optimal' if r['optimal'] else format(r['gap'], '.4f') + ' %'}"
                         if "cost" in r else f"{r['note']} | | ")
                print(f"| {name} | {searcher} | {found} | {r['wall']:.1f} s | {r['cpu']:.1f} s | {r['rss']:.0f} MiB | "
                      f"{r.get('peak', '')} |", flush=True)


if __name__ == "__main__":
    main()
