#!/usr/bin/env python3
"""Cuts networks into stages that published planners cut, and compares. Prints the table for docs/benchmarks.md.

usage: test/benchmark/stage_planners.py FOLDER --bin build/bin [--seconds 60] [--kind part dnnp piper] [--only WORD]

FOLDER holds part.json (problems with proven optima), planners/*.json.gz (the problems of Piper, NeurIPS 2021, and of
Tarnawski et al., NeurIPS 2020), planner_figures.json (their answers) and evaluate.py, which judges every plan
anew. Seconds are the processor's.
"""
import argparse
import gzip
import importlib.util
import json
import math
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

WHOLE = 10**9  # the problems' times have fractions, ours are whole numbers


def whole(number):
    return math.ceil(number * WHOLE - 1e-3)


def from_part(p, goal):
    values = {}
    for u, v in p["edges"]:
        values.setdefault(u, []).append(v)
    return {"micro_batches": p["micro"], "stages": p["stages"], "goal": goal,
            "devices": [{"count": p["stages"], "memory": p["limit"], "bandwidth": 1}],
            "nodes": [{"forward": t, "fixed": f, "held": h} for t, f, h in zip(p["time"], p["param"], p["act"])],
            "values": [{"from": u, "to": to, "bytes": p["ship"][u]} for u, to in values.items()]}


def from_piper(p, k, gib, micro):
    degrees = sorted({c[0] for node in p["configs"] for c in node})
    nodes, sent, received = [], {}, {}
    for n, configs in enumerate(p["configs"]):
        ways = []
        for w, degree in enumerate(degrees):
            variants, synced = [], 0
            for t, again, took, params, a, b, fw, bw in configs:
                if t != degree:
                    continue
                # Piper counts what replicas add up as it counts a value: twice.
                synced = 2 * params
                for pred, extra in fw.items():
                    received.setdefault((int(pred), n), [0] * len(degrees))[w] = math.ceil(2 * extra)
                for succ, extra in bw.items():
                    sent.setdefault((n, int(succ)), [0] * len(degrees))[w] = math.ceil(2 * extra)
                variants.append({"forward": whole(took), "held": math.ceil(a), "fixed": math.ceil(b)})
            ways.append({"variants": variants, "synced": math.ceil(synced)} if variants else None)
        nodes.append({"ways": ways})
    values = []
    for u, v, size in p["edges"]:
        value = {"from": u, "to": [v], "bytes": math.ceil(2 * size)}
        if (u, v) in sent:
            value["sent"] = sent[u, v]
        if (u, v) in received:
            value["received"] = received[u, v]
        values.append(value)
    return {"micro_batches": micro, "most_replicas": k, "nodes": nodes, "values": values,
            "devices": [{"count": k, "memory": int(gib * 2**30), "bandwidth": p["bandwidth"] / WHOLE}],
            "ways": [{"size": degree} for degree in degrees]}


def from_dnnp(p):
    """Nodes of a group are one node of ours. `group` may be null."""
    place, groups = {}, []
    for n in range(p["nodes"]):
        key = n if p["group"][n] is None else ("group", p["group"][n])
        if key not in place:
            place[key] = len(groups)
            groups.append([])
        groups[place[key]].append(n)
    of = {n: g for g, nodes in enumerate(groups) for n in nodes}
    nodes = []
    for members in groups:
        fixed = sum(p["mem"][n] for n in members)
        slow = all(p["time"][n] is not None for n in members)
        ways = [{"forward": whole(sum(p["time"][n] for n in members)), "fixed": fixed} if slow else None]
        if p["cpus"]:
            ways.append({"forward": whole(sum(p["cpu_time"][n] for n in members)), "fixed": fixed})
        nodes.append({"ways": ways})
    # Some files have the backward pass as a mirror, some as a copy.
    ahead = {(of[u], of[v]) for u, v in p["edges"] if not p["backward"][u] and not p["backward"][v]}
    back = [(of[u], of[v]) for u, v in p["edges"] if p["backward"][u] and p["backward"][v]]
    mirror = sum(pair[::-1] in ahead for pair in back) >= sum(pair in ahead for pair in back)
    # A value that both passes read is sent once, and only its readers in its own pass have to lie ahead of it.
    values = []
    for u in range(p["nodes"]):
        to = [v for x, v in p["edges"] if x == u]
        if not to:
            continue
        own = sorted({of[v] for v in to if p["backward"][v] == p["backward"][u]})
        order = "backward" if p["backward"][u] and mirror else "forward"
        value = {"from": of[u], "to": sorted({of[v] for v in to}), "bytes": whole(p["ship"][u]), "order": order}
        if len(own) < len(value["to"]):
            values.append({"from": of[u], "to": own, "order": order})
            value["order"] = "any"
        values.append(value)
    devices = [{"count": p["devices"], "memory": p["limit"], "bandwidth": 1}]
    if p["cpus"]:
        devices.append({"count": p["cpus"]})
    return {"nodes": nodes, "values": values, "devices": devices}, groups


class Bench:
    def __init__(self, args):
        self.args = args
        self.problems = self.proven = self.worse = self.better = 0
        spec = importlib.util.spec_from_file_location("evaluate", args.folder / "evaluate.py")
        self.judge = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.judge)

    def load(self, name):
        path = self.args.folder / name
        return json.load(gzip.open(path) if path.suffix == ".gz" else open(path))

    def solve(self, problem):
        """The stages, the lower bound, whether it is proven, the processor's seconds; no stages where nothing fits."""
        with tempfile.TemporaryDirectory() as folder:
            path, out = pathlib.Path(folder) / "problem.json", pathlib.Path(folder) / "stages.json"
            path.write_text(json.dumps(problem))
            begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            run = subprocess.run([self.args.bin / "tessera-solve", path, "--stages", "--output", out, "--seconds",
                                  str(self.args.seconds)], capture_output=True, text=True)
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin
            if run.returncode:
                if "(proven)" not in run.stderr:
                    sys.exit(run.stderr)
                return None, None, True, seconds
            bound = int(re.search(r"lower bound +(\d+)", run.stdout)[1])
            self.downsets, self.units = re.search(r"downsets +(\d+) of (\d+)", run.stdout).groups()
            return json.loads(out.read_text())["stages"], bound, "(optimal)" in run.stdout, seconds

    def row(self, name, published, value, bound, proven, seconds):
        """What was published has six digits."""
        known = "-" if published is None else f"{published:.6g}"
        if value is None:
            assert published is None, "the published planner found something"
            print(f"| {name} | | | {known} | nothing fits | proven | {seconds:.2f} |", flush=True)
            return
        gap = "proven" if proven else f"{100 * max(0, value - bound) / value:.2f} %"
        print(f"| {name} | {self.units} | {self.downsets} | {known} | {value:.6g} | {gap} | {seconds:.2f} |", flush=True)
        self.problems += 1
        self.proven += proven
        self.worse += published is not None and value > published * (1 + 5e-6)
        self.better += published is not None and value < published * (1 - 5e-6)

    def part(self):
        for p in self.load("part.json"):
            for goal in ("bottleneck", "batch"):
                stages, bound, proven, seconds = self.solve(from_part(p, goal))
                value = self.judge.part(p, [s["nodes"] for s in stages])
                self.row(f"{p['name']} {goal}", p["best"][goal], value[goal], bound, proven, seconds)

    def dnnp(self):
        for name, figures in self.load("planner_figures.json")["dnnp"].items():
            if self.args.only not in name:
                continue
            p = self.load(f"planners/{name}.json.gz")
            problem, groups = from_dnnp(p)
            stages, bound, proven, seconds = self.solve(problem)
            split, cpu = [], []
            for s in stages:
                nodes = [n for g in s["nodes"] for n in groups[g]]
                cpu.extend(nodes) if s["way"] else split.append(nodes)
            value, fits, count = self.judge.dnnp(p, split, cpu)
            assert fits and count, (fits, count)
            best = min(figures[k] for k in ("dp", "dp_linearized", "expert", "pipedream") if k in figures)
            self.row(name, best, value, bound / WHOLE, proven, seconds)

    def piper(self):
        for f in self.load("planner_figures.json")["piper"]:
            name = f"{f['model']} {f['k']} {f['mem_gib']:g} {f['micro']}"
            if self.args.only not in name:
                continue
            p = self.load(f"planners/{f['model']}.json.gz")
            problem = from_piper(p, f["k"], f["mem_gib"], f["micro"])
            stages, bound, proven, seconds = self.solve(problem)
            value = None
            if stages:
                degrees = [w["size"] for w in problem["ways"]]
                plan = []
                for s in stages:
                    again = []
                    for n, v in zip(s["nodes"], s["variants"]):
                        configs = [c for c in p["configs"][n] if c[0] == degrees[s["way"]]]
                        if configs[v][1]:
                            again.append(n)
                    plan.append({"nodes": s["nodes"], "d": s["replicas"], "t": degrees[s["way"]], "recomp": again})
                value = self.judge.piper(p, plan, f["k"], f["mem_gib"] * 2**30, f["micro"])
                assert not isinstance(value, str), value
                bound /= WHOLE
            best = min((f[k] for k in f if k.startswith(("piper", "equi", "no_")) and f[k] is not None), default=None)
            self.row(name, best, value, bound, proven, seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="")
    parser.add_argument("--kind", nargs="*", default=["part", "dnnp", "piper"])
    bench = Bench(parser.parse_args())
    for kind in bench.args.kind:
        print("| problem | units | downsets | published | found | gap | seconds |\n|---|---|---|---|---|---|---|")
        getattr(bench, kind)()
    print(f"{bench.problems} problems that fit: {bench.proven} proven, {bench.better} better than published, "
          f"{bench.worse} worse")
    return 1 if bench.worse else 0


if __name__ == "__main__":
    sys.exit(main())
