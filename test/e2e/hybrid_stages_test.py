#!/usr/bin/env python3
"""Mode hybrid on a mesh with stages: Send and Recv in the model file say where they meet, and the results have the bits
of the same network without them.

usage: hybrid_stages_test.py --bin DIR --models DIR [CASE...]
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import TensorProto, helper

from cases import Programs, case, main
from tensors import whole_tensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from stages import mark_stages

STEPS = 3


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def report(plan):
    return json.loads((plan / "report.json").read_text())


def border_at(*patterns):
    """Stage i + 1 begins at the first node whose name has patterns[i]."""
    def stage_of(node, before):
        return max([before] + [i + 1 for i, pattern in enumerate(patterns) if re.search(pattern, node.name)])
    return stage_of


class Context(Programs):
    def compile(self, model, mesh, *options, rows=8, parts=4, train=True, seed=1, code=0):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        path = model if "/" in str(model) else self.models / f"{model}.onnx"
        sizes = ("--dim", f"batch={rows}") if rows else ()
        how = ("--train", "--accumulate", parts) if train else ()
        self.told = self.run(self.bin / "tessera-compile", path, "--mode", "hybrid", "--mesh", mesh, *sizes, "--seed", seed,
                             *how, *options, "-o", plan, code=code)
        return self.told if code else plan

    def train(self, plan, data, *options, steps=STEPS, folder="checkpoints"):
        """Losses, and all tensors of a checkpoint."""
        log, folder = plan / f"{folder}.jsonl", plan / folder
        self.run(self.bin / "tessera-run", plan, "--data", data, "--steps", steps, "--log", log, "--checkpoint-dir", folder,
                 "--backend", "reference", *options)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        losses = [{key: line[key] for key in ("loss", "learning_rate", "gradient_norm") if key in line} for line in lines]
        return losses, whole_tensors(folder / f"step-{steps:08}")

    def same(self, alone, staged, mesh, schedules, data, *options, more=(), rows=8, parts=4):
        """The network with borders, on stages of this mesh, trains as the one without them on one such mesh. `more`:
        options of the plan with stages alone."""
        stages, rest = mesh
        one = self.train(self.compile(alone, rest, *options, rows=rows, parts=parts), data)
        expect(one[0][0]["loss"] != one[0][-1]["loss"], f"nothing was learned: {one[0]}")
        for schedule in schedules:
            how = ("--pipeline", f"schedule={schedule}") if schedule else ()
            both = f"stage={stages}" + (f",{rest}" if rest != "data=1" else ",data=1")
            losses, tensors = self.train(self.compile(staged, both, *options, *more, *how, rows=rows, parts=parts), data)
            what = f"{staged} {both} {options} {more} {schedule}"
            expect(losses == one[0], f"{what}: losses {losses}, alone {one[0]}")
            expect(sorted(tensors) == sorted(one[1]), f"{what}: {sorted(tensors)}")
            for name, tensor in tensors.items():
                expect(np.array_equal(tensor, one[1][name], equal_nan=True), f"{what}: '{name}' differs")

    def images(self, *shape, rows=16):
        rng = np.random.default_rng(5)
        np.save(self.folder / "x.npy", rng.standard_normal((rows, *shape)).astype(np.float32))
        np.save(self.folder / "y.npy", rng.integers(0, 10, rows))
        return f"npy:{self.folder}/x.npy,{self.folder}/y.npy"

    def marked(self, model, *patterns, relay=False):
        self.count += 1
        path = model if "/" in str(model) else self.models / f"{model}.onnx"
        return mark_stages(path, self.folder / f"marked{self.count}.onnx", border_at(*patterns), relay)


ADAM = ("--optimizer", "adam:lr=0.01", "--clip-norm", "0.1", "--schedule", "cosine:steps=9,warmup=2")


@case
def two_stages_train_to_the_same_bits(c):
    data, staged = c.images(1, 28, 28), c.marked("mlp_train", "/fc2/")
    schedules = ("gpipe", "1f1b", "zb-h1", "auto")
    c.same("mlp_train", staged, (2, "data=1"), schedules, data)
    c.same("mlp_train", staged, (2, "data=2"), schedules, data, *ADAM)
    c.same("mlp_train", staged, (2, "data=2"), ("",), data, "--gradient-reduction", "sum")
    c.same("mlp_train", staged, (2, "data=2"), ("",), data, parts=1)
    c.compile(staged, "stage=2,data=2")
    expect(re.findall(r"^ +stage \d+ from (\S+):", c.told, re.M) == ["/fc1/Gemm", "/fc2/Gemm"], c.told)



@case
def collectives_within_stages(c):
    """Two layers that are cut in columns and rows over an axis of their stage, and a border between them."""
    options = ("--hybrid-options", c.models / "mlp_hybrid.json", *ADAM)
    for pattern in ("/fc2/Add", "/fc2/MatMul"):
        c.same("mlp_hybrid", c.marked("mlp_hybrid", pattern), (2, "data=2,model=2"), ("1f1b", "auto"), c.images(1, 28, 28), *options)


def skipping(c):
    """Four layers; the last adds what the first makes."""
    floats = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    gemm = lambda x, y, layer: helper.make_node("Gemm", [x, f"{layer}.weight", f"{layer}.bias"], [y], layer, transB=1)
    nodes = [gemm("x", "a", "fc1"), helper.make_node("Relu", ["a"], ["h"], "fc1/relu"), gemm("h", "b", "fc2"),
             helper.make_node("Tanh", ["b"], ["i"], "fc2/tanh"), gemm("i", "d", "fc3"), helper.make_node("Tanh", ["d"], ["j"], "fc3/tanh"),
             helper.make_node("Add", ["j", "h"], ["k"], "sum"), gemm("k", "y", "fc4")]
    weights = [floats(f"fc{i}.{w}", *shape) for i, rows in ((1, 12), (2, 12), (3, 12), (4, 10))
               for w, shape in (("weight", (rows, 12)), ("bias", (rows,)))]
    graph = helper.make_graph(nodes, "g", [floats("x", "batch", 12), *weights], [floats("y", "batch", 10)])
    path = c.folder / "skip.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    return path


@case
def shortcuts_over_several_stages(c):
    network, data = skipping(c), c.images(12)
    for relay in False, True:
        three = c.marked(network, "fc2$", "fc3$", relay=relay)
        marked = onnx.load(str(three)).graph.node
        pairs = {(r.attribute[0].i, s.attribute[0].i) for s, r in zip(marked, marked[1:]) if s.op_type == "Send"}
        expect(pairs == {(0, 1), (1, 2)} | (set() if relay else {(0, 2)}), pairs)
        c.same(network, three, (3, "data=1"), ("gpipe", "1f1b"), data)
        c.same(network, three, (3, "data=2"), ("auto",), data, *ADAM)
    # A border may lie between a sum and what it adds.
    c.same(network, c.marked(network, "sum"), (2, "data=2"), ("",), data)


@case
def several_stages_on_a_rank(c):
    network, data = skipping(c), c.images(12)
    four = c.marked(network, "fc2$", "fc3$", "fc4$")
    c.same(network, four, (2, "data=2"), ("interleaved:2", "zb-v"), data)
    said = c.compile(four, "stage=2,data=1", code=1)
    expect("there is no stage 2; the 2 stages are 0 to 1" in said, said)


@case
def states_and_masks(c):
    """Normalisation with statistics of a rank's own batch; dropout draws what it draws without stages."""
    c.same("resnet18_cifar_train", c.marked("resnet18_cifar_train", "/layer2/", "/layer4/"), (3, "data=2"), ("",),
           c.images(3, 32, 32, rows=4), "--optimizer", "sgd:lr=0.01,momentum=0.9", rows=2, parts=2)
    network = onnx.load(str(skipping(c)))
    network.graph.initializer.extend([onnx.numpy_helper.from_array(np.array(0.5, np.float32), "ratio"),
                                      onnx.numpy_helper.from_array(np.array(True), "on")])
    for i, node in enumerate(network.graph.node):
        if node.name == "fc2/tanh":
            node.output[0] = "dropped"
            network.graph.node.insert(i + 1, helper.make_node("Dropout", ["dropped", "ratio", "on"], ["i"], "drop"))
            break
    onnx.save(network, str(c.folder / "drop.onnx"))
    for pattern in "drop", "fc3$":
        c.same(c.folder / "drop.onnx", c.marked(c.folder / "drop.onnx", pattern), (2, "data=2"), ("1f1b",), c.images(12))


@case
def tied_table(c):
    """A small BERT, whose table of words is read at both ends: it belongs to the first stage, the last one gets it."""
    model, length, words, batch, parts = c.folder / "bert.onnx", 6, 32, 2, 4
    subprocess.run([sys.executable, c.models / "networks.py", "bert", "-o", model, "layers=2", "hidden=8", "heads=2",
                    f"words={words}", f"batch={batch}", f"length={length}"], check=True)
    rng = np.random.default_rng(7)
    for name, most in (("ids", words), ("segments", 2), ("y", words)):
        np.save(c.folder / f"{name}.npy", rng.integers(0, most, (batch * parts * 2, length)))
    data = f"npy:{c.folder}/ids.npy,{c.folder}/segments.npy,{c.folder}/y.npy"
    staged = c.marked(model, r"^l1\.qkv$")
    for options in (), ("--precision", "bf16"):
        c.same(model, staged, (2, "data=2"), ("", "gpipe"), data, "--inputs", "ids,segments", "--optimizer", "adam:lr=0.01", *options,
               rows=0)
    c.same(model, staged, (2, "data=2"), ("1f1b",), data, "--inputs", "ids,segments",
           more=("--overlap", "on", "--recompute", "full", "--broadcast-parameters"), rows=0)


@case
def computed_again_and_in_float16(c):
    data, staged = c.images(1, 28, 28), c.marked("mlp_train", "/fc2/")
    for options in (("--recompute", "cheap"), ("--recompute", "full"), ("--precision", "f16"), ("--no-fuse",)):
        c.same("mlp_train", staged, (2, "data=2"), ("1f1b",), data, *options)


@case
def computed_again_until_it_fits(c):
    """The memory has room for what the stages keep without recomputation, but a byte; then for what they keep with all of it."""
    network, data, sizes = skipping(c), c.images(12, rows=128), {"rows": 64, "parts": 2}
    staged = c.marked(network, "fc3$")
    needed = lambda again: report(c.compile(staged, "stage=2,data=2", "--recompute", again, **sizes))["memory"]["arena_bytes"]
    least, most = needed("full"), needed("none")
    expect(least < most, (least, most))
    for limit in most - 1, least:
        more = ("--recompute", "auto", "--memory", limit)
        chosen = report(c.compile(staged, "stage=2,data=2", *more, **sizes))
        expect(chosen["recompute"] != "none" and chosen["memory"]["arena_bytes"] <= limit, (limit, chosen["recompute"], chosen["memory"]))
        c.same(network, staged, (2, "data=2"), ("", "1f1b"), data, more=more, **sizes)
    said = c.compile(staged, "stage=2,data=2", "--recompute", "auto", "--memory", least // 2, code=1, **sizes)
    expect("the plan needs" in said and said.count("error") == 1, said)


@case
def collectives_beside_kernels(c):
    layers = ("--hybrid-options", c.models / "mlp_hybrid.json")
    for model, pattern, mesh, options in (("mlp_train", "/fc2/", "data=2", ADAM), ("mlp_hybrid", "/fc2/Add", "data=2,model=2", layers)):
        staged, data = c.marked(model, pattern), c.images(1, 28, 28)
        c.same(model, staged, (2, mesh), ("gpipe", "1f1b", "auto"), data, *options, more=("--overlap", "on"))
        told = c.run(c.bin / "tessera-run", c.compile(staged, f"stage=2,{mesh}", *options, "--overlap", "on"), "--data", data,
                     "--steps", "1")
        expect(re.search(r"program train: .* [1-9]\d* beside kernels", told), told)


@case
def parameters_are_broadcast_within_stages(c):
    """Every other rank of a stage reads other weights, which the first one's replace before the first step."""
    data, staged, options = c.images(1, 28, 28), c.marked("mlp_train", "/fc2/"), ("--optimizer", "adam:lr=0.01")
    broadcast = (*options, "--broadcast-parameters")
    c.same("mlp_train", staged, (2, "data=2"), ("gpipe", "auto"), data, *options, more=["--broadcast-parameters"])
    if not shutil.which("mpirun"):
        return print("skipped: no mpirun")
    losses, _ = c.train(c.compile("mlp_train", "data=2", *options), data)
    plan, other = (c.compile(staged, "stage=2,data=2", *broadcast, seed=seed) for seed in (1, 9))
    log = plan / "mpi.jsonl"
    rank = ["-n", "1", c.bin / "tessera-run", plan, "--data", data, "--steps", STEPS, "--backend", "reference", "--log", log]
    others = [*rank, "--weights", other / "weights.safetensors"]
    c.run("mpirun", "--oversubscribe", *rank, ":", *others, ":", *rank, ":", *others)
    found = [json.loads(line)["loss"] for line in log.read_text().splitlines() if "loss" in line]
    expect(found == [line["loss"] for line in losses], (found, losses))


@case
def evaluates_and_infers(c):
    c.images(1, 28, 28)
    for model, patterns in (("mlp_train", ["/fc2/"]), (skipping(c), ["fc2$", "fc3$"])):
        size = (1, 28, 28) if model == "mlp_train" else (12,)
        data, staged, stages = c.images(*size), c.marked(model, *patterns), len(patterns) + 1
        outputs, accuracies = [], []
        for path, mesh in ((model, "data=2"), (staged, f"stage={stages},data=2")):
            plan = c.compile(path, mesh, train=False)
            c.run(c.bin / "tessera-run", plan, "--data", data.split(",")[0], "--infer", "--output", plan / "out", "--backend", "reference")
            outputs.append(np.load(next((plan / "out").glob("*.npy"))))
            told = c.run(c.bin / "tessera-run", c.compile(path, mesh), "--data", data, "--eval", "--backend", "reference")
            accuracies.append(re.findall(r"(?:loss|accuracy) +[\d.]+", told))
        expect(np.array_equal(*outputs), outputs)
        expect(accuracies[0] and accuracies[0] == accuracies[1], accuracies)


@case
def checkpoints_fit_any_stages(c):
    data, staged = c.images(1, 28, 28), c.marked("mlp_train", "/fc2/")
    one, two = c.compile("mlp_train", "data=2", *ADAM), c.compile(staged, "stage=2,data=2", *ADAM)
    whole, tensors = c.train(one, data, steps=6, folder="whole")
    for i, (first, second) in enumerate(((one, two), (two, one), (two, two))):
        c.train(first, data, folder=f"half{i}")
        losses, ends = c.train(second, data, "--resume", first / f"half{i}", steps=6, folder=f"rest{i}")
        expect(losses == whole[STEPS:], (losses, whole))
        for name, tensor in ends.items():
            expect(np.array_equal(tensor, tensors[name]), name)


@case
def shows_what_runs_when(c):
    plan = c.compile(c.marked("mlp_train", "/fc2/"), "stage=2,data=2", "--pipeline", "schedule=1f1b")
    for told in ("mesh         stage=2,data=2, 4 ranks, mode hybrid", "pipeline     2 stages, 4 micro-batches, schedule 1f1b"):
        expect(told in c.told, c.told)
    text = c.run(c.bin / "tessera-dump", plan, "--schedule")
    expect("2 stages, 4 micro-batches, schedule 1f1b" in text and "1F0 1I0 1W0 1F1" in text, text)
    stages = report(plan)["pipeline"]["stages"]
    expect([stage["first"] for stage in stages] == ["/fc1/Gemm", "/fc2/Gemm"], stages)


@case
def errors_name_what_is_wrong(c):
    staged = c.marked("mlp_train", "/fc2/")
    said = c.compile("mlp_train", "stage=2,data=2", code=1)
    expect("the mesh has 2 stages, but nothing in the model file says where they meet" in said and said.count("error") == 1, said)
    said = c.compile(staged, "data=2", code=1)
    expect("Send '/Relu_output_0/send1': the mesh has no stages" in said and said.count("error") == 1, said)
    said = c.compile(staged, "stage=2,data=2", "--memory", "100KiB", code=1)
    expect("the limit is 100.00 KiB" in said and said.count("error") == 1, said)
    said = c.compile(staged, "stage=2,data=2", "--pipeline", "schedule=gpipe", "--memory", "1MiB", code=1)
    expect("--pipeline schedule=1f1b (stage 0 holds 4 micro-batches at once)" in said, said)
    said = c.compile(staged, "stages=[data=2; data=1]", code=2)
    expect("mode hybrid" in said, said)


if __name__ == "__main__":
    main(__doc__, Context)
