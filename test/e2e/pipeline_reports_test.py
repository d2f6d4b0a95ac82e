#!/usr/bin/env python3
"""What a run of a pipeline tells: stages measured beside predicted, in the summary, the log and a trace; and what explains a choice.

usage: pipeline_reports_test.py --bin DIR --models DIR [CASE...]
"""
import json
import re

from cases import case, main
from pipelining import Context, expect

PREDICTED, COMPUTE, COMMUNICATION = (4, 5), 1, 2  # tracks


def report_of(plan):
    return json.loads((plan / "report.json").read_text())["pipeline"]


def spans(events, rank, *tracks):
    return sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in events if e["ph"] == "X" and e["pid"] == rank and e["tid"] in tracks)


def joined(events):
    """Of sorted events: the microseconds in which there is one."""
    total, end = 0, float("-inf")
    for begin, until, _ in events:
        total += max(0, until - max(begin, end))
        end = max(end, until)
    return total


PLANS = (("stage=2,data=2", 2, ("--pipeline", "schedule=1f1b")), ("stage=2,data=2", 2, ("--pipeline", "schedule=interleaved:2")),
         ("stage=2", 1, ("--pipeline", "schedule=zb-v")), ("stages=[data=2; data=1]", 2, ()))


@case
def a_trace_has_what_was_predicted_of_every_stage(c):
    """Above what the first rank of each stage measured: the names of its steps, as often as they run, when the report has the calls,
    and in all as long as its stages are predicted to be busy."""
    for mesh, first, options in PLANS:
        plan, trace = c.compile("lenet_train", mesh, 4, *options, rows=16), c.folder / "trace.json"
        c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", 4, "--trace", "steps=3", "--trace-file", trace)
        events, report = json.loads(trace.read_text())["traceEvents"], report_of(plan)
        firsts = {0, first}
        for rank in {e["pid"] for e in events}:
            predicted, measured = spans(events, rank, *PREDICTED), spans(events, rank, COMPUTE, COMMUNICATION)
            expect(bool(predicted) == (rank in firsts), f"{mesh} {options}: rank {rank} has {len(predicted)} predictions")
            if not predicted:
                continue
            place = report["places"][rank // first]["programs"]
            expect([program["name"] for program in place] == ["train"], place)
            names = [name for _, _, name in measured]
            expect(all(names.count(name) == 1 for _, _, name in predicted), f"{mesh} {options}: {names}, {predicted}")
            # From the first event of the rank on, each call where the report has it, or behind the call before it.
            calls = [begin / 1e3 for begin in place[0]["call_ns"]]
            expect(calls == sorted(calls) and calls[-1] * 1e3 <= report["predicted_ns"], calls)
            stages = [stage for stage in report["stages"] if stage["device"] == rank // first]
            busy = sum(report["micro_batches"] * sum(stage[f"{part}_ns"] for part in ("forward", "input", "weight")) + stage["once_ns"]
                       for stage in stages) / 1e3
            expect(abs(joined(predicted) - busy) <= 0.001 * busy, f"{mesh} {options}: rank {rank} is predicted to work for "
                                                                  f"{joined(predicted)} us, for {busy} by its stages")
            expect(predicted[-1][1] - measured[0][0] <= 1.001 * report["predicted_ns"] / 1e3, "the prediction ends behind the step's")


@case
def a_run_tells_what_stages_do(c):
    """How long each works and waits beside what was predicted, the bubble, and what collectives within a stage cost."""
    number = r"([0-9.e-]+)"
    for mesh, first, options in PLANS:
        plan, log = c.compile("lenet_train", mesh, 4, *options, rows=16), c.folder / "log.jsonl"
        said = c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", 12, "--log", log)
        report = report_of(plan)
        bubble = re.search(rf"^bubble: {number} % of the ranks' time, predicted {number} %$", said, re.M)
        expect(bubble and 0 < float(bubble[1]) < 100, said)
        kind = "stage" if len(report["stages"]) == 2 else "place"
        lines = re.findall(rf"^{kind} (\d) \(ranks? (?:(\d) to )?(\d)\): {number} ms of its own a step, predicted {number} ms; {number} ms "
                           rf"waiting for others, predicted {number} ms$", said, re.M)
        ranks = json.loads(log.read_text().splitlines()[-1])["rank_seconds"]
        expect([(line[0], line[1] or line[2], line[2]) for line in lines] ==
               [("0", "0", str(first - 1)), ("1", str(first), str(len(ranks) - 1))], said)
        for own, predicted, waiting, expected in (map(float, line[3:]) for line in lines):
            expect(own > 0 and waiting > 0 and predicted > 0, said)
            expect(predicted + expected <= 1.01 * report["predicted_ns"] / 1e6, f"{said}, {report['predicted_ns']}")
        steps = [json.loads(line) for line in log.read_text().splitlines()]
        expect(all(0 <= step["bubble"] <= 1 and 0 <= step["exposed_seconds"] < step["seconds"] for step in steps), steps)
        expect(re.search(rf"^exposed communication: median {number} ms a step, predicted {number} ms of {number} ms$", said, re.M), said)
        expect("was the slowest" not in said or len(ranks) > 2, said)
    # One micro-batch passes through the stages one after the other; of its steps nothing is predicted.
    plan = c.compile("lenet_train", "stage=2", 1, rows=16)
    said = c.run(c.bin / "tessera-run", plan, "--data", "synthetic", "--steps", 4)
    expect(re.search(rf"^bubble: {number} % of the ranks' time$", said, re.M), said)
    expect(re.search(rf"^stage 1 \(rank 1\): {number} ms of its own a step; {number} ms waiting for others$", said, re.M), said)


@case
def the_plan_of_a_stage_is_explained(c):
    plan = c.compile("lenet_train", "stage=2,data=2", 4, "--mode", "auto", rows=16)
    for op in ("/conv1/Conv", "/fc3/Gemm"):
        told = json.loads(c.run(c.bin / "tessera-dump", plan, "--explain", op, "--json"))
        expect(told[0]["function"] == "train" and told[0]["name"] == op and told[0]["alternatives"], told)
        expect(op in c.run(c.bin / "tessera-dump", plan, "--explain", op), op)


if __name__ == "__main__":
    main(__doc__, Context)
