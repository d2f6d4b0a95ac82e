#!/usr/bin/env python3
"""Training steps against PyTorch on the same machine, in one run.

usage: /usr/bin/python3 test/benchmark/versus_pytorch.py --bin build/bin [--networks resnet50_32,gpt2,...] [--rounds 5]
                                                         [--steps 6] [--only PART]

Networks (torch_networks.py): resnet50_32 (32x32 images, batch 32), gpt2 (12 layers, width 768, 128 tokens, batch 4), bert
(the same size), vit (12 layers, width 384, 224x224, batch 8), resnet50_224 (batch 8), mlp (4 x 4096, batch 256), unet (4
levels, 128x128, batch 4). Contestants alternate; each round gives the median step without the first; printed are the
median over rounds with the spread, and the peak memory (resident set) of all processes.
  1 rank, 2 threads     against PyTorch with 2 threads; for convolutions in the default and channels-last memory format
  2 ranks, 1 thread     against DistributedDataParallel on gloo, 2 processes of 1 thread, half of the batch each
Needs Debian's python3-torch and libopenblas0-pthread (tools/install-deps.sh --bench); the slow reference BLAS that
Debian's PyTorch links is replaced by OpenBLAS.

The floating-point work is counted from the layers and products (two operations per multiply-add, backward twice the
forward). The share of peak is against what OpenBLAS reaches with 2 threads in a product of two 4096 x 4096 matrices,
measured in every round among the contestants: the yardstick moves with the machine.
"""
import argparse
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

PEAK = 4096  # the yardstick's matrices
YARDSTICK = f"product of {PEAK} x {PEAK} matrices, 2 threads"


def torch_steps(network, steps, part=slice(None), channels_last=False, wrap=lambda n: n):
    import torch
    from torch_networks import NETWORKS

    make, inputs, target, adam, _ = NETWORKS[network]
    net, x, y = make().train(), torch.from_numpy(inputs[part]), torch.from_numpy(target[part])
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    model = wrap(net)
    optimizer = (torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01) if adam else
                 torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4))
    times, losses = [], []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        out = model(x)
        if out.dim() == 3:  # classes last
            out = out.transpose(1, 2)
        loss = torch.nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
    return times, losses


def child(what, network, steps):
    """One contestant's round, in a process of its own; the result is its last line."""
    import torch

    if what == "peak":  # one "step" is a product
        torch.set_num_threads(2)
        a, b = torch.randn(PEAK, PEAK), torch.randn(PEAK, PEAK)
        times, losses = [], []
        for _ in range(steps):
            start = time.perf_counter()
            torch.mm(a, b)
            times.append(time.perf_counter() - start)
    elif what == "ddp":
        import torch.distributed as dist
        from torch_networks import NETWORKS

        torch.set_num_threads(1)
        rank, batch = int(os.environ["RANK"]), len(NETWORKS[network][1])
        dist.init_process_group("gloo")
        times, losses = torch_steps(network, steps, slice(rank * batch // 2, (rank + 1) * batch // 2),
                                    NETWORKS[network][4], torch.nn.parallel.DistributedDataParallel)
        dist.destroy_process_group()
    else:
        torch.set_num_threads(2)
        times, losses = torch_steps(network, steps, channels_last=what == "channels-last")
    # Not getrusage: its maximum counts the parent's memory between fork and exec.
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
    print(json.dumps({"times": times, "losses": losses, "peak_mib": peak}))


def forward_flops(network):
    """Two operations for every multiply-add of convolutions, dense layers and products of activations."""
    import torch
    from torch_networks import NETWORKS

    total = [0]

    def hook(module, inputs, output):
        if isinstance(module, torch.nn.Conv2d):
            total[0] += 2 * output.numel() * module.weight[0].numel()
        elif isinstance(module, torch.nn.ConvTranspose2d):
            total[0] += 2 * inputs[0].numel() * module.weight[0].numel()
        elif isinstance(module, torch.nn.Linear):
            total[0] += 2 * output.numel() * module.in_features

    product = torch.Tensor.__matmul__

    def counted(a, b):
        out = product(a, b)
        total[0] += 2 * out.numel() * a.shape[-1]
        return out

    make, inputs, *_ = NETWORKS[network]
    net = make().eval()
    for module in net.modules():
        module.register_forward_hook(hook)
    torch.Tensor.__matmul__ = counted
    with torch.no_grad():
        net(torch.from_numpy(inputs))
    torch.Tensor.__matmul__ = product
    return total[0]


def environment(threads):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    openblas = glob.glob("/usr/lib/*/openblas-pthread")
    if not openblas:
        sys.exit("OpenBLAS is not installed: tools/install-deps.sh --bench")
    env["LD_LIBRARY_PATH"] = openblas[0] + ":" + env.get("LD_LIBRARY_PATH", "")
    return env


def start_child(what, network, steps, env):
    command = [sys.executable, __file__, "--child", what, "--networks", network, "--steps", str(steps)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(processes):
    outputs = [process.communicate() for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"PyTorch failed: {outputs}")
    result = json.loads(outputs[0][0].splitlines()[-1])
    result["peak_mib"] *= len(processes)  # of equal size
    return result


def run_torch(what, network, steps):
    if what != "ddp":
        return finish([start_child(what, network, steps, environment(2))])
    env = dict(environment(1), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29500 + os.getpid() % 1000), WORLD_SIZE="2")
    return finish([start_child(what, network, steps, dict(env, RANK=str(rank))) for rank in range(2)])


def measured(*command):
    """Runs a program. Returns what it printed, and its peak memory in MiB."""
    done = subprocess.run(["/usr/bin/time", "-f", "%M", *[str(c) for c in command]], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return int(done.stderr.split()[-1]) / 1024


def run_tessera(binary, plan, steps, folder, threads):
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    peak = measured(binary / "tessera-run", plan, "--data", f"npy:{folder / 'x.npy'},{folder / 'y.npy'}", "--steps", steps,
                    "--log", log, "--threads", threads)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return {"times": [line["seconds"] for line in lines], "losses": [line["loss"] for line in lines], "peak_mib": peak}


def export(network, folder):
    import torch
    from torch_networks import NETWORKS

    make, inputs, target, _, images = NETWORKS[network]
    np.save(folder / "x.npy", inputs)
    np.save(folder / "y.npy", target)
    warnings.filterwarnings("ignore")  # one for every BatchNorm's counter
    torch.onnx.export(make(), torch.from_numpy(inputs), str(folder / "net.onnx"), opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      input_names=["x"], output_names=["logits"])


def contest(args, network):
    from torch_networks import NETWORKS

    _, _, _, adam, convolutions = NETWORKS[network]
    optimizer = "adamw:lr=0.0001,weight_decay=0.01" if adam else "sgd:lr=0.01,momentum=0.9,weight_decay=0.0005"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        export(network, folder)
        compiled = []
        for ranks in (1, 2):
            start = time.perf_counter()
            peak = measured(args.bin / "tessera-compile", folder / "net.onnx", "--mesh", f"data={ranks}", "--mode", "data",
                            "--train", "--loss", "cross_entropy", "--optimizer", optimizer, "-o", folder / f"plan{ranks}")
            compiled.append(f"{time.perf_counter() - start:.2f} s and {peak:.0f} MiB for {ranks} rank(s)")

        contestants = {"Tessera, 1 rank, 2 threads": lambda: run_tessera(args.bin, folder / "plan1", args.steps, folder, 2)}
        for layout in ("default", "channels-last") if convolutions else ("default",):
            contestants[f"PyTorch, 2 threads, {layout}"] = lambda w=layout: run_torch(w, network, args.steps)
        contestants["Tessera, 2 ranks, 1 thread each"] = lambda: run_tessera(args.bin, folder / "plan2", args.steps, folder, 1)
        contestants["PyTorch DDP gloo, 2 processes, 1 thread each"] = lambda: run_torch("ddp", network, args.steps)
        contestants = {k: v for k, v in contestants.items() if args.only in k}
        contestants[YARDSTICK] = lambda: run_torch("peak", network, args.steps)
        medians, peaks, losses = {k: [] for k in contestants}, {}, {}
        for _ in range(args.rounds):
            for key, run in contestants.items():
                result = run()
                medians[key].append(statistics.median(result["times"][1:]))
                peaks[key] = result["peak_mib"]
                losses[key] = result["losses"]

    gflop, yardstick = 3 * forward_flops(network) / 1e9, 2 * PEAK**3 / 1e9
    peak = yardstick / statistics.median(medians[YARDSTICK])
    print(f"{network}: {gflop:.0f} GFLOP a step; {args.rounds} rounds of {args.steps - 1} steps")
    print(f"{'':46} {'median s':>9} {'min':>7} {'max':>7} {'GFLOP/s':>8} {'of peak':>8} {'peak MiB':>9}  losses of the first steps")
    for key, values in medians.items():
        m = statistics.median(values)
        rate = (yardstick if key == YARDSTICK else gflop) / m
        print(f"{key:46} {m:9.3f} {min(values):7.3f} {max(values):7.3f} {rate:8.1f} {rate / peak:8.0%} {peaks[key]:9.0f}  "
              + " ".join(f"{loss:.5f}" for loss in losses[key][:3]))
    print("tessera-compile: " + ", ".join(compiled), flush=True)
    ours = [statistics.median(v) for k, v in medians.items() if k.startswith("Tessera, 1")]
    theirs = [statistics.median(v) for k, v in medians.items() if k.startswith("PyTorch, ")]
    return min(theirs) / ours[0] if ours and theirs else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--networks", default="resnet50_32,gpt2,bert,vit,resnet50_224,mlp,unet")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="steps a round; the first is a warm-up")
    parser.add_argument("--only", default="", help="contestants whose name contains this")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    if args.child:
        return child(args.child, args.networks, args.steps)
    ratios = {network: contest(args, network) for network in args.networks.split(",")}
    if all(ratios.values()):
        print("as fast as PyTorch's best setting, times: " + ", ".join(f"{k} {v:.2f}" for k, v in ratios.items())
              + f"; geometric mean {statistics.geometric_mean(ratios.values()):.2f}")


if __name__ == "__main__":
    main()
