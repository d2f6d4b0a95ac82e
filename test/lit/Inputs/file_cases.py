#!/usr/bin/env python3
"""Bad files that a program must refuse, written in the test beside the message.

usage: file_cases.py FILE FOLDER PROGRAM ARGUMENT...

A case begins with the line `#--- CASE` and ends where the next one begins; its lines that begin with # belong to lit and
FileCheck:

    #--- two
    # CHECK: two: error: strategy file @: operator '/fc1/Gemm' has two strategies
    [{"op": "/fc1/Gemm", "in": [[2, 1]]}, {"op": "/fc1/Gemm", "in": [[1, 1]]}]

Every case becomes a file, and PROGRAM is run with it in the place of the argument @. Prints `CASE: error: MESSAGE`, with
@ for the file's name, in the order of FILE. Fails unless the exit code is 1 and the message is the only line. With
FileCheck's --implicit-check-not=error: a case without its CHECK line fails.
"""
import pathlib
import shutil
import subprocess
import sys


def cases(path):
    """(name, text) of every case in the file."""
    found = []
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("#---"):
            found.append((line[4:].strip(), []))
        elif found and not line.startswith("#"):
            found[-1][1].append(line)
    return [(name, "".join(lines)) for name, lines in found]


def main(tests, folder, program, *arguments):
    shutil.rmtree(folder, ignore_errors=True)
    pathlib.Path(folder).mkdir(parents=True)
    for name, text in cases(pathlib.Path(tests)):
        path = pathlib.Path(folder) / name
        path.write_text(text)
        run = subprocess.run(
            [program, *(str(path) if a == "@" else a for a in arguments)], capture_output=True, text=True
        )
        lines = run.stderr.splitlines()
        start = f"{program}: error: "
        if run.returncode != 1 or len(lines) != 1 or not lines[0].startswith(start):
            sys.exit(f"case {name}: exit code {run.returncode}, not one line of error:\n{run.stderr}")
        print(f"{name}: error: {lines[0][len(start):].replace(str(path), '@')}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
