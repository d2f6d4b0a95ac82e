#!/usr/bin/env python3
"""tessera-compile --recompute: less memory, the same losses to the last bit.

usage: recompute_test.py --bin DIR --models DIR [CASE...]
"""
import json

import numpy as np
import onnx
from onnx import TensorProto, helper

from cases import Programs, case, main


class Context(Programs):
    def compile(self, model, recompute, *options, mesh="1", mode="data", rows=8, code=0):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        text = self.run(self.bin / "tessera-compile", model, "--mesh", mesh, "--mode", mode, "--dim", f"batch={rows}",
                        "--train", "--optimizer", "sgd:lr=0.001,momentum=0.9", "--seed", "1", "--recompute", recompute,
                        *options, "-o", plan, code=code)
        return text if code else plan

    def losses(self, plan, shape, rows=8):
        rng = np.random.default_rng(5)
        np.save(self.folder / "x.npy", rng.standard_normal((rows, *shape)).astype(np.float32))
        np.save(self.folder / "y.npy", rng.integers(0, 10, rows))
        log = plan / "log.jsonl"
        self.run(self.bin / "tessera-run", plan, "--data", f"npy:{self.folder}/x.npy,{self.folder}/y.npy", "--steps", 3,
                 "--log", log)
        found = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
        assert len(found) == 3 and np.all(np.isfinite(found)) and found[0] != found[-1], found
        return found


def report(plan):
    return json.load(open(plan / "report.json"))


def activations(plan):
    return report(plan)["memory"]["activation_bytes"]


def deep(path, widths):
    """A network of products and tanh in alternation."""
    nodes, last = [], "x"
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", widths[0]])]
    for i, (rows, columns) in enumerate(zip(widths, widths[1:])):
        nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"], f"fc{i}"),
                  helper.make_node("Tanh", [f"m{i}"], [f"h{i}"], f"tanh{i}")]
        values.append(helper.make_tensor_value_info(f"w{i}", TensorProto.FLOAT, [rows, columns]))
        last = f"h{i}"
    out = helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch", widths[-1]])
    onnx.save(helper.make_model(helper.make_graph(nodes, "deep", values, [out]), opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@case
def deep_network(c):
    """48 layers of one width: memory falls to about the square root of the layers."""
    width = 64
    model = deep(c.folder / "deep.onnx", [width] * 49)
    plans = {r: c.compile(model, r, "--inputs", "x", rows=1024) for r in ("none", "full")}
    ratio = activations(plans["full"]) / activations(plans["none"])
    print(f"      activations {ratio:.2f} of those kept")
    assert ratio < 0.4, ratio
    losses = {r: c.losses(plan, (width,), 1024) for r, plan in plans.items()}
    assert losses["none"] == losses["full"], losses


@case
def networks(c):
    # These networks have statistics over the batch, dropout, and windows.
    for name, shape, most in (("resnet18_cifar_train", (3, 32, 32), 0.6), ("vgg11_cifar_train", (3, 32, 32), 0.95),
                              ("lenet_train", (1, 28, 28), 0.95)):
        model = c.models / f"{name}.onnx"
        for mesh, mode in (("1", "data"), ("data=2,model=2", "auto")):
            plans = {r: c.compile(model, r, mesh=mesh, mode=mode) for r in ("none", "full")}
            ratio = activations(plans["full"]) / activations(plans["none"])
            print(f"      {name} {mesh}: activations {ratio:.2f} of those kept")
            assert ratio < most or mesh != "1", (name, mesh, ratio)
            losses = {r: c.losses(plan, shape) for r, plan in plans.items()}
            # Loops that hold other operators sum in pieces of another length, and the search may cut the two programs
            # differently.
            np.testing.assert_allclose(losses["full"], losses["none"], rtol=2e-6 if mesh == "1" else 1e-4)
        plain = [c.losses(c.compile(model, r, "--no-fuse"), shape) for r in ("none", "full")]
        assert plain[0] == plain[1], (name, plain)


@case
def micro_batches_and_bfloat16(c):
    model = c.models / "lenet_train.onnx"
    for options in (("--accumulate", "2"), ("--precision", "bf16")):
        losses = [c.losses(c.compile(model, r, *options), (1, 28, 28)) for r in ("none", "full")]
        np.testing.assert_allclose(losses[1], losses[0], rtol=0 if "2" in options else 1e-3)


@case
def copies_expire(c):
    """Where memory is short, copies of some parameters are made again for each half and micro-batch, with the same bits."""
    width, rows = 128, 2048
    model = deep(c.folder / "wide.onnx", [width] * 9)

    def plan(*options):
        # One by one and in line: messages, which hold copies longer, follow from the limit of memory, too.
        return c.compile(model, "none", "--inputs", "x", "--fusion", "off", "--overlap", "off", *options, mesh="data=4",
                         mode="auto", rows=rows)

    for parts in (1, 4):
        kept = plan("--accumulate", parts)
        needed = report(kept)["memory"]["arena_bytes"]
        saved = c.folder / f"expiring{parts}.json"
        short = plan("--accumulate", parts, "--memory", f"{needed * (24 if parts == 1 else 20) // 25 // 1024}KiB", "--save-strategies",
                     saved)
        program = json.loads(saved.read_text())
        train = next(f for f in program["functions"] if f["name"] == "train")
        expired = {op["op"].partition("/")[2] for op in train["operators"]
                   if op["op"].startswith("kept/") and op["strategy"] and "->" not in op["strategy"]}
        again = report(plan("--accumulate", parts, "--strategy", saved))
        assert again["memory"] == report(short)["memory"], (again["memory"], report(short)["memory"])
        print(f"      {parts} micro-batches: {len(expired)} of 8 copies expire")
        assert expired
        # The same strategies, with all copies kept.
        for op in train["operators"]:
            half, _, name = op["op"].partition("/")
            if name in expired:
                op["strategy"] = op["strategy"] + " -> [-, -]" if half == "kept" else ""
        saved.write_text(json.dumps(program))
        whole = plan("--accumulate", parts, "--strategy", saved)
        assert report(whole)["memory"]["arena_bytes"] > report(short)["memory"]["arena_bytes"]
        losses = [c.losses(p, (width,), rows) for p in (short, whole)]
        assert losses[0] == losses[1], losses


@case
def follows_strategies(c):
    given = c.folder / "given.json"
    given.write_text(json.dumps([{"op": "*/Conv", "in": [[1, 1, 1, 1], [2, 1, 1, 1]]}]))
    model = c.models / "vgg11_cifar_train.onnx"
    losses = [c.losses(c.compile(model, r, "--strategy", given, mesh="model=2", mode="semi-auto"), (3, 32, 32))
              for r in ("none", "full")]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


@case
def auto_takes_what_fits(c):
    model = c.models / "resnet18_cifar_train.onnx"
    arena = {r: report(c.compile(model, r))["memory"]["arena_bytes"] for r in ("none", "full")}
    roomy = c.compile(model, "auto", "--memory", arena["none"])
    assert report(roomy)["recompute"] == "none" and report(roomy)["memory"]["arena_bytes"] == arena["none"]
    tight = c.compile(model, "auto", "--memory", arena["full"])
    assert report(tight)["recompute"] == "full" and report(tight)["memory"]["arena_bytes"] == arena["full"]
    between = c.compile(model, "auto", "--memory", arena["none"] - 1)
    assert report(between)["recompute"] in ("cheap", "full")
    assert report(between)["memory"]["arena_bytes"] < arena["none"]
    text = c.compile(model, "none", "--memory", arena["full"], code=1)
    assert "--recompute auto" in text, text
    text = c.compile(model, "auto", "--memory", arena["full"] // 4, code=1)
    assert "the plan needs" in text and "--recompute auto" not in text, text


def subsets(n):
    return [[i for i in range(n) if bits >> i & 1] for bits in range(1, 2 ** n)]


@case
def auto_takes_the_cheapest_segments_that_fit(c):
    """Every subset of segments is compiled; under a limit auto must be as good as the best that fits."""
    for name, widths in (("even", [64] * 13), ("uneven", [64, 64, 64, 256, 256, 64, 64, 64, 256, 64, 64, 64, 64])):
        model = deep(c.folder / f"{name}.onnx", widths)
        options = {"rows": 512}

        def outcome(recompute, *more):
            r = report(c.compile(model, recompute, "--inputs", "x", *more, **options))
            return r["memory"]["arena_bytes"], sum(r["functions"][0][k] for k in ("compute_ns", "communication_ns")), r["recompute"]

        text = c.compile(model, "full:99", "--inputs", "x", code=1, **options)
        count = int(text.split("the forward half has ")[1].split()[0])
        assert 2 <= count <= 7, text
        found = [outcome(r) for r in ["none", "cheap"] + ["full:" + ",".join(map(str, s)) for s in subsets(count)]]
        least, most = min(arena for arena, _, _ in found), found[0][0]
        some = 0
        for limit in sorted({int(least + (most - least) * part) for part in (0, 0.1, 0.3, 0.5, 0.7, 0.9)}):
            best = min(time for arena, time, _ in found if arena <= limit)
            arena, time, chosen = outcome("auto", "--memory", limit)
            print(f"      {name}, {limit} bytes of {most}: {chosen}, {time / best - 1:.4f} above the best of {len(found)}")
            assert arena <= limit and time <= 1.01 * best, (limit, arena, time, best, found)
            some += chosen.startswith("full:")
        assert some > 0, "no limit asked for a part of the segments"
    text = c.compile(model, "some", "--inputs", "x", code=2)
    assert "--recompute some: expected" in text, text


@case
def clusters_are_predicted_with_recomputation(c):
    model = c.models / "resnet18_cifar_train.onnx"
    arena = {r: report(c.compile(model, r))["memory"]["arena_bytes"] for r in ("none", "full")}
    options = ("--dim", "batch=8", "--train", "--optimizer", "sgd:lr=0.001,momentum=0.9", "--what-if", "nodes=1",
               "--memory", arena["full"])
    text = c.run(c.bin / "tessera-compile", model, *options)
    assert "does not fit" in text, text
    text = c.run(c.bin / "tessera-compile", model, *options, "--recompute", "auto")
    assert "recompute full" in text.splitlines()[-1], text


if __name__ == "__main__":
    main(__doc__, Context)
