#!/usr/bin/env python3
"""`tessera-profile --count`: what a CUDA device would run of a plan, without one; large networks hold their figures.

usage: device_counts_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases

The figures of a network may fall, and should then be lowered here; a change that raises them says why.
"""
import json
import sys

from cases import Programs, case, main

# name -> launches and bytes of a training step in bfloat16, on one device
GPT2, RESNET50, BERT_LARGE = (289, 31.4e9), (458, 47.0e9), (641, 88.9e9)


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


class Context(Programs):
    def compile(self, model, *options, mesh="1", mode="data"):
        self.run(self.bin / "tessera-compile", model, "--train", "--mesh", mesh, "--mode", mode, "--topology", "8xh100", "--init-at-start", *options,
                 "-o", self.folder / "plan")

    def counted(self, *options):
        return json.loads(self.run(self.bin / "tessera-profile", "--count", self.folder / "plan", "--json", *options))["programs"][0]

    def holds(self, most):
        train = self.counted()
        expect(train["launches"] <= most[0] and train["bytes"] <= most[1], f"{train['launches']} launches, {train['bytes'] / 1e9:.2f} GB, at most {most}")
        expect(train["launches"] > 0.97 * most[0] and train["bytes"] > 0.97 * most[1],
               f"{train['launches']} launches, {train['bytes'] / 1e9:.2f} GB: lower the figures {most} in this test")
        print(f"      {train['launches']} launches, {train['bytes'] / 1e9:.2f} GB, {train['flops'] / 1e12:.2f} TFLOP")


@case
def gpt2_holds_its_figures(c):
    c.run(sys.executable, c.models / "networks.py", "gpt", "-o", c.folder / "gpt2.onnx", "layers=12", "hidden=768", "heads=12", "batch=8", "length=1024")
    c.compile(c.folder / "gpt2.onnx", "--inputs", "ids", "--loss", "cross_entropy", "--optimizer", "adamw:lr=0.0001,weight_decay=0.01", "--precision", "bf16")
    c.holds(GPT2)


@case
def resnet50_holds_its_figures(c):
    c.compile(c.models / "resnet50_224_train.onnx", "--dim", "batch=128", "--precision", "bf16", "--optimizer", "sgd:lr=0.001,momentum=0.9,weight_decay=0.0005")
    # The stem's windows are unfolded, in 16 parts, which count as memory; sums of products, and the filters in rows of their own, are copies, too.
    kinds = c.counted()["kinds"]
    expect(kinds["conv_weight_grad"]["launches"] == 16 + 1 and kinds["conv_weight_grad"]["flops"] == 0, kinds["conv_weight_grad"])
    expect(kinds["conv"]["launches"] == 16 + 2 and kinds["conv"]["flops"] == 0, kinds["conv"])
    unfolded = 128 * 112 * 112 * 152 * 2
    expect(unfolded < kinds["conv"]["bytes"] < 1.1 * unfolded, kinds["conv"])
    c.holds(RESNET50)


@case
def bert_large_with_dropout_holds_its_figures(c):
    """No scores of a layer are in memory: attention is the library's, with what dropout keeps as an operand, and so is its gradient, which has it from a copy in 16 bits."""
    c.run(sys.executable, c.models / "networks.py", "bert", "-o", c.folder / "bert.onnx", "batch=16")
    c.compile(c.folder / "bert.onnx", "--inputs", "ids,segments", "--loss", "cross_entropy", "--optimizer", "adamw:lr=0.0001,weight_decay=0.01",
              "--precision", "bf16")
    kinds = c.counted()["kinds"]
    expect(kinds["attention (library)"]["launches"] == 24 and kinds["attention_grad (library)"]["launches"] == 24, kinds.keys())
    c.holds(BERT_LARGE)


@case
def products_are_counted_exactly(c):
    """A perceptron of 784, 256, 128 and 10: three products forward, three for weights, two for inputs."""
    batch, widths = 32, (784, 256, 128, 10)
    c.compile(c.models / "mlp_train.onnx", "--dim", f"batch={batch}")
    products = c.counted()["kinds"]["matmul (library)"]
    sizes = [a * b for a, b in zip(widths, widths[1:])]
    expect(products["launches"] == 8 and products["flops"] == 2 * batch * (3 * sum(sizes) - sizes[0]), products)
    # Micro-batches repeat what is in their section.
    c.compile(c.models / "mlp_train.onnx", "--dim", f"batch={4 * batch}", "--accumulate", "4")
    repeated = c.counted()["kinds"]["matmul (library)"]
    expect(repeated["launches"] == 32 and repeated["flops"] == 4 * products["flops"], repeated)


@case
def text_machines_and_errors(c):
    c.compile(c.models / "mlp_train.onnx", "--dim", "batch=32", mesh="data=2")
    text = c.run(c.bin / "tessera-profile", "--count", c.folder / "plan")
    expect("program 'train' of mlp_train.onnx, rank 0, on a device of 8xh100" in text and "limited by" in text and "collectives" in text, text)
    fast, slow = (c.counted("--like", like)["seconds"] for like in ("8xh100", "8xv100"))
    expect(fast < slow, f"{fast} s on an H100, {slow} s on a V100")
    expect(c.counted()["collectives"] > 0, "collectives")
    largest = c.counted("--largest", "3")
    times = [step["seconds"] for step in largest["steps"]]
    expect(len(times) == 3 and times == sorted(times, reverse=True) and times[0] > 0, largest["steps"])
    expect(all(step["name"] and step["kind"] in largest["kinds"] for step in largest["steps"]), largest["steps"])
    whole = c.counted("--largest", "1000000")
    expect(abs(sum(step["seconds"] for step in whole["steps"]) - whole["seconds"]) < 1e-9 and "steps" not in c.counted(), "steps")
    listed = c.run(c.bin / "tessera-profile", "--count", c.folder / "plan", "--largest", "2").split("program")[1].splitlines()
    expect(len(listed) - len(text.split("program")[1].splitlines()) == 2 and largest["steps"][0]["name"] in listed[-3], listed)
    c.run(c.bin / "tessera-profile", "--count", c.folder / "plan", "--largest", "0", code=2)
    error = c.run(c.bin / "tessera-profile", "--count", c.folder / "none", code=1)
    expect("is not a plan directory" in error, error)
    c.run(c.bin / "tessera-profile", "--count", c.folder / "plan", "--like", "none", code=1)
    c.run(c.bin / "tessera-profile", "--count", c.folder / "plan", "-o", "x", "--mesh", "2", code=2)
    c.run(c.bin / "tessera-profile", "--like", "8xh100", "-o", "x", "--mesh", "2", code=2)


if __name__ == "__main__":
    main(__doc__, Context)
