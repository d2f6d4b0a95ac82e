#!/usr/bin/env python3
"""tessera-compile --precision bf16 and f16: products in 16 bits, all else in float32, on every mesh.

usage: precision_test.py --bin DIR --models DIR [CASE...]
"""
import json

import numpy as np

from cases import Programs, case, main
from tensors import read_safetensors, whole_tensors

ROWS, STEPS, LR = 16, 6, 0.002


class Context(Programs):
    def compile(self, model, precision, *options, mesh="1", mode="data", train=True, rows=ROWS):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        training = ("--train",) if train else ()
        if train and "--optimizer" not in options:
            training += ("--optimizer", "sgd:lr=0.05")
        self.run(self.bin / "tessera-compile", self.models / f"{model}.onnx", "--mesh", mesh, "--mode", mode, "--dim",
                 f"batch={rows}", *training, "--seed", "1", "--precision", precision, *options, "-o", plan)
        return plan

    def losses(self, plan, data, *options):
        log = plan / "log.jsonl"
        self.run(self.bin / "tessera-run", plan, "--data", data, "--steps", STEPS, "--log", log, *options)
        found = np.array([json.loads(line)["loss"] for line in log.read_text().splitlines()])
        assert len(found) == STEPS and np.all(np.isfinite(found)) and found[0] != found[-1], found
        return found

    def data(self, x, y):
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "y.npy", y)
        return f"npy:{self.folder}/x.npy,{self.folder}/y.npy"


def random_data(c, shape, rows=ROWS):
    rng = np.random.default_rng(5)
    return c.data(rng.standard_normal((rows, *shape)).astype(np.float32), rng.integers(0, 10, rows))


def bf16(x):
    """Rounds to the nearest bfloat16, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def train_mlp(p, x, y, steps, lr, narrow=False):
    """What mixed precision means, written down: three layers in NumPy, every operator by itself."""
    p = {k: v.astype(np.float64) for k, v in p.items()}
    xl = bf16(x.reshape(len(x), -1)).astype(np.float64)
    losses = []
    for _ in range(steps):
        w = {k: bf16(v).astype(np.float64) for k, v in p.items()}
        r1 = bf16(np.maximum(bf16(xl @ w["fc1.weight"].T) + w["fc1.bias"], 0)).astype(np.float64)
        r2 = bf16(np.maximum(bf16(r1 @ w["fc2.weight"].T) + w["fc2.bias"], 0)).astype(np.float64)
        logits = r2 @ w["fc3.weight"].T + p["fc3.bias"]  # float32: nothing but the loss reads them
        if narrow:  # the products of the backward half depend on them
            logits = bf16(bf16(r2 @ w["fc3.weight"].T) + w["fc3.bias"]).astype(np.float64)
        e = np.exp(logits - logits.max(1, keepdims=True))
        s = e / e.sum(1, keepdims=True)
        losses.append(-np.log(s[np.arange(len(y)), y]).mean())
        d3 = (s - np.eye(10)[y]) / len(y)
        l3 = bf16(d3).astype(np.float64)
        l2 = np.where(r2 > 0, bf16(l3 @ w["fc3.weight"]), 0).astype(np.float64)
        l1 = np.where(r1 > 0, bf16(l2 @ w["fc2.weight"]), 0).astype(np.float64)
        g = {"fc3.weight": l3.T @ r2, "fc3.bias": d3.sum(0), "fc2.weight": l2.T @ r1, "fc2.bias": l2.sum(0),
             "fc1.weight": l1.T @ xl, "fc1.bias": l1.sum(0)}
        for k in p:
            p[k] = p[k] - lr * g[k]
    return np.array(losses)


@case
def means_what_numpy_computes(c):
    optimizer = ("--optimizer", f"sgd:lr={LR}")
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((ROWS, 1, 28, 28)).astype(np.float32), rng.integers(0, 10, ROWS)
    data = c.data(x, y)
    single = c.losses(c.compile("mlp_train", "f32", *optimizer), data)
    plan = c.compile("mlp_train", "bf16", *optimizer, "--no-fuse")
    expected = train_mlp(read_safetensors(plan / "weights.safetensors"), x, y, STEPS, LR)
    fused = c.compile("mlp_train", "bf16", *optimizer)  # keeps digits between operators
    distance = np.max(np.abs(single / expected - 1))
    for p, options, tolerance in ((plan, ("--backend", "reference", "--f64"), 1e-6), (plan, (), 3e-5), (fused, (), 2e-3)):
        error = np.max(np.abs(c.losses(p, data, *options) / expected - 1))
        print(f"      {' '.join(options)}: {error:.1e} from NumPy, which is {distance:.1e} from float32")
        assert error < tolerance, (options, error, distance)
    assert distance > 3e-4, distance
    narrow = c.compile("mlp_train", "bf16", *optimizer, "--no-fuse", "--products", "narrow")
    expected = train_mlp(read_safetensors(narrow / "weights.safetensors"), x, y, STEPS, LR, narrow=True)
    for options, tolerance in ((("--backend", "reference", "--f64"), 1e-6), ((), 3e-5)):
        error = np.max(np.abs(c.losses(narrow, data, *options) / expected - 1))
        print(f"      narrow products {' '.join(options)}: {error:.1e} from NumPy")
        assert error < tolerance, (options, error)


def train_mlp_by_adam(p, x, y, steps, lr, decay=0.01, beta1=0.9, beta2=0.999, eps=1e-8):
    """Three layers, mean cross-entropy and AdamW in NumPy's float64."""
    p = {k: v.astype(np.float64) for k, v in p.items()}
    m, v = ({k: np.zeros_like(w) for k, w in p.items()} for _ in range(2))
    x, losses = x.reshape(len(x), -1).astype(np.float64), []
    for t in range(1, steps + 1):
        h1 = np.maximum(x @ p["fc1.weight"].T + p["fc1.bias"], 0)
        h2 = np.maximum(h1 @ p["fc2.weight"].T + p["fc2.bias"], 0)
        logits = h2 @ p["fc3.weight"].T + p["fc3.bias"]
        e = np.exp(logits - logits.max(1, keepdims=True))
        s = e / e.sum(1, keepdims=True)
        losses.append(-np.log(s[np.arange(len(y)), y]).mean())
        d3 = (s - np.eye(10)[y]) / len(y)
        d2 = (d3 @ p["fc3.weight"]) * (h2 > 0)
        d1 = (d2 @ p["fc2.weight"]) * (h1 > 0)
        g = {"fc3.weight": d3.T @ h2, "fc3.bias": d3.sum(0), "fc2.weight": d2.T @ h1, "fc2.bias": d2.sum(0),
             "fc1.weight": d1.T @ x, "fc1.bias": d1.sum(0)}
        for k in p:
            m[k] = beta1 * m[k] + (1 - beta1) * g[k]
            v[k] = beta2 * v[k] + (1 - beta2) * g[k] ** 2
            root = np.sqrt(v[k] / (1 - beta2 ** t)) + eps
            p[k] = p[k] * (1 - lr * decay) - lr / (1 - beta1 ** t) * m[k] / root
    return np.array(losses)


@case
def numbers_are_double_in_a_run_in_double_precision(c):
    """What the compiler writes into a float32 program, such as 1 / 12 of a mean and the 0.9 of Adam, is not float32 under --f64."""
    rows, rng = 12, np.random.default_rng(7)
    x, y = rng.standard_normal((rows, 1, 28, 28)).astype(np.float32), rng.integers(0, 10, rows)
    data = c.data(x, y)
    for mesh, mode in (("1", "data"), ("data=2,model=2", "auto")):
        plan = c.compile("mlp_train", "f32", "--optimizer", f"adamw:lr={LR / 10}", mesh=mesh, mode=mode, rows=rows)
        expected = train_mlp_by_adam(read_safetensors(plan / "weights.safetensors"), x, y, STEPS, LR / 10)
        error = np.abs(c.losses(plan, data, "--f64", "--backend", "reference") / expected - 1)
        print(f"      {mesh}: {' '.join(f'{e:.1e}' for e in error)} from NumPy's float64")
        assert error.max() < 1e-12, error


@case
def trains_as_float32_does(c):
    for model, shape, lr, tolerance in (("lenet_train", (1, 28, 28), 0.0002, 3e-3),
                                        ("resnet18_cifar_train", (3, 32, 32), 0.002, 2e-2)):
        data = random_data(c, shape)
        options = ("--optimizer", f"sgd:lr={lr}")
        single, brain, half = (c.losses(c.compile(model, p, *options), data) for p in ("f32", "bf16", "f16"))
        np.testing.assert_allclose(brain, single, rtol=tolerance, err_msg=model)
        np.testing.assert_allclose(half, single, rtol=tolerance / 4, err_msg=model)
        assert not np.array_equal(brain, single) and not np.array_equal(half, single)


@case
def meshes_agree(c):
    """Sums in double precision leave only numbers that fall within 1e-16 of two bfloat16's middle."""
    f64 = ("--f64", "--backend", "reference")
    for model, shape, meshes in (("mlp_train", (1, 28, 28), ("data=4:data", "data=2,model=2:auto", "data=3:data")),
                                 ("lenet_train", (1, 28, 28), ("data=2,model=2:auto",))):
        data = random_data(c, shape)
        whole = c.losses(c.compile(model, "bf16"), data, *f64)
        for text in meshes:
            mesh, mode = text.split(":")
            plan = c.compile(model, "bf16", mesh=mesh, mode=mode)
            np.testing.assert_allclose(c.losses(plan, data, *f64), whole, rtol=1e-7, err_msg=f"{model} {text}")
            assert "verified" in c.run(c.bin / "tessera-run", plan, "--data", data, "--steps", 2, "--verify")


@case
def exact_where_numbers_are(c):
    """Weights of 1, one power of two per row, small integers as targets: no sum of products is rounded anywhere, so that
    every rank count makes the same weights to the last bit."""
    rng = np.random.default_rng(3)
    x = np.zeros((ROWS, 784), np.float32)
    x[np.arange(ROWS), rng.permutation(784)[:ROWS]] = rng.choice([-1, 1, 1], ROWS) * 2.0**-15
    data = c.data(x.reshape(ROWS, 1, 28, 28), rng.integers(-1, 2, (ROWS, 10)).astype(np.float32))
    options = ("--loss", "mse", "--optimizer", "sgd:lr=1024", "--init", "ones", "--init", "*.bias=zeros")
    weights = {}
    for text in ("1:data", "data=2:data", "data=4:data", "data=2,model=2:auto", "model=4:auto"):
        mesh, mode = text.split(":")
        plan = c.compile("mlp_train", "bf16", *options, mesh=mesh, mode=mode)
        c.run(c.bin / "tessera-run", plan, "--data", data, "--steps", 1, "--save-weights", c.folder / "after")
        weights[text] = {k: v.copy() for k, v in read_safetensors(c.folder / "after").items() if k.endswith("weight")}
    for text, found in weights.items():
        for name, w in weights["1:data"].items():
            assert np.any(w != 1) and np.array_equal(found[name], w), f"{text}: {name}"


@case
def sums_cross_ranks_in_float32(c):
    plan = c.compile("mlp_train", "bf16", "--dump-phases", c.folder / "phases", mesh="data=2,model=2", mode="auto")
    text = (c.folder / "phases/5-local.mlir").read_text()
    reducing = [line for line in text.splitlines() if "dist.collective" in line and "reduce" in line]
    assert reducing and not any("bf16" in line for line in reducing), reducing
    assert "wide" in text and "xbf16>" in text
    assert plan.exists()


@case
def narrow_products_cross_ranks_in_16_bits(c):
    """Of a cut product that another one depends on. Gradients of parameters cross in float32, and every mesh is verified."""
    data = random_data(c, (1, 28, 28))
    strategy = c.folder / "inner.json"
    strategy.write_text(json.dumps([{"op": "/fc2/Gemm", "in": [["data", "model"], [None, "model"]]}]))
    options = ("--products", "narrow", "--optimizer", f"sgd:lr={LR}")
    whole = c.losses(c.compile("mlp_train", "bf16", *options), data)
    plan = c.compile("mlp_train", "bf16", *options, "--strategy", strategy, "--dump-phases", c.folder / "narrow",
                     mesh="data=2,model=2", mode="semi-auto")
    text = (c.folder / "narrow/5-local.mlir").read_text()
    reducing = [line for line in text.splitlines() if "dist.collective" in line and "reduce" in line]
    assert any("bf16" in line for line in reducing) and any("f32" in line for line in reducing), reducing
    np.testing.assert_allclose(c.losses(plan, data), whole, rtol=2e-3)
    assert "verified" in c.run(c.bin / "tessera-run", plan, "--data", data, "--steps", 2, "--verify")
    model = "resnet18_cifar_train"
    plan = c.compile(model, "f16", "--products", "narrow", mesh="data=2,model=2", mode="auto")
    assert "verified" in c.run(c.bin / "tessera-run", plan, "--data", random_data(c, (3, 32, 32)), "--steps", 2, "--verify")


@case
def takes_less_memory(c):
    for model in ("resnet18_cifar_train", "lenet_train"):
        single, mixed = (json.load(open(c.compile(model, p, rows=64) / "report.json"))["memory"]["activation_bytes"]
                         for p in ("f32", "bf16"))
        print(f"      {model}: activations {mixed / single:.2f} of float32's")
        assert mixed < 0.75 * single, (model, mixed, single)


@case
def follows_strategies(c):
    data = random_data(c, (1, 28, 28))
    whole = c.losses(c.compile("mlp_train", "bf16"), data)
    given = c.folder / "given.json"
    given.write_text(json.dumps([{"op": "/fc1/Gemm", "in": [[None, None], ["model", None], ["model"]]}]))
    found = c.losses(c.compile("mlp_train", "bf16", "--strategy", given, mesh="model=2", mode="semi-auto"), data)
    np.testing.assert_allclose(found, whole, rtol=2e-3)


@case
def evaluates_and_infers(c):
    data = random_data(c, (1, 28, 28))
    outputs = {}
    for precision in ("f32", "bf16", "f16"):
        plan = c.compile("mlp_eval", precision, train=False)
        c.run(c.bin / "tessera-run", plan, "--data", f"npy:{c.folder}/x.npy", "--infer", "--output", c.folder / precision)
        outputs[precision] = np.load(next((c.folder / precision).glob("*.npy")))
        assert outputs[precision].dtype == np.float32
    scale = np.max(np.abs(outputs["f32"]))
    for precision, low, high in (("bf16", 1e-4, 2e-2), ("f16", 1e-5, 2e-3)):
        error = np.max(np.abs(outputs[precision] - outputs["f32"])) / scale
        assert low < error < high, (precision, error)
    text = c.run(c.bin / "tessera-run", c.compile("mlp_train", "bf16"), "--data", data, "--eval")
    assert "loss" in text, text


@case
def float16_trains(c):
    """Close to float32, on every mesh; a small scale loses gradients that the default keeps. Steps are small: after large ones
    maxima and ReLUs choose other elements, and float16 with sums in float64 is 0.4 % from float32 for some images."""
    data = random_data(c, (1, 28, 28))
    for optimizer in ("sgd:lr=0.0002,momentum=0.9", "adam:lr=0.0001"):
        options = ("--optimizer", optimizer)
        single, half = (c.losses(c.compile("lenet_train", p, *options), data) for p in ("f32", "f16"))
        np.testing.assert_allclose(half, single, rtol=1e-3)
        assert not np.array_equal(half, single)
        for mesh, mode in (("data=4", "data"), ("data=2,model=2", "auto")):
            plan = c.compile("lenet_train", "f16", *options, mesh=mesh, mode=mode)
            f64 = ("--f64", "--backend", "reference")
            np.testing.assert_allclose(c.losses(plan, data, *f64), c.losses(c.compile("lenet_train", "f16", *options), data, *f64),
                                       rtol=1e-6)
            assert "verified" in c.run(c.bin / "tessera-run", plan, "--data", data, "--steps", 2, "--verify")
    lost = c.compile("lenet_train", "f16", "--loss-scale", "static:scale=1e-6", "--optimizer", "sgd:lr=0.05")
    kept = c.compile("lenet_train", "f16", "--optimizer", "sgd:lr=0.05")
    single = c.losses(c.compile("lenet_train", "f32", "--optimizer", "sgd:lr=0.05"), data)
    errors = [np.max(np.abs(c.losses(p, data) / single - 1)) for p in (lost, kept)]
    print(f"      loss scale 1e-6: {errors[0]:.1e}, default: {errors[1]:.1e} from float32")
    assert errors[0] > 10 * errors[1], errors


@case
def overflowing_steps_are_skipped(c):
    """From 2^40 the scale halves until the gradients are finite; no step before that changes anything but the scale."""
    data = random_data(c, (1, 28, 28))
    for mesh, mode in (("1", "data"), ("data=2,model=2", "auto")):
        plan = c.compile("mlp_train", "f16", "--loss-scale", "dynamic:initial=1099511627776,interval=4", "--optimizer",
                         "adam:lr=0.001", mesh=mesh, mode=mode)
        log = plan / "log.jsonl"
        c.run(c.bin / "tessera-run", plan, "--data", data, "--steps", 60, "--log", log, "--checkpoint-dir", c.folder / mesh)
        losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
        still = next(i for i, loss in enumerate(losses) if loss != losses[0]) - 1
        assert 5 < still < 40 and losses[-1] < 0.5 * losses[0], losses
        state = whole_tensors(max((c.folder / mesh).glob("step-*")))
        skipped, good, scale = (state["loss_scale/" + n].item() for n in ("skipped", "good", "scale"))
        assert skipped >= still and 0 <= good < 4, (still, skipped, good)
        grown = np.log2(scale / 2.0**40) + skipped  # all whole powers of two
        assert grown >= 1 and grown == int(grown), (scale, skipped)


@case
def loss_scales_are_checked(c):
    for text, expected in (("dynamic:initial=0", "initial"), ("static", "needs scale"), ("often", "none, static, dynamic"),
                           ("dynamic:interval=0", "interval")):
        found = c.run(c.bin / "tessera-compile", c.models / "mlp_train.onnx", "--dim", "batch=4", "--train", "--loss-scale", text,
                      "-o", c.folder / "none", code=2)
        assert "loss scale" in found and expected in found and not (c.folder / "none").exists(), found


if __name__ == "__main__":
    main(__doc__, Context)
