#!/usr/bin/env python3
"""The search finds by itself what experts do by hand: placements and communicated bytes.

usage: experts_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases

Every case writes a small network as ONNX, lets `tessera-compile --mode auto` choose, and reads what was chosen from the
plan's report. The machine is a row of four devices with slow links beside fast arithmetic and faster memory, and hardly
any latency: bytes decide, not the number of messages nor the work between matrices. (Where that work counts, the
search holds activations in parts between the matrices, as in sequence parallelism, and bytes are no measure any more.)
Where an expert would all-reduce, the search may reduce-scatter, work on the parts and gather: the same bytes, less
work. So bytes are compared, not names.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from cases import case, main

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from networks import Network  # noqa: E402

ROW = {"name": "row", "devices": 4, "flops": {"f32": 1e12}, "memory_bandwidth": 1e14, "memory": "16GiB",
       "links": [{"devices": 4, "latency": 1e-10, "bandwidth": 1e11}]}


class Chosen:
    """What the search chose for the training step."""

    def __init__(self, report):
        self.report = report
        self.train = next(f for f in report["functions"] if f["name"] == "train")
        self.operators = {}
        for op in self.train["operators"]:
            self.operators.setdefault(op["name"], op)
        self.collectives = [dict(c, op=op["name"]) for op in self.train["operators"] for c in op["collectives"]]
        self.collectives += [dict(c, op="(result)") for c in self.train["boundary"]]
        self.collectives = [c for c in self.collectives if c["kind"] != "slice"]

    def operand(self, name, number):
        return self.operators[name]["operands"][number]

    def sent(self, axes=None):
        return sum(c["bytes_sent"] for c in self.collectives if axes is None or c["axes"] == axes)

    def kinds(self, small=0):
        """Collectives of more than so many bytes sent, by kind."""
        count = {}
        for c in self.collectives:
            if c["bytes_sent"] > small:
                count[c["kind"]] = count.get(c["kind"], 0) + 1
        return count

    def text(self):
        lines = [f"  {c['op']:30} {c['kind']:15} {c['axes']:12} {c['where']:30} {c['bytes_sent']:.0f} B"
                 for c in self.collectives]
        return "\n".join(lines + [f"  {o['name']:30} {o['kind']:12} {o['strategy']}" for o in self.train["operators"]])


class Context:
    def __init__(self, args, folder):
        self.bin, self.models, self.folder = args.bin, args.models, folder

    def compile(self, model, *options, inputs, mesh="x=4", loss="mse", optimizer="adam:lr=0.001", topology=ROW):
        machine = self.folder / "machine.json"
        machine.write_text(json.dumps(topology))
        command = [self.bin / "tessera-compile", model, "--mesh", mesh, "--mode", "auto", "--train", "--loss", loss,
                   "--optimizer", optimizer, "--topology", machine, "--inputs", inputs, "--search-gap", "0", "-q", "-o", self.folder / "plan",
                   *options]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise AssertionError(done.stderr)
        return Chosen(json.loads((self.folder / "plan/report.json").read_text()))


def expect(condition, message, chosen):
    if not condition:
        raise AssertionError(message + "\n" + chosen.text())


def all_reduce_bytes(elements, ranks):
    return 2 * (ranks - 1) / ranks * elements * 4


def dense_layers(c, batch, width, options=(), **machine):
    net = Network()
    x = net.input("x", [batch, width])
    for i in range(6):
        x = net.dense(x, f"fc{i}", width, width)
        if i < 5:
            x = net.node("Relu", x)
    net.write(c.folder / "dense.onnx", x, [batch, width])
    return c.compile(c.folder / "dense.onnx", *options, inputs="x", **machine)


@case
def wide_batch_is_data_parallel(c):
    chosen = dense_layers(c, batch=256, width=32)
    for i in range(6):
        expect(chosen.operand(f"fc{i}", 0) == "[x, -]", f"fc{i} must cut the batch", chosen)
        expect(chosen.operand(f"fc{i}", 1) == "[-, -]", f"fc{i} must see its whole weight", chosen)
    gradients = 6 * all_reduce_bytes(32 * 32 + 32, 4)
    # The loss is one more number.
    expect(chosen.sent() <= gradients + all_reduce_bytes(1, 4), "nothing but gradients is reduced", chosen)


@case
def wide_layers_are_cut_by_columns_and_rows(c):
    """An expert alternates columns and rows. As many bytes go where a layer's columns read what is gathered once for the
    layer and for its weight's gradient, so any mixture is as good."""
    chosen = dense_layers(c, batch=32, width=256)
    for i in range(6):
        expect(chosen.operand(f"fc{i}", 1) in ("[-, x]", "[x, -]"), f"fc{i}'s weight must be cut", chosen)
    activation = all_reduce_bytes(32 * 256, 4)
    # Besides five activations: the loss, and where it pays to hold a row layer's output in parts, its bias' gradient.
    expect(chosen.sent() <= 5 * activation + 3 * all_reduce_bytes(256, 4) + all_reduce_bytes(1, 4),
           f"five all-reduces of one activation ({5 * activation:.0f} B), not {chosen.sent():.0f} B", chosen)


@case
def weights_go_over_the_fast_axis(c):
    machine = dict(ROW, axes={"slow": {"latency": 1e-10, "bandwidth": 1e10}, "fast": {"latency": 1e-10, "bandwidth": 1e11}})
    chosen = dense_layers(c, batch=192, width=128, mesh="slow=2,fast=2", topology=machine)
    for i in range(6):
        expect("fast" in chosen.operand(f"fc{i}", 1), f"fc{i}: the weight over the fast axis", chosen)
    # Over the slow axis the gradients of the halves of the weights, over the fast one five activations of half the
    # batch; beside them biases and the loss.
    small = 6 * all_reduce_bytes(128, 2) + all_reduce_bytes(1, 4)
    gradients, activations = 6 * all_reduce_bytes(128 * 128 / 2, 2), 5 * all_reduce_bytes(192 / 2 * 128, 2)
    expect(chosen.sent("slow") <= gradients + small, f"{gradients:.0f} B over the slow axis, not {chosen.sent('slow'):.0f}", chosen)
    expect(chosen.sent() <= gradients + activations + 2 * small, f"{gradients + activations:.0f} B in all, not {chosen.sent():.0f}", chosen)


@case
def bert_layers_are_cut_as_in_megatron(c):
    layers, hidden, batch, length = 2, 128, 8, 8
    net = Network()
    x = net.input("x", [batch, length, hidden])
    for i in range(layers):
        x = net.normalised(net.node("Add", x, net.attention(x, f"l{i}", batch, length, hidden, 4)), f"l{i}.n1", hidden)
        h = net.node("Relu", net.linear(x, f"l{i}.up", hidden, 4 * hidden))
        h = net.linear(h, f"l{i}.down", 4 * hidden, hidden)
        x = net.normalised(net.node("Add", x, h), f"l{i}.n2", hidden)
    net.write(c.folder / "bert.onnx", x, [batch, length, hidden])
    chosen = c.compile(c.folder / "bert.onnx", inputs="x")
    for i in range(layers):
        for name, want in (("qkv", "[-, x]"), ("out", "[x, -]"), ("up", "[-, x]"), ("down", "[x, -]")):
            expect(chosen.operand(f"l{i}.{name}", 1) == want, f"l{i}.{name} must be cut as {want}", chosen)
    activation = all_reduce_bytes(batch * length * hidden, 4)
    # Where rows are held in parts between the matrices, the parts' scales and biases have gradients to be summed.
    small = layers * 6 * all_reduce_bytes(hidden, 4) + all_reduce_bytes(1, 4)
    expect(chosen.sent() <= (4 * layers - 1) * activation + small,
           f"{4 * layers - 1} activations ({(4 * layers - 1) * activation:.0f} B), not {chosen.sent():.0f} B", chosen)


def convolutions(c, batch, channels):
    net = Network()
    x = net.input("x", [batch, channels, 16, 16])
    for i in range(3):
        x = net.node("Conv", x, net.input(f"conv{i}.w", [channels, channels, 3, 3]), name=f"conv{i}", pads=[1, 1, 1, 1])
        parameters = [net.input(f"bn{i}.{p}", [channels]) for p in ("s", "b", "m", "v")]
        net.nodes.append(helper.make_node("BatchNormalization", [x, *parameters], [f"bn{i}:y", f"bn{i}:m", f"bn{i}:v"],
                                          name=f"bn{i}", training_mode=1))
        x = net.node("MaxPool", net.node("Relu", f"bn{i}:y"), kernel_shape=[2, 2], strides=[2, 2])
    net.write(c.folder / "conv.onnx", x, [batch, channels, 2, 2])
    return c.compile(c.folder / "conv.onnx", inputs="x")


@case
def few_channels_are_data_parallel(c):
    chosen = convolutions(c, batch=16, channels=4)
    for i in range(3):
        expect(chosen.operand(f"conv{i}", 0) == "[x, -, -, -]", f"conv{i} must cut the batch", chosen)
        statistics = [s for s in chosen.collectives if s["op"].startswith(f"bn{i}") and "grad" not in s["op"]]
        expect(len(statistics) == 2, f"two statistics of bn{i} are reduced, not {len(statistics)}", chosen)
    # The weights' gradients, a few numbers per channel and block (statistics, their gradients, scale, bias), the loss.
    most = 3 * (all_reduce_bytes(4 * 4 * 3 * 3, 4) + 6 * all_reduce_bytes(4, 4)) + all_reduce_bytes(1, 4)
    expect(chosen.sent() <= most, f"gradients and statistics ({most:.0f} B) and nothing else, not {chosen.sent():.0f} B", chosen)


@case
def many_channels_are_model_parallel(c):
    chosen = convolutions(c, batch=8, channels=256)
    large = [s for s in chosen.collectives if s["bytes_sent"] > 8 * 256 * 4]
    expect(all(chosen.operand(f"conv{i}", 1) in ("[x, -, -, -]", "[-, x, -, -]") for i in range(3)),
           "every weight is cut", chosen)
    # There are three all-reduces. Each may be a reduce-scatter and a gather.
    halves = sum(2 if s["kind"] == "all-reduce" else 1 for s in large)
    expect(halves <= 6, f"at most three all-reduces of activations, not {halves / 2}", chosen)


@case
def experts_are_split(c):
    """Tokens are sent to experts by a product with a dispatch matrix (one expert a token, fixed room), as in GShard."""
    groups, tokens, hidden, experts, room = 16, 64, 64, 16, 4
    net = Network()
    x = net.input("x", [groups, tokens, hidden])
    x = net.node("Relu", net.node("MatMul", x, net.input("in.w", [hidden, hidden]), name="in"))
    gate = net.node("MatMul", x, net.input("gate.w", [hidden, experts]), name="gate")
    weights = net.node("Softmax", gate, axis=-1)
    mask = net.input("mask", [groups, tokens, experts, room])
    sent = net.node("Einsum", mask, x, equation="gtec,gth->egch", name="dispatch")
    h = net.node("Einsum", sent, net.input("up.w", [experts, hidden, 4 * hidden]), equation="egch,ehf->egcf", name="up")
    h = net.node("Einsum", net.node("Relu", h), net.input("down.w", [experts, 4 * hidden, hidden]),
                 equation="egcf,efh->egch", name="down")
    scaled = net.node("Mul", mask, net.node("Unsqueeze", weights, net.constant([3])))
    y = net.node("Einsum", scaled, h, equation="gtec,egch->gth", name="combine")
    net.write(c.folder / "moe.onnx", y, [groups, tokens, hidden])
    chosen = c.compile(c.folder / "moe.onnx", inputs="x,mask")
    for name in ("up", "down"):
        expect(chosen.operand(name, 1) == "[x, -, -]", f"the experts of '{name}' are split", chosen)
    expect(chosen.kinds(small=1024).get("all-to-all", 0) == 4, "four all-to-alls", chosen)
    for name in ("in", "gate"):
        expect(chosen.operand(name, 0) in ("[x, -]", "[x, -, -]"), f"'{name}': tokens are split", chosen)
    for name in ("dispatch", "combine"):
        expect(chosen.operand(name, 0).startswith("[x, -, -"), f"'{name}': groups are split, neither tokens nor rooms", chosen)
    routed = groups * experts * room * hidden * 4 * 3 / 4 / 4  # of a rank's share, what goes to the three others
    expect(all(s["bytes_sent"] <= 1.01 * routed for s in chosen.collectives if s["kind"] == "all-to-all"),
           f"an all-to-all sends the routed tokens once ({routed:.0f} B)", chosen)
    expect(set(chosen.kinds(small=2 * all_reduce_bytes(hidden * experts, 4))) == {"all-to-all"}, "nothing else is large", chosen)


@case
def a_large_vocabulary_stays_in_parts(c):
    words, hidden, tokens = 50304, 64, 64
    net = Network()
    ids = net.input("ids", [tokens], TensorProto.INT64)
    table = net.input("table", [words, hidden])
    x = net.node("Gather", table, ids, name="embedding")
    x = net.node("Relu", net.dense(x, "fc", hidden, hidden))
    y = net.node("MatMul", x, net.node("Transpose", table, perm=[1, 0]), name="logits")
    net.write(c.folder / "words.onnx", y, [tokens, words])
    chosen = c.compile(c.folder / "words.onnx", inputs="ids", loss="cross_entropy")
    expect(chosen.operand("embedding", 0) == "[x, -]", "the embedding's words are split", chosen)
    expect(chosen.operators["logits"]["results"] == ["[-, x]"], "the logits' words are split", chosen)
    # No collective is larger than a few activations: neither logits nor the table are sent.
    largest = max(s["bytes_sent"] for s in chosen.collectives)
    expect(largest <= all_reduce_bytes(tokens * hidden, 4), f"one collective sends {largest:.0f} B", chosen)


@case
def the_classifier_changes_over_as_it_grows(c):
    """Convolutions stay batch parallel; the classifier's classes are split once its gradient outweighs its activations.

    With f features, b images and k classes on n ranks, a whole classifier all-reduces a gradient of f k numbers, and one
    split by classes gathers b f features and scatters as many gradients, which is what an all-reduce of b f numbers sends:
    it changes over around k = b. (Split by features it would reduce b k numbers: less than either for b < f, k, and
    that is what the search then takes. Hence a batch larger than the features.)
    """
    machine = dict(ROW, devices=8, memory="256GiB", links=[dict(ROW["links"][0], devices=8)])
    batch, split = 4096, []
    for classes in (1024, 2048, 8192):
        model = onnx.load(c.models / "resnet50_cifar_train.onnx")
        fc = next(n for n in model.graph.node if n.op_type == "Gemm")
        for value in model.graph.input:
            if value.name in fc.input[1:]:
                value.type.tensor_type.shape.dim[0].dim_value = classes
        model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = classes
        del model.graph.value_info[:]
        onnx.save(model, c.folder / "resnet.onnx")
        chosen = c.compile(c.folder / "resnet.onnx", "--dim", f"batch={batch}", mesh="x=8", loss="cross_entropy",
                           inputs="image", optimizer="sgd:lr=0.1,momentum=0.9", topology=machine)
        convolutions = [o for o in chosen.train["operators"] if o["kind"] == "conv"]
        expect(len(convolutions) == 53 and all(o["operands"][0].startswith("[x") for o in convolutions),
               f"{classes} classes: every convolution is batch parallel", chosen)
        op = next(o for o in chosen.train["operators"]
                  if o["kind"] == "matmul" and o["global_results"] == [[batch, classes]])
        split.append(op["strategy"] == "n=x")
        expect(split[-1] or op["strategy"] == "m=x", f"{classes} classes: by batch or by class", chosen)
    expect(split == [False, False, True], f"from batch to class split as classes outnumber images: {split}", chosen)


@case
def optimizer_states_are_split_when_memory_is_short(c):
    # A collective has a launch cost here, so one all-reduce is better than a scatter and a gather.
    machine = dict(ROW, flops={"f32": 1e11}, launch=2e-5, links=[dict(ROW["links"][0], bandwidth=1e10)])
    # In line, since what is in flight beside kernels is memory that is given back first.
    line = ("--overlap", "off")
    roomy = dense_layers(c, batch=1024, width=256, topology=machine, options=line)
    whole = roomy.report["memory"]
    expect(whole["state_bytes"] > 6 * 2 * 256 * 256 * 4, "with room enough states are whole", roomy)
    # The limit leaves room for a quarter of the states and for everything else.
    limit = int(1.05 * (whole["arena_bytes"] - 3 * whole["state_bytes"] // 4))
    tight = dense_layers(c, batch=1024, width=256, topology=machine, options=(*line, "--memory", limit))
    memory = tight.report["memory"]
    expect(memory["arena_bytes"] <= limit, f"{memory['arena_bytes']} B fit in {limit} B", tight)
    expect(memory["state_bytes"] <= whole["state_bytes"] // 2, f"states are split: {memory['state_bytes']} B", tight)
    for i in range(6):
        expect(tight.operand(f"fc{i}", 0) == "[x, -]", f"fc{i} still cuts the batch", tight)
    expect("reduce-scatter" in tight.kinds(), "gradients are scattered to the ranks that hold their states", tight)
    expect(tight.train["bytes_sent"] <= 1.6 * roomy.train["bytes_sent"], "for hardly more communication", tight)


if __name__ == "__main__":
    main(__doc__, Context)
