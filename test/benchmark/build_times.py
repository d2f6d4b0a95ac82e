#!/usr/bin/env python3
"""How long a build takes after one file has changed.

usage: build_times.py --build DIR [--runs N] [--clean]

Appends a comment to a file, builds everything but the tests that need it, takes the comment out again and prints the median of
the seconds. ccache is switched off. --clean also builds from nothing, in a folder beside DIR.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = {"an importer's file": "compiler/import/ops/Resize.cpp", "a rule in C++": "dialects/graph/GraphRules.cpp",
         "an operator's declaration": "dialects/graph/GraphOps.td", "a kernel": "runtime/backend/reference/Conv.cpp",
         "a CUDA kernel": "runtime/backend/cuda/kernels/TopK.cu", "a pass": "compiler/partition/Localize.cpp",
         "the rules' header": "dialects/dist/ShardingRule.h"}
TARGETS = ["tessera-compile", "tessera-run", "tessera-dump", "tessera-opt"]
ENV = os.environ | {"CCACHE_DISABLE": "1"}


def build(folder, *targets):
    begin = time.monotonic()
    subprocess.run(["ninja", "-C", folder, "--quiet", *targets], check=True, env=ENV, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def after_change(folder, path, run):
    text = path.read_text()
    try:
        path.write_text(text + f"// {run}\n")
        return build(folder, *TARGETS)
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a configured build folder")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--clean", action="store_true", help="also from nothing")
    args = parser.parse_args()
    build(args.build, *TARGETS)
    for what, file in FILES.items():
        seconds = [after_change(args.build, ROOT / file, run) for run in range(args.runs)]
        print(f"{what:26} {file:44} {statistics.median(seconds):6.1f} s", flush=True)
    build(args.build, *TARGETS)
    if args.clean:
        with tempfile.TemporaryDirectory(dir=args.build.resolve().parent) as folder:
            subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder], check=True, stdout=subprocess.DEVNULL, env=ENV)
            print(f"{'from nothing, with tests':71} {build(folder):6.1f} s")


if __name__ == "__main__":
    main()
