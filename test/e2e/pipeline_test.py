#!/usr/bin/env python3
"""tessera-compile --mesh stage=N: a network cut into stages trains to the same bits as the uncut one.

usage: pipeline_test.py --bin DIR --models DIR [CASE...]
"""
import json
import subprocess
import sys

import numpy as np

from cases import Programs, case, main
from tensors import whole_tensors

STEPS = 3


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


class Context(Programs):
    def compile(self, model, mesh, parts, *options, rows=8, code=0):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        path = model if str(model).startswith("/") else self.models / f"{model}.onnx"
        sizes = ("--dim", f"batch={rows}") if rows else ()
        text = self.run(self.bin / "tessera-compile", path, "--mesh", mesh, *sizes, "--seed", "1", "--train", "--accumulate", parts,
                        *options, "-o", plan, code=code)
        self.told = text
        return text if code else plan

    def train(self, plan, *data):
        """Losses, and all tensors of a checkpoint."""
        log, folder = plan / "log.jsonl", plan / "checkpoints"
        self.run(self.bin / "tessera-run", plan, "--data", *data, "--steps", STEPS, "--log", log, "--checkpoint-dir", folder,
                 "--backend", "reference")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        losses = [{key: line[key] for key in ("loss", "learning_rate", "gradient_norm") if key in line} for line in lines]
        return losses, whole_tensors(folder / f"step-{STEPS:08}")

    def same(self, model, pairs, parts, data, *options, rows=8):
        """Every mesh with stages gives what its stage's mesh alone gives."""
        found = {}
        for mesh, alone, *more in pairs:
            if alone not in found:
                found[alone] = self.train(self.compile(model, alone, parts, *options, rows=rows), *data)
            losses, tensors = self.train(self.compile(model, mesh, parts, *options, *more, rows=rows), *data)
            what = f"{model} {mesh} {parts} {options} {more}"
            expect(losses == found[alone][0], f"{what}: losses {losses}, alone {found[alone][0]}")
            expect(sorted(tensors) == sorted(found[alone][1]), f"{what}: {sorted(tensors)}")
            for name, tensor in tensors.items():
                expect(np.array_equal(tensor, found[alone][1][name], equal_nan=True), f"{what}: '{name}' differs")

    def images(self, *shape, rows=8):
        if not (self.folder / "x.npy").exists():
            rng = np.random.default_rng(5)
            np.save(self.folder / "x.npy", rng.standard_normal((rows, *shape)).astype(np.float32))
            np.save(self.folder / "y.npy", rng.integers(0, 10, rows))
        return (f"npy:{self.folder}/x.npy,{self.folder}/y.npy",)

    def bert(self, batch):
        """One micro-batch of a small BERT, whose table of words is read at both ends."""
        model, length, words = self.folder / "bert.onnx", 6, 32
        subprocess.run([sys.executable, self.models / "networks.py", "bert", "-o", model, "layers=2", "hidden=8", "heads=2",
                        f"words={words}", f"batch={batch}", f"length={length}"], check=True)
        return model, (batch, length, words)


@case
def mlp(c):
    pairs = [("stage=2", "1"), ("stage=2,data=2", "data=2"), ("stage=3", "1")]
    for options in ((), ("--optimizer", "adam:lr=0.01", "--clip-norm", "0.1", "--schedule", "cosine:steps=9,warmup=2")):
        c.same("mlp_train", pairs, 4, c.images(1, 28, 28), *options)
    for schedule in ("gpipe", "1f1b", "zb-h1"):
        c.same("mlp_train", [("stage=2", "1", "--pipeline", f"schedule={schedule}")], 4, c.images(1, 28, 28))


@case
def one_micro_batch(c):
    c.same("mlp_train", [("stage=2", "1"), ("stage=2,data=2", "data=2")], 1, c.images(1, 28, 28), "--clip-norm", "0.1")


@case
def unfused_and_wide(c):
    c.same("mlp_train", [("stage=2,data=2", "data=2")], 2, c.images(1, 28, 28), "--no-fuse")
    c.same("mlp_train", [("stage=2,data=2,model=2", "data=2,model=2")], 2, c.images(1, 28, 28), "--mode", "auto")


@case
def images(c):
    """Convolutions, normalisation with statistics that every micro-batch changes, shortcuts."""
    c.same("resnet18_cifar_train", [("stage=3", "1")], 2, c.images(3, 32, 32, rows=2), "--optimizer", "sgd:lr=0.01,momentum=0.9",
           rows=2)


@case
def tied_table(c):
    parts = 4
    model, (batch, length, words) = c.bert(batch=2)
    rng = np.random.default_rng(7)
    rows = batch * parts
    for name, most in (("ids", words), ("segments", 2), ("y", words)):
        np.save(c.folder / f"{name}.npy", rng.integers(0, most, (rows, length)))
    data = (f"npy:{c.folder}/ids.npy,{c.folder}/segments.npy,{c.folder}/y.npy",)
    c.same(str(model), [("stage=2", "1"), ("stage=4", "1"), ("stage=2,data=2", "data=2")], parts, data, "--inputs",
           "ids,segments", "--optimizer", "adam:lr=0.01", rows=0)


@case
def tells_what_it_does(c):
    c.compile("mlp_train", "stage=2,data=2", 4)
    for text in ("2 stages, 4 micro-batches, schedule auto", "bubble", "stage 0 from", "stage 1 from"):
        expect(text in c.told, f"'{text}' is missing: {c.told}")
    report = json.loads((c.folder / "plan1" / "report.json").read_text())["pipeline"]
    expect(len(report["stages"]) == 2 and report["micro_batches"] == 4 and report["predicted_ns"] > 0, report)
    for options, told in ((("data=2,stage=2",), "must be the first"), (("stage=1,data=2",), "2 stages or more"),
                          (("stage=40",), "too few for 40 stages")):
        text = c.compile("mlp_train", options[0], 4, code=1 if "40" in options[0] else 2)
        expect(told in text, text)
    for option, mesh, told in (("schedule=fast", "stage=2", "gpipe"), ("order=1f1b", "stage=2", "gpipe"),
                               ("schedule=1f1b", "data=2", "stage=2,data=2")):
        text = c.compile("mlp_train", mesh, 4, "--pipeline", option, code=2)
        expect(told in text and text.count("\n") == 1, text)


if __name__ == "__main__":
    main(__doc__, Context)
