#!/usr/bin/env python3
"""How long a build takes after one file has changed.

usage: build_times.py --build DIR [--runs N] [--only TEXT] [--clean]

Changes a file, builds everything but the tests that need it, takes the change back and prints the median of the seconds.
Most changes are a comment at the end. A comment in a declaration (GraphOps.td) leaves the generated C++ as it is, so there
an operator's summary changes: it stands in the generated header, and all that includes this header is compiled again.
ccache is switched off. --only: the rows with this text. --clean also builds from nothing, in a folder beside DIR.

Ctrl-C, SIGTERM and SIGHUP restore the file. Nothing restores it after SIGKILL: `git diff` shows what was left.
"""
import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUMMARY = 'let summary = "natural logarithm'
# What changes, in which file, and the text behind which a word is put; None: a comment at the end.
CHANGES = [("an importer's file", "compiler/import/ops/Resize.cpp", None),
           ("a rule in C++", "dialects/graph/GraphRules.cpp", None),
           ("an operator's declaration", "dialects/graph/GraphOps.td", SUMMARY),
           ("a kernel", "runtime/backend/reference/Conv.cpp", None),
           ("a CUDA kernel", "runtime/backend/cuda/kernels/TopK.cu", None),
           ("a pass", "compiler/partition/Localize.cpp", None),
           ("the rules' header", "dialects/dist/ShardingRule.h", None)]
TARGETS = ["tessera-compile", "tessera-run", "tessera-dump", "tessera-opt"]
ENV = os.environ | {"CCACHE_DISABLE": "1"}


def stop(number, _):
    """Ends the program as an exception does, once: `finally` restores the file."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def build(folder, *targets):
    begin = time.monotonic()
    subprocess.run(["ninja", "-C", folder, "--quiet", *targets], check=True, env=ENV, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def after_change(folder, path, behind, run):
    text = path.read_text()
    if behind is None:
        changed = text + f"// {run}\n"
    elif behind in text:
        changed = text.replace(behind, f"{behind} {run}", 1)
    else:
        sys.exit(f"{path}: expected `{behind}`: give CHANGES another text of this file")
    try:
        path.write_text(changed)
        return build(folder, *TARGETS)
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a configured build folder")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="the rows whose name has this text")
    parser.add_argument("--clean", action="store_true", help="also from nothing")
    args = parser.parse_args()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, stop)
    build(args.build, *TARGETS)
    for what, file, behind in CHANGES:
        if args.only not in what:
            continue
        seconds = [after_change(args.build, ROOT / file, behind, run) for run in range(args.runs)]
        print(f"{what:26} {file:44} {statistics.median(seconds):6.1f} s", flush=True)
    build(args.build, *TARGETS)
    if args.clean:
        with tempfile.TemporaryDirectory(dir=args.build.resolve().parent) as folder:
            subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder], check=True, stdout=subprocess.DEVNULL, env=ENV)
            print(f"{'from nothing, with tests':71} {build(folder):6.1f} s")


if __name__ == "__main__":
    main()
