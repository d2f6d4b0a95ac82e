#!/usr/bin/env python3
"""Networks of many families, cut into stages, train to the same bits as uncut.

usage: stages_test.py --bin DIR [--stages N[:SCHEDULE],...] [--backend NAME] [--reproducible] MODEL...

A model is a file, NAME.onnx, a folder with a train_op17.onnx and a train.json (or a folder of such folders), or a network that
test/models/networks.py or small_networks.py writes with sizes, NAME:KEY=VALUE,... A model NAME.onnx:batch=2 gets the option --dim
batch=4: two micro-batches of 2. Every model is compiled for training with two micro-batches on one rank, and for as many stages as
--stages says (default 2), in this schedule or one of several; losses and all tensors of the checkpoints after two steps must be
equal. Exit code 1 and one line per model that differs. The backend is reference, or for large networks --backend cpu: there the
order of a sum depends on what is fused with it, so nothing is. With --reproducible it does not, and what lies in stages of their own
does not matter.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

from tensors import whole_tensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import networks  # noqa: E402
import small_networks  # noqa: E402

PARTS, STEPS = 2, 2
LOSSES = {"lenet/train_op17": "nll", "dlrm/train_op17": "bce_with_logits"}  # the others have classes
NETWORKS = networks.NETWORKS | {f.__name__: f for f in (small_networks.unet, small_networks.translator)}
INPUTS = {"bert": "ids,segments", "unet": "image", "translator": "source,shifted"}  # the others have ids
SCHEDULES = ("zb-h1", "1f1b", "zb-h2", "gpipe", "auto")


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def train(args, folder, model, options):
    """Losses, and all tensors of the last checkpoint."""
    plan = folder / f"plan{len(list(folder.iterdir()))}"
    order = ["--reproducible"] if args.reproducible else ["--no-fuse"] if args.backend == "cpu" else []
    run(args.bin / "tessera-compile", model, "--seed", 7, "--train", "--optimizer", "sgd:lr=0.01,momentum=0.9", "--accumulate",
        PARTS, "-q", *order, *options, "-o", plan)
    log, checkpoints = plan / "log.jsonl", plan / "checkpoints"
    run(args.bin / "tessera-run", plan, "--data", "synthetic", "--steps", STEPS, "--threads", 1, "--log", log,
        "--backend", args.backend, "--checkpoint-dir", checkpoints)
    return [json.loads(line)["loss"] for line in log.read_text().splitlines()], whole_tensors(checkpoints / f"step-{STEPS:08}")


def check(args, text, folder):
    name, _, sizes = text.partition(":")
    options, model = [], pathlib.Path(name)
    if model.suffix == ".onnx":
        options += ["--dim", "batch=" + str(PARTS * int(sizes.partition("=")[2]))] if sizes else []
    else:
        model = folder / f"{name}.onnx"
        NETWORKS[name](model, **{key: int(value) for key, value in (s.split("=") for s in sizes.split(","))})
        options += ["--inputs", INPUTS.get(name, "ids")]
    options += ["--loss", LOSSES.get("/".join(model.with_suffix("").parts[-2:]), "cross_entropy")]
    losses, tensors = train(args, folder, model, [*options, "--mesh", "1"])
    assert len(set(losses)) == STEPS and np.isfinite(losses).all(), f"the losses do not move: {losses}"
    for number, given in enumerate(args.stages):
        stages, _, schedule = given.partition(":")
        schedule = schedule or SCHEDULES[number % len(SCHEDULES)]
        found, cut = train(args, folder, model, [*options, "--mesh", f"stage={stages}", "--pipeline", f"schedule={schedule}"])
        assert found == losses, f"{stages} stages, {schedule}: losses {found}, uncut {losses}"
        assert sorted(cut) == sorted(tensors), f"{stages} stages, {schedule}: {sorted(cut)}"
        for tensor, values in cut.items():
            assert np.array_equal(values, tensors[tensor], equal_nan=True), f"{stages} stages, {schedule}: '{tensor}' differs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--stages", type=lambda text: text.split(","), default=["2"])
    parser.add_argument("--backend", default="reference", choices=("reference", "cpu"))
    parser.add_argument("--reproducible", action="store_true")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    models = []
    for text in args.models:
        folder = pathlib.Path(text)
        models += sorted(map(str, folder.rglob("train_op17.onnx"))) if folder.is_dir() else [text]
    bad = 0
    for text in models:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(args, text, pathlib.Path(folder))
                print(f"{text}: equal ({time.monotonic() - begin:.1f} s)", flush=True)
            except AssertionError as error:
                bad += 1
                print(f"{text}: {error}", flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
