#!/usr/bin/env python3
"""Every family of networks, as PyTorch exports it: ten Adam steps on 1, 2 and 4 ranks in every mode against PyTorch.

usage: /usr/bin/python3 test/benchmark/families.py --bin build/bin [--steps 10] [--f64] [--limit X] [FAMILY...]

FAMILY: beginnings of names in torch_families.py; all of them without. Each network is trained by PyTorch in float32 and in
float64, exported, and trained by Tessera from the same weights on the same batch: on one rank, in mode data on 2 and 4
ranks, cut by hand (torch_families.py; the rest is batch parallel) on 2 and 4, and in mode auto on 2 and 4. Printed is the largest
relative difference of a loss: of PyTorch's float32 and of one rank to PyTorch's float64, and of the others to one rank. The
exit code is 1 where one of Tessera's is above the limit, 1e-4.

--f64 computes in double precision on the reference backend, with a limit of 1e-6 to PyTorch (constants of the file are
float32 numbers) and of 1e-9 among ranks: what a float32 run shows above that is rounding.
Needs PyTorch and onnx (Debian's python3-torch, python3-onnx).
"""
import argparse
import fnmatch
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch

from torch_families import FAMILIES

# column, mesh, mode
RUNS = [("one rank", "1", "data"), ("data, 2", "data=2", "data"), ("data, 4", "data=4", "data"),
        ("by hand, 2", "model=2", "semi-auto"), ("by hand, 4", "data=2,model=2", "semi-auto"),
        ("auto, 2", "data=2", "auto"), ("auto, 4", "data=2,model=2", "auto")]
# Slow arithmetic and fast links: to cut even so small networks pays, so mode auto cuts them.
MACHINE = {"name": "slow", "devices": 4, "flops": {"f32": 1e8}, "memory_bandwidth": 1e9, "memory": "16GiB",
           "links": [{"devices": 4, "latency": 1e-9, "bandwidth": 1e11}]}
LOSSES = {"cross_entropy": lambda y, t: torch.nn.functional.cross_entropy(y.transpose(1, 2) if y.dim() == 3 else y, t),
          "bce_with_logits": torch.nn.functional.binary_cross_entropy_with_logits}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def in_pytorch(family, args, kind):
    make, inputs, target, loss, _ = FAMILIES[family]
    net = make().train().to(kind)
    cast = lambda a: torch.from_numpy(a).to(kind) if a.dtype == np.float32 else torch.from_numpy(a)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    losses = []
    for _ in range(args.steps):
        optimizer.zero_grad()
        value = LOSSES[loss](net(*map(cast, inputs)), cast(target))
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def export(family, folder):
    """The model, the batch and the strategies, as files."""
    make, inputs, target, _, cuts = FAMILIES[family]
    names = [f"x{i}" for i in range(len(inputs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(make().train(), tuple(map(torch.from_numpy, inputs)), folder / "net.onnx", input_names=names,
                          opset_version=16, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    graph = onnx.load(folder / "net.onnx").graph
    read, named = {i.name for i in graph.input}, [n.name for n in graph.node]
    for name, values in [*zip(names, inputs), ("target", target)]:
        np.save(folder / f"{name}.npy", values)
    found = [{"op": op, "in": how} for op, how in cuts if fnmatch.filter(named, op)]
    assert found, f"{family}: no operator is cut by hand: {named}"
    (folder / "cuts.json").write_text(json.dumps(found))
    (folder / "machine.json").write_text(json.dumps(MACHINE))
    return [folder / f"{n}.npy" for n in names if n in read] + [folder / "target.npy"]


def in_tessera(family, args, folder, data, mesh, mode):
    plan, log = folder / "plan", folder / "log"
    by_hand = ["--strategy", folder / "cuts.json"] if mode == "semi-auto" else []
    run(args.bin / "tessera-compile", folder / "net.onnx", "--mesh", mesh, "--mode", mode, *by_hand, "--train", "--loss",
        FAMILIES[family][3], "--optimizer", f"adam:lr={args.lr}", "--topology", folder / "machine.json", "-q", "-o", plan)
    log.unlink(missing_ok=True)
    run(args.bin / "tessera-run", plan, "--data", "npy:" + ",".join(map(str, data)), "--steps", args.steps, "--log", log,
        *(["--f64", "--backend", "reference"] if args.f64 else []))
    return [json.loads(line)["loss"] for line in log.read_text().splitlines()]


def distance(found, expected):
    assert len(found) == len(expected) > 1
    return max(abs(a - b) / abs(b) for a, b in zip(found, expected))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--f64", action="store_true")
    parser.add_argument("--limit", type=float, default=1e-4)
    parser.add_argument("families", nargs="*")
    args = parser.parse_args()
    torch.set_num_threads(1)
    bad = []
    print("| network | PyTorch | " + " | ".join(column for column, *_ in RUNS) + " |\n|" + "---|" * (len(RUNS) + 2))
    for family in FAMILIES:
        if args.families and not family.startswith(tuple(args.families)):
            continue
        expected = in_pytorch(family, args, torch.float64)
        assert abs(expected[-1] - expected[0]) > 1e-3 * abs(expected[0]), f"{family}: the loss does not move"
        cells, one = [f"{distance(in_pytorch(family, args, torch.float32), expected):.0e}"], None
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            data = export(family, folder)
            for column, mesh, mode in RUNS:
                found = in_tessera(family, args, folder, data, mesh, mode)
                far = distance(found, one or expected)
                limit = args.limit if not args.f64 else 1e-9 if one else 1e-6
                one = one or found
                if not far <= limit:
                    bad.append(f"{family}, {column}: {far:.1e}")
                cells.append(f"{far:.0e}")
        print(f"| {family} | {' | '.join(cells)} |", flush=True)
    if bad:
        sys.exit("above the limit: " + "; ".join(bad))


if __name__ == "__main__":
    main()
