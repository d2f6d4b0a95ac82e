#!/usr/bin/env python3
"""Architectures of transformers, timm, diffusers and torchvision, by PyTorch's new exporter, beside PyTorch itself.

usage: python3 test/benchmark/exporter_networks.py --bin build/bin [--only PATTERN] [--json FILE] [--write docs/networks.md]

Each row of exporter_architectures.py is built with a seed, in a tiny configuration, and exported once:
torch.onnx.export(dynamo=True, optimize=False) of the network in training mode, without dropout. Tessera infers and trains
(five steps of Adam on one batch of four) on one rank, on 2 x 2 ranks in mode auto and on 4 in mode data. PyTorch computes
the same in float64. Printed is a table of the largest relative differences: of an output, relative to its largest element,
and of a loss. Needs torch, onnx, onnxscript and the four libraries.

A row runs in a process of its own, with a limit of time: one that fails or hangs does not stop the others. With --json
rows are kept in that file as they are finished, and one that is there is not run again.
"""
import argparse
import concurrent.futures
import copy
import fnmatch
import json
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import numpy as np

# column, mesh, mode
RUNS = [("1", "1", "data"), ("2x2", "data=2,model=2", "auto"), ("4", "data=4", "data")]
COLUMNS = ["infer, 1", "infer, 2x2", "infer, 4", "PyTorch", "train, 1", "train, 2x2", "train, 4"]
# Slow arithmetic and fast links: to cut even so small networks pays, so mode auto cuts them.
MACHINE = {"name": "slow", "devices": 4, "flops": {"f32": 1e8}, "memory_bandwidth": 1e9, "memory": "16GiB",
           "links": [{"devices": 4, "latency": 1e-9, "bandwidth": 1e11}]}
FORKING = threading.Lock()
STEPS, RATE, LIMIT = 5, 1e-3, 1e-3
BEGIN, END = "<!-- test/benchmark/exporter_networks.py writes from here -->", "<!-- to here -->"


def short(text):
    """An error in one line, without paths and process numbers."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    told = [line for line in lines if re.match(r"tessera-\w+:", line)] or lines[-1:] or ["no message"]
    text = re.sub(r"^tessera-\w+: |^error: |net.onnx: ", "", told[0])
    return re.sub(r"\s+", " ", re.sub(r"/tmp/[^\s:]*/", "", text)).replace("|", "/")[:240]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(short(done.stderr) if done.stderr.strip() else f"exit code {done.returncode}")


def distance(found, expected):
    """The largest difference, relative to the largest element."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        raise RuntimeError(f"{list(found.shape)} instead of {list(expected.shape)} values")
    far = np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30)
    return float(far) if np.isfinite(far) else float("inf")


def libraries():
    """Loads the libraries once for all rows."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    import diffusers
    import onnxscript
    import timm
    import torch
    import torchvision
    import transformers
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    diffusers.logging.set_verbosity_error()


class Row:
    """One architecture: its module, its batch, and what PyTorch makes of them."""

    def __init__(self, name, args, folder):
        import torch
        from exporter_architectures import build
        self.torch, self.args, self.folder = torch, args, folder
        self.net, self.inputs, self.loss = build(name)
        with torch.no_grad():
            made = self.net.eval()(*self.inputs)
            if not made.any():  # a last layer of zeros would compare nothing
                torch.manual_seed(4)
                for parameter in self.net.parameters():
                    if not parameter.any():
                        torch.nn.init.normal_(parameter, std=0.02)
                made = self.net(*self.inputs)
        random = np.random.default_rng(3)
        if self.loss == "cross_entropy":
            self.target = torch.from_numpy(random.integers(0, made.shape[-1], made.shape[:-1]))
        else:
            self.target = torch.from_numpy(random.standard_normal(made.shape).astype(np.float32))
        self.start = copy.deepcopy(self.net.state_dict())  # with the versions of modules, which some need to load it

    def fresh(self, kind):
        self.net.float().load_state_dict(self.start)
        cast = lambda t: t.to(kind) if t.is_floating_point() else t
        return self.net.to(kind), [cast(t) for t in self.inputs], cast(self.target)

    def inferred(self, kind):
        net, inputs, _ = self.fresh(kind)
        with self.torch.no_grad():
            return net.eval()(*inputs).double().numpy()

    def trained(self, kind):
        functional = self.torch.nn.functional
        net, inputs, target = self.fresh(kind)
        optimizer = self.torch.optim.Adam([p for p in net.train().parameters() if p.requires_grad], lr=RATE)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            y = net(*inputs)
            value = (functional.cross_entropy(y.flatten(0, -2), target.flatten()) if self.loss == "cross_entropy"
                     else functional.mse_loss(y, target))
            value.backward()
            optimizer.step()
            losses.append(value.item())
        return losses

    def exported(self, training=True, optimize=False):
        """The data of --data: the inputs that the file has, in its order."""
        import onnx
        net, inputs, target = self.fresh(self.torch.float32)
        names = [f"x{i}" for i in range(len(inputs))]
        self.torch.onnx.export(net.train(training), tuple(inputs), self.folder / "net.onnx", dynamo=True, optimize=optimize,
                               input_names=names, verbose=False)
        for name, values in [*zip(names, inputs), ("target", target)]:
            np.save(self.folder / f"{name}.npy", values.numpy())
        (self.folder / "machine.json").write_text(json.dumps(MACHINE))
        graph = onnx.load(self.folder / "net.onnx", load_external_data=False).graph
        kept = {i.name for i in graph.initializer}
        return [self.folder / f"{i.name}.npy" for i in graph.input if i.name not in kept]

    def compiled(self, mesh, mode, *extra):
        plan = self.folder / "plan"
        run(self.args.bin / "tessera-compile", self.folder / "net.onnx", "--mesh", mesh, "--mode", mode, "--search-budget",
            "0.3", "--topology", self.folder / "machine.json", "-q", *extra, "-o", plan)
        return plan

    def tessera_infers(self, data, mesh, mode):
        plan, out = self.compiled(mesh, mode), self.folder / "out"
        run(self.args.bin / "tessera-run", plan, "--infer", "--output", out, "--data", "npy:" + ",".join(map(str, data)))
        return np.load(sorted(out.glob("output*.npy"))[0])

    def tessera_trains(self, data, mesh, mode):
        frozen = [n for n, p in self.net.named_parameters() if not p.requires_grad]
        plan = self.compiled(mesh, mode, "--train", "--loss", self.loss, "--optimizer", f"adam:lr={RATE}",
                             *(["--freeze", ",".join(frozen)] if frozen else []))
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        run(self.args.bin / "tessera-run", plan, "--steps", STEPS, "--log", log, "--data",
            "npy:" + ",".join(map(str, [*data, self.folder / "target.npy"])))
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]


def measured(name, args, pipe):
    """Runs in a fork: sends the row's dictionary after every column, and ends."""
    result = {}
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the exporter talks
    try:
        measure(name, args, result, lambda: pipe.send(result))
    except Exception as error:
        result["stopped"] = short(f"{type(error).__name__}: {error}")
    pipe.send(result)
    os._exit(0)


def measure(name, args, result, send):
    """Fills the row's dictionary; what fails is text in place of a number."""
    def note(column, job):
        try:
            result[column] = job()
        except Exception as error:
            result[column] = short(str(error) or type(error).__name__)
        send()

    with tempfile.TemporaryDirectory() as folder:
        try:
            row = Row(name, args, pathlib.Path(folder))
        except Exception as error:
            result["cannot be built"] = short(f"{type(error).__name__}: {error}")
            return
        result["parameters"] = sum(p.numel() for p in row.net.parameters())
        try:
            data = row.exported()
        except Exception as error:
            while error.__cause__ is not None:
                error = error.__cause__
            result["the exporter cannot"] = short(f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}")
            return
        precise = row.torch.float64
        try:
            outputs = row.inferred(precise)
        except Exception:  # some networks have float32 in their code
            precise = row.torch.float32
            outputs = row.inferred(precise)
            result["compared with"] = "float32"
        for column, mesh, mode in RUNS:
            note(f"infer, {column}", lambda: distance(row.tessera_infers(data, mesh, mode), outputs))
        losses = row.trained(precise)
        note("PyTorch", lambda: max(map(distance, row.trained(row.torch.float32), losses)))
        for column, mesh, mode in RUNS:
            note(f"train, {column}", lambda: max(map(distance, row.tessera_trains(data, mesh, mode), losses)))


def in_a_process(name, args):
    """The row in a fork of this process, which has the libraries already."""
    with FORKING:  # another fork would keep this pipe open
        mine, its = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=measured, args=(name, args, its))
        process.start()
        its.close()
    result, end = {}, time.monotonic() + args.limit
    try:
        while mine.poll(max(0, end - time.monotonic())):
            result = mine.recv()  # more of it each time
        result["stopped"] = f"not finished after {args.limit:.0f} s"
        process.kill()
    except EOFError:
        process.join()
        if process.exitcode:
            result["stopped"] = f"ended with code {process.exitcode}"
    return result


def cell(value):
    return "–" if value is None else f"{value:.0e}" if isinstance(value, float) else "no"


def remark(result):
    """What failed, each text once, with its columns."""
    told = {}
    for column in COLUMNS:
        if isinstance(result.get(column), str):
            told.setdefault(result[column], []).append(column)
    texts = [text if len(columns) > 5 else f"{'; '.join(columns)}: {text}" for text, columns in told.items()]
    texts += [f"{key}: {result[key]}" for key in ("cannot be built", "the exporter cannot", "stopped") if key in result]
    texts += ["compared with PyTorch in float32"] if "compared with" in result else []
    return "; ".join(texts)


def good(result, kind):
    return all(isinstance(n, float) and n <= LIMIT for n in (result.get(f"{kind}, {column}") for column, *_ in RUNS))


def table(results, listed):
    tried = {n: r for n, r in results.items() if "cannot be built" not in r}
    exported = {n: r for n, r in tried.items() if "the exporter cannot" not in r}
    unsteady = sum(isinstance(r.get("PyTorch"), float) and r["PyTorch"] > LIMIT for r in exported.values())
    lines = [f"{len(tried)} of {listed} listed architectures were run. The exporter writes {len(exported)}: of these "
             f"{sum(good(r, 'infer') for r in exported.values())} infer and {sum(good(r, 'train') for r in exported.values())} "
             f"train within {LIMIT:.0e} of PyTorch on all three meshes. In {unsteady} PyTorch's own float32 is further than that "
             "from its float64: there rounding alone decides the losses.", "",
             "| architecture | " + " | ".join(COLUMNS) + " | remark |", "|" + "---|" * (len(COLUMNS) + 2)]
    for name, result in exported.items():
        lines.append(f"| {name} | {' | '.join(cell(result.get(c)) for c in COLUMNS)} | {remark(result)} |")
    refused = [f"| {n} | {r['the exporter cannot']} |" for n, r in tried.items() if "the exporter cannot" in r]
    if refused:
        lines += ["", "The exporter itself cannot:", "", "| architecture | error |", "|---|---|", *refused]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--only", default="*", help="architectures that match one of these patterns, in their order: 'timm*,*bert*'")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300, help="seconds for a row")
    parser.add_argument("--json", type=pathlib.Path, help="keep rows here, and run only those that it lacks")
    parser.add_argument("--write", type=pathlib.Path, help="put the table between the marks of this page")
    args = parser.parse_args()
    from exporter_architectures import ARCHITECTURES
    results = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    chosen = dict.fromkeys(n for p in args.only.split(",") for n in ARCHITECTURES
                           if fnmatch.fnmatch(n, p) and n not in results)
    if chosen and not args.bin:
        parser.error("--bin is needed to run rows")
    if chosen:
        libraries()
    lock = threading.Lock()

    def one(name):
        result = in_a_process(name, args)
        with lock:
            results[name] = result
            print(name, json.dumps(result), file=sys.stderr, flush=True)
            if args.json:
                args.json.write_text(json.dumps(results, indent=1))

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, chosen))
    text = table({n: results[n] for n in ARCHITECTURES if n in results}, len(ARCHITECTURES))
    print(text)
    if args.write:
        page = args.write.read_text()
        if BEGIN not in page or END not in page:
            sys.exit(f"{args.write}: the lines {BEGIN} and {END} are missing")
        args.write.write_text(page.split(BEGIN)[0] + BEGIN + "\n\n" + text + "\n\n" + END + page.split(END, 1)[1])


if __name__ == "__main__":
    main()
