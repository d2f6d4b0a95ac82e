#!/usr/bin/env python3
"""Images per second of --data imagefolder against PyTorch's DataLoader, on one folder, with the same transforms.

usage: /usr/bin/python3 test/benchmark/image_pipeline.py --bin build/bin [--images 400] [--runs 5] [--workers 2]

Makes a tree of JPEG files of photographic sizes (about 500 x 375, quality 90), compares the batches of the evaluation
transforms with torchvision's, then measures training batches (random resized crop to 224, flip, normalise), in turn, and prints
the medians: torchvision's ImageFolder with N worker processes, imagefolder with N threads, that with every JPEG file decoded
at full size (reduce=0), and with one thread.
"""
import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import PIL.Image
import torch
import torchvision
import torchvision.transforms as T

BATCH, SIDE = 32, 224
NORMALISE = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def photograph(rng):
    """Colours that change slowly, edges, and noise in every pixel: what a camera gives, as far as a decoder's work goes."""
    width, height = int(rng.integers(400, 600)), int(rng.integers(300, 500))
    small = rng.integers(0, 256, (int(rng.integers(6, 30)), int(rng.integers(6, 30)), 3), dtype=np.uint8)
    image = np.asarray(PIL.Image.fromarray(small).resize((width, height), PIL.Image.BICUBIC)).astype(np.float32)
    image[:, :: int(rng.integers(20, 60))] *= 0.5
    image += rng.normal(0, 6, image.shape)
    return PIL.Image.fromarray(image.clip(0, 255).astype(np.uint8))


def loader(root, workers):
    transform = T.Compose([T.RandomResizedCrop(SIDE), T.RandomHorizontalFlip(), T.ToTensor(), NORMALISE])
    data = torchvision.datasets.ImageFolder(root, transform)
    return torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=workers, drop_last=True,
                                       persistent_workers=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "images"
        for i in range(args.images):
            path = root / f"class{i % 8}" / f"{i:05}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            photograph(rng).save(path, quality=90)

        def ours(spec, threads, *more, batches=args.images // BATCH):
            done = subprocess.run([args.bin / "data_bench", spec, f"{BATCH}x3x{SIDE}x{SIDE}", str(batches), str(threads), *more],
                                  capture_output=True, text=True, check=True)
            return float(done.stdout.split()[0])

        # The same pixels first.
        out = pathlib.Path(folder) / "batch.npy"
        ours(f"imagefolder:{root},reduce=0", 2, "eval", out, batches=1)
        middle = T.Compose([T.Resize(256), T.CenterCrop(SIDE), T.ToTensor(), NORMALISE])
        data = torchvision.datasets.ImageFolder(root, middle)
        theirs = torch.stack([data[i][0] for i in range(BATCH)]).numpy()
        std = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
        levels = np.abs(np.load(out) - theirs) * std * 255
        print(f"evaluation batch against torchvision: at most {levels.max():.2f}, on average {levels.mean():.3f} of 255 levels")
        assert levels.max() < 2, "the pixels differ"

        def pytorch(iterator=loader(root, args.workers)):
            begin = time.monotonic()
            images = sum(len(labels) for _, labels in iterator)
            return images / (time.monotonic() - begin)

        rows = {f"PyTorch DataLoader, {args.workers} workers": pytorch,
                f"imagefolder, {args.workers} threads": lambda: ours(f"imagefolder:{root}", args.workers),
                f"imagefolder, {args.workers} threads, reduce=0": lambda: ours(f"imagefolder:{root},reduce=0", args.workers),
                "imagefolder, 1 thread": lambda: ours(f"imagefolder:{root}", 1)}
        pytorch()  # starts its workers
        rates = {name: [] for name in rows}
        for _ in range(args.runs):
            for name, measure in rows.items():
                rates[name].append(measure())
        base = None
        for name, values in rates.items():
            median = statistics.median(values)
            base = base or median
            print(f"{name:42} {median:7.1f} images/s  ({min(values):.1f} to {max(values):.1f})  x {median / base:.2f}")


if __name__ == "__main__":
    main()
