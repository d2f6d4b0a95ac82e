#!/usr/bin/env python3
"""One training step of a network by PyTorch, and what the device reaches: run.py starts this, a process for each question.

usage: torch_speed.py ceilings DEVICE
       torch_speed.py step DEVICE NETWORK BATCH SETTING PRECISION [SIZE]

DEVICE: cuda, or cpu for a check of this script. NETWORK: resnet50 (images of SIZE pixels, default 224), gpt (GPT-2 small on
SIZE tokens, default 1024), bert (BERT-large on SIZE tokens, default 512) or bert-plain (the same without dropout).
SETTING: eager, compiled (inductor: network and loss) or graphs (the same in CUDA graphs), and last (channels last), joined by
"+". PRECISION: f32, tf32, or bf16 (autocast). Prints seconds as JSON: the median of 20 steps after 5.
"""
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


def conv_norm(channels, filters, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(filters))


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.body = nn.Sequential(conv_norm(channels, width, 1), nn.ReLU(), conv_norm(width, width, 3, stride), nn.ReLU(),
                                  conv_norm(width, 4 * width, 1))
        self.skip = conv_norm(channels, 4 * width, 1, stride) if stride > 1 or channels != 4 * width else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        blocks, channels = [], 64
        for i, count in enumerate((3, 4, 6, 3)):
            for j in range(count):
                blocks.append(Bottleneck(channels, 64 << i, 2 if i and not j else 1))
                channels = 256 << i
        self.stem, self.blocks, self.head = conv_norm(3, 64, 7, 2), nn.Sequential(*blocks), nn.Linear(channels, classes)

    def forward(self, x):
        x = self.blocks(F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1))
        return self.head(x.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(width, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, length, layers=12, width=768, heads=12, words=50257):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Parameter(0.01 * torch.randn(length, width))
        self.blocks, self.ln = nn.Sequential(*(Block(width, heads) for _ in range(layers))), nn.LayerNorm(width)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, ids):
        return self.ln(self.blocks(self.wte(ids) + self.wpe)) @ self.wte.weight.t()


class EncoderBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.dropout = heads, dropout

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        x = self.ln1(x + F.dropout(self.proj(mixed.transpose(1, 2).reshape(batch, length, width)), self.dropout))
        return self.ln2(x + F.dropout(self.out(F.gelu(self.fc(x))), self.dropout))


class Bert(nn.Module):
    def __init__(self, length, dropout, layers=24, width=1024, heads=16, words=30522):
        super().__init__()
        self.words, self.segments = nn.Embedding(words, width), nn.Embedding(2, width)
        self.positions = nn.Parameter(0.01 * torch.randn(length, width))
        nn.init.normal_(self.words.weight, std=0.02)
        self.ln, self.dropout = nn.LayerNorm(width), dropout
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads, dropout) for _ in range(layers)))
        self.head, self.last, self.bias = nn.Linear(width, width), nn.LayerNorm(width), nn.Parameter(torch.zeros(words))

    def forward(self, ids):
        x = self.words(ids) + self.segments(ids % 2) + self.positions
        x = self.blocks(F.dropout(self.ln(x), self.dropout))
        return F.linear(self.last(F.gelu(self.head(x))), self.words.weight, self.bias)


WORDS = {"gpt": 50257, "bert": 30522, "bert-plain": 30522}


def network_of(name, size, small):
    layers = {"layers": 2} if small else {}
    if name == "resnet50":
        return ResNet50()
    return Gpt(size, **layers) if name == "gpt" else Bert(size, 0 if name == "bert-plain" else 0.1, **layers)


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def median(device, work, warm, count):
    times = []
    for _ in range(warm + count):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[warm:])


def allow_tf32(on):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on


def step(device, network, batch, setting, precision, size):
    torch.manual_seed(0)
    allow_tf32(precision != "f32")
    torch.backends.cudnn.benchmark = True
    images, small = network == "resnet50", device == "cpu"
    net = network_of(network, size, small)
    if images:
        x, y = torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,))
    else:
        x, y = (torch.randint(0, WORDS[network], (batch, size)) for _ in range(2))
    net, x, y = net.to(device).train(), x.to(device), y.to(device)
    if "last" in setting:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = (torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, weight_decay=5e-4) if images else
                 torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.01, **{} if small else {"fused": True}))

    def loss_of(x, y):
        return F.cross_entropy(net(x).flatten(0, -2), y.flatten())

    if "eager" not in setting:
        loss_of = torch.compile(loss_of, **{"mode": "reduce-overhead"} if "graphs" in setting else {})

    def work():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of(x, y)
        loss.backward()
        optimizer.step()

    return median(device, work, *((1, 2) if small else (5, 20)))


def ceilings(device):
    """Products of large square matrices in TFLOP/s, and a large copy in TB/s."""
    n, bytes_ = (8192, 4 << 30) if device == "cuda" else (256, 16 << 20)
    result = {}
    for name, kind in (("f32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16)):
        allow_tf32(name != "f32")
        a, b = (torch.randn(n, n, device=device, dtype=kind) for _ in range(2))
        result[name] = 2 * n**3 / median(device, lambda: a @ b, 2, 10) / 1e12
    source, target = (torch.empty(bytes_ // 4, device=device) for _ in range(2))
    result["copy"] = 2 * bytes_ / median(device, lambda: target.copy_(source), 2, 10) / 1e12
    return result


if __name__ == "__main__":
    what, device, *rest = sys.argv[1:]
    if what == "ceilings":
        print(json.dumps(ceilings(device)))
    else:
        network, batch, setting, precision, *size = rest
        print(json.dumps(step(device, network, int(batch), setting.split("+"), precision,
                              int(size[0]) if size else {"resnet50": 224, "gpt": 1024}.get(network, 512))))
