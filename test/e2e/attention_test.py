#!/usr/bin/env python3
"""Attention as one operator trains as its parts do, on every mesh and with every option.

usage: attention_test.py --bin DIR --models DIR [CASE...]
"""
import json
import pathlib
import sys

import numpy as np
from onnx import helper, numpy_helper

from cases import Programs, case, main

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from networks import Network  # noqa: E402

BATCH, LENGTH, HIDDEN, HEADS, LAYERS, STEPS = 8, 8, 32, 4, 2, 4
PRECISE = ("--f64", "--backend", "reference")


class Constants(Network):
    """Numbers are nodes, as exporters write them; as initializers they would be trained."""

    def constant(self, value, dtype=np.int64):
        name = f"constant{len(self.nodes)}"
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype))))
        return name


class Context(Programs):
    def network(self, causal=True, dropout=0):
        net = Constants()
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
def dropout_stays_in_parts(c):
    c.network(dropout=0.1)
    plan = c.compile()
    assert "attention" not in kinds(plan) and "softmax" in kinds(plan), kinds(plan)


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
