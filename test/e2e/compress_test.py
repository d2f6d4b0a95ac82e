#!/usr/bin/env python3
"""tessera-compile --compress: gradients are sent in fewer bits.

usage: compress_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases

It is another function than on one device, so nothing is compared to the bit. What must hold: as many bytes as are
promised; losses near those of whole gradients; what rounding leaves comes later (the network `Line` has a gradient that
no parameter changes, so that every step rounds alike and errors without feedback add up); checkpoints have what was left.
powersgd_test.py has the sums that are sent as factors.
"""
import itertools
import json
import re

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cases import case, main
from compressing import ROWS, Context, always, report

TYPES = {"bf16": 0.5, "f16": 0.5, "int8": 0.25 + 1 / 256, "int8:block=32": 0.25 + 1 / 32}


class Line:
    """y = mean over the batch of x . w, which is the loss: the gradient of w is the mean of x in every step."""
    SIZE = 200

    def __init__(self, c):
        rng = np.random.default_rng(7)
        # Every number rounds otherwise, and many are small beside the largest of their block.
        self.x = (rng.standard_normal((ROWS, self.SIZE)) * 10 ** rng.uniform(-3, 0, self.SIZE)).astype(np.float32)
        self.path = c.folder / "line.onnx"
        weight = numpy_helper.from_array(np.zeros((self.SIZE, 1), np.float32), "w")
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("ReduceMean", ["h"], ["loss"], keepdims=0)], "line",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, self.SIZE])],
            [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], [weight])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), self.path)
        np.save(c.folder / "line_x.npy", self.x)
        self.data = f"npy:{c.folder}/line_x.npy"

    def weights(self, c, mesh, steps, *options, mode="data"):
        return c.trained(self.path, self.data, mesh, steps, *options, mode=mode)["w"].ravel()


@case
def nothing_that_was_rounded_is_lost(c):
    line = Line(c)
    gradient = line.x.mean(axis=0)
    # Ranks that share memory reduce-scatter the narrow terms, and gather the sum as it is.
    for kind, mesh, topology in itertools.product(TYPES, ("data=2", "data=4"), ("cpu", None)):
        options = ("--topology", topology) if topology else ()
        off = {}
        for steps in (1, 40):
            whole = line.weights(c, mesh, steps)
            np.testing.assert_allclose(whole, -steps * gradient, rtol=1e-4, atol=1e-7)
            off[steps] = np.abs(line.weights(c, mesh, steps, "--compress", always(kind), *options) - whole).max()
        print(f"{kind} {mesh}: off by {off[1]:.2e} after a step, by {off[40]:.2e} after 40")
        assert off[1] > 0, "nothing was rounded"
        # Each step rounds alike. Without feedback it would be off by 40 times as much.
        assert off[40] < 4 * off[1], f"{kind} {mesh}: {off}"


@case
def as_few_bytes_as_promised(c):
    for ranks in (2, 4):
        mesh = f"data={ranks}"
        whole = report(c.mlp(mesh))
        for kind, share in TYPES.items():
            plan = c.mlp(mesh, "--compress", always(kind))
            sent = report(plan)
            assert sent["compressed"]["num_sums"] == 6, sent["compressed"]
            # Numbers and scales of 6 sums are sent and gathered in pieces of whole bytes, of which a rank sends all but its own.
            more = sent["compressed"]["bytes_sent"] - share * sent["compressed"]["whole_bytes"]
            assert -1e-6 < more < 6 * 2 * 2 * (ranks - 1), (kind, ranks, more, sent["compressed"])
            assert sent["bytes_sent"] < (share + 0.01) * whole["bytes_sent"], (sent["bytes_sent"], whole["bytes_sent"])
            dump = c.run(c.bin / "tessera-dump", plan)
            assert f"compressed to {always(kind)}: 6 sums of gradients, another function than on one device" in dump, dump


@case
def what_is_priced_is_what_runs(c):
    for kind in TYPES:
        plan = c.mlp("data=4", "--compress", always(kind), "--fusion", "off")
        train = report(plan)
        dump = c.run(c.bin / "tessera-dump", plan)
        found = re.search(r"train: \d+ kernels, (\d+) collectives, ([0-9.]+) KiB sent per step", dump)
        assert found, dump
        assert int(found[1]) == train["num_collectives"], (found[0], train["num_collectives"])
        # The plan's pieces have whole blocks: a bias of ten numbers is four of 256.
        assert 1 <= float(found[2]) * 1024 / train["bytes_sent"] < 1.05, (found[0], train["bytes_sent"])
        # The steps of the plan, one by one, and the sums as they were priced.
        steps = sum(train["step_ns"])
        print(f"{kind}: predicted {train['predicted_ns']} ns, the plan's steps {steps} ns")
        assert abs(steps - train["predicted_ns"]) < 0.05 * train["predicted_ns"]


@case
def losses_stay_near(c):
    for mesh, mode in (("data=2", "data"), ("data=4", "data"), ("data=2,model=2", "data")):
        whole, _ = c.train(c.mlp(mesh, mode=mode), 30)
        for kind in TYPES:
            found, _ = c.train(c.mlp(mesh, "--compress", always(kind), mode=mode), 30)
            far = np.max(np.abs(np.array(found) - whole)) / whole[0]
            print(f"{kind} {mesh}: losses {whole[0]:.4f} .. {whole[-1]:.4f}, compressed .. {found[-1]:.4f}, at most {far:.1e} apart")
            assert found[0] == whole[0] or abs(found[0] - whole[0]) < 1e-5 * whole[0]
            assert far < (0.02 if kind in ("bf16", "f16") else 0.05), (whole, found)


@case
def the_search_counts_on_it(c):
    # A batch with which two ranks are worth while, and so much the more with half the bytes.
    options = ("--dim", "batch=16384", "--optimizer", "sgd:lr=0.1")
    whole, half = (report(c.compile(c.models / "mlp_train.onnx", "2", *options, *more, mode="auto"))
                   for more in ((), ("--compress", "bf16")))
    assert half["compressed"]["num_sums"] >= 1, half["compressed"]
    assert half["predicted_ns"] < 0.85 * whole["predicted_ns"], (half["predicted_ns"], whole["predicted_ns"])


@case
def a_sharded_update_gets_its_part(c):
    # The momentum is cut in two: each rank gets its part of the sum, and rounds nothing again.
    strategy = c.folder / "cut.json"
    strategy.write_text(json.dumps([{"op": "w.update", "in": [[2, 1], []]}, {"op": "w.update.1", "in": [[2, 1], [2, 1]]}]))
    line = Line(c)
    options = ("--strategy", strategy, "--optimizer", "sgd:lr=1,momentum=0.5")
    whole = line.weights(c, "data=2", 40, *options, mode="semi-auto")
    for kind in TYPES:
        found = line.weights(c, "data=2", 40, *options, "--compress", always(kind), mode="semi-auto")
        shown = c.run(c.bin / "tessera-ckpt", "show", c.folder / f"run{c.count}")
        assert "unsent/w" in shown and "unsent_sum/w" not in shown, shown
        off = np.abs(found - whole).max()
        print(f"{kind}: off by {off:.2e}")
        assert 0 < off < 0.01, off


@case
def micro_batches_are_added_before(c):
    for kind in TYPES:
        once = report(c.mlp("data=2", "--compress", always(kind)))["compressed"]
        often = report(c.mlp("data=2", "--compress", always(kind), "--accumulate", "4"))["compressed"]
        assert once == often, (once, often)
    whole, _ = c.train(c.mlp("data=2", "--accumulate", "4"), 20)
    found, _ = c.train(c.mlp("data=2", "--accumulate", "4", "--compress", "bf16:always"), 20)
    np.testing.assert_allclose(found, whole, rtol=0.02)


@case
def with_other_options(c):
    for options in (("--clip-norm", "0.5"), ("--loss-scale", "dynamic:initial=1024"), ("--precision", "bf16"),
                    ("--optimizer", "adamw:lr=0.001"), ("--overlap", "on"), ("--recompute", "full")):
        whole, _ = c.train(c.mlp("data=2", *options), 20)
        for kind in ("bf16", "int8"):
            plan = c.mlp("data=2", *options, "--compress", always(kind))
            assert report(plan)["compressed"]["num_sums"] == 6, (options, report(plan).get("compressed"))
            found, _ = c.train(plan, 20)
            assert found != whole
            far = np.max(np.abs(np.array(found) - whole)) / whole[0]
            print(f"{' '.join(options)} {kind}: at most {far:.1e} apart")
            assert far < 0.05, (options, kind, whole, found)


@case
def one_rank_and_what_does_not_pay(c):
    # One rank sends nothing, so it has no states and computes the same.
    plain, _ = c.train(c.mlp("1"), 5)
    alone = c.mlp("1", "--compress", "int8:always")
    assert c.train(alone, 5)[0] == plain
    assert "unsent" not in c.run(c.bin / "tessera-dump", alone, "--all")
    # Threads of one machine have memory between them: nothing pays, and the plan is as without.
    text = c.run(c.bin / "tessera-compile", c.models / "mlp_train.onnx", "--mesh", "data=2", "--dim", f"batch={ROWS}", "--train",
                 "--topology", "cpu", "--compress", "bf16", "-o", c.folder / "none")
    assert "compressed   no sum of gradients: none takes less time in bf16" in text, text
    # Over a slow cable the large ones do, and biases travel together as they are.
    slow = report(c.mlp("data=4"))
    plan = c.mlp("data=4", "--compress", "bf16")
    found = report(plan)
    assert 1 <= found["compressed"]["num_sums"] < 6, found["compressed"]
    assert found["predicted_ns"] < 0.75 * slow["predicted_ns"], (found["predicted_ns"], slow["predicted_ns"])
    c.train(plan, 2)


@case
def checkpoints_have_what_is_left(c):
    for kind in ("bf16", "int8"):
        plan = c.mlp("data=2", "--compress", always(kind))
        through, _ = c.train(plan, 12, "--checkpoint-dir", c.folder / f"through-{kind}", "--checkpoint-every", "6")
        folder = c.folder / f"through-{kind}"
        shown = c.run(c.bin / "tessera-ckpt", "show", folder)
        assert "unsent/" in shown and "unsent_sum/" in shown, shown
        # The same ranks go on to the bit.
        again, text = c.train(plan, 12, "--resume", folder / "step-00000006")
        assert again == through[6:], (again, through[6:])
        assert "dropped" not in text, text
        # Others begin with nothing left, and say so.
        for mesh in ("data=4", "1"):
            other = c.mlp(mesh, "--compress", always(kind))
            found, text = c.train(other, 12, "--resume", folder / "step-00000006")
            assert "what was left of compressed sums is dropped" in text, text
            np.testing.assert_allclose(found, through[6:], rtol=0.05)
        # A checkpoint without any is one, too.
        plain = c.mlp("data=2")
        c.train(plain, 6, "--checkpoint-dir", c.folder / f"plain-{kind}")
        c.train(plan, 8, "--resume", c.folder / f"plain-{kind}")
        found, text = c.train(plain, 12, "--resume", folder / "step-00000006")
        assert "what was left of compressed sums is dropped" in text and len(found) == 6, text


@case
def verify_tells_and_does_not_judge(c):
    plan = c.mlp("data=2", "--compress", "bf16:always")
    for options in ((), ("--f64", "--backend", "reference")):
        text = c.run(c.bin / "tessera-run", plan, "--data", c.data(), "--verify", *options)
        assert "(compressed) are not judged" in text and "verified: " in text, text
        assert "(compressed)" in text and "FAILED" not in text, text


@case
def threads_and_processes_give_the_same(c):
    for kind in ("bf16", "int8"):
        plan = c.mlp("data=2", "--compress", always(kind))
        threads, _ = c.train(plan, 5)
        processes, _ = c.train(plan, 5, "--processes")
        assert threads == processes, (threads, processes)


@case
def stages(c):
    whole, _ = c.train(c.mlp("stage=2,data=2", "--accumulate", "2"), 10)
    for kind in ("bf16", "int8"):
        found, _ = c.train(c.mlp("stage=2,data=2", "--accumulate", "2", "--compress", always(kind)), 10)
        np.testing.assert_allclose(found, whole, rtol=0.05)


@case
def refused(c):
    for options, words in ((("--compress", "bf17"), "there is no 'bf17'"), (("--compress", "int8:block=4"), "a block has 8 to"),
                           (("--compress", "bf16:block=32"), "none of its options"),
                           (("--compress", "bf16", "--reproducible"), "promises the same bits on any"),):
        text = c.mlp("data=2", *options, code=2)
        assert words in text, text


if __name__ == "__main__":
    main(__doc__, Context)
