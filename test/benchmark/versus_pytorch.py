#!/usr/bin/env python3
"""Training and inference against PyTorch, ONNX Runtime and OpenVINO on the same machine, in one run.

usage: test/benchmark/versus_pytorch.py --bin build/bin [--python PYTHON] [--networks resnet50_32,gpt2,...]
         [--precisions f32,bf16] [--ranks 1,2] [--rounds 3] [--steps 4]
         [--inference resnet50_224,bert,...] [--batches 1,8,32] [--json FILE]

PYTHON has torch, torchvision, numpy and onnx, for the inference also onnxruntime and openvino: any versions, for example
  python3 -m venv peers && peers/bin/pip install torch torchvision numpy onnx onnxruntime openvino
Default is Debian's (tools/install-deps.sh --bench), whose slow reference BLAS is replaced by OpenBLAS.

Training (--networks, of torch_networks.py; "" leaves it out), in float32 and bfloat16 (autocast):
  1 rank, 2 threads     against PyTorch with 2 threads
  2 ranks, 1 thread     against DistributedDataParallel on gloo, 2 processes of 1 thread, half of the batch each
Inference (--inference; "" leaves it out) in float32 on 2 threads, for each batch of --batches.

PyTorch runs in its default setting, compiled and, with convolutions, both with channels last. Those that are within 5 %
of the best in the first round stay; the best median counts. Contestants alternate. A round gives the median step after
two to warm up; printed are the median over rounds with the spread, and the peak memory (resident set) of all processes.
A contestant that fails is named, with its reason, and left out.

The floating-point work is counted from the layers and products (two operations per multiply-add, backward twice the
forward). The share of peak is against PyTorch's product of two 4096 x 4096 matrices with 2 threads, measured in every
round among the contestants: the yardstick moves with the machine.
"""
import argparse
import glob
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

import numpy as np

WARMUP, CLOSE, YARDSTICK, CORES = 2, 1.05, 4096, 2
SETTINGS = {"default": {}, "compiled": {"compiled": True}, "channels-last": {"channels_last": True},
            "compiled, channels-last": {"compiled": True, "channels_last": True}}
INFERENCE = "resnet50_224,bert,gpt2,mobilenet_v3,efficientnet_b0"


class Failed(Exception):
    pass


def peer_environment(python, threads):
    """What a Python with PyTorch needs in its environment."""
    env = {"OMP_NUM_THREADS": str(threads)}
    if str(python) == "/usr/bin/python3" and (openblas := glob.glob("/usr/lib/*/openblas-pthread")):
        env["LD_LIBRARY_PATH"] = openblas[0] + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    return env


class Machine:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder

    def peer(self, task, ranks=1, **options):
        """A task of torch_contestant.py in `ranks` processes; rank 0's result, with the memory of all."""
        command = [self.args.python, pathlib.Path(__file__).with_name("torch_contestant.py"), task, json.dumps(options)]
        more = [{}]
        if ranks > 1:
            command[-1] = json.dumps(options | {"ranks": ranks})
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = str(free.getsockname()[1])
            more = [{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks), "RANK": str(rank)}
                    for rank in range(ranks)]
        running = [subprocess.Popen([str(c) for c in command], env=os.environ | peer_environment(self.args.python, options.get("threads", 2)) | m,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for m in more]
        try:
            outputs = [process.communicate(timeout=self.args.limit) for process in running]
        except subprocess.TimeoutExpired as slow:
            raise Failed(f"took more than {self.args.limit} s") from slow
        finally:
            for process in running:
                process.kill()
        for process, (_, errors) in zip(running, outputs):
            if process.returncode:
                raise Failed((errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
        results = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
        return results[0] | {"peak_mib": sum(result["peak_mib"] for result in results)}

    def ours(self, program, *options):
        """Runs one of our programs. Returns its peak memory in MiB."""
        command = ["/usr/bin/time", "-f", "%M", self.args.bin / program, *options]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{program}: {done.stdout}{done.stderr}")
        return int(done.stderr.split()[-1]) / 1024

    def train(self, plan, threads):
        log = self.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        peak = self.ours("tessera-run", plan, "--data", f"npy:{self.folder / 'x.npy'},{self.folder / 'y.npy'}", "--steps",
                         self.args.steps + WARMUP, "--log", log, "--threads", threads)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return {"times": [line["seconds"] for line in lines], "losses": [line["loss"] for line in lines], "peak_mib": peak}

    def infer(self, plan, data):
        log, out = self.folder / "log.jsonl", self.folder / "ours"
        log.unlink(missing_ok=True)
        peak = self.ours("tessera-run", plan, "--infer", "--output", out, "--data", f"npy:{data}", "--log", log, "--threads", 2)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return {"times": [line["seconds"] for line in lines if "seconds" in line], "peak_mib": peak}


def contest(contestants, rounds):
    """Alternates. Returns the results of every round by name; of PyTorch's settings only the good ones go on."""
    results = {}
    for number in range(rounds):
        for name, (family, run) in contestants.items():
            if number and name not in results:
                continue
            try:
                results.setdefault(name, []).append(run())
            except Failed as reason:
                results.pop(name, None)
                print(f"  {name} failed: {reason}", flush=True)
        best = {}
        for name, rows in results.items():
            family = contestants[name][0]
            best[family] = min(best.get(family, np.inf), median_of(rows[0]))
        results = {n: rows for n, rows in results.items() if median_of(rows[0]) <= CLOSE * best[contestants[n][0]]}
    return results


def median_of(result):
    return statistics.median(result["times"][WARMUP:])


def rank_table(contestants, results, show):
    """Prints a row for each, and returns {family: best median}."""
    best = {}
    for name, rows in results.items():
        medians = [median_of(row) for row in rows]
        value = statistics.median(medians)
        family = contestants[name][0]
        best[family] = min(best.get(family, np.inf), value)
        print(f"  {name:46} {value * 1e3:10.2f} {min(medians) * 1e3:9.2f} {max(medians) * 1e3:9.2f} "
              f"{rows[-1]['peak_mib']:9.0f}  {show(family, rows, value)}", flush=True)
    return best


def training(machine, network, precision, told):
    args, folder = machine.args, machine.folder
    facts = machine.peer("facts", network=network, folder=str(folder), train=True)
    optimizer = "adamw:lr=0.0001,weight_decay=0.01" if facts["adam"] else "sgd:lr=0.01,momentum=0.9,weight_decay=0.0005"
    contestants = {}
    for ranks in args.ranks:
        threads = CORES // ranks
        plan, family = folder / f"plan{ranks}", f"{ranks} rank{'s' * (ranks > 1)}, {threads} thread{'s' * (threads > 1)}"
        machine.ours("tessera-compile", folder / "net.onnx", "--mesh", f"data={ranks}", "--mode", "data", "--train", "--loss",
                     "cross_entropy", "--optimizer", optimizer, "--precision", precision, "-o", plan)
        contestants[f"Tessera, {family}"] = f"Tessera {ranks}", lambda p=plan, t=threads: machine.train(p, t)
        for setting, options in SETTINGS.items():
            if "channels_last" in options and not facts["images"]:
                continue
            contestants[f"PyTorch, {family}, {setting}"] = f"PyTorch {ranks}", lambda o=options, r=ranks, t=threads: machine.peer(
                "train", ranks=r, threads=t, network=network, steps=args.steps + WARMUP, precision=precision, **o)
    contestants["product of matrices, 2 threads"] = "yardstick", lambda: machine.peer("product", precision=precision)
    results = contest(contestants, args.rounds)
    gflop, yardstick = 3 * facts["flops"] / 1e9, 2 * YARDSTICK**3 / 1e9
    measured = results.get("product of matrices, 2 threads")
    peak = yardstick / statistics.median(median_of(row) for row in measured) if measured else float("nan")
    print(f"{network}, training in {precision}: {gflop:.0f} GFLOP a step; PyTorch {facts['torch']}; {args.rounds} rounds of "
          f"{args.steps} steps\n  {'':46} {'ms':>10} {'min':>9} {'max':>9} {'peak MiB':>9}  of peak, first losses")

    def show(family, rows, seconds):
        rate = (yardstick if family == "yardstick" else gflop) / seconds
        return f"{rate / peak:4.0%} of {peak:.0f} GFLOP/s  " + " ".join(f"{loss:.5f}" for loss in rows[-1].get("losses", [])[:3])

    best = rank_table(contestants, results, show)
    for ranks in args.ranks:
        if f"PyTorch {ranks}" in best:
            ratio = best[f"PyTorch {ranks}"] / best[f"Tessera {ranks}"]
            told[f"train {network} {precision} {ranks}"] = {"times": ratio, "seconds": best[f"Tessera {ranks}"]}
            print(f"  as fast as PyTorch's best setting on {ranks} rank{'s' * (ranks > 1)}: {ratio:.2f} times", flush=True)


def inference(machine, network, batch, told):
    args, folder = machine.args, machine.folder
    facts = machine.peer("facts", network=network, folder=str(folder), train=False, batch=batch)
    steps = args.inferences + WARMUP
    x = np.load(folder / "x.npy")
    np.save(folder / "many.npy", np.concatenate([x] * steps))
    machine.ours("tessera-compile", folder / "net.onnx", "--mesh", "1", "--mode", "data", "-o", folder / "plan")
    contestants = {"Tessera": ("Tessera", lambda: machine.infer(folder / "plan", folder / "many.npy"))}
    engines = ["onnxruntime", "openvino", "torch", "torch, compiled"] + ["torch, compiled, channels-last"] * facts["images"]
    for engine in engines:
        family = engine.split(",")[0]
        contestants[engine] = family, lambda e=engine: machine.peer("infer", engine=e, network=network, folder=str(folder),
                                                                    steps=steps)
    results = contest(contestants, args.rounds)
    ours = np.load(sorted((folder / "ours").glob("output*.npy"))[0])[:len(x)]
    print(f"{network}, inference, batch {batch}, 2 threads; {args.rounds} rounds of {args.inferences} batches\n"
          f"  {'':46} {'ms':>10} {'min':>9} {'max':>9} {'peak MiB':>9}  p90 ms, p99 ms, samples/s")

    def show(family, rows, seconds):
        times = np.concatenate([row["times"][WARMUP:] for row in rows])
        p90, p99 = np.quantile(times, [0.9, 0.99], method="inverted_cdf")
        return f"{p90 * 1e3:8.2f} {p99 * 1e3:8.2f} {batch * len(times) / times.sum():9.1f}"

    best = rank_table(contestants, results, show)
    theirs = np.load(folder / "out.npy")  # of the engine that ran last
    print(f"  largest difference of an output, relative to the largest output: {abs(ours - theirs).max() / abs(theirs).max():.1e}")
    peers = {family: seconds for family, seconds in best.items() if family != "Tessera"}
    if peers:
        ratio = min(peers.values()) / best["Tessera"]
        told[f"infer {network} {batch}"] = {"times": ratio, "seconds": best["Tessera"]}
        print(f"  as fast as the best of them ({min(peers, key=peers.get)}): {ratio:.2f} times", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python that has the peers")
    parser.add_argument("--networks", default="resnet50_32,gpt2,bert,vit,resnet50_224,mlp,unet")
    parser.add_argument("--precisions", default="f32,bf16")
    parser.add_argument("--ranks", default=[1, 2], type=lambda text: [int(part) for part in text.split(",")],
                        help="for training: 1 (with 2 threads), 2 (with 1 each) or both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="steps a round, after two to warm up")
    parser.add_argument("--inference", default=INFERENCE, metavar="NETWORKS")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--inferences", type=int, default=20, help="batches a round, after two to warm up")
    parser.add_argument("--limit", type=float, default=900, help="seconds that a contestant's round may take")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write times as fast and seconds")
    args = parser.parse_args()
    told, listed = {}, lambda text: [part for part in text.split(",") if part]
    jobs = [(training, network, precision) for network in listed(args.networks) for precision in listed(args.precisions)]
    jobs += [(inference, network, int(batch)) for network in listed(args.inference) for batch in listed(args.batches)]
    for job, *what in jobs:
        with tempfile.TemporaryDirectory() as folder:
            try:
                job(Machine(args, pathlib.Path(folder)), *what, told)
            except Failed as reason:  # without facts there is no contest
                print(f"{what[0]}: {reason}", flush=True)
        if args.json:
            args.json.write_text(json.dumps(told, indent=1) + "\n")
    for kind in "train", "infer":
        ratios = {name: row["times"] for name, row in told.items() if name.startswith(kind)}
        if ratios:
            print(f"as fast as the best peer, times: {', '.join(f'{k[6:]} {v:.2f}' for k, v in ratios.items())}; geometric mean "
                  f"{statistics.geometric_mean(ratios.values()):.2f}")
    sys.exit(not told)


if __name__ == "__main__":
    main()
