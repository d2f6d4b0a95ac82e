#!/usr/bin/env python3
"""Steps on GPU clusters that only papers have measured: does the schedule put them in the published order?

usage: /usr/bin/python3 test/benchmark/schedule_tables.py --bin build/bin [--only order,buckets,scaling] [--json FILE]

order    GPT-2.5B on 16 A800, in all four columns of Table 3 in Cai et al., "Concerto" (ASPLOS 2025): Megatron's data parallelism and
         its cut of layers over two ranks, both one after the other (--overlap off), and both as Concerto schedules them (--overlap auto).
         The batch is not in the table: here 8 rows of 1024 tokens per rank, 4 in float32, which fits no more.
buckets  which size of messages (--fusion SIZE) is the best for VGG-19 and GPT-2.5B there, beside what Concerto reports
scaling  ResNet-50 on 1, 8, 16 and 32 V100, in float32 and in float16: DLPerf's report 1.0, of which TensorFlow and MXNet ran on Horovod

Nothing is measured but by the papers; the predictions are the same on every machine. Prints Markdown, and says where the order or a
figure is missed.
"""
import argparse
import functools
import itertools
import json
import pathlib
import re
import sys
import tempfile

import measured

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/models"))
import networks  # noqa: E402

# A800: an A100 with 200 GB/s between the devices of a machine. Of float32, PyTorch computes convolutions in TF32, and products of
# matrices, since version 1.12, in float32: 156 and 19.5 TFLOP/s in the data sheet. Without NVLink two devices share a switch
# of PCIe 4.0, and the first row of the third column says 4 GB/s per device of all others. Bandwidths by block of devices.
NVLINK, PCIE = {8: 200e9, 16: 12.5e9}, {2: 16e9, 8: 4e9, 16: 4e9}
TF32, FP32 = 156e12, 19.5e12
CLOSE = 0.1
LAYERS, HIDDEN, HEADS = 54, 1920, 24
# By column: topology, precision, batch, and the published seconds by plan; of Concerto the better of its two rows.
ORDER = {
    "NVLink, 16 bits": (NVLINK, "bf16", 128, (0.974, 0.907, 0.817, 0.866)),
    "NVLink, float32": (NVLINK, "f32", 64, (3.276, 4.455, 3.127, 4.366)),
    "PCIe, 16 bits": (PCIE, "bf16", 128, (3.793, 2.996, 3.584, 2.788)),
    "PCIe, float32": (PCIE, "f32", 64, (6.093, 6.566, 5.178, 5.616)),
}
PLANS = ("data parallel, in line", "layers in two, in line", "data parallel", "layers in two")
# Who, type, images a device, images a second of one device, speed-up by devices.
SCALING = [("OneFlow", "f32", 128, 397.6, {8: 7.87, 16: 15.74, 32: 31.21}), ("PyTorch", "f32", 128, None, {32: 30.00}),
           ("TensorFlow 1 with Horovod", "f32", 128, None, {32: 26.25}), ("MXNet with Horovod", "f32", 128, None, {32: 26.74}),
           ("OneFlow", "f16", 256, 1473, {8: 7.22, 16: 12.17, 32: 22.5})]


def a800(folder, bandwidths, single):
    """`single`: the rate of float32."""
    path = folder / f"{len(bandwidths)}-{single:g}.json"
    path.write_text(json.dumps({
        "name": "a800", "devices": 16, "flops": {"f64": 9.7e12, "f32": single, "f16": 312e12}, "memory_bandwidth": 2.04e12,
        "memory": "80GiB", "launch": 4e-6, "links": [{"devices": devices, "latency": 5e-6 if devices == 16 else 2e-6, "bandwidth": rate}
                                                     for devices, rate in bandwidths.items()]}))
    return path


def gpt(folder):
    path = folder / "gpt.onnx"
    if not path.exists():
        networks.gpt(path, layers=LAYERS, hidden=HIDDEN, heads=HEADS, words=51200, batch="batch", length=1024)
    return path


def megatron(folder):
    """A layer's first products are cut by columns, its second ones by rows; the batch over the other axis."""
    path = folder / "megatron.json"
    columns, rows = [["data", None, None], [None, "model"]], [["data", None, "model"], ["model", None]]
    path.write_text(json.dumps([{"op": op, "in": cut} for op, cut in (("*.qkv", columns), ("*.up", columns), ("*.out", rows),
                                                                       ("*.down", rows))]))
    return path


def vgg19(folder):
    """For images of 224 x 224, as in the paper (Simonyan and Zisserman, 2014)."""
    path, net = folder / "vgg.onnx", networks.Network()
    x, width = net.input("x", ["batch", 3, 224, 224]), 3
    for i, (depth, layers) in enumerate(((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))):
        for j in range(layers):
            name = f"c{i}{j}"
            x = net.node("Relu", net.node("Conv", x, net.input(name + ".w", [depth, width, 3, 3]), net.input(name + ".b", [depth]),
                                          name=name, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
            width = depth
        x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Flatten", x)
    for i, (rows, columns) in enumerate(((25088, 4096), (4096, 4096), (4096, 1000))):
        x = net.dense(x, f"d{i}", rows, columns)
        x = net.node("Relu", x) if i < 2 else x
    net.nodes[-1].output[0] = "logits"
    net.write(path, "logits", ["batch", 1000])
    return path


class Predictor:
    def __init__(self, bin, folder):
        self.bin, self.folder, self.cpu = bin, folder, 0.0

    def seconds(self, model, *options):
        """Of a step; nothing if it does not fit."""
        command = [self.bin / "tessera-compile", model, "--train", "--search-only", *options]
        code, text, _, usage = measured.run(command, self.folder)
        self.cpu += usage.ru_utime + usage.ru_stime
        found = re.search(r"^train .*?predicted ([0-9.]+) ms", text, re.M)
        if code and "limit is" in text:
            return None
        if code or not found:
            sys.exit(f"{' '.join(map(str, command))}: exit code {code}\n{text}")
        return float(found[1]) / 1e3


def order(predictor, folder):
    """Concerto's Table 3."""
    told = []
    print("| column | " + " | ".join(PLANS) + " | pairs in order | published, in the same order of plans |\n|" + "---|" * 7, flush=True)
    for column, (links, precision, batch, published) in ORDER.items():
        base = (gpt(folder), "--inputs", "ids", "--optimizer", "adam:lr=0.001", "--dim", f"batch={batch}", "--precision", precision,
                "--topology", a800(folder, links, FP32))
        if precision != "f32":  # what both systems send of a cut layer has 16 bits
            base += ("--products", "narrow")
        plans = [("--mesh", "data=16", "--mode", "data"),
                 ("--mesh", "data=8,model=2", "--mode", "auto", "--strategy", megatron(folder))]
        found = [predictor.seconds(*base, *plan, "--overlap", overlap) for overlap in ("off", "auto") for plan in plans]
        pairs = list(itertools.combinations(range(len(PLANS)), 2))
        kept = sum(None not in (found[a], found[b]) and (found[a] < found[b]) == (published[a] < published[b]) for a, b in pairs)
        told.append({"column": column, "found": found, "published": published, "pairs": len(pairs), "in_order": kept})
        print(f"| {column} | {' | '.join(f'{f:.3f}' if f else 'does not fit' for f in found)} | {kept} of {len(pairs)} | "
              f"{', '.join(f'{p:.3f}' for p in published)} |", flush=True)
    missed = [row["column"] for row in told if row["in_order"] < row["pairs"]]
    print("\nThe order is missed in: " + "; ".join(missed) + ".\n" if missed else "\nThe order is the published one in all columns.\n")
    return told


def buckets(predictor, folder):
    """The best size of messages."""
    told = []
    nvlink = ("--topology", a800(folder, NVLINK, TF32), "--mesh", "data=16", "--mode", "data")
    sizes = ["1MB", "25MB", "70MB", "100MB", "200MB", "400MB", "800MB", "auto"]
    cases = (("VGG-19", (vgg19(folder), "--optimizer", "sgd:lr=0.01,momentum=0.9", "--loss", "cross_entropy", "--dim", "batch=512"),
              (70, 200)),
             ("GPT-2.5B", (gpt(folder), "--inputs", "ids", "--optimizer", "adam:lr=0.001", "--dim", "batch=128", "--precision", "bf16"),
              (400, 400)))
    print("| network | " + " | ".join(sizes) + " | best size | published |\n|" + "---|" * (len(sizes) + 3), flush=True)
    for name, options, (low, high) in cases:
        found = {size: predictor.seconds(*options, *nvlink, "--fusion", size) for size in sizes}
        fixed = {size: seconds for size, seconds in found.items() if size != "auto" and seconds}
        best = min(fixed, key=fixed.get)
        hit = low <= float(best[:-2]) <= high
        told.append({"network": name, "seconds": found, "best": best, "published": [low, high], "met": hit})
        print(f"| {name} | {' | '.join(f'{1e3 * s:.2f} ms' if s else 'does not fit' for s in found.values())} | {best} | "
              f"{low if low == high else f'{low} to {high}'} MB{'' if hit else ': missed'} |", flush=True)
    print()
    return told


def scaling(predictor, folder):
    """ResNet-50, each device with the same number of images."""
    @functools.cache
    def rate(precision, images, devices):
        return images * devices / predictor.seconds(
            ROOT / "test/models/resnet50_224_train.onnx", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--loss", "cross_entropy",
            "--precision", precision, "--dim", f"batch={images * devices}", "--mode", "data", "--mesh", f"data={devices}",
            "--topology", "8xv100" if devices <= 8 else f"{devices // 8}x8xv100")

    told = []
    print("| who | type | devices | published | predicted | off |\n|---|---|---|---|---|---|")

    def tell(who, precision, devices, published, predicted, form):
        off = predicted / published - 1
        told.append({"who": who, "precision": precision, "devices": devices, "published": published, "predicted": predicted})
        print(f"| {who} | {precision} | {devices} | {form.format(published)} | {form.format(predicted)} | "
              f"{100 * off:+.1f} %{'' if abs(off) <= CLOSE else ': missed'} |", flush=True)

    for who, precision, images, alone, rows in SCALING:
        one = rate(precision, images, 1)
        if alone:
            tell(who, precision, 1, alone, one, "{:,.0f} images/s")
        for devices, published in rows.items():
            tell(who, precision, devices, published, rate(precision, images, devices) / one, "{:.2f}")
    print()
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"order": order, "buckets": buckets, "scaling": scaling}
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--only", default=",".join(parts), help="of order, buckets, scaling")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    args = parser.parse_args()
    told = {}
    with tempfile.TemporaryDirectory() as name:
        predictor = Predictor(args.bin.resolve(), pathlib.Path(name))
        for part in args.only.split(","):
            told[part] = parts[part](predictor, pathlib.Path(name))
        print(f"{predictor.cpu:.0f} seconds of a processor")
    if args.json:
        args.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
