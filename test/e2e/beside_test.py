#!/usr/bin/env python3
"""Collectives beside kernels: networks whose plans have all of them there train to the bits of one step after the other.

usage: beside_test.py --bin DIR --models DIR [CASE ...]
"""
import json
import re
import shutil

from cases import Programs, case, main

MLP, LENET, RESNET18 = "mlp_train", "lenet_train", "resnet18_cifar_train"


class Context(Programs):
    def plans(self, model, mesh, *options, mode="data", rows=8):
        """A plan, and the same with its collectives beside kernels."""
        self.count += 1
        plan, beside = self.folder / f"plan{self.count}", self.folder / f"beside{self.count}"
        dim = ("--dim", f"batch={rows}") if rows else ()
        self.run(self.bin / "tessera-compile", self.models / f"{model}.onnx", "--mesh", mesh, "--mode", mode, *dim, "--train",
                 "--optimizer", "sgd:lr=0.01,momentum=0.9", "--seed", "1", *options, "-o", plan)
        self.run(self.bin / "run_beside", plan, beside)
        return plan, beside

    def train(self, plan, *options, prefix=(), steps=3):
        """Losses, the files of the last checkpoint as bytes, and what was printed."""
        self.count += 1
        folder, log = self.folder / f"checkpoint{self.count}", self.folder / f"log{self.count}"
        text = self.run(*prefix, self.bin / "tessera-run", plan, "--data", "synthetic", "--steps", steps, "--seed", "3",
                        "--threads", 1, "--checkpoint-dir", folder, "--log", log, *options)
        files = {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*.safetensors"))}
        assert files, f"{folder} has no checkpoint"
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [line["loss"] for line in lines if "loss" in line], files, text

    def same(self, model, mesh, *options, run=(), prefix=(), **rest):
        plan, beside = self.plans(model, mesh, *options, **rest)
        expected, found = self.train(plan, *run, prefix=prefix), self.train(beside, *run, prefix=prefix)
        what = f"{model} on {mesh} {options} {run}"
        assert not re.search(r"\d+ beside kernels", expected[2]), f"{what}: {expected[2]}"
        assert re.search(r"program train: .* \d+ beside kernels", found[2]), f"{what}: {found[2]}"
        assert found[0] == expected[0], f"{what}: losses {found[0]}, {expected[0]}"
        assert found[1].keys() == expected[1].keys(), f"{what}: {found[1].keys()}"
        for name, content in expected[1].items():
            assert found[1][name] == content, f"{what}: {name} differs"


@case
def equal_to_the_bit_on_threads(c):
    c.same(MLP, "data=2,model=2", mode="auto")
    c.same(LENET, "data=4")
    c.same(LENET, "space=2", mode="auto")
    c.same(RESNET18, "data=2", rows=4)
    c.same("families/squeezenet", "data=2", rows=None)


@case
def equal_to_the_bit_between_processes(c):
    c.same(LENET, "data=2", run=("--processes",))
    c.same(MLP, "data=2,model=2", mode="auto", run=("--processes",))


@case
def equal_to_the_bit_over_mpi(c):
    if not shutil.which("mpirun"):
        return print("skipped: no mpirun")
    c.same(LENET, "data=2", prefix=("mpirun", "--oversubscribe", "-n", "2"))
    c.same(MLP, "data=2,model=2", mode="auto", prefix=("mpirun", "--oversubscribe", "-n", "4"))


@case
def equal_to_the_bit_with_other_programs(c):
    c.same(LENET, "data=2", "--fusion", "off")
    c.same(LENET, "data=2", "--accumulate", "2")
    c.same(LENET, "data=2", "--clip-norm", "0.01")
    c.same(LENET, "data=2", "--recompute", "full")
    c.same(LENET, "data=2", run=("--f64", "--backend", "reference"))


@case
def who_looks_at_every_step_runs_them_one_by_one(c):
    plan, beside = c.plans(LENET, "data=2")
    expected = c.train(plan)
    for options in (("--profile",), ("--check-numerics", "stop")):
        found = c.train(beside, *options)
        assert found[:2] == expected[:2], options
    c.run(c.bin / "tessera-run", beside, "--data", "synthetic", "--verify", "--steps", 2)


if __name__ == "__main__":
    main(__doc__, Context)
