#!/usr/bin/env python3
"""Packs what test/gpu/run.py needs on a machine with a GPU and CUDA, but without MLIR and Debian's packages.

usage: /usr/bin/python3 test/gpu/bundle.py [--build build] [-o gpu-bundle] [--networks NAME,...]

Into the folder, and into an archive beside it, go the runtime's programs and tests, the device modules, the shared
libraries that they need (but glibc, CUDA's and the driver's: the other machine has those), and compiled plans, those of one rank also as the programs that
tessera-profile reads. Weights
are left out of the plans; a recipe of each tensor's mean and deviation stands in their place. So a bundle is some tens of
MiB, however large the networks are: more than 60 MiB is an error. The losses that a device is compared with are computed here.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import numpy as np

import run as on_device

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ["tessera-run", "tessera-dump", "tessera-profile", "backend_conformance", "device_nccl"]
# Libraries that every machine has, and CUDA's.
NOT_CARRIED = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libmvec", "libpthread", "libdl.so", "librt.so", "libresolv",
               "libcuda.", "libcudart", "libcublas", "libcudnn", "libnvrtc", "libnvJitLink", "libnccl")
SGD, ADAM = "sgd:lr=0.001,momentum=0.9,weight_decay=0.0005", "adamw:lr=0.0001,weight_decay=0.01"


def images(name, batch, size, channels, classes):
    """A network of test/models."""
    return {"model": ROOT / f"test/models/{name}_train.onnx", "options": ["--dim", f"batch={batch}", "--optimizer", SGD],
            "inputs": [["normal", [batch, channels, size, size]]], "target": ["below", classes, [batch]]}


def words(kind, batch, length, words, **sizes):
    """A network of test/models/networks.py."""
    options = [f"{k}={v}" for k, v in dict(sizes, batch=batch, length=length, words=words).items()]
    names = ["ids", "segments"] if kind == "bert" else ["ids"]
    inputs = [["below", words, [batch, length]], ["below", 2, [batch, length]]][:len(names)]
    return {"write": [kind, *options], "options": ["--inputs", ",".join(names), "--optimizer", ADAM], "inputs": inputs,
            "target": ["below", words, [batch, length]]}


# Small networks are compared with the CPU's losses; large ones are timed.
EQUAL = {"lenet": images("lenet", 16, 28, 1, 10), "resnet50_32": images("resnet50_cifar", 8, 32, 3, 10),
         "bert_small": words("bert", 4, 32, 1000, layers=2, hidden=128, heads=4, dropout=0),
         "gpt_small": words("gpt", 4, 32, 1000, layers=2, hidden=128, heads=4)}
FAST = {"gpt_1024": words("gpt", 8, 1024, 50257, layers=12, hidden=768, heads=12),
        "resnet50_224": images("resnet50_224", 128, 224, 3, 1000),
        "bert_512": words("bert", 16, 512, 30522, layers=24, hidden=1024, heads=16),
        "bert_512_plain": words("bert", 16, 512, 30522, layers=24, hidden=1024, heads=16, dropout=0)}
PEERS = {"gpt_1024": "gpt", "resnet50_224": "resnet50", "bert_512": "bert", "bert_512_plain": "bert-plain"}  # torch_speed.py's names
MESHES = {"1": ("1", "data"), "data2": ("data=2", "data"), "auto4": ("data=2,model=2", "auto"), "stage2": ("stage=2", "data")}
RANKS = {"1": 1, "data2": 2, "auto4": 4, "stage2": 2}
# Micro-batches of a pipeline, of the networks whose loss is the mean of those of its parts: a batch norm has another one.
PARTS = {"lenet": ("--accumulate", "4")}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def pack_programs(build, out):
    for folder in ("bin", "lib"):
        (out / folder).mkdir(parents=True)
    for file in [build / "bin" / name for name in PROGRAMS] + sorted((build / "lib").glob("libtessera_*.so")):
        if not file.exists():
            sys.exit(f"{file} is missing: build it first (ninja -C {build} {file.name})")
        place = out / ("lib" if file.suffix == ".so" else "bin") / file.name
        shutil.copy(file, place)
        run("strip", place)
        for line in run("ldd", file).splitlines():
            name, _, path = line.strip().partition(" => ")
            path = path.split(" (")[0]
            if path.startswith("/") and not name.startswith(NOT_CARRIED) and not (out / "lib" / name).exists():
                shutil.copy(path, out / "lib" / name)
    # The bundle must not need any library of this machine but the common ones.
    for file in [*(out / "bin").iterdir(), *(out / "lib").iterdir()]:
        for line in run("env", f"LD_LIBRARY_PATH={out.resolve() / 'lib'}", "ldd", file).splitlines():
            name, _, path = line.strip().partition(" => ")
            if path.startswith("/") and not name.startswith(NOT_CARRIED) and not path.startswith(str(out.resolve())):
                sys.exit(f"{file.name} would take {path} from the other machine")


def leave_weights_out(plan):
    """Replaces weights.safetensors by its header and, per tensor, what its numbers look like (run.py: fill_weights)."""
    file = plan / "weights.safetensors"
    data = np.memmap(file, np.uint8, "r")
    size = int.from_bytes(data[:8].tobytes(), "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + size].tobytes()).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            sys.exit(f"{file}: {name} is {entry['dtype']}; only F32 is left out of a bundle")
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = np.frombuffer(data[begin:end].tobytes(), np.float32)
        tensors[name] = [float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))]
    (plan / "weights.recipe.json").write_text(json.dumps({"header": data[8:8 + size].tobytes().decode(), "tensors": tensors}))
    file.unlink()


def pack_plans(build, out, chosen):
    plans = []
    (out / "phases").mkdir()
    with tempfile.TemporaryDirectory() as folder:
        for use, table in (("equal", EQUAL), ("fast", FAST)):
            for name, network in table.items():
                if chosen and name not in chosen:
                    continue
                model = network.get("model")
                if not model:
                    model = pathlib.Path(folder) / f"{name}.onnx"
                    kind, *sizes = network["write"]
                    run(sys.executable, ROOT / "test/models/networks.py", kind, "-o", model, *sizes)
                for title, (mesh, mode) in MESHES.items():
                    parts = PARTS.get(name, ()) if title == "stage2" else ()
                    if title == "stage2" and not parts:
                        continue
                    for precision in ("f32", "bf16"):
                        if precision != ("f32" if use == "equal" else "bf16") or (use == "fast" and title != "1"):
                            continue
                        plan = "-".join([name, title, precision])
                        run(build / "bin/tessera-compile", model, "--train", *network["options"], *parts, "--mesh", mesh, "--mode", mode,
                            "--precision", precision, "--topology", "8xh200", "-o", out / "plans" / plan, "--dump-phases", f"{folder}/phases")
                        if title == "1":
                            shutil.copy(pathlib.Path(folder) / "phases/2-training.mlir", out / "phases" / f"{plan}.mlir")
                        leave_weights_out(out / "plans" / plan)
                        for unread in ("report.json", "strategies.json"):  # megabytes that a run does not read
                            (out / "plans" / plan / unread).unlink(missing_ok=True)
                        plans.append({"plan": plan, "network": name, "ranks": RANKS[title], "use": use,
                                      "precision": precision, "inputs": network["inputs"], "target": network["target"], "peer": PEERS.get(name)})
                        print(f"  {plan}", flush=True)
    (out / "plans.json").write_text(json.dumps(plans, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "gpu-bundle")
    parser.add_argument("--networks", default="", help="only these: " + ", ".join([*EQUAL, *FAST]))
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)
    pack_programs(args.build, args.output)
    pack_plans(args.build, args.output, [n for n in args.networks.split(",") if n])
    # In a copy, since weights, data and caches would be packed, too.
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(args.output, pathlib.Path(folder) / "bundle")
        references = on_device.Machine(copy).references()
    (args.output / "references.json").write_text(json.dumps(references, indent=1))
    archive = args.output.parent / (args.output.name + ".tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(args.output, arcname="gpu-bundle")
    if archive.stat().st_size > 60 << 20:
        sys.exit(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB, more than 60")
    print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB; with the repository on the other machine: "
          f"test/gpu/run.sh {archive.name}")


if __name__ == "__main__":
    main()
