#!/usr/bin/env python3
"""Counts lines of tests against lines of code.

usage: count-lines.py ROOT

A row per top folder: its code, and the unit and lit tests that mirror a folder in it. Then a row for each kind of test
that belongs to no folder alone. Empty lines and comments count on both sides. What only measures (benchmark) and inputs
(models) are no tests.
"""
import pathlib
import sys

CODE = {".cpp", ".h", ".cu", ".td", ".def", ".inc", ".proto"}
TESTS = CODE | {".py", ".sh", ".mlir", ".test"}
PARTS = ("compiler", "dialects", "runtime", "strategies", "tools")
MIRRORING = ("unit", "lit")
NO_TESTS = {"benchmark", "models"}


def lines(folder, suffixes):
    files = (p for p in folder.rglob("*") if p.suffix in suffixes and p.is_file())
    return sum(len(p.read_text(errors="replace").splitlines()) for p in files)


def main(root):
    rooms = {part: {part} | {p.name for p in (root / part).rglob("*") if p.is_dir()} for part in PARTS}
    own = dict.fromkeys(PARTS, 0)
    others = {}
    for kind in sorted(p for p in (root / "test").iterdir() if p.is_dir() and p.name not in NO_TESTS):
        others[kind.name] = lines(kind, TESTS)
        for room in sorted(p for p in kind.iterdir() if p.is_dir() and kind.name in MIRRORING):
            homes = [part for part in PARTS if room.name in rooms[part]]
            # A name in two parts: the part that has it right below itself.
            home = next((part for part in homes if len(homes) == 1 or (root / part / room.name).is_dir()), None)
            if home:
                count = lines(room, TESTS)
                own[home] += count
                others[kind.name] -= count
    code = {part: lines(root / part, CODE | {".py", ".sh"}) for part in PARTS}
    print(f"{'':12} {'code':>7} {'tests':>7}")
    for part in PARTS:
        print(f"{part:12} {code[part]:7,} {own[part]:7,}")
    for kind, count in others.items():
        if count:
            print(f"{'test/' + kind:20} {count:7,}")
    total, tests = sum(code.values()), sum(own.values()) + sum(others.values())
    print(f"{'together':12} {total:7,} {tests:7,}   {tests / total:.2f} lines of tests per line of code")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
