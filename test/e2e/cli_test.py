#!/usr/bin/env python3
"""The programs as a person uses them: round trips, bad input, MPI.

usage: cli_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import filecmp
import json
import re
import resource
import shutil
import subprocess

import numpy as np

from cases import Programs, case, main


class Context(Programs):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        rng = np.random.default_rng(3)
        np.save(folder / "x.npy", rng.standard_normal((8, 1, 28, 28)).astype(np.float32))
        np.save(folder / "y.npy", rng.integers(0, 10, 8).astype(np.int64))
        self.data = f"npy:{folder}/x.npy,{folder}/y.npy"

    def compile(self, *options, model="lenet_train.onnx", mesh="data=2,model=2", mode="auto", out="plan", code=0):
        return self.run(self.bin / "tessera-compile", self.models / model, "--mesh", mesh, "--mode", mode, "--dim",
                        "batch=8", "--train", "--loss", "cross_entropy", "--optimizer", "sgd:lr=0.01", *options, "-o",
                        self.folder / out, code=code)

    def train(self, plan="plan", *options, steps=2, code=0, launcher=()):
        return self.run(*launcher, self.bin / "tessera-run", self.folder / plan, "--data", self.data, "--steps", steps,
                        *options, code=code)

    def losses(self, plan, *options, **kwargs):
        log = self.folder / f"{plan}.jsonl"
        log.unlink(missing_ok=True)
        self.train(plan, "--log", log, *options, **kwargs)
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def fails(text, *needed):
    """An error is one line that says what is needed."""
    for part in needed:
        expect(part in text, f"expected '{part}' in: {text}")
    expect(len([line for line in text.splitlines() if "error" in line or re.match(r"tessera-\w+:", line)]) == 1,
           f"expected one error line: {text}")


@case
def help_says_where_the_classes_are(c):
    text = " ".join(c.run(c.bin / "tessera-compile", "--help").split())
    expect("Classes are the last dimension of an output of two or three, and dimension 1 of one with more; class_dim=N names "
           "another" in text, text)
    for options in ("label_smoothing=X", "ignore_index=N", "class_dim=N", "output=N"):
        expect(options in text.split("--optimizer TEXT")[0].split("--loss TEXT")[1], options)


@case
def memory_that_runs_out_is_one_error(c):
    """A plan file of 60 MiB is read where the process may have 300."""
    c.compile(mesh="1", mode="data", out="large")
    unknown = b"\xa2\x1f" + b"\x80\x80\x80\x1e" + b"x" * (60 << 20)  # field 500, of which no reader knows anything
    with open(c.folder / "large/rank0.plan", "ab") as plan:
        plan.write(unknown)
    for program, *options in (("tessera-run", "--data", c.data), ("tessera-dump",)):
        done = subprocess.run([str(c.bin / program), str(c.folder / "large"), *options], capture_output=True, text=True,
                              preexec_fn=lambda: (resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20)),
                                                  resource.setrlimit(resource.RLIMIT_CORE, (0, 0))))
        expect(done.returncode == 1, f"{program}: exit code {done.returncode}: {done.stderr}")
        fails(done.stderr, f"{program}: memory has run out; raise the limit")


@case
def strategies_round_trip(c):
    c.compile("--save-strategies", c.folder / "s.json")
    c.compile("--strategy", c.folder / "s.json", out="again")
    c.compile("--save-strategies", c.folder / "s3.json", out="third")
    for rank in range(4):
        for other in ("again", "third"):
            expect(filecmp.cmp(c.folder / f"plan/rank{rank}.plan", c.folder / f"{other}/rank{rank}.plan", shallow=False),
                   f"rank{rank}.plan differs between plan and {other}")
    expect(filecmp.cmp(c.folder / "s.json", c.folder / "s3.json", shallow=False), "saved strategies differ")


@case
def same_run_twice_is_bit_identical(c):
    c.compile()
    expect(c.losses("plan") == c.losses("plan"), "two runs of one plan differ")


@case
def the_log_has_rate_and_norm_as_the_program_computes_them(c):
    runs = {}
    for mesh, options in (("1", ()), ("data=2,model=2", ()), ("data=2,model=2", ("--verify",))):
        c.compile("--schedule", "cosine:steps=4,warmup=2,min=0.001", "--clip-norm", "0.5", mesh=mesh)
        if options:
            c.train("plan", *options)
            continue
        c.train("plan", "--log", c.folder / "log.jsonl", "--tensorboard", c.folder / mesh, steps=7)
        runs[mesh] = [json.loads(line) for line in (c.folder / "log.jsonl").read_text().splitlines()]
        events = b"".join(f.read_bytes() for f in (c.folder / mesh).iterdir())
        expect(events.count(b"train/learning_rate") == 7 and events.count(b"train/gradient_norm") == 7, "no such scalars")
    for lines in runs.values():
        for t, line in enumerate(lines):
            since = min(max(t - 2, 0), 4)
            rate = (0.001 + (0.01 - 0.001) * (1 + np.cos(np.pi * since / 4)) / 2) * min((t + 1) / 2, 1)
            expect(abs(line["learning_rate"] / rate - 1) < 1e-5, f"step {t + 1}: {line}, expected {rate}")
    one, four = ([line["gradient_norm"] for line in lines] for lines in runs.values())
    np.testing.assert_allclose(one, four, rtol=1e-3)
    expect(min(one) > 0.5 and len(set(one)) == 7, f"norms of clipped gradients: {one}")
    c.compile(mesh="1")  # a constant rate, no clipping
    c.train("plan", "--log", c.folder / "log.jsonl")
    last = json.loads((c.folder / "log.jsonl").read_text().splitlines()[-1])
    expect(abs(last["learning_rate"] / 0.01 - 1) < 1e-6 and "gradient_norm" not in last, f"{last}")


@case
def mpi_equals_threads(c):
    if not shutil.which("mpirun"):
        return print("skipped: no mpirun")
    c.compile()
    threads = c.losses("plan")
    mpi = c.losses("plan", launcher=("mpirun", "-n", "4", "--oversubscribe"))
    expect(threads == mpi, f"threads {threads}, MPI {mpi}")


@case
def infer_writes_outputs_that_do_not_depend_on_the_mesh(c):
    outputs = []
    for mesh in ("1", "data=2,model=2", "data=3", "data=5"):  # the last two do not divide the batch of 8
        c.run(c.bin / "tessera-compile", c.models / "lenet_eval.onnx", "--mesh", mesh, "--mode", "auto", "--dim",
              "batch=8", "--seed", "5", "-o", c.folder / mesh)
        c.run(c.bin / "tessera-run", c.folder / mesh, "--data", f"npy:{c.folder}/x.npy", "--infer", "--output",
              c.folder / f"out-{mesh}")
        files = sorted((c.folder / f"out-{mesh}").glob("*.npy"))
        expect(len(files) == 1, f"expected one output, found {files}")
        outputs.append(np.load(files[0]))
    expect(outputs[0].shape == (8, 10) and np.abs(outputs[0]).max() > 0, "outputs are empty")
    for other in outputs[1:]:
        np.testing.assert_allclose(outputs[0], other, rtol=1e-5, atol=1e-6 * np.abs(outputs[0]).max())


@case
def infer_tells_latency_and_throughput(c):
    np.save(c.folder / "many.npy", np.zeros((8 * 7, 1, 28, 28), np.float32))
    names = ["batches", "warmup_batches", "latency_median", "latency_p90", "latency_p99", "samples_per_second"]
    for mesh in ("1", "data=2"):
        plan, log, events = c.folder / mesh, c.folder / "infer.jsonl", c.folder / f"events-{mesh}"
        c.run(c.bin / "tessera-compile", c.models / "lenet_eval.onnx", "--mesh", mesh, "--mode", "data", "--dim", "batch=8",
              "-o", plan)
        infer = lambda *options: c.run(c.bin / "tessera-run", plan, "--data", f"npy:{c.folder}/many.npy", "--infer",
                                       "--output", c.folder / "out", *options)
        told = re.search(r"latency of a batch: median ([\d.e-]+) ms, p90 ([\d.e-]+) ms, p99 ([\d.e-]+) ms, over 4 batches "
                         r"after 3 to warm up; ([\d.e+]+) samples/s", infer("--log", log, "--tensorboard", events))
        expect(told, "no latency is told")
        *batches, last = [json.loads(line) for line in log.read_text().splitlines()]
        expect([b["step"] for b in batches] == list(range(1, 8)) and all(b["infer"] == 1 for b in batches), batches)
        seconds = sorted(b["seconds"] for b in batches[3:])
        expect([last[n] for n in names[:5]] == [4, 3, seconds[1], seconds[3], seconds[3]], f"{last} of {seconds}")
        np.testing.assert_allclose(last["samples_per_second"], 32 / sum(seconds), rtol=1e-12)
        np.testing.assert_allclose([float(x) for x in told.groups()],
                                   [seconds[1] * 1e3, seconds[3] * 1e3, seconds[3] * 1e3, 32 / sum(seconds)], rtol=1e-3)
        scalars = b"".join(f.read_bytes() for f in events.iterdir())
        expect(scalars.count(b"infer/seconds") == 7 and scalars.count(b"infer/latency_p99") == 1, "no such scalars")
        alone = json.loads(infer("--json"))
        expect(list(alone) == names and alone["batches"] == 4 and 0 < alone["latency_median"] <= alone["latency_p99"], alone)
    fails(c.train("1", "--json", code=2), "--json is for --check and --infer")


@case
def profile_tells_limits_and_losses(c):
    c.compile(mesh="data=2", mode="data")
    text = c.train("plan", "--profile", steps=3)
    table = text[text.index("this machine's limits, measured now: "):].splitlines()
    expect(re.fullmatch(r".*: products [\d.e+]+ GFLOP/s in f32; memory [\d.e+]+ GB/s", table[0]), table[0])
    limit, share, total = re.fullmatch(r"at them a run takes ([\d.]+) ms, (\d+) % of ([\d.]+) ms:", table[1]).groups()
    kinds, losses = {}, []
    for line in table[3:]:
        if row := re.fullmatch(r" +([\d.]+) +\d+ % +\d+ % +(\S+) +(\S+ %|-) +\S+ +\d+ % +(\d+)  (.*)", line):
            kinds[row[5]] = float(row[1]), row[2], int(row[4])
        elif row := re.fullmatch(r" +([\d.]+) ms  (.*): \d+ calls? at (\d+) % of the limit by (arithmetic|memory)", line):
            losses.append((float(row[1]), row[2].split(",")[0]))
    expect({"conv f32", "conv_weight_grad f32", "matmul f32", "all-reduce"} <= kinds.keys(), kinds)
    expect(kinds["conv f32"][1:] != ("-", 0) and float(kinds["matmul f32"][1]) > 0 and kinds["all-reduce"][1] == "-", kinds)
    # Each row is rounded to a microsecond, and the total to four digits. A step here takes a quarter of a millisecond.
    rounded = len(kinds) * 0.0005 + float(total) * 0.0005
    np.testing.assert_allclose(sum(ms for ms, *_ in kinds.values()), float(total), atol=rounded, rtol=0)
    expect(0 < float(limit) and abs(float(limit) / float(total) * 100 - int(share)) < 2, table[1])
    expect(len(losses) == 3 and losses == sorted(losses, reverse=True) and all(kind in kinds for _, kind in losses), losses)


@case
def training_resumes(c):
    c.compile()
    whole = c.losses("plan", steps=4)
    c.train("plan", "--checkpoint-dir", c.folder / "ckpt", steps=2)
    rest = c.losses("plan", "--resume", c.folder / "ckpt", steps=4)
    expect(whole[-1] == rest[-1], f"uninterrupted {whole}, resumed {rest}")


@case
def checkpoints_of_padded_blocks_hold_whole_tensors(c):
    (c.folder / "s.json").write_text(json.dumps([{"op": "/fc2/Gemm", "in": [[1, 1], [5, 1]]},
                                                 {"op": "/fc3/Gemm", "in": [[1, 5], [1, 5]]}]))
    c.compile(out="one", mesh="1", mode="data")
    c.compile("--strategy", c.folder / "s.json", out="five", mesh="model=5", mode="semi-auto")  # 84 rows on 5 ranks
    whole = c.losses("one", steps=4)
    c.train("five", "--verify")
    c.train("five", "--checkpoint-dir", c.folder / "ckpt", steps=2)
    rest = c.losses("one", "--resume", c.folder / "ckpt", steps=4)
    np.testing.assert_allclose(whole[-1], rest[-1], rtol=1e-4)


@case
def verify_agrees(c):
    c.compile()
    expect("verified" in c.train("plan", "--verify"), "no word of verification")


@case
def dump_shows_operators_and_memory(c):
    c.compile()
    text = c.run(c.bin / "tessera-dump", c.folder / "plan")
    for part in ("/conv1/Conv", "memory", "all-reduce"):
        expect(part in text, f"expected '{part}' in the dump:\n{text}")
    # By default the model's own operators are shown. Whether an operator is a gradient or an update stands in a field
    # of the report, and is not told from its name.
    every = c.run(c.bin / "tessera-dump", c.folder / "plan", "--all")
    report = json.loads(c.run(c.bin / "tessera-dump", c.folder / "plan", "--json"))
    operators = report["functions"][0]["operators"]
    for field, of in (("gradient_of", "/conv1/Conv"), ("update_of", "conv1.weight")):
        names = [op["name"] for op in operators if op.get(field) == of]
        expect(names, f"no operator with {field} {of}")
        expect(all(f"  {name} " in every and f"  {name} " not in text for name in names), f"{names}:\n{text}\n{every}")
    expect("/conv1/Conv" in c.run(c.bin / "tessera-dump", c.folder / "plan", "--explain", "/conv1/Conv"), "explain")
    explained = json.loads(c.run(c.bin / "tessera-dump", c.folder / "plan", "--explain", "/conv1/Conv", "--json"))
    expect(explained[0] == {"function": "train"} | next(op for op in operators if op["name"] == "/conv1/Conv"), explained[0])
    listed = json.loads(c.run(c.bin / "tessera-dump", c.folder / "plan", "--parameters", "--json"))
    expect(listed == report["parameters"] and listed, listed)
    fails(c.run(c.bin / "tessera-dump", c.folder / "plan", "--explain", "/conv9/Conv", code=1), "/conv9/Conv")
    fails(c.run(c.bin / "tessera-dump", c.folder / "nowhere", code=1), "nowhere")


@case
def strategy_graphs_are_dumped_and_solved_alone(c):
    def cost(text):
        return int(next(line for line in text.splitlines() if line.startswith("cost")).split()[-1])

    for name in ("graph.json", "graph.json.gz"):
        file = c.folder / name
        c.compile("--search-gap", "0", "--dump-strategy-graph", file)
        searched = json.loads((c.folder / "plan" / "report.json").read_text())["functions"][0]["search"]
        expect(searched["optimal"], f"the search left a gap: {searched}")
        expect(file.read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz"), f"{name}: compressed or not")
        text = c.run(c.bin / "tessera-solve", file, "--seconds", "60", "--threads", "2", "--output", c.folder / "choice")
        expect(cost(text) == searched["cost_ns"], f"{name}: the search says {searched}, solved alone:\n{text}")
        expect(len(json.loads((c.folder / "choice").read_text())) == searched["nodes"], "one option per node")
    for searcher in ("recursive", "propagation", "data", "random"):
        alone = cost(c.run(c.bin / "tessera-solve", file, "--seconds", "1", "--searcher", searcher))
        expect(alone >= searched["cost_ns"], f"{searcher} beats the optimum: {alone}")
        c.compile("--searcher", searcher, out=searcher)
        found = json.loads((c.folder / searcher / "report.json").read_text())["functions"][0]["search"]
        expect(found["searcher"] == searcher and found["cost_ns"] == alone, f"{searcher}: {found}, alone {alone}")
    fails(c.compile("--dump-strategy-graph", c.folder / "g.json", mode="data", out="bad", code=2), "--mode auto")
    fails(c.compile("--dump-strategy-graph", c.folder / "no" / "g.json", out="bad", code=1), "g.json")
    expect(not (c.folder / "bad").exists(), "a half-written plan was left")


@case
def groups_may_be_split(c):
    """Operators that follow another one choose for themselves, too: more decisions, and no dearer answer."""
    def searched(*options, out):
        c.compile("--search-gap", "0", "--overlap", "off", *options, out=out)
        return json.loads((c.folder / out / "report.json").read_text())["functions"][0]

    whole, split = searched(out="whole"), searched("--split-groups", out="split")
    expect(split["search"]["optimal"] and split["search"]["nodes"] > whole["search"]["nodes"], f"{split['search']}")
    expect(split["search"]["lower_bound_ns"] <= whole["search"]["lower_bound_ns"], f"{split['search']} {whole['search']}")
    expect(split["predicted_ns"] <= whole["predicted_ns"], f"{split['predicted_ns']}, whole {whole['predicted_ns']}")
    c.train("split", "--verify")


@case
def bad_models(c):
    whole = (c.models / "lenet_train.onnx").read_bytes()
    (c.folder / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    for name, needed in (("cut.onnx", "cut.onnx"), ("missing.onnx", "missing.onnx")):
        fails(c.run(c.bin / "tessera-compile", c.folder / name, "--mesh", "2", "--mode", "data", "-o", c.folder / "bad",
                    code=1), needed)
        expect(not (c.folder / "bad").exists(), "a half-written plan was left")
    fails(c.run(c.bin / "tessera-compile", c.models / "lenet_eval.onnx", "--mesh", "2", "--mode", "data", "-o",
                c.folder / "bad", code=1), "batch", "--dim")


@case
def bad_strategies(c):
    for entry, needed in (
        ({"op": "/conv7/Conv", "in": [[1, 1, 1, 1], [2, 1, 1, 1]]}, "/conv7/Conv"),
        ({"op": "/conv1/Conv", "in": [[1, 1, 1, 1], [5, 1, 1, 1]]}, "/conv1/Conv"),
        ({"op": "/conv1/Conv", "in": [[3, 1, 1, 1], [1, 1, 1, 1]]}, "/conv1/Conv"),
        ({"op": "/conv1/Conv", "in": [["x", None, None, None], [None, None, None, None]]}, "x"),
    ):
        (c.folder / "s.json").write_text(json.dumps([entry]))
        fails(c.compile("--strategy", c.folder / "s.json", mode="semi-auto", out="bad", code=1), needed)
        expect(not (c.folder / "bad").exists(), "a half-written plan was left")
    (c.folder / "s.json").write_text("[{")
    fails(c.compile("--strategy", c.folder / "s.json", mode="semi-auto", out="bad", code=1), "s.json")


@case
def memory_limit_refuses(c):
    fails(c.compile("--memory", "16KiB", out="bad", code=1), "16")
    expect(not (c.folder / "bad").exists(), "a half-written plan was left")


@case
def bad_plans_and_data(c):
    c.compile()
    c.compile("--seed", "1", out="other", mesh="data=4", mode="data")
    plan, other = c.folder / "plan", c.folder / "other"
    kept = (plan / "rank1.plan").read_bytes()
    shutil.copy(other / "rank1.plan", plan / "rank1.plan")
    fails(c.train(code=1), "rank")
    (plan / "rank1.plan").write_bytes(kept[: len(kept) // 2])
    fails(c.train(code=1), "rank1.plan")
    (plan / "rank1.plan").write_bytes(kept)
    weights = plan / "weights.safetensors"
    if weights.exists():
        weights.rename(plan / "kept")
        fails(c.train(code=1), "weights.safetensors")
        (plan / "kept").rename(weights)
    np.save(c.folder / "x.npy", np.zeros((8, 3, 28, 28), np.float32))
    fails(c.train(code=1), "x.npy", "28")
    np.save(c.folder / "x.npy", np.zeros((8, 1, 28, 28), np.float32))
    c.train()


@case
def numbers_out_of_range_are_said_in_short(c):
    c.compile()
    for option, value in (("--steps", "0"), ("--steps", "x"), ("--epochs", "-1"), ("--keep", "-1"), ("--restarts", "-1"), ("--ranks", "0"),
                          ("--steps", "99999999999999999999"), ("--steps", "1.5")):
        text = c.run(c.bin / "tessera-run", c.folder / "plan", "--data", "synthetic", option, value, code=2)
        expect(text.startswith(f"tessera-run: {option}: ") and f"'{value}'" in text and len(text) < 160, text)


if __name__ == "__main__":
    main(__doc__, Context)
