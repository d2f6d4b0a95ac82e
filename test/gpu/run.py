#!/usr/bin/env python3
"""Checks and times Tessera on a GPU from a bundle (bundle.py), and writes REPORT-FOLDER/report.md.

usage: test/gpu/run.sh BUNDLE [REPORT-FOLDER [SECTION...]] [--minutes N] [--only TEXT] [--emulated]

BUNDLE is bundle.py's archive, or the folder that one was unpacked to: then what is made on the way (weights, data, compiled
kernels) is there for the next call. SECTION is a section, or one of three calls of some minutes each for a machine that is only
lent (default: all three):
  facts: machine      device, driver, the libraries that are found
         smoke        three steps of a small network, without graphs and with them
         ranks        NCCL by as many ranks as there are devices (one is enough), registered memory, input on its way
         equal        training losses in float64 and float32 on one rank against the reference's, which the bundle carries
         ours         training steps of large networks in bfloat16: time, memory, clock
         attention    losses and time with cuDNN's attention against those with generated kernels
         conformance  kernels against the float64 reference, file by file, the hottest files first
  where: kernels      what the kernels of a step take, by name, and what they move: by Nsight Compute
         speed        training steps against PyTorch (eager, and compiled), and shares of what the device reaches; without
                      PyTorch our times alone
  safety: sanitize    compute-sanitizer (memcheck, racecheck) over training runs and files of the conformance suite
         shared       losses of 2 and 4 ranks that share the device, also of a pipeline
         profile      where the time of a step goes, by Tessera itself
         costs        the machine's topology, and the kernels of the timed networks, for predictions: topology.json and
                      profile-PLAN.json, for tessera-compile --topology FILE --profile FILE
--minutes N: ends after N minutes (default 9 for each of the three calls). Every command has a time limit of its own, and a
command that hangs is killed with all it has started. What is known is in the report after every line.
--only TEXT: of the plans those with TEXT in their names.

A section that fails does not stop the others; the exit code is 1 if one did. No clock is set, and no section needs more rights
than a user has. `--emulated` runs on the emulated device, which any machine with a C++ compiler has, without kernels and
sanitize: the check of this script, whose times mean nothing.
"""
import concurrent.futures
import csv
import hashlib
import io
import json
import os
import pathlib
import shutil
import signal
import site
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import numpy as np

STEPS, WIDE_STEPS = 10, 3         # of equality, in float32 and float64
WIDE_LIMIT, ROUNDING = 1e-9, 1e-6  # float64; what float32 may always be off by
ATTENTION_LIMIT = 0.01  # of losses, where probabilities have 8 bits or 16: a digit of bfloat16 is 0.004
HOT = ("Contractions", "Attention", "RowChains", "Expressions", "Windows", "Movement")  # files of the conformance suite
SECONDS = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1, "second": 1}
BYTES = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "KB": 1e3, "MB": 1e6, "GB": 1e9, "B": 1}


class Failure(Exception):
    pass


class OutOfTime(Failure):
    pass


class Machine:
    def __init__(self, bundle, emulated=False, only="", minutes=None):
        self.bundle, self.emulated = bundle, emulated
        self.end = time.monotonic() + 60 * minutes if minutes else float("inf")
        self.has_torch = None
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

    def left(self, limit):
        """How long a command may take that may take `limit` seconds."""
        left = self.end - time.monotonic()
        if left < 1:
            raise OutOfTime("no time is left")
        return min(limit, left)

    def run(self, *command, timeout=120, ours=True, **env):
        command = [str(c) for c in command]
        limit = self.left(timeout)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True, env={**(self.env if ours else os.environ), **env})
        try:
            text, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what it has started: ranks, compilers
            text, _ = process.communicate()
            raise Failure(f"`{' '.join(command)}` was killed after {limit:.0f} s\n```\n{text[-1500:]}\n```") from None
        if process.returncode:
            raise Failure(f"`{' '.join(command)}`: exit code {process.returncode}\n```\n{text[-3000:]}\n```")
        return text

    def torch(self, *question, timeout=120):
        """What torch_speed.py answers; null where there is no PyTorch."""
        if self.has_torch is None:  # importing it takes seconds
            self.has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0
        if not self.has_torch:
            return None
        what, *rest = question
        here = pathlib.Path(__file__).resolve().with_name("torch_speed.py")
        text = self.run(sys.executable, here, what, "cpu" if self.emulated else "cuda", *rest, ours=False, timeout=timeout,
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

    def digest(self, plan):
        """Of the numbers that a run of the plan starts from. NumPy's generators may differ between versions."""
        found = hashlib.sha256((self.fill_weights(plan["plan"]) / "weights.safetensors").read_bytes())
        for file in self.data(plan)[len("npy:"):].split(","):
            found.update(pathlib.Path(file).read_bytes())
        return found.hexdigest()

    def references(self):
        """Losses of the networks that are compared, by network: float64's by the reference's plain loops, float32's by the CPU.
        bundle.py computes them, since they take minutes."""
        found = {}
        for plan in (p for p in self.plans if p["use"] == "equal" and p["ranks"] == 1):
            found[plan["network"]] = {"digest": self.digest(plan),
                                      "exact": self.train(plan, STEPS, "--f64", "--backend", "reference", timeout=1200)[0],
                                      "cpu": self.train(plan, STEPS)[0]}
        return found

    def command(self, plan, steps, *options):
        return [self.bundle / "bin/tessera-run", self.fill_weights(plan["plan"]), "--data", self.data(plan), "--steps", steps, *options]

    def train(self, plan, steps, *options, timeout=120):
        """Losses and seconds of every step."""
        log = self.bundle / "log.jsonl"
        log.unlink(missing_ok=True)
        self.run(*self.command(plan, steps, "--log", log, *options), timeout=timeout)
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
    say("```\n" + m.run("nvidia-smi", ours=False, timeout=30).strip() + "\n```")


def smoke(m, say):
    small = next(p for p in m.plans if p["use"] == "equal" and p["ranks"] == 1)
    for what, options in (("without graphs", ["--no-graphs"]), ("with graphs", [])):
        if options:  # the first run says what it runs on
            said = m.run(*m.command(small, 1, "--device", "cuda", *options), timeout=60)
            say("```\n" + "\n".join(line for line in said.splitlines() if "device" in line or "driver" in line)[:1500] + "\n```")
        losses, _ = m.train(small, 3, "--device", "cuda", *options, timeout=60)
        say(f"- {small['plan']}, {what}: losses {', '.join(f'{l:.6f}' for l in losses)}")


def conformance_files(m):
    """The tags of the suite's files, the hottest first."""
    listed = m.run(m.bundle / "bin/backend_conformance", "-#", "--list-tags", timeout=30)
    tags = [word[2:-1] for line in listed.splitlines() for word in line.split() if word.startswith("[#") and word.endswith("]")]
    return sorted(tags, key=lambda t: (HOT.index(t) if t in HOT else len(HOT), t))


def conformance(m, say):
    """Files side by side: most of their time goes into compiling kernels."""
    def one(tag):
        try:
            text = m.run(m.bundle / "bin/backend_conformance", "-#", f"[#{tag}]", timeout=240, TESSERA_CONFORMANCE_BACKEND="cuda")
            return tag, text.strip().splitlines()[-1]
        except Failure as e:
            return tag, e

    failed = []
    with concurrent.futures.ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 1) // 2))) as pool:
        for tag, found in pool.map(one, conformance_files(m)):
            failed += [tag] * isinstance(found, Failure)
            say(f"- {tag}: {'FAILED: ' if isinstance(found, Failure) else ''}{found}")
    if failed:
        raise Failure("files that fail: " + ", ".join(failed))


def ranks(m, say):
    say("- device_nccl: " + m.run(m.bundle / "bin/device_nccl").strip().splitlines()[-1])
    say("- with one device NCCL copies and launches no kernel: that its work can be recorded is not shown by it")


def relative(found, expected):
    return [abs(f - e) / abs(e) for f, e in zip(found, expected)]


def compare(m, say, plans):
    say("Largest relative difference of a loss from float64's by the reference's plain loops:\n")
    say("| plan | ranks | device, float64 | device, float32 | CPU, float32 |\n|---|---|---|---|---|")
    carried, failed = json.loads((m.bundle / "references.json").read_text()), []
    for plan in plans:
        name = plan["network"]
        known = carried.get(name, {})
        if known.get("digest") != m.digest({**plan, "plan": f"{name}-1-f32"}):
            failed.append(plan["plan"])
            say(f"| {plan['plan']} | | | | **NumPy makes other weights or data here than where the bundle was made** |")
            continue
        cpu = max(relative(known["cpu"], known["exact"]))
        share = ["--device", "cuda", *["--share-devices"] * (plan["ranks"] > 1)]
        wide, _ = m.train(plan, WIDE_STEPS, "--f64", *share)
        found, _ = m.train(plan, STEPS, *share)
        again, _ = m.train(plan, STEPS, *share)
        checked, _ = m.train(plan, STEPS, *share, "--check-numerics", "stop")  # steps are apart: a loss may be summed in another order
        # Training enlarges rounding errors by a factor that depends on the network. The CPU's float32 run shows it.
        limit = max(ROUNDING, 4 * cpu)
        off64, off32 = max(relative(wide, known["exact"])), max(relative(found, known["exact"]))
        bad = [text for text, wrong in (("FLOAT64 IS OFF", not off64 <= WIDE_LIMIT or len(wide) != WIDE_STEPS),
                                        (f"ABOVE {limit:.1e}", not off32 <= limit or len(found) != STEPS),
                                        ("NOT THE SAME TWICE", again != found),
                                        ("OFF WHERE STEPS ARE APART", not max(relative(checked, found)) <= ROUNDING)) if wrong]
        failed += [plan["plan"]] * bool(bad)
        say(f"| {plan['plan']} | {plan['ranks']} | {off64:.1e} | {off32:.1e} | {cpu:.1e} |{' **' + ', '.join(bad) + '**' if bad else ''}")
    if failed:
        raise Failure("not equal: " + ", ".join(failed))


def equal(m, say):
    compare(m, say, [p for p in m.plans if p["use"] == "equal" and p["ranks"] == 1])


def shared(m, say):
    compare(m, say, [p for p in m.plans if p["use"] == "equal" and p["ranks"] > 1])


def sanitize(m, say):
    sanitizer = m.tool("compute-sanitizer")
    if not sanitizer:
        raise Failure("compute-sanitizer is not installed")
    failed = []
    suite = m.bundle / "bin/backend_conformance"
    runs = [("memcheck", p["plan"], m.command(p, 2, "--device", "cuda")) for p in m.plans if p["use"] == "equal" and p["ranks"] == 1]
    runs += [("memcheck", "NCCL and input", [m.bundle / "bin/device_nccl"])]
    runs += [("racecheck", file, [suite, "-#", f"[#{file}]"]) for file in ("RowChains", "Attention")]
    runs += [("memcheck", file, [suite, "-#", f"[#{file}]"]) for file in conformance_files(m)]
    for tool, what, command in runs:
        try:
            text = m.run(sanitizer, "--tool", tool, "--error-exitcode", 9, *command, timeout=150, TESSERA_CONFORMANCE_BACKEND="cuda")
            say(f"- {tool}, {what}: " + next((l for l in reversed(text.splitlines()) if "=========" in l), "no summary").strip("= "))
        except OutOfTime:
            raise
        except Failure as e:
            failed.append(f"{tool} of {what}")
            say(f"- {tool}, {what}: FAILED: {e}")
    if failed:
        raise Failure(", ".join(failed))


class Gauges:
    """What nvidia-smi says of the device while something runs: the most memory, and usual clock and power."""

    def __init__(self, m):
        self.tool, self.readings, self.done = shutil.which("nvidia-smi"), [], threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True) if self.tool and not m.emulated else None

    def read(self):
        while not self.done.wait(0.5):
            try:
                text = subprocess.run([self.tool, "--query-gpu=memory.used,clocks.sm,power.draw", "--format=csv,noheader,nounits"],
                                      capture_output=True, text=True, timeout=10).stdout
                self.readings.append([float(field) for field in text.splitlines()[0].split(",")])
            except (OSError, subprocess.SubprocessError, ValueError, IndexError):
                pass  # "[N/A]" on a machine that does not tell

    def __enter__(self):
        if self.thread:
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        if self.thread:
            self.thread.join()

    def text(self):
        if not self.readings:
            return "memory, clock and power unknown"
        memory, clock, power = zip(*self.readings)
        return f"at most {max(memory):.0f} MiB on the device, {statistics.median(clock):.0f} MHz, {statistics.median(power):.0f} W"


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
        images, batch, size = plan["inputs"][0][0] == "normal", plan["target"][2][0], plan["inputs"][0][-1][-1]
        network = plan["peer"] or ("resnet50" if images else "gpt")
        flops, bytes_ = m.work(plan)
        settings = [setting + "+last" * images for setting in ("eager", "compiled")]
        for precision in ("f32", "tf32") if plan["precision"] == "f32" else ("bf16",):
            options = ["--device", "cuda", *["--tf32"] * (precision == "tf32")]
            mine_each = [step_seconds(m, plan, *options)]
            theirs = {}
            for setting in settings[:1] if m.emulated else settings:
                if top and network:
                    try:
                        theirs[setting] = [m.torch("step", network, batch, setting, precision, 64 if m.emulated else size, timeout=150)]
                    except Failure as e:
                        say(f"\nPyTorch, {plan['network']} {setting}: {e}\n")
            # Both run once more, Tessera and the best of the others in turns.
            best = min(theirs, key=lambda s: theirs[s][0]) if theirs else None
            mine_each.append(step_seconds(m, plan, *options))
            if best and not m.emulated:
                theirs[best].append(m.torch("step", network, batch, best, precision, size))
            mine = statistics.median(mine_each)
            shares = [f"{flops / mine / 1e12 / top[precision]:.0%}", f"{bytes_ / mine / 1e12 / top['copy']:.0%}"] if top else ["", ""]
            others = ", ".join(f"{s} {1e3 * statistics.median(t):.2f}" for s, t in theirs.items())
            ratio = f"{statistics.median(theirs[best]) / mine:.2f}" if best and not m.emulated else ""
            say(f"| {plan['network']} | {precision} | {1e3 * mine:.2f} ({1e3 * min(mine_each):.2f} to {1e3 * max(mine_each):.2f}) | "
                f"{' | '.join(shares)} | {others} | {ratio} |")


def ours(m, say):
    for plan in m.timed():
        with Gauges(m) as gauges:
            seconds = step_seconds(m, plan, "--device", "cuda")
        say(f"- {plan['plan']}: {1e3 * seconds:.2f} ms a step; {gauges.text()}")


def attention(m, say):
    """cuDNN's attention against the generated kernels', which the conformance suite holds against plain loops: losses and time."""
    failed = []
    for plan in (p for p in m.timed() if not p["network"].startswith("resnet")):
        losses, seconds = [], []
        for options in ([], ["--tiled-attention"]):
            found, times = m.train(plan, STEPS, "--device", "cuda", *options)
            losses.append(found)
            seconds.append(statistics.median(times[5:]))
        off = max(relative(*losses))
        wrong = not off <= ATTENTION_LIMIT or len(losses[0]) != STEPS
        failed += [plan["plan"]] * wrong
        say(f"- {plan['plan']}: {1e3 * seconds[0]:.2f} ms a step, by generated kernels {1e3 * seconds[1]:.2f}; losses differ by at most {off:.1e}"
            + (f" **ABOVE {ATTENTION_LIMIT:.0e}**" if wrong else ""))
    if failed:
        raise Failure("attention by cuDNN trains otherwise: " + ", ".join(failed))


def kernel_rows(text):
    """Nsight Compute's CSV as rows of (kernel, metric, value) in seconds and bytes, whatever units it chose."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        raise Failure("Nsight Compute has written no table:\n```\n" + text[-1500:] + "\n```")
    rows = []
    for row in csv.DictReader(io.StringIO("\n".join(line for line in lines[begin:] if line.startswith('"')))):
        unit = row["Metric Unit"]
        if unit not in SECONDS and unit not in BYTES:
            raise Failure(f"Nsight Compute has a unit that this script does not know: {unit!r}")
        rows.append((row["Kernel Name"], row["Metric Name"], float(row["Metric Value"].replace(",", "")) * {**BYTES, **SECONDS}[unit]))
    return rows


def kernels(m, say):
    ncu = m.tool("ncu")
    if not ncu:
        raise Failure("ncu is not installed")
    for plan in m.timed():
        step = step_seconds(m, plan, "--device", "cuda")
        runs = []
        for steps in (1, 2):  # the difference leaves out what runs only once
            text = m.run(ncu, "--csv", "--clock-control", "none", "--print-units", "base", "--metrics",
                         "gpu__time_duration.sum,dram__bytes.sum", *m.command(plan, steps, "--device", "cuda", "--no-graphs"), timeout=240)
            (m.report / f"kernels-{plan['plan']}-{steps}.csv").write_text(text)
            sums = {}
            for name, metric, value in kernel_rows(text):
                count, seconds, bytes_ = sums.get(name, (0, 0, 0))
                timing = metric.startswith("gpu__time")
                sums[name] = (count + timing, seconds + value * timing, bytes_ + value * (not timing))
            runs.append(sums)
        found = {n: tuple(b - a for a, b in zip(runs[0].get(n, (0, 0, 0)), v)) for n, v in runs[1].items()}
        total = sum(v[1] for v in found.values())
        over = step / total - 1
        say(f"{plan['plan']}: step {1e3 * step:.2f} ms with graphs; {sum(v[0] for v in found.values())} kernels take {1e3 * total:.2f} ms and move "
            f"{sum(v[2] for v in found.values()) / 1e9:.1f} GB; overhead {over:.1%}{' **ABOVE 5 %**' if over >= 0.05 else ''}\n")
        say("| ms | GB | launches | kernel |\n|---|---|---|---|")
        for name, (count, seconds, bytes_) in sorted(found.items(), key=lambda e: -e[1][1])[:25]:
            say(f"| {1e3 * seconds:.3f} | {bytes_ / 1e9:.2f} | {count} | {name} |")


def profile(m, say):
    for plan in m.timed():
        for options in ([], ["--tf32"]) if plan["precision"] == "f32" else ([],):
            text = m.run(*m.command(plan, 5, "--device", "cuda", "--profile", *options))
            lines = text[text.index("profile of program"):].splitlines()
            say(f"{plan['plan']} {' '.join(options)}\n```\n" + "\n".join(lines[:40]) + "\n```")


def costs(m, say):
    profiler = m.bundle / "bin/tessera-profile"
    if not m.emulated:  # there, nvidia-smi shows no device
        m.run(profiler, "--device", "cuda", "--write-topology", m.report / "topology.json")
        say(f"```\n{(m.report / 'topology.json').read_text().strip()}\n```")
    for plan in m.timed():
        profile = m.report / f"profile-{plan['plan']}.json"
        m.run(profiler, m.bundle / "phases" / f"{plan['plan']}.mlir", "--device", "cuda", "--mesh", "1", "--quiet", "-o", profile, timeout=200)
        say(f"- {profile.name}: {len(json.loads(profile.read_text())['kernels'])} kernels")


CALLS = {"facts": (machine, smoke, ranks, equal, ours, attention, conformance), "where": (kernels, speed), "safety": (sanitize, shared, profile, costs)}
SECTIONS = {f.__name__: f for sections in CALLS.values() for f in sections}
DEVICE_ONLY = ("kernels", "sanitize")
MINUTES = 9  # of a call


def option(arguments, name):
    """The value behind an option, both taken out of the list; null without it."""
    if name not in arguments:
        return None
    at = arguments.index(name)
    if at + 1 == len(arguments):
        sys.exit(__doc__)
    value = arguments[at + 1]
    del arguments[at:at + 2]
    return value


def main():
    arguments = sys.argv[1:]
    emulated = "--emulated" in arguments
    arguments = [a for a in arguments if a != "--emulated"]
    only, minutes = option(arguments, "--only") or "", option(arguments, "--minutes")
    unknown = [a for a in arguments[2:] if a not in SECTIONS and a not in CALLS]
    if not arguments or arguments[0].startswith("-") or unknown:
        sys.exit(__doc__ if not unknown else f"run.py: there is no section {unknown[0]}; known: {', '.join([*CALLS, *SECTIONS])}")
    chosen = arguments[2:] or list(CALLS)
    names = [f for c in chosen for f in ([s.__name__ for s in CALLS[c]] if c in CALLS else [c])]
    minutes = float(minutes) if minutes else MINUTES * max(1, sum(c in CALLS for c in chosen))
    report = pathlib.Path(arguments[1] if len(arguments) > 1 else "gpu-report")
    report.mkdir(parents=True, exist_ok=True)
    failed = []
    text = open(report / "report.md", "w")

    def say(line):
        print(line, flush=True)
        text.write(line + "\n")
        text.flush()

    with tempfile.TemporaryDirectory() as folder:
        bundle = pathlib.Path(arguments[0])
        if not bundle.is_dir():
            with tarfile.open(bundle) as tar:
                tar.extractall(folder)
            bundle = pathlib.Path(folder) / "gpu-bundle"
        m = Machine(bundle.resolve(), emulated, only, minutes)
        m.report = report
        for name in (n for n in names if not emulated or n not in DEVICE_ONLY):
            say(f"\n## {name}\n")
            start = time.time()
            try:
                SECTIONS[name](m, say)
            except (Failure, OSError, StopIteration, ValueError, KeyError) as e:
                failed.append(name)
                say(f"FAILED: {e}")
            say(f"\n({time.time() - start:.0f} s)")
    say("\nfailed: " + ", ".join(failed) if failed else "\nall sections passed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
