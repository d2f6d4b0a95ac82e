#!/usr/bin/env python3
"""Checks and times Tessera on a GPU from a bundle (bundle.py), and writes REPORT-FOLDER/report.md.

usage: test/gpu/run.sh BUNDLE [REPORT-FOLDER [SECTION...]] [--only TEXT] [--emulated]

BUNDLE is bundle.py's archive, or the folder that one was unpacked to: then what is made on the way (weights, data, compiled
kernels) is there for the next call. SECTION, all of them in this order by default:
  machine      device, driver, the libraries that are found
  conformance  every kernel of the cuda backend against the float64 reference
  ranks        NCCL by as many ranks as there are devices (one is enough), registered memory, input on its way
  equal        training losses in float64 against the reference, and in float32 against the CPU's: 1 rank, and 2 and 4 that share
               the device
  sanitize     compute-sanitizer (memcheck, racecheck) over the conformance suite and a training run
  speed        training steps against PyTorch (eager and compiled with CUDA graphs, channels last, autocast; float32, TF32,
               bfloat16), and shares of what the device reaches; without PyTorch our times alone
  overhead     step time beside the sum of its kernels' times, with CUDA graphs: by Nsight Systems, or else Compute
  profile      where the time of a step goes, kernel by kernel
--only TEXT: of the plans those with TEXT in their names.

A section that fails does not stop the others; the exit code is 1 if one did. `--emulated` runs on the emulated device, which
any machine with a C++ compiler has, without sanitize and overhead: the check of this script, whose times mean nothing.
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

STEPS, WIDE_STEPS = 10, 3         # of equality, in float32 and float64
WIDE_LIMIT, ROUNDING = 1e-9, 1e-6  # float64; what float32 may always be off by


class Failure(Exception):
    pass


class Machine:
    def __init__(self, bundle, emulated, only):
        self.bundle, self.emulated = bundle, emulated
        self.plans = [p for p in json.loads((bundle / "plans.json").read_text()) if only in p["plan"]]
        # Folders of toolkits, and of the wheels that come with PyTorch.
        roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", *sorted(
            map(str, pathlib.Path("/usr/local").glob("cuda-*")), reverse=True)]
        if nvcc := shutil.which("nvcc"):
            roots.insert(0, str(pathlib.Path(nvcc).resolve().parents[1]))
        self.roots = [pathlib.Path(r) for r in dict.fromkeys(roots) if r and os.path.isdir(r)]
        folders = [r / f for r in self.roots for f in ("lib64", "lib", "targets/x86_64-linux/lib")]
        for root in {*site.getsitepackages(), *(p for p in sys.path if p.endswith("-packages"))}:
            folders += sorted(pathlib.Path(root).glob("nvidia/**/lib"))
        self.module = bundle / "lib" / ("libtessera_emulator.so" if emulated else "libtessera_cuda.so")
        # This environment is only for Tessera's programs: others, such as PyTorch's compilers, have libraries of their
        # own.
        self.env = dict(os.environ, TESSERA_CUDA_MODULE=str(self.module), TESSERA_CACHE_DIR=str(bundle / "cache"),
                        LD_LIBRARY_PATH=":".join([str(bundle / "lib"), *(str(f) for f in folders if f.is_dir()),
                                                  os.environ.get("LD_LIBRARY_PATH", "")]))

    def tool(self, name):
        """The path of a tool of the toolkit or of Nsight; null where there is none."""
        places = [os.environ.get("PATH", ""), *(str(r / "bin") for r in self.roots), *(str(r / "compute-sanitizer") for r in self.roots)]
        for pattern in ("nvidia/nsight-systems/*/bin", "nvidia/nsight-compute/*"):
            places += sorted(map(str, pathlib.Path("/opt").glob(pattern)), reverse=True)
        return shutil.which(name, path=":".join(places))

    def run(self, *command, timeout=900, ours=True, **env):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout,
                              env={**(self.env if ours else os.environ), **env})
        if done.returncode:
            text = (done.stdout + done.stderr)[-3000:]
            raise Failure(f"`{' '.join(map(str, command))}`: exit code {done.returncode}\n```\n{text}\n```")
        return done.stdout + done.stderr

    def torch(self, *question):
        """What torch_speed.py answers; null where there is no PyTorch."""
        if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode:
            return None
        what, *rest = question
        here = pathlib.Path(__file__).resolve().with_name("torch_speed.py")
        text = self.run(sys.executable, here, what, "cpu" if self.emulated else "cuda", *rest, ours=False, timeout=1800,
                        TORCHINDUCTOR_CACHE_DIR=str(self.bundle / "inductor"))
        return json.loads(text.strip().splitlines()[-1])

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

    def command(self, plan, steps, *options):
        return [self.bundle / "bin/tessera-run", self.fill_weights(plan["plan"]), "--data", self.data(plan), "--steps", steps, *options]

    def train(self, plan, steps, *options):
        """Losses and seconds of every step."""
        log = self.bundle / "log.jsonl"
        log.unlink(missing_ok=True)
        self.run(*self.command(plan, steps, "--log", log, *options))
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [line["loss"] for line in lines], [line["seconds"] for line in lines]

    def work(self, plan):
        """Arithmetic operations and bytes of all kernels of a step."""
        trace = self.bundle / "trace.json"
        self.run(*self.command(plan, 2, "--device", "cuda", "--trace", "steps=2", "--trace-file", trace))
        kernels = [e["args"] for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
        return sum(k.get("flops", 0) for k in kernels), sum(k["bytes"] for k in kernels)

    def timed(self):
        return [p for p in self.plans if (p["use"] == "equal" and p["ranks"] == 1 if self.emulated else p["use"] == "fast")]


def machine(m, say):
    say(m.run(m.bundle / "bin/tessera-run", "--version").strip())
    missing = [line.strip() for line in m.run("ldd", m.module).splitlines() if "not found" in line]
    for line in m.run("ldd", m.module).splitlines():
        if any(name in line for name in ("cublas", "cudnn", "nvrtc", "nccl")):
            say(f"- {line.split(' (')[0].strip()}")
    for tool in ("nvcc", "compute-sanitizer", "nsys", "ncu"):
        say(f"- {tool}: {m.tool(tool) or 'not found'}")
    if missing:
        raise Failure(f"{m.module.name} lacks " + ", ".join(missing))
    if m.emulated:
        return say("emulated device")
    say("```\n" + m.run("nvidia-smi", ours=False).strip() + "\n```")


def conformance(m, say):
    text = m.run(m.bundle / "bin/backend_conformance", timeout=1800, TESSERA_CONFORMANCE_BACKEND="cuda")
    say(text.strip().splitlines()[-1])


def ranks(m, say):
    for program in ("device_nccl",):
        say(f"- {program}: " + m.run(m.bundle / "bin" / program).strip().splitlines()[-1])


def relative(found, expected):
    return [abs(f - e) / abs(e) for f, e in zip(found, expected)]


def equal(m, say):
    say("Largest relative difference of a loss from float64's by the reference's plain loops:\n")
    say("| plan | ranks | device, float64 | device, float32 | CPU, float32 |\n|---|---|---|---|---|")
    exact, cpu, failed = {}, {}, []
    for plan in (p for p in m.plans if p["use"] == "equal"):
        name = plan["network"]
        if name not in exact:
            one = {**plan, "plan": f"{name}-1-f32"}
            exact[name], _ = m.train(one, STEPS, "--f64", "--backend", "reference")
            cpu[name] = max(relative(m.train(one, STEPS)[0], exact[name]))
        share = ["--device", "cuda", *["--share-devices"] * (plan["ranks"] > 1)]
        wide, _ = m.train(plan, WIDE_STEPS, "--f64", *share)
        found, _ = m.train(plan, STEPS, *share)
        again, _ = m.train(plan, STEPS, *share)
        checked, _ = m.train(plan, STEPS, *share, "--check-numerics", "stop")  # steps are apart: a loss may be summed in another order
        # Training enlarges rounding errors by a factor that depends on the network. The CPU's float32 run shows it.
        limit = max(ROUNDING, 4 * cpu[name])
        off64, off32 = max(relative(wide, exact[name])), max(relative(found, exact[name]))
        bad = [text for text, wrong in (("FLOAT64 IS OFF", not off64 <= WIDE_LIMIT or len(wide) != WIDE_STEPS),
                                        (f"ABOVE {limit:.1e}", not off32 <= limit or len(found) != STEPS),
                                        ("NOT THE SAME TWICE", again != found),
                                        ("OFF WHERE STEPS ARE APART", not max(relative(checked, found)) <= ROUNDING)) if wrong]
        failed += [plan["plan"]] * bool(bad)
        say(f"| {plan['plan']} | {plan['ranks']} | {off64:.1e} | {off32:.1e} | {cpu[name]:.1e} |{' **' + ', '.join(bad) + '**' if bad else ''}")
    if failed:
        raise Failure("not equal: " + ", ".join(failed))


def sanitize(m, say):
    sanitizer = m.tool("compute-sanitizer")
    if not sanitizer:
        raise Failure("compute-sanitizer is not installed")
    small = next(p for p in m.plans if p["use"] == "equal")
    train = m.command(small, 3, "--device", "cuda")
    for tool in ("memcheck", "racecheck"):
        for what, command in (("conformance", [m.bundle / "bin/backend_conformance"]), (small["plan"], train),
                              ("NCCL and input", [m.bundle / "bin/device_nccl"])):
            text = m.run(sanitizer, "--tool", tool, "--error-exitcode", 9, *command, timeout=2400, TESSERA_CONFORMANCE_BACKEND="cuda")
            say(f"- {tool}, {what}: " + next(l for l in reversed(text.splitlines()) if "=========" in l).strip("= "))


def step_seconds(m, plan, *options):
    """The median step of a run, without the first ones: they record graphs."""
    return statistics.median(m.train(plan, 8 if m.emulated else 25, *options)[1][5:])


def speed(m, say):
    if m.emulated:
        say("EMULATED, of small networks: these numbers say nothing but that they can be had.\n")
    top = m.torch("ceilings")
    if top:
        say("Ceilings, by PyTorch: " + ", ".join(f"{k} {v:.0f} TFLOP/s" for k, v in top.items() if k != "copy")
            + f", copy {top['copy']:.2f} TB/s\n")
    else:
        say("There is no PyTorch here: no comparison, and no ceilings.\n")
    say("| network | arithmetic | Tessera ms | share of products' ceiling | of memory's | PyTorch ms by setting | times as fast as its best |")
    say("|---|---|---|---|---|---|---|")
    for plan in m.timed():
        images, batch = plan["inputs"][0][0] == "normal", plan["target"][2][0]
        network, size = ("resnet50" if images else "gpt"), plan["inputs"][0][-1][-1]
        flops, bytes_ = m.work(plan)
        settings = ["eager+last", "eager", "compiled+last", "compiled"] if images else ["eager", "compiled"]
        for precision in ("f32", "tf32") if plan["precision"] == "f32" else ("bf16",):
            options = ["--device", "cuda", *["--tf32"] * (precision == "tf32")]
            ours = [step_seconds(m, plan, *options)]
            theirs = {}
            for setting in settings[:1] if m.emulated else settings:
                if top:
                    theirs[setting] = [m.torch("step", network, batch, setting, precision, 64 if m.emulated else size)]
            # Both run twice more, Tessera and the best of the others in turns.
            best = min(theirs, key=lambda s: theirs[s][0]) if theirs else None
            for _ in range(2):
                ours.append(step_seconds(m, plan, *options))
                if best and not m.emulated:
                    theirs[best].append(m.torch("step", network, batch, best, precision, size))
            mine = statistics.median(ours)
            shares = [f"{flops / mine / 1e12 / top[precision]:.0%}", f"{bytes_ / mine / 1e12 / top['copy']:.0%}"] if top else ["", ""]
            others = ", ".join(f"{s} {1e3 * statistics.median(t):.2f}" for s, t in theirs.items())
            ratio = f"{statistics.median(theirs[best]) / mine:.2f}" if best and not m.emulated else ""
            say(f"| {plan['network']} | {precision} | {1e3 * mine:.2f} ({1e3 * min(ours):.2f} to {1e3 * max(ours):.2f}) | "
                f"{' | '.join(shares)} | {others} | {ratio} |")


def by_nsys(m, nsys, plan, steps):
    report = m.bundle / "overhead"
    m.run(nsys, "profile", "--trace=cuda", "--cuda-graph-trace=node", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true", "-o",
          report, *m.command(plan, steps, "--device", "cuda"), timeout=2400)
    text = m.run(nsys, "stats", "--force-export=true", "--format", "csv", "--report", "cuda_gpu_kern_sum", f"{report}.nsys-rep", timeout=2400)
    rows = [line.split(",") for line in text.splitlines() if line[:1].isdigit()]
    return sum(float(row[1]) for row in rows) / 1e9  # "Time (%),Total Time (ns),..."


def by_ncu(m, ncu, plan, steps):
    text = m.run(ncu, "--csv", "--metrics", "gpu__time_duration.sum", *m.command(plan, steps, "--device", "cuda", "--no-graphs"),
                 timeout=2400)
    rows = [line.rsplit('","', 1) for line in text.splitlines() if "gpu__time_duration.sum" in line]
    return sum(float(row[1].strip('"').replace(",", "")) for row in rows) / 1e9


def overhead(m, say):
    tool, kernels_of, few, many = next(((m.tool(name), *rest) for name, *rest in (("nsys", by_nsys, 4, 14), ("ncu", by_ncu, 1, 2))
                                        if m.tool(name)), (None,) * 4)
    if not tool:
        raise Failure("neither nsys nor ncu is installed")
    for plan in m.timed():
        step = step_seconds(m, plan, "--device", "cuda")
        # The difference removes the kernels that run only once.
        kernels = (kernels_of(m, tool, plan, many) - kernels_of(m, tool, plan, few)) / (many - few)
        over = step / kernels - 1
        say(f"- {plan['plan']}: step {1e3 * step:.2f} ms, its kernels {1e3 * kernels:.2f} ms, overhead {over:.1%}"
            f"{' **ABOVE 5 %**' if over >= 0.05 else ''}")
        checked = step_seconds(m, plan, "--device", "cuda", "--check-numerics", "stop")
        say(f"  - with --check-numerics, between two copies: {1e3 * checked:.2f} ms")


def profile(m, say):
    for plan in m.timed():
        for options in ([], ["--tf32"]) if plan["precision"] == "f32" else ([],):
            text = m.run(*m.command(plan, 5, "--device", "cuda", "--profile", *options))
            lines = text[text.index("profile of program"):].splitlines()
            say(f"{plan['plan']} {' '.join(options)}\n```\n" + "\n".join(lines[:40]) + "\n```")


SECTIONS = {f.__name__: f for f in (machine, conformance, ranks, equal, sanitize, speed, overhead, profile)}
DEVICE_ONLY = ("sanitize", "overhead")


def main():
    arguments = sys.argv[1:]
    emulated = "--emulated" in arguments
    arguments = [a for a in arguments if a != "--emulated"]
    only = ""
    if "--only" in arguments:
        at = arguments.index("--only")
        _, only = arguments[at:at + 2] if at + 1 < len(arguments) else sys.exit(__doc__)
        del arguments[at:at + 2]
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
        bundle = pathlib.Path(arguments[0])
        if not bundle.is_dir():
            with tarfile.open(bundle) as tar:
                tar.extractall(folder)
            bundle = pathlib.Path(folder) / "gpu-bundle"
        m = Machine(bundle.resolve(), emulated, only)
        for name in arguments[2:] or [s for s in SECTIONS if not emulated or s not in DEVICE_ONLY]:
            say(f"\n## {name}\n")
            start = time.time()
            try:
                SECTIONS[name](m, say)
            except (Failure, subprocess.TimeoutExpired, OSError, StopIteration, ValueError) as e:
                failed.append(name)
                say(f"FAILED: {e}")
            say(f"\n({time.time() - start:.0f} s)")
    say("\nfailed: " + ", ".join(failed) if failed else "\nall sections passed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
