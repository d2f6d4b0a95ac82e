#!/usr/bin/env python3
"""Small models written as text beside what a test expects of them.

usage: onnx_cases.py import FILE FOLDER [--opset N]    tessera-compile must take every case
       onnx_cases.py refuse FILE FOLDER [--opset N]    tessera-compile must refuse every case

A case begins with the line `#--- CASE [OPTION...]` and ends where the next one begins. It holds a graph in ONNX's
textual syntax; the operator set is N (default 17) unless the text begins with a header of its own. Lines that begin with
# belong to lit and FileCheck:

    #--- sideways
    # CHECK: sideways: error: node 'y' (RNN, opset 17): direction='sideways' is unknown
    g (float[3,2,4] x, float[1,5,4] w, float[1,5,5] r) => (float[3,1,2,5] y) { y = RNN<direction="sideways">(x, w, r) }

Both run `tessera-compile CASE.onnx OPTION... -o plan` on the cases, in the order of the file. `import` prints
`case CASE` and the program as it is after import. `refuse` prints `CASE: error: MESSAGE`, without the file's name; it
fails unless the exit code is 1, the message is the only line, and no plan is left. With FileCheck's
--implicit-check-not=error: a case without its CHECK line fails.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

import onnx.parser

PROGRAM = "tessera-compile"


def cases(path):
    """(name, options, text) of every case in the file."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("#---"):
            name, *options = line[4:].split()
            found.append((name, options, []))
        elif found and not line.startswith("#"):
            found[-1][2].append(line)
    return [(name, options, "\n".join(lines)) for name, options, lines in found]


def write(name, text, folder, opset):
    if not text.lstrip().startswith("<"):
        text = f'<ir_version: 8, opset_import: ["" : {opset}, "ai.tessera" : 1]>\n{text}'
    try:
        model = onnx.parser.parse_model(text)
    except onnx.parser.ParseError as error:
        sys.exit(f"case {name}: {error.args[0].decode()}")
    path = folder / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def imported(model, options, folder):
    """The program after import, which is the first phase."""
    phases = folder / "phases"
    command = [PROGRAM, model, *options, "-q", "--dump-phases", phases, "-o", folder / "plan"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"case {model.stem}: exit code {run.returncode}:\n{run.stderr}")
    return next(phases.glob("1-*.mlir")).read_text()


def refused(model, options, plan):
    """The message with which the compiler refuses the model."""
    run = subprocess.run([PROGRAM, model, *options, "-o", plan], capture_output=True, text=True)
    lines = run.stderr.splitlines()
    start = f"{PROGRAM}: error: "
    if run.returncode != 1 or len(lines) != 1 or not lines[0].startswith(start) or plan.exists():
        left = ", and there is a plan" if plan.exists() else ""
        sys.exit(f"case {model.stem}: exit code {run.returncode}, not one line of error{left}:\n{run.stderr}")
    return lines[0][len(start) :].removeprefix(f"{model}: ")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("action", choices=["import", "refuse"])
    arguments.add_argument("file", type=pathlib.Path)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--opset", type=int, default=17)
    given = arguments.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    for name, options, text in cases(given.file):
        model = write(name, text, given.folder, given.opset)
        if given.action == "import":
            print(f"case {name}\n{imported(model, options, given.folder)}")
        else:
            print(f"{name}: error: {refused(model, options, given.folder / 'plan')}")


if __name__ == "__main__":
    main()
