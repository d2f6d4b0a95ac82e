#!/usr/bin/env python3
"""Puts the Send and Recv of mode hybrid into a network (docs/hybrid.md): a stage for each node gives the borders.

Run in this folder it writes mlp_stages.onnx: the network of mlp_hybrid.onnx with a border before fc3.

    /usr/bin/python3 stages.py
"""
import onnx
from onnx import helper


def mark_stages(source, path, stage_of, relay=False):
    """Writes the network of the file `source` with a border wherever a value is read in a later stage than it is made.

    stage_of: (node, the last stage of what it reads) -> its stage. relay: a value crosses several stages by a pair from
    each to the next; else by one pair.
    """
    network = onnx.load(str(source))
    graph = network.graph
    home, copies, nodes = {}, {}, []

    def read(name, stage):
        if home.get(name, stage) == stage:
            return name
        if (name, stage) not in copies:
            before = stage - 1 if relay else home[name]
            sent, got = f"{name}.to{stage}", f"{name}.in{stage}"
            value = read(name, before)
            nodes.append(helper.make_node("Send", [value], [sent], f"{name}/send{stage}", domain="ai.tessera", to=stage))
            nodes.append(helper.make_node("Recv", [sent], [got], f"{name}/recv{stage}", domain="ai.tessera",
                                          **{"from": before}))
            copies[name, stage] = got
        return copies[name, stage]

    for node in graph.node:
        reads = [name for name in node.input if name in home]
        stage = stage_of(node, max((home[name] for name in reads), default=0))
        for i, name in enumerate(node.input):
            node.input[i] = read(name, stage)
        nodes.append(node)
        # What depends on no input, as the constants of a shape, belongs to no stage.
        if reads or any(name in (i.name for i in graph.input) for name in node.input):
            home.update((name, stage) for name in node.output)
    del graph.node[:]
    graph.node.extend(nodes)
    if "ai.tessera" not in {o.domain for o in network.opset_import}:
        network.opset_import.append(helper.make_opsetid("ai.tessera", 1))
    onnx.save(network, str(path))
    return path


if __name__ == "__main__":
    mark_stages("mlp_hybrid.onnx", "mlp_stages.onnx", lambda node, before: max(before, int("/fc3/" in node.name)))
