#!/usr/bin/env python3
"""Writes a strategy file for semi-auto mode: one pattern for all operators whose rule has the factors it names.

usage: make_strategies.py REPORT.json MESH PATTERN -o FILE

REPORT.json is report.json of a plan of the model; MESH as for tessera-compile. PATTERN maps factor letters to mesh
axes: f=model (output channels), h=model (height), n=data,f=model (batch x channels). An operator takes part if its rule
has all these factors (and space, so: convolutions), their extents divide, and blocks are not smaller than a halo of 3.
"""
import argparse
import json
import re


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report")
    parser.add_argument("mesh")
    parser.add_argument("pattern")
    parser.add_argument("-o", required=True)
    args = parser.parse_args()
    sizes = {name: int(n) for name, n in (axis.split("=") for axis in args.mesh.split(","))}
    pattern = dict(part.split("=") for part in args.pattern.split(","))
    report = json.load(open(args.report))
    strategies, seen = [], set()
    for function in report["functions"]:
        for op in function["operators"]:
            rule = op["rule"].split("|")[0].split("{")[0]
            if "whole" not in op["rule"] or op["name"] in seen or "gradient_of" in op:
                continue
            left, right = rule.split("->")
            tensors = [re.findall(r"\([^)]*\)|\S+", tensor) for tensor in left.split(",")]
            outputs = [re.findall(r"\([^)]*\)|\S+", tensor) for tensor in right.split(",")]
            letters = {letter for tensor in tensors + outputs for dim in tensor for letter in dim.strip("()").split()}
            if not set(pattern) <= letters:
                continue
            shapes = op["global_operands"] + op["global_results"]
            fits, lists, space = True, [], {}
            for tensor, shape in zip(tensors + outputs, shapes):
                entry = []
                for dim, extent in zip(tensor, shape):
                    axes = [pattern[letter] for letter in dim.strip("()").split() if letter in pattern]
                    entry.append(axes[0] if axes else None)
                    for axis in axes:
                        fits &= extent % sizes[axis] == 0
                        if dim in ("h", "w"):  # blocks of input and output advance together
                            fits &= space.setdefault(dim, extent) % extent == 0
                lists.append(entry)
            if fits:
                seen.add(op["name"])
                strategies.append({"op": op["name"], "in": lists[: len(tensors)]})
    if not strategies:
        raise SystemExit(f"no operator takes the pattern {args.pattern} on {args.mesh}")
    json.dump(strategies, open(args.o, "w"), indent=1)
    print(f"{len(strategies)} operators follow {args.pattern}")


if __name__ == "__main__":
    main()
