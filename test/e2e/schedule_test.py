#!/usr/bin/env python3
"""What tessera-dump --schedule says of a plan is what is predicted of it, and tessera-solve reads it.

usage: schedule_test.py --bin DIR --models DIR [CASE ...]
"""
import json
import re

from cases import Programs, case, main

SGD = "sgd:lr=0.01,momentum=0.9"


class Context(Programs):
    def compiled(self, model, mesh, *options, optimizer=SGD):
        """A plan and its report."""
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        self.run(self.bin / "tessera-compile", self.models / f"{model}.onnx", "--mesh", mesh, "--train", "--optimizer",
                 optimizer, *options, "-o", plan)
        return plan, json.loads((plan / "report.json").read_text())

    def solved(self, plan, seconds=0.2):
        """The plan's task graph, and what the solver says of it."""
        file = self.folder / f"tasks{self.count}.json"
        text = self.run(self.bin / "tessera-dump", plan, "--schedule", "json")
        file.write_text(text)
        return json.loads(text), json.loads(self.run(self.bin / "tessera-solve", "--schedule", file, "--seconds", seconds, "--json"))

    def same(self, plan, expected):
        """In the order of the file the tasks take this many ns, and in the solver's no more. Returns both."""
        graph, found = self.solved(plan)
        assert found["given"] == expected, f"{plan}: {found['given']} ns, predicted {expected} ns"
        assert found["lower_bound"] <= found["makespan"] <= found["given"], found
        for t, task in enumerate(graph["tasks"]):
            for need in task.get("needs", ()):
                assert (need["task"] if isinstance(need, dict) else need) < t, f"{plan}: {task} stands before what it needs"
        return graph, found


def predicted(plan, c):
    """The end of the schedule that the text tells, in ns to three digits of a ms."""
    text = c.run(c.bin / "tessera-dump", plan, "--schedule")
    said = re.search(r"^(train|infer): .*ends after (\S+) ms", text)
    assert said, text
    return text, round(float(said[2]) * 1e6)


@case
def in_the_order_of_the_plan_tasks_take_what_is_predicted(c):
    for model, mesh, *options in (("mlp_train", "data=2,model=2", "--mode", "auto", "--dim", "batch=8"),
                                  ("lenet_train", "data=2", "--dim", "batch=8", "--accumulate", "2"),
                                  ("families/squeezenet", "1")):
        plan, report = c.compiled(model, mesh, *options)
        f = next(f for f in report["functions"] if f["name"] == "train")
        assert "beside" not in f, f["beside"]
        graph, found = c.solved(plan)
        assert abs(found["given"] - f["predicted_ns"]) <= 1e-3 * f["predicted_ns"], (found["given"], f["predicted_ns"])
        c.same(plan, found["given"])
        assert abs(predicted(plan, c)[1] - found["given"]) <= 500, found["given"]
        busy = {r["name"]: r["busy"] for r in found["resources"]}
        assert busy == {"compute": found["given"], "communication": 0}, busy


@case
def beside_kernels_too(c):
    for model, mesh, optimizer, *options in (
            ("resnet18_cifar_train", "data=4", SGD, "--dim", "batch=64", "--topology", "8xh100"),
            ("resnet18_cifar_train", "data=4", "adamw:lr=0.001", "--mode", "auto", "--dim", "batch=32", "--overlap", "on"),
            ("lenet_train", "data=2", SGD, "--dim", "batch=12", "--accumulate", "3", "--overlap", "on")):
        plan, report = c.compiled(model, mesh, *options, optimizer=optimizer)
        f = next(f for f in report["functions"] if f["name"] == "train")
        text, end = predicted(plan, c)
        graph, found = c.solved(plan)
        c.same(plan, found["given"])
        assert abs(end - found["given"]) <= 500, (end, found["given"])
        assert f["compute_ns"] <= 1.001 * end and end <= 1.001 * f["predicted_ns"], (f["compute_ns"], end, f["predicted_ns"])
        exposed = float(re.search(r"^  exposed +(\S+) ms ", text, re.M)[1]) * 1e6
        assert exposed <= 1.01 * f["beside"]["exposed_ns"] + 1e3, (exposed, f["beside"])
        if "schedule" in f:
            assert f"gap to that bound {100 * f['schedule']['gap']:.2f} %" in text, text
        busy = {r["name"]: r["busy"] for r in found["resources"]}
        assert busy["communication"] > 0, busy
        assert len({task["name"] for task in graph["tasks"]}) > 20


@case
def stages_are_tasks_as_well(c):
    for schedule in ("1f1b", "zb-v", "interleaved:2"):
        plan, report = c.compiled("lenet_train", "stage=2,data=2", "--dim", "batch=16", "--accumulate", "4", "--pipeline",
                                  f"schedule={schedule}")
        graph, found = c.same(plan, report["pipeline"]["predicted_ns"])
        assert graph["resources"] == ["device 0", "device 1"], graph["resources"]


if __name__ == "__main__":
    main(__doc__, Context)
