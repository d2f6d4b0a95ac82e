"""What the tests of compressed gradients share: plans for a slow cable, trainings, and what their files say."""
import json

import numpy as np

from cases import Programs

# Four machines, and between them a cable that takes long. Where ranks share memory, a part of a sum is gathered as it is.
SLOW = {"name": "slow", "devices": 4, "flops": {"f32": 1e12}, "memory_bandwidth": 1e11, "memory": "16GiB",
        "links": [{"devices": 4, "latency": 5e-5, "bandwidth": 1e8}]}
ROWS = 16


def always(kind):
    return kind + ("," if ":" in kind else ":") + "always"


class Context(Programs):
    def compile(self, model, mesh, *options, mode="data", code=0):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        slow = self.folder / "slow.json"
        slow.write_text(json.dumps(SLOW))
        if "--topology" not in options:
            options = ("--topology", slow, *options)
        text = self.run(self.bin / "tessera-compile", model, "--mesh", mesh, "--mode", mode, "--train", "--seed", "1", *options,
                        "-o", plan, code=code)
        return text if code else plan

    def mlp(self, mesh, *options, **more):
        if "--optimizer" not in options:
            options = ("--optimizer", "sgd:lr=0.02,momentum=0.9", *options)
        options = ("--dim", f"batch={ROWS}", *options)
        return self.compile(self.models / "mlp_train.onnx", mesh, *options, **more)

    def data(self):
        folder = self.folder / "data"
        if not folder.exists():
            folder.mkdir()
            rng = np.random.default_rng(5)
            np.save(folder / "x.npy", rng.standard_normal((4 * ROWS, 1, 28, 28)).astype(np.float32))
            np.save(folder / "y.npy", rng.integers(0, 10, 4 * ROWS))
        return f"npy:{folder}/x.npy,{folder}/y.npy"

    def train(self, plan, steps, *options, launcher=()):
        """The losses of the steps, and what the run said."""
        self.count += 1
        log = self.folder / f"log{self.count}.jsonl"
        text = self.run(*launcher, self.bin / "tessera-run", plan, "--data", self.data(), "--steps", steps, "--log", log, *options)
        losses = [line["loss"] for line in map(json.loads, log.read_text().splitlines()) if "loss" in line]
        assert np.all(np.isfinite(losses)), losses
        return losses, text

    def trained(self, model, data, mesh, steps, *options, mode="data"):
        """The tensors of a model whose output is the loss, after so many steps: parameters, and states of compressed sums."""
        if "--optimizer" not in options:
            options = ("--optimizer", "sgd:lr=1", *options)
        plan = self.compile(model, mesh, "--loss", "output", *options, mode=mode)
        folder, file = self.folder / f"run{self.count}", self.folder / f"w{self.count}.safetensors"
        self.run(self.bin / "tessera-run", plan, "--data", data, "--steps", steps, "--shuffle", "0", "--checkpoint-dir", folder,
                 "--integrated")
        self.run(self.bin / "tessera-ckpt", "export", folder, "-o", file, "--all")
        return states(file)


def report(plan):
    whole = json.load(open(plan / "report.json"))
    return next(f for f in whole["functions"] if f["name"] == "train")


def states(text):
    """The tensors that a file of tessera-ckpt export --dtype F32 has; or of a checkpoint, by name."""
    data = text.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: np.frombuffer(data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]], np.float32).reshape(e["shape"])
            for name, e in header.items() if name != "__metadata__" and e["dtype"] == "F32"}
