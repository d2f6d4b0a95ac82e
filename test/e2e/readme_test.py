#!/usr/bin/env python3
"""Runs the commands of a document's code blocks, as they stand, in an empty folder.

usage: readme_test.py --bin DIR --model NAME=FILE... DOCUMENT...

Lines of blocks that begin with tessera- or mpirun are commands (a backslash continues a line). NAME is how the
document calls the model file.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from cases import MPI_ENVIRONMENT


def commands(text):
    for block in re.findall(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(("tessera-", "mpirun")):
                yield re.sub(r"\s+#.*", "", line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("documents", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    env = os.environ | MPI_ENVIRONMENT | {"PATH": f"{args.bin.resolve()}:{os.environ['PATH']}",
                                          "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    for document in args.documents:
        found = list(commands(document.read_text()))
        if not found:
            sys.exit(f"{document}: no commands found")
        with tempfile.TemporaryDirectory() as folder:
            for pair in args.model:
                name, file = pair.split("=", 1)
                os.symlink(os.path.abspath(file), os.path.join(folder, name))
            for command in found:
                done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True)
                print(f"{document.name}: {command}: exit code {done.returncode}")
                if done.returncode:
                    sys.exit(done.stdout + done.stderr)


if __name__ == "__main__":
    main()
