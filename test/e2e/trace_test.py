#!/usr/bin/env python3
"""Traces of training steps: all ranks, events that nest, times and bytes that add up, however ranks are launched.

usage: trace_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import shutil
import subprocess

from cases import case, main
from launching import Launching, expect

TRACKS = {0: "steps", 1: "compute", 2: "communication", 3: "input"}
PREDICTED = {4: "predicted compute", 5: "predicted communication"}  # of rank 0


def events(path):
    return json.loads(path.read_text())["traceEvents"]


def spans(found, rank, track):
    return [e for e in found if e["ph"] == "X" and e["pid"] == rank and e["tid"] == track]


def nanoseconds(event):
    """Begin and end as whole nanoseconds: microseconds have three digits behind the point."""
    begin = round(event["ts"] * 1000)
    return begin, begin + round(event["dur"] * 1000)


def expect_nested(found, rank, track):
    """Sorted by begin; of two events one encloses the other, or they are apart."""
    open_ends, last = [], 0
    for event in spans(found, rank, track):
        begin, end = nanoseconds(event)
        expect(0 <= last <= begin <= end, f"rank {rank}, {track}: {event} is out of order")
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        expect(not open_ends or end <= open_ends[-1], f"rank {rank}, {track}: {event} overlaps another")
        open_ends.append(end)
        last = begin


def facts(c, plan):
    """What every rank sends in a training step of the plan: (collectives, bytes)."""
    report = json.loads(c.run(c.bin / "tessera-dump", plan, "--json"))
    trains = [next(p for p in r["programs"] if p["name"] == "train") for r in report["ranks"]]
    return [(p["num_collectives"], p["bytes_sent"], p["kernels"]) for p in trains]


def check_predicted(plan, found, first, last):
    """Above what rank 0 measured of a step stands what was predicted of it, by the names of the plan's steps."""
    order = {e["args"]["name"]: [i["args"]["sort_index"] for i in found if i["name"] == "thread_sort_index"
                                 and (i["pid"], i["tid"]) == (0, e["tid"])]
             for e in found if e["ph"] == "M" and e["pid"] == 0 and e["name"] == "thread_name"}
    expect(order["predicted compute"] < order["compute"] and order["predicted communication"] < order["compute"], order)
    report = next(f for f in json.loads((plan / "report.json").read_text())["functions"] if f["name"] == "train")
    measured, predicted = ([[nanoseconds(e)[0], e["name"], e["dur"]] for t in tracks for e in spans(found, 0, t)]
                           for tracks in ((1, 2), (4, 5)))
    expect({name for _, name, _ in predicted} <= {name for _, name, _ in measured}, "what was predicted did not run")
    expect(min(predicted)[0] == min(measured)[0], "the prediction does not begin with the first kernel")
    told, once = sum(m[2] for m in predicted) * 1e3, sum(report["step_ns"])
    expect(once > 0 and abs(told - once * (last - first + 1)) < 1, f"{told} is not {last - first + 1} times {once}")


def check(c, plan, path, ranks, first, last, wider=1):
    found = events(path)
    expect({e["pid"] for e in found} == set(range(ranks)), "not all ranks are there")
    steps = last - first + 1
    shares = []
    for rank, (collectives, sent, kernels) in enumerate(facts(c, plan)):
        named = {e["tid"]: e["args"]["name"] for e in found
                 if e["ph"] == "M" and e["pid"] == rank and e["name"] == "thread_name"}
        tracks = {**TRACKS, **({} if rank else PREDICTED)}
        expect(named == tracks, f"rank {rank} has the tracks {named}")
        for track in tracks:
            expect_nested(found, rank, track)
        wanted = [f"step {n}" for n in range(first, last + 1)]
        expect([e["name"] for e in spans(found, rank, 0) if e["cat"] == "step"] == wanted, "the steps are others")
        compute, communication = spans(found, rank, 1), spans(found, rank, 2)
        expect(len(compute) == kernels * steps, f"rank {rank}: {len(compute)} kernels, {kernels} a step in the plan")
        expect(len(communication) == collectives * steps, f"rank {rank}: {len(communication)} collectives")
        expect(all(e["args"]["bytes"] > 0 for e in compute), "a kernel without bytes")
        told = sum(e["args"]["bytes_sent"] for e in communication)
        expect(told == sent * steps * wider, f"rank {rank}: the trace has {told} bytes, the plan {sent} a step")
        for e in communication:
            expect(e["args"]["kind"] and rank in e["args"]["ranks"] and e["args"]["group"], f"{e}")
            # What is sent with an earlier step is counted there.
            expect("joined" in e["args"] or e["dur"] < 1 or
                   abs(e["args"]["GB/s"] * e["dur"] * 1e3 / e["args"]["bytes_sent"] - 1) < 1e-3, f"{e}")
        expect(spans(found, rank, 3), f"rank {rank} prepared no batch")
        if rank == 0:
            check_predicted(plan, found, first, last)
        # Kernels and collectives fill the program's time, and phases fill the step's.
        for step in (e for e in spans(found, rank, 0) if e["cat"] == "step"):
            def inside(candidates, outer):
                begin, end = nanoseconds(outer)
                return [e for e in candidates if begin <= nanoseconds(e)[0] and nanoseconds(e)[1] <= end]
            phases = [e for e in inside(spans(found, rank, 0), step) if e["cat"] == "phase"]
            program = next(e for e in phases if e["name"] == "running the program")
            parts = inside(compute + communication, program)
            expect(len(parts) == kernels + collectives, f"{len(parts)} events lie within {program}")
            shares.append(sum(e["dur"] for e in parts) / program["dur"])
            expect(shares[-1] <= 1 + 1e-9, f"the parts take longer than the program: {shares[-1]}")
            expect(sum(e["dur"] for e in phases) <= step["dur"] * (1 + 1e-9), "phases take longer than the step")
    # A rank that loses its processor between two kernels leaves a gap; not in every step of every rank.
    expect(max(shares) > 0.8, f"kernels and collectives are {shares} of the programs' times")
    # An all-reduce ends nowhere before it has begun everywhere: the ranks' clocks agree.
    sync = [[e for e in spans(found, rank, 2) if e["args"]["kind"] == "all-reduce" and len(e["args"]["ranks"]) == ranks
             and "joined" not in e["args"]] for rank in range(ranks)]
    for together in zip(*sync):
        latest = max(nanoseconds(e)[0] for e in together)
        expect(all(nanoseconds(e)[1] >= latest for e in together), f"an all-reduce ends before it begins: {together}")


@case
def every_way_to_launch_gives_one_file_of_all_ranks(c):
    plan = c.compile(mode="data")
    launches = {"threads": ((), ()), "processes": ((), ("--processes",))}
    if shutil.which("mpirun"):
        launches["mpi"] = (("mpirun", "-n", "4", "--oversubscribe"), ())
    for name, (launcher, options) in launches.items():
        path = c.folder / f"{name}.json"
        c.finish(c.start([*launcher, *c.command(plan, 5, "--trace", "steps=3:4", "--trace-file", path, *options)]))
        check(c, plan, path, 4, 3, 4)


@case
def every_mode_and_precision_adds_up(c):
    plan = c.compile(model="lenet_train.onnx")
    path = c.folder / "trace.json"
    c.run(*c.command(plan, 3, "--trace", "steps=2:9", "--trace-file", path))  # the run ends before step 9
    check(c, plan, path, 4, 2, 3)
    c.run(*c.command(plan, 2, "--trace", "steps=2", "--trace-file", path, "--f64", "--backend", "reference"))
    # LeNet's plan sends only float32 numbers.
    check(c, plan, path, 4, 2, 2, wider=2)


@case
def arithmetic_is_counted(c):
    plan = c.compile(mesh="1", mode="data", model="lenet_train.onnx")
    path = c.folder / "trace.json"
    c.run(*c.command(plan, 1, "--trace", "steps=1", "--trace-file", path))
    kernels = spans(events(path), 0, 1)

    def flops(*names):
        return sorted(e["args"]["flops"] for e in kernels if e["args"]["kernel"] in names)

    # conv1: 6 x 1 x 5 x 5 to 28 x 28 (padded), conv2: 16 x 6 x 5 x 5 to 10 x 10; no gradient of the images.
    first, second = 2 * 8 * 6 * 28 * 28 * 25, 2 * 8 * 16 * 10 * 10 * 6 * 25
    expect(flops("conv", "conv_weight_grad", "conv_input_grad") == sorted([first] * 2 + [second] * 3),
           f"convolutions: {flops('conv', 'conv_weight_grad', 'conv_input_grad')}")
    layers = [2 * 8 * a * b for a, b in ((400, 120), (120, 84), (84, 10))]
    expect(flops("matmul") == sorted(layers * 3), f"products: {flops('matmul')}")


@case
def a_trace_without_steps_is_refused_before_the_first(c):
    plan = c.compile(mesh="data=2", mode="data")
    for option, needed in (("steps=0", "steps=10:12"), ("steps=4:3", "steps=10:12"), ("steps=1:", "steps=10:12"),
                           ("3:4", "steps=FIRST:LAST"), ("steps=1:101", "at most 100"), ("steps=9", "no step 9")):
        done = subprocess.run(c.command(plan, 5, "--trace", option), capture_output=True, text=True, cwd=c.folder)
        expect(done.returncode != 0 and needed in done.stderr, f"{option}: {done.stderr}")
        expect("step 1/5" not in done.stdout, f"{option}: the run began")
    text = c.run(*c.command(plan, 5, "--trace", "steps=2", "--trace-file", c.folder / "no" / "t.json"), code=1)
    expect("t.json" in text and "step 1/5" not in text, text)
    expect("for training" in c.run(*c.command(plan, 5, "--trace", "steps=2", "--eval"), code=2), "evaluation is traced")
    expect(not (c.folder / "trace.json").exists(), "a trace was left")


if __name__ == "__main__":
    main(__doc__, Launching)
