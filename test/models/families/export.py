#!/usr/bin/env python3
"""Exports torchvision's networks as ONNX graphs for inference, without weights.

Needs PyTorch 1.13, torchvision 0.14 and onnx (Debian 12: python3-torch, python3-torchvision, python3-onnx). Run it in
this folder:

    /usr/bin/python3 export.py

Weights become graph inputs, which Tessera initialises by rule and seed. The batch is 4, the images are 64x64 (96x96 for
Inception), the operator set is 16.
"""

import io

import onnx
import torch
from onnx import helper
from torchvision import models

NETWORKS = {
    "squeezenet": (lambda: models.squeezenet1_1(weights=None), 64),
    "densenet121": (lambda: models.densenet121(weights=None), 64),
    "googlenet": (lambda: models.googlenet(weights=None, init_weights=False, aux_logits=False), 64),
    "inception_v3": (lambda: models.inception_v3(weights=None, init_weights=False, aux_logits=False), 96),
    "shufflenet": (lambda: models.shufflenet_v2_x0_5(weights=None), 64),
    "mobilenet_v3": (lambda: models.mobilenet_v3_small(weights=None), 64),
    "efficientnet": (lambda: models.efficientnet_b0(weights=None), 64),
    "convnext": (lambda: models.convnext_tiny(weights=None), 64),
}
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "LayerNormalization")


def without_weights(model):
    """Floating point initializers that weighted operators read, or that are called like parameters, as inputs."""
    graph = model.graph
    weights = {name for node in graph.node if node.op_type in WEIGHTED for name in node.input[1:]}
    kept = []
    for tensor in graph.initializer:
        named = tensor.name.endswith((".weight", ".bias", "layer_scale"))
        if tensor.data_type == onnx.TensorProto.FLOAT and (tensor.name in weights or named):
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        else:
            kept.append(tensor)
    del graph.initializer[:]
    graph.initializer.extend(kept)
    for node in graph.node:
        node.doc_string = ""
    return model


def main():
    for name, (make, size) in NETWORKS.items():
        torch.manual_seed(0)
        data = io.BytesIO()
        torch.onnx.export(make().eval(), torch.randn(4, 3, size, size), data, opset_version=16, input_names=["x0"])
        onnx.save(without_weights(onnx.load_from_string(data.getvalue())), f"{name}.onnx")


if __name__ == "__main__":
    main()
