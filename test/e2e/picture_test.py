#!/usr/bin/env python3
"""`tessera-dump --svg`: what the picture of a plan says, and that the README's is the demo's.

usage: picture_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import pathlib
import random
import re
import xml.etree.ElementTree as ElementTree

from cases import Programs, case, main

README_PICTURE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "resnet18-4-ranks.svg"
SVG = "{http://www.w3.org/2000/svg}"


class Context(Programs):
    def compile(self, model, *options):
        self.run(self.bin / "tessera-compile", self.models / model, *options, "-o", self.folder / "plan")

    def draw(self, code=0):
        return self.run(self.bin / "tessera-dump", self.folder / "plan", "--svg", self.folder / "plan.svg", code=code)

    def picture(self):
        self.draw()
        return ElementTree.parse(self.folder / "plan.svg").getroot()

    def report(self):
        return json.loads((self.folder / "plan" / "report.json").read_text())


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def texts(picture):
    return [text.text for text in picture.iter(f"{SVG}text")]


def demo(c):
    """The plan of tools/demo.sh."""
    c.compile("resnet18_cifar_train.onnx", "--mesh", "data=2,model=2", "--mode", "auto", "--dim", "batch=32", "--train",
              "--loss", "cross_entropy", "--optimizer", "sgd:lr=0.01,momentum=0.9,weight_decay=0.0005", "--seed", "1")


@case
def the_picture_in_the_readme_is_the_demo(c):
    demo(c)
    c.draw()
    drawn = c.folder / "plan.svg"
    expect(drawn.read_text() == README_PICTURE.read_text(),
           f"{README_PICTURE} is not what the programs draw today; tools/demo.sh writes it to build/demo.svg")


@case
def all_bytes_are_in_it(c):
    for model, options in (("resnet18_cifar_train.onnx", ("--mode", "auto", "--train")),
                           ("vgg11_cifar_train.onnx", ("--mode", "data", "--train", "--accumulate", "2")),
                           ("resnet50_cifar_eval.onnx", ("--mode", "auto"))):
        c.compile(model, "--mesh", "data=2,model=2", "--dim", "batch=16", *options)
        picture, function = c.picture(), c.report()["functions"][0]
        sent = [re.fullmatch(r"(\S+) over (\S+): (\d+), (\d+) bytes", t.text) for t in picture.iter(f"{SVG}title")]
        sent = [match for match in sent if match]
        expect(sum(int(match[4]) for match in sent) == function["bytes_sent"], f"{model}: bytes are not the report's")
        expect(sum(int(match[3]) for match in sent) == function["num_collectives"], f"{model}: a collective is missing")


@case
def cells_have_the_axes_and_sizes_of_results(c):
    c.compile("mlp_eval.onnx", "--mesh", "data=2,model=3", "--mode", "data", "--dim", "batch=11")
    rectangles = [r for r in c.picture().iter(f"{SVG}rect")]
    # Both axes cut the batch into padded blocks: 11 samples in 6 blocks are 2 per rank.
    first = next(i for i, r in enumerate(rectangles) if r.get("class") == "whole")
    expect([r.get("class") for r in rectangles[first:first + 5]] == ["whole", "axis0", "axis1", "cell", "whole"],
           "the batch is not drawn as cut by two axes")
    expect([r.get("width") for r in rectangles[first:first + 4]] == ["36", "18", "18", "36"], "halves of a cell")
    numbers = [t.text for t in c.picture().iter(f"{SVG}text") if t.get("class") == "number"]
    expect(numbers[:2] == ["2", "784"], f"one rank holds {numbers[:2]}")


@case
def modules_are_folded(c):
    demo(c)
    shown = texts(c.picture())
    expect("layer1/layer1.0" in shown and "to layer1/layer1.1: 2 alike" in shown, f"{shown}")
    expect("conv1 bn1 relu conv2 bn2 Add relu_1" in shown, f"{shown}")
    rows = shown.count("layer3/layer3.0"), shown.count("layer3/layer3.1")
    expect(rows == (1, 1), f"a module's name stands {rows} times")


@case
def hybrid_plans_show_what_differs(c):
    c.compile("mlp_hybrid.onnx", "--mesh", "data=2,model=2", "--mode", "hybrid", "--hybrid-options",
              c.models / "mlp_hybrid.json", "--dim", "batch=16", "--train")
    expect("differs: data+model" in texts(c.picture()), "what differs between ranks is not told")


@case
def one_rank_sends_nothing(c):
    c.compile("mlp_eval.onnx", "--dim", "batch=4")
    shown = texts(c.picture())
    expect(any("one rank sends 0 B" in text for text in shown), f"{shown}")


@case
def strange_reports_are_drawn_or_refused(c):
    """Names with markup, fields that are missing or of another type: a well-formed picture or one sentence."""
    c.compile("lenet_train.onnx", "--mesh", "data=2,model=2", "--mode", "auto", "--train", "--dim", "batch=8")
    whole, path = (c.folder / "plan" / "report.json").read_text(), c.folder / "plan" / "report.json"
    path.write_text(whole.replace("/conv1/Conv", '/<a href=\\"&é\\u0007\\">/Conv'))
    shown = texts(c.picture())
    expect(any(text.startswith('<a href="&é\\x07">') for text in shown), f"the name is missing: {shown}")
    rng = random.Random(5)

    def damage(value):
        if rng.random() < 0.02:
            return rng.choice([None, -1, 1e300, "x" * 300, "[a, b", [], {}, [[]]])
        if isinstance(value, dict):
            return {key: damage(item) for key, item in value.items() if rng.random() > 0.01}
        if isinstance(value, list):
            return [damage(item) for item in value]
        return value

    report = json.loads(whole)
    report["functions"] = report["functions"][:1]
    for trial in range(60):
        path.write_text(json.dumps(damage(report)))
        done = c.run("sh", "-c", f"'{c.bin}/tessera-dump' '{c.folder}/plan' --svg '{c.folder}/plan.svg'; test $? -le 1")
        if not done:
            ElementTree.parse(c.folder / "plan.svg")


@case
def what_does_not_go_together_is_said(c):
    c.compile("mlp_eval.onnx", "--dim", "batch=4")
    plan = c.folder / "plan"
    for option in ("--json", "--all"):
        c.run(c.bin / "tessera-dump", plan, "--svg", c.folder / "p.svg", option, code=2)
    text = c.run(c.bin / "tessera-dump", plan, "--svg", c.folder / "no" / "p.svg", code=1)
    expect("p.svg: cannot be written" in text, text)


if __name__ == "__main__":
    main(__doc__, Context)
