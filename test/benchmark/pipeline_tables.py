#!/usr/bin/env python3
"""Large transformers on A100 clusters that only a paper has run: what would they take, and does the search choose the same?

usage: /usr/bin/python3 test/benchmark/pipeline_tables.py --bin build/bin [--only 18,39] [--causes] [--auto] [--json FILE]

Rows of Table 1 in Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC 2021): GPT
with 2048 tokens and 51,200 words in mixed precision. The published plan is 8 ranks in a layer, P stages and the rest data parallel.
Its step is predicted; activations are kept. --causes adds, one after the other, what the paper's program did and what A100s are
measured to reach, and says how far the prediction is from the published rate each time. --auto also lets --pipeline auto choose
for the same ranks, and says what that is predicted to take and how long it took.

TF/s per device are the operations that are done over the time of a step, as in the paper: those that are computed again count where
they are. The paper computes all layers again, --recompute full those before the last of its segments.
Nothing is measured but the processor's seconds. Prints Markdown.
"""
import argparse
import dataclasses
import functools
import json
import pathlib
import re
import sys
import tempfile

import measured

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/models"))
import networks  # noqa: E402

LENGTH, WORDS, IN_MACHINE = 2048, 51200, 8


@dataclasses.dataclass(frozen=True)
class Row:
    """A GPT, and the plan that was published of it."""
    heads: int
    hidden: int
    layers: int
    stages: int
    devices: int
    batch: int
    ours: int       # rows of a micro-batch on a rank
    goal: float     # published TF/s per device
    rows: int       # of a micro-batch on a rank, as published
    schedule: str   # None: one stage
    in_layer: int = IN_MACHINE  # ranks

    @property
    def data(self):
        return self.devices // self.in_layer // self.stages


# The last two of each: what the paper's runs did, by its script (Megatron-LM, examples/sc21/run_table_1.sh).
ROWS = {
    "18": Row(48, 6144, 40, 1, 256, 1024, 2, 135, 8, None),
    "39": Row(64, 8192, 48, 2, 512, 1536, 2, 138, 4, "1f1b"),
    "76": Row(80, 10240, 60, 4, 1024, 1792, 1, 140, 2, "interleaved:3"),
    "145": Row(96, 12288, 80, 8, 1536, 2304, 1, 148, 2, "interleaved:2"),
    "310": Row(128, 16384, 96, 16, 1920, 2160, 1, 155, 1, "interleaved:2"),
    "530": Row(128, 20480, 105, 35, 2520, 2520, 1, 163, 1, "interleaved:3"),
    "1008": Row(160, 25600, 128, 64, 3072, 3072, 1, 163, 1, "1f1b"),
}
DROPOUT = 0.1  # Megatron-LM's default for --attention-dropout and --hidden-dropout, which that script leaves


@dataclasses.dataclass
class Plan:
    """What is compiled of a row."""
    options: tuple = ()
    fused: bool = True       # attention
    rates: bool = False      # those that A100s are measured to reach
    published: bool = False  # the paper's micro-batches and schedule
    cut: bool = False        # the paper's cut of layers, and their stages; else the best that the search finds
    dropout: float = 0
    waits: bool = False      # a rank computes nothing while it exchanges messages with other stages
    narrow: bool = False     # ranks of a layer add numbers of 16 bits
    rows_cut: bool = False   # with `cut`: between products, ranks of a layer have parts of the sequence (sequence parallelism)


# What --causes adds, each to those before it: the paper's program computes activations of layers again, and is older than kernels that
# do a whole attention, than collectives beside products, and than plans that cut a layer's sequence as well. It waits for its messages
# to other stages (megatron/p2p_communication.py, _communicate: wait() for each, then synchronize() of the device). Ranks of a layer
# add what their products made in 16 bits (megatron/mpu/mappings.py, _reduce), where plans add float32 sums.
CAUSES = (("activations again", {"options": ("--recompute", "full")}), ("attention in kernels of its own", {"fused": False}),
          ("collectives in line", {"options": ("--recompute", "full", "--overlap", "off")}), ("measured rates", {"rates": True}),
          ("its micro-batches and schedule", {"published": True}), ("its cut of layers", {"cut": True}), ("dropout", {"dropout": DROPOUT}),
          ("messages in line", {"waits": True}), ("sums in 16 bits", {"narrow": True}))


def operations(layers, hidden, batch):
    """Of a step, forward and backward, by the paper's equation 3 without what is computed again."""
    return batch * LENGTH * (72 * layers * hidden**2 * (1 + LENGTH / (6 * hidden)) + 6 * hidden * WORDS)


def measured_a100(devices):
    """Machines of eight A100 SXM 80 GB as they are measured, by sources that know nothing of this table; the rest as in 8xa100.

    f16: the best product of two matrices in bfloat16, 271.2 of 312 TF/s (Bekman, "Machine Learning Engineering", table of maximum
    achievable matmul FLOPS, best shape 1024 x 10240 x 5120). Memory: 1.80 of 2.04 TB/s (a kernel that only reads, 88 % by Nsight
    Compute, and at most about 90 % in a talk at GTC: forums.developer.nvidia.com, topic 339083). NVLink: 80 % of the nominal 300 GB/s,
    since NCCL's protocol takes about 20 % (its maintainer in NVIDIA/nccl-tests, issue 212; all-reduces of 200 to 208 GB/s are told in
    the issues 149 and 178).
    """
    links = [{"devices": IN_MACHINE, "latency": 2e-6, "bandwidth": 240e9}, {"devices": devices, "latency": 5e-6, "bandwidth": 25e9}]
    return {"name": "A100, measured", "devices": devices, "flops": {"f64": 9.7e12, "f32": 19.5e12, "f16": 271.2e12},
            "memory_bandwidth": 1.80e12, "memory": "80GiB", "launch": 4e-6, "links": links[:1 if devices <= IN_MACHINE else 2]}


def megatron(row, rows_cut):
    """A layer's first products are cut by columns, its second ones by rows, and their sums are whole on every rank, or with `rows_cut`
    a part of the sequence on each. Every stage has as many layers."""
    chunks = row.stages * int((row.schedule or "").partition(":")[2] or 1)
    data = "data" if row.data > 1 else None
    columns, rows = {"in": [[data, None, None], [None, "model"]]}, {"in": [[data, None, "model"], ["model", None]]}
    sums = {"out": [[data, "model" if rows_cut else None, None]]}
    cuts = {"qkv": columns, "up": columns, "out": rows | sums, "down": rows | sums}
    stage = lambda layer: {"stage": layer * chunks // row.layers} if chunks > 1 else {}
    return [{"op": f"l{layer}.{op}", **cut, **stage(layer)} for layer in range(row.layers) for op, cut in cuts.items()]


class DoesNotFit(Exception):
    """The plan needs more memory than a device has."""


class Predictor:
    """`row` is a Row everywhere."""

    def __init__(self, bin, folder):
        self.bin, self.folder = bin, folder

    def compile(self, row, plan, batch, *options):
        """What is printed, and the processor's time."""
        model = self.folder / f"{row.layers}-{row.hidden}-{plan.dropout}.onnx"
        if not model.exists():
            networks.gpt(model, layers=row.layers, hidden=row.hidden, heads=row.heads, words=WORDS, batch="batch", length=LENGTH,
                         dropout=plan.dropout)
        command = [self.bin / "tessera-compile", model, "--inputs", "ids", "--precision", "bf16", "--dim", f"batch={batch}", "--train",
                   "--optimizer", "adam:lr=0.001", *([] if plan.fused else ["--no-fuse-attention"]),
                   *(["--products", "narrow"] if plan.narrow else []), *options]
        code, text, _, usage = measured.run([str(c) for c in command], self.folder)
        if code and "error: the plan needs" in text:
            raise DoesNotFit()
        if code:
            sys.exit(f"{' '.join(map(str, command))}: exit code {code}\n{text}")
        return text, usage.ru_utime + usage.ru_stime

    def predict(self, row, plan, *options):
        """Facts of one search."""
        topology = f"{row.devices // IN_MACHINE}x8xa100"
        if plan.rates:
            topology = self.folder / f"a100-{row.devices}.json"
            topology.write_text(json.dumps(measured_a100(row.devices)))
        text, cpu = self.compile(row, plan, row.batch, "--mode", "auto", "--topology", topology, "--search-only", *plan.options, *options)
        seconds = float(re.search(r"^train .*?predicted ([0-9.]+) ms", text, re.M)[1]) / 1e3
        if plan.waits:
            seconds = self.in_line(row, text) or seconds
        mesh = re.search(r"^mesh +(\S+),", text, re.M)[1]
        told = re.search(r"^pipeline .*?(\d+) micro-batch.*?schedule (\S+);.*bubble ([0-9.]+)", text, re.M)
        again = re.search(r"^recompute +(\S+)", text, re.M)
        counted = operations(row.layers, row.hidden, row.batch)
        if "full" in plan.options:
            counted *= self.again(row if plan.published else dataclasses.replace(row, rows=row.ours, schedule=None), plan.fused, plan.dropout)
        return {"seconds": seconds, "tflops": counted / seconds / row.devices / 1e12, "mesh": mesh,
                "schedule": told[2] if told else "-", "bubble": float(told[3]) if told else 0, "recompute": again[1] if again else "none",
                "parts": int(told[1]) if told else None, "cpu": cpu}

    def in_line(self, row, text):
        """Seconds of a step in which every action of a stage also takes what its messages take; None without stages. Every rank of a
        layer sends its part of the activations to the next machine, and the parts are gathered there (what Megatron-LM does unless it
        is told --no-scatter-gather-tensors-in-pipeline)."""
        took = ", ".join(rf"{part} ([0-9.]+) ms" for part in ("forward", "input", "weight", "once"))
        stages = re.findall(rf"^ +stage \d+ .*from .*; {took}", text, re.M)
        if not stages:
            return None
        inside, between = measured_a100(row.devices)["links"]
        size = 2 * row.rows * LENGTH * row.hidden
        # Of a layer on several machines, each has its part whole.
        size, parts = size / max(1, row.in_layer // IN_MACHINE), min(row.in_layer, IN_MACHINE)
        message = (between["latency"] + size / parts / between["bandwidth"] + inside["latency"]
                   + size * (parts - 1) / parts / inside["bandwidth"])
        nanoseconds = lambda milliseconds, more=0: round(1e6 * float(milliseconds) + 1e9 * more)
        pipeline = self.folder / "pipeline.json"
        pipeline.write_text(json.dumps({"micro_batches": row.batch // (row.data * row.rows), "stages": [
            {"device": s % row.stages, "forward": nanoseconds(forward, message), "input": nanoseconds(backward, message),
             "weight": nanoseconds(weight)} for s, (forward, backward, weight, _) in enumerate(stages)]}))
        code, told, _, _ = measured.run([self.bin / "tessera-solve", "--pipeline", pipeline, "--json"], self.folder)
        if code:
            sys.exit(told)
        makespan = next(order["makespan"] for order in json.loads(told)["orders"] if order["name"] == row.schedule.partition(":")[0])
        return makespan / 1e9 + max(float(once) for *_, once in stages) / 1e3

    @functools.cache
    def again(self, row, fused, dropout):
        """How many times the operations of a step are done with --recompute full, whose segments depend on the stages and on a
        micro-batch. Layers are not cut, which changes nothing and makes fewer plans."""
        done = []
        for level in "none", "full":
            with tempfile.TemporaryDirectory(dir=self.folder) as plan:
                self.compile(row, Plan(fused=fused, dropout=dropout), row.data * row.rows * row.stages, "--mode", "data", "--mesh",
                             (f"stage={row.stages}," if row.stages > 1 else "") + f"data={row.data}", "--accumulate", row.stages,
                             "--topology", f"{row.devices // IN_MACHINE}x8xa100", "--memory", "1000TiB", "--recompute", level,
                             *(["--pipeline", f"schedule={row.schedule}"] if row.schedule and row.stages > 1 else []), "-o", f"{plan}/plan")
                report = json.loads(pathlib.Path(plan, "plan/report.json").read_text())
            train = next(function for function in report["functions"] if function["name"] == "train")
            done.append(sum(operator["flops"] for operator in train["operators"]))
        return done[1] / done[0]

    def published(self, row, plan=Plan()):
        mesh = [f"{axis}={size}" for axis, size in (("stage", row.stages), ("data", row.data), ("model", row.in_layer)) if size > 1]
        more = ["--pipeline", f"schedule={row.schedule}"] if plan.published and row.schedule else []
        if plan.cut:
            strategies = self.folder / "megatron.json"
            strategies.write_text(json.dumps(megatron(row, plan.rows_cut)))
            more += ["--strategy", strategies]
        parts = row.batch // (row.data * (row.rows if plan.published else row.ours))
        return self.predict(row, plan, "--mesh", ",".join(mesh), "--accumulate", parts, *more)

    def causes(self, row, last):
        """What each of the last causes makes of the prediction, with those before it."""
        plan, found = Plan(), []
        for i, (name, more) in enumerate(CAUSES):
            plan = dataclasses.replace(plan, **more)
            if i >= len(CAUSES) - last:
                found.append({"cause": name, **self.published(row, plan)})
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--only", default=",".join(ROWS), help="rows, separated by commas")
    parser.add_argument("--causes", type=int, nargs="?", const=len(CAUSES), default=0, metavar="N",
                        help="what the causes of the difference make of it; N: the last N alone, with those before them")
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        predictor = Predictor(args.bin.resolve(), pathlib.Path(folder))
        print("| billions | devices | plan | step | bubble | TF/s | published | off |" +
              "".join(f" {name} |" for name, _ in CAUSES[len(CAUSES) - args.causes:]) +
              (" chosen | step | gain | seconds of search |" if args.auto else ""))
        print("|" + "---|" * (8 + args.causes + 4 * args.auto), flush=True)
        for name in args.only.split(","):
            row = ROWS[name]
            goal = row.goal
            try:
                found = predictor.published(row)
                text = (f"| {name} | {row.devices} | {found['mesh']} | {found['seconds']:.2f} s | {found['bubble']:.1f} % | {found['tflops']:.0f} | "
                        f"{goal} | {100 * (found['tflops'] / goal - 1):+.1f} % |")
            except DoesNotFit:
                found, text = None, f"| {name} | {row.devices} | does not fit | | | | {goal} | |"
            rows.append({"name": name, "devices": row.devices, "published": goal, "found": found})
            if args.causes:
                rows[-1]["causes"] = predictor.causes(row, args.causes)
                text += "".join(f" {step['seconds']:.2f} s, {step['tflops']:.0f} TF/s, {100 * (step['tflops'] / goal - 1):+.1f} % |"
                                for step in rows[-1]["causes"])
            if args.auto:
                chosen = predictor.predict(row, Plan(), "--mesh", row.devices, "--pipeline", "auto")
                rows[-1]["chosen"] = chosen
                text += (f" {chosen['mesh']}, {chosen['parts'] or '-'} micro-batches, {chosen['schedule']} | {chosen['seconds']:.2f} s | "
                         + (f"{100 * (found['seconds'] / chosen['seconds'] - 1):+.1f} %" if found else "") + f" | {chosen['cpu']:.0f} |")
            print(text, flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
