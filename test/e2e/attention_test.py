#!/usr/bin/env python3
"""Attention as one operator trains as its parts do, on every mesh and with every option.

usage: attention_test.py --bin DIR --models DIR [CASE...]
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cases import Programs, case, main

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from networks import Network  # noqa: E402

BATCH, LENGTH, HIDDEN, HEADS, LAYERS, STEPS = 8, 8, 32, 4, 2, 4
PRECISE = ("--f64", "--backend", "reference")


class Context(Programs):
    def network(self, causal=True, dropout=0):
        net = Network()
        x = net.input("x", [BATCH, LENGTH, HIDDEN])
        mask = net.causal(LENGTH) if causal else None
        for i in range(LAYERS):
            y = net.attention(net.normalised(x, f"l{i}.n", HIDDEN), f"l{i}", BATCH, LENGTH, HIDDEN, HEADS, mask, dropout)
            x = net.node("Add", x, y)
        net.write(self.folder / "net.onnx", x, [BATCH, LENGTH, HIDDEN])
        rng = np.random.default_rng(3)
        for name in ("x", "y"):
            np.save(self.folder / f"{name}.npy", rng.standard_normal((BATCH, LENGTH, HIDDEN)).astype(np.float32))

    def compile(self, *options, mesh="1", mode="data", train=True):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        training = ("--train", "--loss", "mse", "--optimizer", "sgd:lr=0.01") if train else ()
        self.run(self.bin / "tessera-compile", self.folder / "net.onnx", "--inputs", "x", "--mesh", mesh, "--mode", mode,
                 "--seed", "1", *training, *options, "-o", plan)
        return plan

    def losses(self, plan, *options):
        log = plan / "log.jsonl"
        self.run(self.bin / "tessera-run", plan, "--data", f"npy:{self.folder}/x.npy,{self.folder}/y.npy", "--steps", STEPS,
                 "--log", log, *options)
        found = np.array([json.loads(line)["loss"] for line in log.read_text().splitlines()])
        assert len(found) == STEPS and np.all(np.isfinite(found)) and found[0] != found[-1], found
        return found


def operators(plan, function="train"):
    report = json.loads((plan / "report.json").read_text())
    return [op for f in report["functions"] if f["name"] == function for op in f["operators"]]


def kinds(plan, function="train"):
    return [op["kind"] for op in operators(plan, function)]


def equal(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=tolerance)


def write_operator(c, weights, groups, causal, mask):
    """x -> projections -> ONNX's own Attention -> projection; y.npy as in network()."""
    c.network(causal=False)
    attributes = {"q_num_heads": HEADS, "kv_num_heads": groups, "is_causal": int(causal)}
    nodes = [helper.make_node("MatMul", ["x", f"w{p}"], [p]) for p in "qkv"]
    nodes.append(helper.make_node("Attention", ["q", "k", "v", *(["mask"] if mask is not None else [])], ["a"], "attn",
                                  **attributes))
    nodes.append(helper.make_node("MatMul", ["a", "wo"], ["out"]))
    values = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    if mask is not None:
        values.append(numpy_helper.from_array(mask, "mask"))
    shape = [BATCH, LENGTH, HIDDEN]
    graph = helper.make_graph(nodes, "attention", [helper.make_tensor_value_info("x", 1, shape)],
                              [helper.make_tensor_value_info("out", 1, shape)], values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=8)
    (c.folder / "net.onnx").write_bytes(model.SerializeToString())


def computed(x, weights, groups, causal, mask):
    """What write_operator's network gives."""
    def heads(name, count):
        return (x @ weights[name]).reshape(BATCH, LENGTH, count, -1).transpose(0, 2, 1, 3)
    q, k, v = heads("wq", HEADS), heads("wk", groups), heads("wv", groups)
    k, v = (np.repeat(t, HEADS // groups, axis=1) for t in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    seen = np.tril(np.ones((LENGTH, LENGTH), bool)) if causal else np.ones((LENGTH, LENGTH), bool)
    seen = np.broadcast_to(seen if mask is None else seen & mask, scores.shape)
    p = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    p = p / np.maximum(p.sum(-1, keepdims=True), 1e-30)
    return (p @ v).transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, HIDDEN) @ weights["wo"]


@case
def the_operator_of_files_is_one_operator(c):
    rng = np.random.default_rng(5)
    mask = rng.random((BATCH, 1, LENGTH, LENGTH)) < 0.6
    mask[1, 0, 2] = mask[3] = False  # rows that see no key
    for groups, causal, seen in ((HEADS, True, None), (2, True, None), (HEADS, False, mask), (2, True, mask)):
        size = HIDDEN // HEADS * groups
        weights = {name: (rng.standard_normal((HIDDEN, columns)) * 0.2).astype(np.float32)
                   for name, columns in (("wq", HIDDEN), ("wk", size), ("wv", size), ("wo", HIDDEN))}
        write_operator(c, weights, groups, causal, seen)
        parts, whole, infer = c.compile("--no-fuse-attention"), c.compile(), c.compile(train=False)
        assert kinds(whole).count("attention") == 1 and "softmax" not in kinds(whole), kinds(whole)
        equal(c.losses(whole, *PRECISE), c.losses(parts, *PRECISE), 1e-9)
        equal(c.losses(whole), c.losses(parts), 1e-4)
        c.run(c.bin / "tessera-run", infer, "--infer", "--output", infer / "out", "--data", f"npy:{c.folder}/x.npy")
        expected = computed(np.load(c.folder / "x.npy"), weights, groups, causal, seen)
        np.testing.assert_allclose(np.load(infer / "out" / "output0.npy"), expected, atol=2e-4)


@case
def trains_as_its_parts(c):
    for causal in (False, True):
        c.network(causal)
        parts, whole = c.compile("--no-fuse-attention"), c.compile()
        assert kinds(whole).count("attention") == kinds(whole).count("attention_grad") == LAYERS, kinds(whole)
        assert "softmax" not in kinds(whole) and kinds(parts).count("softmax") == LAYERS, (kinds(whole), kinds(parts))
        equal(c.losses(whole, *PRECISE), c.losses(parts, *PRECISE), 1e-10)
        equal(c.losses(whole), c.losses(parts), 1e-5)
        if not causal:
            continue
        arena = [json.loads((plan / "report.json").read_text())["memory"]["arena_bytes"] for plan in (whole, parts)]
        assert arena[0] < arena[1], arena


def masked(net, scores, form, length):
    """The scores with a causal mask in one of the forms that exporters write."""
    def number(value):
        return net.constant(value, np.float32)
    lower = np.tril(np.ones((1, 1, length, length), np.float32))
    if form == "triangle":
        return net.node("Where", net.constant(lower, np.bool_), scores, number(np.finfo(np.float32).min))
    if form == "positions":
        return net.node("Where", net.causal(length), scores, number(-np.inf))
    if form == "trilu":
        ones = net.node("ConstantOfShape", net.constant([length, length]), value=numpy_helper.from_array(np.ones(1, np.float32)))
        unseen = net.node("Equal", net.node("Trilu", ones, upper=0), number(0))
        return net.node("Add", scores, net.node("Where", unseen, number(np.finfo(np.float32).min), number(0)))
    outside = -np.inf if form == "infinite" else -1e9
    return net.node("Add", scores, net.constant(np.where(lower[0, 0] > 0, 0, outside), np.float32))


def store_constants(path):
    """Makes initializers of the constants of a model file, as the old exporter stores what is no parameter."""
    model = onnx.load(path)
    for node in [n for n in model.graph.node if n.op_type == "Constant"]:
        value = model.graph.initializer.add()
        value.CopyFrom(node.attribute[0].t)
        value.name = node.output[0]
        model.graph.node.remove(node)
    onnx.save(model, path)


@case
def causal_masks_of_any_length_and_form_are_seen(c):
    """Above 256 positions a mask has more elements than a constant in a program may have."""
    rng = np.random.default_rng(7)
    for form in ("triangle", "positions", "trilu", "added", "infinite", "stored"):
        for length in (20, 300, 1100):
            net, shape = Network(), [1, 2, length, 4]
            q, k, v = (net.input(name, shape) for name in "qkv")
            scores = net.node("MatMul", q, net.node("Transpose", k, perm=[0, 1, 3, 2]))
            y = net.node("MatMul", net.node("Softmax", masked(net, scores, form, length), axis=-1), v, name="mix")
            net.write(c.folder / "net.onnx", y, shape)
            if form == "stored":
                store_constants(c.folder / "net.onnx")
                listed = c.run(c.bin / "tessera-compile", c.folder / "net.onnx", "--inputs", "q,k,v", "--list-parameters")
                assert "a causal mask" in listed and "trained " not in listed, listed
            values = [rng.standard_normal(shape).astype(np.float32) for _ in "qkv"]
            for name, value in zip("qkv", values):
                np.save(c.folder / f"{name}.npy", value)
            data = "npy:" + ",".join(f"{c.folder}/{name}.npy" for name in "qkv")
            c.count += 1
            plan = c.folder / f"plan{c.count}"
            c.run(c.bin / "tessera-compile", c.folder / "net.onnx", "--inputs", "q,k,v", "-o", plan)
            assert kinds(plan, "infer") == ["attention"], (form, length, kinds(plan, "infer"))
            stored = sum(file.stat().st_size for file in plan.rglob("*") if file.is_file())
            assert stored < 64 << 10, (form, length, stored)  # no mask in it
            c.run(c.bin / "tessera-run", plan, "--infer", "--output", plan / "out", "--data", data)
            q, k, v = values
            s = np.where(np.tril(np.ones((length, length), bool)), q @ k.transpose(0, 1, 3, 2), -np.inf)
            p = np.exp(s - s.max(-1, keepdims=True))
            np.testing.assert_allclose(np.load(plan / "out" / "output0.npy"), p / p.sum(-1, keepdims=True) @ v, atol=2e-5)


@case
def trains_on_meshes(c):
    c.network()
    one = c.compile()
    precise, single = c.losses(one, *PRECISE), c.losses(one)
    for mesh, mode in (("data=4", "data"), ("data=2,model=2", "auto"), ("model=4", "auto")):
        plan = c.compile(mesh=mesh, mode=mode)
        assert "attention" in kinds(plan), kinds(plan)
        equal(c.losses(plan, *PRECISE), precise, 1e-10)
        equal(c.losses(plan), single, 1e-5)


@case
def users_strategies_speak_of_the_products(c):
    c.network()
    expected = c.losses(c.compile(), *PRECISE)
    strategy = c.folder / "strategy.json"
    strategy.write_text(json.dumps([{"op": "l0.scores", "in": [[1, 2, 1, 1], [1, 2, 1, 1]]}]))
    plan = c.compile("--strategy", strategy, mesh="x=2", mode="semi-auto")
    assert kinds(plan).count("attention") == LAYERS - 1 and kinds(plan).count("softmax") == 1, kinds(plan)
    equal(c.losses(plan, *PRECISE), expected, 1e-10)


@case
def dropout_draws_the_numbers_of_its_parts(c):
    c.network()
    without = c.losses(c.compile(), *PRECISE)
    for causal in (False, True):
        c.network(causal, dropout=0.25)
        parts, whole = c.compile("--no-fuse-attention"), c.compile()
        assert kinds(whole).count("attention") == kinds(whole).count("attention_grad") == LAYERS, kinds(whole)
        assert "softmax" not in kinds(whole) and "softmax" in kinds(parts), (kinds(whole), kinds(parts))
        assert "random" not in " ".join(op["name"] for op in operators(whole, "infer")), operators(whole, "infer")
        expected, single = c.losses(parts, *PRECISE), c.losses(parts)
        assert np.abs(expected - without).max() > 1e-4, (expected, without)
        equal(c.losses(whole, *PRECISE), expected, 1e-10)
        equal(c.losses(whole), single, 1e-5)
        equal(c.losses(c.compile("--precision", "bf16")), expected, 2e-2)
        for mesh, mode in (("data=4", "data"), ("data=2,model=2", "auto"), ("model=4", "auto")):
            plan = c.compile(mesh=mesh, mode=mode)
            assert "attention" in kinds(plan), kinds(plan)
            equal(c.losses(plan, *PRECISE), expected, 1e-10)
            equal(c.losses(plan), single, 1e-5)
    arena = [json.loads((plan / "report.json").read_text())["memory"]["arena_bytes"] for plan in (whole, parts)]
    assert arena[0] < arena[1], arena
    # Drawn again for the gradient, they are the same.
    for level in ("cheap", "full"):
        again = c.compile("--recompute", level, mesh="data=2,model=2", mode="auto")
        assert any(op["name"].startswith("again/") for op in operators(again)), operators(again)
        equal(c.losses(again, *PRECISE), expected, 1e-10)
        equal(c.losses(c.compile("--recompute", level, "--precision", "bf16")), expected, 2e-2)
    text = c.run(c.bin / "tessera-run", c.compile(mesh="data=2,model=2", mode="auto"), "--verify", "--steps", STEPS, "--data",
                 f"npy:{c.folder}/x.npy,{c.folder}/y.npy")
    assert "verified" in text, text


@case
def verifies(c):
    c.network()
    text = c.run(c.bin / "tessera-run", c.compile(mesh="data=2,model=2", mode="auto"), "--verify", "--steps", STEPS, "--data",
                 f"npy:{c.folder}/x.npy,{c.folder}/y.npy")
    assert "verified" in text, text
    text = c.run(c.bin / "tessera-run", c.compile(mesh="data=2,model=2", mode="auto", train=False), "--verify", "--data",
                 f"npy:{c.folder}/x.npy")
    assert "verified" in text, text


@case
def works_with_other_options(c):
    c.network()
    expected = c.losses(c.compile(), *PRECISE)
    recomputed = c.compile("--recompute", "full", mesh="data=2", mode="data")
    assert any(op["name"].startswith("again/") for op in operators(recomputed)), operators(recomputed)
    equal(c.losses(recomputed, *PRECISE), expected, 1e-10)
    equal(c.losses(c.compile("--precision", "bf16", mesh="data=2")), expected, 2e-2)


@case
def is_explained(c):
    c.network()
    plan = c.compile(mesh="data=2,model=2", mode="auto")
    text = c.run(c.bin / "tessera-dump", plan, "--explain", "l0.mix")
    assert "attention" in text, text


if __name__ == "__main__":
    main(__doc__, Context)
