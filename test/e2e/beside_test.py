#!/usr/bin/env python3
"""Collectives beside kernels: networks train to the bits of one step after the other, be their plans compiled so
(tessera-compile --overlap) or have all collectives there.

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
        what = f"{model} on {mesh} {options} {run}"
        self.equal(self.train(plan, *run, prefix=prefix), self.train(beside, *run, prefix=prefix), what)

    @staticmethod
    def equal(expected, found, what):
        assert not re.search(r"\d+ beside kernels", expected[2]), f"{what}: {expected[2]}"
        assert re.search(r"program train: .* \d+ beside kernels", found[2]), f"{what}: {found[2]}"
        assert found[0] == expected[0], f"{what}: losses {found[0]}, {expected[0]}"
        assert found[1].keys() == expected[1].keys(), f"{what}: {found[1].keys()}"
        for name, content in expected[1].items():
            assert found[1][name] == content, f"{what}: {name} differs"


    def compiled(self, model, mesh, overlap, *options, mode="data", rows=8, optimizer="sgd:lr=0.01,momentum=0.9"):
        """A plan in which collectives run beside kernels as the compiler chooses."""
        self.count += 1
        plan = self.folder / f"compiled{self.count}"
        dim = ("--dim", f"batch={rows}") if rows else ()
        self.run(self.bin / "tessera-compile", self.models / f"{model}.onnx", "--mesh", mesh, "--mode", mode, *dim, "--train",
                 "--optimizer", optimizer, "--seed", "1", *(("--overlap", overlap) if overlap else ()), *options,
                 "-o", plan)
        return plan

    def same_compiled(self, model, mesh, *options, run=(), prefix=(), **rest):
        line, beside = (self.compiled(model, mesh, overlap, *options, **rest) for overlap in ("off", "on"))
        what = f"{model} on {mesh} {options} {run}"
        report = next(f for f in report_of(beside)["functions"] if f["name"] == "train")
        assert report["beside"]["num_messages"] > 0, f"{what}: {report['beside']}"
        assert report["compute_ns"] <= report["predicted_ns"], f"{what}: {report['predicted_ns']}"
        assert all("beside" not in f for f in report_of(line)["functions"])
        self.equal(self.train(line, *run, prefix=prefix), self.train(beside, *run, prefix=prefix), what)


def program_of(plan):
    """What ranks run, as bytes."""
    return {p.name: p.read_bytes() for p in plan.glob("*.plan")}


def report_of(plan):
    return json.loads((plan / "report.json").read_text())


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
def compiled_so_equal_to_the_bit_on_threads(c):
    c.same_compiled(MLP, "data=2,model=2", mode="auto")
    c.same_compiled(LENET, "data=4")
    c.same_compiled(LENET, "space=2", mode="auto")
    c.same_compiled(RESNET18, "data=2", rows=4)
    c.same_compiled(RESNET18, "data=2,space=2", mode="auto", rows=4)
    c.same_compiled("families/squeezenet", "data=2", rows=None)


@case
def compiled_so_equal_to_the_bit_between_processes(c):
    c.same_compiled(LENET, "data=2", run=("--processes",))
    c.same_compiled(MLP, "data=2,model=2", mode="auto", run=("--processes",))


@case
def compiled_so_equal_to_the_bit_over_mpi(c):
    if not shutil.which("mpirun"):
        return print("skipped: no mpirun")
    c.same_compiled(MLP, "data=2,model=2", mode="auto", prefix=("mpirun", "--oversubscribe", "-n", "4"))


@case
def compiled_so_equal_to_the_bit_with_other_programs(c):
    c.same_compiled(LENET, "data=2", "--fusion", "off")
    c.same_compiled(LENET, "data=2", "--accumulate", "2")
    c.same_compiled(LENET, "data=2", "--clip-norm", "0.01")
    c.same_compiled(LENET, "data=2", "--recompute", "full")
    c.same_compiled(LENET, "data=2", "--no-fuse")
    c.same_compiled(LENET, "data=2", "--topology", "8xh100")
    c.same_compiled(LENET, "data=2", "--reproducible")
    c.same_compiled(RESNET18, "data=4", mode="auto", rows=32, optimizer="adamw:lr=0.001")  # gathers and scatters in lists
    c.same_compiled(LENET, "data=2", run=("--f64", "--backend", "reference"))


@case
def the_compiler_chooses_by_what_is_predicted(c):
    """On the cores of one machine nothing is gained; on devices the sums of gradients hide."""
    train = {}
    for topology in ("cpu", "8xh100"):
        plan = c.compiled(RESNET18, "data=4", "auto", "--topology", topology, rows=64)
        train[topology] = next(f for f in report_of(plan)["functions"] if f["name"] == "train")
        facts = json.loads(c.run(c.bin / "tessera-dump", plan, "--json"))
        assert facts["functions"][0].get("beside") == train[topology].get("beside")
    assert "beside" not in train["cpu"], train["cpu"]["beside"]
    f = train["8xh100"]
    assert f["predicted_ns"] < f["compute_ns"] + f["communication_ns"], f["predicted_ns"]
    assert f["beside"]["exposed_ns"] < f["communication_ns"], f["beside"]
    text = c.run(c.bin / "tessera-compile", c.models / f"{RESNET18}.onnx", "--mesh", "data=4", "--dim", "batch=64", "--train",
                 "--topology", "8xh100", "--overlap", "auto", "-o", c.folder / "said")
    for text in (text, c.run(c.bin / "tessera-dump", c.folder / "said")):
        said = re.search(r"predicted (\S+) ms beside each other, of compute (\S+) ms \+ communication (\S+) ms", text)
        assert said and float(said[2]) <= float(said[1]) < float(said[2]) + float(said[3]), text
        hidden = re.search(r"\d+ messages? beside kernels; exposed communication (\S+) ms", text)
        assert hidden and float(hidden[1]) < float(said[3]), text
    # One prediction: --what-if tells the same.
    table = c.run(c.bin / "tessera-compile", c.models / f"{RESNET18}.onnx", "--mesh", "data=4", "--dim", "batch=64", "--train",
                  "--optimizer", "sgd:lr=0.01,momentum=0.9", "--topology", "8xh100", "--overlap", "auto", "--what-if", "nodes=1")
    assert f"{f['predicted_ns'] / 1e6:.3f} ms" in table, (f["predicted_ns"], table)


@case
def beside_kernels_where_it_pays_is_the_default(c):
    for mode in ("data", "auto"):
        for mesh in ("data=4", "data=2,model=2"):  # on two cores
            chosen, line = (c.compiled(LENET, mesh, overlap, mode=mode) for overlap in (None, "off"))
            assert program_of(chosen) == program_of(line), f"{mode} on {mesh}: a plan for the cores of a machine has changed"
    for mode in ("data", "auto"):
        chosen, asked = (c.compiled(RESNET18, "data=4", overlap, "--topology", "8xh100", rows=64, mode=mode) for overlap in (None, "auto"))
        assert program_of(chosen) == program_of(asked) and "beside" in report_of(chosen)["functions"][0], mode


def same_in_stages(c, model, mesh, *options, run=(), prefix=(), **rest):
    """A pipeline whose stages run collectives beside kernels trains to the bits of one in line."""
    line, beside = (c.compiled(model, mesh, overlap, *options, **rest) for overlap in ("off", "on"))
    what = f"{model} on {mesh} {options} {run}"
    c.equal(c.train(line, *run, prefix=prefix), c.train(beside, *run, prefix=prefix), what)
    reports = [report_of(plan)["pipeline"] for plan in (line, beside)]
    stages = len(reports[0]["stages"])
    assert [stage["num_beside"] for stage in reports[0]["stages"]] == [0] * stages, f"{what}: {reports[0]}"
    assert any(stage["num_beside"] > 0 for stage in reports[1]["stages"]), f"{what}: {reports[1]}"
    return reports


@case
def stages_run_collectives_beside_kernels(c):
    for schedule in ("1f1b", "interleaved:2", "zb-v"):
        same_in_stages(c, LENET, "stage=2,data=2", "--accumulate", "4", "--pipeline", f"schedule={schedule}", rows=32)
    same_in_stages(c, LENET, "stage=2,data=2", "--accumulate", "4", "--clip-norm", "0.01", run=("--processes",), rows=32)
    same_in_stages(c, MLP, "stage=2,data=2,model=2", "--accumulate", "2", mode="auto", rows=32)
    if shutil.which("mpirun"):
        same_in_stages(c, LENET, "stage=2,data=2", "--accumulate", "2", prefix=("mpirun", "--oversubscribe", "-n", "4"))


@case
def stages_hide_what_pays(c):
    """Gradients are reduced beside updates, and what a stage then takes is in the step that is predicted."""
    off, auto = (report_of(c.compiled(RESNET18, "stage=2,data=4", overlap, "--topology", "8xh100", "--accumulate", "4", rows=64))["pipeline"]
                 for overlap in ("off", "auto"))
    assert any(stage["num_beside"] > 0 for stage in auto["stages"]), auto
    assert auto["predicted_ns"] < off["predicted_ns"], f"{auto['predicted_ns']} ns, in line {off['predicted_ns']} ns"


@case
def auto_is_never_worse_than_data_by_what_is_predicted(c):
    for model, rows in ((MLP, 64), (LENET, 64), (RESNET18, 64)):
        for topology in ("8xh100", "2xcpu"):
            auto, data = (next(f for f in report_of(c.compiled(model, "data=2,model=2", None, "--topology", topology, rows=rows, mode=mode))["functions"]
                               if f["name"] == "train")["predicted_ns"] for mode in ("auto", "data"))
            assert auto <= data, f"{model} on {topology}: {auto} ns, plain data parallelism {data} ns"


@case
def strategies_are_chosen_by_what_is_hidden(c):
    """On eight devices, weights find strategies that the sum does not, and the bound holds for all."""
    def function(mode, overlap):
        plan = c.compiled("resnet50_cifar_train", "data=8", overlap, "--topology", "8xh100", rows=64, mode=mode,
                          optimizer="sgd:lr=0.01")
        return next(f for f in report_of(plan)["functions"] if f["name"] == "train")

    auto, data, line = function("auto", "auto"), function("data", "on"), function("auto", "off")
    bound = auto["search"]["beside"]["lower_bound_ns"]
    assert "weights" in auto["search"]["searcher"], auto["search"]
    assert 0 < bound <= auto["predicted_ns"] <= data["predicted_ns"], (bound, auto["predicted_ns"], data["predicted_ns"])
    assert auto["predicted_ns"] < line["predicted_ns"] and "beside" not in line["search"], line["search"]
    gap = auto["search"]["beside"]["gap"]
    assert abs(gap - (1 - bound / auto["predicted_ns"])) < 1e-9, gap


@case
def what_collectives_cost_kernels_is_the_machines(c):
    """Where a collective delays kernels by as long as it takes, nothing is gained: by the topology, and by a profile."""
    topology = {
        "name": "two hosts", "devices": 4, "flops": {"f32": 117e9}, "memory_bandwidth": 13e9, "memory": "10GiB", "launch": 1e-6,
        "shared": True, "links": [{"devices": 2, "latency": 1e-6, "bandwidth": 5e9}, {"devices": 4, "latency": 30e-6, "bandwidth": 0.125e9}]}
    machine, profile = c.folder / "machine.json", c.folder / "profile.json"

    def predicted(*options, **beside):
        machine.write_text(json.dumps({**topology, **({"beside": beside} if beside else {})}))
        plan = c.compiled(RESNET18, "data=4", "auto", "--topology", machine, *options, rows=64)
        f = next(f for f in report_of(plan)["functions"] if f["name"] == "train")
        return f["predicted_ns"], "beside" in f

    usual, free, little, line = predicted(), predicted(hand_over=0, per_byte=0), predicted(hand_over=0, per_byte=1e-10), predicted(per_byte=1)
    assert free[1] and little[1] and usual[1] and not line[1], (free, little, usual, line)
    assert free[0] < little[0] < usual[0] < line[0], (free, little, usual, line)
    profile.write_text(json.dumps({"kernels": {}, "beside": {"hand_over": 0, "per_byte": 1e-10}}))
    assert predicted("--profile", profile, per_byte=1) == little
    profile.write_text(json.dumps({"kernels": {}, "beside": {"hand_over": 0, "per_byte": 1}}))
    assert predicted("--profile", profile) == line


@case
def exposed_communication_is_measured_beside_predicted(c):
    # Joined, LeNet's gradients are so few messages that none hides.
    for overlap in ("off", "on"):
        plan = c.compiled(LENET, "data=2", overlap, "--fusion", "off")
        f = next(f for f in report_of(plan)["functions"] if f["name"] == "train")
        trace, log = c.folder / f"{overlap}.json", c.folder / f"{overlap}.log"
        text = c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", 4, "--threads", 1, "--trace", "steps=3",
                     "--trace-file", trace, "--log", log)
        said = re.search(r"^exposed communication: median (\S+) ms a step, predicted (\S+) ms of (\S+) ms$", text, re.M)
        assert said, text
        seconds = [json.loads(line)["exposed_seconds"] for line in log.read_text().splitlines()]
        assert len(seconds) == 4 and all(s >= 0 for s in seconds), seconds
        assert abs(sorted(seconds)[2] * 1e3 - float(said[1])) <= 1e-3 * float(said[1]), (seconds, said[0])
        # Of a plan in line, communication is all exposed. Beside kernels it is what the schedule says, of what is sent.
        exposed, step = float(said[2]) * 1e6, float(said[3]) * 1e6
        sends = sum(e["dur"] for e in events_of(trace, 5)) * 1e3
        if overlap == "off":
            assert abs(exposed - sends) <= 1e-3 * sends, (exposed, sends)
            assert abs(step - sum(f["step_ns"])) <= 1e-3 * step, (step, sum(f["step_ns"]))
        else:
            assert 0 < exposed < sends and step < sum(f["step_ns"]), (exposed, sends, step)
            assert exposed <= 1.01 * f["beside"]["exposed_ns"], (exposed, f["beside"])
            ends = max(e["ts"] + e["dur"] for t in (4, 5) for e in events_of(trace, t))
            begins = min(e["ts"] for t in (4, 5) for e in events_of(trace, t))
            assert abs((ends - begins) * 1e3 - step) <= 1e-3 * step, (begins, ends, step)
    # Without a report only what is measured is told.
    (plan / "report.json").unlink()
    text = c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", 2, "--threads", 1)
    assert re.search(r"^exposed communication: median \S+ ms a step$", text, re.M), text


def events_of(trace, track):
    return [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X" and e["pid"] == 0 and e["tid"] == track]


@case
def short_memory_keeps_collectives_in_line(c):
    """A plan that fits only in line is still found."""
    line = report_of(c.compiled(RESNET18, "data=4", "off", "--topology", "2xcpu", rows=4))["memory"]["arena_bytes"]
    free = report_of(c.compiled(RESNET18, "data=4", "on", "--topology", "2xcpu", rows=4))["memory"]["arena_bytes"]
    tight = c.compiled(RESNET18, "data=4", "on", "--topology", "2xcpu", "--memory", line, rows=4)
    assert report_of(tight)["memory"]["arena_bytes"] <= line <= free, (line, free)


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
