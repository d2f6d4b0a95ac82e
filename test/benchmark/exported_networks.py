#!/usr/bin/env python3
"""Networks that PyTorch exported, with its own training curves: losses on several meshes against PyTorch's in float64.

usage: exported_networks.py --bin DIR --models DIR [--steps N] [--tolerance 1e-4] [--f64] [--config MESH:MODE]... [NETWORK...]

DIR holds a folder per network: train_op17.onnx, in_NAME.npy of every input, target.npy, and train.json with "optimizer",
"hyper" and "loss_f64" (the losses of consecutive steps on that batch; "loss_f32": the same in float32). Prints the largest
relative difference of every configuration and of PyTorch's own float32; the exit code is 1 if one is above the tolerance.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import onnx

LOSSES = {"lenet": "nll", "dlrm": "bce_with_logits"}
AUXILIARY = {"moe_switch": "1=0.01"}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def optimizer(reference):
    hyper = dict(reference["hyper"])
    betas = hyper.pop("betas", None)
    if betas:
        hyper["beta1"], hyper["beta2"] = betas
    return reference["optimizer"] + ":" + ",".join(f"{k}={v}" for k, v in hyper.items())


def inputs(folder, model):
    graph = onnx.load(model, load_external_data=False).graph
    weights = {i.name for i in graph.initializer}
    names = [i.name for i in graph.input if i.name not in weights]
    found = {p.stem[3:]: p for p in folder.glob("in_*.npy")}
    return list(found.values()) if len(names) == 1 else [found[n] for n in names]


def losses(args, folder, config, reference, steps):
    mesh, mode = config.split(":")
    model = folder / "train_op17.onnx"
    with tempfile.TemporaryDirectory() as name:
        plan, log = pathlib.Path(name) / "plan", pathlib.Path(name) / "log"
        extra = ["--aux-outputs", AUXILIARY[folder.name]] if folder.name in AUXILIARY else []
        run(args.bin / "tessera-compile", model, "--mesh", mesh, "--mode", mode, "--train", "--loss",
            LOSSES.get(folder.name, "cross_entropy"), "--optimizer", optimizer(reference), *extra, "-o", plan)
        data = ",".join(str(p) for p in [*inputs(folder, model), folder / "target.npy"])
        precise = ["--f64", "--backend", "reference"] if args.f64 else []
        run(args.bin / "tessera-run", plan, "--data", "npy:" + data, "--steps", steps, "--log", log, *precise)
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]


def distance(found, expected):
    return max(abs(a - b) / abs(b) for a, b in zip(found, expected))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--f64", action="store_true", help="compute in double precision")
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("networks", nargs="*")
    args = parser.parse_args()
    configs = args.config or ["1:data", "data=2:data", "data=4:data", "data=2,model=2:auto"]
    bad = 0
    for folder in sorted(p.parent for p in args.models.glob("*/train.json")):
        if args.networks and folder.name not in args.networks:
            continue
        reference = json.loads((folder / "train.json").read_text())
        expected = reference["loss_f64"][:args.steps]
        if "loss_f32" in reference:
            print(f"{folder.name:20} PyTorch in float32: {distance(reference['loss_f32'], expected):.1e}")
        for config in configs:
            found = losses(args, folder, config, reference, len(expected))
            assert len(found) == len(expected) > 1, (folder.name, config, found)
            worst = distance(found, expected)
            bad += worst > args.tolerance
            print(f"{folder.name:20} {config:20} {len(found)} steps  {worst:.1e}"
                  f"{'  ABOVE' if worst > args.tolerance else ''}", flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
