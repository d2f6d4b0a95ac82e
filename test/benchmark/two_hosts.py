#!/usr/bin/env python3
"""Training on two hosts with a slow cable: against PyTorch, and predicted against measured.

usage: test/benchmark/two_hosts.py --bin build/bin [--python PYTHON ...] [--networks resnet50_32,bert,gpt2] [--rates 1,10]
                                   [--rounds 3] [--steps 2] [--profiles DIR] [--seconds 0.01] [--auto] [--compress KIND]
                                   [--quick] [--json FILE]
       test/benchmark/two_hosts.py --bin build/bin --predictions [...]
       test/benchmark/two_hosts.py --bin build/bin --pipeline [--python PYTHON] [...]
       test/benchmark/two_hosts.py --bin build/bin --idle [...]

The hosts are two network namespaces with a cable whose rate tc limits (--rates, Gbit/s, each direction), and each has one core of
this machine. So it needs root, ip, tc and two cores. A rank runs on each, with one thread. All that is predicted rests on
tessera-profile: kernels on both cores at once, and collectives over the cable. DIR keeps the profiles.

Without --predictions or --pipeline: data parallel training of networks of torch_networks.py, in float32, against PyTorch's
DistributedDataParallel on gloo over the same cable. --python may be given several times: the Pythons of several versions of PyTorch
(default /usr/bin/python3; the first exports the networks, so it has onnx and torchvision). Contestants alternate. A round gives the
median step after one to warm up; the table has the median over rounds with the least and the greatest, how many times as fast
Tessera is as the fastest other, and what communication no kernel hides, measured and predicted. With --auto a
line more has Tessera with the strategies that the search takes for this cable (--mode auto), the same function. With --compress
a line more has Tessera with sums of gradients sent in these bits (bf16, f16, int8), which is another function than the others train.

--predictions: six plans of three networks at each rate, measured / predicted, and Spearman's rank correlation.

--pipeline: four wide dense layers, whose parameters outweigh their activations, at the first rate. Two stages against data parallel
on the same two ranks, the ratio predicted and measured; PyTorch's torch.distributed.pipelining with the same cut, schedule and
micro-batches (of the Pythons that have it); and how long ranks are idle, measured in traces beside predicted, of two stages there and
of four on machines that each have a share of one core (slow_machines.py; left out where the kernel gives no shares). --idle: the
last of these alone.

--quick: small networks and two rounds, to see whether all of it works. Otherwise each network of the first part takes minutes, with its
profile, and may be run by itself (--networks bert --profiles DIR). The figures count on
a quiet machine only, the profiles' too. Prints Markdown; times are milliseconds.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
import tempfile

import numpy as np

from linked_hosts import Failed, Linked, TwoHosts, predicted, run
from predicted_vs_measured import spearman
from slow_machines import SlowMachines
from versus_pytorch import peer_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/models"))
import networks  # noqa: E402

CONTESTANT = pathlib.Path(__file__).with_name("torch_contestant.py")
WARMUP = 1
LOSS = ("--train", "--loss", "cross_entropy")
STAGES, PARTS = 2, 8  # of the pipeline
SLOW = 4              # stages of the one on slow machines


def ms(seconds):
    return f"{1e3 * seconds:.1f}"


class Times:
    """Of rounds: the median step of each."""

    def __init__(self):
        self.rounds, self.exposed = [], []

    def add(self, result):
        self.rounds.append(statistics.median(result["times"][WARMUP:]))
        if "exposed" in result:
            self.exposed.append(statistics.median(result["exposed"][WARMUP:]))

    def median(self):
        return statistics.median(self.rounds)

    def text(self):
        return f"{ms(self.median())} ({ms(min(self.rounds))} to {ms(max(self.rounds))})"


def alternate(contestants, rounds):
    """{name: Times}. A contestant that fails is named, and left out from then on."""
    times = {name: Times() for name in contestants}
    for _ in range(rounds):
        for name in list(times):
            try:
                times[name].add(contestants[name]())
            except Failed as reason:
                print(f"{name} failed: {reason}", file=sys.stderr, flush=True)
                del times[name]
    return times


def torch_task(link, python, task, **options):
    """A task of torch_contestant.py on both hosts; rank 0's result."""
    out = link.together([python, CONTESTANT, task, json.dumps(options)], peer_environment(python, 1))[0]
    return json.loads(out.splitlines()[-1])


def version(python):
    return run([python, "-c", "import torch; print(torch.__version__.split('+')[0])"]).strip()


def contest(args, folder):
    """Data parallel against DistributedDataParallel."""
    names = args.networks or (["bert_small", "gpt2_small"] if args.quick else ["resnet50_32", "bert", "gpt2"])
    peers = {f"PyTorch {version(python)}": python for python in args.python}
    print(f"| network | Gbit/s | Tessera | {' | '.join(f'{peer}' for peer in peers)} | times as fast | exposed, measured | predicted "
          f"| step / predicted |\n|{'---|' * (7 + len(peers))}", flush=True)
    variants = {"Tessera": ("--mode", "data")}
    if args.auto:
        variants["mode auto"] = ("--mode", "auto")
    if args.compress:
        variants[f"sums in {args.compress}"] = ("--mode", "data", "--compress", args.compress)
    told = []
    for name in names:
        where = folder / name
        where.mkdir()
        facts = json.loads(run([args.python[0], CONTESTANT, "facts", json.dumps(
            {"network": name, "folder": str(where), "train": True})]).splitlines()[-1])
        optimizer = "adamw:lr=0.0001,weight_decay=0.01" if facts["adam"] else "sgd:lr=0.01,momentum=0.9,weight_decay=0.0005"
        options = (*LOSS, "--optimizer", optimizer)
        for rate in args.rates:
            with args.link(folder, rate) as link:
                profile, plans, exposed = link.profile(name, where / "net.onnx", options), {}, {}
                for contestant, more in variants.items():
                    plans[contestant] = link.compile(f"{name}.{len(plans)}", where / "net.onnx", "--mesh", "data=2", *options, *more,
                                                     profile=profile)
                    exposed[contestant] = []  # what a run predicts is the same every time

                def ours(contestant):
                    exposed[contestant].append(link.train(plans[contestant], [where / "x.npy", where / "y.npy"], args.steps + WARMUP))
                    return exposed[contestant][-1]

                contestants = {contestant: lambda contestant=contestant: ours(contestant) for contestant in plans}
                for peer, python in peers.items():
                    contestants[peer] = lambda python=python: torch_task(link, python, "train", network=name, threads=1, ranks=2,
                                                                         steps=args.steps + WARMUP)
                times = alternate(contestants, args.rounds)
            others = {peer: times[peer] for peer in peers if peer in times}
            best = min((t.median() for t in others.values()), default=math.nan)
            for contestant, plan in plans.items():
                if contestant not in times:
                    raise Failed(f"{name}: nothing to compare with")
                mine = times[contestant]
                row = {"network": name, "rate": rate, "contestant": contestant, "seconds": mine.median(), "predicted": predicted(plan)[0],
                       "exposed": statistics.median(mine.exposed),
                       "predicted_exposed": exposed[contestant][0]["predicted_exposed"],
                       "others": {peer: t.median() for peer, t in others.items()}}
                told.append(row)
                what = name if contestant == "Tessera" else f"{name}, {contestant}"
                print(f"| {what} | {rate:g} | {mine.text()} | {' | '.join(others[p].text() if p in others else '-' for p in peers)} | "
                      f"{best / mine.median():.2f} | {ms(row['exposed'])} | {ms(row['predicted_exposed'])} | "
                      f"{mine.median() / row['predicted']:.2f} |", flush=True)
    return told


def dense(path, width, layers):
    """Dense layers with rectifiers; a batch of any size."""
    net = networks.Network()
    x = net.input("x", ["batch", width])
    for i in range(layers):
        x = net.node("Relu", net.dense(x, f"l{i}", width, width))
    net.nodes[-1].output[0] = "logits"
    net.write(path, "logits", ["batch", width])


def data(folder, name, rows, shape, classes, target, words=0):
    """Random inputs and targets as files; words: inputs are numbers below this."""
    rng = np.random.default_rng(0)
    files = [folder / f"{name}.x.npy", folder / f"{name}.y.npy"]
    np.save(files[0], rng.integers(0, words, (rows, *shape)) if words else rng.standard_normal((rows, *shape)).astype(np.float32))
    np.save(files[1], rng.integers(0, classes, (rows, *target)))
    return files


def predictions(args, folder):
    """Plans of three networks at each rate."""
    batch, width, hidden = (8, 256, 64) if args.quick else (32, 2048, 256)
    length, words = 64, 2000
    dense(folder / "mlp.onnx", width, 4)
    networks.gpt(folder / "gpt.onnx", layers=4, hidden=hidden, heads=4, words=words, batch="batch", length=length)
    sgd = ("--optimizer", "sgd:lr=0.001")
    cases = {
        "ResNet-18": (ROOT / "test/models/resnet18_cifar_train.onnx", data(folder, "resnet", batch, (3, 32, 32), 10, ()), batch, ()),
        "MLP": (folder / "mlp.onnx", data(folder, "mlp", 8 * batch, (width,), width, ()), 8 * batch, ()),
        "GPT": (folder / "gpt.onnx", data(folder, "gpt", batch // 4, (length,), words, (length,), words), batch // 4, ("--inputs", "ids")),
    }
    plans = [("ResNet-18", "data", None), ("ResNet-18", "height", "h=x"), ("ResNet-18", "output channels", "f=x"), ("MLP", "data", None),
             ("MLP", "auto", None), ("GPT", "data", None)]
    rows = []
    for rate in args.rates:
        with args.link(folder, rate) as link:
            for name, what, pattern in plans:
                model, files, rows_of, more = cases[name]
                options = (*LOSS, *sgd, "--dim", f"batch={rows_of}", *more)
                profile = link.profile(name, model, options)
                mesh, mode = ("x=2", "semi-auto") if pattern else ("data=2", what)
                extra = ()
                if pattern:
                    one, strategy = folder / f"{name}.one", folder / f"{name}.{what}.json"
                    run([args.bin / "tessera-compile", model, "-q", "--mesh", "1", *options, "-o", one])
                    run([sys.executable, ROOT / "test/e2e/make_strategies.py", one / "report.json", mesh, pattern, "-o", strategy])
                    extra = ("--strategy", strategy)
                plan = link.compile(f"{name}.{what}", model, "--mesh", mesh, "--mode", mode, *options, *extra, profile=profile)
                times = Times()
                for _ in range(args.rounds):
                    times.add(link.train(plan, files, 2 * args.steps + WARMUP))
                rows.append({"network": name, "plan": what, "rate": rate, "seconds": times.median(), "predicted": predicted(plan)[0],
                             "text": times.text()})
    print(f"| network | plan | Gbit/s | predicted | measured | measured / predicted |\n|{'---|' * 6}")
    for row in rows:
        print(f"| {row['network']} | {row['plan']} | {row['rate']:g} | {ms(row['predicted'])} | {row['text']} | "
              f"{row['seconds'] / row['predicted']:.2f} |")
    ratios = [row["seconds"] / row["predicted"] for row in rows]
    print(f"\nMeasured / predicted is {min(ratios):.2f} to {max(ratios):.2f}; Spearman's rank correlation "
          f"{spearman([r['predicted'] for r in rows], [r['seconds'] for r in rows]):.3f}.", flush=True)
    return rows


def idle(trace):
    """The share of a traced step in which ranks do not compute: by step, the mean over the ranks."""
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    ranks = []
    for rank in {e["pid"] for e in events}:
        mine = [e for e in events if e["pid"] == rank]
        steps = sorted((e for e in mine if e.get("cat") == "step"), key=lambda e: e["ts"])
        ranks.append([1 - sum(e["dur"] for e in mine if e.get("cat") == "kernel" and step["ts"] <= e["ts"] < step["ts"] + step["dur"]) /
                      step["dur"] for step in steps])
    return [statistics.mean(shares) for shares in zip(*ranks)]


class Idle:
    """Of the rounds of a plan: the median of the traced steps of each, beside what is predicted."""

    def __init__(self, plan):
        self.predicted, self.rounds = predicted(plan)[1], []

    def measure(self, hosts, plan, files, steps):
        trace = hosts.folder / "idle.trace"
        hosts.train(plan, files, steps + WARMUP, "--trace", f"steps={WARMUP + 1}:{WARMUP + steps}", "--trace-file", trace)
        self.rounds.append(statistics.median(idle(trace)))

    def row(self, name):
        return {"name": name, "idle": statistics.median(self.rounds), "predicted_idle": self.predicted,
                "least": min(self.rounds), "most": max(self.rounds)}


def print_idle(rows):
    print(f"\n| stages | idle, measured | predicted |\n|{'---|' * 3}")
    for row in rows:
        print(f"| {row['name']} | {100 * row['idle']:.1f} % ({100 * row['least']:.1f} to {100 * row['most']:.1f}) | "
              f"{100 * row['predicted_idle']:.1f} % |", flush=True)


def pipeline(args, folder):
    """Stages against data parallel."""
    width, batch, rate = (256, 64, args.rates[0]) if args.quick else (4096, 256, args.rates[0])
    model = folder / "mlp.onnx"
    dense(model, width, 2 * STAGES)
    files = data(folder, "mlp", batch, (width,), width, ())
    options = (*LOSS, "--optimizer", "sgd:lr=0.01", "--dim", f"batch={batch}")
    parts, told, waits = ("--accumulate", PARTS), [], []
    with args.link(folder, rate) as link:
        contestants, plans = {}, {}
        plans["data parallel"] = link.compile("data", model, "--mesh", "data=2", "--mode", "data", *options,
                                              profile=link.profile("mlp.data", model, options))
        profile = link.profile("mlp.parts", model, (*options, *parts))
        for schedule in "1f1b", "gpipe":
            plans[schedule] = link.compile(schedule, model, "--mesh", f"stage={STAGES}", "--pipeline", f"schedule={schedule}", *options,
                                           *parts, profile=profile)
        for name, plan in plans.items():
            contestants[name] = lambda plan=plan: link.train(plan, files, 2 * args.steps + WARMUP)
        peers = []
        for python in args.python:
            try:
                run([python, "-c", "import torch.distributed.pipelining"])
                peers.append((python, version(python)))
            except Failed:
                print(f"PyTorch {version(python)} has no pipelines", file=sys.stderr)
        for python, number in peers:
            for schedule in "1f1b", "gpipe":
                contestants[f"PyTorch {number}, {schedule}"] = lambda python=python, schedule=schedule: torch_task(
                    link, python, "pipeline", width=width, layers=2 * STAGES, batch=batch, parts=PARTS, schedule=schedule,
                    steps=2 * args.steps + WARMUP)
        times = alternate(contestants, args.rounds)
        for schedule in "1f1b", "gpipe":
            idle_in = Idle(plans[schedule])
            for _ in range(args.rounds):
                idle_in.measure(link, plans[schedule], files, args.steps)
            waits.append(idle_in.row(f"{STAGES} hosts, {schedule}"))
    print(f"Four dense layers of {width}, batch {batch}, {PARTS} micro-batches, {rate:g} Gbit/s.\n\n"
          f"| contestant | predicted | measured | data parallel / this, predicted | measured |\n|{'---|' * 5}")
    whole = times["data parallel"].median()
    for name, mine in times.items():
        told.append({"name": name, "seconds": mine.median(), "predicted": predicted(plans[name])[0] if name in plans else None})
        if name in plans:
            print(f"| {name} | {ms(predicted(plans[name])[0])} | {mine.text()} | "
                  f"{predicted(plans['data parallel'])[0] / predicted(plans[name])[0]:.2f} | {whole / mine.median():.2f} |")
        else:
            print(f"| {name} | | {mine.text()} | | {whole / mine.median():.2f} |")
    for schedule in "1f1b", "gpipe":
        for name in times:
            if name.startswith("PyTorch") and name.endswith(schedule):
                print(f"\n{schedule}: {times[name].median() / times[schedule].median():.2f} times as fast as {name[:name.index(',')]}.")
    try:
        waits += slow_pipeline(args, folder)
    except SlowMachines.Skipped as reason:
        print(reason, file=sys.stderr)
    print_idle(waits)
    return told + waits


def slow_pipeline(args, folder):
    """How long ranks are idle on slow machines, a dense layer on each. The batch is so large that an action lasts many periods of a
    machine's share, which makes a step long: a round traces one, after those to warm up."""
    width, batch = (512, 128) if args.quick else (4096, 2048)
    model = folder / "slow.onnx"
    dense(model, width, SLOW)
    files = data(folder, "slow", batch, (width,), width, ())
    options = (*LOSS, "--optimizer", "sgd:lr=0.01", "--dim", f"batch={batch}", "--accumulate", PARTS)
    with SlowMachines(args.bin, folder, SLOW, args.profiles, args.seconds, args.limit) as machines:
        profile = machines.profile("mlp.slow", model, options)
        plans = {schedule: machines.compile(schedule, model, "--mesh", f"stage={SLOW}", "--pipeline", f"schedule={schedule}", *options,
                                            profile=profile) for schedule in ("1f1b", "gpipe")}
        waits = {schedule: Idle(plan) for schedule, plan in plans.items()}
        for _ in range(args.rounds):
            for schedule, plan in plans.items():
                waits[schedule].measure(machines, plan, files, 1)
    return [idle_in.row(f"{SLOW} slow machines, {schedule}") for schedule, idle_in in waits.items()]


def slow(args, folder):
    waits = slow_pipeline(args, folder)
    print_idle(waits)
    return waits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda kind: lambda text: [kind(part) for part in text.split(",") if part]
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--python", action="append", help="a Python that has PyTorch; may be repeated")
    parser.add_argument("--predictions", action="store_true")
    parser.add_argument("--pipeline", action="store_true")
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--networks", type=listed(str))
    parser.add_argument("--rates", type=listed(float), default=[1.0, 10.0], help="Gbit/s")
    parser.add_argument("--auto", action="store_true", help="also with the strategies that the search takes")
    parser.add_argument("--compress", metavar="KIND", help="also with sums of gradients sent so: bf16, f16, int8")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--steps", type=int, default=2, help="steps a round, after one to warm up; short ones twice as many")
    parser.add_argument("--profiles", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=0.01, help="that the profile spends on a kernel")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a contestant's round may take")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    args = parser.parse_args()
    args.bin, args.python = args.bin.resolve(), args.python or ["/usr/bin/python3"]
    args.rounds = args.rounds or (2 if args.quick else 3)
    if args.profiles:
        args.profiles.mkdir(parents=True, exist_ok=True)
    args.link = lambda folder, rate: Linked(args.bin, folder, 1e9 * rate, args.profiles, args.seconds, args.limit)
    with tempfile.TemporaryDirectory() as name:
        try:
            what = predictions if args.predictions else pipeline if args.pipeline else slow if args.idle else contest
            told = what(args, pathlib.Path(name))
        except (Failed, TwoHosts.Skipped, SlowMachines.Skipped) as reason:
            sys.exit(str(reason))
    if args.json:
        args.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
