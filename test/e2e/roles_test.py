#!/usr/bin/env python3
"""What is trained, what is state and what constant: values after training, lists, errors.

usage: roles_test.py --bin DIR --models DIR [CASE...]
"""
import json

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import TensorProto, helper

from cases import Programs, case, main
from tensors import manifest_of, read_safetensors

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
PERSISTENT = "pkg.torch.export.graph_signature.InputSpec.persistent"


def field(number, payload):
    """One length-delimited field of a protobuf message."""
    def varint(value):
        out = b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def value_info(name, kind, persistent):
    """A value_info with metadata_props, which older versions of the package `onnx` do not know."""
    entries = b"".join(field(4, field(1, key.encode()) + field(2, value.encode()))
                       for key, value in ((KIND, kind), (PERSISTENT, str(persistent))))
    return onnx.ValueInfoProto.FromString(field(1, name.encode()) + entries)


class Context(Programs):
    x = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)

    def model(self, nodes, parameters, kinds=None, x=None, opset=17):
        tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                   for name, shape in (("x", self.x.shape if x is None else x), ("y", None))]
        held = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in parameters.items()]
        graph = helper.make_graph(nodes, "net", tensors[:1], tensors[1:], held)
        for name, (kind, persistent) in (kinds or {}).items():
            graph.value_info.append(value_info(name, kind, persistent))
        self.count += 1
        path = self.folder / f"model{self.count}.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString())
        return path

    def trained(self, model, *options, x=None, mesh="data=2", steps=3):
        """Trains some steps towards zero. Returns the weights, what was printed, and the losses."""
        x = self.x if x is None else x
        np.save(self.folder / "x.npy", x)
        plan, weights, log = (self.folder / f"{name}{self.count}" for name in ("plan", "weights.safetensors", "log"))
        text = self.run(self.bin / "tessera-compile", model, "--mesh", mesh, "--train", "--loss", "output", "--optimizer",
                        "sgd:lr=0.01,momentum=0.9,weight_decay=0.1", "-o", plan, *options)
        self.run(self.bin / "tessera-run", plan, "--data", f"npy:{self.folder}/x.npy", "--steps", steps, "--log", log,
                 "--save-weights", weights)
        losses = [json.loads(line)["loss"] for line in log.read_text().splitlines() if "loss" in line]
        return read_safetensors(weights), text, losses


NODES = [helper.make_node("MatMul", ["x", "fc.weight"], ["a"], name="fc"),
         helper.make_node("Mul", ["a", "rotary.freq"], ["b"], name="turn"),
         helper.make_node("Add", ["b", "logits_bias"], ["c"], name="shift"),
         helper.make_node("Mul", ["c", "embed.scale"], ["d"], name="scale"),
         helper.make_node("ReduceMean", ["d"], ["y"], name="mean", keepdims=0)]
TENSORS = {"fc.weight": np.eye(4, dtype=np.float32), "rotary.freq": np.array([1, 2, 3, 4], np.float32),
           "logits_bias": np.array([5, 6, 7, 8], np.float32), "embed.scale": np.float32(2)}
KINDS = {"fc.weight": ("PARAMETER", None), "rotary.freq": ("BUFFER", False), "logits_bias": ("BUFFER", True),
         "embed.scale": ("BUFFER", False)}


@case
def buffers_are_not_trained(c):
    for mesh in ("1", "data=2"):
        weights, text, _ = c.trained(c.model(NODES, TENSORS, KINDS), mesh=mesh)
        assert sorted(weights) == ["fc.weight", "logits_bias"], sorted(weights)
        np.testing.assert_array_equal(weights["logits_bias"], TENSORS["logits_bias"])
        assert np.abs(weights["fc.weight"] - TENSORS["fc.weight"]).max() > 1e-3
        assert "parameters   1 trained, 1 state, 2 constant" in text and "warning" not in text, text


@case
def what_the_file_does_not_say_is_a_guess_with_a_warning(c):
    weights, text, _ = c.trained(c.model(NODES, TENSORS))
    assert sorted(weights) == ["fc.weight", "logits_bias", "rotary.freq"], sorted(weights)
    assert "tessera-compile: warning: what these are is a guess" in text and "'rotary.freq' (trained: read by Mul)" in text, text
    weights, text, _ = c.trained(c.model(NODES, TENSORS), "--constants", "rotary.*,logits_bias,*.scale")
    assert sorted(weights) == ["fc.weight"] and "warning" not in text, (sorted(weights), text)


@case
def frozen_parameters_stay_and_have_no_optimizer_state(c):
    kinds = {name: ("PARAMETER", None) for name in TENSORS}
    plan = c.folder / "plan1"
    weights, text, _ = c.trained(c.model(NODES, TENSORS, kinds), "--freeze", "logits_*,rotary.freq")
    assert sorted(weights) == sorted(TENSORS), sorted(weights)
    for name in ("logits_bias", "rotary.freq"):
        np.testing.assert_array_equal(weights[name], TENSORS[name])
    assert weights["embed.scale"] != TENSORS["embed.scale"]
    assert "parameters   2 trained, 2 frozen" in text, text
    kept = c.folder / "kept"
    c.run(c.bin / "tessera-run", plan, "--data", f"npy:{c.folder}/x.npy", "--steps", 1, "--checkpoint-dir", kept)
    names = [name for path in kept.rglob("manifest.json") for name in manifest_of(path.parent)["tensors"]]
    assert "momentum/fc.weight" in names and "logits_bias" in names and "momentum/logits_bias" not in names, names
    text = c.run(c.bin / "tessera-compile", c.folder / "model1.onnx", "--freeze", "*", "--train", "--loss", "output", "-o",
                 c.folder / "none", code=1)
    assert "no floating-point parameter to train that is not frozen" in text, text
    text = c.run(c.bin / "tessera-compile", c.folder / "model1.onnx", "--freeze", "*", "-o", c.folder / "none", code=2)
    assert "--freeze is for a training step" in text, text


def norm_model(c, kinds=None):
    nodes = [helper.make_node("BatchNormalization", ["x", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], ["h"],
                              name="node_bn", training_mode=0),
             helper.make_node("Dropout", ["h", "ratio", "mode"], ["d"], name="drop"),
             helper.make_node("Mul", ["d", "d"], ["s"], name="square"),
             helper.make_node("ReduceMean", ["s"], ["y"], name="mean", keepdims=0)]
    tensors = {"bn.weight": np.full(4, 2, np.float32), "bn.bias": np.ones(4, np.float32),
               "bn.running_mean": np.zeros(4, np.float32), "bn.running_var": np.full(4, 9, np.float32),
               "ratio": np.float32(0), "mode": np.bool_(True)}
    return c.model(nodes, tensors, kinds)


@case
def batch_norm_of_the_new_exporter_takes_the_batch(c):
    def loss(mean, var):
        return np.mean(((c.x - mean) / np.sqrt(var + 1e-5) * 2 + 1) ** 2)
    batch, running = loss(c.x.mean(0), c.x.var(0)), loss(0, 9)
    said = {"bn.weight": ("PARAMETER", None), "bn.running_mean": ("BUFFER", True)}
    for kinds, options, expected, moves in ((None, [], running, False), (said, [], batch, True),
                                            (said, ["--freeze-batchnorm"], running, False),
                                            (said, ["--freeze-batchnorm=bn"], running, False)):
        weights, _, losses = c.trained(norm_model(c, kinds), *options, mesh="1")
        np.testing.assert_allclose(losses[0], expected, rtol=1e-5)
        assert (np.abs(weights["bn.running_var"] - 9).max() > 0.1) == moves, weights
    text = c.run(c.bin / "tessera-compile", norm_model(c), "--train", "--loss", "output", "--freeze-batchnorm=bm", "-o",
                 c.folder / "none", code=1)
    assert "--freeze-batchnorm bm: no BatchNormalization has a name like this; near it: 'bn'" in text, text


@case
def merged_parameters_become_several(c):
    nodes = [helper.make_node("Identity", ["layers.0.weight"], ["layers.1.weight"], name="i"),
             helper.make_node("MatMul", ["x", "layers.0.weight"], ["a"], name="m0"),
             helper.make_node("MatMul", ["a", "layers.1.weight"], ["b"], name="m1"),
             helper.make_node("ReduceMean", ["b"], ["y"], name="mean", keepdims=0)]
    fresh = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32)
    weights, text, _ = c.trained(c.model(nodes, {"layers.0.weight": fresh}))
    assert sorted(weights) == ["layers.0.weight", "layers.1.weight"], sorted(weights)
    assert np.abs(weights["layers.0.weight"] - weights["layers.1.weight"]).max() > 1e-3
    assert "warning: the file keeps one of several parameters of equal values" in text, text


@case
def the_list_needs_neither_plan_nor_dimensions(c):
    text = c.run(c.bin / "tessera-compile", c.model(NODES, TENSORS, KINDS, x=["batch", 4]), "--list-parameters")
    lines = [line.split(None, 4) for line in text.splitlines()]
    assert lines[0] == ["trained", "fc.weight", "f32", "4x4", "the file says PARAMETER"], lines
    assert lines[1][:2] == ["state", "logits_bias"] and text.splitlines()[-1] == "1 trained, 1 state, 2 constant", text

    model, plan = c.model(NODES, TENSORS), c.folder / "plan"
    listed = c.run(c.bin / "tessera-compile", model, "--list-parameters")
    c.run(c.bin / "tessera-compile", model, "--train", "--loss", "output", "-q", "-o", plan)
    dumped = c.run(c.bin / "tessera-dump", plan, "--parameters")
    assert dumped == listed.replace("tessera-compile: warning", "warning"), (listed, dumped)
    assert "(a guess)" in listed and "\nparameters: 3 trained, 1 constant; 3 of them a guess (--parameters)\n" in c.run(
        c.bin / "tessera-dump", plan), listed
    text = c.run(c.bin / "tessera-compile", model, "--list-parameters", "--constants", "rotary.frek", code=1)
    assert "--constants rotary.frek: no initializer has a name like this; near it: 'rotary.freq'" in text, text
    c.run(c.bin / "tessera-compile", model, "--list-parameters", "-o", plan, code=2)


if __name__ == "__main__":
    main(__doc__, Context)
