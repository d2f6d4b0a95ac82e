#!/usr/bin/env python3
"""tessera-compile --accumulate N: a batch in micro-batches trains as the batch at once, on every mesh.

usage: accumulate_test.py --bin DIR --models DIR
"""
import argparse
import json
import pathlib
import shutil
import tempfile

import numpy as np

from cases import Programs

ROWS, STEPS = 8, 3


class Runner(Programs):
    def compile(self, model, mesh, mode, parts, *options, rows=ROWS, code=0):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        text = self.run(self.bin / "tessera-compile", self.models / f"{model}.onnx", "--mesh", mesh, "--mode", mode, "--dim",
                        f"batch={rows}", "--train", "--optimizer", "sgd:lr=0.01,momentum=0.9", "--seed", "1", "--accumulate",
                        parts, *options, "-o", plan, code=code)
        return text if code else plan

    def losses(self, plan, shape, precise, launcher=()):
        data = self.folder / f"data-{'-'.join(map(str, shape))}"
        if not data.exists():
            data.mkdir()
            rng = np.random.default_rng(5)
            np.save(data / "x.npy", rng.standard_normal((ROWS, *shape)).astype(np.float32))
            np.save(data / "y.npy", np.array([1, 3, 3, 0, 3, 9, 2, 3], np.int64))  # 3: ignored below
        log = plan / "log.jsonl"
        self.run(*launcher, self.bin / "tessera-run", plan, "--data", f"npy:{data}/x.npy,{data}/y.npy", "--steps", STEPS, "--log", log,
                 *(("--f64", "--backend", "reference") if precise else ()))
        found = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
        assert len(found) == STEPS and np.all(np.isfinite(found)) and found[0] != found[-1], found
        return found


    def going_on(self, plan, steps, *options):
        """Losses of a run on computed data, and the last checkpoint's position and folder."""
        self.count += 1
        folder, log = self.folder / f"checkpoints{self.count}", self.folder / f"log{self.count}"
        self.run(self.bin / "tessera-run", plan, "--data", "synthetic", "--steps", steps, "--log", log, "--checkpoint-dir", folder,
                 *options)
        last = json.loads((folder / f"step-{steps:08}" / "manifest.json").read_text())
        return {"losses": [json.loads(line)["loss"] for line in log.read_text().splitlines()], "position": last["position"],
                "folder": folder}


def bytes_sent(plan):
    report = json.load(open(plan / "report.json"))
    return {f["name"]: f["bytes_sent"] for f in report["functions"]}["train"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        r = Runner(args, pathlib.Path(name))

        # The mean over the batch, and over what of the batch counts, whatever the parts are.
        for options in ((), ("--loss", "cross_entropy:ignore_index=3"), ("--clip-norm", "0.01"),
                        ("--loss-scale", "static:scale=1024", "--clip-norm", "0.01", "--loss", "cross_entropy:ignore_index=3")):
            whole = r.losses(r.compile("mlp_train", "1", "data", 1, *options), (1, 28, 28), True)
            for mesh, mode, parts in (("1", "data", 2), ("1", "data", 8), ("data=2", "data", 4), ("data=2,model=2", "auto", 2),
                                      ("data=2,model=2", "auto", 8), ("4", "auto", 4)):
                found = r.losses(r.compile("mlp_train", mesh, mode, parts, *options), (1, 28, 28), True)
                np.testing.assert_allclose(found, whole, rtol=1e-10, err_msg=f"{options} {mesh} {mode} {parts}")
                print(f"{' '.join(options)} {mesh} {mode} in {parts} parts: as at once")

        # Gradients are reduced once per step. Each further micro-batch sends only its loss.
        once, often = (bytes_sent(r.compile("mlp_train", "data=2", "data", parts)) for parts in (1, 4))
        assert often - once <= 3 * 64, f"{once} bytes sent at once, {often} in four parts"

        # The body is called in the same order whatever carries the messages.
        if shutil.which("mpirun"):
            plan = r.compile("mlp_train", "data=2", "data", 4)
            threads = r.losses(plan, (1, 28, 28), False)
            assert r.losses(plan, (1, 28, 28), False, ("mpirun", "--oversubscribe", "-n", "2")) == threads

        # Random numbers and statistics belong to a micro-batch, and do not depend on the mesh.
        for model, shape in (("vgg11_cifar_train", (3, 32, 32)),):
            whole = r.losses(r.compile(model, "1", "data", 2), shape, False)
            found = r.losses(r.compile(model, "data=2", "data", 2), shape, False)
            np.testing.assert_allclose(found, whole, rtol=1e-4, err_msg=model)

        # A step takes the whole batch, whatever a micro-batch has: a run goes on with the data that come next. So do runs
        # on other numbers of micro-batches.
        plans = [r.compile("mlp_train", *how) for how in (("1", "data", 4), ("1", "data", 1), ("stage=2", "data", 4))]
        whole = r.going_on(plans[0], 4)
        for first in plans:
            for second in plans:
                begun = r.going_on(first, 2)
                assert begun["position"] == {"batch": ROWS, "epoch": 0, "sample": 2 * ROWS, "step": 2}, begun["position"]
                found = r.going_on(second, 4, "--resume", begun["folder"])
                np.testing.assert_allclose(found["losses"], whole["losses"][2:], rtol=1e-5, err_msg=f"{first} to {second}")
            r.run(r.bin / "tessera-run", first, "--infer", "--data", "npy:" + str(r.folder / "data-1-28-28" / "x.npy"), "--output",
                  first / "out")
            outputs = np.load(first / "out" / "output0.npy")
            assert outputs.shape == (ROWS, 10), outputs.shape

        text = r.compile("mlp_train", "1", "data", 3, code=1)
        assert "batch" in text and "3 micro-batches" in text, text
    print("passed")


if __name__ == "__main__":
    main()
