#!/usr/bin/env python3
"""Checks that a document's diffs tell the truth: every line that one adds is in the file as it is today.

usage: replay_test.py --root DIR DOCUMENT...
"""
import argparse
import pathlib
import re
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("documents", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    for document in args.documents:
        checked, wrong, lines = 0, [], []
        for block in re.findall(r"^ *```diff\n(.*?)^ *```", document.read_text(), re.M | re.S):
            for line in block.splitlines():
                line = line.strip()
                if line.startswith("+++ "):
                    path = line[4:]
                    lines = {text.strip() for text in (args.root / path).read_text().splitlines()}
                elif line.startswith("+"):
                    checked += 1
                    if line[1:].strip() not in lines:
                        wrong.append(f"{document}: {path} has no line '{line[1:].strip()}'")
        if wrong or not checked:
            sys.exit("\n".join(wrong) or f"{document}: no diffs found")
        print(f"{document}: {checked} lines found")


if __name__ == "__main__":
    main()
