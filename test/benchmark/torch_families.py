"""Small networks of every family that families.py trains: as they are commonly written in PyTorch, a few layers each.

    make, inputs, target, loss, cuts = FAMILIES["bert"]     # make() is seeded; the rest are NumPy arrays, text

`cuts` is how a person would cut the network over the axis "model": (operators' names, how each input is cut), as in a
strategy file. After Megatron-LM (Shoeybi et al., 2019) for transformers: the first matrix of a pair by columns, the second
by rows; by output channels for convolutions.
"""
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

COLUMNS, ROWS, CHANNELS = [None, [None, "model"]], [None, ["model", None]], [None, ["model", None, None, None]]
MEGATRON = [("*/q/MatMul", COLUMNS), ("*/k/MatMul", COLUMNS), ("*/v/MatMul", COLUMNS), ("*/o/MatMul", ROWS),
            ("*/up/MatMul", COLUMNS), ("*/gate/MatMul", COLUMNS), ("*/down/MatMul", ROWS)]
CONVOLUTIONS = [("*/Conv", CHANNELS)]


class Attention(nn.Module):
    def __init__(self, width, heads, groups=None, rotary=False, buckets=0):
        super().__init__()
        self.heads, self.groups, self.head, self.rotary = heads, groups or heads, width // heads, rotary
        self.q, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.k, self.v = (nn.Linear(width, self.groups * self.head) for _ in "kv")
        self.near = nn.Embedding(buckets, heads) if buckets else None  # relative position bias, as in T5

    def turned(self, x):
        length, half = x.shape[2], self.head // 2
        angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=3)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        split = lambda t, n: t.reshape(t.shape[0], t.shape[1], n, self.head).transpose(1, 2)
        q, k, v = split(self.q(x), self.heads), split(self.k(memory), self.groups), split(self.v(memory), self.groups)
        if self.rotary:
            q, k = self.turned(q), self.turned(k)
        if self.groups != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.head)
        if self.near is not None:
            apart = torch.arange(x.shape[1])[:, None] - torch.arange(memory.shape[1])[None]
            scores = scores + self.near(apart.clamp(-4, 3) + 4).permute(2, 0, 1)
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        return self.o((scores.softmax(dim=3) @ v).transpose(1, 2).reshape(x.shape))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Mlp(nn.Module):
    def __init__(self, width, act=F.gelu, hidden=None):
        super().__init__()
        self.up, self.down, self.act = nn.Linear(width, hidden or 4 * width), nn.Linear(hidden or 4 * width, width), act

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class SwiGlu(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """A mixture of experts with room for so many tokens each: sent by products with a mask (GShard, Lepikhin et al., 2020)."""

    def __init__(self, width, experts=4, top=1, room=10):
        super().__init__()
        self.router, self.top, self.room = nn.Linear(width, experts), top, room
        self.w1 = nn.Parameter(0.1 * torch.randn(experts, width, 2 * width))
        self.w2 = nn.Parameter(0.1 * torch.randn(experts, 2 * width, width))

    def forward(self, x):
        gates = self.router(x).softmax(dim=2)
        best, at = gates.topk(self.top, dim=2)
        if self.top > 1:
            best = best / best.sum(dim=2, keepdim=True)
        send, filled = 0, 0
        for i in range(self.top):
            chosen = F.one_hot(at[:, :, i], gates.shape[2]).to(x.dtype)
            place = (chosen.cumsum(dim=1) - 1 + filled) * chosen  # in the expert's room
            filled = filled + chosen.sum(dim=1, keepdim=True)
            slot = (place.sum(dim=2, keepdim=True) == torch.arange(self.room)).to(x.dtype)
            send = send + (best[:, :, i, None] * chosen)[:, :, :, None] * slot[:, :, None, :]
        got = torch.einsum("gtec,gth->egch", (send > 0).to(x.dtype), x)
        h = torch.einsum("egch,ehf->egcf", got, self.w1).relu()
        return torch.einsum("gtec,egch->gth", send, torch.einsum("egcf,efh->egch", h, self.w2))


class Block(nn.Module):
    def __init__(self, width, heads, mlp=None, norm=nn.LayerNorm, after=False, cross=False, **attention):
        super().__init__()
        self.attention, self.mlp, self.after = Attention(width, heads, **attention), mlp or Mlp(width), after
        self.norm1, self.norm2 = norm(width), norm(width)
        self.cross, self.norm3 = (Attention(width, heads), norm(width)) if cross else (None, None)

    def forward(self, x, mask=None, memory=None):
        if self.after:
            x = self.norm1(x + self.attention(x, mask=mask))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x), mask=mask)
        if self.cross is not None:
            x = x + self.cross(self.norm3(x), memory=memory)
        return x + self.mlp(self.norm2(x))


def causal(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


class Bert(nn.Module):
    def __init__(self, words=100, width=32, length=16):
        super().__init__()
        self.words, self.segments = nn.Embedding(words, width), nn.Embedding(2, width)
        self.places, self.norm = nn.Parameter(0.02 * torch.randn(length, width)), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, 4, after=True) for _ in range(2))
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, 4)

    def forward(self, ids, segments, attend):
        x = self.norm(self.words(ids) + self.segments(segments) + self.places)
        for block in self.blocks:
            x = block(x, mask=(attend == 0)[:, None, None, :])
        return self.head(torch.tanh(self.pooler(x[:, 0])))


class Decoder(nn.Module):
    """GPT-2 with a tied embedding, LLaMA, or a decoder with experts, by its blocks."""

    def __init__(self, block, norm=nn.LayerNorm, places=True, tied=True, words=100, width=32, length=16):
        super().__init__()
        self.words = nn.Embedding(words, width)
        nn.init.normal_(self.words.weight, std=0.1)
        self.places = nn.Parameter(0.02 * torch.randn(length, width)) if places else None
        self.blocks, self.norm = nn.ModuleList(block() for _ in range(2)), norm(width)
        self.head = None if tied else nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.words(ids)
        x = x if self.places is None else x + self.places
        for block in self.blocks:
            x = block(x, mask=causal(ids.shape[1]))
        x = self.norm(x)
        return x @ self.words.weight.t() if self.head is None else self.head(x)


class EncoderDecoder(nn.Module):
    def __init__(self, words=100, width=32):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(words, width), RmsNorm(width), nn.Linear(width, words)
        relu = lambda: Mlp(width, F.relu)
        self.encoder = nn.ModuleList(Block(width, 4, relu(), RmsNorm, buckets=8) for _ in range(2))
        self.decoder = nn.ModuleList(Block(width, 4, relu(), RmsNorm, cross=True, buckets=8) for _ in range(2))

    def forward(self, source, ids):
        memory, x = self.words(source), self.words(ids)
        for block in self.encoder:
            memory = block(memory)
        for block in self.decoder:
            x = block(x, mask=causal(ids.shape[1]), memory=memory)
        return self.head(self.norm(x))


class Patches(nn.Module):
    def __init__(self, width, blocks, token=False, image=32, patch=8):
        super().__init__()
        self.patches, self.norm, self.head = nn.Conv2d(3, width, patch, patch), nn.LayerNorm(width), nn.Linear(width, 10)
        self.token = nn.Parameter(torch.zeros(1, 1, width)) if token else None
        self.places = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + token, width)) if token else None
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        x = self.norm(self.blocks(x))
        return self.head(x[:, 0] if self.token is not None else x.mean(dim=1))


class Mixer(nn.Module):
    def __init__(self, width, tokens):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens, self.channels = Mlp(tokens, hidden=32), Mlp(width)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Window(nn.Module):
    """A Swin layer: attention within windows of 4 x 4, rolled by half a window."""

    def __init__(self, width, side, shift):
        super().__init__()
        self.norm1, self.norm2, self.mlp, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Mlp(width), Attention(width, 4)
        self.side, self.shift = side, shift
        place = torch.zeros(side, side, dtype=torch.long)
        if shift:
            cut = lambda n: (torch.arange(n) >= n - 4).long() + (torch.arange(n) >= n - shift).long()
            place = cut(side)[:, None] * 3 + cut(side)[None]
        place = self.windows(place[None, :, :, None])[:, :, 0]
        self.register_buffer("mask", (place[:, None, :] != place[:, :, None])[None, :, None])

    def windows(self, x):
        n, s, _, c = x.shape
        return x.view(n, s // 4, 4, s // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)

    def forward(self, x):  # [n, side, side, c]
        n, s, _, c = x.shape
        y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2)) if self.shift else self.norm1(x)
        mask = self.mask.expand(n, -1, -1, -1, -1).reshape(-1, 1, 16, 16) if self.shift else None
        y = self.attention(self.windows(y), mask=mask)
        y = y.view(n, s // 4, s // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, s, s, c)
        x = x + (torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y)
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.first = nn.Sequential(Window(width, 8, 0), Window(width, 8, 2))
        self.norm, self.merge = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)
        self.second, self.head = Window(2 * width, 4, 0), nn.Linear(2 * width, 10)

    def forward(self, x):
        x = self.first(self.patches(x).permute(0, 2, 3, 1))
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], dim=3)
        return self.head(self.second(self.merge(self.norm(x))).mean(dim=(1, 2)))


def convolved(a, b, kernel=3, act=nn.ReLU, **options):
    return nn.Sequential(nn.Conv2d(a, b, kernel, padding=kernel // 2, bias=False, **options), nn.BatchNorm2d(b), act())


def classifier(*layers, width):
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class Residual(nn.Module):
    def __init__(self, a, b, stride=1):
        super().__init__()
        self.one, self.two = convolved(a, b, stride=stride), convolved(b, b, act=nn.Identity)
        self.short = convolved(a, b, 1, nn.Identity, stride=stride) if stride > 1 or a != b else nn.Identity()

    def forward(self, x):
        return F.relu(self.two(self.one(x)) + self.short(x))


class Inverted(nn.Module):
    """MobileNet's block; with squeeze and excitation, EfficientNet's."""

    def __init__(self, a, b, stride=1, squeeze=False, act=nn.ReLU6):
        super().__init__()
        self.deep = nn.Sequential(convolved(a, 2 * a, 1, act), convolved(2 * a, 2 * a, act=act, stride=stride, groups=2 * a))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2 * a, 4, 1), nn.SiLU(), nn.Conv2d(4, 2 * a, 1),
                                     nn.Sigmoid()) if squeeze else None
        self.out, self.add = convolved(2 * a, b, 1, nn.Identity), stride == 1 and a == b

    def forward(self, x):
        y = self.deep(x)
        y = self.out(y if self.squeeze is None else y * self.squeeze(y))
        return x + y if self.add else y


class Dense(nn.Module):
    def __init__(self, a, grow=8, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(a + i * grow), nn.ReLU(), nn.Conv2d(
            a + i * grow, grow, 3, padding=1, bias=False)) for i in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return x


class Inception(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.one, self.three = convolved(a, 8, 1), nn.Sequential(convolved(a, 8, 1), convolved(8, 8))
        self.five = nn.Sequential(convolved(a, 8, 1), convolved(8, 8), convolved(8, 8))
        self.pool = nn.Sequential(nn.AvgPool2d(3, 1, 1), convolved(a, 8, 1))

    def forward(self, x):
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], dim=1)


class Fire(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.squeeze, self.one, self.three = nn.Conv2d(a, 8, 1), nn.Conv2d(8, b, 1), nn.Conv2d(8, b, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], dim=1)


class Shuffle(nn.Module):
    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.branch = nn.Sequential(convolved(half, half, 1), convolved(half, half, act=nn.Identity, groups=half),
                                    convolved(half, half, 1))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        x = torch.cat([a, self.branch(b)], dim=1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class ConvNext(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wide, self.norm, self.mlp = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width), Mlp(width)
        self.scale = nn.Parameter(0.1 * torch.ones(width))

    def forward(self, x):
        y = self.mlp(self.norm(self.wide(x).permute(0, 2, 3, 1))) * self.scale
        return x + y.permute(0, 3, 1, 2)


class Unet(nn.Module):
    def __init__(self, bilinear, base=8, classes=4):
        super().__init__()
        pair = lambda a, b: nn.Sequential(convolved(a, b), convolved(b, b))
        self.down = nn.ModuleList(pair(a, b) for a, b in ((3, base), (base, 2 * base), (2 * base, 4 * base)))
        rise = lambda a, b: (nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(a, b, 1))
                             if bilinear else nn.ConvTranspose2d(a, b, 2, 2))
        self.up = nn.ModuleList(rise(2 * b, b) for b in (base, 2 * base))
        self.join, self.head = nn.ModuleList(pair(2 * b, b) for b in (base, 2 * base)), nn.Conv2d(base, classes, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i in (1, 0):
            x = self.join[i](torch.cat([self.up[i](x), kept[i]], dim=1))
        return self.head(x)


class Dlrm(nn.Module):
    def __init__(self, rows=50, tables=4, width=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width)
                                    for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("row", torch.tril_indices(tables + 1, tables + 1, -1)[0])
        self.register_buffer("column", torch.tril_indices(tables + 1, tables + 1, -1)[1])

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        all = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], dim=1)
        dots = torch.bmm(all, all.transpose(1, 2))[:, self.row, self.column]
        return self.top(torch.cat([x, dots], dim=1))[:, 0]


def along_one():
    return nn.Sequential(nn.Conv1d(4, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
                         nn.Conv1d(16, 32, 3, stride=2, padding=1, groups=4), nn.GELU(), nn.Conv1d(32, 32, 3, dilation=2),
                         nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 10))


def in_space():
    return nn.Sequential(nn.Conv3d(2, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 16, 3, padding=1),
                         nn.ReLU(), nn.AvgPool3d(2), nn.Flatten(), nn.Linear(16 * 8, 10))


def lstm():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 10)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    return Last()


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ids(below, *shape, seed=1):
    return np.random.default_rng(seed).integers(0, below, shape)


def attended(batch, length):
    lengths = np.random.default_rng(3).integers(length // 2, length + 1, (batch, 1))
    return (np.arange(length)[None] < lengths).astype(np.int64)


IMAGES, LABELS, TEXT, NEXT = noise(8, 3, 32, 32), ids(10, 8), ids(100, 8, 16), ids(100, 8, 16, seed=2)
stem = lambda width: convolved(3, width, stride=2)
decoder = lambda **options: lambda: Decoder(lambda: Block(32, 4, **options))
EXPERTS = [("*/Einsum_1", [None, ["model", None, None]]), ("*/Einsum_2", [None, ["model", None, None]])]

# name: module, inputs, target, loss, cuts
FAMILIES = {
    "MLP": (lambda: nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
            [noise(8, 20)], LABELS, "cross_entropy", [("*0/Gemm", [None, ["model", None]]), ("*2/Gemm", [None, [None, "model"]])]),
    "BERT": (Bert, [TEXT, ids(2, 8, 16, seed=4), attended(8, 16)], ids(4, 8), "cross_entropy", MEGATRON),
    "GPT-2, tied": (decoder(), [TEXT], NEXT, "cross_entropy", MEGATRON),
    "LLaMA": (lambda: Decoder(lambda: Block(32, 4, SwiGlu(32), RmsNorm, groups=2, rotary=True), RmsNorm, False, False),
              [TEXT], NEXT, "cross_entropy", MEGATRON),
    "encoder-decoder": (EncoderDecoder, [TEXT, ids(100, 8, 16, seed=5)], NEXT, "cross_entropy", MEGATRON),
    "experts, top 1": (lambda: Decoder(lambda: Block(32, 4, Experts(32))), [TEXT], NEXT, "cross_entropy", MEGATRON[:4] + EXPERTS),
    "experts, top 2": (lambda: Decoder(lambda: Block(32, 4, Experts(32, top=2))), [TEXT], NEXT, "cross_entropy",
                       MEGATRON[:4] + EXPERTS),
    "ViT": (lambda: Patches(32, [Block(32, 4) for _ in range(2)], token=True), [IMAGES], LABELS, "cross_entropy", MEGATRON),
    "MLP-Mixer": (lambda: Patches(32, [Mixer(32, 16) for _ in range(2)]), [IMAGES], LABELS, "cross_entropy", MEGATRON),
    "Swin": (Swin, [IMAGES], LABELS, "cross_entropy", MEGATRON),
    "DLRM": (Dlrm, [noise(8, 13), ids(50, 8, 4)], ids(2, 8).astype(np.float32), "bce_with_logits",
             [("*bottom*0/Gemm", [None, ["model", None]]), ("*bottom*2/Gemm", [None, [None, "model"]])]),
    "ResNet": (lambda: classifier(stem(16), Residual(16, 16), Residual(16, 32, 2), width=32), [IMAGES], LABELS,
               "cross_entropy", CONVOLUTIONS),
    "VGG": (lambda: classifier(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                               nn.MaxPool2d(2), width=32), [IMAGES], LABELS, "cross_entropy", CONVOLUTIONS),
    "MobileNet": (lambda: classifier(stem(8), Inverted(8, 8), Inverted(8, 16, 2), width=16), [IMAGES], LABELS, "cross_entropy",
                  CONVOLUTIONS),
    "EfficientNet": (lambda: classifier(stem(8), Inverted(8, 8, 1, True, nn.SiLU), Inverted(8, 16, 2, True, nn.SiLU), width=16),
                     [IMAGES], LABELS, "cross_entropy", CONVOLUTIONS),
    "DenseNet": (lambda: classifier(stem(8), Dense(8), nn.AvgPool2d(2), Dense(32), width=56), [IMAGES], LABELS, "cross_entropy",
                 CONVOLUTIONS),
    "Inception": (lambda: classifier(stem(16), Inception(16), nn.MaxPool2d(3, 2), Inception(32), width=32), [IMAGES], LABELS,
                  "cross_entropy", CONVOLUTIONS),
    "SqueezeNet": (lambda: classifier(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(16, 16),
                                      Fire(32, 16), width=32), [IMAGES], LABELS, "cross_entropy", CONVOLUTIONS),
    "ShuffleNet": (lambda: classifier(stem(16), Shuffle(16), Shuffle(16), width=16), [IMAGES], LABELS, "cross_entropy",
                   CONVOLUTIONS),
    "ConvNeXt": (lambda: classifier(nn.Conv2d(3, 16, 4, 4), ConvNext(16), ConvNext(16), width=16), [IMAGES], LABELS, "cross_entropy",
                 MEGATRON + CONVOLUTIONS),
    "U-Net, transposed": (lambda: Unet(False), [noise(8, 3, 16, 16)], ids(4, 8, 16, 16), "cross_entropy", CONVOLUTIONS),
    "U-Net, bilinear": (lambda: Unet(True), [noise(8, 3, 16, 16)], ids(4, 8, 16, 16), "cross_entropy", CONVOLUTIONS),
    "1-D convolutions": (along_one, [noise(8, 4, 32)], LABELS, "cross_entropy", [("*/Conv", [None, ["model", None, None]])]),
    "3-D convolutions": (in_space, [noise(8, 2, 8, 8, 8)], LABELS, "cross_entropy",
                         [("*/Conv", [None, ["model", None, None, None, None]])]),
    "LSTM": (lstm, [noise(8, 6, 8)], LABELS, "cross_entropy", [("*head/Gemm", [None, [None, "model"]])]),
}


def seeded(make):
    def made():
        torch.manual_seed(0)
        return make()

    return made


FAMILIES = {name: (seeded(row[0]), *row[1:]) for name, row in FAMILIES.items()}
