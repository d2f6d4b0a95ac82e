#!/usr/bin/env python3
"""Counts the code files side by side in every folder; fails where a room has become a hall.

usage: count-files.py ROOT [--all]

Prints `SOURCES FILES FOLDER` of the fullest folders (--all: of all). More than LIMIT sources in one folder is an error, but
for those that hold one file for each of many equal things.
"""
import collections
import pathlib
import sys

LIMIT = 18  # of .cpp, .cu and .td files
TABLES = {"compiler/import/ops"}  # one file a family of ONNX operators
PARTS = ("compiler", "dialects", "runtime", "strategies", "tools")


def main(root, show_all):
    sources, files = collections.Counter(), collections.Counter()
    for part in PARTS:
        for path in (root / part).rglob("*"):
            folder = path.parent.relative_to(root).as_posix()
            sources[folder] += path.suffix in {".cpp", ".cu", ".td"}
            files[folder] += path.suffix in {".cpp", ".cu", ".td", ".h", ".inc", ".def", ".proto"}
    crowded = [f for f in sources if sources[f] > LIMIT and f not in TABLES]
    for folder in sorted(files, key=lambda f: (-files[f], f)):
        if files[folder] and (show_all or folder in crowded):
            print(f"{sources[folder]:3} {files[folder]:3} {folder}")
    for folder in crowded:
        print(f"{folder}: {sources[folder]} sources side by side, at most {LIMIT} are wanted: cut it by job")
    return 1 if crowded else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), "--all" in sys.argv[2:]))
