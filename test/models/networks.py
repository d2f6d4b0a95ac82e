#!/usr/bin/env python3
"""Writes networks without weights as ONNX: graphs of a few hundred kB, whatever the number of parameters.

usage: /usr/bin/python3 test/models/networks.py NAME -o FILE [KEY=VALUE...]

NAME: bert, gpt, llama, experts or deepseek, as in the papers, each with its loss' targets in mind (--loss cross_entropy).
KEY=VALUE changes a size: `layers=2 hidden=256` (see the functions' arguments); of bert and gpt `batch` may be a name, for --dim.
Parameters are graph inputs; the model's inputs are `ids` and, for bert, `segments`.

    networks.py gpt -o gpt.onnx layers=96 hidden=12288 heads=96
    tessera-compile gpt.onnx --inputs ids --train --mesh data=16,model=8 --topology 16x8xh200 --mode auto --search-only
"""
import argparse

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import TensorProto, helper


class Network:
    """Writes an ONNX graph, line by line; parameters have shapes and no values."""

    def __init__(self):
        self.nodes, self.inputs, self.last = [], [], 0

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, values, kind=np.int64):
        """A node, as exporters write numbers; an initializer of floats would be a parameter."""
        self.last += 1
        value = onnx.numpy_helper.from_array(np.array(values, kind))
        self.nodes.append(helper.make_node("Constant", [], [f"c{self.last}"], value=value))
        return f"c{self.last}"

    def node(self, kind, *inputs, name=None, **attributes):
        self.last += 1
        name = name or f"{kind}_{self.last}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name + ":y"], name=name, **attributes))
        return name + ":y"

    def dense(self, x, name, rows, columns):
        return self.node("Gemm", x, self.input(name + ".w", [rows, columns]), self.input(name + ".b", [columns]), name=name)

    def linear(self, x, name, rows, columns):
        """A dense layer for any number of dimensions before the last."""
        return self.node("Add", self.node("MatMul", x, self.input(name + ".w", [rows, columns]), name=name),
                         self.input(name + ".b", [columns]))

    def normalised(self, x, name, hidden):
        return self.node("LayerNormalization", x, self.input(name + ".s", [hidden]), self.input(name + ".b", [hidden]), axis=-1)

    def gelu(self, x):
        """The exact GELU."""
        half = self.node("Mul", x, self.constant(0.5, np.float32))
        return self.node("Mul", half, self.node("Add", self.node("Erf", self.node("Mul", x, self.constant(0.5 ** 0.5, np.float32))),
                                                self.constant(1, np.float32)))

    def dropout(self, x, ratio):
        return x if ratio == 0 else self.node("Dropout", x, self.constant(ratio, np.float32), self.constant(True, np.bool_))

    def matrix(self, x, name, rows, columns):
        """A linear layer without bias."""
        return self.node("MatMul", x, self.input(name + ".w", [rows, columns]), name=name)

    def rms_normalised(self, x, name, hidden):
        """As exporters write RMSNorm where the opset has no operator for it."""
        mean = self.node("ReduceMean", self.node("Mul", x, x), axes=[-1])
        root = self.node("Sqrt", self.node("Add", mean, self.constant(1e-6, np.float32)))
        return self.node("Mul", self.node("Div", x, root), self.input(name + ".s", [hidden]))

    def silu(self, x):
        return self.node("Mul", x, self.node("Sigmoid", x))

    def gated(self, x, name, hidden, inner):
        """SwiGLU (Shazeer, 2020)."""
        y = self.node("Mul", self.silu(self.matrix(x, name + ".gate", hidden, inner)), self.matrix(x, name + ".up", hidden, inner))
        return self.matrix(y, name + ".down", inner, hidden)

    def parts(self, x, axis, sizes):
        """Slices of these sizes, one behind the other."""
        ends = np.cumsum(sizes)
        return [self.node("Slice", x, self.constant([end - size]), self.constant([end]), self.constant([axis]))
                for size, end in zip(sizes, ends)]

    def rotations(self, length, head):
        """Cosine and sine by position and column (Su et al., 2021)."""
        at = self.node("Unsqueeze", self.constant(np.arange(length), np.float32), self.constant([1]))
        angle = self.node("Mul", at, self.constant(10000.0 ** (-np.arange(0, head, 2) / head), np.float32))
        angle = self.node("Concat", angle, angle, axis=-1)
        return self.node("Cos", angle), self.node("Sin", angle)

    def rotated(self, x, head, rotations):
        """x: [batch, head, position, column]."""
        low, high = self.parts(x, 3, [head // 2, head // 2])
        turned = self.node("Concat", self.node("Neg", high), low, axis=-1)
        return self.node("Add", self.node("Mul", x, rotations[0]), self.node("Mul", turned, rotations[1]))

    def reshaped(self, x, batch, *rest):
        """A batch that is a name stays as it is."""
        return self.node("Reshape", x, self.constant([0 if isinstance(batch, str) else batch, *rest]))

    def heads_of(self, x, batch, length, heads, head):
        return self.node("Transpose", self.reshaped(x, batch, length, heads, head), perm=[0, 2, 1, 3])

    def mixed(self, queries, keys, values, name, batch, length, width, scale, mask=None, dropout=0):
        """Softmax attention; [batch, head, position, column] each; gives [batch, length, width]."""
        scores = self.node("MatMul", queries, self.node("Transpose", keys, perm=[0, 1, 3, 2]), name=name + ".scores")
        scores = self.node("Mul", scores, self.constant(scale, np.float32))
        if mask:
            scores = self.node("Where", mask, scores, self.constant(-1e9, np.float32))
        weights = self.dropout(self.node("Softmax", scores, axis=-1), dropout)
        mixed = self.node("MatMul", weights, values, name=name + ".mix")
        return self.reshaped(self.node("Transpose", mixed, perm=[0, 2, 1, 3]), batch, length, width)

    def attention(self, x, name, batch, length, hidden, heads, mask=None, dropout=0):
        head = hidden // heads
        qkv = self.linear(x, name + ".qkv", hidden, 3 * hidden)
        # Heads are the outermost part, the usual layout of a fused matrix that is to be cut by
        # heads.
        qkv = self.heads_of(qkv, batch, length, heads, 3 * head)
        mixed = self.mixed(*self.parts(qkv, 3, [head] * 3), name, batch, length, hidden, head ** -0.5, mask, dropout)
        return self.linear(mixed, name + ".out", hidden, hidden)

    def causal(self, length):
        """True where a position (row) may look at another (column)."""
        at = self.node("Range", self.constant(0), self.constant(length), self.constant(1))
        return self.node("LessOrEqual", self.node("Unsqueeze", at, self.constant([0])), self.node("Unsqueeze", at, self.constant([1])))

    def write(self, path, output, shape):
        out = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "net", self.inputs, [out])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def bert(path, layers=24, hidden=1024, heads=16, words=30522, batch=64, length=512, dropout=0.1):
    """BERT (Devlin et al., 2018; the defaults are BERT-large): every position's word is predicted, the table tied."""
    net = Network()
    ids, segments = (net.input(n, [batch, length], TensorProto.INT64) for n in ("ids", "segments"))
    table = net.input("words", [words, hidden])
    x = net.node("Add", net.node("Gather", table, ids), net.node("Gather", net.input("segment_table", [2, hidden]), segments))
    x = net.dropout(net.normalised(net.node("Add", x, net.input("positions", [length, hidden])), "first", hidden), dropout)
    for i in range(layers):
        y = net.dropout(net.attention(x, f"l{i}", batch, length, hidden, heads, dropout=dropout), dropout)
        x = net.normalised(net.node("Add", x, y), f"l{i}.n1", hidden)
        y = net.gelu(net.linear(x, f"l{i}.up", hidden, 4 * hidden))
        y = net.dropout(net.linear(y, f"l{i}.down", 4 * hidden, hidden), dropout)
        x = net.normalised(net.node("Add", x, y), f"l{i}.n2", hidden)
    x = net.normalised(net.gelu(net.linear(x, "head", hidden, hidden)), "head.n", hidden)
    y = net.node("Add", net.node("MatMul", x, net.node("Transpose", table, perm=[1, 0]), name="logits"), net.input("logits.b", [words]))
    net.write(path, y, [batch, length, words])


def gpt(path, layers=96, hidden=12288, heads=96, words=50257, batch=16, length=2048, dropout=0):
    """GPT-3 (Brown et al., 2020; the defaults are the one of 175 billion parameters). Dropout is where Megatron-LM has it."""
    net = Network()
    ids = net.input("ids", [batch, length], TensorProto.INT64)
    table = net.input("words", [words, hidden])
    x = net.dropout(net.node("Add", net.node("Gather", table, ids), net.input("positions", [length, hidden])), dropout)
    mask = net.causal(length)
    for i in range(layers):
        y = net.attention(net.normalised(x, f"l{i}.n1", hidden), f"l{i}", batch, length, hidden, heads, mask, dropout)
        x = net.node("Add", x, net.dropout(y, dropout))
        y = net.gelu(net.linear(net.normalised(x, f"l{i}.n2", hidden), f"l{i}.up", hidden, 4 * hidden))
        x = net.node("Add", x, net.dropout(net.linear(y, f"l{i}.down", 4 * hidden, hidden), dropout))
    y = net.node("MatMul", net.normalised(x, "last", hidden), net.node("Transpose", table, perm=[1, 0]), name="logits")
    net.write(path, y, [batch, length, words])


def mixture(net, x, name, groups, tokens, hidden, experts, room):
    """One expert for every token, with room for so many tokens of a group in each: Switch Transformer (Fedus et al., 2021),
    tokens sent by products with a dispatch mask as in GShard (Lepikhin et al., 2020)."""
    gates = net.node("Softmax", net.node("MatMul", x, net.input(name + ".gate.w", [hidden, experts]), name=name + ".gate"), axis=-1)
    off_on = net.constant([0, 1], np.float32)
    best = net.node("ArgMax", gates, axis=-1, keepdims=0)
    chosen = net.node("OneHot", best, net.constant(experts), off_on)  # [group, token, expert]
    # A token's place in its expert's room; those that find none are dropped.
    place = net.node("Mul", net.node("CumSum", chosen, net.constant(1), exclusive=1), chosen)
    place = net.node("Cast", net.node("ReduceSum", place, net.constant([-1]), keepdims=0), to=TensorProto.INT64)
    slot = net.node("OneHot", place, net.constant(room), off_on)  # [group, token, room]; zeros beyond
    mask = net.node("Mul", net.node("Unsqueeze", chosen, net.constant([3])), net.node("Unsqueeze", slot, net.constant([2])))
    sent = net.node("Einsum", mask, x, equation="gtec,gth->egch", name=name + ".dispatch")
    h = net.node("Einsum", sent, net.input(name + ".up.w", [experts, hidden, 4 * hidden]), equation="egch,ehf->egcf", name=name + ".up")
    h = net.node("Einsum", net.gelu(h), net.input(name + ".down.w", [experts, 4 * hidden, hidden]), equation="egcf,efh->egch",
                 name=name + ".down")
    weights = net.node("Mul", mask, net.node("Unsqueeze", gates, net.constant([3])))
    return net.node("Einsum", weights, h, equation="gtec,egch->gth", name=name + ".combine")


def experts(path, layers=32, hidden=1024, heads=16, words=32128, batch=64, length=1024, experts=64):
    """A decoder in which every layer's dense part is a mixture of experts; a group of tokens is a sequence."""
    net = Network()
    ids = net.input("ids", [batch, length], TensorProto.INT64)
    table = net.input("words", [words, hidden])
    x = net.node("Add", net.node("Gather", table, ids), net.input("positions", [length, hidden]))
    mask, room = net.causal(length), -(-length * 5 // (4 * experts))
    for i in range(layers):
        x = net.node("Add", x, net.attention(net.normalised(x, f"l{i}.n1", hidden), f"l{i}", batch, length, hidden, heads, mask))
        y = mixture(net, net.normalised(x, f"l{i}.n2", hidden), f"l{i}", batch, length, hidden, experts, room)
        x = net.node("Add", x, y)
    y = net.node("MatMul", net.normalised(x, "last", hidden), net.node("Transpose", table, perm=[1, 0]), name="logits")
    net.write(path, y, [batch, length, words])


def llama(path, layers=32, hidden=4096, heads=32, groups=8, inner=14336, words=128256, batch=16, length=4096):
    """LLaMA 3 (Dubey et al., 2024; the defaults are the one of 8 billion parameters; 70 billion: layers=80 hidden=8192
    heads=64 inner=28672). `groups` heads of keys and values serve all heads."""
    net = Network()
    ids = net.input("ids", [batch, length], TensorProto.INT64)
    x = net.node("Gather", net.input("words", [words, hidden]), ids)
    head = hidden // heads
    mask, rotations = net.causal(length), net.rotations(length, head)

    def for_all_heads(y):
        y = net.node("Expand", net.node("Unsqueeze", y, net.constant([2])), net.constant([batch, groups, heads // groups, length, head]))
        return net.node("Reshape", y, net.constant([batch, heads, length, head]))

    for i in range(layers):
        name, y = f"l{i}", net.rms_normalised(x, f"l{i}.n1", hidden)
        q, k, v = (net.heads_of(net.matrix(y, f"{name}.{part}", hidden, n * head), batch, length, n, head)
                   for part, n in (("q", heads), ("k", groups), ("v", groups)))
        k, v = for_all_heads(net.rotated(k, head, rotations)), for_all_heads(v)
        y = net.mixed(net.rotated(q, head, rotations), k, v, name, batch, length, hidden, head ** -0.5, mask)
        x = net.node("Add", x, net.matrix(y, name + ".out", hidden, hidden))
        x = net.node("Add", x, net.gated(net.rms_normalised(x, name + ".n2", hidden), name, hidden, inner))
    net.write(path, net.matrix(net.rms_normalised(x, "last", hidden), "logits", hidden, words), [batch, length, words])


def top_mixture(net, x, name, groups, tokens, hidden, inner, experts, top, room):
    """Several experts for every token, gates by sigmoid; dispatched as in `mixture`."""
    gates = net.node("Sigmoid", net.matrix(x, name + ".router", hidden, experts))
    values, best = f"{name}.top:y", f"{name}.best:y"
    net.nodes.append(helper.make_node("TopK", [gates, net.constant([top])], [values, best], name=name + ".top", axis=-1))
    one_hot = net.node("OneHot", best, net.constant(experts), net.constant([0, 1], np.float32))
    chosen = net.node("ReduceSum", one_hot, net.constant([2]), keepdims=0)  # [group, token, expert]
    place = net.node("Cast", net.node("CumSum", chosen, net.constant(1), exclusive=1), to=TensorProto.INT64)
    slot = net.node("OneHot", place, net.constant(room), net.constant([0, 1], np.float32))
    mask = net.node("Mul", slot, net.node("Unsqueeze", chosen, net.constant([3])))  # [group, token, expert, room]
    sent = net.node("Einsum", mask, x, equation="gtec,gth->egch", name=name + ".dispatch")
    up, gate = (net.node("Einsum", sent, net.input(f"{name}.{part}.w", [experts, hidden, inner]), equation="egch,ehf->egcf",
                         name=f"{name}.{part}") for part in ("up", "gate"))
    h = net.node("Einsum", net.node("Mul", net.silu(gate), up), net.input(name + ".down.w", [experts, inner, hidden]),
                 equation="egcf,efh->egch", name=name + ".down")
    kept = net.node("Mul", gates, chosen)
    kept = net.node("Div", kept, net.node("ReduceSum", kept, net.constant([-1]), keepdims=1))
    weights = net.node("Mul", mask, net.node("Unsqueeze", kept, net.constant([3])))
    return net.node("Einsum", weights, h, equation="gtec,egch->gth", name=name + ".combine")


def deepseek(path, layers=61, dense=3, hidden=7168, heads=128, inner=18432, words=129280, experts=256, top=8, expert=2048,
             batch=16, length=4096, group=256):
    """DeepSeek-V3 (2024): latent attention, the first layers dense, then mixtures beside one shared expert. Tokens are
    dispatched within groups."""
    net = Network()
    latent_q, latent_kv, plain, turned = hidden * 3 // 14, hidden // 14, hidden // 56, hidden // 112
    ids = net.input("ids", [batch, length], TensorProto.INT64)
    x = net.node("Gather", net.input("words", [words, hidden]), ids)
    mask, rotations = net.causal(length), net.rotations(length, turned)
    groups, room = batch * length // group, -(-group * top * 5 // (4 * experts))
    for i in range(layers):
        name, y = f"l{i}", net.rms_normalised(x, f"l{i}.n1", hidden)
        q = net.rms_normalised(net.matrix(y, name + ".q_down", hidden, latent_q), name + ".q_norm", latent_q)
        q = net.heads_of(net.matrix(q, name + ".q_up", latent_q, heads * (plain + turned)), batch, length, heads, plain + turned)
        q, q_turned = net.parts(q, 3, [plain, turned])
        kv, k_turned = net.parts(net.matrix(y, name + ".kv_down", hidden, latent_kv + turned), 2, [latent_kv, turned])
        kv = net.matrix(net.rms_normalised(kv, name + ".kv_norm", latent_kv), name + ".kv_up", latent_kv, heads * 2 * plain)
        k, v = net.parts(net.heads_of(kv, batch, length, heads, 2 * plain), 3, [plain, plain])
        k_turned = net.rotated(net.node("Unsqueeze", k_turned, net.constant([1])), turned, rotations)
        k_turned = net.node("Expand", k_turned, net.constant([batch, heads, length, turned]))
        q = net.node("Concat", q, net.rotated(q_turned, turned, rotations), axis=-1)
        k = net.node("Concat", k, k_turned, axis=-1)
        y = net.mixed(q, k, v, name, batch, length, heads * plain, (plain + turned) ** -0.5, mask)
        x = net.node("Add", x, net.matrix(y, name + ".out", heads * plain, hidden))
        y = net.rms_normalised(x, name + ".n2", hidden)
        if i < dense:
            x = net.node("Add", x, net.gated(y, name, hidden, inner))
            continue
        sent = net.node("Reshape", y, net.constant([groups, group, hidden]))
        sent = top_mixture(net, sent, name, groups, group, hidden, expert, experts, top, room)
        sent = net.node("Reshape", sent, net.constant([batch, length, hidden]))
        x = net.node("Add", x, net.node("Add", sent, net.gated(y, name + ".shared", hidden, expert)))
    net.write(path, net.matrix(net.rms_normalised(x, "last", hidden), "logits", hidden, words), [batch, length, words])


NETWORKS = {f.__name__: f for f in (bert, gpt, llama, experts, deepseek)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NETWORKS)
    parser.add_argument("-o", dest="path", required=True)
    parser.add_argument("sizes", nargs="*", metavar="KEY=VALUE")
    args = parser.parse_intermixed_args()
    sizes = dict(s.split("=", 1) for s in args.sizes)
    NETWORKS[args.name](args.path, **{k: float(v) if k == "dropout" else v if k == "batch" and not v.isdigit() else int(v)
                                      for k, v in sizes.items()})


if __name__ == "__main__":
    main()
