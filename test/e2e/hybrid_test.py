#!/usr/bin/env python3
"""Mode hybrid: per-rank programs with collectives of their own against the network that is not cut.

usage: hybrid_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import os
import shutil
import subprocess

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import TensorProto, helper

from cases import MPI_ENVIRONMENT, Programs, case, main

TRAIN = ["--train", "--loss", "cross_entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9"]


class Context(Programs):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        rng = np.random.default_rng(5)
        np.save(folder / "x.npy", rng.standard_normal((32, 1, 28, 28)).astype(np.float32))
        np.save(folder / "v.npy", rng.standard_normal((32, 12)).astype(np.float32))
        np.save(folder / "y.npy", rng.integers(0, 10, 32))
        self.image, self.vector = (f"npy:{folder}/{x}.npy,{folder}/y.npy" for x in "xv")

    def compile(self, model, out, *options, code=0):
        return self.run(self.bin / "tessera-compile", model if "/" in str(model) else self.models / model, *options,
                        "-q", "-o", self.folder / out, code=code)

    def losses(self, plan, *options, data=None, steps=4):
        self.count += 1
        log = self.folder / f"log{self.count}.jsonl"
        self.run(self.bin / "tessera-run", self.folder / plan, "--data", data or self.image, "--steps", steps, "--f64",
                 "--backend", "reference", "--log", log, *options)
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]

    def hybrid(self, out, *options, batch=8, mesh="data=2,model=2", train=TRAIN, code=0):
        return self.compile("mlp_hybrid.onnx", out, "--mode", "hybrid", "--mesh", mesh, "--hybrid-options",
                            self.models / "mlp_hybrid.json", "--dim", f"batch={batch}", *train, *options, code=code)

    def options(self, value):
        self.count += 1
        path = self.folder / f"options{self.count}.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path


def model(path, nodes, inputs, outputs, constants=()):
    """Writes a network; `inputs` and `outputs` are shapes by name, `constants` arrays."""
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()]
    graph = helper.make_graph(nodes, "g", infos, outs, [onnx.numpy_helper.from_array(a, n) for n, a in constants])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                      helper.make_opsetid("ai.tessera", 1)]), str(path))
    return path


def ours(kind, inputs, outputs, name=None, **attributes):
    return helper.make_node(kind, inputs, outputs, name or kind, domain="ai.tessera", **attributes)


def near(a, b, tolerance=1e-10):
    np.testing.assert_allclose(a, b, rtol=tolerance)
    assert abs(a[0] - a[-1]) > 1e-3, f"nothing was learned: {a}"


@case
def columns_and_rows_equal_the_sequential_network(c):
    for options in ([], ["--clip-norm", "0.5"], ["--accumulate", "2"]):
        c.compile("mlp_train.onnx", "one", "--dim", "batch=16", *TRAIN, *options)
        c.hybrid("hybrid", *options)
        near(c.losses("one"), c.losses("hybrid"))
    # The same with the axes in the other order, and with more ranks along the batch.
    c.hybrid("other", mesh="model=2,data=4", batch=4)
    c.compile("mlp_train.onnx", "one", "--dim", "batch=16", *TRAIN)
    near(c.losses("one"), c.losses("other"))


@case
def data_parallel_equals_mode_data(c):
    for reduction in ("mean", "sum"):
        how = ["--gradient-reduction", reduction]
        c.compile("mlp_train.onnx", "data", "--mesh", "4", "--mode", "data", "--dim", "batch=16", *TRAIN, *how)
        c.compile("mlp_train.onnx", "hybrid", "--mesh", "4", "--mode", "hybrid", "--dim", "batch=4", *TRAIN, *how)
        near(c.losses("data"), c.losses("hybrid"))
    # A sum of gradients is the mean of four times the loss: plain SGD at four times the rate.
    sgd = lambda rate: ["--train", "--loss", "cross_entropy", "--optimizer", f"sgd:lr={rate}"]
    c.compile("mlp_train.onnx", "sum", "--mesh", "4", "--dim", "batch=16", *sgd(0.01), "--gradient-reduction", "sum")
    c.compile("mlp_train.onnx", "mean", "--mesh", "4", "--dim", "batch=16", *sgd(0.04))
    near(c.losses("sum"), c.losses("mean"))
    c.hybrid("split", "--gradient-reduction", "sum", train=sgd(0.01))
    c.compile("mlp_train.onnx", "mean", "--dim", "batch=16", *sgd(0.02))
    near(c.losses("split"), c.losses("mean"))


@case
def inference_and_evaluation(c):
    c.compile("mlp_train.onnx", "one", "--dim", "batch=16", "--seed", "3")
    c.hybrid("hybrid", "--seed", "3", train=[])
    outputs = []
    for plan in ("one", "hybrid"):
        c.run(c.bin / "tessera-run", c.folder / plan, "--data", f"npy:{c.folder}/x.npy", "--infer", "--output",
              c.folder / f"out-{plan}")
        outputs.append(np.load(next((c.folder / f"out-{plan}").glob("*.npy"))))
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5, atol=1e-5)
    c.compile("mlp_train.onnx", "one", "--dim", "batch=16", *TRAIN)
    c.hybrid("hybrid")
    told = [[line for line in c.run(c.bin / "tessera-run", c.folder / plan, "--data", c.image, "--eval").splitlines()
             if "accuracy" in line] for plan in ("one", "hybrid")]
    number = lambda lines: lines[-1].split("accuracy")[1].split()[0]
    assert told[0] and number(told[0]) == number(told[1]), told


@case
def checkpoints_hold_slices_and_fit_the_whole_network(c):
    c.hybrid("hybrid")
    c.compile("mlp_train.onnx", "one", "--dim", "batch=16", *TRAIN)
    whole = c.losses("hybrid", steps=6)
    c.losses("hybrid", "--checkpoint-dir", c.folder / "ckpt", steps=3)
    manifest = json.loads(next((c.folder / "ckpt").glob("step-*/manifest.json")).read_text())
    weight = manifest["tensors"]["fc2.weight"]
    assert weight["shape"] == [128, 256] and weight["split"] == [1, 2], weight
    assert manifest["tensors"]["momentum/fc1.bias"]["split"] == [2], "the optimizer's state lies like its parameter"
    for plan in ("hybrid", "one"):
        rest = c.losses(plan, "--resume", c.folder / "ckpt", steps=6)
        np.testing.assert_allclose(rest, whole[3:], rtol=0 if plan == "hybrid" else 1e-10)
    c.losses("one", "--checkpoint-dir", c.folder / "back", "--integrated", steps=3)
    np.testing.assert_allclose(c.losses("hybrid", "--resume", c.folder / "back", steps=6), whole[3:], rtol=1e-10)


@case
def verify_says_that_there_is_no_sequential_program(c):
    c.hybrid("hybrid")
    text = c.run(c.bin / "tessera-run", c.folder / "hybrid", "--data", c.image, "--verify", code=1)
    assert "hybrid" in text and "no sequential program" in text, text


@case
def dump_shows_collectives_and_what_differs(c):
    c.hybrid("hybrid")
    text = c.run(c.bin / "tessera-dump", c.folder / "hybrid")
    for part in ("mode hybrid", "/fc2/AllReduce", "all-reduce model", "differs: data+model", "all-reduce over data"):
        assert part in text, f"expected '{part}' in:\n{text}"
    json.loads(c.run(c.bin / "tessera-dump", c.folder / "hybrid", "--json"))
    text = c.run(c.bin / "tessera-dump", c.folder / "hybrid", "--explain", "/fc2/AllReduce")
    assert "[8, 128]" in text and "all-reduce over model" in text, text


@case
def every_collective_trains_like_the_network_without(c):
    """x (a slice of the batch) goes through collectives that in the end change nothing, or what is known."""
    weight = {"fc.weight": [10, 12], "fc.bias": [10]}
    plain = [helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], "fc", transB=1)]
    one = model(c.folder / "one.onnx", plain, {"x": [8, 12], **weight}, {"y": [8, 10]})
    c.compile(one, "one", *TRAIN)
    expected = c.losses("one", data=c.vector)
    around = {
        "gather": [ours("AllGather", ["t"], ["g"], axes=["model"], dim=0),
                   ours("Slice", ["g"], ["y"], axes=["model"], dim=0)],
        "scatter": [ours("AllGather", ["t"], ["g"], axes="model", dim=1),
                    ours("ReduceScatter", ["g"], ["y"], axes="model", dim=1, reduction="mean")],
        "to_all": [ours("AllToAll", ["t"], ["g"], "there", axes=["model"], split_dim=1, concat_dim=0),
                   ours("AllToAll", ["g"], ["y"], "back", axes=["model"], split_dim=0, concat_dim=1)],
        "to_all_same": [ours("AllToAll", ["t"], ["g"], "there", axes=["model"], split_dim=1, concat_dim=1),
                        ours("AllToAll", ["g"], ["y"], "back", axes=["model"], split_dim=1, concat_dim=1)],
        "ring": [ours("SendRecv", ["t"], ["g"], "there", axes=["model"], shift=1),
                 ours("SendRecv", ["g"], ["y"], "back", axes=["model"], sources=[1, 0])],
        "broadcast": [ours("Broadcast", ["t"], ["y"], axes=["model"], root=1)],
        "maximum": [ours("AllReduce", ["t"], ["y"], axes=["model"], reduction="max")],
    }
    for name, nodes in around.items():
        file = model(c.folder / f"{name}.onnx", [helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["t"], "fc", transB=1), *nodes,
                                                  ours("AllReduce", ["y"], ["z"], "equal", axes=["model"],
                                                       reduction="mean")],
                     {"x": [4, 12], **weight}, {"z": [4, 10]})
        c.compile(file, name, "--mode", "hybrid", "--mesh", "data=2,model=2", *TRAIN)
        np.testing.assert_allclose(c.losses(name, data=c.vector), expected, rtol=1e-10, err_msg=name)


@case
def parameters_may_be_slices_along_the_batch(c):
    """Every rank keeps a part of the matrix and gathers it when it is needed; the gradient comes back scattered."""
    shapes = {"fc.weight": [10, 12], "fc.bias": [10]}
    gemm = helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], "fc", transB=1)
    c.compile(model(c.folder / "one.onnx", [gemm], {"x": [8, 12], **shapes}, {"y": [8, 10]}), "one", *TRAIN)
    sliced = model(c.folder / "sliced.onnx",
                   [ours("AllGather", ["fc.weight"], ["w"], "gather", axes="data", dim=0),
                    helper.make_node("Gemm", ["x", "w", "fc.bias"], ["y"], "fc", transB=1)],
                   {"x": [4, 12], "fc.weight": [5, 12], "fc.bias": [10]}, {"y": [4, 10]})
    options = ["--mode", "hybrid", "--mesh", "data=2,model=2", "--hybrid-options",
               c.options({"parameters": {"fc.weight": ["data"]}}), *TRAIN]
    c.compile(sliced, "sliced", *options)
    near(c.losses("one", data=c.vector), c.losses("sliced", data=c.vector))
    # Operators are erased and made here. The plan must not depend on where the allocator puts them.
    plan = (c.folder / "sliced" / "rank3.plan").read_bytes()
    for _ in range(15):
        c.compile(sliced, "again", *options)
        assert (c.folder / "again" / "rank3.plan").read_bytes() == plan
    text = c.run(c.bin / "tessera-dump", c.folder / "sliced", "--all")
    # The matrix is not reduced over data: all-reduces are of the bias and the loss alone.
    assert "1 reduce-scatter over data, 240 B" in text and "2 all-reduce over data, 44 B" in text, text


@case
def one_way_sends_bring_zeros(c):
    file = model(c.folder / "send.onnx", [ours("SendRecv", ["x"], ["r"], axes=["data"], sources=[-1, 0, 1, 2]),
                                          ours("AxisIndex", [], ["i"], axes=["data"]),
                                          helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
                                          helper.make_node("Add", ["r", "f"], ["y"])], {"x": [8, 12]}, {"y": [8, 12]})
    c.compile(file, "send", "--mode", "hybrid", "--mesh", "4", "--inputs", "x")
    c.run(c.bin / "tessera-run", c.folder / "send", "--data", f"npy:{c.folder}/v.npy", "--infer", "--output",
          c.folder / "out")
    x = np.load(c.folder / "v.npy").astype(np.float32)
    expected = np.concatenate([np.zeros((8, 12), np.float32), x[:24]]) + np.repeat(np.arange(4), 8)[:, None]
    np.testing.assert_allclose(np.load(next((c.folder / "out").glob("*.npy"))), expected, rtol=1e-6)


@case
def dropout_is_that_of_the_sequential_network(c):
    def network(batch):
        return model(c.folder / f"drop{batch}.onnx",
                     [helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["h"], "fc", transB=1),
                      helper.make_node("Dropout", ["h", "ratio", "on"], ["y"], "drop")],
                     {"x": [batch, 12], "fc.weight": [10, 12], "fc.bias": [10]}, {"y": [batch, 10]},
                     [("ratio", np.array(0.5, np.float32)), ("on", np.array(True))])
    c.compile(network(16), "one", *TRAIN)
    c.compile(network(4), "hybrid", "--mode", "hybrid", "--mesh", "data=4,model=2", *TRAIN)
    near(c.losses("one", data=c.vector), c.losses("hybrid", data=c.vector))


@case
def parameters_are_broadcast(c):
    if not shutil.which("mpirun"):
        return print("skipped: no mpirun")
    for name, options in {"data": ["--mode", "data", "--mesh", "2", "--dim", "batch=16"],
                          "hybrid": ["--mode", "hybrid", "--mesh", "2", "--dim", "batch=8"]}.items():
        train = ["--train", "--optimizer", "sgd:lr=0.01", "--broadcast-parameters"]
        c.compile("mlp_train.onnx", name, *options, *train)
        expected = c.losses(name)
        assert len(set(expected)) == len(expected), expected
        # The second rank reads other weights.
        other = c.folder / f"other-{name}"
        c.compile("mlp_train.onnx", f"other-{name}", *options, *train, "--seed", "9")
        log = c.folder / f"mpi-{name}.jsonl"
        rank = [c.bin / "tessera-run", c.folder / name, "--data", c.image, "--steps", "4", "--f64", "--backend",
                "reference", "--log", log]
        env = os.environ | MPI_ENVIRONMENT
        done = subprocess.run([str(a) for a in ["mpirun", "--oversubscribe", "-n", "1", *rank, ":", "-n", "1", *rank,
                                                "--weights", other / "weights.safetensors"]],
                              capture_output=True, text=True, env=env, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        assert [json.loads(line)["loss"] for line in log.read_text().splitlines()] == expected, name


@case
def errors_name_what_is_wrong(c):
    def fails(needed, nodes=None, options=None, more=(), shape=(4, 12), out="y", extra=None, constants=(), code=1):
        file = model(c.folder / "bad.onnx", nodes or [helper.make_node("Relu", ["x"], ["y"])],
                     {"x": list(shape), **(extra or {})}, {out: None}, constants)
        given = ["--hybrid-options", c.options(options)] if options is not None else []
        text = c.compile(file, "bad", "--mode", "hybrid", "--mesh", "data=2,model=2", "--inputs", "x", *given, *more,
                         code=code)
        assert needed in text and text.count("error") == 1, f"expected '{needed}' in: {text}"
        assert not (c.folder / "bad").exists(), "output was left behind"

    reduce = lambda **a: [ours("AllReduce", ["x"], ["y"], "r", **a)]
    fails("node 'r' (AllReduce, opset 17): 'pipe' is no axis of the mesh data=2,model=2", reduce(axes=["pipe"]))
    fails("'data' is named twice", reduce(axes=["data", "data"]))
    fails("the attribute 'axes' must name the mesh axes", reduce())
    fails("the reduction 'product' is none of sum, mean, max, min", reduce(axes="data", reduction="product"))
    fails("the attribute 'group' is not supported", reduce(axes="data", group=[0, 1]))
    fails("dimension 0 of 3x12 is to be cut in 2", [ours("ReduceScatter", ["x"], ["y"], axes="data", dim=0)], shape=(3, 12))
    fails("the attribute 'dim' (a dimension) is missing", [ours("AllGather", ["x"], ["y"], axes="data")])
    fails("axis 2 is out of range", [ours("AllGather", ["x"], ["y"], axes="data", dim=2)])
    fails("the root 2 is not among the 2 ranks", [ours("Broadcast", ["x"], ["y"], axes="data", root=2)])
    fails("there are 1 sources for the 2 ranks", [ours("SendRecv", ["x"], ["y"], axes="data", sources=[1])])
    fails("source 0 is named twice", [ours("SendRecv", ["x"], ["y"], axes="data", sources=[0, 0])])
    fails("the mesh has no stages between which it could go", [ours("Send", ["x"], ["y"], to=1)])
    fails("has no such operator", [ours("Gossip", ["x"], ["y"], axes="data")])
    body = lambda nodes: helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
    fails("the collective 'r' in its branch would be reached only by the ranks whose condition says so",
          [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
           helper.make_node("If", ["c"], ["y"], "if", then_branch=body([ours("AllReduce", ["x"], ["z"], "r", axes="data")]),
                            else_branch=body([helper.make_node("Relu", ["x"], ["z"])]))])
    fails("the output 'y' differs along axis 'model'", [ours("Slice", ["x"], ["y"], axes="model", dim=1)])
    # Without a reduction of this sum every rank would have a loss of its own.
    gemm = [helper.make_node("MatMul", ["x", "fc.weight"], ["y"], "fc")]
    fails("the loss differs along axis 'model'", gemm, {"parameters": {"fc.weight": ["model"]}}, TRAIN, extra={"fc.weight": [12, 10]})
    fails("'fc.weight' is cut (12x10 of 24x10), but the file stores the values of one slice", gemm,
          {"parameters": {"fc.weight": ["model"]}}, TRAIN, constants=[("fc.weight", np.ones((12, 10), np.float32))])

    fails("not valid JSON", options="{")
    fails(": sharding: unknown key", options={"sharding": {}})
    fails(": batch: 'pipe' is no axis of the mesh", options={"batch": "pipe"})
    fails(": batch: given twice", options='{"batch": "data", "batch": "model"}')
    fails(": inputs: the model has no input 'z'", options={"inputs": {"z": ["data"]}})
    fails(": outputs: the model has no output 'z'", options={"outputs": {"z": ["data"]}})
    fails(": parameters: the model has no parameter 'w*'", options={"parameters": {"w*": ["data"]}})
    fails(": inputs: 'x' has 2 dimensions, not 3", options={"inputs": {"x": ["data", None, "model"]}})
    fails(": inputs: 'x': the axis 'data' cuts two dimensions", options={"inputs": {"x": ["data", "data"]}})
    fails(": inputs: 'x': expected a list", options={"inputs": {"x": "data"}})
    fails("--strategy: mode hybrid chooses no strategies", more=["--strategy", "s.json"], code=2)

    text = c.compile("mlp_hybrid.onnx", "bad", "--mesh", "data=2,model=2", "--dim", "batch=8", code=1)
    assert "/fc2/AllReduce" in text and "--mode hybrid" in text, text
    text = c.compile("mlp_train.onnx", "bad", "--mode", "hybrid", "--mesh", "a=2", "--dim", "batch=8", code=1)
    assert "has no axis 'data'" in text, text
    text = c.compile("mlp_train.onnx", "bad", "--mode", "auto", "--mesh", "2", "--dim", "batch=8", *TRAIN,
                     "--gradient-reduction", "sum", code=2)
    assert "--gradient-reduction" in text, text


if __name__ == "__main__":
    main(__doc__, Context)
