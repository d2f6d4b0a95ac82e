"""What the tests of pipelines share: plans with stages, trainings, and the comparison with plans without stages."""
import json
import subprocess
import sys

import numpy as np

from cases import Programs
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
        text = self.run(self.bin / "tessera-compile", path, "--mesh", mesh, *sizes, "--seed", "1", "--train",
                        *(("--accumulate", parts) if parts else ()), *options, "-o", plan, code=code)
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
        if not (self.folder / "x.npy").exists() or len(np.load(self.folder / "y.npy")) != rows:
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
