#!/usr/bin/env python3
"""Operators that become several graph operators, run on one rank and on two: against NumPy.

usage: import_test.py --bin DIR --models DIR [CASE...]
"""
import json
import pathlib

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import TensorProto, helper

from cases import Programs, case, main
from tensors import read_safetensors


class Context(Programs):
    def model(self, nodes, x, opset=17, parameters=None, integers=None):
        """A model with the input x (and int32 ones), initializers and the output y."""
        tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", x), ("y", None))]
        more = [helper.make_tensor_value_info(name, TensorProto.INT32, shape) for name, shape in (integers or {}).items()]
        held = [onnx.numpy_helper.from_array(value, name) for name, value in (parameters or {}).items()]
        graph = helper.make_graph(nodes, "net", tensors[:1] + more, tensors[1:], held)
        self.count += 1
        path = self.folder / f"model{self.count}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), path)
        return path

    def outputs(self, model, *inputs):
        """y on one rank and on two."""
        for i, x in enumerate(inputs):
            np.save(self.folder / f"x{i}.npy", x)
        data, found = ",".join(f"{self.folder}/x{i}.npy" for i in range(len(inputs))), []
        for mesh in ("1", "data=2"):
            plan, out = self.folder / f"plan{self.count}", self.folder / f"out{self.count}"
            self.run(self.bin / "tessera-compile", model, "--mesh", mesh, "-o", plan)
            self.run(self.bin / "tessera-run", plan, "--data", f"npy:{data}", "--infer", "--output", out)
            found.append(np.load(next(out.glob("*.npy"))))
        return found


    def gradients(self, nodes, x, parameters, opset=17):
        """The parameters' gradients of y, in double precision on one rank and on two: one step of SGD with lr=1."""
        model = self.model(nodes, x.shape, opset=opset, parameters=parameters)
        np.save(self.folder / "x0.npy", x)
        found = []
        for mesh in ("1", "data=2"):
            plan, weights = self.folder / f"plan{self.count}", self.folder / "weights.safetensors"
            self.run(self.bin / "tessera-compile", model, "--mesh", mesh, "--train", "--loss", "output", "--optimizer",
                     "sgd:lr=1", "-o", plan)
            self.run(self.bin / "tessera-run", plan, "--data", f"npy:{self.folder}/x0.npy", "--steps", 1, "--f64",
                     "--backend", "reference", "--save-weights", weights)
            new = read_safetensors(weights)
            found.append({name: value.astype(np.float64) - new[name] for name, value in parameters.items() if name in new})
        for name in found[0]:
            np.testing.assert_allclose(found[1][name], found[0][name], rtol=0, atol=1e-6)
        return found[0]


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


@case
def slopes_where_functions_have_corners(c):
    """PyTorch's slopes at 0, where the formula that stands for a function has a corner and the function none (or another)."""
    node, at = helper.make_node, np.float32([-1, -0.5, 0, 0, 0.5, 1])
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    softplus = lambda v: np.log1p(np.exp(v))
    mish = lambda v: np.tanh(softplus(v)) + v * (1 - np.tanh(softplus(v)) ** 2) * sigmoid(v)
    logs = [node("Sigmoid", ["p.weight"], ["s"]), node("Log", ["s"], ["f"])]
    far = np.float32([-300, -20, 0, 20, 300, 1])
    for nodes, p, slope in (
            ([node("LeakyRelu", ["p.weight"], ["f"], alpha=0.25)], at, np.where(at > 0, 1, 0.25)),
            ([node("PRelu", ["p.weight", "slope"], ["f"])], at, np.where(at > 0, 1, 0.5)),
            ([node("Softplus", ["p.weight"], ["f"])], at, sigmoid(at)),
            ([node("Softplus", ["p.weight"], ["s"]), node("Tanh", ["s"], ["t"]), node("Mul", ["p.weight", "t"], ["f"])], at, mish(at)),
            ([node("Asinh", ["p.weight"], ["f"])], at, 1 / np.sqrt(at ** 2 + 1)),
            (logs, far, sigmoid(-far.astype(np.float64)))):
        mean = [node("Mul", ["x", "f"], ["xf"]), node("ReduceMean", ["xf"], ["rows"], axes=[0], keepdims=0),
                node("ReduceSum", ["rows"], ["y"], keepdims=0)]
        held = {"p.weight": p, **({"slope": np.float32([0.5])} if nodes[0].op_type == "PRelu" else {})}
        found = c.gradients(nodes + mean, np.ones((4, 6), np.float32), held)["p.weight"]
        np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-7, err_msg=nodes[-1].op_type)


@case
def norms_of_zeros_have_no_gradient(c):
    node = helper.make_node
    p = np.float32([[3, 4, 0], [0, 0, 0], [1, 2, 2], [0, 0, 0]])
    length = np.sqrt((p ** 2).sum(1, keepdims=True))
    norm = np.where(length > 0, p / np.maximum(length, 1), 0)
    squares = [node("Mul", ["p.weight", "p.weight"], ["s"]), node("ReduceMean", ["s"], ["m"], axes=[1]), node("Sqrt", ["m"], ["f"])]
    for nodes, slope in (([node("ReduceL2", ["p.weight"], ["f"], axes=[1])], norm), (squares, norm / np.sqrt(3))):
        mean = [node("Mul", ["x", "f"], ["xf"]), node("ReduceSum", ["xf"], ["y"], keepdims=0)]
        found = c.gradients(nodes + mean, np.ones((4, 1), np.float32), {"p.weight": p})["p.weight"]
        np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-7)


def cell(kind, x, w, r, bias, h, k):
    """One step of a recurrent cell, by ONNX's formulas."""
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    n, wb, rb = h.shape[1], *np.split(bias, 2)
    gates, state = x @ w.T + wb, h @ r.T + rb
    if kind == "RNN":
        return np.tanh(gates + state), k
    if kind == "GRU":  # linear_before_reset
        z, reset = sigmoid(gates[:, :n] + state[:, :n]), sigmoid(gates[:, n:2 * n] + state[:, n:2 * n])
        return (1 - z) * np.tanh(gates[:, 2 * n:] + reset * state[:, 2 * n:]) + z * h, k
    i, o, f, g = np.split(gates + state, 4, axis=1)
    k = sigmoid(f) * k + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(k), k


@case
def sequences_of_several_lengths(c):
    """Recurrent layers of packed sequences: steps behind a sequence's end keep its state and give 0."""
    rng, steps, batch, width, hidden = np.random.default_rng(0), 5, 4, 3, 2
    lengths = np.int32([5, 2, 0, 4])
    x = rng.standard_normal((batch, steps, width)).astype(np.float32)
    for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        held = {"w": (2, gates * hidden, width), "r": (2, gates * hidden, hidden), "b": (2, 2 * gates * hidden)}
        held = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in held.items()}
        extra = {"linear_before_reset": 1} if kind == "GRU" else {}
        nodes = [helper.make_node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
                 helper.make_node(kind, ["steps", "w", "r", "b", "lengths"], ["all", "last"], hidden_size=hidden,
                                  direction="bidirectional", **extra),
                 helper.make_node("Unsqueeze", ["last", "axis"], ["last4"]),
                 helper.make_node("Concat", ["all", "last4"], ["both"], axis=0),
                 helper.make_node("Transpose", ["both"], ["y"], perm=[2, 0, 1, 3])]
        model = c.model(nodes, x.shape, parameters={**held, "axis": np.int64([0])}, integers={"lengths": [batch]})
        want = np.zeros((batch, steps + 1, 2, hidden))
        for d in (0, 1):
            for s, length in enumerate(lengths):
                h = k = np.zeros((1, hidden))
                for t in (range(length) if d == 0 else reversed(range(length))):
                    h, k = cell(kind, x[s:s + 1, t], held["w"][d], held["r"][d], held["b"][d], h, k)
                    want[s, t, d] = h
                want[s, steps, d] = h
        for y in c.outputs(model, x, lengths):
            np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6, err_msg=kind)


@case
def quantised_training_has_the_identitys_gradient(c):
    p = np.float32([-9, -1.3, -0.26, 0, 0.24, 0.26, 1.1, 9])
    for name, low, high in (("int8", -128, 127), ("uint8", 0, 255)):
        zero, scale = np.array(3, name), np.array(0.05, np.float32)
        nodes = [helper.make_node("QuantizeLinear", ["p.weight", "scale", "zero"], ["q"]),
                 helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["f"]),
                 helper.make_node("Mul", ["x", "f"], ["xf"]), helper.make_node("ReduceSum", ["xf"], ["y"], keepdims=0)]
        x = np.arange(1, 9, dtype=np.float32)[None].repeat(2, 0)
        found = c.gradients(nodes, x, {"p.weight": p, "scale": scale, "zero": zero})
        q = np.round(p / scale) + 3
        np.testing.assert_allclose(found["p.weight"], np.where((q >= low) & (q <= high), 2 * x[0], 0), rtol=1e-6)


def bilinear(x, grid):
    """Pixels at places, zeros outside: [n, c, h, w] at [n, i, j, 2]."""
    n, c, h, w = x.shape
    y = np.zeros((n, c) + grid.shape[1:3])
    for at in np.ndindex(n, *grid.shape[1:3]):
        column, row = (grid[at] + 1) / 2 * np.array([w - 1, h - 1])
        for i in (int(np.floor(row)), int(np.floor(row)) + 1):
            for j in (int(np.floor(column)), int(np.floor(column)) + 1):
                if 0 <= i < h and 0 <= j < w:
                    y[(at[0], slice(None)) + at[1:]] += x[at[0], :, i, j] * (1 - abs(row - i)) * (1 - abs(column - j))
    return y


@case
def gradients_of_a_sampled_image(c):
    """GridSample's gradients by image and grid against central differences."""
    rng = np.random.default_rng(0)
    image, grid = rng.standard_normal((4, 2, 4, 5)).astype(np.float32), rng.uniform(-1.2, 1.2, (4, 2, 3, 2)).astype(np.float32)
    factor = rng.standard_normal((4, 2, 2, 3)).astype(np.float32)
    nodes = [helper.make_node("GridSample", ["p.weight", "grid.weight"], ["s"], align_corners=1),
             helper.make_node("Mul", ["s", "x"], ["sx"]), helper.make_node("ReduceSum", ["sx"], ["y"], keepdims=0)]
    found = c.gradients(nodes, factor, {"p.weight": image, "grid.weight": grid})
    loss = lambda: (bilinear(values["p.weight"], values["grid.weight"]) * factor).sum()
    values = {"p.weight": image.astype(np.float64), "grid.weight": grid.astype(np.float64)}
    for name, value in values.items():
        for at in np.ndindex(*value.shape):
            kept = value[at]
            ends = []
            for step in (1e-6, -1e-6):
                value[at] = kept + step
                ends.append(loss())
            value[at] = kept
            np.testing.assert_allclose(found[name][at], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-6)


@case
def resize_is_pytorchs(c):
    """Values and gradients of PyTorch 2.15's torch.nn.functional.interpolate in float64, with scales that give no whole
    extents. resize_values.json holds them: of x = sin(0, 1, ...), and the gradient of sum(y * cos(0, 1, ...))."""
    wave = lambda f, shape: f(np.arange(np.prod(shape), dtype=np.float64)).reshape(shape).astype(np.float32)
    x = wave(np.sin, (2, 1, 4, 5))
    for row in json.loads((pathlib.Path(__file__).parent / "resize_values.json").read_text()):
        scales = {"scales": np.float32([1, 1] + row["scales"])}
        said = f"{row['pytorch']} {row['scales']}"
        resize = lambda of, to: helper.make_node("Resize", [of, "", "scales"], [to], **row["attributes"])
        for y in c.outputs(c.model([resize("x", "y")], x.shape, opset=18, parameters=scales), x):
            np.testing.assert_allclose(y, np.reshape(row["y"], row["shape"]), rtol=0, atol=1e-6, err_msg=said)
        nodes = [resize("p.weight", "r"), helper.make_node("Mul", ["r", "x"], ["rx"]),
                 helper.make_node("ReduceSum", ["rx"], ["y"], keepdims=0)]
        found = c.gradients(nodes, wave(np.cos, row["shape"]), {"p.weight": x, **scales})
        np.testing.assert_allclose(found["p.weight"], np.reshape(row["gradient"], x.shape), rtol=0, atol=1e-6, err_msg=said)


def slopes(loss, value, step=1e-5):
    """The gradient of loss(value) by central differences."""
    found = np.zeros(value.shape)
    for at in np.ndindex(*value.shape):
        ends = []
        for sign in (1, -1):
            moved = value.copy()
            moved[at] += sign * step
            ends.append(loss(moved))
        found[at] = (ends[0] - ends[1]) / (2 * step)
    return found


def windows(x, kernel, stride, dilation):
    """All windows of x [n, c, length], one row each: [n, c, windows, kernel]."""
    last = (x.shape[2] - (kernel - 1) * dilation - 1) // stride
    return np.stack([x[:, :, o * stride:o * stride + (kernel - 1) * dilation + 1:dilation] for o in range(last + 1)], 2)


def folded(x, length, kernel, stride, dilation):
    """Col2Im: the windows of [n, c * kernel, windows] added up."""
    n, rows, count = x.shape
    y = np.zeros((n, rows // kernel, length))
    for o, k in np.ndindex(count, kernel):
        y[:, :, o * stride + k * dilation] += x.reshape(n, rows // kernel, kernel, count)[:, :, k, o]
    return y


@case
def windows_and_determinants(c):
    """Values on one rank and on two, and gradients against central differences."""
    rng = np.random.default_rng(3)
    window = dict(kernel_shape=[3], strides=[2], dilations=[2])
    ints = lambda **held: {name: np.int64(value) for name, value in held.items()}
    for op, shape, attributes, more, function in (
            ("LpPool", (4, 2, 11), dict(p=3, **window), {}, lambda x: (abs(windows(x, 3, 2, 2)) ** 3).sum(3) ** (1 / 3)),
            ("LpPool", (4, 2, 11), dict(p=2, **window), {}, lambda x: (windows(x, 3, 2, 2) ** 2).sum(3) ** 0.5),
            ("AveragePool", (4, 2, 11), window, {}, lambda x: windows(x, 3, 2, 2).mean(3)),
            ("GlobalLpPool", (4, 2, 3, 4), dict(p=2), {}, lambda x: (x ** 2).sum((2, 3), keepdims=True) ** 0.5),
            ("Col2Im", (4, 6, 4), dict(strides=[2], dilations=[2]), ints(image=[11], block=[3]),
             lambda x: folded(x, 11, 3, 2, 2)),
            ("CenterCropPad", (4, 5, 4), dict(axes=[1, 2]), ints(shape=[2, 7]),
             lambda x: np.pad(x[:, 1:3], ((0, 0), (0, 0), (1, 2)))),
            ("AffineGrid", (4, 2, 3), dict(align_corners=1), ints(size=[4, 1, 2, 3]),
             lambda x: np.stack([np.einsum("nij,j->ni", x, [column, row, 1]) for row in (-1, 1) for column in (-1, 0, 1)],
                                1).reshape(4, 2, 3, 2)),
            ("Det", (4, 5, 5), {}, {}, np.linalg.det)):
        x = (rng.standard_normal(shape) + (4 if op == "LpPool" else 0)).astype(np.float32)
        node = lambda of, to: helper.make_node(op, [of, *more], [to], **attributes)
        want = function(x.astype(np.float64))
        opset = 22 if op != "GlobalLpPool" else 17
        for y in c.outputs(c.model([node("x", "y")], x.shape, opset=opset, parameters=more), x):
            np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-6, err_msg=op)
        factor = rng.standard_normal(want.shape).astype(np.float32)
        nodes = [node("p.weight", "r"), helper.make_node("Mul", ["r", "x"], ["rx"]),
                 helper.make_node("ReduceSum", ["rx"], ["y"], keepdims=0)]
        found = c.gradients(nodes, factor, {"p.weight": x, **more}, opset=opset)
        np.testing.assert_allclose(found["p.weight"], slopes(lambda v: (function(v) * factor).sum(), x.astype(np.float64)),
                                   rtol=1e-5, atol=1e-5, err_msg=op)


def read_between(image, row, column, edge=False):
    """The pixels [c, h, w] at a place; outside they are 0, or with `edge` the border's up to one pixel away."""
    c, h, w = image.shape
    if edge:
        if not (-1 <= row <= h and -1 <= column <= w):
            return np.zeros(c)
        row, column = np.clip(row, 0, h - 1), np.clip(column, 0, w - 1)
    y = np.zeros(c)
    for i in (int(np.floor(row)), int(np.floor(row)) + 1):
        for j in (int(np.floor(column)), int(np.floor(column)) + 1):
            if 0 <= i < h and 0 <= j < w:
                y += image[:, i, j] * (1 - abs(row - i)) * (1 - abs(column - j))
    return y


def deformed(x, weight, offset, bias, mask, groups, moves):
    """A 3x2 convolution with strides 2 and 1, pads of 1 and taps that are moved."""
    n, c, h, w = x.shape
    y = np.zeros((n, weight.shape[0]) + offset.shape[2:]) + bias[None, :, None, None]
    for b, i, j, k in np.ndindex(n, *y.shape[2:], 6):
        for m in range(moves):
            at = (m * 6 + k) * 2
            row, column = i * 2 - 1 + k // 2 + offset[b, at, i, j], j - 1 + k % 2 + offset[b, at + 1, i, j]
            channels = slice(m * c // moves, (m + 1) * c // moves)
            read = np.zeros(c)
            read[channels] = read_between(x[b, channels], row, column) * mask[b, m * 6 + k, i, j]
            for g in range(groups):
                filters, own = (slice(g * size // groups, (g + 1) * size // groups) for size in (weight.shape[0], c))
                y[b, filters, i, j] += weight[filters, :, k // 2, k % 2] @ read[own]
    return y


@case
def moved_convolutions(c):
    """DeformConv's values on one rank and on two, and its gradients against central differences in random directions."""
    rng = np.random.default_rng(5)
    for groups, moves in ((1, 2), (2, 1)):
        x = rng.standard_normal((2, 4, 5, 4)).astype(np.float32)
        held = {"w.weight": rng.standard_normal((4, 4 // groups, 3, 2)), "o.weight": rng.uniform(-1.4, 1.4, (2, moves * 12, 3, 5)),
                "b.bias": rng.standard_normal(4), "m.weight": rng.uniform(0, 1, (2, moves * 6, 3, 5))}
        held = {name: value.astype(np.float32) for name, value in held.items()}
        node = lambda of, to: helper.make_node("DeformConv", [of, *held], [to], strides=[2, 1], pads=[1, 1, 1, 1],
                                               group=groups, offset_group=moves)
        function = lambda x, values: deformed(x, *values.values(), groups, moves)
        wide = {name: value.astype(np.float64) for name, value in held.items()}
        for y in c.outputs(c.model([node("x", "y")], x.shape, opset=19, parameters=held), x):
            np.testing.assert_allclose(y, function(x.astype(np.float64), wide), rtol=1e-4, atol=1e-5)
        factor = rng.standard_normal((2, 4, 3, 5)).astype(np.float32)
        nodes = [node("p.weight", "r"), helper.make_node("Mul", ["r", "x"], ["rx"]),
                 helper.make_node("ReduceSum", ["rx"], ["y"], keepdims=0)]
        found = c.gradients(nodes, factor, {"p.weight": x, **held}, opset=19)
        all_values = {"p.weight": x.astype(np.float64), **wide}
        for name, value in all_values.items():
            for _ in range(4):
                direction, ends = rng.standard_normal(value.shape), []
                for step in (1e-7, -1e-7):
                    values = {**all_values, name: value + step * direction}
                    ends.append((function(values.pop("p.weight"), values) * factor).sum())
                np.testing.assert_allclose((found[name] * direction).sum(), (ends[0] - ends[1]) / 2e-7, rtol=1e-5, atol=1e-4,
                                           err_msg=name)


@case
def regions_of_images(c):
    """RoiAlign's values on one rank and on two, and its gradient against central differences."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((2, 3, 5, 6)).astype(np.float32)
    rois = np.float32([[0, 0, 7, 6], [3, 2, 9, 9], [-4, -4, 1, 3], [8, 1, 30, 4]])
    images = np.int64([0, 1, 1, 0])

    def function(x):
        y = np.zeros((4, 3, 2, 3))
        for r, (left, top, right, bottom) in enumerate(rois.astype(np.float64) * 0.5 - 0.5):
            for i, j, a, b in np.ndindex(2, 3, 2, 2):
                row, column = top + (bottom - top) * (i * 2 + a + 0.5) / 4, left + (right - left) * (j * 2 + b + 0.5) / 6
                y[r, :, i, j] += read_between(x[images[r]], row, column, edge=True) / 4
        return y
    held = {"rois": rois, "images": images}
    node = lambda of, to: helper.make_node("RoiAlign", [of, *held], [to], output_height=2, output_width=3, sampling_ratio=2,
                                           spatial_scale=0.5)
    want = function(x.astype(np.float64))
    for y in c.outputs(c.model([node("x", "y")], x.shape, parameters=held), x):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    factor = rng.standard_normal(want.shape).astype(np.float32)
    nodes = [node("p.weight", "r"), helper.make_node("Mul", ["r", "x"], ["rx"]),
             helper.make_node("ReduceSum", ["rx"], ["y"], keepdims=0)]
    found = c.gradients(nodes, factor, {"p.weight": x, **held})
    np.testing.assert_allclose(found["p.weight"], slopes(lambda v: (function(v) * factor).sum(), x.astype(np.float64)),
                               rtol=1e-5, atol=1e-5)


def mel(bands, length, rate, low, high):
    scale = lambda hertz: 2595 * np.log10(1 + hertz / 700)
    corners = np.arange(bands + 2) * (scale(high) - scale(low)) / (bands + 2) + scale(low)
    corners = ((length + 1) * 700 * (10 ** (corners / 2595) - 1) // rate).astype(int)
    found = np.zeros((length // 2 + 1, bands))
    for i, (left, center, right) in enumerate(zip(corners, corners[1:], corners[2:])):
        found[left:center + 1, i] = (np.arange(left, center + 1) - left) / max(1, center - left)
        found[center:right, i] = (right - np.arange(center, right)) / max(1, right - center)
        found[center, i] = 1
    return found


@case
def mel_filters_and_windows_are_known(c):
    """The ONNX reference's filters, in the types that it names; a spectrum times them."""
    for length, rate, bands, low, high in ((16, 8192, 8, 0.0, 4096.0), (400, 16000, 80, 0.0, 8000.0), (64, 8000, 5, 60.0, 3500.0)):
        bins = length // 2 + 1
        x = np.random.default_rng(0).random((4, bins)).astype(np.float32)
        held = {"bands": np.int64(bands), "length": np.int32(length), "rate": np.int64(rate), "low": np.float32(low),
                "high": np.float32(high)}
        nodes = [helper.make_node("MelWeightMatrix", ["bands", "length", "rate", "low", "high"], ["m"]),
                 helper.make_node("MatMul", ["x", "m"], ["y"])]
        for y in c.outputs(c.model(nodes, x.shape, parameters={k: np.asarray(v) for k, v in held.items()}), x):
            np.testing.assert_allclose(y, x @ mel(bands, length, rate, low, high), rtol=1e-5, atol=1e-6)


def fourier(x, axis, inverse=False, onesided=False, length=None):
    """ONNX's DFT by NumPy: parts of a number in the last dimension."""
    both = lambda z: np.stack((z.real, z.imag), -1)
    z = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.fft.irfft(z, length, axis)[..., None]
    y = (np.fft.ifft if inverse else np.fft.fft)(z, length, axis)
    return both(np.take(y, range(y.shape[axis] // 2 + 1), axis) if onesided else y)


@case
def fourier_transforms(c):
    """Every form of DFT, on one rank and on two: real and complex, along any axis, cut and continued by zeros."""
    rng = np.random.default_rng(0)
    for shape, axis, inverse, onesided, length in (
            ((4, 10, 1), 1, 0, 0, None), ((4, 10, 2), 1, 0, 0, None), ((4, 10, 2), 1, 1, 0, None), ((4, 10, 1), 1, 0, 1, None),
            ((4, 9, 1), 1, 0, 1, None), ((4, 6, 2), 1, 1, 1, None), ((4, 6, 2), 1, 1, 1, 11), ((4, 6, 2), 1, 1, 1, 7),
            ((4, 6, 2), 1, 1, 1, 14), ((4, 10, 2), 1, 0, 0, 7), ((4, 10, 1), 1, 0, 1, 16), ((4, 10, 1), 1, 1, 0, None),
            ((4, 6, 5, 2), 1, 0, 0, None), ((4, 6, 5, 2), 2, 1, 0, 8), ((4, 6, 5, 1), -3, 0, 1, None), ((8, 2), 0, 0, 0, None),
            ((4, 6, 1), 0, 0, 0, None), ((4, 2, 1024, 1), 2, 0, 1, None)):
        x = rng.standard_normal(shape).astype(np.float32)
        expected = fourier(x, axis if axis >= 0 else axis + 1, inverse, onesided, length)
        flags, held = {"inverse": inverse, "onesided": onesided}, {}
        if length:
            held["length"] = np.asarray(length, np.int64)
        last = "length" if length else ""
        forms = [(17, {"axis": axis}, [])]
        forms.append((20, {}, [last, "axis"]))
        for opset, attributes, inputs in forms:
            parameters = dict(held, axis=np.asarray(axis, np.int64)) if opset == 20 else held
            node = helper.make_node("DFT", ["x"] + (inputs or [last]), ["y"], **flags, **attributes)
            for y in c.outputs(c.model([node], shape, opset, parameters), x):
                np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max(), err_msg=str((shape, axis, opset)))


@case
def gradients_of_fourier_transforms(c):
    """A linear map's gradient is its transpose applied to the factors."""
    rng = np.random.default_rng(0)
    for shape, inverse, onesided, op in (((4, 6, 1), 0, 0, "DFT"), ((4, 6, 2), 1, 0, "DFT"), ((4, 7, 1), 0, 1, "DFT"),
                                         ((4, 5, 2), 1, 1, "DFT")):
        w = rng.standard_normal(shape).astype(np.float32)
        apply = lambda v: fourier(v, 1, inverse, onesided)
        factor = rng.standard_normal(apply(w).shape).astype(np.float32)
        nodes = [helper.make_node("DFT", ["p.weight"], ["s"], axis=1, inverse=inverse, onesided=onesided),
                 helper.make_node("Mul", ["s", "x"], ["sx"]), helper.make_node("ReduceSum", ["sx"], ["y"], keepdims=0)]
        expected = np.zeros(shape)
        for at in np.ndindex(*shape):
            unit = np.zeros(shape)
            unit[at] = 1
            expected[at] = (apply(unit) * factor).sum()
        np.testing.assert_allclose(c.gradients(nodes, factor, {"p.weight": w})["p.weight"], expected, rtol=1e-5, atol=1e-5)


@case
def fourier_transforms_of_windows(c):
    """STFT with and without a window, both sides and one; its gradients by signal and window."""
    rng = np.random.default_rng(0)
    frames = lambda x, length, step: np.stack([x[:, a:a + length] for a in range(0, x.shape[1] - length + 1, step)], 1)
    for parts, length, step, onesided, windowed in ((1, 16, 8, 1, True), (1, 16, 5, 1, False), (1, 9, 4, 0, True), (2, 8, 8, 0, True)):
        x = rng.standard_normal((4, 50, parts)).astype(np.float32)
        window = np.hanning(length).astype(np.float32)
        cut = frames(x, length, step) * (window[:, None] if windowed else 1)
        held = {"step": np.asarray(step, np.int64), "length": np.asarray(length, np.int64), "window": window}
        node = helper.make_node("STFT", ["x", "step", "window" if windowed else "", "" if windowed else "length"], ["y"], onesided=onesided)
        held.pop("length" if windowed else "window")
        for y in c.outputs(c.model([node], x.shape, 17, held), x):
            np.testing.assert_allclose(y, fourier(cut, 2, False, onesided), rtol=1e-4, atol=1e-4)

    signal, window = rng.standard_normal((4, 20, 1)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
    factor = rng.standard_normal((4, 5, 5, 2)).astype(np.float32)
    nodes = [helper.make_node("STFT", ["p.weight", "step", "w.weight"], ["s"]),
             helper.make_node("Mul", ["s", "x"], ["sx"]), helper.make_node("ReduceSum", ["sx"], ["y"], keepdims=0)]
    found = c.gradients(nodes, factor, {"p.weight": signal, "w.weight": window, "step": np.asarray(3, np.int64)})
    loss = lambda s, w: (fourier(frames(s, 8, 3) * w[:, None], 2, False, True) * factor).sum()
    for name, value in (("p.weight", signal.astype(np.float64)), ("w.weight", window.astype(np.float64))):
        for at in np.ndindex(*value.shape):
            unit = np.zeros(value.shape)
            unit[at] = 1
            expected = loss(unit, window) if name == "p.weight" else loss(signal, unit)
            np.testing.assert_allclose(found[name][at], expected, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main(__doc__, Context)
