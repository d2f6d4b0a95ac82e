#!/usr/bin/env python3
"""Checkpoints: resumed bit for bit, on any mesh, after a kill at any moment; damage is found; others read them.

usage: checkpoint_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np

from cases import MPI_ENVIRONMENT, Programs, case, main
from launching import processes_of_ranks
from tensors import manifest_of, read_safetensors, sums_hold, whole_tensors, write_safetensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from networks import bert  # noqa: E402


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def one_line(text, *needed):
    lines = [line for line in text.splitlines() if re.match(r"tessera-\w+:", line)]
    expect(len(lines) == 1 and all(part in lines[0] for part in needed), f"expected one line with {needed}: {text}")


class Context(Programs):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        rng = np.random.default_rng(3)
        np.save(folder / "x.npy", rng.standard_normal((40, 1, 28, 28)).astype(np.float32))
        np.save(folder / "y.npy", rng.integers(0, 10, 40).astype(np.int64))
        self.data = f"npy:{folder}/x.npy,{folder}/y.npy,shuffle=1"  # five batches of eight an epoch

    def compile(self, out, mesh="1", mode="data", *options, model="mlp_train.onnx", optimizer="adamw:lr=0.001",
                dims=("--dim", "batch=8")):
        self.run(self.bin / "tessera-compile", self.models / model, "--mesh", mesh, "--mode", mode, *dims, "--train",
                 "--loss", "cross_entropy", "--optimizer", optimizer, *options, "-o", self.folder / out)
        return self.folder / out

    def train(self, plan, *options, steps=6, code=0, launcher=(), data=None):
        log = self.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        text = self.run(*launcher, self.bin / "tessera-run", plan, "--data", data or self.data, "--steps", steps, "--log",
                        log, *options, code=code)
        return text if code else [json.loads(line)["loss"] for line in log.read_text().splitlines()]


@case
def three_steps_and_three_are_six_bit_for_bit(c):
    """With dropout, a shuffled set and an epoch's end in between; BERT and lenet on 1, 2 and 4 ranks, threads and MPI."""
    launchers = [()]
    if shutil.which("mpirun"):
        launchers.append(("mpirun", "--oversubscribe", "-n"))
    bert(c.folder / "bert.onnx", layers=1, hidden=32, heads=2, words=50, batch=8, length=8, dropout=0.1)
    for model, options in (("lenet_train.onnx", {}), (c.folder / "bert.onnx", {"dims": ("--inputs", "ids,segments")})):
        data = "synthetic:vocab=50,samples=40" if options else c.data
        for number, (mesh, mode) in enumerate((("1", "data"), ("data=2", "data"), ("data=2,model=2", "auto"))):
            plan = c.compile(f"plan{number}", mesh, mode, model=model, **options)
            for launcher in launchers if not options and mesh != "1" else launchers[:1]:
                if launcher:
                    launcher = (*launcher, str(eval(mesh.replace("data=", "").replace(",model=", "*"))))
                for flags in ((), ("--integrated",)):
                    where = f"{model} on {mesh} {launcher} {flags}"
                    for folder in ("whole", "parts"):
                        shutil.rmtree(c.folder / folder, ignore_errors=True)
                    whole = c.train(plan, "--checkpoint-dir", c.folder / "whole", *flags, launcher=launcher, data=data)
                    half = c.train(plan, "--checkpoint-dir", c.folder / "parts", *flags, steps=3, launcher=launcher,
                                   data=data)
                    rest = c.train(plan, "--checkpoint-dir", c.folder / "parts", "--resume", c.folder / "parts", *flags,
                                   launcher=launcher, data=data)
                    expect(whole == half + rest, f"{where}: {whole} is not {half} and {rest}")
                    for file in sorted((c.folder / "whole/step-00000006").iterdir()):
                        expect(file.read_bytes() == (c.folder / "parts/step-00000006" / file.name).read_bytes(),
                               f"{where}: {file.name} differs")


@case
def any_checkpoint_loads_into_any_plan_of_the_model(c):
    """Checkpoints of four ranks, data parallel or in padded blocks, are read on other meshes. Losses are in double precision."""
    thirds = pathlib.Path(__file__).parent / "mlp_thirds.json"
    plans = {"one": c.compile("one"), "data4": c.compile("data4", "data=4"),
             "model2": c.compile("model2", "model=2", "auto"),
             "both": c.compile("both", "data=2,model=2", "auto"),
             "thirds": c.compile("thirds", "model=3", "semi-auto", "--strategy", thirds)}
    exact = ("--f64", "--backend", "reference")
    straight = c.train(plans["one"], *exact)
    splits = set()
    for name, plan in plans.items():
        for flags in ((), ("--integrated",)):
            folder = c.folder / f"{name}-{len(flags)}"
            c.train(plan, "--checkpoint-dir", folder, *flags, *exact, steps=3)
            manifest = manifest_of(folder / "step-00000003")
            splits |= {tuple(tensor["split"]) for tensor in manifest["tensors"].values()}
            expect(sums_hold(folder / "step-00000003"), f"{folder}: the checksums do not hold")
            sizes = [file["bytes"] for file in manifest["files"]]
            if not flags:
                expect(len(sizes) == {"one": 1, "model2": 2, "thirds": 3}.get(name, 4), f"{name}: files {sizes}")
            for other in plans.values():
                rest = c.train(other, "--resume", folder, *exact)
                np.testing.assert_allclose(rest, straight[3:], rtol=1e-12, err_msg=f"{folder} into {other}")
    expect(any(3 in split for split in splits) and any(2 in split for split in splits),
           f"the plans cut nothing: {splits}")


@case
def kills_at_any_moment_leave_a_whole_checkpoint(c):
    plan = c.compile("plan", "data=2")
    folder = c.folder / "run"
    rng = random.Random(5)
    kills = 0
    reached = 0
    begin = time.monotonic()
    most = None  # seconds until a run is killed
    while kills < 25:
        resume = ("--resume", folder) if reached else ()
        process = subprocess.Popen([str(a) for a in (
            c.bin / "tessera-run", plan, "--data", c.data, "--steps", 100000, "--checkpoint-dir", folder, "--checkpoint-every",
            1, "--keep", 2, "--quiet", *resume)], stderr=subprocess.PIPE, text=True)
        if most is None:  # the first run tells how long this machine takes to write one
            while process.poll() is None and not list(folder.glob("step-*")):
                time.sleep(0.005)
            most = 1.5 * (time.monotonic() - begin)
        else:
            time.sleep(rng.uniform(0.02, most))
        process.send_signal(signal.SIGKILL)
        error = process.communicate()[1]
        expect(process.returncode == -signal.SIGKILL, f"failed by itself: {error}")
        kills += 1
        whole = sorted(folder.glob("step-*"))
        for checkpoint in whole:
            expect(sums_hold(checkpoint), f"{checkpoint} is not whole after kill {kills}")
        step = int(whole[-1].name[5:]) if whole else 0
        expect(step >= reached, f"step {reached} was lost: {step} is the last")
        reached = step
    losses = c.train(plan, "--resume", folder, "--checkpoint-dir", folder, steps=reached + 3)
    straight = c.train(plan, steps=reached + 3)[reached:]
    expect(losses == straight, f"{losses} are not {straight}")
    expect(not list(folder.glob(".step-*")), "something half-written was left")


@case
def damage_is_one_clear_error(c):
    plan = c.compile("plan", "data=2")
    folder = c.folder / "run"
    c.train(plan, "--checkpoint-dir", folder, steps=2)
    checkpoint = folder / "step-00000002"
    rng = random.Random(6)
    for file in sorted(checkpoint.iterdir()):
        good = file.read_bytes()
        for _ in range(6):
            bad = bytearray(good)
            bad[rng.randrange(len(good) - 1)] ^= 1 << rng.randrange(8)
            file.write_bytes(bad)
            one_line(c.train(plan, "--resume", folder, code=1), file.name, "damaged")
            file.write_bytes(good[:rng.randrange(len(good) - 1)])
            one_line(c.train(plan, "--resume", folder, code=1), file.name)
        file.unlink()
        one_line(c.train(plan, "--resume", folder, code=1), "step-00000002" if file.suffix == ".safetensors" else "run")
        file.write_bytes(good)
    c.train(plan, "--resume", folder, steps=3)


@case
def a_damaged_latest_checkpoint_falls_back_to_the_one_before(c):
    """Any rank may find the damage. The run ends as the uninterrupted one does, and the damaged checkpoint is renamed."""
    plan = c.compile("plan", "data=2,model=2", "auto")
    straight = c.train(plan, steps=8)
    for file in ("manifest.json", "rank0.safetensors", "rank3.safetensors"):
        folder = c.folder / f"run-{file}"
        c.train(plan, "--checkpoint-dir", folder, "--checkpoint-every", 2, steps=6)
        damaged = folder / "step-00000006" / file
        bad = bytearray(damaged.read_bytes())
        bad[-5] ^= 4
        damaged.write_bytes(bad)
        c.folder.joinpath("log.jsonl").unlink()
        text = c.run(c.bin / "tessera-run", plan, "--data", c.data, "--steps", 8, "--resume", folder, "--checkpoint-dir", folder,
                     "--checkpoint-every", 2, "--log", c.folder / "log.jsonl")
        expect("WARNING" in text and "step-00000006 cannot be read; going on from" in text and file in text and
               "resumed after step 4" in text, text)
        losses = [json.loads(line)["loss"] for line in (c.folder / "log.jsonl").read_text().splitlines()]
        expect(losses == straight[4:], f"{losses} are not {straight[4:]}")
        expect((folder / "step-00000006.damaged").exists() and sums_hold(folder / "step-00000006"), "not set aside")


@case
def hundreds_of_ranks_write_and_are_read(c):
    """Every tensor in 512 files; as four ranks have it, and back."""
    try:
        from onnx import TensorProto, helper, numpy_helper
        import onnx
    except ImportError:
        return print("skipped: python3-onnx is not installed")
    ranks, rng, shape = 512, np.random.default_rng(1), helper.make_tensor_value_info
    weights = {f"w{i}": rng.normal(0, 0.03, (8 if i == 0 else ranks, ranks)).astype(np.float32) for i in range(2)}
    nodes = [helper.make_node("MatMul", ["xh"[i:i + 1], f"w{i}"], ["hy"[i]], name=f"fc{i}") for i in range(2)]
    graph = helper.make_graph(nodes, "wide", [shape("x", TensorProto.FLOAT, [4, 8])], [shape("y", TensorProto.FLOAT, [4, ranks])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(c.folder / "wide.onnx"))
    (c.folder / "wide.json").write_text(json.dumps([{"op": f"fc{i}", "in": [[1, 1], [1, ranks]]} for i in range(2)]))
    train = ("--train", "--loss", "mse", "--optimizer", "adam:lr=0.001", "-q")
    many, four = c.folder / "many", c.folder / "four"
    c.run(c.bin / "tessera-compile", c.folder / "wide.onnx", "--mesh", f"model={ranks}", "--mode", "semi-auto", "--strategy",
          c.folder / "wide.json", *train, "-o", many)
    c.run(c.bin / "tessera-compile", c.folder / "wide.onnx", "--mesh", "data=2,model=2", "--mode", "auto", *train, "-o", four)
    c.run(c.bin / "tessera-run", many, "--data", "synthetic", "--steps", 1, "--threads", 1, "--checkpoint-dir", c.folder / "run")
    step = c.folder / "run/step-00000001"
    expect(len(manifest_of(step)["tensors"]["w1"]["split"]) == 2 and len(list(step.glob("rank*.safetensors"))) == ranks, "not cut")
    expect((step / "manifest.json").stat().st_size < 100 * ranks, f"a manifest of {(step / 'manifest.json').stat().st_size} bytes")
    expect(sums_hold(step), "sums")
    c.run(c.bin / "tessera-ckpt", "verify", step)
    few = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, few[1]))  # the usual soft limit
    try:
        c.run(c.bin / "tessera-ckpt", "split", step, "--plan", four, "-o", c.folder / "as-four")
        c.run(c.bin / "tessera-ckpt", "split", c.folder / "as-four", "--plan", many, "-o", c.folder / "back")
        for one, other in ((step, "as-four"), ("back", "as-four"), (step, "back")):
            c.run(c.bin / "tessera-ckpt", "compare", c.folder / one, c.folder / other)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, few)
    expect(all((step / file.name).read_bytes() == file.read_bytes() for file in (c.folder / "back").glob("*.safetensors")), "bytes")
    whole, parts = whole_tensors(step), whole_tensors(c.folder / "as-four")
    expect(all(np.array_equal(whole[name], parts[name]) for name in whole), "put together by the description")
    c.run(c.bin / "tessera-run", four, "--data", "synthetic", "--steps", 2, "--resume", step)


@case
def a_second_run_in_the_same_folder_is_refused(c):
    """The second run is refused before either has written a checkpoint: as threads, as processes, and under MPI."""
    plan, steps = c.compile("plan", "data=2"), 1000000
    launchers = [((), ()), ((), ("--processes",))] + [(("mpirun", "--oversubscribe", "-n", "2"), ())] * bool(shutil.which("mpirun"))
    for number, (launcher, flags) in enumerate(launchers):
        folder, log = c.folder / f"run{number}", c.folder / f"first{number}.jsonl"
        first = subprocess.Popen([str(a) for a in (
            *launcher, c.bin / "tessera-run", plan, "--data", c.data, "--steps", steps, "--checkpoint-dir", folder,
            "--checkpoint-every", steps, "--log", log, *flags)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | MPI_ENVIRONMENT)
        try:
            while not (log.exists() and log.read_text().count("\n") > 2):
                expect(first.poll() is None, f"ended by itself: {first.poll()}")
                time.sleep(0.02)
            text = c.train(plan, "--checkpoint-dir", folder, "--checkpoint-every", 1, steps=3, code=1)
            one_line(text, f"{folder}: is used by process ", " on ", "--checkpoint-dir")
            expect(not list(folder.glob("*step*")), "the second run has written")
        finally:
            # mpirun kills ranks a second after its own SIGINT, which a checkpoint need not be written in.
            for pid in processes_of_ranks(first.pid).values() if launcher else [first.pid]:
                os.kill(pid, signal.SIGINT)
            text = first.communicate()[0]
        expect(first.returncode == 130 or launcher, f"exit code {first.returncode}: {text}")
        expect([sums_hold(step) for step in folder.glob("step-*")] == [True], f"no whole checkpoint: {text}")


@case
def a_full_disk_is_an_error_and_costs_no_checkpoint(c):
    if os.geteuid() != 0 or not shutil.which("mount"):
        return print("skipped: only root mounts a small file system")
    plan = c.compile("plan", "data=2")
    disk = c.folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True).returncode:
        return print("skipped: cannot mount")
    try:
        one_line(c.train(plan, "--checkpoint-dir", disk, "--checkpoint-every", 1, code=1), "checkpoint of step", "No space")
        left = sorted(disk.glob("step-*"))
        expect(left and all(map(sums_hold, left)), f"left: {left}")
    finally:
        subprocess.run(["umount", disk], check=True)


@case
def what_cannot_be_written_is_said_before_the_first_step(c):
    plan = c.compile("plan", "data=2")
    for options in (("--checkpoint-dir", c.folder / "x.npy"), ("--checkpoint-dir", "/proc/x"), ("--save-weights", "/no/such/folder/x"),
                    ("--save-weights", c.folder)):
        text = c.train(plan, *options, code=1)
        one_line(text, str(options[1]), "cannot be")
        expect("step 1" not in text, text)
    expect(not list(c.folder.glob("x.npy.*")), "something was left")


@case
def pytorch_reads_the_file_and_has_the_same_loss(c):
    """model.safetensors has the names, shapes and values that PyTorch's own forward pass needs."""
    try:
        import torch
    except ImportError:
        return print("skipped: no torch")
    plan = c.compile("plan", "data=2,model=2", "auto")
    c.train(plan, "--checkpoint-dir", c.folder / "run", "--integrated", "--f64", "--backend", "reference", steps=3)
    tensors = {name: torch.from_numpy(value.copy())
               for name, value in read_safetensors(c.folder / "run/step-00000003/model.safetensors").items()}
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128),
                                  torch.nn.ReLU(), torch.nn.Linear(128, 10)).double()
    places = {"1": "fc1", "3": "fc2", "5": "fc3"}
    network.load_state_dict({key: tensors[places[key.split(".")[0]] + "." + key.split(".")[1]]
                             for key in network.state_dict()})
    np.save(c.folder / "x8.npy", np.load(c.folder / "x.npy")[:8])
    np.save(c.folder / "y8.npy", np.load(c.folder / "y.npy")[:8])
    text = c.run(c.bin / "tessera-run", plan, "--data", f"npy:{c.folder}/x8.npy,{c.folder}/y8.npy", "--eval", "--resume",
                 c.folder / "run", "--log", c.folder / "eval.jsonl", "--f64", "--backend", "reference")
    found = json.loads((c.folder / "eval.jsonl").read_text().splitlines()[-1])["loss"]
    x, y = (torch.from_numpy(np.load(c.folder / f)) for f in ("x8.npy", "y8.npy"))
    expected = torch.nn.functional.cross_entropy(network(x.double()), y).item()
    expect(abs(found - expected) < 1e-12 * abs(expected), f"PyTorch {expected}, found {found}\n{text}")


@case
def another_model_or_optimizer_is_refused_with_a_list(c):
    plan = c.compile("plan")
    c.train(plan, "--checkpoint-dir", c.folder / "run", steps=1)
    sgd = c.compile("sgd", optimizer="sgd:lr=0.1,momentum=0.9")
    one_line(c.train(sgd, "--resume", c.folder / "run", code=1), "momentum/fc1.weight", "missing")
    lenet = c.compile("lenet", model="lenet_train.onnx")
    one_line(c.train(lenet, "--resume", c.folder / "run", code=1), "conv1.weight", "missing", "fc2.weight", "shape")
    # As initial weights, only the parameters are read.
    c.train(sgd, "--weights", c.folder / "run", steps=1)
    one_line(c.train(lenet, "--weights", c.folder / "run", code=1), "conv1.weight", "missing")


@case
def a_resumed_run_takes_the_data_s_position_along(c):
    """With another batch size, the next sample is the first that the run before had not seen."""
    eight, four = c.compile("eight"), c.compile("four", dims=("--dim", "batch=4"))
    c.train(eight, "--checkpoint-dir", c.folder / "run", steps=3)
    text = c.run(c.bin / "tessera-run", four, "--data", c.data, "--steps", 5, "--resume", c.folder / "run",
                 "--checkpoint-dir", c.folder / "more")
    expect("batches of 8, this one has 4" in text, text)
    position = manifest_of(c.folder / "more/step-00000005")["position"]
    expect(position == {"step": 5, "epoch": 0, "sample": 32, "batch": 4}, f"{position}")
    # The seed of the shuffling comes with the checkpoint.
    straight = c.train(eight, "--seed", 9, steps=4)
    shutil.rmtree(c.folder / "run")
    c.train(eight, "--seed", 9, "--checkpoint-dir", c.folder / "run", steps=2)
    expect(c.train(eight, "--resume", c.folder / "run", steps=4) == straight[2:], "the seed was not taken along")


@case
def the_tool_turns_checkpoints_into_others(c):
    tool = c.bin / "tessera-ckpt"
    four, two = c.compile("four", "data=2,model=2", "auto"), c.compile("two", "model=2", "auto")
    exact = ("--f64", "--backend", "reference")
    straight = c.train(four, *exact)
    c.train(four, "--checkpoint-dir", c.folder / "run", *exact, steps=3)
    checkpoint, f = c.folder / "run/step-00000003", c.folder
    text = c.run(tool, "show", f / "run")
    expect("after step 3" in text and "'fc1.weight'" in text and "data=2, model=2" in text, text)
    expect(json.loads(c.run(tool, "show", f / "run", "--json")) == manifest_of(checkpoint), "show --json")
    c.run(tool, "verify", f / "run")
    expect(json.loads(c.run(tool, "verify", f / "run", "--json"))["damages"] == [], "verify --json")
    c.run(tool, "merge", f / "run", "-o", f / "whole")
    c.run(tool, "split", f / "whole", "--plan", two, "-o", f / "as-two")
    c.run(tool, "split", f / "as-two", "--parts", 3, "-o", f / "thirds")
    c.run(tool, "split", f / "thirds", "--plan", four, "-o", f / "again")
    c.train(two, "--resume", f / "run", "--checkpoint-dir", f / "two-run", *exact, steps=3)
    for name, files in (("whole", 2), ("as-two", 2), ("thirds", 3), ("again", 4)):
        expect(len(manifest_of(f / name)["files"]) == files, name)
        expect(sums_hold(f / name), f"{name}: checksums")
        c.run(tool, "compare", f / "run", f / name)
        rest = c.train(four, "--resume", f / name, *exact)
        expect(rest == straight[3:], f"{name}: {rest} is not {straight[3:]}")
    for file in checkpoint.iterdir():
        if file.suffix == ".safetensors":  # what the run would have written there
            expect(file.read_bytes() == (f / "again" / file.name).read_bytes(), f"again/{file.name} differs")
    for file in (f / "two-run/step-00000003").glob("*.safetensors"):
        expect(file.read_bytes() == (f / "as-two" / file.name).read_bytes(), f"as-two/{file.name} differs")
    c.run(tool, "export", f / "run", "--dtype", "F32", "-o", f / "weights.safetensors")
    exported, whole = read_safetensors(f / "weights.safetensors"), whole_tensors(checkpoint)
    expect(sorted(exported) == sorted(n for n in whole if n.startswith("fc")), f"exported {sorted(exported)}")
    for name, array in exported.items():
        np.testing.assert_array_equal(array, whole[name].astype(np.float32))
    c.train(two, "--weights", f / "weights.safetensors", steps=1)
    expect(json.loads(c.run(tool, "compare", f / "run", f / "again", "--json"))["differences"] == [], "compare --json")
    one_line(c.run(tool, "compare", f / "weights.safetensors", f / "run", code=1), "differ in")
    told = json.loads(c.run(tool, "compare", f / "weights.safetensors", f / "run", "--json", code=1).split("tessera-ckpt:")[0])
    expect(all(d["name"] and d["fails"] for d in told["differences"]) and told["differences"], told)
    one_line(c.run(tool, "merge", f / "run", "-o", f / "whole", code=1), "is there already")
    sgd = c.compile("sgd", optimizer="sgd:lr=0.1")
    one_line(c.run(tool, "split", f / "run", "--plan", sgd, "-o", f / "bad", code=1), "no use for")
    part = checkpoint / "rank1.safetensors"
    bad = bytearray(part.read_bytes())
    bad[-1] ^= 1
    part.write_bytes(bad)
    one_line(c.run(tool, "verify", f / "run", code=1), "1 stretch is damaged")
    one_line(c.run(tool, "merge", f / "run", "-o", f / "bad", code=1), "rank1.safetensors", "damaged")
    expect(not (f / "bad").exists(), "a half-written checkpoint was left")
    expect(c.run(tool, "show", f / "nowhere", code=1).count("\n") == 1, "one line")
    c.run(tool, "split", f / "run", "-o", f / "bad", code=2)


@case
def ranks_make_the_initial_values_they_hold(c):
    """Parameters made by rule equal stored ones on any mesh, and no rank holds them whole."""
    options = ("--init", "torch", "--seed", "3", "--force-init")
    stored = c.compile("stored", "1", "data", *options)
    losses = c.train(stored, steps=3)
    for mesh, mode in (("1", "data"), ("data=2,model=2", "auto"), ("model=3", "auto")):  # the last pads
        plan = c.compile("plan", mesh, mode, *options, "--init-at-start")
        expect(not [n for n in read_safetensors(plan / "weights.safetensors") if n.startswith("fc")], "values were stored")
        found = c.train(plan, steps=3)
        expect(found == losses if mesh == "1" else np.allclose(found, losses, rtol=1e-5), f"{mesh}: {found}, stored {losses}")
    c.train(plan, "--verify", steps=2)
    # A weight set must be complete: missing tensors are not made by their rules.
    own = read_safetensors(stored / "weights.safetensors")
    write_safetensors(c.folder / "part.safetensors", {k: v for k, v in own.items() if k != "fc1.bias"})
    one_line(c.train(plan, "--weights", c.folder / "part.safetensors", code=1), "'fc1.bias' is missing")
    (c.folder / "map.json").write_text('{"fc1.bias": null}')
    part = ("--weights", c.folder / "part.safetensors", "--weights-map", c.folder / "map.json")
    expect(np.allclose(c.train(plan, *part, steps=3), losses, rtol=1e-5), "other losses with the plan's own fc1.bias")


@case
def weights_of_another_program_load_by_a_mapping(c):
    """The weight set has other names, transposed matrices and a stray tensor, and the head is the plan's own."""
    plan = c.compile("plan", "data=2,model=2", "auto")
    straight = c.train(plan, steps=2)
    own = read_safetensors(plan / "weights.safetensors")
    theirs = {"model.layer1.kernel": own["fc1.weight"].T, "model.layer1.b": own["fc1.bias"],
              "model.layer2.kernel": own["fc2.weight"].T, "model.layer2.b": own["fc2.bias"],
              "counter": np.zeros(1, np.int64)}
    write_safetensors(c.folder / "theirs.safetensors", theirs)
    mapping = {"fc3.*": None, "fc*.bias": "model.layer*.b",
               "fc*.weight": {"name": "model.layer*.kernel", "transpose": True}}
    (c.folder / "map.json").write_text(json.dumps(mapping))
    options = ("--weights", c.folder / "theirs.safetensors", "--weights-map", c.folder / "map.json")
    expect(c.train(plan, *options, steps=2) == straight, "other losses than with the plan's own weights")
    text = c.run(c.bin / "tessera-run", plan, "--data", c.data, "--steps", 1, *options)
    expect("no use for 'counter'" in text, text)
    # Without the mapping, one message tells everything that does not fit.
    one_line(c.train(plan, *options[:2], code=1), "'fc1.weight'", "'fc3.bias'", "are missing", "no use for", "'counter'")
    mapping["fc*.weight"] = "model.layer*.kernel"
    (c.folder / "map.json").write_text(json.dumps(mapping))
    one_line(c.train(plan, *options, code=1), "'fc1.weight' has the shape [784, 256]; the plan wants [256, 784]")
    (c.folder / "map.json").write_text("{")
    one_line(c.train(plan, *options, code=1), "map.json")


@case
def weights_of_an_onnx_file_load_into_another_s_model(c):
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError:
        return print("skipped: no onnx")
    plan = c.compile("plan", "data=2")
    straight = c.train(plan, steps=2)
    tensors = {f"net.{name}": value for name, value in read_safetensors(plan / "weights.safetensors").items()}
    # The file is another network: only its tensors are used.
    graph = helper.make_graph([helper.make_node("Identity", ["net.fc1.bias"], ["y"])], "weights", [],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [256])],
                              [numpy_helper.from_array(value, name) for name, value in tensors.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), c.folder / "trained.onnx")
    c.run(c.bin / "tessera-compile", c.folder / "trained.onnx", "--export-weights", c.folder / "w.safetensors")
    exported = read_safetensors(c.folder / "w.safetensors")
    expect(sorted(exported) == sorted(tensors), f"exported {sorted(exported)}")
    for name, value in tensors.items():
        np.testing.assert_array_equal(exported[name], value)
    (c.folder / "map.json").write_text('{"*": "net.*"}')
    found = c.train(plan, "--weights", c.folder / "w.safetensors", "--weights-map", c.folder / "map.json", steps=2)
    expect(found == straight, f"{found} is not {straight}")
    (c.folder / "bad.onnx").write_bytes(b"no model")
    one_line(c.run(c.bin / "tessera-compile", c.folder / "bad.onnx", "--export-weights", c.folder / "b", code=1), "bad.onnx")
    expect(not (c.folder / "b").exists(), "a file was left")


if __name__ == "__main__":
    main(__doc__, Context)
