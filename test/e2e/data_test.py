#!/usr/bin/env python3
"""What training reads: token files, on any mesh and resumed.

usage: data_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import subprocess
import sys

import numpy as np

from cases import Programs, case, main


class Context(Programs):
    def log(self, plan, *options):
        """The log of a training run, one entry per step."""
        self.count += 1
        path = self.folder / f"log{self.count}.jsonl"
        self.run(self.bin / "tessera-run", plan, "--log", path, *options)
        return [json.loads(line) for line in path.read_text().splitlines()]

    def losses(self, plan, *options):
        return [entry["loss"] for entry in self.log(plan, *options)]

    def gpt(self):
        path = self.folder / "gpt.onnx"
        subprocess.run([sys.executable, self.models / "networks.py", "gpt", "-o", path, "layers=1", "hidden=32",
                        "heads=2", "words=300", "batch=8", "length=16"], check=True)
        return path

    def compile(self, model, *options):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        self.run(self.bin / "tessera-compile", model, "--train", "--loss", "cross_entropy", "-o", plan, *options)
        return plan


def tokens(count, words):
    """Text that can be learned: mostly each token's successor."""
    rng = np.random.default_rng(1)
    steps = np.where(rng.random(count) < 0.9, 1, rng.integers(0, words, count))
    return (np.cumsum(steps) % words).astype(np.uint16)


@case
def token_files_train_the_same_on_any_mesh(c):
    tokens(5000, 300).tofile(c.folder / "text.bin")
    model, options = c.gpt(), ("--inputs", "ids", "--init", "normal:0.02", "--optimizer", "sgd:lr=0.5")
    plans = [c.compile(model, *options, "--mesh", *mesh) for mesh in (("data=1",), ("data=2,model=2", "--mode", "auto"))]
    exact = ("--data", f"tokens:{c.folder}/text.bin", "--f64", "--backend", "reference", "--steps", 30)
    one, four = (c.losses(plan, *exact) for plan in plans)
    assert np.allclose(one, four, rtol=1e-9), (one, four)
    assert one[-1] < one[0] - 0.1, one
    # Interrupted and resumed: the windows go on where they stopped.
    checkpoints = c.folder / "checkpoints"
    first = c.losses(plans[1], *exact[:-1], 13, "--checkpoint-dir", checkpoints)
    rest = c.losses(plans[1], *exact, "--resume", checkpoints)
    assert first + rest == four, (first, rest, four)


@case
def an_id_outside_the_embedding_is_named(c):
    text = tokens(5000, 300)
    text[77] = 300
    np.save(c.folder / "text.npy", text)
    for mesh in ("data=1", "model=2"):
        plan = c.compile(c.gpt(), "--inputs", "ids", "--init", "normal:0.02", "--optimizer", "sgd:lr=0.5", "--mesh", mesh,
                         "--mode", "auto")
        told = c.run(c.bin / "tessera-run", plan, "--data", f"tokens:{c.folder}/text.npy", code=1)
        assert "text.npy: token 77 is 300, but ids are 0 to 299" in told, told


if __name__ == "__main__":
    main(__doc__, Context)
