#!/usr/bin/env python3
"""Training step of ResNet-50 (32x32, batch 32) against PyTorch on the same machine, in one run.

usage: /usr/bin/python3 test/benchmark/resnet50_vs_pytorch.py --bin build/bin [--rounds 5] [--steps 6] [--quick]

Needs Debian's python3-torch and libopenblas0-pthread (tools/install-deps.sh --bench); the slow reference BLAS that
Debian's PyTorch links is replaced by OpenBLAS. Contestants alternate; each round gives the median step; printed are the
median over rounds with the spread, and peak memory (resident set) of the whole process.
  1 rank, 2 threads     against PyTorch with 2 threads, default and channels-last memory format
  2 ranks, 1 thread     against DistributedDataParallel on gloo, 2 processes of 1 thread, 16 images each
The floating-point work is counted from the layers (two operations per multiply-add, backward twice the forward). The
share of peak is against what OpenBLAS reaches with 2 threads in a product of two 4096 x 4096 matrices, measured in every
round among the contestants: the yardstick moves with the machine.
"""
import argparse
import glob
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

BATCH = 32
PEAK = 4096  # the yardstick's matrices
YARDSTICK = f"product of {PEAK} x {PEAK} matrices, 2 threads"


def network():
    import torch
    import torchvision

    torch.manual_seed(0)
    net = torchvision.models.resnet50(num_classes=10)
    net.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)  # the usual stem for 32x32 images
    net.maxpool = torch.nn.Identity()
    return net


def torch_steps(net, x, y, steps, wrap=lambda n: n):
    import torch

    model = wrap(net.train())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    times, losses = [], []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
    return times, losses


def child_torch(mode, steps, folder):
    import numpy as np
    import torch

    torch.set_num_threads(2)
    x = torch.from_numpy(np.load(folder / "x.npy"))
    y = torch.from_numpy(np.load(folder / "y.npy"))
    net = network()
    if mode == "channels_last":
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    times, losses = torch_steps(net, x, y, steps)
    report(times, losses)


def child_peak(steps):
    """One "step" is a product of PEAK x PEAK matrices."""
    import torch

    torch.set_num_threads(2)
    a, b = torch.randn(PEAK, PEAK), torch.randn(PEAK, PEAK)
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - start)
    report(times, [])


def child_ddp(steps, folder):
    import numpy as np
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    half = slice(rank * BATCH // 2, (rank + 1) * BATCH // 2)
    x = torch.from_numpy(np.load(folder / "x.npy")[half]).to(memory_format=torch.channels_last)
    y = torch.from_numpy(np.load(folder / "y.npy")[half])
    net = network().to(memory_format=torch.channels_last)
    times, losses = torch_steps(net, x, y, steps, torch.nn.parallel.DistributedDataParallel)
    if rank == 0:
        report(times, losses)
    dist.destroy_process_group()


def report(times, losses):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"times": times, "losses": losses, "peak_mib": peak}))


def forward_flops():
    import torch

    total = [0]

    def hook(module, inputs, output):
        if isinstance(module, torch.nn.Conv2d):
            taps = module.weight[0].numel()
            total[0] += 2 * output.numel() * taps
        elif isinstance(module, torch.nn.Linear):
            total[0] += 2 * output.numel() * module.in_features

    net = network().eval()
    for module in net.modules():
        module.register_forward_hook(hook)
    with torch.no_grad():
        net(torch.zeros(1, 3, 32, 32))
    return total[0]


def environment(threads):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    openblas = glob.glob("/usr/lib/*/openblas-pthread")
    if not openblas:
        sys.exit("OpenBLAS is not installed: tools/install-deps.sh --bench")
    env["LD_LIBRARY_PATH"] = openblas[0] + ":" + env.get("LD_LIBRARY_PATH", "")
    return env


def this_script(*arguments):
    return [sys.executable, __file__, *[str(a) for a in arguments]]


def run_json(command, env):
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run_ddp(steps, folder):
    env = environment(1)
    env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29500 + os.getpid() % 1000), WORLD_SIZE="2")
    ranks = [subprocess.Popen(this_script("--child", "ddp", "--steps", steps, "--folder", folder),
                              env=dict(env, RANK=str(r)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for r in range(2)]
    outputs = [rank.communicate() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"DistributedDataParallel failed: {outputs}")
    result = json.loads(outputs[0][0].splitlines()[-1])
    result["peak_mib"] *= 2  # two processes of equal size
    return result


def run_tessera(binary, plan, steps, folder, threads):
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    command = ["/usr/bin/time", "-f", "%M", binary / "tessera-run", plan, "--data",
               f"npy:{folder / 'x.npy'},{folder / 'y.npy'}", "--steps", steps, "--log", log, "--threads", threads]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return {"times": [line["seconds"] for line in lines], "losses": [line["loss"] for line in lines],
            "peak_mib": int(done.stderr.split()[-1]) / 1024}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="steps a round; the first is a warm-up")
    parser.add_argument("--only", default="", help="contestants whose name contains this")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child == "ddp":
        return child_ddp(args.steps, args.folder)
    if args.child == "peak":
        return child_peak(args.steps)
    if args.child:
        return child_torch(args.child, args.steps, args.folder)

    import numpy as np
    import torch

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rng = np.random.default_rng(0)
        np.save(folder / "x.npy", rng.standard_normal((BATCH, 3, 32, 32)).astype(np.float32))
        np.save(folder / "y.npy", rng.integers(0, 10, BATCH).astype(np.int64))
        model = folder / "resnet50.onnx"
        warnings.filterwarnings("ignore", category=UserWarning)  # one for every BatchNorm's counter
        torch.onnx.export(network(), torch.zeros(BATCH, 3, 32, 32), str(model), opset_version=17,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          input_names=["image"], output_names=["logits"])
        compile_times = {}
        for ranks in (1, 2):
            start = time.perf_counter()
            done = subprocess.run(["/usr/bin/time", "-f", "%M", str(args.bin / "tessera-compile"), str(model),
                                   "--mesh", f"data={ranks}", "--mode", "data", "--train", "--loss", "cross_entropy",
                                   "--optimizer", "sgd:lr=0.01,momentum=0.9,weight_decay=0.0005",
                                   "-o", str(folder / f"plan{ranks}")], capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stdout + done.stderr)
            compile_times[ranks] = (time.perf_counter() - start, int(done.stderr.split()[-1]) / 1024)

        contestants = {
            "tessera, 1 rank, 2 threads": lambda: run_tessera(args.bin, folder / "plan1", args.steps, folder, 2),
            "PyTorch, 2 threads, channels-last":
                lambda: run_json(this_script("--child", "channels_last", "--steps", args.steps, "--folder", folder),
                                 environment(2)),
            "PyTorch, 2 threads, default":
                lambda: run_json(this_script("--child", "default", "--steps", args.steps, "--folder", folder),
                                 environment(2)),
            "tessera, 2 ranks, 1 thread each": lambda: run_tessera(args.bin, folder / "plan2", args.steps, folder, 1),
            "PyTorch DDP gloo, 2 processes, 1 thread each": lambda: run_ddp(args.steps, folder),
        }
        contestants = {k: v for k, v in contestants.items() if args.only in k}
        contestants[YARDSTICK] = lambda: run_json(this_script("--child", "peak", "--steps", args.steps), environment(2))
        medians, peaks, losses = {k: [] for k in contestants}, {}, {}
        for _ in range(args.rounds):
            for key, contest in contestants.items():
                result = contest()
                medians[key].append(statistics.median(result["times"][1:]))
                peaks[key] = result["peak_mib"]
                losses[key] = result["losses"]

        gflop = 3 * forward_flops() * BATCH / 1e9
        print(f"ResNet-50, 32x32, batch {BATCH}: {gflop:.0f} GFLOP a step; {args.rounds} rounds of {args.steps - 1} steps")
        yardstick = 2 * PEAK**3 / 1e9
        peak = yardstick / statistics.median(medians[YARDSTICK])
        print(f"{'':46} {'median s':>9} {'min':>7} {'max':>7} {'GFLOP/s':>8} {'of peak':>8} {'peak MiB':>9}"
              "  losses of the first steps")
        for key, values in medians.items():
            m = statistics.median(values)
            rate = (yardstick if key == YARDSTICK else gflop) / m
            print(f"{key:46} {m:9.3f} {min(values):7.3f} {max(values):7.3f} {rate:8.1f} {rate / peak:8.0%} "
                  f"{peaks[key]:9.0f}  " + " ".join(f"{loss:.5f}" for loss in losses[key][:3]))
        for ranks, (seconds, mib) in compile_times.items():
            print(f"tessera-compile for {ranks} rank(s): {seconds:.2f} s, {mib:.0f} MiB")


if __name__ == "__main__":
    main()
