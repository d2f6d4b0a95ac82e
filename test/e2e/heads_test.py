#!/usr/bin/env python3
"""Attention whose heads the mesh does not divide: cut in blocks of whole heads, it trains as on one rank.

usage: heads_test.py --bin DIR --models DIR [CASE...]
"""
import json
import pathlib
import re
import sys

import numpy as np

from cases import Programs, case, main

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from networks import Network, gpt  # noqa: E402

BATCH, LENGTH, HIDDEN, STEPS = 8, 4, 6, 4
PRECISE = ("--f64", "--backend", "reference")


class Context(Programs):
    def network(self, heads, width):
        """One layer of attention, every node with a name; q, k and v are columns of their own weights."""
        net, columns = Network(), heads * width
        x = net.input("x", [BATCH, LENGTH, HIDDEN])

        def project(part):
            y = net.node("MatMul", x, net.input(f"{part}.w", [HIDDEN, columns]), name=part)
            y = net.node("Add", y, net.input(f"{part}.b", [columns]), name=f"{part}.add")
            y = net.node("Reshape", y, net.constant([BATCH, LENGTH, heads, width]), name=f"{part}.split")
            return net.node("Transpose", y, perm=[0, 2, 1, 3], name=f"{part}.turn")
        q, k, v = (project(part) for part in "qkv")
        scores = net.node("MatMul", q, net.node("Transpose", k, perm=[0, 1, 3, 2], name="keys"), name="scores")
        scores = net.node("Mul", scores, net.constant(width ** -0.5, np.float32), name="scale")
        mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1, name="softmax"), v, name="mix")
        mixed = net.node("Transpose", mixed, perm=[0, 2, 1, 3], name="turn")
        mixed = net.node("Reshape", mixed, net.constant([BATCH, LENGTH, columns]), name="merge")
        y = net.node("MatMul", mixed, net.input("out.w", [columns, HIDDEN]), name="out")
        net.write(self.folder / "net.onnx", y, [BATCH, LENGTH, HIDDEN])
        rng = np.random.default_rng(3)
        for name in ("x", "y"):
            np.save(self.folder / f"{name}.npy", rng.standard_normal((BATCH, LENGTH, HIDDEN)).astype(np.float32))

    def compile(self, *options, mesh="1", mode="data", code=0):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        text = self.run(self.bin / "tessera-compile", self.folder / "net.onnx", "--inputs", "x", "--mesh", mesh, "--mode", mode,
                        "--seed", "1", "--train", "--loss", "mse", "--optimizer", "adamw:lr=0.01", *options, "-o", plan,
                        code=code)
        return text if code else plan

    def train(self, plan, *options):
        return self.run(self.bin / "tessera-run", plan, "--data", f"npy:{self.folder}/x.npy,{self.folder}/y.npy", *options)

    def losses(self, plan, *options):
        log = plan / "log.jsonl"
        self.train(plan, "--steps", STEPS, "--log", log, *options)
        found = np.array([json.loads(line)["loss"] for line in log.read_text().splitlines()])
        assert len(found) == STEPS and np.all(np.isfinite(found)) and found[0] != found[-1], found
        return found

    def by_heads(self, width, batch, columns, heads="model"):
        """A strategy file that cuts the batch by `batch`, columns as `columns` says and heads by `heads`."""
        wide, cut = [batch, None, columns], [batch, heads, None, None]
        entries = [{"op": "scores", "in": [cut, cut]}, {"op": "mix", "in": [cut, cut]}, {"op": "turn", "in": [cut]},
                   {"op": "scale", "in": [cut]}, {"op": "softmax", "in": [cut]},
                   {"op": "merge", "in": [[batch, None, heads, None]]}, {"op": "out", "in": [wide, [columns, None]]}]
        for part in "qkv":
            entries += [{"op": part, "in": [[batch, None, None], [None, columns]]}, {"op": f"{part}.add", "in": [wide]},
                        {"op": f"{part}.split", "in": [wide]}, {"op": f"{part}.turn", "in": [[batch, None, heads, None]]}]
        file = self.folder / "heads.json"
        file.write_text(json.dumps(entries))
        return file


def strategies(plan):
    """(name, strategy) of every operator of the training program, and its arguments' shardings."""
    saved = json.loads((plan / "strategies.json").read_text())
    train = next(f for f in saved["functions"] if f["name"] == "train")
    return [(op["op"], op["strategy"]) for op in train["operators"]], train["args"]


def equal(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=tolerance)


# heads, width, mesh, the axes of the batch
MESHES = [(3, 4, "model=2", None), (3, 4, "data=2,model=2", "data"), (3, 4, "data=4,model=2", "data"),
          (6, 2, "model=4", None), (6, 2, "data=2,model=4", "data"), (12, 2, "model=8", None)]


@case
def heads_that_do_not_divide_are_cut_whole(c):
    known = {}
    for heads, width, mesh, batch in MESHES:
        c.network(heads, width)
        if heads not in known:
            one = c.compile()
            known[heads] = c.losses(one, *PRECISE), c.losses(one)
        plan = c.compile("--strategy", c.by_heads(width, batch, f"model/{width}"), mesh=mesh, mode="semi-auto")
        operators, args = strategies(plan)
        found = dict(operators)
        for part in "qkv":
            assert f"n=model/{width}" in found[part], found[part]
        assert f"k=model/{width}" in found["out"], found["out"]
        # Gradients follow, and no head is computed twice.
        for name, strategy in operators:
            if name.startswith(("scores", "softmax", "mix", "turn", "merge")):
                assert "model" in strategy, (mesh, name, strategy)
        assert sum(f"[-, model/{width}]" == arg for arg in args) >= 3, args  # weights, and what the optimizer keeps
        assert f"[model/{width}, -]" in args and f"[model/{width}]" in args, args
        precise, single = known[heads]
        equal(c.losses(plan, *PRECISE), precise, 1e-10)
        equal(c.losses(plan), single, 1e-5)
        text = c.train(plan, "--verify", "--steps", STEPS)
        assert "verified" in text, text


@case
def the_search_finds_a_plan_that_trains_alike(c):
    for heads, width, meshes in ((3, 4, ("model=2", "a=2,b=2")), (12, 2, ("model=8",))):
        c.network(heads, width)
        expected = c.losses(c.compile(), *PRECISE)
        for mesh in meshes:
            plan = c.compile(mesh=mesh, mode="auto")
            equal(c.losses(plan, *PRECISE), expected, 1e-10)
        # What a person fixes, the search takes as it is.
        plan = c.compile("--strategy", c.by_heads(width, None, f"model/{width}"), mesh=meshes[0],
                         mode="auto")
        assert f"n=model/{width}" in dict(strategies(plan)[0])["q"], strategies(plan)
        equal(c.losses(plan, *PRECISE), expected, 1e-10)


@case
def the_search_takes_whole_heads_where_they_pay(c):
    """Twelve heads of 64 whose columns are a third of 2,304: q, k and v of a head lie together. In line, since hidden sums
    make rows the better cut."""
    for mesh, uses in (("model=8", True), ("model=4", False)):
        gpt(c.folder / "gpt.onnx", layers=1, hidden=768, heads=12, words=512, batch=2, length=1024)
        file = c.folder / "found.json"
        c.run(c.bin / "tessera-compile", c.folder / "gpt.onnx", "--inputs", "ids", "--train", "--loss", "cross_entropy", "--mesh",
              mesh, "--topology", "8xh100", "--mode", "auto", "--overlap", "off", "--search-only", "--save-strategies", file)
        found = dict((op["op"], op["strategy"]) for f in json.loads(file.read_text())["functions"] if f["name"] == "train"
                     for op in f["operators"])
        assert ("model/192" in found["l0.qkv"]) == uses, (mesh, found["l0.qkv"])
        assert ("model/64" in found["l0.out"]) == uses, (mesh, found["l0.out"])


@case
def the_picture_shows_what_a_rank_holds(c):
    """Twelve columns in units of 4 on two ranks: two heads on the first, one on the other."""
    c.network(3, 4)
    plan = c.compile("--no-fuse-attention", "--strategy", c.by_heads(4, None, "model/4"), mesh="model=2", mode="semi-auto")
    c.run(c.bin / "tessera-dump", plan, "--svg", c.folder / "plan.svg")
    svg = (c.folder / "plan.svg").read_text()
    row = svg.split("<title>q k v</title>")[1].split('class="bar"')[0]
    assert re.findall(r'class="number">(\d+)<', row) == ["8", "4", "8"], row


@case
def saved_strategies_and_checkpoints_hold_them(c):
    c.network(3, 4)
    cut, again = (c.compile("--no-fuse-attention", "--strategy", file, mesh="model=2", mode="semi-auto")
                  for file in (c.by_heads(4, None, "model/4"), c.folder / "plan1" / "strategies.json"))
    for rank in range(2):
        plans = [(plan / f"rank{rank}.plan") for plan in (cut, again)]
        assert plans[0].read_bytes() == plans[1].read_bytes()
    one = c.compile()
    expected = c.losses(one, *PRECISE)
    # Written by whole heads, read by one rank, and the other way round.
    for first, second in ((cut, one), (one, cut)):
        folder = c.folder / f"checkpoint-{first.name}"
        c.train(first, "--steps", "2", "--checkpoint-dir", folder, *PRECISE)
        log = c.folder / "resumed.jsonl"
        c.train(second, "--steps", STEPS, "--resume", folder, "--log", log, *PRECISE)
        resumed = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
        equal(resumed[-2:], expected[2:], 1e-10)
        log.unlink()


@case
def without_a_unit_heads_are_refused_with_what_helps(c):
    c.network(3, 4)
    file = c.folder / "plain.json"
    file.write_text(json.dumps([{"op": "q.split", "in": [[None, None, "model"]]}]))
    text = c.compile("--strategy", file, mesh="model=2", mode="semi-auto", code=1)
    assert "operator 'q.split': dimension 2" in text and 'it can in units of 4: write "model/4"' in text, text


if __name__ == "__main__":
    main(__doc__, Context)
