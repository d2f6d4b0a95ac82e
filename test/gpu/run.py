#!/usr/bin/env python3
"""Checks and times Tessera on a GPU from a bundle (bundle.py), and writes REPORT-FOLDER/report.md.

usage: test/gpu/run.sh BUNDLE.tar.gz [REPORT-FOLDER [SECTION...]]

SECTION, all of them in this order by default:
  machine      device, driver, libraries
  conformance  every kernel of the cuda backend against the float64 reference
  equal        training losses against the CPU's in float32: 1 rank, and 2 and 4 ranks that share the device
  sanitize     compute-sanitizer (memcheck, racecheck) over the conformance suite and a training run
  speed        training steps against PyTorch (eager, compiled; float32, TF32, bfloat16), medians, in one run
  overhead     step time beside the sum of its kernels' times, with CUDA graphs

A section that fails does not stop the others; the exit code is 1 if one did. `--emulated` runs conformance and equal on
the emulated device, which any machine with a C++ compiler has: the check of this script.
"""
import json
import os
import pathlib
import shutil
import site
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy as np

STEPS, LIMIT = 10, 1e-4  # of equality


class Failure(Exception):
    pass


class Machine:
    def __init__(self, bundle, emulated):
        self.bundle, self.emulated = bundle, emulated
        self.plans = json.loads((bundle / "plans.json").read_text())
        cuda = [str(p) for root in {*site.getsitepackages(), *(p for p in sys.path if p.endswith("-packages"))}
                for p in sorted(pathlib.Path(root).glob("nvidia/**/lib"))]
        cuda += [p for p in ("/usr/local/cuda/lib64", "/usr/local/cuda/lib") if os.path.isdir(p)]
        module = "libtessera_emulator.so" if emulated else "libtessera_cuda.so"
        self.env = dict(os.environ, TESSERA_CUDA_MODULE=str(bundle / "lib" / module), TESSERA_CACHE_DIR=str(bundle / "cache"),
                        LD_LIBRARY_PATH=":".join([str(bundle / "lib"), *cuda, os.environ.get("LD_LIBRARY_PATH", "")]))

    def run(self, *command, timeout=900, **env):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout, env={**self.env, **env})
        if done.returncode:
            text = (done.stdout + done.stderr)[-3000:]
            raise Failure(f"`{' '.join(map(str, command))}`: exit code {done.returncode}\n```\n{text}\n```")
        return done.stdout + done.stderr

    def fill_weights(self, plan):
        """The numbers that bundle.py left out: normally distributed, from a seed, the same for every plan of a network."""
        folder = self.bundle / "plans" / plan
        if (folder / "weights.safetensors").exists():
            return folder
        recipe = json.loads((folder / "weights.recipe.json").read_text())
        header = json.loads(recipe["header"])
        with open(folder / "weights.safetensors", "wb") as file:
            text = recipe["header"].encode()
            file.write(len(text).to_bytes(8, "little") + text)
            for name, entry in sorted(((n, e) for n, e in header.items() if n != "__metadata__"), key=lambda e: e[1]["data_offsets"]):
                mean, deviation = recipe["tensors"][name]
                rng = np.random.default_rng([len(name), *name.encode()])
                values = mean + deviation * rng.standard_normal(entry["shape"], np.float32)
                file.write(values.astype(np.float32).tobytes())
        return folder

    def data(self, plan):
        """NumPy files as --data wants them; made once for a network."""
        files = []
        for i, (kind, *what) in enumerate([*plan["inputs"], plan["target"]]):
            file = self.bundle / f"{plan['network']}-{i}.npy"
            rng = np.random.default_rng(i)
            if not file.exists():
                np.save(file, rng.standard_normal(what[0], np.float32) if kind == "normal" else rng.integers(0, what[0], what[1]))
            files.append(str(file))
        return "npy:" + ",".join(files)

    def train(self, plan, steps, *options):
        """Losses and seconds of every step."""
        log = self.bundle / "log.jsonl"
        log.unlink(missing_ok=True)
        self.run(self.bundle / "bin/tessera-run", self.fill_weights(plan["plan"]), "--data", self.data(plan), "--steps", steps, "--log",
                 log, *options)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [line["loss"] for line in lines], [line["seconds"] for line in lines]


def machine(m, say):
    say(m.run(m.bundle / "bin/tessera-run", "--version").strip())
    if m.emulated:
        return say("emulated device")
    say("```\n" + m.run("nvidia-smi").strip() + "\n```")
    for tool in ("nvcc", "compute-sanitizer", "ncu"):
        say(f"- {tool}: {shutil.which(tool) or 'not found'}")


def conformance(m, say):
    text = m.run(m.bundle / "bin/backend_conformance", timeout=1800, TESSERA_CONFORMANCE_BACKEND="cuda")
    say(text.strip().splitlines()[-1])


def equal(m, say):
    say("| plan | ranks | largest relative difference of a loss from the CPU's |\n|---|---|---|")
    expected, failed = {}, []
    for plan in (p for p in m.plans if p["use"] == "equal"):
        if plan["network"] not in expected:
            one = next(p for p in m.plans if p["network"] == plan["network"] and p["ranks"] == 1)
            expected[plan["network"]], _ = m.train(one, STEPS)
        share = ["--share-devices"] if plan["ranks"] > 1 else []
        found, _ = m.train(plan, STEPS, "--device", "cuda", *share)
        again, _ = m.train(plan, STEPS, "--device", "cuda", *share)
        worst = max(abs(a - b) / abs(a) for a, b in zip(expected[plan["network"]], found))
        bad = not worst <= LIMIT or len(found) != STEPS or again != found
        failed += [plan["plan"]] * bad
        say(f"| {plan['plan']} | {plan['ranks']} | {worst:.1e}{' **ABOVE THE LIMIT**' if not worst <= LIMIT else ''}"
            f"{'' if again == found else ' **NOT THE SAME TWICE**'} |")
    if failed:
        raise Failure("not equal: " + ", ".join(failed))


def sanitize(m, say):
    if not shutil.which("compute-sanitizer"):
        raise Failure("compute-sanitizer is not installed")
    small = next(p for p in m.plans if p["use"] == "equal")
    train = [m.bundle / "bin/tessera-run", m.fill_weights(small["plan"]), "--data", m.data(small), "--steps", 2, "--device", "cuda",
             "--no-graphs"]
    for tool in ("memcheck", "racecheck"):
        for what, command in (("conformance", [m.bundle / "bin/backend_conformance"]), (small["plan"], train)):
            text = m.run("compute-sanitizer", "--tool", tool, "--error-exitcode", 9, *command, timeout=2400,
                         TESSERA_CONFORMANCE_BACKEND="cuda")
            say(f"- {tool}, {what}: " + next(l for l in reversed(text.splitlines()) if "=========" in l).strip("= "))


def torch_step(network, batch, compiled, precision):
    """PyTorch's median step on the device, and the losses' type of arithmetic as `precision` says (f32, tf32, bf16)."""
    import torch
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "benchmark"))
    import torch_networks

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "f32"
    torch.backends.cudnn.benchmark = True
    images = network.startswith("resnet")
    if images:
        net = torch_networks.resnet50(False)
        x, y = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    else:
        net = torch_networks.Gpt2(length=1024)
        x, y = (torch.randint(0, 50257, (batch, 1024)) for _ in range(2))
    net, x, y = net.cuda().train(), x.cuda(), y.cuda()


    torch.set_default_device("cuda")
    optimizer = (torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, weight_decay=5e-4) if images else
                 torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.01, fused=True))
    model = torch.compile(net, mode="max-autotune") if compiled else net
    times = []
    for _ in range(25):
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            out = model(x)
            loss = torch.nn.functional.cross_entropy(out if images else out.flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    print(json.dumps(statistics.median(times[5:])))


def ceilings():
    """What the card reaches: products of 8192 x 8192 matrices, and a copy of 4 GiB."""
    import torch

    def seconds(work):
        work()
        times = []
        for _ in range(10):
            torch.cuda.synchronize()
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    result = {}
    for name, kind, tf32 in (("f32", torch.float32, False), ("tf32", torch.float32, True), ("bf16", torch.bfloat16, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(8192, 8192, device="cuda", dtype=kind) for _ in range(2))
        result[name] = 2 * 8192**3 / seconds(lambda: a @ b) / 1e12
    source, target = (torch.empty(1 << 30, device="cuda") for _ in range(2))
    result["copy"] = 2 * source.numel() * 4 / seconds(lambda: target.copy_(source)) / 1e12
    print(json.dumps(result))


def speed(m, say):
    me = [sys.executable, __file__, "--child"]
    top = json.loads(m.run(*me, "ceilings").splitlines()[-1])
    say("Ceilings, by PyTorch: " + ", ".join(f"{k} {v:.0f} TFLOP/s" for k, v in top.items() if k != "copy")
        + f", copy {top['copy']:.2f} TB/s")
    say("| network | arithmetic | Tessera ms | PyTorch eager ms | compiled ms | times as fast as the best |\n|---|---|---|---|---|---|")
    for plan in (p for p in m.plans if p["use"] == "fast"):
        for precision in ("f32", "tf32") if plan["precision"] == "f32" else ("bf16",):
            options = ["--tf32"] if precision == "tf32" else []
            ours, theirs = [], {False: [], True: []}
            for _ in range(3):
                ours.append(statistics.median(m.train(plan, 25, "--device", "cuda", *options)[1][5:]))
                for compiled in theirs:
                    text = m.run(*me, "step", plan["network"], plan["target"][2][0], int(compiled), precision)
                    theirs[compiled].append(json.loads(text.splitlines()[-1]))
            mine, eager, compiled = (1e3 * statistics.median(v) for v in (ours, *theirs.values()))
            say(f"| {plan['network']} | {precision} | {mine:.2f} ({1e3 * min(ours):.2f} to {1e3 * max(ours):.2f}) | {eager:.2f} | "
                f"{compiled:.2f} | {min(eager, compiled) / mine:.2f} |")


def overhead(m, say):
    if not shutil.which("ncu"):
        raise Failure("ncu is not installed")
    for plan in (p for p in m.plans if p["use"] == "fast"):
        command = [m.bundle / "bin/tessera-run", m.fill_weights(plan["plan"]), "--data", m.data(plan), "--device", "cuda"]
        step = statistics.median(m.train(plan, 25, "--device", "cuda")[1][5:])
        times = []
        for steps in (1, 2):  # the second step's kernels are the difference
            text = m.run("ncu", "--csv", "--metrics", "gpu__time_duration.sum", *command, "--steps", steps, "--no-graphs", timeout=2400)
            rows = [line.rsplit('","', 1) for line in text.splitlines() if "gpu__time_duration.sum" in line]
            times.append(sum(float(row[1].strip('"').replace(",", "")) for row in rows) / 1e9)
        kernels = times[1] - times[0]
        say(f"- {plan['plan']}: step {1e3 * step:.2f} ms, its kernels {1e3 * kernels:.2f} ms, overhead {step / kernels - 1:.1%}")


SECTIONS = {f.__name__: f for f in (machine, conformance, equal, sanitize, speed, overhead)}


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--child"]:
        if arguments[1] == "ceilings":
            return ceilings()
        return torch_step(arguments[2], int(arguments[3]), arguments[4] == "1", arguments[5])
    emulated = "--emulated" in arguments
    arguments = [a for a in arguments if a != "--emulated"]
    unknown = [a for a in arguments[2:] if a not in SECTIONS]
    if not arguments or arguments[0].startswith("-") or unknown:
        sys.exit(__doc__ if not unknown else f"run.py: there is no section {unknown[0]}; known: {', '.join(SECTIONS)}")
    report = pathlib.Path(arguments[1] if len(arguments) > 1 else "gpu-report")
    report.mkdir(parents=True, exist_ok=True)
    lines, failed = [], []

    def say(line):
        print(line, flush=True)
        lines.append(line)
        (report / "report.md").write_text("\n".join(lines) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(arguments[0]) as tar:
            tar.extractall(folder)
        m = Machine(pathlib.Path(folder) / "gpu-bundle", emulated)
        for name in arguments[2:] or (list(SECTIONS)[:3] if emulated else SECTIONS):
            say(f"\n## {name}\n")
            start = time.time()
            try:
                SECTIONS[name](m, say)
            except (Failure, subprocess.TimeoutExpired, OSError, StopIteration) as e:
                failed.append(name)
                say(f"FAILED: {e}")
            say(f"\n({time.time() - start:.0f} s)")
    say("\nfailed: " + ", ".join(failed) if failed else "\nall sections passed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
