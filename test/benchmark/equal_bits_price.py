#!/usr/bin/env python3
"""What the same bits on any number of ranks cost: training steps with tessera-compile --reproducible beside those without.

usage: /usr/bin/python3 test/benchmark/equal_bits_price.py --bin build/bin [--networks mlp,vit,...] [--leaves 4,8] [--mesh data=1]
                                                           [--threads 2] [--rounds 5] [--steps 6] [--small]

Networks of the kinds and sizes of versus_pytorch.py, written without PyTorch. The plans of a network, one without leaves and one
for each number of them, alternate; a round gives the median step of each without the first. A line has medians over rounds, their
smallest and largest, and by how much a step with leaves is longer: the median over rounds of the ratio to the plan without leaves
in the same round, with the smallest and largest. --small: small networks, to see that it runs. Run it on a quiet machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import networks  # noqa: E402
import small_networks  # noqa: E402

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
SGD, ADAM = ["--optimizer", "sgd:lr=0.01,momentum=0.9"], ["--optimizer", "adamw:lr=0.0001"]


def mlp(path, batch, width):
    net = networks.Network()
    x = net.input("image", [batch, width])
    for i in range(4):
        x = net.node("Relu", net.dense(x, f"l{i}", width, width))
    net.write(path, x, [batch, width])


def stored(name, batch):
    return lambda path: path.symlink_to(MODELS / f"{name}.onnx"), SGD + ["--dim", f"batch={batch}"]


def written(make, options, **sizes):
    return lambda path: make(path, **sizes), options


def contestants(small):
    """By name: what writes the network to a path, and the compiler's options."""
    text = dict(layers=2, hidden=64, heads=4, words=96, batch=8, length=16) if small else \
        dict(layers=12, hidden=768, heads=12, words=30522, batch=4, length=128)
    picture = dict(size=32, batch=8) if small else dict(size=128, batch=4, channels=64)
    patches = dict(batch=8) if small else dict(batch=8, size=224, patch=16, hidden=384, heads=6, layers=12, classes=1000)
    return {
        "resnet50_32": stored("resnet50_cifar_train", 8 if small else 32),
        "gpt2": written(networks.gpt, ADAM + ["--inputs", "ids"], **text),
        "bert": written(networks.bert, ADAM + ["--inputs", "ids,segments"], **text),
        "vit": written(small_networks.vit, ADAM + ["--inputs", "image"], **patches),
        "resnet50_224": stored("resnet50_224_train", 1 if small else 8),
        "mlp": written(mlp, SGD + ["--inputs", "image"], batch=32 if small else 256, width=64 if small else 4096),
        "unet": written(small_networks.unet, SGD + ["--inputs", "image"], **picture),
    }


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def spread(values, text):
    return f"{text(statistics.median(values))} ({text(min(values))} to {text(max(values))})"


def price(args, name, make, options):
    """Prints a network's line."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make(folder / "net.onnx")
        plans = {leaves: folder / f"plan{leaves}" for leaves in (0, *args.leaves)}
        for leaves, plan in plans.items():
            run(args.bin / "tessera-compile", folder / "net.onnx", "--mesh", args.mesh, "--mode", "data", "--train", *options,
                *([f"--reproducible={leaves}"] if leaves else []), "-o", plan)
        seconds = {leaves: [] for leaves in plans}
        for _ in range(args.rounds):
            for leaves, plan in plans.items():
                log = folder / "log.jsonl"
                log.unlink(missing_ok=True)
                run(args.bin / "tessera-run", plan, "--data", "synthetic", "--steps", args.steps, "--log", log, "--threads",
                    args.threads)
                steps = [json.loads(line)["seconds"] for line in log.read_text().splitlines()]
                seconds[leaves].append(statistics.median(steps[1:]))
    cells = [spread(seconds[0], lambda s: f"{s:.3f} s")]
    for leaves in args.leaves:
        longer = [mine / plain - 1 for mine, plain in zip(seconds[leaves], seconds[0])]
        cells += [spread(seconds[leaves], lambda s: f"{s:.3f} s"), spread(longer, lambda share: f"{share:+.1%}")]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(contestants(True)))
    parser.add_argument("--leaves", type=lambda text: [int(n) for n in text.split(",")], default=[4, 8])
    parser.add_argument("--mesh", default="data=1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="steps a round; the first is a warm-up")
    parser.add_argument("--small", action="store_true", help="small networks")
    args = parser.parse_args()
    if args.steps < 2:
        parser.error("--steps: the first step is a warm-up; give 2 or more")
    every = contestants(args.small)
    if unknown := [name for name in args.networks if name not in every]:
        parser.error(f"--networks: there is no {unknown[0]}; there are {', '.join(every)}")
    print(f"mesh {args.mesh}, {args.threads} threads a rank, {args.rounds} rounds of {args.steps - 1} steps: median (smallest to "
          "largest)\n")
    columns = ["training step", "without", *(column for n in args.leaves for column in (f"{n} leaves", "longer"))]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name in args.networks:
        price(args, name, *every[name])


if __name__ == "__main__":
    main()
