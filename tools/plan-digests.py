#!/usr/bin/env python3
"""Prints a digest of every plan of a fixed set of compiles: the oracle of a change that must not change plans.

usage: plan-digests.py --bin DIR [--quick] [--jobs N] [--models DIR]... > FILE

Every model is compiled in modes data, semi-auto and auto, for 1, 4 and 2x2x2 ranks, to train and to infer, in float32 and
bfloat16. A line is `DIGEST  MODEL OPTIONS`: the SHA-256 of the names and bytes of all files of the plan directory, or
`failed` and the error. Run it before and after the change and compare:

  tools/plan-digests.py --bin build/bin > before
  ... change and build ...
  tools/plan-digests.py --bin build/bin | diff before -

--models DIR also takes every *.onnx below DIR, named by its path from there. --quick takes a few small models.
"""
import argparse
import concurrent.futures
import hashlib
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUICK = ("lenet_train", "mlp_train", "resnet18_cifar_train", "mobilenet_v3", "gpt2_2l_d128/train_op17", "mlp_eval")
# The loss that fits the model's target, where cross entropy does not.
LOSSES = {"lenet/": "nll", "dlrm/": "bce_with_logits", "moe_switch/": "cross_entropy:output=0"}
MESHES = ("1", "data=2,model=2", "a=2,b=2,c=2")
TRAIN = ["--train", "--optimizer", "adamw:lr=0.001", "--seed", "7"]


def models(args):
    """(name, file)"""
    found = [(p.stem, p) for p in sorted((ROOT / "test/models").glob("*.onnx"))]
    found += [(p.stem, p) for p in sorted((ROOT / "test/models/families").glob("*.onnx"))]
    for folder in args.models:
        found += [(p.relative_to(folder).with_suffix("").as_posix(), p) for p in sorted(folder.rglob("*.onnx"))]
    # Files of one network that differ in the opset or the image size import alike: one of each is enough.
    found = [(n, p) for n, p in found if not n.endswith(("_op9", "_op13")) and "_224_" not in n and n != "mlp_hybrid"]
    return [(n, p) for n, p in found if not args.quick or n in QUICK]


def compiles(name):
    training = "eval" not in name
    for mode in ("data", "semi-auto", "auto"):
        for mesh in MESHES:
            if mesh == "1" and mode != "data":
                continue
            base = ["--mode", mode, "--mesh", mesh]
            for precision in ("f32", "bf16") if mode != "semi-auto" else ("f32",):
                options = base + ["--precision", precision]
                yield options + (TRAIN if training else [])
    if training:
        yield ["--mode", "auto", "--mesh", MESHES[1]]


def digest(folder):
    sha = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes().replace(str(folder.parent).encode(), b"")  # compile.json says where the model lay
        sha.update(f"{path.relative_to(folder)} {len(data)}\n".encode())
        sha.update(data)
    return sha.hexdigest()[:16]


def compile_one(program, name, model, options):
    loss = next((value for key, value in LOSSES.items() if name.startswith(key)), "cross_entropy")
    if "--train" in options:
        options = options + ["--loss", loss]
    line = f"{name} {' '.join(options)}"
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "model.onnx").symlink_to(model.resolve())
        extra = []
        while True:
            command = [str(program), "model.onnx", *options, *extra, "-o", "plan"]
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=900)
            if done.returncode and "--dim" in done.stderr and not extra:
                extra = ["--dim", "batch=8"]
                continue
            break
        if done.returncode:
            return f"failed            {line}: {done.stderr.strip().splitlines()[-1][:160]}"
        return f"{digest(place / 'plan')}  {line}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="the folder that has tessera-compile")
    parser.add_argument("--models", type=pathlib.Path, action="append", default=[], help="a folder of further models")
    parser.add_argument("--quick", action="store_true", help="a few small models")
    parser.add_argument("--jobs", type=int, default=2, help="compiles side by side (2)")
    args = parser.parse_args()
    program = (args.bin / "tessera-compile").resolve()
    if not program.exists():
        sys.exit(f"plan-digests: {program} does not exist: build it first")
    work = [(program, name, model, options) for name, model in models(args) for options in compiles(name)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for line in pool.map(lambda w: compile_one(*w), work):
            print(line, flush=True)


if __name__ == "__main__":
    main()
