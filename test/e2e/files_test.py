#!/usr/bin/env python3
"""No program writes over what it reads or what is no regular file, and one that is interrupted leaves nothing.

usage: files_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import fcntl
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import time

from onnx import TensorProto, helper

from cases import Programs, case, main


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


class Context(Programs):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.model = folder / "m.onnx"
        shutil.copy(self.models / "mlp_train.onnx", self.model)

    def compile_command(self, *options, model=None, out="plan", mesh="2"):
        return [str(a) for a in (self.bin / "tessera-compile", model or self.model, "--mesh", mesh, "--mode", "auto", "--dim",
                                 "batch=8", "--train", *options, "-o", self.folder / out)]

    def compile(self, *options, code=0, **where):
        return self.run(*self.compile_command(*options, **where), code=code)

    def train(self, *options, code=0):
        return self.run(self.bin / "tessera-run", self.folder / "plan", "--data", "synthetic", "--steps", 1, *options,
                        code=code)


def one_line(text, *needed):
    lines = [line for line in text.splitlines() if re.match(r"tessera-\w+: ", line)]
    expect(len(lines) == 1 and all(part in lines[0] for part in needed), f"expected one line with {needed}: {text}")


@case
def what_is_no_regular_file_is_not_replaced(c):
    c.compile()
    pipe, unix, folder = c.folder / "pipe", c.folder / "socket", c.folder / "folder"
    os.mkfifo(pipe)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(unix))
    folder.mkdir()
    graph = c.folder / "graph.json"
    c.compile("--dump-strategy-graph", graph, out="other")
    tools = {
        "--save-strategies": lambda f: c.compile("--save-strategies", f, out="none", code=1),
        "--dump-strategy-graph": lambda f: c.compile("--dump-strategy-graph", f, out="none", code=1),
        "--export-weights": lambda f: c.run(c.bin / "tessera-compile", c.model, "--export-weights", f, code=1),
        "--save-weights": lambda f: c.train("--save-weights", f, code=1),
        "--trace-file": lambda f: c.train("--trace", "steps=1", "--trace-file", f, code=1),
        "--svg": lambda f: c.run(c.bin / "tessera-dump", c.folder / "plan", "--svg", f, code=1),
        "--html": lambda f: c.run(c.bin / "tessera-dump", c.folder / "plan", "--html", f, code=1),
        "--output": lambda f: c.run(c.bin / "tessera-solve", graph, "--output", f, code=1),
    }
    for option, use in tools.items():
        for file, kind in ((pipe, "a pipe"), (unix, "a socket"), (folder, "a directory"), ("/dev/null", "a device")):
            text = use(file)
            expect(option in text and f"{file}: cannot be written: it is {kind}" in text, f"{option} {file}: {text}")
    expect(stat.S_ISFIFO(pipe.stat().st_mode) and stat.S_ISSOCK(unix.stat().st_mode) and not list(folder.iterdir()) and
           stat.S_ISCHR(os.stat("/dev/null").st_mode), "something was replaced")
    expect(not (c.folder / "none").exists(), "a plan was written")


@case
def links_stay_and_what_they_name_is_written(c):
    c.compile()
    link, real = c.folder / "link", c.folder / "real.safetensors"
    link.symlink_to(real)
    one_line(c.train("--save-weights", link, code=1), "it is a link to", "real.safetensors", "not there")
    real.write_bytes(b"")
    c.train("--save-weights", link)
    expect(link.is_symlink() and real.stat().st_size > 1000, "the link was replaced")
    shutil.move(c.folder / "plan", c.folder / "moved")
    (c.folder / "plan").symlink_to(c.folder / "moved")
    before = (c.folder / "moved/rank0.plan").read_bytes()
    c.compile("--optimizer", "adam:lr=0.5")
    expect((c.folder / "plan").is_symlink() and (c.folder / "moved/rank0.plan").read_bytes() != before, "not behind the link")
    shutil.rmtree(c.folder / "moved")
    one_line(c.compile(code=1), "plan: is a link whose target does not exist")


@case
def no_output_goes_over_an_input(c):
    c.compile("--save-strategies", c.folder / "s.json", "--dump-strategy-graph", c.folder / "g.json")
    plan = c.folder / "plan"
    before = {file: file.read_bytes() for file in (*plan.iterdir(), c.model, c.folder / "s.json", c.folder / "g.json")}
    (c.folder / "same").symlink_to(c.model)

    def refused(text, option, file, why="is read by this command"):
        one_line(text, f"{option} {file}: {why}")
        for file, content in before.items():
            expect(file.read_bytes() == content, f"{file} was changed")

    for model in (c.model, c.folder / "same", c.folder / "folder/../m.onnx"):
        (c.folder / "folder").mkdir(exist_ok=True)
        refused(c.compile("--save-strategies", model, out="none", code=1), "--save-strategies", model)
    refused(c.compile("--strategy", c.folder / "s.json", "--dump-strategy-graph", c.folder / "s.json", out="none", code=1),
            "--dump-strategy-graph", c.folder / "s.json")
    refused(c.run(c.bin / "tessera-compile", c.model, "--export-weights", c.model, code=1), "--export-weights", c.model)
    inner = plan / "m.onnx"
    shutil.copy(c.model, inner)
    refused(c.compile(model=inner, code=1), "-o", plan, "would be replaced")
    inner.unlink()
    refused(c.compile("--save-strategies", c.folder / "x", "--dump-strategy-graph", c.folder / "x", out="none", code=1),
            "--dump-strategy-graph", c.folder / "x", "is written by --save-strategies as well")
    for file in ("rank0.plan", "weights.safetensors", "report.json"):
        for option in ("--log", "--save-weights"):
            refused(c.train(option, plan / file, code=1), option, plan / file)
        for option in ("--svg", "--html"):
            refused(c.run(c.bin / "tessera-dump", plan, option, plan / file, code=1), option, plan / file)
    refused(c.train("--log", plan / "rank1.plan", "--processes", code=1), "--log", plan / "rank1.plan")
    c.train("--checkpoint-dir", c.folder / "run")
    checkpoint = c.folder / "run/step-00000001/manifest.json"
    before[checkpoint] = checkpoint.read_bytes()
    refused(c.train("--resume", c.folder / "run", "--log", checkpoint, code=1), "--log", checkpoint)
    refused(c.run(c.bin / "tessera-solve", c.folder / "g.json", "--output", c.folder / "g.json", code=1), "--output",
            c.folder / "g.json")
    # Outputs may stand beside the inputs if they have other names.
    c.train("--log", plan / "log.jsonl")
    c.train("--log", plan / "log.jsonl")


@case
def output_that_is_cut_off_is_an_error(c):
    c.compile()
    c.train("--checkpoint-dir", c.folder / "run")
    for command in (("tessera-dump", c.folder / "plan", "--json"), ("tessera-dump", c.folder / "plan"),
                    ("tessera-ckpt", "show", c.folder / "run"), ("tessera-ckpt", "show", c.folder / "run", "--json")):
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(c.bin / command[0]), *map(str, command[1:])], stdout=full, stderr=subprocess.PIPE, text=True)
        expect(done.returncode == 1, f"{command}: exit code {done.returncode}")
        one_line(done.stderr, "standard output cannot be written: No space left on device")
    (c.folder / "logs").mkdir()
    (c.folder / "logs/rank-1.log").symlink_to("/dev/full")
    one_line(c.train("--log-dir", c.folder / "logs", code=1), "rank-1.log: cannot be written: No space left on device")


@case
def exit_codes_are_those_of_the_table(c):
    """docs/exit-codes.md; 3 is tested where it trains, interrupts in cases of their own."""
    for tool in ("tessera-compile", "tessera-run", "tessera-dump", "tessera-ckpt", "tessera-solve", "tessera-profile"):
        expect(c.run(c.bin / tool, "--help"), tool)
        for wrong in (("--bogus",), ()):
            text = c.run(c.bin / tool, *wrong, code=2)
            expect(text.startswith(f"{tool}: "), f"{tool} {wrong}: {text}")
    nothing = c.folder / "nothing"
    # An error of the command line alone is told before any file is read: these files do not exist.
    compiles, training = ("tessera-compile", nothing, "-o", c.folder / "x"), ("--train",)
    runs, solves = ("tessera-run", nothing, "--data", "synthetic"), ("tessera-solve", nothing)
    profiles = ("tessera-profile", nothing, "-o", c.folder / "x")
    for command, wrong in (
        *((compiles, w) for w in (
            ("--mode", "foo"), ("--dim", "batch"), ("--dim", "batch=0"), ("--dim", "batch=x"), ("--mesh", "data=x"),
            ("--mesh", "0"), ("--mesh", "-2"), ("--mesh", "5000"), ("--mesh", "data=1000000"), ("--mesh", "a=64,b=65"),
            ("--mesh", "data=9999999999"), ("--memory", "lots"), ("--memory", "-1"), ("--seed", "-1"), ("--init", "foo"),
            ("--init", "normal:x"), ("--precision", "f7"), ("--search-gap", "nan"),
            ("--hybrid-options", c.folder / "h.json"), ("--freeze", "w"), (*training, "--recompute", "some"),
            (*training, "--optimizer", "foo"), (*training, "--optimizer", "sgd:lr=-1"), (*training, "--loss", "foo"),
            (*training, "--schedule", "cosine"), (*training, "--loss-scale", "foo"), (*training, "--aux-outputs", "x"),
            ("--optimizer", "sgd:lr=1"), ("--mode", "hybrid", "--strategy", c.folder / "s.json"))),
        (compiles[:2], ()), (compiles[:2], ("--what-if", "nodes=0")), (compiles[:2], ("--what-if", "2")),
        *((runs, w) for w in (
            ("--steps", "0"), ("--trace", "steps=x"), ("--checkpoint-every", "x"), ("--check-numerics", "foo"),
            ("--device", "foo"), ("--backend", "foo"), ("--seed", "-1"), ("--infer",), ("--elastic",), ("--restarts", "1"))),
        *((profiles, ("--mesh", "2", *w)) for w in (("--max-bytes", "lots"), ("--seconds", "nan"), ("--device", "foo"), ("--backend", "foo"))),
        *((profiles, ("--mesh", w)) for w in ("0", "100000", "data=x")),
        *((solves, w) for w in (("--seconds", "nan"), ("--searcher", "foo"), ("--seed", "-1"), ("--threads", "0"))),
        (("tessera-ckpt", "split", nothing, "-o", c.folder / "x"), ("--parts", "0")),
        (("tessera-ckpt", "export", nothing, "-o", c.folder / "x"), ("--dtype", "F7")),
        (("tessera-ckpt", "compare", nothing, nothing), ("--tolerance", "-1")),
        (("tessera-dump", nothing), ("--json", "--all")),
    ):
        text = c.run(c.bin / command[0], *command[1:], *wrong, code=2)
        one_line(text, f"{command[0]}: ")
        expect(str(nothing) not in text, f"{wrong}: a file was looked for: {text}")
        expect(not wrong or str(wrong[-1]).split(":")[0] in text or wrong[-2] in text, f"{wrong}: not said what: {text}")
    for command in (("tessera-compile", nothing, "-o", c.folder / "x"), ("tessera-run", nothing, "--data", "synthetic"),
                    ("tessera-dump", nothing), ("tessera-ckpt", "show", nothing), ("tessera-solve", nothing),
                    ("tessera-profile", nothing, "--mesh", "2", "-q", "--max-bytes", "1KiB", "-o", c.folder / "x")):
        one_line(c.run(c.bin / command[0], *command[1:], code=1), "nothing")


@case
def threads_that_cannot_be_had_are_one_error(c):
    if os.geteuid() != 0:
        return print("skipped: only root becomes a user without processes")
    c.compile(mesh="data=4")
    for path in (c.folder, c.folder / "plan"):
        path.chmod(0o755)

    def limited(processes):
        def enter():
            resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
            os.setgid(54321)
            os.setuid(54321)  # a user to whom the file does not belong
        return enter

    # The searches find their threads refused at every place; what they write is what one with threads does.
    graph, out = c.folder / "g.json", c.folder / "out"
    searching = ("--dim", "batch=8", "--train", "--mode", "auto", "--mesh", "data=2,model=2", "--search-threads", 4, "-q")
    network = c.models / "resnet18_cifar_train.onnx"
    c.run(c.bin / "tessera-compile", network, *searching, "--search-only", "--dump-strategy-graph", graph)
    c.run(c.bin / "tessera-compile", network, *searching, "-o", c.folder / "whole")
    out.mkdir()
    out.chmod(0o777)
    runs = (c.bin / "tessera-run", c.folder / "plan", "--data", "synthetic", "--steps", 1)
    commands = [((c.bin / "tessera-compile", network, *searching, "-o", out / "plan"), range(1, 8), (0,)),
                ((c.bin / "tessera-solve", graph, "--threads", 4, "--seconds", 1, "--output", out / "c.json"), range(1, 5), (0,)),
                (runs, range(1, 5), (1,)), ((*runs, "--threads", 3), range(4, 16), (0, 1)),
                ((*runs, "--threads", 3, "--processes"), range(1, 16, 2), (0, 1))]
    for command, limits, codes in commands:
        for processes in limits:
            try:
                done = subprocess.run([str(a) for a in command], preexec_fn=limited(processes), capture_output=True, text=True,
                                      timeout=120)
            except PermissionError:
                return print("skipped: another user cannot run the program")
            except BlockingIOError:  # not even the program
                continue
            told = f"{processes}: {command}: {done.returncode}: {done.stderr}"
            expect(done.returncode in codes, told)
            if done.returncode == 1:
                # Ranks look for their threads before libgomp makes them. A thread of another rank may take one in between,
                # and libgomp then ends the process with a line of its own.
                lines = [line for line in done.stderr.splitlines() if line]
                expect(all(re.match(r"(\[rank \d+\] )?(tessera-\w+|libgomp): ", line) for line in lines), told)
                expect("hread" in done.stderr or "cannot be started" in done.stderr, told)
            if (out / "plan").exists():
                for file in (c.folder / "whole").glob("*.plan"):
                    expect((out / "plan" / file.name).read_bytes() == file.read_bytes(), f"{processes}: another {file.name}")
                shutil.rmtree(out / "plan")


def wait_for(condition, process, what):
    end = time.monotonic() + 60
    while not condition():
        expect(process.poll() is None and time.monotonic() < end, f"waited in vain for {what}: {process.poll()}")
        time.sleep(0.005)


def start(command):
    """Starts a command as a person's shell does, without ignoring the signals that this script's shell ignores."""
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))


@case
def an_interrupted_compile_leaves_what_was_there(c):
    c.compile()
    before = (c.folder / "plan/rank0.plan").read_bytes()
    large = c.compile_command(model=c.models / "resnet18_224_train.onnx", mesh="data=2,model=2")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        process = start(large)
        wait_for(lambda: list(c.folder.glob("plan.tmp*")), process, "the folder of a compile")
        process.send_signal(number)
        text = process.communicate(timeout=60)[1]
        expect(process.returncode == code, f"exit code {process.returncode}: {text}")
        expect(text == ("tessera-compile: interrupted\n" if code > 0 else ""), text)
        left = list(c.folder.glob("plan.*"))
        expect(len(left) == (code < 0), f"left: {left}")
        expect((c.folder / "plan/rank0.plan").read_bytes() == before, "the plan was changed")
    # The output of a running process stays; that of the killed one is removed.
    process = start(large)
    wait_for(lambda: [f for f in c.folder.glob("plan.tmp*") if f.name == f"plan.tmp{process.pid}"], process, "the folder")
    process.send_signal(signal.SIGSTOP)
    c.compile("--optimizer", "adam:lr=0.5")
    left = [f.name for f in c.folder.glob("plan.*")]
    process.kill()
    process.communicate()
    expect(left == [f"plan.tmp{process.pid}"], f"left: {left}")
    expect((c.folder / "plan/rank0.plan").read_bytes() != before, "no new plan")
    c.compile()
    expect(not list(c.folder.glob("plan.*")), f"left: {list(c.folder.glob('plan.*'))}")


@case
def what_a_killed_program_left_of_a_file_goes(c):
    """A limit on the size of files ends a program as SIGKILL does, in the midst of writing."""
    c.compile()
    large, floats = c.folder / "large.onnx", TensorProto.FLOAT
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net",
                              [helper.make_tensor_value_info("x", floats, [4, 64])],
                              [helper.make_tensor_value_info("y", floats, [4, 64])],
                              [helper.make_tensor("w", floats, [64, 64], [0.5] * 4096)])
    large.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    for out, command in (
        (c.folder / "e.safetensors", (c.bin / "tessera-compile", large, "--export-weights", c.folder / "e.safetensors")),
        (c.folder / "w.safetensors", (c.bin / "tessera-run", c.folder / "plan", "--data", "synthetic", "--steps", 1,
                                      "--save-weights", c.folder / "w.safetensors"))):
        out.write_bytes(b"as it was")
        for _ in range(2):
            done = subprocess.run([str(a) for a in command], preexec_fn=small, capture_output=True)
            left = list(c.folder.glob(out.name + ".*"))
            expect(done.returncode == -signal.SIGXFSZ and out.read_bytes() == b"as it was", f"exit code {done.returncode}")
            expect(len(left) == 1, f"left: {left}")
        ours, live, other = left[0], c.folder / (out.name + ".tessera-tmp-abcdef"), c.folder / (out.name + ".backup")
        other.write_bytes(b"")
        with open(live, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # of a process that lives
            c.run(*command)
        expect(live.exists() and other.exists() and not ours.exists() and out.stat().st_size > 4096, f"{list(c.folder.iterdir())}")
        c.run(*command)
        expect(sorted(c.folder.glob(out.name + ".*")) == [other], f"{list(c.folder.iterdir())}")


@case
def an_interrupted_run_says_by_what(c):
    c.compile()
    data, log = ("--data", "synthetic"), c.folder / "log.jsonl"
    modes = ((), ("--processes",), ("--processes", "--restarts", 1, "--checkpoint-dir", c.folder / "run"), ("--verify",))
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        for mode in modes:
            log.unlink(missing_ok=True)
            shutil.rmtree(c.folder / "run", ignore_errors=True)
            process = start([str(a) for a in (c.bin / "tessera-run", c.folder / "plan", *data, "--steps", 10**8, "--log", log, *mode)])
            wait_for(lambda: log.exists() and log.read_text().count("\n") > 2, process, "steps")
            process.send_signal(number)
            text = process.communicate(timeout=60)[1]
            expect(process.returncode == code, f"{mode}: exit code {process.returncode}: {text}")
    # Ranks that still wait for each other have nothing to bring to an end.
    alone = os.environ | {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    process = subprocess.Popen([str(a) for a in (c.bin / "tessera-run", c.folder / "plan", *data, "--restarts", 1,
                                                 "--checkpoint-dir", c.folder / "run")], env=alone | {"RANK": "1"},
                               stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=60)[1]
    expect(process.returncode == 143 and not text, f"exit code {process.returncode}: {text}")


@case
def an_interrupted_search_has_its_best_answer(c):
    graph, choice = c.folder / "g.json", c.folder / "choice.json"
    # The search cannot prove an answer for this graph, so only its budget ends it.
    rng, nodes, options = random.Random(1), 300, 8
    edges = sorted({tuple(sorted(rng.sample(range(nodes), 2))) for _ in range(2000)})
    costs = [[rng.randrange(1000000) for _ in range(options)] for _ in range(nodes)]
    tables = [[rng.randrange(1000000) for _ in range(options * options)] for _ in edges]
    graph.write_text(json.dumps({"problem": {
        "name": "entangled", "nodes": {"intervals": [[0, 1]] * nodes, "costs": costs, "usages": [[]] * nodes},
        "edges": {"nodes": edges, "costs": tables}}}))
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        choice.unlink(missing_ok=True)
        process = start([str(a) for a in (c.bin / "tessera-solve", graph, "--seconds", 100000, "--output", choice)])
        time.sleep(1)
        process.send_signal(number)
        text = process.communicate(timeout=60)[1]
        expect(process.returncode == code, f"exit code {process.returncode}: {text}")
        expect(text == "tessera-solve: interrupted; this is the best answer so far\n", text)
        expect(len(json.loads(choice.read_text())) == nodes, "no answer was written")


if __name__ == "__main__":
    main(__doc__, Context)
