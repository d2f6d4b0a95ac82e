#!/usr/bin/env python3
"""All kernels that a device would run of large networks are compiled for three architectures: none spills registers, takes
more shared memory than a block has, or multiplies F64 numbers in its loops (test/unit/device/KernelLint.cpp).

usage: device_lint_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import sys

from cases import Programs, case, main

LANGUAGE = "--loss", "cross_entropy", "--optimizer", "adamw:lr=0.0001,weight_decay=0.01", "--precision", "bf16"


class Context(Programs):
    def lint(self, model, *options):
        self.run(self.bin / "tessera-compile", model, "--train", "--mesh", "1", "--mode", "data", "--topology", "8xh100", "--init-at-start", *options,
                 "-o", self.folder / "plan")
        text = self.run(self.bin / "kernel_lint", self.folder / "plan")
        print("      " + text.splitlines()[-1].rsplit("/", 1)[-1])

    def network(self, kind, *sizes):
        self.run(sys.executable, self.models / "networks.py", kind, "-o", self.folder / "network.onnx", *sizes)
        return self.folder / "network.onnx"


@case
def gpt2(c):
    c.lint(c.network("gpt", "layers=12", "hidden=768", "heads=12", "batch=8", "length=1024"), "--inputs", "ids", *LANGUAGE)


@case
def gpt_of_1_3_billion(c):
    c.lint(c.network("gpt", "layers=24", "hidden=2048", "heads=16", "batch=8", "length=1024"), "--inputs", "ids", *LANGUAGE)


@case
def bert_large(c):
    c.lint(c.network("bert", "batch=16", "length=512"), "--inputs", "ids,segments", *LANGUAGE)


@case
def resnet50(c):
    c.lint(c.models / "resnet50_224_train.onnx", "--dim", "batch=128", "--precision", "bf16", "--optimizer",
           "sgd:lr=0.001,momentum=0.9,weight_decay=0.0005")


@case
def a_plan_that_is_none_is_an_error(c):
    text = c.run(c.bin / "kernel_lint", c.folder / "none", code=1)
    assert "is not a plan directory" in text, text


if __name__ == "__main__":
    main(__doc__, Context)
