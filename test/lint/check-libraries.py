#!/usr/bin/env python3
"""Programs load one file of each library, whoever links it.

usage: check-libraries.py FOLDER

A folder on a program's library path may hold a library of the same name: LLVM's has a libgomp.so.1, which is another OpenMP. A
kernel would be measured on one and run on the other.
"""
import pathlib
import re
import subprocess
import sys

found = {}  # name of a library -> the file that is loaded -> a program that loads it
for program in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    if program.is_file() and program.read_bytes()[:4] == b"\x7fELF":
        for name, path in re.findall(r"(\S+) => (/\S+)", subprocess.run(["ldd", program], capture_output=True, text=True).stdout):
            found.setdefault(name, {}).setdefault(str(pathlib.Path(path).resolve()), program.name)
different = {name: files for name, files in found.items() if len(files) > 1}
for name, files in different.items():
    print(f"{name}: " + ", ".join(f"{program} loads {path}" for path, program in files.items()), file=sys.stderr)
if not found:
    sys.exit(f"{sys.argv[1]} has no program that loads a library")
sys.exit(1 if different else 0)
