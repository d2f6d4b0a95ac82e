#!/usr/bin/env python3
"""Whether mode auto is ever worse, by its own prediction, than what it could have chosen as well.

usage: /usr/bin/python3 test/benchmark/never_worse.py --bin build/bin [--only 'TEXT;...'] [--small] [--jobs N] [--minutes M]
                                                      [--beside] [--json FILE]

For pairs of a program and a mesh, the predicted step of mode auto is held against
  data      mode data on that mesh
  Megatron  for transformers: the cut of Shoeybi et al. (2019) over the last axis, given as a strategy file
  coarser   mode auto on the same mesh with two neighbouring axes joined
A plan that is worse by more than the search's gap (--search-gap, 0.1 %) is named, and the exit code is 1. Messages are not
joined and hide behind no kernel: so the search prices them. --beside compares the plans that are emitted without options,
which do both. Predictions do not depend on how busy the machine is. --small takes the pairs that need a second. With --minutes, pairs that do not begin
in that time are left out, and the last line says how many. Prints Markdown.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/models"))
import networks  # noqa: E402

GAP = 0.001
MODELS = ROOT / "test/models"
# name: (network's writer, its sizes, options), or (stored file, None, options)
PROGRAMS = {
    "ResNet-50": ("resnet50_224_train.onnx", None, ["--dim", "batch=256"]),
    "ResNet-18": ("resnet18_cifar_train.onnx", None, ["--dim", "batch=64"]),
    "LeNet": ("lenet_train.onnx", None, ["--dim", "batch=64"]),
    "MLP": ("mlp_train.onnx", None, ["--dim", "batch=64"]),
    "SqueezeNet": ("families/squeezenet.onnx", None, []),
    "BERT-large": ("bert", {}, ["--inputs", "ids,segments"]),
    "BERT, 2 layers": ("bert", {"layers": 2}, ["--inputs", "ids,segments"]),
    "GPT 1.7B": ("gpt", {"layers": 24, "hidden": 2304, "heads": 24, "batch": 32}, ["--inputs", "ids"]),
    "GPT 3.6B, 4 layers": ("gpt", {"layers": 4, "hidden": 3072, "heads": 32, "batch": 64}, ["--inputs", "ids"]),
    "GPT 18.4B, 2 layers": ("gpt", {"layers": 2, "hidden": 6144, "heads": 48, "batch": 64}, ["--inputs", "ids"]),
    "GPT, small": ("gpt", {"layers": 2, "hidden": 256, "heads": 8, "batch": 16, "length": 64, "words": 1000}, ["--inputs", "ids"]),
    "experts, 2 layers": ("experts", {"layers": 2}, ["--inputs", "ids"]),
}


def pairs():
    """(program, mesh, topology, precision, micro-batches)"""
    review = [("ResNet-50", "8", "8xh100", "f32", 1), ("ResNet-50", "4,2", "8xh100", "f32", 1),
              ("ResNet-50", "2,2,2", "8xh100", "f32", 1), ("ResNet-50", "2,2,2", "8xh100", "bf16", 1),
              ("ResNet-50", "8", "8xh100", "f32", 4), ("ResNet-50", "16", "2x8xa100", "bf16", 4),
              ("BERT-large", "8,8", "8x8xh100", "f32", 1), ("BERT-large", "8,4,2", "8x8xh100", "f32", 1),
              ("BERT-large", "4,4,4", "8x8xh100", "f32", 1), ("BERT-large", "64", "8x8xh100", "f32", 4),
              ("BERT-large", "8,8", "8x8xh100", "f32", 4), ("GPT 1.7B", "32", "4x8xa100", "bf16", 1),
              ("GPT 1.7B", "32", "4x8xa100", "bf16", 16), ("GPT 1.7B", "2,2,8", "4x8xa100", "bf16", 1)]
    more = []
    for program in ("MLP", "LeNet", "SqueezeNet", "GPT, small", "ResNet-18"):
        for mesh in ("2", "4", "2,2", "8", "4,2", "2,4") + (("2,2,2",) if program != "ResNet-18" else ()):
            more.append((program, mesh, "cpu", "f32", 1))
        more += [(program, "2,2", "8xh100", "bf16", 1), (program, "4,2", "8xh100", "f32", 4)]
    for program, topology in (("GPT 3.6B, 4 layers", "8x8xa100"), ("GPT 18.4B, 2 layers", "64x8xa100"),
                              ("BERT, 2 layers", "8x8xh100"), ("experts, 2 layers", "8x8xh100")):
        for mesh in ("8", "64", "32,2", "16,4", "8,8") + (("512", "64,8") if topology.startswith("64") else ("8,4,2",)):
            more.append((program, mesh, topology, "bf16", 1))
        more += [(program, "8,8", topology, "f32", 1), (program, "8,8", topology, "bf16", 4), (program, "16,4", topology, "bf16", 16)]
    more += [("ResNet-50", m, "2x8xa100", "bf16", n) for m in ("16", "8,2", "2,8") for n in (1, 4)]
    more += [("ResNet-50", m, "64x8xh100", "f32", 1) for m in ("64", "8,8", "32,8")]
    return review + more


def axes(mesh):
    return [f"{name}={size}" for name, size in zip("abc", mesh.split(","))]


def megatron(program, mesh, folder):
    """The strategy file; None: the program is no transformer with dense layers, or there is one axis only."""
    sizes = mesh.split(",")
    if PROGRAMS[program][0] not in ("bert", "gpt") or len(sizes) < 2:
        return None
    batch, cut = "+".join("abc"[:len(sizes) - 1]), "abc"[len(sizes) - 1]
    columns, rows = [[batch, None, None], [None, cut]], [[batch, None, cut], [cut, None]]
    path = folder / f"megatron-{len(sizes)}.json"
    path.write_text(json.dumps([{"op": f"l*.{op}", "in": cuts} for op, cuts in
                                (("qkv", columns), ("up", columns), ("out", rows), ("down", rows))]))
    return path


def model(program, folder):
    kind, sizes, _ = PROGRAMS[program]
    if sizes is None:
        return MODELS / kind
    path = folder / (re.sub(r"\W+", "_", program) + ".onnx")
    if not path.exists():
        networks.NETWORKS[kind](path, **sizes)
    return path


def predict(bin, job, folder, beside):
    """(predicted ms, gap in %) or the error's text."""
    program, mesh, topology, precision, micros, mode, strategy = job
    command = [bin / "tessera-compile", model(program, folder), *PROGRAMS[program][2], "--mesh", ",".join(axes(mesh)), "--topology",
               topology, "--mode", mode, "--train", "--loss", "cross_entropy", "--optimizer", "adamw:lr=0.001", "--precision",
               precision, "--search-only"]
    command += [] if beside else ["--fusion", "off", "--overlap", "off"]
    command += ["--accumulate", micros] if micros > 1 else []
    command += ["--strategy", strategy] if strategy else []
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    found = re.search(r"^train .*?predicted ([0-9.]+) ms", done.stdout, re.M)
    if done.returncode or not found:
        return (done.stderr.strip().splitlines() or ["no prediction"])[-1]
    gap = re.search(r"gap to the bound on the sum of costs ([0-9.]+) %", done.stdout[found.end():])
    return float(found.group(1)), float(gap.group(1)) if gap else 0.0


def coarser(mesh):
    sizes = [int(s) for s in mesh.split(",")]
    return [",".join(str(s) for s in sizes[:i] + [sizes[i] * sizes[i + 1]] + sizes[i + 2:]) for i in range(len(sizes) - 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="beginnings of programs' names, separated by semicolons")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--beside", action="store_true", help="join messages and hide them behind kernels")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    chosen = [p for p in pairs() if p[0].startswith(tuple(args.only.split(";")))]
    if args.small:
        chosen = [p for p in chosen if p[0] in ("MLP", "LeNet", "GPT, small") and p[1] in ("4", "2,2", "4,2", "2,2,2")]
    rows, worse, left_out = [], [], 0
    print("| program | mesh | topology | type | micro-batches | auto, ms | gap | data | Megatron | coarser | worse by |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        folder, futures = pathlib.Path(name), {}
        for program in {p[0] for p in chosen}:
            model(program, folder)

        def ask(program, mesh, rest, mode="auto", strategy=None):
            job = (program, mesh, *rest, mode, strategy)
            if job not in futures:
                futures[job] = pool.submit(lambda: predict(args.bin, job, folder, args.beside) if time.monotonic() < end else None)
            return futures[job]

        asked = []
        for program, mesh, *rest in chosen:
            file = megatron(program, mesh, folder)
            asked.append((ask(program, mesh, rest), ask(program, mesh, rest, "data"),
                          ask(program, mesh, rest, "auto", file) if file else None, [ask(program, m, rest) for m in coarser(mesh)]))
        for (program, mesh, topology, precision, micros), (auto, data, cut, joined) in zip(chosen, asked):
            auto, data, cut = auto.result(), data.result(), cut.result() if cut else "-"
            joined = [j.result() for j in joined]
            if None in (auto, data, cut, *joined):
                left_out += 1
                continue
            others = [o[0] for o in (data, cut, *joined) if isinstance(o, tuple)]
            excess = auto[0] / min(others) - 1 if isinstance(auto, tuple) and others else 0 if isinstance(auto, tuple) or not others else 1
            if excess > GAP:
                worse.append((program, mesh, excess))
            text = lambda r: f"{r[0]:,.3f}" if isinstance(r, tuple) else "-" if r == "-" else "does not fit"  # noqa: E731
            best = min((j for j in joined if isinstance(j, tuple)), default="-")
            gap = f"{auto[1]:.2f} %" if isinstance(auto, tuple) else "-"
            print(f"| {program} | {mesh.replace(',', 'x')} | {topology} | {precision} | {micros} | {text(auto)} | {gap} | {text(data)} | "
                  f"{text(cut)} | {text(best)} | {f'{100 * excess:.2f} %' if excess > 0 else ''} |", flush=True)
            rows.append({"program": program, "mesh": mesh, "topology": topology, "precision": precision, "micro_batches": micros,
                         "auto": auto, "data": data, "megatron": cut, "coarser": joined, "excess": excess})
    print(f"\n{len(rows)} pairs, {len(worse)} worse by more than {100 * GAP} %" + (f", {left_out} left out" if left_out else ""))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
