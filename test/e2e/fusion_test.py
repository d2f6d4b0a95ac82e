#!/usr/bin/env python3
"""tessera-compile --fusion: what is sent as one message, and that the results are those of single collectives to the bit.

usage: fusion_test.py --bin DIR --models DIR [CASE ...]
"""
import json
import re
import shutil

from cases import Programs, case, main

MLP, LENET, RESNET18, RESNET50 = "mlp_train", "lenet_train", "resnet18_cifar_train", "resnet50_cifar_train"


class Context(Programs):
    def compile(self, model, mesh, fusion, *options, rows=8, mode="data", code=0, optimizer="sgd:lr=0.01,momentum=0.9"):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        dim = ("--dim", f"batch={rows}") if rows else ()
        text = self.run(self.bin / "tessera-compile", self.models / f"{model}.onnx", "--mesh", mesh, "--mode", mode, *dim,
                        "--train", "--optimizer", optimizer, "--seed", "1", "--fusion", fusion, *options,
                        "-o", plan, code=code)
        return text if code else plan

    def trained(self, plan, *options, prefix=(), steps=2):
        """The files of the checkpoint after some steps, as bytes, and the losses."""
        self.count += 1
        folder, log = self.folder / f"checkpoint{self.count}", self.folder / f"log{self.count}"
        self.run(*prefix, self.bin / "tessera-run", plan, "--data", "synthetic", "--steps", steps, "--seed", "3", "--threads", 1,
                 "--checkpoint-dir", folder, "--log", log, *options)
        files = {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*.safetensors"))}
        assert files, f"{folder} has no checkpoint"
        losses = [json.loads(line)["loss"] for line in log.read_text().splitlines() if "loss" in json.loads(line)]
        return losses, files


def train_report(plan):
    return next(f for f in json.loads((plan / "report.json").read_text())["functions"] if f["name"] == "train")


def same(c, model, mesh, *options, run=(), prefix=(), **rest):
    apart = c.compile(model, mesh, "off", *options, **rest)
    joined = c.compile(model, mesh, "auto", *options, **rest)
    alone, report = train_report(apart), train_report(joined)
    assert report["num_collectives"] == alone["num_collectives"] == alone["num_messages"], report
    assert report["num_messages"] < report["num_collectives"], f"{model} on {mesh}: nothing is joined"
    assert report["communication_ns"] <= alone["communication_ns"], f"{model} on {mesh}: predicted slower"
    assert report["bytes_sent"] == alone["bytes_sent"]
    parts = sum(c["cost_ns"] for op in report["operators"] for c in op["collectives"])
    assert parts + sum(c["cost_ns"] for c in report["boundary"]) == report["communication_ns"]
    for plan, priced in ((apart, alone), (joined, report)):
        facts = json.loads(c.run(c.bin / "tessera-dump", plan, "--json"))
        for rank in facts["ranks"]:
            emitted = next(p for p in rank["programs"] if p["name"] == "train")
            assert emitted["num_messages"] == priced["num_messages"], f"{model} on {mesh}: {emitted}, {priced['num_messages']}"
    expected = c.trained(apart, *run, prefix=prefix)
    found = c.trained(joined, *run, prefix=prefix)
    assert found[0] == expected[0], f"{model} on {mesh} {options} {run}: losses {found[0]}, {expected[0]}"
    assert found[1].keys() == expected[1].keys()
    for name, content in expected[1].items():
        assert found[1][name] == content, f"{model} on {mesh} {options} {run}: {name} differs"
    return report


@case
def equal_to_the_bit_on_threads(c):
    for mesh in ("2", "4"):
        same(c, MLP, f"data={mesh}")
        same(c, LENET, f"data={mesh}")
    same(c, RESNET18, "data=2", rows=4)
    same(c, "families/squeezenet", "data=2", rows=None)


@case
def equal_to_the_bit_between_processes(c):
    for mesh in ("2", "4"):
        same(c, LENET, f"data={mesh}", run=("--processes",))
    same(c, RESNET18, "data=2", rows=4, run=("--processes",))


@case
def equal_to_the_bit_over_mpi(c):
    if not shutil.which("mpirun"):
        return print("skipped: no mpirun")
    for mesh in ("2", "4"):
        same(c, LENET, f"data={mesh}", prefix=("mpirun", "--oversubscribe", "-n", mesh))


@case
def equal_to_the_bit_with_everything_around_gradients(c):
    """Norms, scales and micro-batches read the gradients; other meshes have other groups."""
    same(c, LENET, "data=2", "--clip-norm", "0.01")
    same(c, LENET, "data=2", "--loss-scale", "dynamic", "--precision", "f16")
    same(c, LENET, "data=2", "--accumulate", "2")
    same(c, LENET, "data=2", "--recompute", "full")
    same(c, LENET, "data=2", run=("--f64", "--backend", "reference"))
    same(c, LENET, "data=2,model=2", mode="auto", rows=32)


def kinds_joined(c, model, mesh, **rest):
    """By kind how many collectives of the training step there are, and how many are members of a message."""
    phases = c.folder / f"phases{c.count}"
    c.compile(model, mesh, "auto", "--dump-phases", phases, **rest)
    text = (phases / "5-local.mlir").read_text()
    lines = [line for line in text[text.index("@train"):].splitlines() if "dist.collective" in line]
    counts = {}
    for line in lines:
        all_and_joined = counts.setdefault(re.search(r'dist.collective "([a-z-]+)"', line)[1], [0, 0])
        all_and_joined[0] += 1
        all_and_joined[1] += "dist.message" in line
    return counts


@case
def a_sharded_optimizer_is_few_messages(c):
    """13 parameters of ResNet-18 are gathered, and their gradients scattered, as lists, to the bits of single collectives."""
    sharded = {"mode": "auto", "optimizer": "adamw:lr=0.001", "rows": 32}
    counts = kinds_joined(c, RESNET18, "data=4", **sharded)
    for kind in ("all-gather", "reduce-scatter"):
        assert counts[kind][1] >= 8, f"{counts[kind][1]} of {counts[kind][0]} {kind} are joined"
    same(c, RESNET18, "data=4", **sharded)
    same(c, RESNET18, "data=4", run=("--processes",), **sharded)
    if shutil.which("mpirun"):
        same(c, RESNET18, "data=4", prefix=("mpirun", "--oversubscribe", "-n", "4"), **sharded)


@case
def messages_have_a_size(c):
    off, whole = c.compile(LENET, "data=2", "off"), c.compile(LENET, "data=2", "1GiB")
    small = c.compile(LENET, "data=2", "16KiB")
    counts = [train_report(plan)["num_messages"] for plan in (off, small, whole)]
    assert counts[0] > counts[1] > counts[2] >= 1, counts
    assert c.trained(off) == c.trained(small) == c.trained(whole)
    assert "messages" in c.run(c.bin / "tessera-run", whole, "--data", "synthetic", "--steps", 1)
    for bad in ("none", "0", "-1MiB", "12 parsecs"):
        text = c.compile(LENET, "data=2", bad, code=2)
        assert f"--fusion {bad}: expected auto, off or the size of a message" in text, text


@case
def gradients_of_a_data_parallel_resnet50_are_few_messages(c):
    """Sums of BatchNorm's statistics wait for each other; the other gradients do not."""
    phases = c.folder / "phases"
    c.compile(RESNET50, "data=4", "auto", "--dump-phases", phases, rows=32)
    text = (phases / "5-local.mlir").read_text()
    sums = [line for line in text[text.index("@train"):].splitlines() if "dist.collective" in line and re.search(r"grad_[wb]", line)]
    numbers = [re.search(r"dist.message = (\d+)", line) for line in sums]
    messages = len({m[1] for m in numbers if m}) + sum(m is None for m in numbers)
    assert len(sums) >= 54 and messages <= 8, f"{len(sums)} gradients in {messages} messages"


@case
def where_memory_is_short_less_is_joined(c):
    def needed(plan):
        return json.loads((plan / "report.json").read_text())["memory"]["arena_bytes"]

    off, auto = c.compile(RESNET18, "data=2", "off", rows=4), c.compile(RESNET18, "data=2", "1GiB", rows=4)
    limit = (needed(off) + needed(auto)) // 2
    assert needed(off) < needed(auto), "joining takes no memory: the case tells nothing"
    fitted = c.compile(RESNET18, "data=2", "1GiB", "--memory", str(limit), rows=4)
    assert needed(fitted) <= limit
    messages = [train_report(plan)["num_messages"] for plan in (auto, fitted, off)]
    assert messages[0] < messages[1] <= messages[2], messages


if __name__ == "__main__":
    main(__doc__, Context)
