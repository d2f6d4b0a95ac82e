"""The networks that versus_pytorch.py trains and infers, as PyTorch modules with an example batch.

    make, inputs, target, adam, images = NETWORKS["gpt2"]   # make() is seeded; inputs and target are NumPy arrays
"""
import math

import numpy as np
import torch
from torch import nn


class Block(nn.Module):
    """A transformer layer, normalised before attention and MLP."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.qkv(self.ln1(x)).split(width, dim=2))
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
        if self.causal:
            scores = scores + torch.full((length, length), -1e9).triu(1)
        mixed = (scores.softmax(dim=3) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.proj(mixed)
        return x + self.out(nn.functional.gelu(self.fc(self.ln2(x))))


class Gpt2(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, words=50257, length=128):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Parameter(0.01 * torch.randn(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads, True) for _ in range(layers)))
        self.ln = nn.LayerNorm(width)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, ids):
        return self.ln(self.blocks(self.wte(ids) + self.wpe)) @ self.wte.weight.t()


class Bert(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, words=30522, length=128, classes=2):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(0.01 * torch.randn(length, width))
        self.ln = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(Block(width, heads, False) for _ in range(layers)))
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, ids):
        x = self.blocks(self.ln(self.words(ids) + self.places))
        return self.head(torch.tanh(self.pooler(x[:, 0])))


class Vit(nn.Module):
    def __init__(self, layers=12, width=384, heads=6, patch=16, image=224, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, False) for _ in range(layers)))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        return self.head(self.ln(self.blocks(x))[:, 0])


def double(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                         nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())


class Unet(nn.Module):
    def __init__(self, base=32, levels=4, classes=21):
        super().__init__()
        widths = [base << i for i in range(levels + 1)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([3] + widths[:-1], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(double(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([self.up[i](x), kept[i]], dim=1))
        return self.head(x)


def resnet50(small):
    import torchvision

    net = torchvision.models.resnet50(num_classes=10 if small else 1000)
    if small:  # the usual stem for 32x32 images
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = nn.Identity()
    return net


def torchvision_model(name):
    import torchvision

    return getattr(torchvision.models, name)()


def mlp():
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(4096, 4096), nn.ReLU())))


def seeded(make):
    def made():
        torch.manual_seed(0)
        return make()

    return made


def images(batch, size):
    return np.random.default_rng(0).standard_normal((batch, 3, size, size)).astype(np.float32)


def ids(words, *shape):
    return np.random.default_rng(1).integers(0, words, shape)


def with_batch(inputs, batch):
    """The inputs repeated or cut to another batch; as they are for 0."""
    return np.resize(inputs, (batch or len(inputs), *inputs.shape[1:]))


# name: module, inputs, target, whether Adam trains it (else SGD), whether it is made of convolutions
NETWORKS = {
    "resnet50_32": (lambda: resnet50(True), images(32, 32), ids(10, 32), False, True),
    "gpt2": (Gpt2, ids(50257, 4, 128), ids(50257, 4, 128), True, False),
    "bert": (Bert, ids(30522, 4, 128), ids(2, 4), True, False),
    "vit": (Vit, images(8, 224), ids(1000, 8), True, False),
    "resnet50_224": (lambda: resnet50(False), images(8, 224), ids(1000, 8), False, True),
    "mlp": (mlp, np.random.default_rng(2).standard_normal((256, 4096)).astype(np.float32), ids(4096, 256), False, False),
    "unet": (Unet, images(4, 128), ids(21, 4, 128, 128), False, True),
    # to see whether a script works
    "gpt2_small": (lambda: Gpt2(2, 64, 4, 500, 32), ids(500, 4, 32), ids(500, 4, 32), True, False),
    "bert_small": (lambda: Bert(2, 64, 4, 500, 32), ids(500, 4, 32), ids(2, 4), True, False),
    # for inference: in training they drop parts at random
    "mobilenet_v3": (lambda: torchvision_model("mobilenet_v3_large"), images(8, 224), ids(1000, 8), False, True),
    "efficientnet_b0": (lambda: torchvision_model("efficientnet_b0"), images(8, 224), ids(1000, 8), False, True),
}
NETWORKS = {name: (seeded(row[0]), *row[1:]) for name, row in NETWORKS.items()}
