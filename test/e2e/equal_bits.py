#!/usr/bin/env python3
"""The table of tessera-compile --reproducible: networks on 1 to 8 ranks, cut in every way, on one and on two threads.

usage: equal_bits.py --bin DIR --models DIR [--device cuda] [--steps N] [--once] [--columns NAME,...] [ROW...]

Every cell is a training of N steps (20 unless given), with one thread a rank and with two. Its losses and last checkpoint must be
those of one rank with one thread, to the bit; the line of a network begins with a hash of these. `=` is equal, `-` means that
nothing of the network can be cut in this way. A refusal or a difference has a line of its own. Exit code 1 if there is any. A row is
a network, or `random graphs`: 300 of them under random strategies, by the program random_graphs_test if it is built.
--once: few steps, and of the cells so many that every network and every way to cut occurs.
--device cuda: the ranks run on the emulated devices, with one thread each, and all bits are those of one rank there; 2 steps
unless given.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from cases import ON_DEVICE, emulated
from tensors import manifest_of, whole_tensors

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
    "DLRM": (small_networks.dlrm, {"--inputs": "dense,ids", "--loss": "bce_with_logits", "--optimizer": "sgd:lr=0.002,momentum=0.9"}, False),
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
                   for tensor in re.split(",|->", op["rule"].split("|")[0])]
        inputs = tensors[:len(op["global_operands"])]
        if op["kind"] == "matmul" and set(inputs[0][0]) & set(inputs[1][0]) - {letter}:
            return None  # products of activations; an Einsum's operands have other dimensions in the model file
        extents = dict((name, int(n)) for name, n in re.findall(r"([\w.]+)=(\d+)", op["rule"][op["rule"].rindex("{"):]))
        cuts = {letter: self.axis}
        if "data" in sizes:
            cuts.setdefault(inputs[0][0][0], "data")
        if any(extents.get(factor, 1) % sizes[axis] for factor, axis in cuts.items()):
            return None
        if letter in re.findall(r"\| whole (\S+)", op["rule"]):
            return None  # fewer output channels than are kept together
        for dim, extent in ((dim, extent) for tensor, shape in zip(tensors, op["global_operands"] + op["global_results"])
                            for dim, extent in zip(tensor, shape) if letter in dim and letter in WINDOWED):
            if extent % extents[letter] and extents[letter] % extent:
                return None  # blocks of images before and behind do not advance together
        return {"op": op["name"], "in": [[next((cuts[factor] for factor in dim if factor in cuts), None) for dim in tensor]
                                         for tensor in inputs]}

    def write(self, report, mesh, file):
        """The number of operators that are cut."""
        sizes = {name: int(n) for name, n in (axis.split("=") for axis in mesh.split(","))}
        entries = {}
        for op in (op for function in report["functions"] for op in function["operators"]):
            if entry := self.entry(op, sizes):
                entries[op["name"]] = entry
        file.write_text(json.dumps(list(entries.values())))
        return len(entries)


WINDOWED = "hw"
CHANNELS = {"conv": "f", "conv_input_grad": "c"}  # those that are made
HEIGHT = {"conv": "h", "conv_input_grad": "h", "max_pool": "h", "avg_pool": "h"}
# A table that is also the last layer's weight needs the same cut for both. A CumSum becomes a product, but has one input.
INNER = "(?!logits|CumSum).*"
VOCABULARY = r"logits|Gather_1|table\d.rows"


def cut(axis, kinds, names=".*", mode="semi-auto"):
    """Columns of one way to cut: on 2, 4 and 8 ranks."""
    return {ranks: (f"{axis}={ranks}", mode, Cut(axis, kinds, names)) for ranks in (2, 4, 8)}


def named(name, columns):
    return {f"{name} {ranks}": column for ranks, column in columns.items()}


def with_batch(kinds, names=".*"):
    return {f"{n}x{m}": (f"data={n},model={m}", "semi-auto", Cut("model", kinds, names)) for n, m in ((2, 2), (4, 2), (2, 4))}


# A column: the mesh, the mode, how operators are cut. A network has those of its kind, and those of every kind.
EVERY = {
    "rank": ("1", "data"),  # on two threads
    **named("data", {ranks: (f"data={ranks}", "data") for ranks in (2, 3, 4, 8)}),  # three do not divide the leaves
    **named("auto", {"2x2": ("data=2,model=2", "auto"), "2x4": ("data=2,model=4", "auto"), 8: ("8", "auto")}),
    # Along one axis the search cuts optimizer states and updates.
    **named("sharded optimizer", {ranks: (f"data={ranks}", "auto") for ranks in (2, 4, 8)}),
    **named("stages", {2: ("stage=2", "data"), 4: ("stage=4", "data"), "2x2": ("stage=2,data=2", "auto"),
                       "2x4": ("stage=2,data=4", "auto")}),
}
OF_CONVOLUTIONS = {
    **named("channels", cut("model", CHANNELS)),
    **named("batch x channels", with_batch(CHANNELS)),
    **named("height", cut("space", HEIGHT)),
}
OF_PRODUCTS = {
    **named("columns", cut("model", {"matmul": "n"}, INNER)),
    **named("sums", cut("model", {"matmul": "k"}, INNER)),
    **named("batch x columns", with_batch({"matmul": "n"}, INNER)),
    **named("vocabulary", cut("model", {"matmul": "n", "gather": "v"}, VOCABULARY, "auto")),
}
COLUMNS = EVERY | OF_CONVOLUTIONS | OF_PRODUCTS
RANDOM = "random graphs"

# Every network and every way to cut.
ONCE = {
    "LeNet": ["rank", "data 8"],
    "ResNet-18": ["channels 4"],
    "ResNet-50": ["batch x channels 2x2"],
    "U-Net": ["height 2"],
    "ViT": ["data 3", "columns 2"],
    "BERT": ["sharded optimizer 4"],
    "GPT": ["vocabulary 4"],
    "LLaMA": ["batch x columns 2x4", "auto 2x4"],
    "experts": ["auto 8"],
    "DLRM": ["sums 8"],
    "LSTM": ["stages 2x2"],
}


def kind(column):
    """`batch x channels` of `batch x channels 2x2`."""
    return re.sub(r" [\dx]+$", "", column)


def columns_of(network):
    return [*EVERY, *(OF_CONVOLUTIONS if NETWORKS[network][2] else OF_PRODUCTS)]


assert ONCE.keys() == NETWORKS.keys() and {kind(c) for row in ONCE.values() for c in row} == {kind(c) for c in COLUMNS}


class Refused(Exception):
    """What a program said that did not end with 0."""


def run(bin, *command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=3600,
                          env=os.environ | emulated(bin))
    if done.returncode != 0:
        raise Refused((done.stdout + done.stderr).strip().splitlines()[-1])
    return done.stdout


class Table:
    def __init__(self, bin, models, folder, steps, device):
        self.bin, self.models, self.folder, self.steps, self.device, self.count = bin, models, folder, steps, device, 0

    def compile(self, file, options, mesh, mode, *more):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        run(self.bin, self.bin / "tessera-compile", file, "--train", "--reproducible", "--seed", 1, "--search-budget", 0.2, "--mesh", mesh,
            "--mode", mode, *(text for option in options.items() for text in option), *more, "-o", plan)
        return plan

    def train(self, plan, threads):
        """What the run computed: losses as text and digests of tensors, by name."""
        self.count += 1
        log, checkpoints = self.folder / f"log{self.count}", self.folder / f"checkpoints{self.count}"
        run(self.bin, self.bin / "tessera-run", plan, "--data", "synthetic", "--steps", self.steps, "--log", log, "--checkpoint-dir",
            checkpoints, "--keep", 1, "--threads", threads, *(ON_DEVICE if self.device == "cuda" else ()))
        found = {f"loss {i}": repr(json.loads(line)["loss"]) for i, line in enumerate(log.read_text().splitlines())}
        self.last = checkpoints / f"step-{self.steps:08}"
        return found | {name: hashlib.sha256(tensor.tobytes()).hexdigest() for name, tensor in whole_tensors(self.last).items()}

    def shards_states(self):
        """Whether the last run kept a state of the optimizer in parts."""
        states = [t for t in manifest_of(self.last)["tensors"].values() if t["role"] == "optimizer"]
        return any(max(t["split"], default=1) > 1 for t in states)

    def cell(self, file, options, report, expected, name):
        """`=`, or a word and a line that explains it."""
        mesh, mode, *cut = COLUMNS[name]
        more = []
        if cut:
            strategy = self.folder / "cut.json"
            if cut[0].write(report, mesh, strategy) == 0:
                return "-", ""
            more = ["--strategy", strategy]
        try:
            plan = self.compile(file, options, mesh, mode, *more)
            for threads in (1, 2) if self.device == "cpu" else (1,):
                found = self.train(plan, threads)
                wrong = [name for name in expected if found.get(name) != expected[name]]
                if wrong or found.keys() != expected.keys():
                    return "DIFFERS", f"{threads} threads: {len(wrong)} of {len(expected)}: {', '.join(wrong[:4])}"
        except Refused as error:
            return "REFUSED", str(error)
        if name.startswith("sharded") and not self.shards_states():
            return "WHOLE", "no state of the optimizer is cut"
        return "=", ""

    def line(self, network, columns):
        """The cells of a network by column, and a hash of what one rank computed."""
        source, options, _ = NETWORKS[network]
        file = self.models / f"{source}.onnx" if isinstance(source, str) else self.folder / f"{network}.onnx"
        if not isinstance(source, str):
            source(file)
        references, cells = {}, {}
        for column in columns:
            # Micro-batches are other programs, with other bits.
            parts = 4 if column.startswith("stages 4") else 2 if column.startswith("stages") else 1
            mine = options | ({"--accumulate": parts} if parts > 1 else {})
            if parts not in references:
                plan = self.compile(file, mine, "1", "data")
                references[parts] = json.loads((plan / "report.json").read_text()), self.train(plan, 1)
                losses = [float(loss) for what, loss in references[parts][1].items() if what.startswith("loss ")]
                if not all(map(math.isfinite, losses)) or len(set(losses)) < 2:
                    sys.exit(f"{network}: losses that show nothing: {losses}")
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                table = Table(self.bin, self.models, pathlib.Path(folder), self.steps, self.device)
                cells[column] = table.cell(file, mine, *references[parts], column)
        every = repr([sorted(found.items()) for _, found in references.values()])
        return cells, hashlib.sha256(every.encode()).hexdigest()[:12]


def random_graphs(bin):
    """A word and a line that explains it."""
    program = bin / "random_graphs_test"
    if not program.exists():
        return "-", ""
    done = subprocess.run([program, "reproducible*"], capture_output=True, text=True, timeout=3600)
    return ("=", "") if done.returncode == 0 else ("DIFFERS", (done.stdout + done.stderr).strip().replace("\n", "\n    "))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, help="20 unless given, or 3 with --once, or 2 on a device")
    parser.add_argument("--once", action="store_true", help="few cells")
    parser.add_argument("--columns", type=lambda text: text.split(","), metavar="NAME,...", help="only these")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    args = parser.parse_args()
    on_cpu = args.device == "cpu"
    steps, bad, count = args.steps or (2 if not on_cpu else 3 if args.once else 20), 0, 0
    for row in args.rows or [*NETWORKS] + ([RANDOM] if on_cpu and not (args.once or args.columns) else []):
        begin = time.monotonic()
        if row == RANDOM:
            cells, digest = {"reproducible": random_graphs(args.bin)}, ""
        else:
            columns = [c for c in (ONCE[row] if args.once else columns_of(row)) if not args.columns or c in args.columns]
            with tempfile.TemporaryDirectory() as folder:
                cells, digest = Table(args.bin, args.models, pathlib.Path(folder), steps, args.device).line(row, columns)
        print(f"{row} {digest}: " + ", ".join(f"{column} {word}" for column, (word, _) in cells.items()) +
              f" ({time.monotonic() - begin:.0f} s)", flush=True)
        for column, (word, why) in cells.items():
            count += word != "-"
            if why:
                bad += 1
                print(f"    {column}: {word}: {why}", flush=True)
    print(f"{bad} of {count} cells differ or are refused" if bad else f"all bits of {count} cells are equal")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
