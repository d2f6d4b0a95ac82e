#!/usr/bin/env python3
"""Exports the networks of this folder as ONNX graphs without weights.

Needs PyTorch 1.13 and torchvision 0.14 (Debian 12: python3-torch, python3-torchvision). Run it in this folder:

    /usr/bin/python3 export.py

Each network is written twice, for training (BatchNorm and Dropout kept in training mode, constants not
folded) and for inference, with a symbolic batch dimension named "batch".
"""

import sys

import torch
from torch import nn
from torchvision.models import resnet18, resnet50
from torchvision.models.vgg import cfgs, make_layers


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 256), nn.Linear(256, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = torch.flatten(x, 1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = x.view(x.size(0), -1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class VGG11(nn.Module):
    """VGG-11 for 32x32 images, with the dropout of the original classifier."""

    def __init__(self):
        super().__init__()
        self.features = make_layers(cfgs["A"], batch_norm=False)
        self.classifier = nn.Sequential(
            nn.Linear(512, 512), nn.ReLU(True), nn.Dropout(0.5),
            nn.Linear(512, 512), nn.ReLU(True), nn.Dropout(0.5),
            nn.Linear(512, 10))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


def cifar(make):
    """A residual network for 32x32 images: 3x3 stem, no pooling after it."""
    net = make(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    net.maxpool = nn.Identity()
    return net


NETWORKS = {
    "mlp": (MLP, (1, 28, 28), [17]),
    "lenet": (LeNet, (1, 28, 28), [9, 17]),
    "vgg11_cifar": (VGG11, (3, 32, 32), [17]),
    "resnet18_cifar": (lambda: cifar(resnet18), (3, 32, 32), [9, 13, 17]),
    "resnet50_cifar": (lambda: cifar(resnet50), (3, 32, 32), [17]),
    "resnet18_224": (resnet18, (3, 224, 224), [17]),
    "resnet50_224": (resnet50, (3, 224, 224), [17]),
}


def main():
    for name, (make, shape, opsets) in NETWORKS.items():
        for opset in opsets:
            for mode in ("train", "eval"):
                training = mode == "train"
                torch.manual_seed(0)
                net = make().train(training)
                # The exporter merges tensors of equal values; folded biases of untrained networks are.
                for module in net.modules():
                    if isinstance(module, nn.BatchNorm2d):
                        nn.init.normal_(module.bias)
                suffix = "" if opset == 17 else f"_op{opset}"
                torch.onnx.export(
                    net, torch.zeros(2, *shape), f"{name}_{mode}{suffix}.onnx",
                    export_params=False, opset_version=opset,
                    training=torch.onnx.TrainingMode.TRAINING if training
                    else torch.onnx.TrainingMode.EVAL,
                    do_constant_folding=not training,
                    input_names=["image"], output_names=["logits"],
                    dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}})
                print(name, mode, opset, file=sys.stderr)


if __name__ == "__main__":
    main()
