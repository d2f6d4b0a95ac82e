#!/usr/bin/env python3
"""The table of tessera-compile --reproducible: networks on meshes of 1 to 8 ranks, cut in every way, on one and on two threads.

usage: equal_bits.py --bin DIR --models DIR [--steps N] [--columns NAME,...] [NETWORK...]

Every cell is a training of N steps (20 unless given), with one thread a rank and with two. Its losses and last checkpoint must be
those of one rank with one thread, to the bit; the line of a network begins with a hash of these. `=` is equal, `-` means that
nothing of the network can be cut in this way. A refusal or a difference has a line of its own. Exit code 1 if there is any.
"""
import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from tensors import whole_tensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import networks  # noqa: E402
import small_networks  # noqa: E402

IMAGES = {"--loss": "cross_entropy", "--optimizer": "sgd:lr=0.01,momentum=0.9"}
WORDS = {"--inputs": "ids", "--loss": "cross_entropy", "--optimizer": "adamw:lr=0.001", "--clip-norm": 1}
DECODER = dict(batch=8, length=16, hidden=64, words=96, layers=2, heads=4)

# A network: what writes it, or a file of test/models; options of the compiler; whether it is made of convolutions.
NETWORKS = {
    "LeNet": ("lenet_train", IMAGES | {"--dim": "batch=8"}, True),
    "ResNet-18": ("resnet18_cifar_train", IMAGES | {"--dim": "batch=8"}, True),
    "ResNet-50": ("resnet50_cifar_train", IMAGES | {"--dim": "batch=8"}, True),
    "U-Net": (small_networks.unet, IMAGES | {"--inputs": "image"}, True),
    "ViT": (small_networks.vit, WORDS | {"--inputs": "image"}, False),
    "BERT": (lambda path: networks.bert(path, **DECODER), WORDS | {"--inputs": "ids,segments"}, False),
    "GPT": (lambda path: networks.gpt(path, **DECODER), WORDS, False),
    "LLaMA": (lambda path: networks.llama(path, groups=2, inner=96, **DECODER), WORDS, False),
    "experts": (lambda path: networks.experts(path, experts=4, **DECODER), WORDS, False),
    "DLRM": (small_networks.dlrm, {"--inputs": "dense,ids", "--loss": "bce_with_logits", "--optimizer": "sgd:lr=0.05"}, False),
    "LSTM": (small_networks.lstm, WORDS, False),
}


class Cut:
    """A strategy file that cuts every operator of these names whose kind has a letter: by the factor of this letter. If the mesh
    has the axis 'data', it cuts the batch."""

    def __init__(self, axis, letters, names=".*"):
        self.axis, self.letters, self.names = axis, letters, names

    def entry(self, op, sizes):
        """None: the operator does not take part."""
        if op["kind"] not in self.letters or "gradient_of" in op or not re.fullmatch(self.names, op["name"]):
            return None
        letter = self.letters[op["kind"]]
        tensors = [[dim.strip("()").split() for dim in re.findall(r"\([^)]+\)|[^\s()]+", tensor)]
                   for tensor in op["rule"].split("->")[0].split(",")]
        if op["kind"] == "matmul" and set(tensors[0][0]) & set(tensors[1][0]) - {letter}:
            return None  # products of activations; an Einsum's operands have other dimensions in the model file
        extents = dict((name, int(n)) for name, n in re.findall(r"([\w.]+)=(\d+)", op["rule"][op["rule"].rindex("{"):]))
        cuts = {letter: self.axis}
        if "data" in sizes:
            cuts.setdefault(tensors[0][0][0], "data")
        if any(extents.get(factor, 1) % sizes[axis] for factor, axis in cuts.items()):
            return None
        return {"op": op["name"], "in": [[next((cuts[factor] for factor in dim if factor in cuts), None) for dim in tensor]
                                         for tensor in tensors]}

    def write(self, report, mesh, file):
        """The number of operators that are cut."""
        sizes = {name: int(n) for name, n in (axis.split("=") for axis in mesh.split(","))}
        entries = {}
        for op in (op for function in report["functions"] for op in function["operators"]):
            if entry := self.entry(op, sizes):
                entries[op["name"]] = entry
        file.write_text(json.dumps(list(entries.values())))
        return len(entries)


def channels(letter):
    return {"conv": letter, "conv_input_grad": letter}


HEIGHT = channels("h") | {"max_pool": "h", "avg_pool": "h"}
# A table that is also the last layer's weight needs the same cut for both. A CumSum becomes a product, but has one input.
INNER = "(?!logits|CumSum).*"
VOCABULARY = r"logits|Gather_1|table\d.rows"

# A column: the mesh, the mode, how operators are cut, options. A network has those of its kind, and those of every kind.
EVERY = {
    "data 2": ("data=2", "data"),
    "data 4": ("data=4", "data"),
    "data 8": ("data=8", "data"),
    "auto 2x2": ("data=2,model=2", "auto"),
    "auto 8": ("8", "auto"),
    "sharded optimizer": ("data=4", "auto"),  # along one axis the search cuts optimizer states and updates
    "stages 2": ("stage=2", "data"),
    "stages 2x2": ("stage=2,data=2", "auto"),
}
OF_CONVOLUTIONS = {
    "channels 2": ("model=2", "semi-auto", Cut("model", channels("f"))),
    "channels 4": ("model=4", "semi-auto", Cut("model", channels("f"))),
    "batch x channels": ("data=2,model=2", "semi-auto", Cut("model", channels("f"))),
    "height 2": ("space=2", "semi-auto", Cut("space", HEIGHT)),
    "height 4": ("space=4", "semi-auto", Cut("space", HEIGHT)),
}
OF_PRODUCTS = {
    "columns 2": ("model=2", "semi-auto", Cut("model", {"matmul": "n"}, INNER)),
    "columns 8": ("model=8", "semi-auto", Cut("model", {"matmul": "n"}, INNER)),
    "sums 4": ("model=4", "semi-auto", Cut("model", {"matmul": "k"}, INNER)),
    "batch x columns": ("data=2,model=2", "semi-auto", Cut("model", {"matmul": "n"}, INNER)),
    "vocabulary 4": ("model=4", "auto", Cut("model", {"matmul": "n", "gather": "v"}, VOCABULARY)),
}


class Refused(Exception):
    """What a program said that did not end with 0."""


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        raise Refused((done.stdout + done.stderr).strip().splitlines()[-1])
    return done.stdout


class Table:
    def __init__(self, bin, models, folder, steps):
        self.bin, self.models, self.folder, self.steps, self.count = bin, models, folder, steps, 0

    def compile(self, file, options, mesh, mode, *more):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        run(self.bin / "tessera-compile", file, "--train", "--reproducible", "--seed", 1, "--search-budget", 0.2, "--mesh", mesh,
            "--mode", mode, *(text for option in options.items() for text in option), *more, "-o", plan)
        return plan

    def train(self, plan, threads):
        """What the run computed: losses as text and digests of tensors, by name."""
        self.count += 1
        log, checkpoints = self.folder / f"log{self.count}", self.folder / f"checkpoints{self.count}"
        run(self.bin / "tessera-run", plan, "--data", "synthetic", "--steps", self.steps, "--log", log, "--checkpoint-dir",
            checkpoints, "--keep", 1, "--threads", threads)
        found = {f"loss {i}": repr(json.loads(line)["loss"]) for i, line in enumerate(log.read_text().splitlines())}
        tensors = whole_tensors(checkpoints / f"step-{self.steps:08}")
        return found | {name: hashlib.sha256(tensor.tobytes()).hexdigest() for name, tensor in tensors.items()}

    def cell(self, file, options, report, expected, column):
        """`=`, or a word and a line that explains it."""
        mesh, mode, *cut = column
        more = []
        if cut:
            strategy = self.folder / "cut.json"
            if cut[0].write(report, mesh, strategy) == 0:
                return "-", ""
            more = ["--strategy", strategy]
        try:
            plan = self.compile(file, options, mesh, mode, *more)
            for threads in (1, 2):
                found = self.train(plan, threads)
                wrong = [name for name in expected if found.get(name) != expected[name]]
                if wrong or found.keys() != expected.keys():
                    return "DIFFERS", f"{threads} threads: {len(wrong)} of {len(expected)}: {', '.join(wrong[:4])}"
        except Refused as error:
            return "REFUSED", str(error)
        return "=", ""

    def line(self, name, only=None):
        """The cells of a network by column, and a hash of what one rank computed. `only`: these columns."""
        source, options, convolutions = NETWORKS[name]
        file = self.models / f"{source}.onnx" if isinstance(source, str) else self.folder / f"{name}.onnx"
        if not isinstance(source, str):
            source(file)
        columns = EVERY | (OF_CONVOLUTIONS if convolutions else OF_PRODUCTS)
        references, cells = {}, {}
        for column in (c for c in only or columns if c in columns):
            # Micro-batches are other programs, with other bits.
            mine = options | ({"--accumulate": 2} if columns[column][0].startswith("stage") else {})
            key = "--accumulate" in mine
            if key not in references:
                plan = self.compile(file, mine, "1", "data")
                references[key] = json.loads((plan / "report.json").read_text()), self.train(plan, 1)
            cells[column] = self.cell(file, mine, *references[key], columns[column])
        every = repr([sorted(found.items()) for _, found in references.values()])
        return cells, hashlib.sha256(every.encode()).hexdigest()[:12]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--columns", type=lambda text: text.split(","), metavar="NAME,...", help="only these")
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    args = parser.parse_args()
    bad = 0
    for name in args.networks or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            cells, digest = Table(args.bin, args.models, pathlib.Path(folder), args.steps).line(name, args.columns)
        print(f"{name} {digest}: " + ", ".join(f"{column} {word}" for column, (word, _) in cells.items()), flush=True)
        for column, (word, why) in cells.items():
            if why:
                bad += 1
                print(f"    {column}: {word}: {why}", flush=True)
    print(f"{bad} cells differ or are refused" if bad else "all bits are equal")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
