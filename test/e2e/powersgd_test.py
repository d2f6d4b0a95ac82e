#!/usr/bin/env python3
"""tessera-compile --compress powersgd: gradients are sent as two thin factors.

usage: powersgd_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases

factor_sums_test compares what ranks hold with the formula, and with each other to the bit. Here are whole runs: the bytes
that are promised, in the report and in the plan; losses near those of whole gradients; what factors lack comes later (the
network `Plane` has a gradient that no parameter changes); checkpoints go on to the bit.
"""
import json
import re

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cases import case, main
from compressing import ROWS, Context, always, report

LAYERS = ((256, 784), (128, 256), (10, 128))  # of the network mlp_train
KIND = "powersgd:rank=2"


class Plane:
    """loss = mean over the batch of the sum of (x W) * t: the gradient of W is x^T t over the batch in every step."""
    SHAPE = (40, 30)

    def __init__(self, c):
        rng = np.random.default_rng(11)
        self.x = rng.standard_normal((ROWS, self.SHAPE[0])).astype(np.float32)
        self.t = rng.standard_normal((ROWS, self.SHAPE[1])).astype(np.float32)
        self.gradient = self.x.T @ self.t / ROWS
        self.path = c.folder / "plane.onnx"
        weight = numpy_helper.from_array(np.zeros(self.SHAPE, np.float32), "w")
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", "t"], ["m"]),
                 helper.make_node("ReduceSum", ["m", "one"], ["s"], keepdims=0),
                 helper.make_node("ReduceMean", ["s"], ["loss"], keepdims=0)]
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, size]) for name, size in zip("xt", self.SHAPE)]
        graph = helper.make_graph(nodes, "plane", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                                  [weight, numpy_helper.from_array(np.array([1]), "one")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), self.path)
        np.save(c.folder / "plane_x.npy", self.x)
        np.save(c.folder / "plane_t.npy", self.t)
        self.data = f"npy:{c.folder}/plane_x.npy,{c.folder}/plane_t.npy"

    def tensors(self, c, mesh, steps, *options, mode="data"):
        """What the checkpoint after so many steps has: `w`, and the states of the compressed sum."""
        return c.trained(self.path, self.data, mesh, steps, *options, mode=mode)


def sent(mesh_size, rank):
    """Bytes that a rank sends for the matrices of mlp_train."""
    return 2 * (mesh_size - 1) / mesh_size * 4 * rank * sum(a + b for a, b in LAYERS)


@case
def what_factors_lack_comes_later(c):
    plane = Plane(c)
    for mesh in ("data=2", "data=4"):
        for kind in ("powersgd:rank=1", "powersgd:rank=4"):
            off = {}
            for steps in (1, 20, 80):
                found = plane.tensors(c, mesh, steps, "--compress", always(kind))
                unsent = found["unsent/w"]
                assert unsent.shape == (int(mesh[-1]), *plane.SHAPE), unsent.shape
                off[steps] = found["w"] + steps * plane.gradient
                # What w lacks is what the ranks hold, together.
                np.testing.assert_allclose(unsent.sum(axis=0), off[steps], atol=1e-4 * steps)
            off = {steps: np.linalg.norm(m) / np.linalg.norm(plane.gradient) for steps, m in off.items()}
            print(f"{kind} {mesh}: lacks {off[1]:.2f} gradients after a step, {off[20]:.2f} after 20, {off[80]:.2f} after 80")
            # Without feedback it would lack 20 and 80 times as much as after one step.
            assert 0.1 < off[1] < 1
            assert off[80] < 1.5 * off[20], off


@case
def as_few_bytes_as_promised(c):
    for mesh, ranks in (("data=2", 2), ("data=4", 4)):
        whole = report(c.mlp(mesh))
        for rank in (1, 4):
            plan = c.mlp(mesh, "--compress", f"powersgd:rank={rank},always", "--fusion", "off")
            train = report(plan)
            compressed = train["compressed"]
            assert compressed["num_sums"] == 3, compressed  # no vector
            np.testing.assert_allclose(compressed["bytes_sent"], sent(ranks, rank))
            np.testing.assert_allclose(compressed["whole_bytes"], 2 * (ranks - 1) / ranks * 4 * sum(a * b for a, b in LAYERS))
            assert train["bytes_sent"] < 0.05 * whole["bytes_sent"], (train["bytes_sent"], whole["bytes_sent"])
            dump = c.run(c.bin / "tessera-dump", plan)
            assert f"compressed to powersgd:rank={rank},always: 3 sums of gradients, another function than on one device" in dump, dump
            found = re.search(r"train: \d+ kernels, (\d+) collectives, ([0-9.]+) KiB sent per step", dump)
            assert found and int(found[1]) == train["num_collectives"], (found and found[0], train["num_collectives"])
            np.testing.assert_allclose(float(found[2]) * 1024, train["bytes_sent"], rtol=2e-3)


@case
def what_is_priced_is_what_runs(c):
    for kind in (KIND, "powersgd:rank=8"):
        train = report(c.mlp("data=4", "--compress", always(kind), "--fusion", "off"))
        steps = sum(train["step_ns"])
        print(f"{kind}: predicted {train['predicted_ns']} ns, the plan's steps {steps} ns")
        assert abs(steps - train["predicted_ns"]) < 0.05 * train["predicted_ns"]


@case
def losses_fall_and_stay_near(c):
    for mesh in ("data=2", "data=4", "data=2,model=2"):
        whole, _ = c.train(c.mlp(mesh), 60)
        for kind, bound in (("powersgd:rank=1", 0.6), ("powersgd:rank=4", 0.6)):
            found, _ = c.train(c.mlp(mesh, "--compress", always(kind)), 60)
            assert abs(found[0] - whole[0]) < 1e-5 * whole[0]
            far = np.abs(np.array(found) - whole) / whole[0]
            print(f"{kind} {mesh}: losses {whole[0]:.4f} .. {whole[-1]:.4f}, compressed .. {found[-1]:.4f}, at most {far.max():.2f} apart")
            # Late gradients: losses are apart on the way, and both networks know their data in the end.
            assert np.mean(whole[-4:]) < 0.01 * whole[0] and np.mean(found[-4:]) < 0.01 * found[0], found
            assert far.max() < bound, (whole, found)


@case
def with_other_options(c):
    for options in (("--clip-norm", "0.5"), ("--loss-scale", "dynamic:initial=1024"), ("--precision", "bf16"),
                    ("--optimizer", "adamw:lr=0.001"), ("--overlap", "on"), ("--recompute", "full"), ("--accumulate", "4")):
        plan = c.mlp("data=2", *options, "--compress", always(KIND))
        compressed = report(plan)["compressed"]
        assert compressed["num_sums"] == 3 and abs(compressed["bytes_sent"] - sent(2, 2)) < 1, (options, compressed)
        whole, _ = c.train(c.mlp("data=2", *options), 30)
        found, _ = c.train(plan, 30)
        far = np.max(np.abs(np.array(found) - whole)) / whole[0]
        print(f"{' '.join(options)}: losses {whole[0]:.4f} .. {whole[-1]:.4f}, compressed .. {found[-1]:.4f}, at most {far:.2f} apart")
        assert far < 0.5 and found[-1] < found[0], (options, whole, found)


@case
def steps_that_the_loss_scale_skips_leave_no_trace(c):
    # The scale is so large that gradients overflow, until it has been halved often enough.
    options = ("--loss-scale", "dynamic:initial=1e30", "--precision", "f16")
    plan = c.mlp("data=2", *options, "--compress", always(KIND))
    losses, text = c.train(plan, 140)
    assert np.all(np.isfinite(losses)) and losses[-1] < losses[0], losses


@case
def one_rank_and_what_pays(c):
    # One rank sends nothing, so it has no states and computes the same.
    plain, _ = c.train(c.mlp("1"), 5)
    alone = c.mlp("1", "--compress", always(KIND))
    assert c.train(alone, 5)[0] == plain
    assert "unsent" not in c.run(c.bin / "tessera-dump", alone, "--all")
    # Over a slow cable the large matrices pay, more than in fewer bits; two messages for the last one do not.
    slow, bits, factors = (report(c.mlp("data=4", *more)) for more in ((), ("--compress", "int8"), ("--compress", "powersgd")))
    assert 1 <= factors["compressed"]["num_sums"] < 3, factors["compressed"]
    assert factors["predicted_ns"] < 0.75 * bits["predicted_ns"] < 0.75 * slow["predicted_ns"]
    text = c.run(c.bin / "tessera-compile", c.models / "mlp_train.onnx", "--mesh", "data=2", "--dim", f"batch={ROWS}", "--train",
                 "--topology", "cpu", "--compress", "powersgd", "-o", c.folder / "none")
    assert "compressed   no sum of gradients: none takes less time in factors of rank 4" in text, text


@case
def a_sharded_update_gets_its_part(c):
    plane = Plane(c)
    strategy = c.folder / "cut.json"
    strategy.write_text(json.dumps([{"op": "w.update", "in": [[2, 1], []]}, {"op": "w.update.1", "in": [[2, 1], [2, 1]]}]))
    options = ("--optimizer", "sgd:lr=1,momentum=0.5", "--compress", always(KIND))
    whole = plane.tensors(c, "data=2", 10, *options)["w"]
    cut = plane.tensors(c, "data=2", 10, *options, "--strategy", strategy, mode="semi-auto")["w"]
    np.testing.assert_allclose(cut, whole, rtol=1e-4, atol=1e-4)


@case
def checkpoints_go_on_to_the_bit(c):
    plan = c.mlp("data=2", "--compress", always(KIND))
    folder = c.folder / "through"
    through, _ = c.train(plan, 12, "--checkpoint-dir", folder, "--checkpoint-every", "6")
    shown = c.run(c.bin / "tessera-ckpt", "show", folder)
    assert "unsent/fc1.weight" in shown and "sent_basis/fc1.weight" in shown and "unsent/fc1.bias" not in shown, shown
    again, text = c.train(plan, 12, "--resume", folder / "step-00000006")
    assert again == through[6:], (again, through[6:])
    assert "dropped" not in text, text
    # Other ranks begin with nothing left, and say so.
    for mesh in ("data=4", "1"):
        found, text = c.train(c.mlp(mesh, "--compress", always(KIND)), 12, "--resume", folder / "step-00000006")
        assert "what was left of compressed sums is dropped" in text, text
        assert np.max(np.abs(np.array(found) - through[6:])) < 0.15 * through[0], (found, through)
    # Another rank takes what is left, and another basis; so does a checkpoint of other compression.
    found, text = c.train(c.mlp("data=2", "--compress", "powersgd:rank=3,always"), 12, "--resume", folder / "step-00000006")
    assert "sent_basis/fc1.weight" in text and "unsent/fc1.weight" not in text, text
    c.train(c.mlp("data=2", "--compress", "int8:always"), 6, "--checkpoint-dir", c.folder / "bits")
    c.train(plan, 8, "--resume", c.folder / "bits")


@case
def verify_tells_and_does_not_judge(c):
    plan = c.mlp("data=2", "--compress", always(KIND))
    for options in ((), ("--f64", "--backend", "reference")):
        text = c.run(c.bin / "tessera-run", plan, "--data", c.data(), "--verify", *options)
        assert "(compressed) are not judged" in text and "verified: " in text and "FAILED" not in text, text


@case
def threads_and_processes_give_the_same(c):
    plan = c.mlp("data=2", "--compress", always(KIND))
    threads, _ = c.train(plan, 5)
    assert c.train(plan, 5)[0] == threads
    assert c.train(plan, 5, "--processes")[0] == threads


@case
def stages(c):
    whole, _ = c.train(c.mlp("stage=2,data=2", "--accumulate", "2"), 20)
    found, _ = c.train(c.mlp("stage=2,data=2", "--accumulate", "2", "--compress", always(KIND)), 20)
    far = np.max(np.abs(np.array(found) - whole)) / whole[0]
    print(f"at most {far:.2f} apart")
    assert far < 0.5 and found[-1] < found[0], (whole, found)


@case
def refused(c):
    for kind, words in (("powersgd:rank=0", "a rank is 1 to 128"), ("powersgd:rank=129", "a rank is 1 to 128"),
                        ("powersgd:rank=two", "a rank is 1 to 128"), ("powersgd:block=8", "'block=8' is none of its options"),
                        ("powersgd:", "nothing follows the colon"), ("power", "there is no 'power'")):
        text = c.mlp("data=2", "--compress", kind, code=2)
        assert words in text and "powersgd[:rank=R]" in text and text.count("error") == 1, text
    text = c.mlp("data=2", "--compress", "powersgd", "--reproducible", code=2)
    assert "promises the same bits on any" in text, text


if __name__ == "__main__":
    main(__doc__, Context)
