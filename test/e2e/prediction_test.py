#!/usr/bin/env python3
"""Predictions and what they rest on: profiles, meshes that the search arranges, clusters, explanations.

usage: prediction_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import os
import pathlib
import re
import subprocess
import sys

from cases import case, main

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from networks import Network, bert, gpt, llama  # noqa: E402

TWO_RACKS = {"name": "racks", "devices": 12, "flops": {"f32": 1e11}, "memory_bandwidth": 1e12, "memory": "1GiB",
             "links": [{"devices": 6, "latency": 1e-8, "bandwidth": 1e11}, {"devices": 12, "latency": 1e-7, "bandwidth": 1e9}]}


class Context:
    def __init__(self, args, folder):
        self.bin, self.models, self.folder = args.bin, args.models, folder

    def run(self, tool, *command, code=0, **env):
        done = subprocess.run([str(c) for c in (self.bin / tool, *command)], capture_output=True, text=True, timeout=600,
                              env={**os.environ, **env})
        expect(done.returncode == code, f"{tool} {command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def compile(self, *options, mesh="data=2,model=2", out="plan", batch=24, mode="auto", code=0):
        return self.run("tessera-compile", self.models / "lenet_train.onnx", "--mesh", mesh, *(() if "--mode" in options else ("--mode", mode)), "--dim",
                        f"batch={batch}", "--train", *(("-o", self.folder / out) if out else ()), *options, code=code)

    def report(self, out="plan"):
        return json.loads((self.folder / out / "report.json").read_text())

    def write(self, name, value):
        (self.folder / name).write_text(json.dumps(value))
        return self.folder / name


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def step(report):
    return next(f for f in report["functions"] if f["name"] == "train")


@case
def a_profile_is_measured_and_used(c):
    c.compile("--dump-phases", c.folder / "phases")
    profile = c.folder / "machine.json"
    c.run("tessera-profile", c.folder / "phases/2-training.mlir", "--mesh", "data=2,model=2", "-q", "-o", profile,
          "--seconds", "1e-6", "--max-bytes", "8KiB")
    table = json.loads(profile.read_text())
    expect(any(k.startswith("graph.conv ") for k in table["kernels"]), f"convolutions: {list(table['kernels'])[:5]}")
    expect(all(s > 0 for s in table["kernels"].values()), "every time is positive")
    for key in ("all-reduce 2", "all-reduce 4", "all-gather 4", "reduce-scatter 4", "all-to-all 2"):
        sizes = [point[0] for point in table["collectives"][key]]
        expect(sizes == [1024, 8192], f"{key}: {sizes}")
    expect(table["beside"].keys() == {"hand_over", "per_byte"} and all(0 <= s < 1 for s in table["beside"].values()), table["beside"])
    sizes, times = zip(*table["loops"])
    expect(len(sizes) > 2 and sizes[-1] > 30 * sizes[0] and list(times) == sorted(times) and times[0] > 0, f"loops: {table['loops']}")
    # What the profile holds is what is predicted, for every kernel that fusion leaves alone.
    c.compile("--profile", profile, out="measured")
    operators = [o for o in step(c.report("measured"))["operators"] if o["kind"] in ("conv", "matmul", "max_pool")]
    expect(len(operators) > 8, "LeNet has convolutions, products and pools")
    for op in operators:
        key = "graph." + op["kind"] + " " + "->".join(
            ",".join("x".join(map(str, s)) for s in op[side]) for side in ("local_operands", "local_results")) + " f32"
        expect(key in table["kernels"], f"{key} was measured")
        want = table["kernels"][key] * 1e9
        expect(abs(op["compute_ns"] - want) <= 1, f"{key}: {op['compute_ns']} instead of {want}")
    # With --add-to nothing that the profile has is measured again.
    c.run("tessera-profile", c.folder / "phases/2-training.mlir", "--mesh", "data=2,model=2", "-q", "--add-to", profile,
          "--seconds", "1e-6", "--max-bytes", "8KiB", "-o", c.folder / "again.json")
    again = json.loads((c.folder / "again.json").read_text())
    expect(again["kernels"] == table["kernels"] and again["loops"] == table["loops"], "kernels and loops are kept")



@case
def a_profile_of_micro_batches_is_measured(c):
    """Kernels have the rows of a micro-batch. What picks and adds them up is no program of its own, and is left out."""
    parts = ("--accumulate", 2, "--optimizer", "sgd:lr=0.1")
    c.compile("--dump-phases", c.folder / "phases", *parts)
    profile = c.folder / "machine.json"
    c.run("tessera-profile", c.folder / "phases/2-training.mlir", "--mesh", "data=2,model=2", "-q", "-o", profile,
          "--seconds", "1e-6", "--max-bytes", "8KiB")
    kernels = json.loads(profile.read_text())["kernels"]
    expect(any(k.startswith("graph.matmul 3x") for k in kernels), f"12 rows on 4 ranks: {list(kernels)}")
    expect(not any("micro" in k or "accumulate" in k for k in kernels), f"{list(kernels)}")
    c.compile("--profile", profile, *parts)

@case
def broken_profiles_and_programs_are_refused(c):
    for value, needed in (({"kernels": {}, "collectives": {"all-reduce": [[1, 1]]}}, "'all-reduce'"),
                          ({"kernels": {}, "collectives": {"all-reduce 4": [[0, 1]]}}, "[bytes, seconds]"),
                          ({"kernels": {}, "collectives": {"all-reduce 4": []}}, "[bytes, seconds]"),
                          ({"kernels": {"x": -1}}, "'x'"), ([], "'kernels'")):
        text = c.compile("--profile", c.write("bad.json", value), code=1)
        expect(needed in text and text.count("\n") == 1, text)
    (c.folder / "bad.mlir").write_text("no program")
    text = c.run("tessera-profile", c.folder / "bad.mlir", "--mesh", "2", "-q", "--seconds", "1e-6", "--max-bytes", "1KiB",
                 "-o", c.folder / "none.json", code=1)
    expect("bad.mlir" in text and not (c.folder / "none.json").exists(), text)
    expect("at most" in c.run("tessera-profile", "--mesh", "100000", "-o", c.folder / "none.json", code=2), "too many ranks")


@case
def a_machine_with_devices_is_measured(c):
    smi = c.folder / "nvidia-smi"
    smi.write_text("""#!/bin/sh
case "$*" in
*--query-gpu=name,memory.total,*) printf 'NVIDIA H200, 143771, 5, 16\\nNVIDIA H200, 143771, 5, 16\\n';;
"topo -m") printf '\\tGPU0\\tGPU1\\tCPU Affinity\\nGPU0\\t X \\tNV18\\t0-15\\nGPU1\\tNV18\\t X \\t0-15\\n';;
*) exit 3;;
esac
""")
    smi.chmod(0o755)
    env = {"PATH": f"{c.folder}:{os.environ['PATH']}", "TESSERA_CUDA_MODULE": str(c.bin.parent / "lib/libtessera_emulator.so")}
    c.compile("--dump-phases", c.folder / "phases")
    machine, profile = c.folder / "gpus.json", c.folder / "gpu-profile.json"
    c.run("tessera-profile", c.folder / "phases/2-training.mlir", "--device", "cuda", "--mesh", "2", "-q", "--seconds", "1e-6",
          "--max-bytes", "8KiB", "-o", profile, "--write-topology", machine, **env)
    topology, table = json.loads(machine.read_text()), json.loads(profile.read_text())
    expect(topology["devices"] == 2 and topology["links"][0]["bandwidth"] == 450e9, topology)
    expect(0 < topology["memory_bandwidth"] < 1e12 and topology["launch"] > 0, "copies and launches are measured")
    expect([p[0] for p in table["collectives"]["all-reduce 2"]] == [1024, 8192], table["collectives"])
    expect(any(k.startswith("graph.conv ") for k in table["kernels"]), f"convolutions: {list(table['kernels'])[:5]}")
    c.compile("--topology", machine, "--profile", profile, mesh="2", out="measured")
    # Impossible combinations are refused in one sentence.
    text = c.run("tessera-profile", "--device", "cuda", "--mesh", "16", "-q", "-o", profile, code=1, **env)
    expect("8 CUDA devices for 16 ranks" in text, text)
    smi.write_text("#!/bin/sh\necho 'Failed to initialize NVML'\nexit 9\n")
    text = c.run("tessera-profile", "--device", "cuda", "--write-topology", c.folder / "none.json", code=1, **env)
    expect("NVML" in text and not (c.folder / "none.json").exists(), text)


@case
def the_cores_of_a_machine_are_measured(c):
    machine = c.folder / "cores.json"
    text = c.run("tessera-profile", "--write-topology", machine, "--seconds", "0.001")
    expect("of a core in bf16" in text and "through memory" in text, text)
    topology, cores = json.loads(machine.read_text()), len(os.sched_getaffinity(0))
    expect(topology["shared"] and topology["devices"] == cores, topology)
    expect(all(1e6 < topology["flops"][kind] < 1e13 for kind in ("f64", "f32", "f16")), topology["flops"])
    expect(1e6 < topology["memory_bandwidth"] < 1e13 and 0 < topology["launch"] < 1, topology)
    expect(topology["links"][-1]["devices"] == cores, topology["links"])
    timed = {f"graph.{op}" for op in ("attention", "attention_grad")} | {
        f"graph.conv{gradient}{kind}" for gradient in ("", "_input_grad", "_weight_grad") for kind in ("", " large 3x3")}
    expect(topology["operators"].keys() == timed, topology)
    expect(all(1e6 < rate < 1e13 for rate in (topology["loop_flops"], *topology["operators"].values())), topology)
    c.compile("--topology", machine, mesh="2", out="measured")
    # What GPUs have is nothing that cores could be like.
    text = c.run("tessera-profile", "--write-topology", machine, "--like", "8xh100", code=2)
    expect("--device cuda" in text, text)


@case
def this_machine_is_measured_once(c):
    cache, says = {"TESSERA_CACHE_DIR": str(c.folder / "cache")}, "measures this machine's cores"

    def compiled(out, topology, **env):
        return c.run("tessera-compile", c.models / "lenet_train.onnx", "--mesh", "2", "--dim", "batch=24", "--train",
                     *(["--topology", topology] if topology else []), "-o", c.folder / out, **cache, **env)

    def files(out):
        return {f.name: f.read_bytes() for f in (c.folder / out).iterdir() if f.name != "compile.json"}

    first, second = compiled("first", None, TESSERA_TOPOLOGY=""), compiled("second", "host")  # the default, and by name
    expect(says in first and cache["TESSERA_CACHE_DIR"] in first and "topology host" in first, first)
    expect(says not in second and files("first") == files("second"), f"measured again: {second}")
    # Whoever compiles again, elsewhere, has the same figures.
    arguments = json.loads((c.folder / "first/compile.json").read_text())["arguments"]
    measured = json.loads(next(a for a in arguments if a.startswith("--topology=")).removeprefix("--topology="))
    expect(measured["devices"] == len(os.sched_getaffinity(0)) and measured["loop_flops"] > 0, measured)
    compiled("third", json.dumps(measured))
    expect(files("first") == files("third"), "the text of a topology is the topology")
    text = compiled("four", "4xhost")
    expect(says not in text and "topology 4xhost" in text, text)
    # Another limit of the kernels is another machine. Asked to, it measures again.
    c.run("tessera-profile", "--host", "--seconds", "0.001", "-q", **cache, ONEDNN_MAX_CPU_ISA="AVX2")
    expect(says not in compiled("narrow", "host", ONEDNN_MAX_CPU_ISA="AVX2"), "measured by hand")
    expect(len(list((c.folder / "cache").iterdir())) == 2, "two machines are kept")


@case
def a_machine_that_cannot_be_measured_is_the_preset(c):
    text = c.run("tessera-compile", c.models / "lenet_train.onnx", "--mesh", "2", "--dim", "batch=24", "--train", "--topology", "2xhost",
                 "-o", c.folder / "plan", TESSERA_CACHE_DIR="/proc/none")
    expect("'cpu' stands in for 'host'" in text and "TESSERA_CACHE_DIR" in text and "topology 2xcpu" in text, text)
    text = c.run("tessera-profile", "--host", "--seconds", "0.001", "-q", TESSERA_CACHE_DIR="/proc/none", code=1)
    expect("no cache folder" in text and text.count("\n") == 1, text)
    expect("--device" in c.run("tessera-profile", "--host", "--device", "cuda", code=2), "devices are measured otherwise")


@case
def a_number_of_ranks_is_arranged_by_the_search(c):
    machine = c.write("racks.json", TWO_RACKS)
    text = c.compile("--topology", machine, mesh="12")
    meshes = c.report()["meshes"]
    names = {m["mesh"] for m in meshes}
    # The candidates are twelve ranks in one row, and every arrangement that differs in its links.
    expect({"data=12", "x=2,y=6", "x=6,y=2", "x=3,y=4"} <= names, f"meshes: {names}")
    expect(any(m.count("=") == 3 for m in names), f"three axes: {names}")
    times = [m["predicted_ns"] for m in meshes]
    expect(times == sorted(times), "the cheapest first")
    expect(c.report()["mesh"] == meshes[0]["mesh"], "the cheapest is taken")
    expect(all(m["mesh"] in text for m in meshes), "runners-up are printed")
    # Named axes are kept as the user gave them.
    c.compile("--topology", machine, mesh="data=12", out="named")
    expect("meshes" not in c.report("named") and c.report("named")["mesh"] == "data=12", "a named mesh is kept")


@case
def clusters_are_predicted(c):
    text = c.compile("--topology", "8xh100", "--what-if", "nodes=1,2,4", "-q", mesh="data=8", mode="data", batch=1024, out=None)
    expect("strong scaling" in text.splitlines()[0], text)
    rows = [line.split() for line in text.splitlines()[2:]]
    expect([(r[0], r[1]) for r in rows] == [("1", "8"), ("2", "16"), ("4", "32")], text)
    efficiency = [float(r[6]) for r in rows]
    expect(efficiency[0] == 100 and efficiency == sorted(efficiency, reverse=True), f"efficiency falls: {text}")
    memory = [float(r[8]) for r in rows]
    expect(memory[0] > memory[1] > memory[2], f"the batch is cut further: {text}")
    # Errors: two axes for one level of machines, and a machine that does not say how it is joined.
    expect("'node'" in c.compile("--topology", "8xh100", "--what-if", "nodes=2", "-q", mesh="node=8", out=None, code=1), "axis")
    expect("'network'" in c.compile("--topology", c.write("racks.json", TWO_RACKS), "--what-if", "nodes=2", "-q",
                                    mesh="data=12", out=None, code=1), "network")
    # A batch that grows with the machines leaves each rank its work, and adds what goes between machines.
    text = c.compile("--topology", "8xh100", "--what-if", "nodes=1,2,4,grow=batch", "-q", mesh="data=8", mode="data", batch=1024, out=None)
    expect("batch grows with the machines (weak scaling)" in text.splitlines()[0], text)
    weak = [line.split() for line in text.splitlines()[2:]]
    # On four machines both steps are mostly messages, whose choice is a heuristic's: more work may seem shorter by 0.5 %.
    expect(weak[0] == rows[0] and float(weak[2][2]) > 0.99 * float(rows[2][2]) and float(rows[2][6]) < float(weak[2][6]) < 100, text)
    # Between machines collectives run beside kernels, which may be in another order then.
    held = [float(r[8]) for r in weak]
    expect(0.5 * held[0] < min(held) and max(held) < 1.005 * held[0] and [r[9] for r in weak] == [rows[0][9]] * 3, f"no more memory: {text}")
    expect("--dim rows=N" in c.compile("--what-if", "nodes=1,grow=rows", out=None, code=1), "which dimension")
    for bad in ("nodes=", "nodes=0", "2,4", "nodes=1,x", "nodes=grow=batch", "nodes=1,grow="):
        expect("--what-if" in c.compile("--what-if", bad, out=None, code=2), bad)
    expect("-o DIR" in c.compile(out=None, code=2), "an output is needed")


@case
def other_batches_and_limits_are_predicted(c):
    c.compile(batch=16)
    report = c.report()
    fits = report["memory"]["arena_bytes"]
    asked = ("--what-if", "batch=8,16,7", "--what-if", f"memory={2 * fits},{fits},1KiB")
    told = json.loads(c.compile(*asked, "--json", batch=16, out=None))
    sizes, limits = told["sizes"], told["limits"]
    expect(told["dim"] == "batch" and told["clusters"] == [], told)
    expect([s["size"] for s in sizes] == [8, 16, 7] and [x["limit"] for x in limits] == [2 * fits, fits, 1024], told)
    same = step(report)
    expect(sizes[1]["predicted_ns"] == same["compute_ns"] + same["communication_ns"] and sizes[1]["memory_bytes"] == fits, told)
    expect(sizes[0]["predicted_ns"] < sizes[1]["predicted_ns"] and sizes[0]["memory_bytes"] < fits, told)
    for s in sizes:
        rate = s["size"] / s["predicted_ns"]
        expect(abs(s["efficiency"] - rate / (8 / sizes[0]["predicted_ns"])) < 1e-9, told)
    expect(limits[0]["predicted_ns"] == sizes[1]["predicted_ns"] and limits[0]["efficiency"] == 1, told)
    expect(limits[1]["memory_bytes"] <= fits and limits[1]["predicted_ns"] >= limits[0]["predicted_ns"], told)  # messages may be smaller
    expect("1.00 KiB" in limits[2]["error"], told)
    relative = json.loads(c.compile("--what-if", f"memory=1KiB,{2 * fits}", "--json", batch=16, out=None))["limits"]
    expect("efficiency" not in relative[0] and relative[1]["efficiency"] == 1, f"relative to the first that fits: {relative}")
    # With -o the report has the tables; the same as text.
    text = c.compile(*asked, batch=16)
    expect(c.report()["what_if"] == told, "the report has other tables")
    expect("another batch" in text and "another limit of memory" in text and re.search(r"^ +16 +[\d.]+ ms", text, re.M), text)
    for bad, needed in (("rows=1,2", "--dim rows=N"), ("batch=", "--what-if"), ("batch=0", "--what-if"), ("memory=x", "--what-if"),
                        ("memory=-1GiB", "--what-if"), ("nodes=1", "already")):
        more = ("--what-if", "nodes=2") if bad == "nodes=1" else ()
        text = c.compile(*more, "--what-if", bad, out=None, code=2)
        expect(needed in text and text.count("\n") == 1, text)


@case
def stages_and_meshes_are_predicted_as_they_are_compiled(c):
    """Every line is what a compile for that many ranks says: of given stages, of chosen ones, of a chosen mesh."""
    for options, mesh, larger in ((("--accumulate", 2), "stage=2,data=2", "stage=2,node=2,data=2"),
                                  (("--accumulate", 2, "--pipeline", "auto"), "4", "8"), ((), "4", "8")):
        def compiled(ranks, batch, *more):
            c.compile(*options, *more, mesh=ranks, batch=batch)
            report = c.report()
            predicted = report["pipeline"]["predicted_ns"] if "pipeline" in report else sum(
                step(report)[k] for k in ("compute_ns", "communication_ns"))
            return report["mesh"], predicted, report["memory"]["arena_bytes"]

        told = json.loads(c.compile(*options, "--topology", "8xh100", "--what-if", "nodes=1,2", "--what-if", "batch=16,24",
                                    "--what-if", "memory=8GiB,1KiB", "--json", mesh=mesh, batch=24, out=None))
        lines = [told["clusters"][0], told["clusters"][1], *told["sizes"], told["limits"][0]]
        expect([line["ranks"] for line in lines] == [4, 8, 4, 4, 4] and "error" in told["limits"][1], told)
        same = compiled(mesh, 24, "--topology", "8xh100")
        for line, expected in zip(lines, (same, compiled(larger, 24, "--topology", "2x8xh100"),
                                          compiled(mesh, 16, "--topology", "8xh100"), same, same)):
            expect((line["mesh"], line["predicted_ns"], line["memory_bytes"]) == expected, f"{line} is not {expected}")
    text = c.compile("--accumulate", 2, "--pipeline", "auto", "--topology", "8xh100", "--what-if", "nodes=1", mesh="2", out=None)
    expect(re.search(r"MiB|KiB  on [a-z=,0-9]+", text), text)


@case
def everything_is_printed_as_json(c):
    told = json.loads(c.compile("--json"))
    expect(told == c.report(), "--json prints another report")
    told = json.loads(c.compile("--json", "--search-only", out=None))
    search = told["functions"][0]["search"]
    expect(search["options"] > 0 and "memory" not in told and told["model"] == "lenet_train.onnx", told)
    roles = json.loads(c.run("tessera-compile", c.models / "lenet_train.onnx", "--dim", "batch=8", "--list-parameters", "--train", "--json"))
    expect(roles == told["parameters"] and roles[0]["role"] == "trained", roles)
    c.compile("--json", "-q", code=2)


@case
def a_search_alone_writes_nothing(c):
    text = c.compile("--search-only", out=None)
    c.compile()
    search = step(c.report())["search"]
    expect(f"search: {search['nodes']} nodes, {search['options']} options" in text, text)
    expect("plan  " not in text and sorted(p.name for p in c.folder.iterdir()) == ["plan"], text)
    expect("--search-only" in c.compile("--search-only", code=2), "no output beside it")


@case
def a_search_alone_knows_memory_recomputation_and_strategies(c):
    def memory(text):
        number, unit = re.search(r"memory +about ([0-9.]+) (\w+) per rank", text).groups()
        return float(number) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]

    saved = c.folder / "saved.json"
    text = c.compile("--search-only", "--save-strategies", saved, out=None)
    c.compile()
    expect(json.loads(saved.read_text()) == json.loads((c.folder / "plan" / "strategies.json").read_text()), "the same strategies")
    full = c.compile("--search-only", "--recompute", "full", "--mode", "data", out=None)
    kept = c.compile("--search-only", "--mode", "data", out=None)
    expect(memory(full) < memory(kept) and "recompute    full" in full, f"{full}{kept}")
    # Less than what keeping everything takes: refused, but for those who let something be made again.
    limit = f"{int((memory(full) + memory(kept)) / 2) >> 10}KiB"
    text = c.compile("--search-only", "--mode", "data", "--memory", limit, out=None, code=1)
    expect("the plan needs" in text and "--recompute auto" in text, text)
    text = c.compile("--search-only", "--mode", "data", "--memory", limit, "--recompute", "auto", out=None)
    expect("recompute    " in text, text)
    text = c.compile("--search-only", "--memory", "100KiB", out=None, code=1)
    expect("no assignment of strategies fits in 100.00 KiB" in text, text)


@case
def a_search_alone_searches_again_for_less_memory(c):
    # What lives at once is known only after the choice. Under this limit it is more than the search summed.
    llama(c.folder / "llama.onnx", layers=8, hidden=1024, heads=8, groups=2, inner=3584, words=16000, batch=8, length=1024)
    text = c.run("tessera-compile", c.folder / "llama.onnx", "--inputs", "ids", "--mesh", "data=4,model=2", "--topology", "8xh100",
                 "--mode", "auto", "--train", "--loss", "cross_entropy", "--optimizer", "adam:lr=0.001", "--precision", "bf16",
                 "--memory", "720MiB", "--search-only")
    expect("searching again with copies of parameters that may expire" in text and "memory       about 7" in text, text)


@case
def mode_data_says_how_it_cuts_a_batch_that_ranks_do_not_divide(c):
    text = c.compile(mesh="a=3,b=4", mode="data", batch=32)
    expect("warning: mode data cuts the batch of 32 ('image') in 4 parts, not in 12: groups of 3 ranks compute the same" in text, text)
    text = c.compile("--search-only", mesh="data=8", mode="data", batch=6, out=None)
    expect("in 1 parts, not in 8" in text, text)
    text = c.compile(mesh="data=4", mode="data", batch=6)
    expect("pads the batch of 6 ('image') to 4 blocks of 2" in text, text)
    expect("the batch" not in c.compile(mesh="data=4", mode="data", batch=8), "nothing to say")


@case
def several_machines_are_a_topology(c):
    c.compile("--topology", "2x8xh100", mesh="node=2,data=8", batch=32)
    expect(c.report()["topology"] == "2x8xh100", c.report()["topology"])
    expect("machines" in c.compile("--topology", "999999999x8xh100", code=1), "too many")
    expect("neither a preset" in c.compile("--topology", "2x9xh100", code=1), "no such preset")
    expect("16 devices" in c.compile("--topology", "2x8xh100", mesh="data=17", batch=17, code=1), "a mesh that is too large")


@case
def estimated_memory_is_what_the_arena_takes(c):
    for model, inputs, mesh, mode, batch in (("mlp_train", "image", "model=4", "auto", 64),
                                             ("resnet18_cifar_train", "image", "data=2,model=2", "auto", 16),
                                             ("resnet18_cifar_train", "image", "data=4", "data", 16),
                                             (gpt, "ids", "data=2,model=2", "auto", 16),
                                             (bert, "ids,segments", "data=4", "data", 16)):
        if isinstance(model, str):
            path, sizes = c.models / f"{model}.onnx", ("--dim", f"batch={batch}")
        else:
            path, sizes = c.folder / f"{model.__name__}.onnx", ()
            model(path, layers=2, hidden=128, heads=4, batch=batch, length=32, words=500)
        c.run("tessera-compile", path, *sizes, "--mesh", mesh, "--mode", mode, "--inputs", inputs, "--train", "--optimizer",
              "adam:lr=0.001", "-q", "-o", c.folder / "plan")
        report = c.report()
        ratio = step(report)["peak_bytes_estimate"] / report["memory"]["arena_bytes"]
        expect(0.97 < ratio < 1.1, f"{path.name} on {mesh}: estimated {ratio:.3f} of the arena")


@case
def the_batch_at_which_a_runner_up_wins_is_told(c):
    """Two dense layers: data parallel, until a batch so small that cutting the weights moves less."""
    machine = c.write("row.json", {"name": "row", "devices": 4, "flops": {"f32": 1e12}, "memory_bandwidth": 1e14,
                                   "memory": "16GiB", "links": [{"devices": 4, "latency": 1e-10, "bandwidth": 1e11}]})

    def chosen(batch):
        net = Network()
        x = net.input("x", [batch, 256])
        x = net.dense(net.node("Relu", net.dense(x, "fc0", 256, 256)), "fc1", 256, 256)
        net.write(c.folder / "two.onnx", x, [batch, 256])
        c.run("tessera-compile", c.folder / "two.onnx", "--mesh", "x=4", "--mode", "auto", "--train", "--loss", "mse", "--inputs",
              "x", "--optimizer", "adam:lr=0.001", "--topology", machine, "--search-gap", "0", "-q", "-o", c.folder / "plan")
        return next(o for o in step(c.report())["operators"] if o["name"] == "fc1")["strategy"]

    expect(chosen(512) == "m=x", "a large batch is data parallel")
    text = c.run("tessera-dump", c.folder / "plan", "--explain", "fc1")
    found = re.search(r"^    k=x.*; would win with a batch ([0-9.]+) times as small", text, re.M)
    expect(found, text)
    # Only neighbours follow in this comparison. Where operators farther away change as well, another choice wins earlier.
    tipping = 512 / float(found[1])
    expect(chosen(int(0.95 * tipping) // 4 * 4) != "m=x", f"below {tipping} it is cut otherwise")


@case
def the_limit_of_memory_at_which_a_runner_up_wins_is_told(c):
    c.compile(batch=64)
    text = c.run("tessera-dump", c.folder / "plan", "--explain", "/conv1/Conv")
    found = re.search(r" a limit of memory between (\S+) (\S+) and (\S+) (\S+)$", text, re.M)
    expect(found and found[2] == found[4] == "KiB" and float(found[1]) < float(found[3]), text)


@case
def alternatives_are_explained(c):
    c.compile()
    text = c.run("tessera-dump", c.folder / "plan", "--explain", "/fc1/Gemm")
    block = text[text.index("/fc1/Gemm ("):]
    lines = re.findall(r"^    .*: [+-][0-9.]+ us = compute [+-][0-9.]+ us, communication [+-][0-9.]+ us.*; (.*)$", block, re.M)
    expect(1 <= len(lines), text)
    way = r"(links|a batch) [0-9.e+-]+ times as (fast|slow|large|small)|a limit of memory between [^,]+"
    expect(all(re.fullmatch(rf"as good|would win with ({way})(, or ({way}))*|no speed of the links, batch or limit .*", x)
               for x in lines), str(lines))
    search = step(c.report())["search"]
    left = search["cost_ns"] - search["lower_bound_ns"]
    for op in step(c.report())["operators"]:
        more = [a["more_compute_ns"] + a["more_communication_ns"] for a in op.get("alternatives", [])]
        expect(len(more) <= 3 and more == sorted(more), f"{op['name']}: {more}")
        # No exchange improves the search's answer by more than what is left to its proven bound.
        expect(all(m >= -left for m in more), f"{op['name']}: {more}")


if __name__ == "__main__":
    main(__doc__, Context)
