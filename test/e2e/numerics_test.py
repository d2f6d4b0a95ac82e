#!/usr/bin/env python3
"""--check-numerics: steps whose numbers are not finite end the run, are left out, or are gone back over, on all ranks
alike, and the operator that spoilt them is named.

usage: numerics_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import filecmp
import json
import pathlib
import re
import shutil
import sys

import numpy as np

from cases import case, main
from launching import Launching, expect

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from networks import Network  # noqa: E402

BATCH, SPOILT = 8, 2  # of five batches


class Context(Launching):
    def batches(self, name, *numbers, spoil=None, value=np.nan, sample=5):
        """A data source of these batches, in order; in batch `spoil` one sample of rank 2 (of four) has a bad number."""
        x, y = (np.load(self.folder / f"{n}.npy") for n in "xy")
        if spoil is not None:
            x[spoil * BATCH + sample, 0, 7, 9] = value
        rows = np.concatenate([np.arange(b * BATCH, (b + 1) * BATCH) for b in numbers])
        np.save(self.folder / f"{name}_x.npy", x[rows])
        np.save(self.folder / f"{name}_y.npy", y[rows])
        return f"npy:{self.folder}/{name}_x.npy,{self.folder}/{name}_y.npy"

    def train(self, plan, data, *options, launcher=(), code=0, epochs=True):
        command = [*launcher, str(self.bin / "tessera-run"), str(plan), "--data", data, *map(str, options)]
        return self.finish(self.start(command + (["--epochs", "1"] if epochs else [])), code=code)

    def weights_without(self, plan, *numbers):
        """What training on these batches alone gives."""
        path = self.folder / f"without{''.join(map(str, numbers))}.safetensors"
        self.train(plan, self.batches("good", *numbers), "--save-weights", path)
        return path

    def network(self, write):
        """A plan on two ranks of a network that `write` makes of [8, 4] numbers, and data that it fails on where an input is 0."""
        net = Network()
        out = write(net, net.input("x", [BATCH, 4]))
        net.write(self.folder / "net.onnx", out, [BATCH, 4])
        self.run(self.bin / "tessera-compile", self.folder / "net.onnx", "--inputs", "x", "--mesh", "data=2", "--mode", "data",
                 "--train", "--loss", "mse", "--optimizer", "sgd:lr=0.01", "--no-fuse", "-o", self.folder / "net")
        x = np.random.default_rng(5).uniform(1, 2, (5 * BATCH, 4)).astype(np.float32)
        x[SPOILT * BATCH + 6] = 0  # of rank 1
        np.save(self.folder / "net_x.npy", x)
        np.save(self.folder / "net_y.npy", np.ones_like(x))
        return self.folder / "net", f"npy:{self.folder}/net_x.npy,{self.folder}/net_y.npy"


def launches(c):
    yield "threads", (), ()
    yield "processes", (), ("--processes",)
    if shutil.which("mpirun"):
        yield "mpi", ("mpirun", "-n", "4", "--oversubscribe"), ()


@case
def stop_names_the_rank_and_what_it_read(c):
    plan = c.compile(mode="data", mesh="data=4")
    for value, text in ((np.nan, "a NaN"), (np.inf, "an infinity")):
        data = c.batches("bad", *range(5), spoil=SPOILT, value=value)
        for name, launcher, options in launches(c):
            said = c.train(plan, data, "--check-numerics", "stop", *options, launcher=launcher,
                           code=1 if launcher else 3)  # MPI_Abort knows one code
            needed = rf"step 3, batch 2: .* has {text} before the step on rank 2"
            expect(re.search(needed, said) and "the batch's input" in said, f"{name}: no '{needed}' in\n{said}")
    # Another start would not help, so there is none.
    said = c.train(plan, data, "--check-numerics", "stop", "--restarts", 3, "--checkpoint-dir", c.folder / "run", code=3)
    expect("starting again" not in said, said)
    expect("not finite" not in c.train(plan, data), "it is checked though nobody asked")


@case
def skip_leaves_a_batch_out_and_nothing_else(c):
    plan = c.compile(mode="data", mesh="data=4")
    data = c.batches("bad", *range(5), spoil=SPOILT)
    expected = c.weights_without(plan, 0, 1, 3, 4)
    for name, launcher, options in launches(c):
        after, log = c.folder / f"{name}.safetensors", c.folder / f"{name}.jsonl"
        said = c.train(plan, data, "--check-numerics", "skip", "--save-weights", after, "--log", log, *options, launcher=launcher)
        expect("rank 2; its update is left out" in said and "not finite: 1" in said, f"{name}: {said}")
        expect(filecmp.cmp(after, expected, shallow=False), f"{name}: the weights are not those of the other batches")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        expect([l["step"] for l in lines] == [1, 2, 2, 3, 4] and lines[2] == {"step": 2, "loss": None, "skipped": 1}, f"{lines}")
    # The bad steps are far from the last copy of the parameters and come several times, while a
    # trace is recorded.
    c.train(plan, c.batches("good", 0, 1, 3, 4), "--steps", 40, "--save-weights", c.folder / "forty", epochs=False)
    said = c.train(plan, data, "--check-numerics", "skip", "--steps", 40, "--trace", "steps=20:24", "--trace-file",
                   c.folder / "trace.json", "--save-weights", c.folder / "skipped", epochs=False)
    expect("not finite: 10" in said, said)
    expect(filecmp.cmp(c.folder / "forty", c.folder / "skipped", shallow=False), "other weights than without the batch")
    steps = [e for e in json.loads((c.folder / "trace.json").read_text())["traceEvents"] if e.get("cat") == "step"]
    expect({e["args"]["step"] for e in steps} == set(range(20, 25)), "the trace lacks steps")
    # A resumed run goes on where the checkpoint after the bad step was written.
    c.train(plan, data, "--check-numerics", "skip", "--checkpoint-dir", c.folder / "run", "--steps", 3, epochs=False)
    c.train(plan, data, "--check-numerics", "skip", "--resume", c.folder / "run", "--save-weights", c.folder / "resumed")
    expect(filecmp.cmp(c.folder / "resumed", expected, shallow=False), "the resumed run is another")


@case
def rollback_goes_on_behind_the_bad_batch(c):
    plan = c.compile(mode="auto")
    data = c.batches("bad", *range(5), spoil=3)
    for every, kept in ((1, (0, 1, 2, 4)), (2, (0, 1, 4)), (5, (4,))):  # 5: the run goes back to its beginning
        expected = c.weights_without(plan, *kept)
        for name, launcher, options in launches(c):
            after = c.folder / f"{name}{every}.safetensors"
            said = c.train(plan, data, "--check-numerics", "rollback", "--checkpoint-dir", c.folder / f"run-{name}{every}",
                           "--checkpoint-every", every, "--save-weights", after, *options, launcher=launcher)
            expect("went back to" in said and "not finite: 1" in said, f"{name}: {said}")
            expect(filecmp.cmp(after, expected, shallow=False), f"{name}, every {every}: not the weights of {kept}")
    expect("needs --checkpoint-dir" in c.train(plan, data, "--check-numerics", "rollback", code=2), "without checkpoints")


@case
def the_first_operator_is_named(c):
    def log(net, x):
        return net.linear(net.node("Log", x), "fc", 4, 4)

    def division(net, x):
        return net.linear(net.node("Div", x, x), "fc", 4, 4)

    # log(0) is an infinity, 0 / 0 a NaN.
    for write, operator, text in ((log, "log", "an infinity of finite"), (division, "div", "a NaN of finite")):
        plan, data = c.network(write)
        said = c.train(plan, data, "--check-numerics", "stop", code=3)
        expect(re.search(rf"step 3, batch 2: .* the operator '[^']*' \({operator}\) makes {text} operands on rank 1", said), said)


@case
def a_rate_that_is_too_high_ends_the_run_after_some_tries(c):
    c.run(c.bin / "tessera-compile", c.models / "mlp_train.onnx", "--mesh", "data=2", "--mode", "data", "--dim", "batch=8",
          "--train", "--loss", "cross_entropy", "--optimizer", "sgd:lr=1e30", "-o", c.folder / "plan")
    plan, data = c.folder / "plan", c.batches("good", *range(5))
    said = c.train(plan, data, "--check-numerics", "stop", code=3)
    expect(re.search(r"step [23], .* (operator|all-reduce) '[^']+' .*of finite operands on rank [01]", said), said)
    said = c.train(plan, data, "--check-numerics", "skip", "--steps", 100, code=3, epochs=False)
    expect(said.count("its update is left out") == 10 and "10 steps before it" in said, said)
    said = c.train(plan, data, "--check-numerics", "rollback", "--checkpoint-dir", c.folder / "run", "--checkpoint-every", 1,
                   "--steps", 100, code=3, epochs=False)
    expect(said.count("went back to " + str(c.folder)) == 3 and "gone back 3 times" in said, said)


@case
def what_loss_scaling_leaves_out_is_counted_and_no_error(c):
    c.run(c.bin / "tessera-compile", c.models / "mlp_train.onnx", "--mesh", "data=2", "--mode", "data", "--dim", "batch=8",
          "--train", "--loss", "cross_entropy", "--optimizer", "sgd:lr=0.01", "--precision", "f16", "--loss-scale",
          "dynamic:initial=1e30", "-o", c.folder / "plan")
    log = c.folder / "log.jsonl"
    c.train(c.folder / "plan", c.batches("good", *range(5)), "--check-numerics", "stop", "--log", log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    expect([l["loss_scale_skipped"] for l in lines] == [1, 2, 3, 4, 5], f"{lines}")
    expect(abs(lines[0]["loss_scale"] / 5e29 - 1) < 1e-6, f"{lines}")


if __name__ == "__main__":
    main(__doc__, Context)
