#!/usr/bin/env python3
"""Runs the commands of a document's code blocks, as they stand, in an empty folder.

usage: readme_test.py --bin DIR --model NAME=FILE... [--torch PYTHON] DOCUMENT...
       readme_test.py --bin DIR --tree DIR DOCUMENT...

Lines of blocks that begin with tessera- or mpirun are commands (a backslash continues a line). NAME is how the
document calls the model file. A block ```json FILE is written to that file. A block ```text is what the command before
it prints: each of its lines must be in the output, but for numbers and white space; ```text machine depends on the
machine and is not compared. Blocks ```python torch and ```sh torch need PyTorch: they are left out, or with --torch run by
that Python interpreter.

With --tree the folder looks like the root of the source tree DIR, with the programs' build folder as build. Commands are
then those that begin with build/bin/, python3 or lit-22. A line `ctest ... -R NAME` is not run, since one CTest would
overwrite the other's log, but must select a test.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from cases import MPI_ENVIRONMENT

INSTALLED, IN_TREE = ("tessera-", "mpirun"), ("build/bin/", "python3 ", "/usr/bin/python3 ", "lit-22 ", "ctest ")
NUMBER = re.compile(r"\d[\d.,]*(e[+-]?\d+)?%?")


def steps(text, prefixes, torch):
    """("run", command), ("write", file, contents) and ("shown", line) in the document's order."""
    for language, file, block in re.findall(r"^```([a-z]*) ?(\S*)\n(.*?)^```", text, re.M | re.S):
        if file == "torch" and not torch:
            continue
        if language == "python" and file == "torch":
            yield "write", "block.py", block
            yield "run", f"{torch} block.py"
        elif language == "text":
            if file == "machine":
                continue
            yield from (("shown", line) for line in block.splitlines() if line.strip())
        elif language == "json" and file:
            yield "write", file, block
        else:
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith(prefixes):
                    yield "run", re.sub(r"\s+#\s.*", "", line)


def without_numbers(line):
    return " ".join(NUMBER.sub("#", line).split())


def selects(command, build):
    """Whether the expression of `ctest ... -R EXPRESSION` is in the name of a test."""
    expression = re.search(r" -R (\S+)", command)
    files = [path.read_text() for path in build.rglob("CTestTestfile.cmake")]
    names = [name for text in files for name in re.findall(r"^add_test\((?:\[=*\[)?([^\s\]]+)", text, re.M)]
    return any(re.search(expression[1] if expression else "", name) for name in names)


def check(document, folder, env, prefixes, torch):
    commands, shown, output = 0, 0, set()
    for kind, *what in steps(document.read_text(), prefixes, torch):
        if kind == "write":
            (folder / what[0]).write_text(what[1])
        elif kind == "run":
            commands += 1
            if what[0].startswith("ctest "):
                if not selects(what[0], folder / "build"):
                    sys.exit(f"{document}: no test for: {what[0]}")
                continue
            done = subprocess.run(what[0], shell=True, cwd=folder, env=env, capture_output=True, text=True)
            print(f"{document.name}: {what[0]}: exit code {done.returncode}")
            if done.returncode:
                sys.exit(done.stdout + done.stderr)
            output = {without_numbers(line) for line in done.stdout.splitlines()}
        else:
            shown += 1
            if without_numbers(what[0]) not in output:
                sys.exit(f"{document}: the command above prints no line like\n{what[0]}\nbut\n{done.stdout}")
    if not commands:
        sys.exit(f"{document}: no commands found")
    print(f"{document.name}: {commands} commands, {shown} lines of output")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--tree", type=pathlib.Path)
    parser.add_argument("--torch", help="a Python interpreter that has PyTorch")
    parser.add_argument("documents", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    env = os.environ | MPI_ENVIRONMENT | {"PATH": f"{args.bin.resolve()}:{os.environ['PATH']}",
                                          "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    for document in args.documents:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for pair in args.model:
                model, file = pair.split("=", 1)
                (folder / model).symlink_to(os.path.abspath(file))
            if args.tree:
                (folder / "build").symlink_to(args.bin.resolve().parent)
                for entry in args.tree.resolve().iterdir():
                    if not entry.name.startswith(("build", ".git")):
                        (folder / entry.name).symlink_to(entry)
            check(document, folder, env, IN_TREE if args.tree else INSTALLED, args.torch)


if __name__ == "__main__":
    main()
