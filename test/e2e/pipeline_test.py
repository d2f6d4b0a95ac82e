#!/usr/bin/env python3
"""tessera-compile --mesh stage=N: a network cut into stages trains to the same bits as the uncut one.

usage: pipeline_test.py --bin DIR --models DIR [CASE...]
"""
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx

from cases import case, main
from pipelining import STEPS, Context, expect

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from networks import Network  # noqa: E402


@case
def mlp(c):
    pairs = [("stage=2", "1"), ("stage=2,data=2", "data=2"), ("stage=3", "1")]
    for options in ((), ("--optimizer", "adam:lr=0.01", "--clip-norm", "0.1", "--schedule", "cosine:steps=9,warmup=2")):
        c.same("mlp_train", pairs, 4, c.images(1, 28, 28), *options)
    for schedule in ("gpipe", "1f1b", "zb-h1", "zb-h2"):
        c.same("mlp_train", [("stage=2", "1", "--pipeline", f"schedule={schedule}")], 4, c.images(1, 28, 28))


@case
def several_stages_on_a_rank(c):
    pairs = [("stage=2", "1", "--pipeline", "schedule=interleaved:3"), ("stage=2,data=2", "data=2", "--pipeline", "schedule=interleaved:2"),
             ("stage=2", "1", "--pipeline", "schedule=zb-v")]
    c.same("mlp_train", pairs, 4, c.images(1, 28, 28), "--optimizer", "adam:lr=0.01", "--clip-norm", "0.1")
    plan = c.compile("mlp_train", "stage=2,data=2", 4, "--pipeline", "schedule=interleaved:2")
    for told in ("4 stages on 2 places, 4 micro-batches, schedule interleaved:2", "stage 2 (place 0) from ", "stage 3 (place 1) from "):
        expect(told in c.told, c.told)
    report = json.loads((plan / "report.json").read_text())["pipeline"]
    expect([stage["device"] for stage in report["stages"]] == [0, 1, 0, 1], report)
    expect(all(stage["forward_ns"] > 0 and stage["operators"] > 0 for stage in report["stages"]), report)
    text = c.run(c.bin / "tessera-dump", plan, "--schedule")
    for told in (f"predicted {report['predicted_ns'] / 1e6:.3f} ms, 4 stages on 2 places, 4 micro-batches, schedule interleaved:2",
                 "0, 2   0 to 1", "1, 3   2 to 3", "5 micro-batches, ", "stages 0, 2", "small letters: of the further stages of a rank", "0F0..1 2F0..1 ", "1F0..1 3F0 3I0 3W0 3F1"):
        expect(told in text, f"'{told}' is missing: {text}")
    for mesh, parts, schedule, told in (("stage=2", 3, "interleaved:2", "3 micro-batches cannot go through the 2 places of the axis "
                                         "'stage' in groups of 2; use --accumulate 4"),
                                        ("stage=2", 3, "zb-v", "3 micro-batches are fewer than twice the 2 places of the axis 'stage'; use "
                                         "--accumulate 4 or more"),
                                        ("stage=2", 1, "zb-v", "one micro-batch leaves nothing to order"),
                                        ("stage=2", 1, "interleaved:2", "one micro-batch leaves nothing to order"),
                                        ("stage=3", 3, "interleaved:60", "too few for 180 stages")):
        said = c.compile("mlp_train", mesh, parts, "--pipeline", f"schedule={schedule}", rows=6, code=1)
        expect(told in said and said.count("error: ") == 1, said)
    back = c.compile("mlp_train", "stage=2", 4, "--pipeline", "schedule=zb-v")
    expect("stage 2 (place 1) from " in c.told and "stage 3 (place 0) from " in c.told, c.told)
    text = c.run(c.bin / "tessera-dump", back, "--schedule")
    expect("stages 0, 3" in text and "stages 1, 2" in text, text)
    said = c.compile("mlp_train", "stage=2", 4, "--pipeline", "schedule=interleaved:2", "--memory", "100KiB", code=1)
    expect("--pipeline schedule=1f1b (place 0 holds 5 micro-batches of its 2 stages at once)" in said, said)


@case
def the_number_of_micro_batches_beside_the_schedule(c):
    for schedule, alone in (("schedule=1f1b,", "schedule=1f1b"), ("", "schedule=auto")):
        plans = [c.compile("mlp_train", "stage=2,data=2", *how) for how in ((4, "--pipeline", alone), (None, "--pipeline", f"{schedule}micro=4"),
                                                                           (4, "--pipeline", f"micro=4,{alone}"))]
        for other in plans[1:]:
            for file in ("rank0.plan", "rank3.plan", "compile.json"):
                expect((other / file).read_bytes() == (plans[0] / file).read_bytes(), f"{schedule}micro=4: {file} differs")


@case
def a_cut_that_fits(c):
    # The first cut counts less than its arena needs; another one of the same strategies fits, with stages that are less even.
    mesh, options = "stage=2", ("--pipeline", "schedule=interleaved:2")
    report = lambda plan: json.loads((plan / "report.json").read_text())
    first = report(c.compile("lenet_train", mesh, 4, *options, rows=16))
    small = c.compile("lenet_train", mesh, 4, *options, "--memory", "750KiB", rows=16)
    expect("cutting its stages again for one that fits in 750.00 KiB" in c.told, c.told)
    last = report(small)
    expect(last["pipeline"]["predicted_ns"] > first["pipeline"]["predicted_ns"], (first["pipeline"], last["pipeline"]))
    c.same("lenet_train", [(mesh, "1", *options, "--memory", "750KiB")], 4, c.images(1, 28, 28, rows=16), rows=16)
    again = c.compile("lenet_train", mesh, 4, *options, "--memory", "750KiB", "--strategy", small / "strategies.json", rows=16)
    expect((again / "rank0.plan").read_bytes() == (small / "rank0.plan").read_bytes(), "the saved strategies give another plan")
    said = c.compile("lenet_train", mesh, 4, *options, "--memory", "400KiB", rows=16, code=1)
    expect(said.count("error: ") == 1 and "the limit is 400.00 KiB" in said, said)


@case
def ignored_targets(c):
    """The loss is the mean over what counts of all micro-batches: of one nothing does, of another one half, of others all."""
    x, = c.images(1, 28, 28, rows=16)
    labels = np.load(c.folder / "y.npy") % 10
    labels[labels == 3] = 4
    labels[:4] = labels[4:6] = labels[9] = 3
    np.save(c.folder / "y.npy", labels)
    pairs = [("stage=2", "1"), ("stage=3", "1"), ("stage=2,data=2", "data=2"), ("stage=2", "1", "--pipeline", "schedule=interleaved:2"),
             ("stage=2", "1", "--pipeline", "schedule=zb-h2"), ("stage=2", "1", "--mode", "auto")]
    for options in ((), ("--clip-norm", "0.1", "--optimizer", "adam:lr=0.01"), ("--loss-scale", "static:scale=1024")):
        c.same("mlp_train", pairs, 4, (x, "--shuffle", 0), "--loss", "cross_entropy:ignore_index=3", *options, rows=16)


@case
def outputs_of_several_stages(c):
    """The loss is of the last output. Others are made in earlier stages, with weights of which there is no gradient, or are added to it."""
    net, hidden, classes, rows = Network(), 24, 10, 8
    x = net.input("x", ["batch", 12])
    features = net.node("Relu", net.dense(x, "a", 12, hidden), name="features")
    beside = net.dense(features, "beside", hidden, classes)
    added = net.node("ReduceMean", net.node("Mul", features, features), name="added", keepdims=0)
    logits = net.dense(net.node("Relu", net.dense(features, "b", hidden, hidden)), "c", hidden, classes)
    made = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
            for name, shape in ((features, ["batch", hidden]), (beside, ["batch", classes]), (logits, ["batch", classes]), (added, []))]
    graph = onnx.helper.make_graph(net.nodes, "net", net.inputs, made)
    path, rng = c.folder / "outputs.onnx", np.random.default_rng(5)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    np.save(c.folder / "x.npy", rng.standard_normal((rows, 12)).astype(np.float32))
    np.save(c.folder / "y.npy", rng.integers(0, classes, rows))
    data = f"npy:{c.folder}/x.npy,{c.folder}/y.npy"
    options = ("--inputs", "x", "--loss", "cross_entropy:output=2")
    pairs = [("stage=2", "1"), ("stage=3", "1"), ("stage=2,data=2", "data=2"), ("stage=2", "1", "--pipeline", "schedule=zb-v")]
    for more in ((), ("--aux-outputs", "3=0.5"), ("--aux-outputs", "3=0.5", "--clip-norm", "0.1", "--mode", "auto")):
        c.same(str(path), pairs, 4, (data,), *options, *more, rows=rows)
    found = {}
    for mesh in ("1", "data=2", "stage=2", "stage=3", "stage=2,data=2"):
        folder = c.folder / f"outputs of {mesh}"
        plan = c.compile(str(path), mesh, 4, *options, rows=rows)
        c.run(c.bin / "tessera-run", plan, "--infer", "--data", data, "--output", folder, "--backend", "reference")
        found[mesh] = {file.name: np.load(file) for file in folder.glob("*.npy")}
        alone = found["data=2" if "data" in mesh else "1"]
        expect(len(found[mesh]) == 4 and found[mesh].keys() == alone.keys(), f"{mesh}: {list(found[mesh])}")
        for name, values in found[mesh].items():
            expect(np.array_equal(values, alone[name]), f"{mesh}: {name}: {values}, alone {alone[name]}")


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
def averages_stay_with_their_layer(c):
    """Running means are no work, so that a cut could put them into any stage. Evaluation has its layers where they are."""
    for stages in 2, 3:
        plan = c.compile("resnet18_cifar_train", f"stage={stages}", 4)
        expect(not [name for name in firsts(c) if "running" in name], c.told)
        kernels = [int(n) for n in re.findall(r"^ +eval: (\d+) kernels", c.run(c.bin / "tessera-dump", plan), re.M)]
        expect(len(kernels) == stages and min(kernels) >= 60 // stages // 2, f"kernels of @eval by stage: {kernels}")


@case
def tied_table(c):
    parts = 4
    model, (batch, length, words) = c.bert(batch=2)
    rng = np.random.default_rng(7)
    rows = batch * parts
    for name, most in (("ids", words), ("segments", 2), ("y", words)):
        np.save(c.folder / f"{name}.npy", rng.integers(0, most, (rows, length)))
    data = (f"npy:{c.folder}/ids.npy,{c.folder}/segments.npy,{c.folder}/y.npy",)
    pairs = [("stage=2", "1"), ("stage=4", "1"), ("stage=2,data=2", "data=2"), ("stage=2", "1", "--pipeline", "schedule=interleaved:2")]
    c.same(str(model), pairs, parts, data, "--inputs",
           "ids,segments", "--optimizer", "adam:lr=0.01", rows=0)


def order_of(c, plan):
    """What tessera-dump prints for tessera-compile, as lists of tasks."""
    return [line.split(",") for line in c.run(c.bin / "tessera-dump", plan, "--schedule", "csv").splitlines()]


@case
def orders_as_files(c):
    """The order of a plan is printed, read back, and gives the same plan; what it may not be is told."""
    path, parts = c.folder / "order.csv", 4
    for mesh, schedule in (("stage=2,data=2", "zb-h1"), ("stage=3", "gpipe"), ("stage=3", "auto"), ("stage=2", "interleaved:2"), ("stage=2", "zb-v")):
        plan = c.compile("mlp_train", mesh, parts, "--pipeline", f"schedule={schedule}")
        order = order_of(c, plan)
        expect(sorted(task for line in order for task in line) ==
               sorted(f"{s}{a}{m}" for s in range(4 if schedule in ("interleaved:2", "zb-v") else len(order)) for a in "FIW" for m in range(parts)), order)
        path.write_text("".join(",".join(line) + "\n" for line in order))
        again = c.compile("mlp_train", mesh, parts, "--pipeline", f"schedule={path}")
        expect(f"schedule {path}" in c.told, c.told)
        expect(order_of(c, again) == order, f"{mesh} {schedule}: {order_of(c, again)}")
        for rank in plan.glob("rank*.plan"):
            expect(rank.read_bytes() == (again / rank.name).read_bytes(), f"{mesh} {schedule}: {rank.name} differs")
    # An order of nobody's: forward passes by two, and what was put off at the end.
    first, second = "0F0,0F1,0I0,0I1,0F2,0F3,0I2,0I3,0W0,0W1,0W2,0W3", "1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3"
    path.write_text(f"{first}\n{second}\n")
    c.same("mlp_train", [("stage=2", "1", "--pipeline", f"schedule={path}")], parts, c.images(1, 28, 28))
    path.write_text(f"{first}\n{second},1F4\n")
    for text, told in ((f"{first}\n", "has 1 line for 2 places"), (f"{first}\n{second},1F4\n", "line 2: 1F4 is of micro-batch 4"),
                       (f"{first},0W3\n{second}\n", "line 1: 0W3 comes twice; leave one out"),
                       (f"{first}\n1F0,what,{second}", "line 2: 'what' is no task; write 2F0"),
                       (f"{first[:-4]}\n{second}\n", "line 1: 0W3 is missing"),
                       (f"{first},2F0\n{second}\n", "line 1: 2F0 is of stage 2, but 3 stages cannot lie in 2 lines; every line has as"),
                       (f"{first}\n{second},3F0\n", "line 1: 2F0 is missing"),
                       (f"0F0,0I0,0F1,0I1,0F2,0F3,0I2,0I3,0W0,0W1,0W2,0W3\n{second}\n",
                        "line 1 at 0I0 for 1I0, line 2 at 1F1 for 0F1; move one of them"),
                       ("\x00\x01,\xff\n", "is no task"), ("", "line 1 has no task")):
        path.write_bytes(text.encode("latin-1"))
        said = c.compile("mlp_train", "stage=2", parts, "--pipeline", f"schedule={path}", code=1)
        expect(f"error: --pipeline schedule={path}: " in said and told in said and said.count("\n") == 1, f"{told}: {said}")
    for mesh, count, options, told in (("stage=2", 1, (), "one micro-batch leaves nothing to order; add --train and --accumulate N"),
                                       ("stage=2", 4, ("none.csv",), "none.csv: cannot be opened")):
        said = c.compile("mlp_train", mesh, count, "--pipeline", f"schedule={(*options, path)[0]}", code=1)
        expect(told in said and said.count("\n") == 1, said)
    # Memory: what the order of the stage that needs most may do otherwise.
    path.write_text("0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n")
    said = c.compile("mlp_train", "stage=2", parts, "--pipeline", f"schedule={path}", "--memory", "100KiB", code=1)
    expect(f"fewer forward passes before their backward passes in line 1 of {path}, which holds 4 micro-batches at once" in said, said)
    said = c.compile("mlp_train", "stage=2", parts, "--pipeline", "schedule=gpipe", "--memory", "100KiB", code=1)
    expect("--pipeline schedule=1f1b (stage 0 holds 4 micro-batches at once)" in said, said)


def firsts(c):
    """The first operator of each stage, as the compiler told it."""
    return re.findall(r"^ +stage \d+ (?:\(place \d+\) )?from (\S+):", c.told, re.M)


@case
def stages_by_operator(c):
    """A strategy file says where some operators are; the search finds the rest."""
    def given(*entries):
        path = c.folder / "given.json"
        path.write_text(json.dumps([dict(zip(("op", "stage"), entry)) if isinstance(entry, tuple) else entry for entry in entries]))
        return "--strategy", path
    free = c.compile("mlp_train", "stage=2", 4)
    usual = firsts(c)
    expect(usual[1] != "/fc2/Gemm", usual)  # most of the work is before it
    bound = c.compile("mlp_train", "stage=2", 4, *given(("/fc2/*", 0), ("/Relu_1", 1)))
    expect(firsts(c)[1] == "/Relu_1", c.told)
    expect((bound / "rank0.plan").read_bytes() != (free / "rank0.plan").read_bytes(), "the stage changes nothing")
    again = c.compile("mlp_train", "stage=2", 4, "--strategy", bound / "strategies.json")
    for name in ("rank0.plan", "rank1.plan", "strategies.json", "weights.safetensors"):
        expect((again / name).read_bytes() == (bound / name).read_bytes(), f"saved stages give another {name}")
    c.same("mlp_train", [("stage=2", "1", *given(("/fc2/*", 0), ("/Relu_1", 1)))], 4, c.images(1, 28, 28))
    c.same("mlp_train", [("stage=2", "1", "--pipeline", "schedule=interleaved:2", *given(("/fc1/*", 0), ("/fc3/*", 3)))], 4,
           c.images(1, 28, 28))
    c.compile("mlp_train", "stage=2,model=2", 4, "--mode", "auto",
              *given({"op": "/fc2/Gemm", "in": [[1, 1], [2, 1]], "pipeline_stage": 0}, ("/fc3/Gemm", 1)))
    expect(firsts(c)[1] in ("/Relu_1", "/fc3/Gemm"), c.told)
    for mesh, entries, told in (
            ("stage=2", [("/fc2/*", 2)], "operator '/fc2/*': there is no stage 2; the 2 stages are 0 to 1"),
            ("data=2", [("/fc2/*", 1)], "it gives operators stages, but mesh data=2 has none; use a mesh such as stage=2,data=2"),
            ("stage=2", [("/fc1/Gemm", 1), ("/fc2/Gemm", 0)], "operator '/fc2/Gemm' was given stage 0, but it waits for '/fc1/Gemm/bias' of stage 1"),
            ("stage=2", [("*", 0)], "no operator of the forward pass is left for stage 1"),
            ("stage=2", [("/fc*", 0), ("/fc1/Gemm", 1)], "has two stages: 0 by '/fc*' and 1 by '/fc1/Gemm'")):
        said = c.compile("mlp_train", mesh, 4, *given(*entries), code=1)
        expect(told in said, said)


@case
def shows_what_runs_when(c):
    plan = c.compile("mlp_train", "stage=2,data=2", 4, "--pipeline", "schedule=1f1b")
    text = c.run(c.bin / "tessera-dump", plan, "--schedule")
    wide = c.compile("mlp_train", "stage=3", 6, "--pipeline", "schedule=zb-h2", rows=6)
    said = c.run(c.bin / "tessera-dump", wide, "--schedule")
    expect("schedule zb-h2" in said and said.count(" 5 micro-batches, ") == 2, said)
    report = json.loads((plan / "report.json").read_text())["pipeline"]
    for told in (f"train: predicted {report['predicted_ns'] / 1e6:.3f} ms, 2 stages, 4 micro-batches, schedule 1f1b, "
                 f"bubble {100 * report['bubble']:.1f} %", "0 to 1", "2 to 3", "2 micro-batches, ", "1 micro-batch, ", "0F0..1 0I0",
                 "1F0 1I0 1W0 1F1"):
        expect(told in text, f"'{told}' is missing: {text}")
    lines = [line.split()[-1] for line in text.splitlines() if line.startswith("  stage") and set(line.split()[-1]) <= set("FIW.")]
    expect(len(lines) == 2 and all(len(line) == 100 for line in lines), text)
    for line, stage in zip(lines, report["stages"]):
        span = sum(stage[f"{action}_ns"] for action in ("forward", "input", "weight")) * 4
        busy = 100 * span / (report["predicted_ns"] - max(s["once_ns"] for s in report["stages"]))
        expect(abs(sum(letter != "." for letter in line) - busy) <= 13, f"{line}: busy {busy}")  # a column may be rounded in each action
    for mesh, parts, form, told in (("data=2", 4, "csv", "the plan has no stages; compile with --mesh stage=2,..."),
                                    ("stage=2", 1, "text", "compile with --train --accumulate N"),
                                    ("stage=2", 1, "json", "compile with --train --accumulate N")):
        other = c.compile("mlp_train", mesh, parts)
        expect(told in c.run(c.bin / "tessera-dump", other, "--schedule", form, code=1), told)
    for damage in ({"stages": []}, {"stages": [{}, {}]}, {"transfers_ns": ["x"]}, {"transfers_ns": [-5]}, {"micro_batches": 1e300},
                   {"micro_batches": 3}, {"stages": [report["stages"][0]] * 2}):
        whole = json.loads((plan / "report.json").read_text())
        damaged = c.folder / "damaged"
        damaged.mkdir(exist_ok=True)
        for file in plan.glob("*"):
            if file.is_file():
                (damaged / file.name).write_bytes(file.read_bytes())
        (damaged / "report.json").write_text(json.dumps(whole | {"pipeline": whole["pipeline"] | damage}))
        said = c.run(c.bin / "tessera-dump", damaged, "--schedule", code=1)
        expect("compile the model again" in said and said.count("\n") == 1, f"{damage}: {said}")


def slow_network(c):
    """Pairs of devices with a network between them over which gradients take far longer than activations."""
    path = c.folder / "slow.json"
    path.write_text(json.dumps({"name": "slow", "devices": 8, "flops": {"f32": 1e10}, "memory_bandwidth": 1e12, "memory": "1GiB",
                                "links": [{"devices": 2, "latency": 1e-6, "bandwidth": 1e10},
                                          {"devices": 8, "latency": 2e-4, "bandwidth": 1e8}]}))
    return path


def small_gpt(c):
    """Six equal layers, with a batch of any size; and data for 32 rows."""
    model, length, words = c.folder / "gpt.onnx", 8, 32
    subprocess.run([sys.executable, c.models / "networks.py", "gpt", "-o", model, "layers=6", "hidden=32", "heads=2", f"words={words}",
                    "batch=batch", f"length={length}"], check=True)
    rng = np.random.default_rng(9)
    for name in ("ids", "y"):
        np.save(c.folder / f"{name}.npy", rng.integers(0, words, (32, length)))
    return str(model), (f"npy:{c.folder}/ids.npy,{c.folder}/y.npy",)


@case
def stages_are_chosen(c):
    """--pipeline auto: what is chosen is the plan of that choice, with the results of the same without stages."""
    model, data = small_gpt(c)
    options = ("--inputs", "ids", "--mode", "auto", "--topology", slow_network(c))
    plan = c.compile(model, "4", None, *options, "--pipeline", "auto", rows=32)
    report = json.loads((plan / "report.json").read_text())
    best = report["stages"]["best"][0]
    expect(best["stages"] in (2, 4) and best["micro_batches"] > 1 and not best["estimate"], report["stages"])
    expect(best["predicted_ns"] == report["pipeline"]["predicted_ns"] == report["functions"][0]["predicted_ns"], report["stages"])
    expect(report["pipeline"]["micro_batches"] == best["micro_batches"], report["pipeline"])
    for told in (f"{best['stages']} stages, {best['micro_batches']} micro-batches", f"schedule {best['schedule']}", "no stages, ",
                 "combinations of stages, micro-batches and meshes were searched"):
        expect(told in c.told, f"'{told}' is missing: {c.told}")
    ranks = [best["stages"], *(int(axis.split("=")[1]) for axis in best["mesh"].split(",")[1:])]
    expect(np.prod(ranks) == 4, best)
    # Without stages the same ranks would take longer.
    alone = c.compile(model, "4", best["micro_batches"], *options, rows=32)
    expect(json.loads((alone / "report.json").read_text())["functions"][0]["predicted_ns"] > best["predicted_ns"], report["stages"])
    given = c.compile(model, best["mesh"], best["micro_batches"], *options, "--pipeline", f"schedule={best['schedule']}", rows=32)
    for rank in plan.glob("rank*.plan"):
        expect(rank.read_bytes() == (given / rank.name).read_bytes(), f"{rank.name} differs")
    stage = ",".join(best["mesh"].split(",")[1:]) or "1"
    losses, tensors = c.train(plan, *data)
    uncut = c.train(c.compile(model, stage, best["micro_batches"], *options, rows=32), *data)
    expect(losses == uncut[0] and len({loss["loss"] for loss in losses}) == STEPS, (losses, uncut[0]))
    for name, tensor in tensors.items():
        expect(np.array_equal(tensor, uncut[1][name]), f"'{name}' differs")
    # The same without a plan, and with a number of micro-batches that is given.
    command = (c.bin / "tessera-compile", model, "--mesh", 4, "--dim", "batch=32", "--train", *options, "--seed", 1, "--search-only",
               "--pipeline")
    def found_by(*more):
        return json.JSONDecoder().raw_decode(c.run(*command, *more, "--json"))[0]  # warnings come behind it
    found = found_by("auto")
    expect(found["stages"] == report["stages"] and found["pipeline"] == report["pipeline"], found["stages"])
    found = found_by("auto", "--accumulate", 2)
    expect({one["micro_batches"] for one in found["stages"]["best"]} == {2}, found["stages"])
    expect(found_by("auto,micro=2")["stages"] == found["stages"], "auto,micro=2 is not auto with --accumulate 2")
    expect("cannot be cut in 3 micro-batches" in c.run(*command, "auto", "--accumulate", 3, code=1), "3 do not divide 32")


@case
def chosen_stages_are_the_same_as_given_ones(c):
    """Also where loops compute again what is large, which they do within a stage; and the saved strategies give the plan again."""
    model = c.folder / "gpt.onnx"
    subprocess.run([sys.executable, c.models / "networks.py", "gpt", "-o", model, "layers=6", "hidden=128", "heads=4", "words=64",
                    "batch=batch", "length=32"], check=True)
    options = ("--inputs", "ids", "--topology", "4xcpu")
    searched = (*options, "--mode", "auto", "--search-budget", "0.02")
    plan = c.compile(str(model), "8", 4, *searched, "--pipeline", "auto", rows=64)
    best = json.loads((plan / "report.json").read_text())["stages"]["best"][0]
    expect(best["stages"] > 1, best)
    schedule = ("--pipeline", f"schedule={best['schedule']}")
    for given in (searched, (*options, "--strategy", plan / "strategies.json")):
        same = c.compile(str(model), best["mesh"], 4, *given, *schedule, rows=64)
        for rank in plan.glob("rank*.plan"):
            expect(rank.read_bytes() == (same / rank.name).read_bytes(), f"{given}: {rank.name} differs")


@case
def stages_are_even_where_layers_run_again(c):
    """What runs again is not cut, and yet there are six even stages of six layers. The order knows that what ran again is in memory
    until weights' gradients are made, so that these do not wait."""
    model, data = small_gpt(c)
    def made(level):
        plan = c.compile(model, "stage=6", 12, "--inputs", "ids", "--topology", "cpu", "--recompute", level, rows=480)
        report = json.loads((plan / "report.json").read_text())
        return report["pipeline"]["bubble"], report["memory"]["arena_bytes"]
    (idle, bytes_), (idle_again, bytes_again) = made("none"), made("full")
    expect(idle_again <= idle, f"{idle_again} idle, without it {idle}")
    expect(bytes_again < bytes_ / 2, f"{bytes_again} bytes, without it {bytes_}")
    c.same(model, (("stage=6", "1"),), 4, data, "--inputs", "ids", "--recompute", "full", rows=32)


@case
def a_search_counts_what_a_stage_holds(c):
    """The first stage of four holds four micro-batches: one more search that counts them finds a plan that fits."""
    model, _ = small_gpt(c)
    options = ("--inputs", "ids", "--mode", "auto", "--topology", "8xa100", "--search-budget", "0.02")
    def arena(*more):
        plan = c.compile(model, "stage=4,data=2", 8, *options, *more, rows=128)
        return json.loads((plan / "report.json").read_text())["memory"]["arena_bytes"]
    limit = arena() * 3 // 4
    needed = arena("--memory", f"{limit}B")
    expect(needed <= limit, f"{needed} of {limit}")
    expect(c.told.count("searching again") == 1 and "4 micro-batches in a stage" in c.told, c.told)


@case
def smaller_limits_begin_at_what_was_counted(c):
    """The search counts less than the arena needs: a limit above that finds the same again."""
    model, _ = small_gpt(c)
    text = c.run(c.bin / "tessera-compile", model, "--inputs", "ids", "--mode", "auto", "--topology", slow_network(c), "--mesh",
                 "stage=2,data=2", "--dim", "batch=32", "--train", "--accumulate", 4, "--search-only", "--search-budget", "0.1", "--memory",
                 "1000KiB")
    limits = re.findall(r"^the plan needs .*, searching again for one that fits in 1000.00 KiB$", text, re.M)
    expect(0 < len(limits) <= 3, text)


@case
def copies_expire_under_a_smaller_limit(c):
    """Only then do they expire, since the search counts less than a stage holds; and what fits so takes little more."""
    model, _ = small_gpt(c)
    def step(*limit):
        text = c.run(c.bin / "tessera-compile", model, "--inputs", "ids", "--mode", "auto", "--topology", slow_network(c),
                     "--mesh", "stage=2,data=2", "--dim", "batch=32", "--train", "--accumulate", 4, "--search-only",
                     "--search-budget", "0.1", *limit)
        return float(re.search(r"^pipeline .* predicted ([0-9.]+) ms", text, re.M)[1])
    free, limited = step(), step("--memory", "1000KiB")
    expect(free < limited < 1.002 * free, f"{limited} ms, without a limit {free} ms")


@case
def a_first_search_is_not_repeated(c):
    """A plan that does not fit as it was first searched is made to fit from there."""
    model, _ = small_gpt(c)
    text = c.run(c.bin / "tessera-compile", model, "--inputs", "ids", "--mode", "auto", "--topology", slow_network(c), "--mesh", 2, "--dim",
                 "batch=32", "--train", "--accumulate", 4, "--pipeline", "auto", "--search-only", "--search-budget", "0.02", "--memory", "1300KiB")
    expect(" 1 combinations of stages" in text, text)
    again = text.count("searching again")
    expect(again > 1, text)
    expect(len(re.findall("^strategies ", text, re.M)) == 1 + again, text)


@case
def copies_count_in_an_estimate(c):
    """Stages that have no room for copies of activations are not made, where there is something that has."""
    model = c.folder / "gpt.onnx"
    subprocess.run([sys.executable, c.models / "networks.py", "gpt", "-o", model, "layers=6", "hidden=128", "heads=4", "words=64",
                    "batch=batch", "length=32"], check=True)
    text = c.run(c.bin / "tessera-compile", model, "--inputs", "ids", "--mode", "auto", "--topology", "4xcpu", "--mesh", 8, "--dim", "batch=64",
                 "--train", "--optimizer", "adam:lr=0.001", "--accumulate", 4, "--pipeline", "auto", "--search-only", "--search-budget", "0.02",
                 "--memory", "10MiB")
    needed = [float(mib) for mib in re.findall(r"^the plan needs ([0-9.]+) MiB", text, re.M)]
    expect(max(needed, default=0) < 12, text)  # stages with copies of activations need 13
    expect(float(re.search(r"^train .*predicted ([0-9.]+) ms", text, re.M)[1]) < 46, text)  # what such stages take once they fit


@case
def stages_share_the_cores_of_machines_in_an_estimate(c):
    """What is not made would not take much longer than the estimate says."""
    model, _ = small_gpt(c)
    command = (c.bin / "tessera-compile", model, "--inputs", "ids", "--mode", "auto", "--topology", "4xcpu", "--dim", "batch=60", "--train",
               "--search-only", "--search-budget", "0.1")
    found = json.JSONDecoder().raw_decode(c.run(*command, "--mesh", 12, "--pipeline", "auto", "--json"))[0]["stages"]["best"]
    estimates = [one for one in found if one["stages"] > 1 and one["micro_batches"] > 1 and one.get("estimate")]
    expect(not found[0]["estimate"] and estimates, found)
    # 3 micro-batches, whose 20 rows 4 ranks of a stage divide, as they do not 30. The best of 2 micro-batches takes 2.44 ms.
    expect(found[0]["micro_batches"] == 3 and found[0]["predicted_ns"] < 2.4e6, found[0])
    for one in estimates:
        text = c.run(*command, "--mesh", one["mesh"], "--accumulate", one["micro_batches"], "--pipeline", f"schedule={one['schedule']}")
        step = float(re.search(r"^pipeline .*predicted ([0-9.]+) ms", text, re.M)[1]) * 1e6
        expect(step < 1.25 * one["predicted_ns"], f"{one}: {step} ns")


@case
def gradients_of_a_tied_table_count_in_an_estimate(c):
    """They go from the last stage to the first for each micro-batch. Stages without them seemed faster than all that has no stages."""
    model, topology = c.folder / "gpt.onnx", c.folder / "slow.json"
    subprocess.run([sys.executable, c.models / "networks.py", "gpt", "-o", model, "layers=8", "hidden=64", "heads=2", "words=4096",
                    "batch=batch", "length=16"], check=True)
    topology.write_text(json.dumps({"name": "slow", "devices": 16, "flops": {"f32": 1e11}, "memory_bandwidth": 1e12, "memory": "1GiB",
                                    "links": [{"devices": 4, "latency": 1e-6, "bandwidth": 1e10},
                                              {"devices": 16, "latency": 1e-5, "bandwidth": 1e9}]}))
    def step(*options):
        text = c.run(c.bin / "tessera-compile", model, "--inputs", "ids", "--mode", "auto", "--topology", topology, "--mesh", 16, "--dim",
                     "batch=64", "--train", "--accumulate", 16, "--search-only", "--search-budget", "0.1", *options)
        return float(re.search(r"^train .*; predicted ([0-9.]+) ms", text, re.M)[1])
    chosen, alone = step("--pipeline", "auto"), step()
    expect(chosen <= alone, f"chosen {chosen} ms, without stages {alone} ms")


@case
def the_norm_of_all_stages_is_no_barrier(c):
    """With --clip-norm the micro-batches have the order and the times that they have without. The step is predicted to take longer by
    what adds up the norm, and no more."""
    model, _ = small_gpt(c)
    for schedule in ("1f1b", "zb-h1", "zb-h2", "auto"):
        plans = [c.compile(model, "stage=4", 8, "--inputs", "ids", "--topology", slow_network(c), "--pipeline", f"schedule={schedule}", *clip,
                           rows=32) for clip in ((), ("--clip-norm", "1"))]
        plain, clipped = (json.loads((plan / "report.json").read_text())["pipeline"] for plan in plans)
        orders = [c.run(c.bin / "tessera-dump", plan, "--schedule", "csv") for plan in plans]
        expect(orders[0] == orders[1], f"{schedule}: another order, {orders}")
        for stage, same in zip(plain["stages"], clipped["stages"]):
            expect(all(stage[part] == same[part] for part in ("first", "forward_ns", "input_ns", "weight_ns")), f"{schedule}: {stage}, {same}")
        once = [max(stage["once_ns"] for stage in report["stages"]) for report in (plain, clipped)]
        more = clipped["predicted_ns"] - plain["predicted_ns"]
        expect(0 < more == once[1] - once[0], f"{schedule}: {more} ns more, {once} once")
        expect(more < 0.08 * plain["predicted_ns"], f"{schedule}: {more} of {plain['predicted_ns']} ns")  # the published price of a barrier


@case
def no_stages_where_they_do_not_pay(c):
    """One micro-batch, or a fast network and nothing to gain."""
    plan = c.compile("mlp_train", "2", 1, "--mode", "auto", "--pipeline", "auto", "--topology", "8xa100")
    report = json.loads((plan / "report.json").read_text())
    expect(report["stages"]["best"][0]["stages"] == 1 and "pipeline" not in report, report["stages"])
    alone = c.compile("mlp_train", "2", 1, "--mode", "auto", "--topology", "8xa100")
    for rank in plan.glob("rank*.plan"):
        expect(rank.read_bytes() == (alone / rank.name).read_bytes(), f"{rank.name} differs")
    # A file with a batch of its own says how many rows a micro-batch has.
    model, _ = c.bert(batch=4)
    text = c.run(c.bin / "tessera-compile", model, "--inputs", "ids,segments", "--mesh", 2, "--mode", "auto", "--train", "--pipeline",
                 "auto", "--search-only")
    expect("the model file fixes the batch, which is then a micro-batch's; --accumulate N" in text, text)
    # Inference has one micro-batch.
    text = c.run(c.bin / "tessera-compile", c.models / "mlp_train.onnx", "--dim", "batch=8", "--mesh", 2, "--mode", "auto", "--pipeline",
                 "auto", "--search-only")
    expect("no stages, 1 micro-batch " in text, text)
    text = c.run(c.bin / "tessera-compile", c.models / "mlp_train.onnx", "--dim", "batch=8", "--mesh", 4, "--mode", "auto", "--train",
                 "--pipeline", "auto", "--search-only", "--memory", "10KiB", code=1)
    expect(text.count("error: ") == 1 and "fits in 10.00 KiB per rank" in text, text)


@case
def one_prediction(c):
    """Whoever tells how long a step takes tells the same."""
    page = c.folder / "page.html"
    for mesh, parts, schedule in (("stage=3", 4, "gpipe"), ("stage=2,data=2", 2, "zb-h1"), ("stage=2", 1, "auto")):
        plan = c.compile("mlp_train", mesh, parts, "--pipeline", f"schedule={schedule}", "--html", page)
        report = json.loads((plan / "report.json").read_text())
        train = report["functions"][0]
        predicted, ms = report["pipeline"]["predicted_ns"], f"{report['pipeline']['predicted_ns'] / 1e6:.3f} ms"
        expect(train["predicted_ns"] == predicted, train)
        work = train["compute_ns"] + train["communication_ns"]
        expect(predicted != work, f"the step takes as long as all work: {work}")
        summary = c.told
        expect(re.search(rf"^train .*predicted {ms} by all stages, of compute", summary, re.M), summary)
        expect(re.search(rf"^pipeline .*predicted {ms}, bubble", summary, re.M), summary)
        dump = c.bin / "tessera-dump"
        expect(f"train: predicted {ms} by all stages, of compute" in c.run(dump, plan), ms)
        if parts > 1:
            expect(f"train: predicted {ms}, " in c.run(dump, plan, "--schedule"), ms)
        head = json.loads(c.run(dump, plan, "--json"))["page"]["head"]
        expect(head["predicted_ns"] == predicted and head["pipeline"]["bubble"] == report["pipeline"]["bubble"], head)
        held = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)[1]
        expect(json.loads(held)["head"] == head, "the page says otherwise")
        c.run(dump, plan, "--svg", c.folder / "plan.svg")
        expect(f"predicted {predicted / 1e6:.1f} ms by all stages" in (c.folder / "plan.svg").read_text(), ms)
        other = c.compile("mlp_train", "1", parts)
        compared = c.run(dump, plan, other)
        expect(re.search(rf"^predicted step +{ms}", compared, re.M), compared)


@case
def tells_what_it_does(c):
    c.compile("mlp_train", "stage=2,data=2", 4)
    for text in ("2 stages, 4 micro-batches, schedule auto", "bubble", "stage 0 from", "stage 1 from"):
        expect(text in c.told, f"'{text}' is missing: {c.told}")
    report = json.loads((c.folder / "plan1" / "report.json").read_text())["pipeline"]
    expect(len(report["stages"]) == 2 and report["micro_batches"] == 4 and report["predicted_ns"] > 0, report)
    least, predicted = report["least_ns"], report["predicted_ns"]
    expect(0 < least <= predicted, report)
    told = f"in any order of its memory at least {least / 1e6:.3f} ms, gap to that bound {100 * (1 - least / predicted):.2f} %"
    expect(told in c.told, f"'{told}' is missing: {c.told}")
    c.compile("mlp_train", "stage=2,data=2", 4, "--pipeline", "schedule=1f1b")
    expect("in any order" not in c.told, c.told)
    for options, told in ((("data=2,stage=2",), "must be the first"), (("stage=1,data=2",), "2 stages or more"),
                          (("stage=40",), "too few for 40 stages")):
        text = c.compile("mlp_train", options[0], 4, code=1 if "40" in options[0] else 2)
        expect(told in text, text)
    for option, mesh, told in (("schedule=fast", "stage=2", "gpipe"), ("schedule=interleaved:1", "stage=2", "interleaved:V"), ("schedule=interleaved:65", "stage=2", "interleaved:V"),
                               ("order=1f1b", "stage=2", "gpipe"),
                               ("schedule=1f1b", "data=2", "stage=2,data=2")):
        text = c.compile("mlp_train", mesh, 4, "--pipeline", option, code=2)
        expect(told in text and text.count("\n") == 1, text)


if __name__ == "__main__":
    main(__doc__, Context)
