#!/usr/bin/env python3
"""What a difference in exporter_networks.py comes from: Tessera's float64 beside PyTorch's, losses and every gradient.

usage: python3 test/benchmark/exporter_precise.py --bin build/bin [--eval] [--optimize] [--optimizer adam|sgd] [--steps N] NAME ...

Prints for each architecture of exporter_architectures.py

- the loss of each step: PyTorch's float64, and relative to it PyTorch's float32 and Tessera's float64 and float32 on
  the meshes of exporter_networks.py. What float64 does not show is rounding. "reversed" is PyTorch with the same batch
  from its end: the same mathematics in another order, so what it shows is rounding, too;
- of the first step in float64 the gradients that differ most, relative to the parameter's largest gradient, and the
  parameters of the file that Tessera does not train or that PyTorch has no gradient of.

Gradients are read from one step of SGD with a learning rate of 1: before minus after. --eval exports and trains in eval
mode, as a person has who kept an export for inference; --optimize leaves the exporter's own optimizer on.
"""
import argparse
import fnmatch
import json
import pathlib
import shlex
import tempfile

import numpy as np

import exporter_networks as networks
from exporter_networks import RUNS, Row, distance, libraries, run

OPTIMIZERS = {"adam": ("Adam", dict(lr=1e-3)), "sgd": ("SGD", dict(lr=1e-2))}


class Precise(Row):
    def step(self, kind, optimizer, steps, reverse=False):
        """Losses, and the gradients of the first step by name. reverse: the same batch from its end."""
        torch, functional = self.torch, self.torch.nn.functional
        net, inputs, target = self.fresh(kind)
        if reverse:
            inputs, target = [x.flip(0) for x in inputs], target.flip(0)
        net.train(not self.args.eval)
        trained = {n: p for n, p in net.named_parameters() if p.requires_grad}
        update, options = OPTIMIZERS[optimizer]
        update = getattr(torch.optim, update)(trained.values(), **options)
        losses, gradients = [], None
        for _ in range(steps):
            update.zero_grad()
            y = net(*inputs)
            value = (functional.cross_entropy(y.flatten(0, -2), target.flatten()) if self.loss == "cross_entropy"
                     else functional.mse_loss(y, target))
            value.backward()
            if gradients is None:
                gradients = {n: p.grad.double().numpy().copy() for n, p in trained.items() if p.grad is not None}
            update.step()
            losses.append(value.item())
        return losses, gradients

    def plan(self, mesh, mode, optimizer):
        frozen = [n for n, p in self.net.named_parameters() if not p.requires_grad]
        return self.compiled(mesh, mode, "--train", "--loss", self.loss, "--optimizer", optimizer,
                             *(["--freeze", ",".join(frozen)] if frozen else []),
                             *(["--freeze-batchnorm"] if self.args.eval and self.norms() else []),
                             *shlex.split(self.args.compile))

    def norms(self):
        return any("BatchNorm" in type(m).__name__ and "Frozen" not in type(m).__name__ for m in self.net.modules())

    def losses(self, plan, data, steps, *extra):
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        run(self.args.bin / "tessera-run", plan, "--steps", steps, "--log", log, "--data",
            "npy:" + ",".join(map(str, [*data, self.folder / "target.npy"])), *extra)
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]

    def gradients(self, data, mesh, mode):
        """Before minus after one step with a learning rate of 1."""
        from safetensors.numpy import load_file
        plan = self.plan(mesh, mode, "sgd:lr=1")
        after = self.folder / "after.safetensors"
        self.losses(plan, data, 1, "--f64", "--save-weights", after)
        start = {k: v.numpy() for k, v in self.start.items()}
        return {n: (start[n].astype(np.float64) - v).astype(np.float64) for n, v in load_file(after).items() if n in start}


def told(numbers):
    return " ".join(f"{n:.1e}" for n in numbers)


def compare(name, args):
    with tempfile.TemporaryDirectory() as folder:
        row = Precise(name, args, pathlib.Path(folder))
        data = row.exported(not args.eval, args.optimize)
        torch, steps = row.torch, args.steps
        expected, gradients = row.step(torch.float64, args.optimizer, steps)
        print(f"{name}: losses in float64: {' '.join(f'{x:.9f}' for x in expected)}", flush=True)
        far = lambda found: told(distance(a, b) for a, b in zip(found, expected))
        print(f"  PyTorch, float32:        {far(row.step(torch.float32, args.optimizer, steps)[0])}", flush=True)
        for bits in (64, 32):
            found = row.step(getattr(torch, f"float{bits}"), args.optimizer, steps, reverse=True)[0]
            print(f"  PyTorch, float{bits}, reversed: {far(found)}", flush=True)
        kind = f"{args.optimizer}:lr={OPTIMIZERS[args.optimizer][1]['lr']}"
        runs = [r for r in RUNS if fnmatch.fnmatch(r[0], args.mesh)]
        for column, mesh, mode in runs:
            plan = row.plan(mesh, mode, kind)
            print(f"  Tessera, float64, {column:4}:  {far(row.losses(plan, data, steps, '--f64'))}", flush=True)
            print(f"  Tessera, float32, {column:4}:  {far(row.losses(plan, data, steps))}", flush=True)
        for column, mesh, mode in [] if args.losses else runs:
            found = row.gradients(data, mesh, mode)
            both = sorted(((distance(found[n], g), n) for n, g in gradients.items() if n in found and np.abs(g).max() > 1e-14),
                          reverse=True)
            print(f"  gradients, float64, {column}: {len(both)} compared; furthest: "
                  + ", ".join(f"{n} {d:.0e}" for d, n in both[:4]))
            missing = [n for n in gradients if n not in found]
            print(f"    not in Tessera's weights: {missing[:6]} ({len(missing)})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--eval", action="store_true")
    parser.add_argument("--optimize", action="store_true")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam")
    parser.add_argument("--steps", type=int, default=networks.STEPS)
    parser.add_argument("--compile", default="", help="more options of tessera-compile, as one text")
    parser.add_argument("--mesh", default="*", help="only the meshes that this pattern matches: 1, 2x2, 4")
    parser.add_argument("--losses", action="store_true", help="leave gradients out")
    parser.add_argument("names", nargs="+", metavar="NAME")
    args = parser.parse_args()
    libraries()
    for name in args.names:
        compare(name, args)


if __name__ == "__main__":
    main()
