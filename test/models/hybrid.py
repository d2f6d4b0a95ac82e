#!/usr/bin/env python3
"""Exports the network of mlp_train.onnx as the program of one rank: fc1 in columns, fc2 in rows over two ranks.

Needs PyTorch 1.13 (Debian 12: python3-torch). Run it in this folder:

    /usr/bin/python3 hybrid.py

Writes mlp_hybrid.onnx, without weights; mlp_hybrid.json says what its parameters are slices of (docs/hybrid.md).
"""

import torch
from torch import nn
from torch.nn.functional import linear


class AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, axis):
        return x.clone()  # one rank's shapes; only the export matters

    @staticmethod
    def symbolic(g, x, axis):
        return g.op("ai.tessera::AllReduce", x, axes_s=axis, reduction_s="sum").setType(x.type())


class Columns(nn.Module):
    """A slice of the outputs: every rank has the whole input."""

    def __init__(self, inputs, outputs, ranks):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs // ranks, inputs))
        self.bias = nn.Parameter(torch.empty(outputs // ranks))

    def forward(self, x):
        return linear(x, self.weight, self.bias)


class Rows(nn.Module):
    """A slice of the inputs: every rank has a part of the sum."""

    def __init__(self, inputs, outputs, ranks):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs // ranks))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return AllReduce.apply(linear(x, self.weight), "model") + self.bias


class MLP(nn.Module):
    def __init__(self, ranks):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = Columns(784, 256, ranks), Rows(256, 128, ranks), nn.Linear(128, 10)

    def forward(self, x):
        x = torch.flatten(x, 1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


torch.onnx.export(MLP(ranks=2), torch.zeros(2, 1, 28, 28), "mlp_hybrid.onnx", export_params=False, opset_version=17,
                  training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                  custom_opsets={"ai.tessera": 1}, input_names=["image"], output_names=["logits"],
                  dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}})
