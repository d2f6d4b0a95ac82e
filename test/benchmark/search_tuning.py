#!/usr/bin/env python3
"""Sensitivity of the search to its tuning numbers: what half and twice of each does to cost, bound and work.

usage: search_tuning.py --build DIR [--work 2] [--gap 0] [--seeds 1] [--jobs 2] [--only REGEX]
                        [--results FILE] GRAPH...
       search_tuning.py --list [--only REGEX]

The numbers are the constants below the comments "// Tuning." in strategies/search. This script compiles those sources once
more into a folder beside the build, with constants that the environment can set, and links a tessera-solve of its own. The
product keeps plain constants. DIR is a build folder in which tessera-solve is built. A number whose comment begins with
"factor" is applied again and again: half and twice are its square root and its square. Constants below "// Counted work" are
varied together, file by file.

GRAPH: strategy graphs, JSON plain or gzip: instances of the ASPLOS 2025 contest, or what
`tessera-compile --dump-strategy-graph` wrote. Runs have one thread and end after counted work (1e9 elementary steps), by
proof or at --gap, never by the clock: a busy machine gives the same table. --results keeps what was run, so that a later
call goes on from there. With --seeds N every search runs with the seeds 1 to N, and medians are shown: where the seed alone
moves the cost, the row of the defaults says how far, and what moves it less is chance. Prints Markdown, a row per number: the
cost that half and twice of it find relative to the default's, and the gap or the work after which the answer was proven.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEARCH = ROOT / "strategies/search"
DECLARATION = re.compile(r"^constexpr (double|int|int32_t|size_t|uint64_t) (k\w+) = ([^;]+);( *// factor)?", re.M)
SEARCHER = {"SearchElimination": "elimination", "SearchRecursive": "recursive", "PriceSweep": "recursive"}  # else exact
# Reads "File.kName=value" items, separated by commas.
OVERRIDE = r"""
#include <cstdlib>
#include <cstring>
template <typename T> static T tuned(const char *name, T value) {
  const size_t n = strlen(name);
  for (const char *at = getenv("TESSERA_TUNING"); at; at = strchr(at, ',') ? strchr(at, ',') + 1 : nullptr)
    if (!strncmp(at, name, n) && at[n] == '=')
      return T(atof(at + n + 1));
  return value;
}
"""


class Number:
    def __init__(self, file, kind, name, text, factor, counted):
        self.file, self.kind, self.name, self.text, self.counted = file, kind, name, text, counted
        self.factor = bool(factor)
        plain = re.sub(r"size_t\((\d+)\)", r"\1", text).replace("'", "")
        self.value = eval(plain, {"__builtins__": {}})  # digits and shifts only: our own sources

    def key(self):
        return f"{self.file.stem}.{self.name}"

    def searcher(self):
        return SEARCHER.get(self.file.stem, "exact")

    def times(self, factor):
        value = self.value**factor if self.factor else self.value * factor
        return value if self.kind == "double" else max(1, int(value + 0.5))


def numbers_of(file):
    """The constants of a file's tuning block, which ends at an empty line."""
    found, counted = [], False
    block = re.search(r"^// Tuning\..*?(?=\n\n|^\} // namespace)|^// Counted work.*?(?=\n\n|^\} // namespace)",
                      file.read_text(), re.M | re.S)
    for line in block.group(0).splitlines() if block else []:
        if line.startswith("//"):
            counted = line.startswith("// Counted work")
        elif (match := DECLARATION.match(line)) and "; " in line:
            found.append(Number(file, *match.groups(), counted))
        elif line.startswith("constexpr"):
            sys.exit(f"{file}: expected `constexpr TYPE kName = NUMBER; // what it is`: {line}")
    return found


def build_variant(build, folder, files):
    """tessera-solve with constants that TESSERA_TUNING sets."""
    folder.mkdir(exist_ok=True)
    commands = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}
    objects = []
    for file in files:
        names = {n.name for n in numbers_of(file)}

        def opened(match):
            kind, name, text, _ = match.groups()
            return f'const {kind} {name} = tuned<{kind}>("{file.stem}.{name}", {text}); //' if name in names else match.group(0)

        copy = folder / file.name
        text = OVERRIDE + f'#line 1 "{file}"\n' + DECLARATION.sub(opened, file.read_text())
        objects.append(folder / f"{file.stem}.o")
        if objects[-1].exists() and copy.exists() and copy.read_text() == text:
            continue
        copy.write_text(text)
        entry = commands[str(file)]
        command = [str(copy) if word == str(file) else word for word in shlex.split(entry["command"])]
        command[command.index("-o") + 1] = str(objects[-1])
        subprocess.run(command, cwd=entry["directory"], check=True)
    # The link of tessera-solve, with these objects before the library that has the same ones.
    printed = subprocess.run(["ninja", "-C", build, "-t", "commands", "tessera-solve"], check=True, capture_output=True,
                             text=True).stdout.splitlines()[-1]
    link = shlex.split(printed.split("&&")[1])
    target = link.index("-o") + 1
    link[target] = str(folder / "tessera-solve")
    link[target + 1:target + 1] = map(str, objects)
    subprocess.run(link, cwd=build, check=True)
    return folder / "tessera-solve"


def solve(program, graph, searcher, seed, settings, args):
    """Cost, bound and work of one search; None for the cost if nothing was found."""
    setting = ",".join(f"{number.key()}={value!r}" for number, value in settings)
    command = [program, graph, "--searcher", searcher, "--seed", seed, "--threads", 1, "--work", args.work, "--gap", args.gap,
               "--seconds", 100000, "--verbose"]
    done = subprocess.run(list(map(str, command)), env=os.environ | {"TESSERA_TUNING": setting}, capture_output=True, text=True)
    if done.returncode not in (0, 1, 2):
        return {"failed": done.returncode}
    fields = {line[:13].strip(): line[13:].split() for line in done.stdout.splitlines() if line[12:13] == " "}
    steps = re.findall(r"^ *[\d.]+ +([\d.]+)  ", done.stderr, re.M)
    work = float(steps[-1]) if steps else 0  # where the last phase ended: proofs are compared by it
    if "cost" not in fields:
        return {"cost": None, "work": work}
    return {"cost": int(fields["cost"][0]), "bound": int(fields["lower bound"][0]), "work": work}


def shown(results, base):
    """A cell: medians over the seeds, beside those of the defaults (None for themselves)."""
    failed = [r["failed"] for r in results if "failed" in r]
    if failed:
        return f"failed ({failed[0]})"
    found = sorted((r for r in results if r["cost"] is not None), key=lambda r: r["cost"])
    if 2 * len(found) <= len(results):
        return "none"
    cost = found[(len(results) - 1) // 2]["cost"]  # no answer is the worst
    bound = statistics.median(r["bound"] for r in found)
    known = [r["cost"] for r in base or [] if r.get("cost")]
    text = f"{100 * (cost / statistics.median_low(known) - 1):+.2f} %" if known else f"{cost:.6g}"
    if base is None and found[-1]["cost"] > found[0]["cost"]:
        text += f" ({found[0]['cost']:.6g} to {found[-1]['cost']:.6g})"
    gap = 100 * (1 - bound / cost) if cost else 0
    return f"{text}, " + (f"gap {gap:.2f} %" if gap > 0 else f"proven at {statistics.median(r['work'] for r in found):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--work", type=float, default=2)
    parser.add_argument("--gap", type=float, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="of File.kName, a regular expression")
    parser.add_argument("--results", type=pathlib.Path, help="file of results, read and extended")
    parser.add_argument("--list", action="store_true", help="print names and defaults, run nothing")
    parser.add_argument("graphs", nargs="*", metavar="GRAPH")
    args = parser.parse_args()
    files = [file for file in sorted(SEARCH.rglob("*.cpp")) if numbers_of(file)]
    rows = []  # label, default, numbers
    for file in files:
        numbers = numbers_of(file)
        rows += [(n.key(), n.text, [n]) for n in numbers if not n.counted]
        if counted := [n for n in numbers if n.counted]:
            rows.append((f"{file.stem}: counted work", "all", counted))
    rows = [row for row in rows if re.search(args.only, row[0])]
    if args.list:
        for label, text, _ in rows:
            print(f"{label:40} {text}")
        return
    if not args.graphs or not args.build:
        parser.error("--build and GRAPH are needed")
    build = args.build.resolve()
    varied_files = [file for file in files if any(n.file == file for _, _, numbers in rows for n in numbers)]
    program = build_variant(build, build.with_name(build.name + "-tuning"), varied_files)
    known = {}
    if args.results and args.results.exists():
        known = {json.dumps(key): value for key, value in map(json.loads, args.results.read_text().splitlines())}

    def run(graph, searcher, label, settings, factor):
        results = []
        for seed in range(1, args.seeds + 1):
            key = json.dumps([pathlib.Path(graph).name, args.work, args.gap, searcher, label, factor, seed])
            if key not in known:
                known[key] = solve(program, graph, searcher, seed, settings, args)
                if args.results:
                    with open(args.results, "a") as out:
                        out.write(json.dumps([json.loads(key), known[key]]) + "\n")
            results.append(known[key])
        return results

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        searchers = sorted({numbers[0].searcher() for _, _, numbers in rows})
        base, varied = {}, {}
        for graph in args.graphs:
            for searcher in searchers:
                base[graph, searcher] = pool.submit(run, graph, searcher, "", [], 1)
            for label, _, numbers in rows:
                for factor in (0.5, 2):
                    settings = [(n, n.times(factor)) for n in numbers]
                    varied[graph, label, factor] = pool.submit(run, graph, numbers[0].searcher(), label, settings, factor)
        names = [pathlib.Path(graph).name.split(".json")[0] for graph in args.graphs]
        print("| number | default | " + " | ".join(f"{name}, half | {name}, twice" for name in names) + " |")
        print("|---|---|" + "---|---|" * len(names))
        for searcher in searchers:
            cells = [f"{shown(base[graph, searcher].result(), None)} | " for graph in args.graphs]
            print(f"| (all, `{searcher}`) | | " + " | ".join(cells) + " |")
        for label, text, numbers in rows:
            cells = [shown(varied[graph, label, factor].result(), base[graph, numbers[0].searcher()].result())
                     for graph in args.graphs for factor in (0.5, 2)]
            print(f"| `{label}` | {text} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
