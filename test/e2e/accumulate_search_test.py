#!/usr/bin/env python3
"""The search with --accumulate N: its own plan is no dearer than data parallelism, and its problem does not depend on N.

usage: accumulate_search_test.py --bin DIR --models DIR

Small versions of BERT, GPT and ResNet on one and two axes, with N = 1, 2, 4 and 16. A searcher that is named has the last
word, so that what is looked at is the search's plan and not data's, which the compiler takes where it is cheaper. A search
may be mistaken in what it does not price as the plan does (known_differences.txt): by as much as with one micro-batch, and no
more with several. Messages are not joined here: the search prices each alone.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from cases import Programs

MESHES = (("x=8", "8xh100"), ("x=4,y=4", "2x8xa100"))
PARTS = (1, 2, 4, 16)
NETWORKS = {
    "bert": ("layers=2", "hidden=256", "heads=4", "words=2000", "batch=32", "length=128", "dropout=0"),
    "gpt": ("layers=2", "hidden=512", "heads=8", "words=4000", "batch=32", "length=128"),
}


class Compiler(Programs):
    def train(self, model, mesh, topology, parts, *options):
        """The step as predicted in ms, and the search's numbers of nodes and options. Its edges are those between options
        that it keeps, which depend on prices."""
        text = self.run(self.bin / "tessera-compile", *model, "--train", "--mesh", mesh, "--topology", topology, "--accumulate",
                        parts, "--fusion", "off", "--overlap", "off", "--search-only", *options)
        line = re.search(r"^train .*predicted ([0-9.]+) ms", text, re.M)
        search = re.search(r"search: (\d+) nodes, (\d+) options", text)
        return float(line[1]), search and tuple(map(int, search.groups()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        c = Compiler(args, pathlib.Path(name))
        models = {}
        for kind, sizes in NETWORKS.items():
            path = c.folder / f"{kind}.onnx"
            subprocess.run([sys.executable, args.models / "networks.py", kind, "-o", path, *sizes], check=True)
            models[kind] = (path, "--inputs", "ids,segments" if kind == "bert" else "ids", "--optimizer", "adam:lr=0.001")
        for kind, model in models.items():
            models[kind] = (*model, "--loss", "cross_entropy")
        # What --dim says is the whole batch: as large for every micro-batch.
        models["resnet18"] = (args.models / "resnet18_cifar_train.onnx",)
        for kind, model in models.items():
            for mesh, topology in MESHES:
                mistaken = None
                for parts in PARTS:
                    rows = ("--dim", f"batch={32 * parts}") if kind == "resnet18" else ()
                    data, _ = c.train(model, mesh, topology, parts, *rows, "--mode", "data")
                    found, problem = c.train(model, mesh, topology, parts, *rows, "--mode", "auto", "--searcher", "exact")
                    if mistaken is None:
                        mistaken = max(0, found - data)
                    good = found - data <= mistaken + 0.0015  # printed to a microsecond
                    bad += not good
                    print(f"{kind} {mesh} in {parts}: data {data:.3f} ms, auto {found:.3f} ms, {problem}"
                          f"{'' if good else ': DEARER'}")
                    if parts == 2:
                        few = problem
                if problem != few:
                    bad += 1
                    print(f"{kind} {mesh}: {problem} nodes and options for {PARTS[-1]} micro-batches, {few} for 2")
    print("failed" if bad else "passed")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
