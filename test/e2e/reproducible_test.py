#!/usr/bin/env python3
"""tessera-compile --reproducible: the same losses and checkpoints, to the bit, on every mesh and number of threads.

usage: reproducible_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import hashlib
import json
import pathlib
import shutil
import sys

import numpy as np

from cases import ON_DEVICE, Programs, case, main
from tensors import whole_tensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import networks  # noqa: E402

# A layer cut by columns, one by rows, as in Megatron-LM.
COLUMNS_THEN_ROWS = [{"op": "/fc1/Gemm", "in": [["data", None], ["model", None]]},
                     {"op": "/fc2/Gemm", "in": [["data", "model"], [None, "model"]]},
                     {"op": "/fc3/Gemm", "in": [["data", None], [None, None]]}]


class Context(Programs):
    def compile(self, model, mesh, mode, *options, leaves=8, code=0):
        """Compiles a file of test/models, or one that the case has written, with the options of the case."""
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        file = self.folder / f"{model}.onnx"
        text = self.run(self.bin / "tessera-compile", file if file.exists() else self.models / f"{model}.onnx", "--mesh", mesh,
                        "--mode", mode, "--train", "--seed", "1", *((f"--reproducible={leaves}",) if leaves != 0 else ()), *options,
                        "-o", plan, code=code)
        return text if code else plan

    def train(self, plan, *options, steps, data="synthetic", launcher=()):
        """The losses, and digests of the tensors of the last checkpoint. `launcher`: what starts the program."""
        self.count += 1
        log, checkpoints = plan / f"log{self.count}.jsonl", plan / f"checkpoints{self.count}"
        self.run(*launcher, self.bin / "tessera-run", plan, "--data", data, "--steps", steps, "--log", log, "--checkpoint-dir",
                 checkpoints, *options)
        losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
        assert np.all(np.isfinite(losses)) and len(set(losses)) > 1, losses
        self.last = checkpoints / f"step-{steps:08}"
        return losses, {name: hashlib.sha256(tensor.tobytes()).hexdigest() for name, tensor in whole_tensors(self.last).items()}

    def strategies(self, plan, mesh, pattern):
        """A strategy file by make_strategies.py."""
        self.count += 1
        file = self.folder / f"cut{self.count}.json"
        self.run(sys.executable, pathlib.Path(__file__).parent / "make_strategies.py", plan / "report.json", mesh, pattern, "-o",
                 file)
        return file


def differences(a, b):
    """What differs between two runs, in words; nothing where all bits are equal."""
    (losses, tensors), (others, other) = a, b
    found = [f"loss {i}: {x!r} and {y!r}" for i, (x, y) in enumerate(zip(losses, others)) if x != y][:1]
    assert tensors.keys() == other.keys(), tensors.keys() ^ other.keys()
    assert len(losses) == len(others)
    return found + [name for name in tensors if tensors[name] != other[name]]


def check_meshes(c, model, options, configurations, steps=4, run=()):
    """Every configuration, MESH:MODE[:PATTERN] or (that, OPTION...), trains like one rank: the first with one thread a rank,
    the next with two, and so on. `run`: options of every run."""
    plan = c.compile(model, "1", "data", *options)
    one = c.train(plan, "--threads", 1, *run, steps=steps)
    wrong = differences(c.train(plan, "--threads", 2, *run, steps=steps), one)
    wrong = [f"two threads: {wrong}"] if wrong else []
    for i, configuration in enumerate(configurations):
        text, *more = (configuration,) if isinstance(configuration, str) else configuration
        mesh, mode, *pattern = text.split(":")
        if pattern:
            more += ["--strategy", c.strategies(plan, mesh, pattern[0])]
        found = differences(c.train(c.compile(model, mesh, mode, *options, *more), "--threads", 1 + i % 2, *run, steps=steps), one)
        if found:
            wrong.append(f"{text} {more}: {found[:6]}, {len(found)} in all")
    assert not wrong, f"{model} {options}\n" + "\n".join(wrong)


@case
def an_mlp_trains_alike_on_every_mesh(c):
    (c.folder / "cut.json").write_text(json.dumps(COLUMNS_THEN_ROWS))
    cut = ("--strategy", c.folder / "cut.json")
    for optimizer in ("sgd:lr=0.05,momentum=0.9", "adamw:lr=0.001"):
        check_meshes(c, "mlp_train", ("--dim", "batch=16", "--optimizer", optimizer, "--clip-norm", "0.5"),
                     ["data=2:data", "data=4:data", "data=8:data", "data=2,model=2:data", ("data=2,model=2:semi-auto", *cut),
                      ("data=1,model=4:semi-auto", *cut), "data=2,model=2:auto", "model=8:auto"], steps=20)


@case
def convolutions_train_alike(c):
    meshes = ["data=2:data", "data=4:data", "data=2,model=2:auto", "space=2:semi-auto:h=space"]
    check_meshes(c, "lenet_train", ("--dim", "batch=8", "--optimizer", "adamw:lr=0.001"), meshes)
    # Layers of 64 channels and more; LeNet's of 6 and 16 are not cut.
    check_meshes(c, "resnet18_cifar_train", ("--dim", "batch=8", "--optimizer", "sgd:lr=0.01,momentum=0.9"),
                 ["model=4:semi-auto:f=model", *meshes], steps=2)


@case
def language_models_train_alike(c):
    sizes = dict(batch=8, length=16, hidden=64, words=96, layers=2, heads=4)
    networks.gpt(c.folder / "gpt.onnx", **sizes)
    networks.bert(c.folder / "bert.onnx", **sizes)
    networks.llama(c.folder / "llama.onnx", groups=2, inner=96, **sizes)
    for model, inputs in (("gpt", "ids"), ("bert", "ids,segments"), ("llama", "ids")):
        check_meshes(c, model, ("--inputs", inputs, "--loss", "cross_entropy", "--optimizer", "adamw:lr=0.001", "--clip-norm", "1"),
                     ["data=2:data", "data=4:data", "model=2:auto", "data=2,model=2:auto"])


@case
def micro_batches_train_alike(c):
    for options in (("--accumulate", "2"), ("--recompute", "full")):
        check_meshes(c, "mlp_train", ("--dim", "batch=16", "--optimizer", "adamw:lr=0.001", *options),
                     ["data=2:data", "data=4:data", "data=2,model=2:auto"])


@case
def every_precision_trains_alike(c):
    networks.gpt(c.folder / "gpt.onnx", batch=8, length=16, hidden=64, words=96, layers=1, heads=4)
    words = ("--inputs", "ids", "--loss", "cross_entropy", "--optimizer", "adamw:lr=0.001", "--clip-norm", "1")
    meshes = ["data=2:data", "data=4:data", "data=2,model=2:auto"]
    for precision, run in (("bf16", ()), ("f16", ()), ("f32", ("--f64",))):
        check_meshes(c, "lenet_train", ("--dim", "batch=16", "--optimizer", "adamw:lr=0.001", "--precision", precision),
                     [*meshes, "space=2:semi-auto:h=space"], run=run)
        check_meshes(c, "gpt", (*words, "--precision", precision), meshes, run=run)
    check_meshes(c, "resnet18_cifar_train", ("--dim", "batch=4", "--optimizer", "sgd:lr=0.01,momentum=0.9", "--precision", "bf16"),
                 ["data=2:data", "model=2:semi-auto:f=model", "space=2:semi-auto:h=space"], steps=2)


@case
def every_transport_adds_alike(c):
    """Threads, processes by TCP, and MPI, with all-reduces, and with the reduce-scatters of a sharded optimizer."""
    options = ("--dim", "batch=16", "--optimizer", "adamw:lr=0.001", "--clip-norm", "1")
    one = c.train(c.compile("mlp_train", "1", "data", *options), "--threads", 1, steps=6)
    for mesh, mode in (("data=4", "data"), ("data=4", "auto"), ("data=2,model=2", "auto"), ("data=3", "data")):
        for precision in ((), ("--precision", "bf16")):
            plan = c.compile("mlp_train", mesh, mode, *options, *precision)
            runs = {"threads": c.train(plan, steps=6), "TCP": c.train(plan, "--processes", steps=6)}
            if shutil.which("mpirun"):
                runs["MPI"] = c.train(plan, steps=6, launcher=("mpirun", "--oversubscribe", "-n", 3 if mesh == "data=3" else 4))
            for name, run in runs.items():
                found = differences(run, runs["threads"] if precision else one)
                assert not found, f"{mesh} {mode} {precision} by {name}: {found}"


@case
def pipelines_train_alike(c):
    check_meshes(c, "mlp_train", ("--dim", "batch=16", "--optimizer", "adamw:lr=0.001", "--accumulate", "4"),
                 ["stage=2:data", "stage=3:data", ("stage=2,data=2:auto", "--pipeline", "schedule=zb-h1")])


@case
def training_goes_on_elsewhere(c):
    options = ("--dim", "batch=16", "--optimizer", "adamw:lr=0.001")
    plans = [c.compile("mlp_train", *mesh, *options) for mesh in (("1", "data"), ("data=4", "data"), ("data=2,model=2", "auto"))]
    whole = c.train(plans[0], "--threads", 1, steps=12)
    first = c.last
    c.train(plans[1], steps=4)
    c.train(plans[2], "--resume", c.last, steps=8)
    losses, tensors = c.train(plans[0], "--resume", c.last, steps=12)
    assert losses == whole[0][8:] and tensors == whole[1], (losses, whole[0])
    text = c.run(c.bin / "tessera-ckpt", "compare", first, c.last)
    assert "identical" in text, text


@case
def any_number_of_ranks_trains_alike(c):
    """Numbers that do not divide the leaves: no sum is cut by them, whatever else is. Blocks of 16 samples end in padding."""
    options = ("--optimizer", "adamw:lr=0.001", "--clip-norm", "1")
    for model, batch in (("mlp_train", 16), ("lenet_train", 12)):
        check_meshes(c, model, ("--dim", f"batch={batch}", *options),
                     ["data=3:data", "data=5:data", "3:auto", "6:auto", "data=2,model=3:auto", "data=3,model=2:data"])
    check_meshes(c, "resnet18_cifar_train", ("--dim", "batch=6", "--optimizer", "sgd:lr=0.01"), ["data=3:data", "3:auto"], steps=2)
    text = c.run(c.bin / "tessera-compile", c.models / "mlp_train.onnx", "--mesh", "data=3,model=2", "--train", "--reproducible=4",
                 "--dim", "batch=16", "-o", c.folder / "three")
    assert "every sum in at most 4 leaves, added as one tree; none is cut by data=3\n" in text, text


@case
def verification_is_to_the_bit(c):
    options = ("--dim", "batch=16", "--optimizer", "adamw:lr=0.001", "--clip-norm", "1")
    for mesh, mode, run, more in (("data=4", "data", (), ()), ("data=2,model=2", "auto", (), ("--precision", "bf16")),
                                  ("3", "auto", ("--backend", "reference", "--f64"), ())):
        plan = c.compile("lenet_train", mesh, mode, *options, *more)
        text = c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", 2, "--verify", *run)
        assert "verified: the plan computes what the unpartitioned program does, to the bit" in text, text


@case
def devices_train_alike(c):
    """Emulated ones, in every precision, with graphs and without, and through the host."""
    (c.folder / "cut.json").write_text(json.dumps(COLUMNS_THEN_ROWS))
    meshes = ["data=4:data", "data=8:auto", ("data=2,model=2:semi-auto", "--strategy", c.folder / "cut.json")]
    options = ("--dim", "batch=16", "--optimizer", "adamw:lr=0.001", "--clip-norm", "0.5")
    for precision, run in (((), ()), (("--precision", "bf16"), ("--no-graphs",)), ((), ("--f64",))):
        check_meshes(c, "mlp_train", (*options, *precision), meshes, steps=3, run=(*ON_DEVICE, *run))
    check_meshes(c, "mlp_train", (*options, "--accumulate", "4"), ["stage=2,data=2:data"], steps=2, run=ON_DEVICE)
    check_meshes(c, "lenet_train", options, ["data=4:data"], steps=2, run=ON_DEVICE)
    plan = c.compile("mlp_train", "data=4", "data", *options)
    assert not differences(c.train(plan, *ON_DEVICE, steps=2), c.train(plan, *ON_DEVICE, "--share-devices", steps=2))
    text = c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", 2, "--verify", *ON_DEVICE)
    assert "verified: the plan computes what the unpartitioned program does" in text and "to the bit" not in text, text


@case
def without_leaves_the_mesh_shows(c):
    """The tests above can fail."""
    runs = [c.train(c.compile("mlp_train", mesh, "data", "--dim", "batch=16", "--optimizer", "sgd:lr=0.05", leaves=0), "--threads",
                    1, steps=20) for mesh in ("1", "data=4")]
    assert differences(*runs)


@case
def what_cannot_be_equal_is_refused(c):
    def refused(mesh, mode, *options, leaves, says, code, model="mlp_train"):
        text = c.compile(model, mesh, mode, "--dim", "batch=16", *options, leaves=leaves, code=code)
        assert says in text, text

    for leaves in ("3", "0", "-8", "2048", "x"):
        refused("data=2", "data", leaves=leaves, code=2, says=f"--reproducible: '{leaves}' is not a power of two from 1 to 1024")
    refused("data=2", "data", "--gradient-reduction", "sum", leaves=8, code=2, says="--reproducible: a sum of gradients depends on")

    def cut(*shards, op="/fc2/Gemm"):
        (c.folder / "cut.json").write_text(json.dumps([{"op": op, "in": shards}]))
        return "--strategy", c.folder / "cut.json"

    refused("a=2,b=2", "semi-auto", *cut([None, ["b", "a"]], [None, ["b", "a"]]), leaves=8, code=1,
            says="cannot be cut by 'b' before 'a'")
    refused("a=2,b=2", "semi-auto", *cut([None, ["a", "b"]], [None, ["a", "b"]]), leaves=2, code=1,
            says="operator '/fc2/Gemm': dimension 1 of input 0, whose extent is 256, cannot be split in 4; it is summed over in 2 leaves")
    # Convolutions: few output channels, more than two blocks of them, and channels that are summed.
    image = [None] * 4
    for op, at, what in (("/conv1/Conv", 1, "dimension 0 of input 1, whose extent is 6, cannot be split in 2; it stays whole"),
                         ("/conv2/Conv", 1, "dimension 0 of input 1, whose extent is 16, cannot be split in 2; blocks of 16 of it stay"),
                         ("/conv2/Conv", 0, "dimension 1 of input 0, whose extent is 6, cannot be split in 2; it stays whole")):
        shards = [image, ["a", None, None, None]] if at else [[None, "a", None, None], image]
        refused("a=2", "semi-auto", *cut(*shards, op=op), leaves=8, code=1, model="lenet_train", says=f"operator '{op}': {what}")


@case
def plans_and_checkpoints_say_so(c):
    plan = c.compile("mlp_train", "data=2", "data", "--dim", "batch=16", "--optimizer", "sgd:lr=0.1", leaves=4)
    text = c.run(c.bin / "tessera-dump", plan)
    assert "reproducible: every sum in at most 4 leaves" in text, text
    c.train(plan, steps=2)
    assert json.loads((c.last / "manifest.json").read_text())["leaves"] == 4
    other = c.compile("mlp_train", "data=2", "data", "--dim", "batch=16", "--optimizer", "sgd:lr=0.1", leaves=0)
    assert "leaves" not in c.run(c.bin / "tessera-dump", other)
    text = c.run(c.bin / "tessera-run", other, "--data", "synthetic", "--steps", 3, "--resume", c.last)
    assert "a run with --reproducible 4, this one has off" in text, text
    c.train(other, steps=2)
    assert "leaves" not in json.loads((c.last / "manifest.json").read_text())


if __name__ == "__main__":
    main(__doc__, Context)
