#!/usr/bin/env python3
"""tessera-compile --mesh 'stages=[data=2,model=2; data=1]': stages of which each has a mesh of its own.

usage: stage_meshes_test.py --bin DIR --models DIR [CASE...]
"""
import json

import numpy as np

from cases import Programs, case, main
from tensors import whole_tensors

STEPS, ROWS, PARTS = 3, 16, 4
SGD = ("--optimizer", "sgd:lr=0.05,momentum=0.9")


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


class Context(Programs):
    def compile(self, model, mesh, *options, code=0):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        text = self.run(self.bin / "tessera-compile", self.models / f"{model}.onnx", "--mesh", mesh, "--dim", f"batch={ROWS}",
                        "--seed", "1", "--train", "--accumulate", PARTS, *options, "-o", plan, code=code)
        self.told = text
        return text if code else plan

    def train(self, plan, *options, steps=STEPS):
        """Losses, and all tensors of a checkpoint."""
        self.count += 1
        log, folder = self.folder / f"log{self.count}", self.folder / f"checkpoints{self.count}"
        if not (self.folder / "x.npy").exists():
            rng = np.random.default_rng(5)
            np.save(self.folder / "x.npy", rng.standard_normal((2 * ROWS, 1, 28, 28)).astype(np.float32))
            np.save(self.folder / "y.npy", rng.integers(0, 10, 2 * ROWS))
        data = f"npy:{self.folder}/x.npy,{self.folder}/y.npy"
        self.run(self.bin / "tessera-run", plan, "--data", data, "--steps", steps, "--log", log, "--checkpoint-dir",
                 folder, "--backend", "reference", *options)
        self.checkpoints = folder
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()], whole_tensors(folder / f"step-{steps:08}")


@case
def bits(c):
    """Stages of one rank each add as one rank does."""
    losses, tensors = c.train(c.compile("mlp_train", "1", *SGD))
    found, cut = c.train(c.compile("mlp_train", "stages=[a=1; b=1]", *SGD))
    expect(found == losses and len(set(losses)) == STEPS, f"losses {found}, uncut {losses}")
    expect(sorted(cut) == sorted(tensors), sorted(cut))
    for name, values in cut.items():
        expect(np.array_equal(values, tensors[name]), f"'{name}' differs")


@case
def as_one_rank(c):
    """What each stage's ranks share out, one rank does in another order: --verify judges."""
    for model in ("mlp_train", "lenet_train"):
        for mesh in ("stages=[data=2,model=2; data=1]", "stages=[data=1; data=4]", "stages=[data=2; data=4; data=1]"):
            for mode in ("data", "auto"):
                plan = c.compile(model, mesh, "--mode", mode, *SGD)
                c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", STEPS, "--verify")


@case
def statistics(c):
    """A batch norm adds over the ranks of its stage, and running means stay there; evaluation is cut as training is."""
    plan = c.compile("resnet18_cifar_train", "stages=[data=1; data=2,model=2]", "--mode", "auto", "--optimizer", "sgd:lr=0.01")
    c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", 1, "--verify")


@case
def between_processes(c):
    """Ranks that are processes of MPI get the bits of those that are threads."""
    plan = c.compile("lenet_train", "stages=[data=2,model=2; data=1]", "--mode", "data", *SGD)
    logs = [c.folder / "threads.jsonl", c.folder / "mpi.jsonl"]
    for log, launch in zip(logs, ((), ("mpirun", "--oversubscribe", "-n", 5))):
        c.run(*launch, c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", STEPS, "--log", log)
    losses = [[json.loads(line)["loss"] for line in log.read_text().splitlines()] for log in logs]
    expect(losses[0] == losses[1] and len(losses[0]) == STEPS, losses)


@case
def goes_on(c):
    """Checkpoints go from one mesh to any other."""
    plans = [c.compile("mlp_train", mesh, *SGD) for mesh in ("stages=[data=2,model=2; data=1]", "data=2", "stage=2,data=2")]
    _, whole = c.train(plans[1], steps=4)
    for first, second in ((0, 1), (1, 0), (0, 2), (2, 0)):
        c.train(plans[first], steps=2)
        _, tensors = c.train(plans[second], "--resume", c.checkpoints, steps=4)
        expect(sorted(tensors) == sorted(whole), sorted(tensors))
        for name, values in tensors.items():
            expect(np.allclose(values, whole[name], rtol=1e-4, atol=1e-6), f"{first} to {second}: '{name}' differs")


@case
def tells(c):
    plan = c.compile("mlp_train", "stages=[data=2,model=2; data=1]", *SGD)
    expect("mesh         stages=[data=2,model=2; data=1], 5 ranks" in c.told, c.told)
    text = c.run(c.bin / "tessera-dump", plan, "--schedule")
    expect("0 to 3" in text, text)


@case
def refused(c):
    good = "stages=[data=2,model=2; data=1]"
    for mesh, what, *options in (
            ("stages=[]", "stage 0 has no mesh"),
            ("stages=[data=2]", "a pipeline has 2 stages or more"),
            ("stages=data=2", "expected the mesh of each stage in brackets"),
            ("stages=[data=2; ]", "stage 1 has no mesh; one rank is data=1"),
            ("stages=[data=2,data=2; data=1]", "stage 0: mesh"),
            ("stages=[stage=2; data=1]", "stage 0 has an axis 'stage'"),
            (good, "--pipeline schedule=zb-v: each of these stages has ranks of its own", "--pipeline", "schedule=zb-v"),
            (good, "--pipeline auto chooses the stages; use --mesh 5 with it", "--pipeline", "auto", "--mode", "auto"),
            (good, "--clip-norm does not go with stages that have meshes of their own", "--clip-norm", "1"),
            (good, "--reproducible does not go with stages", "--reproducible"),
            (good, "--recompute full does not go with stages", "--recompute", "full"),
            (good, "mode semi-auto is for stages of one mesh", "--mode", "semi-auto")):
        # Before the model is read, which is not there.
        text = c.run(c.bin / "tessera-compile", "none.onnx", "--mesh", mesh, "--train", "--accumulate", 4, *options, "-o",
                     c.folder / "plan", code=2)
        expect(what in text, f"{mesh} {options}: {text}")
    text = c.compile("mlp_train", "stages=[data=3; data=1]", "--mode", "data", *SGD, code=1)
    expect("is not divided by 4 micro-batches" in text, text)


if __name__ == "__main__":
    main(__doc__, Context)
