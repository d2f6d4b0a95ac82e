#!/usr/bin/env python3
"""Operators that become several graph operators, run on one rank and on two: against NumPy.

usage: import_test.py --bin DIR --models DIR [CASE...]
"""
import json

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import TensorProto, helper

from cases import Programs, case, main


class Context(Programs):
    def model(self, nodes, x, opset=17):
        """A model with the input x and the output y."""
        tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", x), ("y", None))]
        graph = helper.make_graph(nodes, "net", tensors[:1], tensors[1:])
        self.count += 1
        path = self.folder / f"model{self.count}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), path)
        return path

    def outputs(self, model, x):
        """y on one rank and on two."""
        np.save(self.folder / "x.npy", x)
        found = []
        for mesh in ("1", "data=2"):
            plan, out = self.folder / f"plan{self.count}", self.folder / f"out{self.count}"
            self.run(self.bin / "tessera-compile", model, "--mesh", mesh, "-o", plan)
            self.run(self.bin / "tessera-run", plan, "--data", f"npy:{self.folder}/x.npy", "--infer", "--output", out)
            found.append(np.load(next(out.glob("*.npy"))))
        return found


def average(x, kernel, stride, pad, include):
    """Windows start inside the input or the padding before it, and end with the padding behind it."""
    n, c, h, w = x.shape
    starts = [s for s in range(-pad, h, stride) if s < h and (s + kernel <= h + pad + stride - 1)]
    y = np.zeros((n, c, len(starts), len(starts)), x.dtype)
    for i, a in enumerate(starts):
        for j, b in enumerate(starts):
            inside = x[:, :, max(a, 0):a + kernel, max(b, 0):b + kernel]
            size = (min(a + kernel, h + pad) - a) * (min(b + kernel, w + pad) - b) if include else inside.shape[2] * inside.shape[3]
            y[:, :, i, j] = inside.sum(axis=(2, 3)) / size
    return y


@case
def averages_that_hang_over_the_end(c):
    for extent, kernel, stride, pad in ((10, 3, 2, 0), (10, 3, 2, 1), (11, 4, 3, 1), (9, 2, 2, 0), (12, 5, 4, 2)):
        x = np.random.default_rng(0).standard_normal((4, 3, extent, extent)).astype(np.float32)
        for include in (0, 1):
            node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                                    pads=[pad] * 4, ceil_mode=1, count_include_pad=include)
            for y in c.outputs(c.model([node], x.shape), x):
                np.testing.assert_allclose(y, average(x, kernel, stride, pad, include), rtol=1e-5, atol=1e-6)


@case
def random_numbers_do_not_depend_on_the_mesh(c):
    x = np.full((64, 1000), 0.25, np.float32)
    node = lambda *args, **attributes: [helper.make_node(*args, **attributes)]
    for nodes, mean, variance in (
            (node("RandomNormalLike", ["x"], ["y"], mean=3.0, scale=2.0), 3, 4),
            (node("RandomNormal", [], ["y"], shape=[64, 1000]), 0, 1),
            (node("RandomUniformLike", ["x"], ["y"], low=-1.0, high=3.0), 1, 16 / 12),
            (node("RandomUniform", [], ["y"], shape=[64, 1000]), 0.5, 1 / 12),
            (node("Bernoulli", ["x"], ["y"]), 0.25, 0.25 * 0.75)):
        if not nodes[0].input:
            nodes = [helper.make_node(nodes[0].op_type, [], ["r"], shape=[64, 1000]),
                     helper.make_node("Add", ["r", "x"], ["y"])]
            mean += 0.25
        one, two = c.outputs(c.model(nodes, x.shape), x)
        np.testing.assert_array_equal(one, two)
        spread = np.sqrt(variance / x.size)
        assert abs(one.mean() - mean) < 5 * spread and abs(one.var() / variance - 1) < 0.03, (nodes, one.mean(), one.var())


@case
def every_training_step_draws_anew(c):
    x = np.zeros((8, 16), np.float32)
    np.save(c.folder / "x.npy", x)
    np.save(c.folder / "t.npy", np.zeros((8, 16), np.float32))
    w = onnx.numpy_helper.from_array(np.eye(16, dtype=np.float32), "fc.weight")
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["r"]), helper.make_node("Gemm", ["r", "fc.weight"], ["y"], name="fc")]
    model = c.model(nodes, x.shape)
    proto = onnx.load(model)
    proto.graph.initializer.append(w)
    onnx.save(proto, model)
    found = []
    for mesh in ("1", "data=2", "data=4"):
        plan, log = c.folder / f"plan{mesh}", c.folder / f"log{mesh}"
        c.run(c.bin / "tessera-compile", model, "--mesh", mesh, "--train", "--loss", "mse", "--optimizer", "sgd:lr=0.01", "-o", plan)
        c.run(c.bin / "tessera-run", plan, "--data", f"npy:{c.folder}/x.npy,{c.folder}/t.npy", "--steps", 4, "--log", log)
        found.append([json.loads(line)["loss"] for line in log.read_text().splitlines()])
    assert len(set(found[0])) == 4, found
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)


if __name__ == "__main__":
    main(__doc__, Context)
