#!/usr/bin/env python3
"""tessera-compile --mesh 'stages=[data=2,model=2; data=1]': stages of which each has a mesh of its own.

usage: stage_meshes_test.py --bin DIR --models DIR [CASE...]
"""
import json
import subprocess
import sys

import numpy as np

from cases import Programs, case, main
from tensors import whole_tensors

STEPS, ROWS, PARTS = 3, 16, 4
SGD = ("--optimizer", "sgd:lr=0.05,momentum=0.9")


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


class Context(Programs):
    def compile(self, model, mesh, *options, code=0, parts=PARTS, rows=ROWS, train=True):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        path = model if str(model).startswith("/") else self.models / f"{model}.onnx"
        text = self.run(self.bin / "tessera-compile", path, "--mesh", mesh, *(("--dim", f"batch={rows}") if rows else ()),
                        "--seed", "1", *(("--train", "--accumulate", parts) if train else ()), *options, "-o", plan,
                        code=code)
        self.told = text
        return text if code else plan

    def report(self, plan):
        return json.loads((plan / "report.json").read_text())

    def train(self, plan, *options, steps=STEPS, data=None):
        """Losses, and all tensors of a checkpoint."""
        self.count += 1
        log, folder = self.folder / f"log{self.count}", self.folder / f"checkpoints{self.count}"
        if not data and not (self.folder / "x.npy").exists():
            rng = np.random.default_rng(5)
            np.save(self.folder / "x.npy", rng.standard_normal((2 * ROWS, 1, 28, 28)).astype(np.float32))
            np.save(self.folder / "y.npy", rng.integers(0, 10, 2 * ROWS))
        data = data or (f"npy:{self.folder}/x.npy,{self.folder}/y.npy",)
        self.run(self.bin / "tessera-run", plan, "--data", *data, "--steps", steps, "--log", log, "--checkpoint-dir",
                 folder, "--backend", "reference", *options)
        self.checkpoints = folder
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.norms = [line.get("gradient_norm") for line in lines]
        return [line["loss"] for line in lines], whole_tensors(folder / f"step-{steps:08}")

    def same(self, model, *options, mesh="stages=[a=1; b=1]", alone="1", data=None, **sizes):
        """Stages of one rank each add as one rank does."""
        losses, tensors = self.train(self.compile(model, alone, *options, **sizes), data=data)
        norms = self.norms
        found, cut = self.train(self.compile(model, mesh, *options, **sizes), data=data)
        what = f"{model} {options} {sizes}"
        expect(found == losses and len(set(losses)) == STEPS, f"{what}: losses {found}, uncut {losses}")
        expect(self.norms == norms, f"{what}: norms {self.norms}, uncut {norms}")
        expect(sorted(cut) == sorted(tensors), f"{what}: {sorted(cut)}")
        for name, values in cut.items():
            expect(np.array_equal(values, tensors[name], equal_nan=True), f"{what}: '{name}' differs")

    def verify(self, model, mesh, *options, data="synthetic", **sizes):
        """What each stage's ranks share out, one rank does in another order: --verify judges."""
        plan = self.compile(model, mesh, *options, **sizes)
        self.run(self.bin / "tessera-run", plan, "--data", data, "--steps", STEPS, "--verify")
        return plan

    def bert(self, batch):
        """One micro-batch of a small BERT, whose table of words is read at both ends."""
        model, length, words = self.folder / "bert.onnx", 6, 32
        subprocess.run([sys.executable, self.models / "networks.py", "bert", "-o", model, "layers=2", "hidden=8", "heads=2",
                        f"words={words}", f"batch={batch}", f"length={length}"], check=True)
        return model, (batch, length, words)


@case
def bits(c):
    c.same("mlp_train", *SGD)
    c.same("mlp_train", *SGD, mesh="stages=[a=1; b=1; c=1]")


@case
def clipped(c):
    """The norm of all gradients adds over all stages, as one rank does: in the order of the parameters."""
    clip = ("--optimizer", "adam:lr=0.01", "--clip-norm", "0.1", "--schedule", "cosine:steps=9,warmup=2")
    c.same("mlp_train", *clip)
    expect(len(c.norms) == STEPS and all(norm and norm > 0 for norm in c.norms), c.norms)
    c.same("mlp_train", *clip, mesh="stages=[a=1; b=1; c=1]")
    c.same("mlp_train", *clip, parts=1)
    for mesh in ("stages=[data=2,model=2; data=1]", "stages=[data=1; data=4]"):
        for mode in ("data", "auto"):
            c.verify("mlp_train", mesh, "--mode", mode, *clip)


@case
def loss_scaled(c):
    """One scale for all stages, which all of them read, and one judgement of all gradients."""
    c.same("mlp_train", *SGD, "--loss-scale", "dynamic:initial=1024,interval=2")
    c.same("mlp_train", *SGD, "--loss-scale", "dynamic:initial=1e30", "--clip-norm", "1")  # steps are skipped
    # Where loops round to 16 bits depends on what is in them, so on the cut, but not on how it is written.
    c.same("mlp_train", *SGD, "--precision", "f16", alone="stage=2")
    c.verify("lenet_train", "stages=[data=2,model=2; data=1]", "--mode", "auto", *SGD, "--loss-scale", "static:scale=1024")


@case
def at_once(c):
    """Without micro-batches the stages run one after the other."""
    c.same("mlp_train", *SGD, parts=1)
    c.verify("lenet_train", "stages=[data=2,model=2; data=1]", "--mode", "auto", *SGD, parts=1)
    c.verify("lenet_train", "stages=[data=3; data=1]", "--mode", "data", *SGD, parts=1)  # with padding


@case
def inference(c):
    for mesh in ("stages=[data=2,model=2; data=1]", "stages=[data=1; data=3]"):
        for mode in ("data", "auto"):
            c.verify("lenet_eval", mesh, "--mode", mode, train=False)


@case
def tied_table(c):
    """A table that the first stage has and the last one reads, too: it gets boxes of it, and sends its gradients back."""
    model, (batch, length, words) = c.bert(4)
    rng = np.random.default_rng(3)
    for name, most in (("ids", words), ("segments", 2), ("y", words)):
        np.save(c.folder / f"{name}.npy", rng.integers(0, most, (2 * batch, length)))
    data = f"npy:{c.folder}/ids.npy,{c.folder}/segments.npy,{c.folder}/y.npy"
    options, sizes = ("--inputs", "ids,segments", *SGD), {"parts": 2, "rows": 0}
    c.same(str(model), *options, data=(data,), **sizes)
    for mode in ("data", "auto"):
        for mesh in ("stages=[data=2,model=2; data=1]", "stages=[data=1; model=2]"):
            c.verify(str(model), mesh, "--mode", mode, *options, data=data, **sizes)


@case
def computed_again(c):
    c.same("lenet_train", *SGD, "--recompute", "full")
    c.same("lenet_train", *SGD, "--recompute", "cheap")
    c.verify("lenet_train", "stages=[data=2,model=2; data=1]", *SGD, "--recompute", "auto")


@case
def orders(c):
    """Orders with names and of files, with one stage in a line."""
    wanted, order = c.train(c.compile("mlp_train", "1", *SGD)), c.folder / "order.csv"
    for schedule in ("gpipe", "1f1b", "zb-h1", "zb-h2"):
        plan = c.compile("mlp_train", "stages=[a=1; b=1]", *SGD, "--pipeline", f"schedule={schedule}")
        losses, tensors = c.train(plan)
        expect(losses == wanted[0], f"{schedule}: {losses}")
        for name, values in tensors.items():
            expect(np.array_equal(values, wanted[1][name]), f"{schedule}: '{name}' differs")
    order.write_text(c.run(c.bin / "tessera-dump", plan, "--schedule", "csv"))
    mesh = "stages=[data=2,model=2; data=1]"
    plan = c.verify("mlp_train", mesh, *SGD, "--pipeline", f"schedule={order}")
    expect(c.run(c.bin / "tessera-dump", plan, "--schedule", "csv") == order.read_text(), "another order")


@case
def saved(c):
    """strategies.json has the strategies on each mesh, and gives the same plan."""
    mesh = "stages=[data=2,model=2; data=1]"
    plan = c.compile("lenet_train", mesh, "--mode", "auto", *SGD)
    text = json.loads((plan / "strategies.json").read_text())
    expect(text["mesh"] == mesh and [one["mesh"] for one in text["versions"]] == ["data=2,model=2", "data=1"], text["mesh"])
    again = c.compile("lenet_train", mesh, "--mode", "auto", *SGD, "--strategy", plan / "strategies.json")
    plans = sorted(path.name for path in plan.glob("*.plan"))
    expect(plans and plans == sorted(path.name for path in again.glob("*.plan")), plans)
    for name in (*plans, "strategies.json"):
        expect((plan / name).read_bytes() == (again / name).read_bytes(), f"{name} differs")
    for other in ("stages=[data=1; data=2,model=2]", "stage=2,data=2,model=2"):
        told = c.compile("lenet_train", other, "--mode", "auto", *SGD, "--strategy", plan / "strategies.json", code=1)
        expect("it was saved for mesh " + mesh + ", not for" in told, told)


@case
def by_hand(c):
    """Entries hold where the mesh of the operator's stage has what they name."""
    mesh, file = "stages=[data=2,model=2; data=1]", c.folder / "mine.json"

    def refused(entry):
        file.write_text(json.dumps([entry]))
        return c.compile("mlp_train", mesh, "--mode", "auto", *SGD, "--strategy", file, code=1)

    cut = {"op": "/fc1/Gemm", "in": [["data", None], ["model", None]], "stage": 0}
    for mode in ("semi-auto", "auto"):
        file.write_text(json.dumps([cut, {"op": "/fc2/Gemm", "stage": 1}]))
        plan = c.verify("mlp_train", mesh, "--mode", mode, *SGD, "--strategy", file)
        told = json.loads((plan / "strategies.json").read_text())
        expect([one["stage"] for one in told["stages"]] == [0, 1], told["stages"])
        first = [op for op in told["versions"][0]["functions"][0]["operators"] if op["op"] == "/fc1/Gemm"]
        expect(first and "model" in first[0]["strategy"], first)
    text = refused({"op": "/fc2/Gemm", "in": [["data", None], ["model", None]], "stage": 1})
    expect("operator '/fc2/Gemm' is in stage 1, whose mesh data=1 has no axis 'model'" in text, text)
    text = refused({"op": "/fc1/Gemm", "in": [["rows", None], [None, None]]})
    expect("operator '/fc1/Gemm': no stage can do that: mesh data=2,model=2 has no axis 'rows'" in text, text)
    text = refused({"op": "/fc1/Gemm", "in": [[3, 1], [1, 1]]})
    expect("has no axes for 3 parts" in text, text)
    text = refused({"op": "/fc1/Gemm", "stage": 2})
    expect("there is no stage 2; the 2 stages are 0 to 1" in text, text)


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
def a_cut_that_fits(c):
    # Another cut of the same strategies fits; where none does, strategies are searched for a smaller memory.
    mesh, options = "stages=[data=2,model=2; data=1]", ("--mode", "auto")
    c.compile("lenet_train", mesh, *options)
    for memory, told, *more in (("600KiB", "cutting its stages again"), ("215KiB", "searching again", "--recompute", "auto")):
        plan = c.compile("lenet_train", mesh, *options, "--memory", memory, *more)
        expect(f"{told} for one that fits in {memory[:3]}.00 KiB" in c.told, c.told)
        c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", STEPS, "--verify")
    # All micro-batches are held: a cut that holds fewer would fit by 1f1b alone.
    plan = c.compile("lenet_train", "stages=[data=1; data=2; data=1]", "--pipeline", "schedule=gpipe", "--memory",
                     "1400KiB", parts="8", rows=64)
    c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", STEPS, "--verify")
    said = c.compile("lenet_train", mesh, *options, "--memory", "20KiB", code=1)
    expect(said.count("error: ") == 1 and "no assignment of strategies fits" in said, said)


@case
def tells(c):
    plan = c.compile("mlp_train", "stages=[data=2,model=2; data=1]", *SGD)
    expect("mesh         stages=[data=2,model=2; data=1], 5 ranks" in c.told, c.told)
    text = c.run(c.bin / "tessera-dump", plan, "--schedule")
    expect("0 to 3" in text, text)
    # What one rank needs is what the fullest one does, here the last.
    plan = c.compile("lenet_train", "stages=[data=2,model=2; data=1]", "--mode", "auto")
    page = json.loads(c.run(c.bin / "tessera-dump", plan, "--json"))
    arenas = [rank["arena_bytes"] for rank in page["ranks"]]
    expect(arenas[4] == max(arenas) == page["page"]["head"]["arena_bytes"], f"{arenas}, {page['page']['head']}")


@case
def counts_collectives(c):
    """What is sent is summed up over the operators as their stages have them, whichever mesh comes first."""
    found = []
    for mesh in ("stages=[data=1; data=2,model=2]", "stages=[data=2,model=2; data=1]"):
        for function in c.report(c.compile("lenet_train", mesh, "--mode", "data", *SGD))["functions"]:
            sent = [one for op in function["operators"] for one in op["collectives"]] + function["boundary"]
            expect(function["bytes_sent"] == sum(one["bytes_sent"] for one in sent), f"{mesh}: {function['bytes_sent']}, {sent}")
            count = sum(one.get("times", 1) for one in sent if one["bytes_sent"] > 0)
            expect(function["num_collectives"] == count, f"{mesh}: {function['num_collectives']}, {sent}")
            expect(0 < function["num_messages"] <= count or count == 0, f"{mesh}: {function['num_messages']} of {count}")
            found.append(function["bytes_sent"])
    # A first stage of one rank, where nothing is sent, is no reason to report nothing.
    expect(found[0] > 0 and found[len(found) // 2] > 0, found)


@case
def what_if(c):
    mesh = "stages=[data=2,model=2; data=1]"
    asked = ("--what-if", "nodes=1,2", "--what-if", f"batch={ROWS},{2 * ROWS}")
    tables = c.report(c.compile("mlp_train", mesh, *SGD, *asked, parts=2))["what_if"]
    one, two = tables["clusters"]
    grown = "stages=[node=2,data=2,model=2; node=2,data=1]"
    for line, where, ranks, options in ((one, mesh, 5, ()), (two, grown, 10, ("--topology", "2xcpu"))):
        expect(line["mesh"] == where and line["ranks"] == ranks, f"{line}")
        step = c.report(c.compile("mlp_train", where, *SGD, *options, parts=2))["functions"][0]["predicted_ns"]
        expect(line["predicted_ns"] == step, f"{line}, compiled {step}")
    step = c.report(c.compile("mlp_train", mesh, *SGD, parts=2, rows=2 * ROWS))["functions"][0]["predicted_ns"]
    expect(tables["sizes"][1]["predicted_ns"] == step, f"{tables['sizes']}, compiled {step}")
    text = c.compile("mlp_train", "stages=[node=2; data=1]", *SGD, "--what-if", "nodes=2", code=1)
    expect("--what-if adds an axis 'node' to the mesh, but node=2 has one" in text, text)


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
            (good, "--compress does not go with stages that have meshes of their own", "--compress", "bf16"),
            (good, "--reproducible does not go with stages", "--reproducible"),
            (good, "in mode hybrid the shapes of the model file are those of a rank of one mesh", "--mode", "hybrid")):
        # Before the model is read, which is not there.
        text = c.run(c.bin / "tessera-compile", "none.onnx", "--mesh", mesh, "--train", "--accumulate", 4, *options, "-o",
                     c.folder / "plan", code=2)
        expect(what in text, f"{mesh} {options}: {text}")
    text = c.compile("mlp_train", "stages=[data=3; data=1]", "--mode", "data", *SGD, code=1)
    expect("is not divided by 4 micro-batches" in text, text)


if __name__ == "__main__":
    main(__doc__, Context)
