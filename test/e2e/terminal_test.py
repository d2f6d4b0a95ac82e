#!/usr/bin/env python3
"""What files, other machines and command lines call things, is shown by every program and obeyed by no terminal.

usage: terminal_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import os
import re
import shutil
import struct
import subprocess

from onnx import TensorProto, helper

from cases import MPI_ENVIRONMENT, Programs, case, main

# Red, a new title, the same in C1 (UTF-8), a line that another program could have written, a turned direction.
HOSTILE = "é\x1b[31m\x1b]0;t\x07\u009b1m\nforged: line\r\u202e"
SHOWN = r"é\x1b[31m\x1b]0;t\x07\xc2\x9b1m\x0aforged: line\x0d\xe2\x80\xae"


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


class Context(Programs):
    def shows(self, *command, code=1, shown=SHOWN, env=None):
        """What the command prints; it shows the name, and no byte of it is one that a terminal obeys."""
        done = subprocess.run([os.fsencode(str(a)) for a in command], capture_output=True, timeout=300,
                              env=os.environ | MPI_ENVIRONMENT | (env or {}))
        raw = done.stdout + done.stderr
        expect(done.returncode == code, f"{command}: exit code {done.returncode}: {raw}")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise AssertionError(f"{command}: no UTF-8: {raw}") from error
        bad = re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text)
        expect(not bad, f"{command}: {text!r}")
        expect(not re.search("^forged", text, re.M), f"{command}: {text!r}")
        expect(shown in text, f"{command}: expected '{shown}' in: {text!r}")
        return text

    def compile(self, *options, model=None, code=1, **how):
        return self.shows(self.bin / "tessera-compile", model or self.models / "mlp_train.onnx", "--mesh", "data=2", "--dim",
                          "batch=8", *options, "-o", self.folder / "plan", code=code, **how)

    def model(self, op="Relu", name="n", shape=(2, 3), weight=None, domain="", outside=None, **attributes):
        """A file with one node, which also reads `weight` or what stands `outside` of the file."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        held = [outside] if outside else []
        if weight:
            held.append(helper.make_tensor(weight, TensorProto.FLOAT, [2, 3], [1.0] * 6))
        node = helper.make_node(op, ["x"] + [tensor.name for tensor in held], ["y"], name=name, domain=domain, **attributes)
        sets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        path = self.folder / "hostile.onnx"
        path.write_bytes(helper.make_model(helper.make_graph([node], "net", [x], [y], held), opset_imports=sets)
                         .SerializeToString())
        return path

    def write(self, content, name="hostile.json"):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path


@case
def names_in_models(c):
    def refused(model, **how):
        return c.shows(c.bin / "tessera-compile", model, "-o", c.folder / "plan", **how)

    refused(c.model(op=HOSTILE))
    refused(c.model(op="Bogus", name=HOSTILE))
    refused(c.model(domain=HOSTILE))
    refused(c.model(**{HOSTILE: 1}))
    outside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    entry = outside.external_data.add()
    entry.key, entry.value = "location", HOSTILE
    refused(c.model("Add", outside=outside))
    entry.value = "../" + HOSTILE
    refused(c.model("Add", outside=outside))
    # --dim takes a dimension's name as it is shown.
    model = c.model(shape=(HOSTILE, 3))
    refused(model, shown=f"--dim {SHOWN}=VALUE")
    c.shows(c.bin / "tessera-compile", model, "--dim", f"{SHOWN}=4", "-o", c.folder / "plan", code=0, shown="operators")
    c.shows(c.bin / "tessera-compile", c.model("Add", weight=HOSTILE), "--list-parameters", code=0)


@case
def a_dimension_with_a_zero_byte_can_be_named(c):
    model = c.model(shape=("a\0b", 3))
    c.shows(c.bin / "tessera-compile", model, "-o", c.folder / "plan", shown=r"(a\x00b): add --dim a\x00b=VALUE")
    c.shows(c.bin / "tessera-compile", model, "--dim", r"a\x00b=4", "-o", c.folder / "plan", code=0, shown="operators")


@case
def names_in_settings(c):
    c.compile("--topology", c.write({HOSTILE: 1}))
    machine = {"name": HOSTILE, "devices": 2, "flops": {"f32": 1e12}, "memory_bandwidth": 1e11, "memory": "16GiB",
               "links": [{"devices": 2, "latency": 1e-6, "bandwidth": 1e10}]}
    c.compile("--topology", c.write(machine), code=0)
    c.shows(c.bin / "tessera-dump", c.folder / "plan", code=0)
    machine["memory"] = "1KiB"
    c.compile("--topology", c.write(machine))
    c.compile("--profile", c.write({"kernels": {HOSTILE: "x"}}))
    c.compile("--strategy", c.write([{"op": HOSTILE, "in": []}]), "--mode", "semi-auto")
    c.compile("--mode", "hybrid", "--hybrid-options", c.write({HOSTILE: 1}))
    c.shows(c.bin / "tessera-compile", c.folder / "m.onnx", "--mesh", HOSTILE, "-o", c.folder / "plan", code=2)
    for option in ("--mode", "--dim", "--memory", "--init", "--optimizer", "--loss", "--recompute"):
        c.compile("--train", option, HOSTILE, code=2)
    c.compile("--topology", HOSTILE)


@case
def names_in_plans_and_checkpoints(c):
    c.compile("--train", code=0, shown="operators")
    run = (c.bin / "tessera-run", c.folder / "plan", "--data", "synthetic", "--steps", 1)
    header = json.dumps({HOSTILE: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    weights = c.folder / "w.safetensors"
    weights.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    c.shows(c.bin / "tessera-ckpt", "compare", weights, c.folder / HOSTILE.replace("/", ""))
    header = json.dumps({"w": {"dtype": HOSTILE, "shape": [1], "data_offsets": [0, 4]}}).encode()
    weights.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    c.shows(*run, "--weights", weights)
    c.shows(c.bin / "tessera-ckpt", "export", weights, "-o", c.folder / "x")
    c.shows(*run, "--weights-map", c.write({HOSTILE: 1}), "--weights", weights)
    c.shows(*run[:2], "--data", HOSTILE)
    recipe = json.loads((c.folder / "plan/compile.json").read_text())
    recipe["model"] = recipe["files"][0]["path"] = "/" + HOSTILE
    c.write(recipe, "plan/compile.json")
    c.shows(*run, "--processes", "--elastic", "--restarts", 1, "--checkpoint-dir", c.folder / "run")
    report = json.loads((c.folder / "plan/report.json").read_text())
    report["model"] = report["functions"][0]["operators"][0]["name"] = HOSTILE
    c.write(report, "plan/report.json")
    c.shows(c.bin / "tessera-dump", c.folder / "plan", "--all", code=0)
    c.shows(c.bin / "tessera-dump", c.folder / "plan", "--explain", HOSTILE, code=0)
    c.shows(c.bin / "tessera-dump", c.folder / "plan", "--explain", HOSTILE + "x")
    moved = c.folder / HOSTILE
    shutil.move(c.folder / "plan", moved)
    (moved / "rank1.plan").write_bytes(b"")
    for command in (("tessera-run", moved, "--data", "synthetic"), ("tessera-dump", moved), ("tessera-ckpt", "show", moved),
                    ("tessera-solve", moved / "graph.json"), ("tessera-compile", moved / "m.onnx", "-o", c.folder / "x")):
        c.shows(c.bin / command[0], *command[1:])
    for command in (("tessera-compile", "x"), ("tessera-run", "x"), ("tessera-dump", "x"), ("tessera-ckpt", "show", "x"),
                    ("tessera-solve", "x"), ("tessera-profile", "x")):
        c.shows(c.bin / command[0], *command[1:], "--" + HOSTILE, code=2)
    c.shows(c.bin / "tessera-dump", b"caf\xe9".decode(errors="surrogateescape"), shown=r"caf\xe9")


@case
def programs_of_phases(c):
    program = c.write(f'module {{ "{HOSTILE[:-2]}"', "hostile.mlir")
    c.shows(c.bin / "tessera-profile", program, "--mesh", "2", "-q", "--max-bytes", "1KiB", "-o", c.folder / "x",
            shown="hostile.mlir:1:")
    program = c.write(f"module {{ {HOSTILE[1:]}", "hostile.mlir")
    c.shows(c.bin / "tessera-profile", program, "--mesh", "2", "-q", "--max-bytes", "1KiB", "-o", c.folder / "x",
            shown="hostile.mlir:1:")


if __name__ == "__main__":
    main(__doc__, Context)
