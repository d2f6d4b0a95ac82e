#!/usr/bin/env python3
"""Where papers have found the best micro-batch and the best cut of large transformers, and what computing less again gains: predicted.

usage: /usr/bin/python3 test/benchmark/pipeline_optima.py --bin build/bin [--only again,choice,rows,cuts] [--billions 22,175] [--json FILE]

again   Table 5 of Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022): seconds of a step that
        computes all layers again, and of one that computes the attention alone again and cuts the sequence over the ranks of a layer.
        Here the second one has --recompute cheap, which computes again what no product makes: what the first product of the attention
        makes is kept, where the paper's program computes that again too. So no limit of memory holds for it.
choice  What --pipeline auto chooses for the same ranks and batch, and how much faster that is than the best plan that it finds with
        the published ranks in a layer and stages: both with --recompute auto, at the rates of the data sheet.
rows    Figure 16 of Narayanan et al. (SC 2021), by micro-batches: 91 billion parameters, 8 ranks in a layer and 8 stages.
cuts    Figure 13 there, by ranks in a layer and stages: 162 billion parameters on 64 devices.

All other plans are those of pipeline_tables.py with all causes. Published figures of the last two are read off the figures; None: not
read. Nothing is measured but the processor's seconds. Prints Markdown.
"""
import argparse
import dataclasses
import json
import pathlib
import tempfile

from pipeline_tables import CAUSES, DoesNotFit, LENGTH, Plan, Predictor, Row, operations

ALL = Plan()
for _, more in CAUSES:
    ALL = dataclasses.replace(ALL, **more)
LESS = dataclasses.replace(ALL, options=("--recompute", "cheap", "--overlap", "off", "--memory", "1000TiB"), rows_cut=True)

# billions: the row, and seconds published with everything computed again and with less. Their Table 3 has sizes, and its text schedules.
AGAIN = {
    "22": (Row(64, 6144, 48, 1, 8, 4, 4, 0, 4, None), 1.42, 1.10),
    "175": (Row(96, 12288, 96, 8, 64, 64, 1, 0, 1, "interleaved:3"), 18.13, 13.75),
    "530": (Row(128, 20480, 105, 35, 280, 280, 1, 0, 1, "interleaved:3"), 49.05, 37.83),
    "1000": (Row(160, 25600, 128, 64, 512, 512, 1, 0, 1, "1f1b"), 94.42, 71.49),
}

# By the paper's scripts (Megatron-LM, examples/sc21/run_figure_16.sh and run_figure_13.sh). batch: rows of a micro-batch: TF/s.
ROWS = {128: {1: 153, 2: 156, 4: None, 8: 122}, 512: {1: 160, 2: 172, 4: None, 8: 152}}
# batch: stages: TF/s; ranks in a layer are 64 / stages.
CUTS = {32: {2: None, 4: None, 8: 142, 16: None, 32: None}, 128: {2: 108, 4: None, 8: 166, 16: None, 32: 147}}


def predicted(predictor, row, plan):
    try:
        return predictor.published(row, plan)
    except DoesNotFit:
        return None


def table(head):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)


def line(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def off(value, published):
    return f"{100 * (value / published - 1):+.1f} %"


def again(predictor, names):
    """A step that computes all again is held against the rate of what is done, as in Table 1 of pipeline_tables.py: plans do not
    compute quite as much again as the paper's program. The other one is held against its time."""
    table(["billions", "devices", "plan", "all again, published", "predicted", "off", "less again, published", "predicted", "off"])
    for name in names:
        row, all_again, less_again = AGAIN[name]
        everything, less = predicted(predictor, row, ALL), predicted(predictor, row, LESS)
        yield {"table": "again", "name": name, "published": [all_again, less_again], "predicted": [everything, less]}
        forward = row.batch * LENGTH * 24 * row.layers * row.hidden**2 * (1 + LENGTH / (6 * row.hidden))
        rate = (operations(row.layers, row.hidden, row.batch) + forward) / all_again / row.devices / 1e12
        cells = [name, row.devices, (everything or less or {}).get("mesh"), f"{all_again:.2f} s, {rate:.0f} TF/s",
                 f"{everything['seconds']:.2f} s, {everything['tflops']:.0f} TF/s" if everything else "does not fit",
                 off(everything["tflops"], rate) if everything else "", f"{less_again:.2f} s",
                 f"{less['seconds']:.2f} s" if less else "does not fit", off(less["seconds"], less_again) if less else ""]
        line(*cells)


def choice(predictor, names):
    table(["billions", "devices", "published plan", "step", "chosen", "step", "gain", "seconds of search"])
    for name in names:
        row, plan = AGAIN[name][0], Plan(options=("--recompute", "auto"))
        theirs, own = predictor.published(row, plan), predictor.predict(row, plan, "--mesh", row.devices, "--pipeline", "auto")
        yield {"table": "choice", "name": name, "theirs": theirs, "chosen": own}
        line(name, row.devices, f"{theirs['mesh']}, {theirs['parts'] or 1} micro-batches", f"{theirs['seconds']:.2f} s",
             f"{own['mesh']}, {own['parts'] or 1} micro-batches, {own['schedule']}", f"{own['seconds']:.2f} s",
             off(theirs["seconds"], own["seconds"]), f"{own['cpu']:.0f}")


def figure(predictor, which, what, published, rowOf):
    for batch, points in published.items():
        table([f"{what}, batch {batch}", "published", "predicted", "off", "bubble"])
        found = {}
        for point, goal in points.items():
            one = predicted(predictor, rowOf(batch, point), ALL)
            yield {"table": which, "batch": batch, "point": point, "published": goal, "predicted": one}
            if one:
                found[point] = one["tflops"]
            line(point, goal or "", f"{one['tflops']:.0f}" if one else "does not fit",
                 off(one["tflops"], goal) if one and goal else "", f"{one['bubble']:.1f} %" if one else "")
        known = {point: goal for point, goal in points.items() if goal}
        if found:
            print(f"\nBest: published {max(known, key=known.get)}, predicted {max(found, key=found.get)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="again,choice,rows,cuts")
    parser.add_argument("--billions", default=",".join(AGAIN), help="rows of the tables `again` and `choice`")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    facts = []
    with tempfile.TemporaryDirectory() as folder:
        predictor = Predictor(args.bin.resolve(), pathlib.Path(folder))
        tables = {"again": lambda: again(predictor, args.billions.split(",")),
                  "choice": lambda: choice(predictor, args.billions.split(",")),
                  "rows": lambda: figure(predictor, "rows", "rows of a micro-batch", ROWS,
                                         lambda batch, rows: Row(128, 15360, 32, 8, 64, batch, rows, 0, rows, "1f1b")),
                  "cuts": lambda: figure(predictor, "cuts", "stages", CUTS,
                                         lambda batch, stages: Row(128, 20480, 32, stages, 64, batch, 1, 0, 1, "1f1b", 64 // stages))}
        for name in args.only.split(","):
            facts += tables[name]()
    if args.json:
        args.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
