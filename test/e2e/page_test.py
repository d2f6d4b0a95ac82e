#!/usr/bin/env python3
"""`tessera-dump --html`: what is in the page, and that a browser draws it.

usage: page_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases

Cases that need a browser are left out, with a message, where none is installed (tools/install-deps.sh installs one).
"""
import json
import re

import browser
from cases import Programs, case, main

SECTIONS = ("head", "plan", "time", "memory", "traffic", "whatif", "training")
AREAS = ["compute", "communication", "backward", "update", "kind0", "kind1", "kind2", "kind3", "kind4", "mark"]


class Context(Programs):
    def compile(self, model="lenet_train.onnx", *options, mesh="data=2,model=2", mode="auto", batch=16, out="plan", code=0):
        train = ["--train"] if "_train" in model else []
        return self.run(self.bin / "tessera-compile", self.models / model, "--mesh", mesh, "--mode", mode, "--dim", f"batch={batch}",
                        *train, *options, "-o", self.folder / out, code=code)

    def page(self, *options, code=0):
        return self.run(self.bin / "tessera-dump", self.folder / "plan", "--html", self.folder / "page.html", *options, code=code)

    def data(self, name="page.html"):
        """What the page holds."""
        text = (self.folder / name).read_text()
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])

    def dump(self, *options):
        return json.loads(self.run(self.bin / "tessera-dump", self.folder / "plan", "--json", *options))

    def train(self):
        self.run(self.bin / "tessera-run", self.folder / "plan", "--data", "synthetic", "--steps", "4", "--trace", "steps=3:4",
                 "--trace-file", self.folder / "trace.json", "--log", self.folder / "run.jsonl", "--quiet")
        return "--trace", self.folder / "trace.json", "--log", self.folder / "run.jsonl"


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def in_browser(function):
    """A case that is left out where there is no browser."""
    if browser.find():
        return case(function)
    print(f"skip  {function.__name__}: no {' or '.join(browser.NAMES)}; tools/install-deps.sh installs chromium", flush=True)
    return function


@case
def the_page_holds_what_json_prints(c):
    c.compile()
    measured = c.train()
    c.page(*measured)
    data, dumped = c.data(), c.dump(*measured)
    expect(data == dumped["page"], "the page's data are not those of --json")
    function, head = dumped["functions"][0], data["head"]
    expect(head["compute_ns"] == function["compute_ns"] and head["communication_ns"] == function["communication_ns"], head)
    expect(head["arena_bytes"] == max(rank["arena_bytes"] for rank in dumped["ranks"]), head)
    expect(data["traffic"]["rank_bytes"] == [r["programs"][0]["bytes_sent"] for r in dumped["ranks"]], data["traffic"])
    for rank, row in enumerate(data["traffic"]["matrix"]):
        sent = data["traffic"]["rank_bytes"][rank]
        expect(abs(sum(row) - sent) <= len(row) and row[rank] == 0, f"rank {rank} sends {sent}, the matrix has {row}")
    classes = data["classes"]
    expect(len(data["operators"]) == len(function["operators"]), "operators are missing")
    for told, (name, cls, *_) in zip(function["operators"], data["operators"]):
        same = {k: v for k, v in told.items() if k not in ("name", "inputs", "gradient_of", "update_of", "stage")}
        expect(name == told["name"] and classes[cls] == same, f"{name} is not what the report says")
    nodes = sum(sum(n[3]) + sum(n[4]) for n in data["nodes"])
    loose = sum(classes[o[1]]["compute_ns"] + classes[o[1]]["communication_ns"] for o in data["operators"] if o[2] < 0)
    expect(abs(nodes + loose - head["predicted_ns"]) < 1, f"nodes {nodes} and others {loose} are not {head['predicted_ns']}")
    blocks = data["blocks"]
    expect([b[0] for b in blocks] == [0] + [b[0] + b[1] * b[2] for b in blocks][:-1], f"blocks overlap: {blocks}")
    expect(blocks[-1][0] + blocks[-1][1] * blocks[-1][2] == len(data["nodes"]), f"blocks leave nodes out: {blocks}")


@case
def costs_and_bandwidth_are_the_reports(c):
    c.compile()
    c.page()
    head, function = c.data()["head"], c.dump()["functions"][0]
    costs = head["costs"]
    expect(costs == sorted(costs, key=lambda cost: -cost["ns"]) and all(cost["lower"] for cost in costs[:3]), costs)
    collectives = [x for op in function["operators"] for x in op["collectives"]] + function["boundary"]
    expect(all(0 <= x["latency_ns"] <= x["cost_ns"] for x in collectives), "a latency is more than the cost")
    expect(any(0 < x["latency_ns"] < x["cost_ns"] for x in collectives), "nothing depends on the bandwidth")
    twice = function["compute_ns"] + sum(
        (x["cost_ns"] + x["latency_ns"]) / 2 if x["bytes_sent"] > 0 else x["cost_ns"] for x in collectives)
    expect(abs(head["twice_the_bandwidth_ns"] - twice) < 1, f"{head['twice_the_bandwidth_ns']} is not {twice}")
    names = {op["name"] for op in function["operators"]}
    for op in function["operators"]:
        expect(len(op["inputs"]) == len(op["operands"]), f"{op['name']} has {op['inputs']}")
    expect(any(i in names for op in function["operators"] for i in op["inputs"]), "no input is an operator's result")


@case
def reshards_know_the_fewest_bytes(c):
    """Of one collective the bound is what it sends; of several it may be less, and never more."""
    c.compile("resnet18_cifar_train.onnx", batch=32)
    function, single, chains = c.dump()["functions"][0], 0, 0
    for op in [*function["operators"], {"name": "the end", "collectives": function["boundary"]}]:
        list, at = op["collectives"], [i for i, x in enumerate(op["collectives"]) if "least_bytes" in x] + [len(op["collectives"])]
        for begin, end in zip(at, at[1:]):
            chain = [x for x in list[begin:end] if x["where"] == list[begin]["where"]]
            sent, least = sum(x["bytes_sent"] for x in chain), list[begin]["least_bytes"]
            expect(0 <= least <= sent + 1e-6, f"{op['name']} sends {sent}, at least {least}: {chain}")
            if len(chain) == 1 and sent > 0:
                expect(abs(least - sent) < 1e-6, f"{op['name']} sends {sent}, at least {least}: {chain}")
            single, chains = single + (len(chain) == 1), chains + (len(chain) > 1)
    expect(single > 5, f"{single} reshards of one collective, {chains} of several")


@case
def the_arena_is_the_plans(c):
    c.compile()
    c.page()
    arena = c.data()["arena"]
    live = [0] * len(arena["steps"])
    for one, (name, kind, _, _, offset, size, first, last) in enumerate(arena["buffers"]):
        expect(offset + size <= arena["arena_bytes"] and first <= last, f"{name} lies outside")
        for step in range(first, last + 1):
            live[step] += size
        for other in arena["buffers"][:one]:
            shared = min(offset + size, other[4] + other[5]) - max(offset, other[4])
            # A step may write over what it reads for the last time; only then do lives touch.
            if shared > 0:
                expect(last <= other[6] or other[7] <= first, f"{name} and {other[0]} lie on each other")
                if last == other[6] or other[7] == first:
                    live[max(first, other[6])] -= shared
    expect(live == arena["live_bytes"] and live[arena["peak_step"]] == max(live) <= arena["arena_bytes"], "the peak")
    expect(sum(arena["at_peak"].values()) == max(live), arena["at_peak"])


@case
def layers_that_repeat_are_folded(c):
    c.compile("resnet18_cifar_train.onnx", batch=32)
    c.page()
    blocks = [b for b in c.data()["blocks"] if b[2] > 1]
    expect(["/layer1/layer1.0", "/layer1/layer1.1"] in [b[3:] for b in blocks], f"{blocks}")
    text = c.run(c.bin / "tessera-dump", c.folder / "plan")
    expect("/layer1/layer1.0 to /layer1/layer1.1, 2 alike" in text and "largest costs" in text, text)
    expect(len(text.splitlines()) <= 60, f"more than a screen:\n{text}")
    expect(len(c.run(c.bin / "tessera-dump", c.folder / "plan", "--all").splitlines()) > 1000, "--all does not list all")
    # Ranks that differ are told by what they do otherwise.
    c.compile("resnet18_cifar_train.onnx", mesh="x=2,y=2,z=2", batch=32)
    text = c.run(c.bin / "tessera-dump", c.folder / "plan")
    expect(len(text.splitlines()) <= 60 and re.search("\n  ranks 0, .*7, each.*\n  ranks 1, ", text, re.S), f"more than a screen:\n{text}")


@case
def two_plans_are_compared(c):
    c.compile()
    c.compile(mesh="data=4", mode="data", out="other")
    page = c.folder / "page.html"
    c.run(c.bin / "tessera-dump", c.folder / "plan", c.folder / "other", "--html", page)
    compared, first = c.data()["compare"], c.dump()["page"]
    second = json.loads(c.run(c.bin / "tessera-dump", c.folder / "other", "--json"))["page"]
    expect(compared == c.dump(c.folder / "other")["page"]["compare"], "--json compares another way")
    for plan, one in zip(compared["plans"], (first, second)):
        expect(plan["head"]["predicted_ns"] == one["head"]["predicted_ns"] and plan["mesh"] == one["mesh"], plan)
    times = [{n[0]: sum(n[3]) + sum(n[4]) for n in one["nodes"]} for one in (first, second)]
    rows, nodes = compared["rows"], len(times[0])
    expect(times[0].keys() == times[1].keys() and compared["num_only"] == [0, 0], compared["num_only"])
    expect(abs(sum(r["more_ns"] for r in rows) - sum(times[1].values()) + sum(times[0].values())) < 1, "the rows are not the difference")
    expect(sum(r["alike"] for r in rows) + compared["num_same"] == nodes, f"{compared['num_same']} of {nodes} are the same")
    expect(sum(r["alike"] for r in rows if r["cut"]) == compared["num_cut"] > 0, compared["num_cut"])
    expect([abs(r["more_ns"]) for r in rows] == sorted((abs(r["more_ns"]) for r in rows), reverse=True), "not the largest first")
    strategies = [{n[0]: one["classes"][one["operators"][n[1]][1]]["strategy"] for n in one["nodes"]} for one in (first, second)]
    for row in rows:
        name = row["name"]
        expect([p["strategy"] for p in row["plans"]] == [of[name] for of in strategies], f"{name}: {row['plans']}")
        expect(first["nodes"][row["node"]][0] == name, f"{name} is not operator {row['node']}")
    kinds = {(k, a): [x, y] for k, a, x, y in compared["collectives"]}
    for p, one in enumerate((first, second)):
        expect(all(kinds[k["kind"], k["axes"]][p] == [k["count"], k["bytes_sent"], k["cost_ns"]] for k in one["traffic"]["kinds"]), kinds)
    expect([[k, a] for k, a, _ in compared["memory"]] == [list(x) for x in first["arena"]["at_peak"].items()], compared["memory"])
    text = c.run(c.bin / "tessera-dump", c.folder / "plan", c.folder / "other")
    expect("data=2,model=2" in text and rows[0]["name"] in text and f"{compared['num_cut']} operators are cut another way" in text, text)
    # A plan is the same as itself; an operator that only one plan has is told.
    c.run(c.bin / "tessera-dump", c.folder / "plan", c.folder / "plan", "--html", page)
    expect(c.data()["compare"]["rows"] == [] and c.data()["compare"]["num_same"] == nodes, "a plan differs from itself")
    path = c.folder / "other" / "report.json"
    report = json.loads(path.read_text())
    report["functions"][0]["operators"][0]["name"] = "/new"
    path.write_text(json.dumps(report))
    expect("1 only in " in c.run(c.bin / "tessera-dump", c.folder / "plan", c.folder / "other"), "an operator of one plan")
    # Bad input is one line, and no file.
    page.unlink()
    c.compile("vgg11_cifar_eval.onnx", mesh="2", mode="data", out="vgg")
    for other, needed in (("vgg", "has no operator of"), ("none", "none")):
        text = c.run(c.bin / "tessera-dump", c.folder / "plan", c.folder / other, "--html", page, code=1)
        expect(text.count("\n") == 1 and needed in text and not page.exists(), text)
    for option in (("--all",), ("--parameters",), ("--explain", "x"), ("--svg", c.folder / "x.svg")):
        c.run(c.bin / "tessera-dump", c.folder / "plan", c.folder / "other", *option, code=2)


@case
def a_run_writes_the_page(c):
    c.compile()
    c.page()
    run = [c.bin / "tessera-run", c.folder / "plan", "--data", "synthetic", "--quiet", "--html", c.folder / "run.html", "--steps"]
    for steps, traced, options in ((5, 3, ()), (2, 2, ("--processes",)), (4, 4, ("--trace", "steps=4", "--trace-file", c.folder / "t.json"))):
        c.run(*run, steps, *options)
        data = c.data("run.html")
        expect(data["trace"]["step"] == traced and len(data["trace"]["ranks"]) == 4, data["trace"]["step"])
        expect(data["log"]["train"]["step"] == list(range(1, steps + 1)), data["log"])
        expect(data | {"trace": None, "log": None} == c.data(), "the plan's part is not that of tessera-dump")
        left = {f.name for f in c.folder.iterdir()}
        expect(left == {"plan", "page.html", "run.html"} | ({"t.json"} if "--trace" in options else set()), left)
    # Failures come before the work, in one line; what was there stays.
    before = (c.folder / "run.html").read_bytes()
    text = c.run(*run[:-2], c.folder / "no" / "run.html", "--steps", 2, code=1)
    expect("--html" in text and text.count("\n") == 1, text)
    c.run(*run, 2, "--eval", code=2)
    (c.folder / "plan" / "report.json").write_text("{")
    text = c.run(*run, 2, code=1)
    expect("report.json" in text and (c.folder / "run.html").read_bytes() == before, text)


@case
def compiling_writes_the_page(c):
    c.compile("lenet_train.onnx", "--html", c.folder / "compiled.html")
    c.page()
    expect(c.data("compiled.html") == c.data(), "tessera-compile --html is another page than tessera-dump --html")
    text = c.compile("mlp_train.onnx", "--html", c.folder / "no" / "page.html", out="mlp", code=1)
    expect("--html" in text and not (c.folder / "mlp").exists(), text)
    c.compile("mlp_train.onnx", "--html", c.folder / "mlp", out="mlp", code=1)


@case
def machines_are_a_table(c):
    text = c.compile("lenet_train.onnx", "--what-if", "nodes=1,2,4", "--html", c.folder / "page.html", mode="data")
    asked = c.data()["what_if"]
    expect([x["nodes"] for x in asked["clusters"]] == [1, 2, 4] and asked["grows"] == "", asked)
    head, (one, *more) = c.data()["head"], asked["clusters"]
    expect(one["predicted_ns"] == head["predicted_ns"] and one["memory_bytes"] == head["arena_bytes"] and one["efficiency"] == 1, one)
    for x in more:
        expect(abs(x["efficiency"] - one["predicted_ns"] / x["predicted_ns"] / x["nodes"]) < 1e-9 and x["fits"], x)
        expect(f"{x['predicted_ns'] / 1e6:.3f} ms" in text, text)
    expect(c.dump()["what_if"] == asked, "the report has another table")
    expect(asked["sizes"] == asked["limits"] == [], asked)
    c.compile("lenet_train.onnx", "--what-if", "nodes=2", mesh="node=2", code=1)


@case
def bad_input_gives_one_error_and_no_file(c):
    def refused(*needed, options=()):
        text = c.page(*options, code=1)
        expect(text.count("\n") == 1 and all(n in text for n in needed), text)
        expect(not (c.folder / "page.html").exists(), "a file was left")

    refused("plan")  # there is none
    c.compile()
    whole = (c.folder / "plan" / "rank1.plan").read_bytes()
    (c.folder / "plan" / "rank1.plan").write_bytes(whole[:100])
    refused("rank1.plan")
    (c.folder / "plan" / "rank1.plan").write_bytes(whole)
    report = c.folder / "plan" / "report.json"
    told = report.read_text()
    for text in (told[:1000], "[" * 10000, "{}"):
        report.write_text(text)
        refused("report.json")
    report.write_text(told)
    bad = c.folder / "bad"
    for option, text, needed in (("--trace", "{", "not a trace"), ("--trace", '{"traceEvents": []}', "another plan"),
                                 ("--log", "x\n", "line 1"), ("--log", "", "no lines"), ("--log", '{"step": 1}\n[]\n', "line 2")):
        bad.write_text(text)
        refused("bad", needed, options=(option, bad))
    refused("nowhere", options=("--log", c.folder / "nowhere"))
    c.run(c.bin / "tessera-dump", c.folder / "plan", "--trace", bad, code=2)
    for other in ("--json", "--all", "--parameters"):
        c.page(other, code=2)
    text = c.run(c.bin / "tessera-dump", c.folder / "plan", "--html", c.folder / "no" / "page.html", code=1)
    expect("cannot be written" in text, text)


TIME_ROWS = "[...document.querySelectorAll('#time tbody tr')].map(r => [...r.cells].map(c => c.textContent))"


def shares_of(rank):
    """What of a traced step is exposed communication, and what is a bubble: counted at every edge of an event."""
    _, _, begin, length = max((e for e in rank["events"] if e[0] == 0), key=lambda e: e[3])
    edges = sorted({begin, begin + length, *(x for e in rank["events"] if e[0] for x in (e[2], e[2] + e[3]) if begin <= x <= begin + length)})
    shares = [0, 0]
    for a, b in zip(edges, edges[1:]):
        busy = {track for track, _, at, wide in rank["events"] if track and at <= (a + b) / 2 < at + wide}
        if 1 not in busy:
            shares[2 not in busy] += (b - a) / length
    return shares


@in_browser
def every_section_is_drawn(c):
    """Of a training with trace and log, a program without search on one rank, a program without gradients; dark, light."""
    hostile = '</script><script>document.title="bad"</script><img src=http://192.0.2.1/x>'
    with browser.Browser() as chrome:
        for model, mesh, mode, train in (("lenet_train.onnx", "data=2,model=2", "auto", True), ("mlp_eval.onnx", "1", "data", False),
                                         ("resnet18_cifar_eval.onnx", "data=2", "auto", False)):
            c.compile(model, mesh=mesh, mode=mode)
            if not train:  # names are only ever text
                path = c.folder / "plan" / "report.json"
                report = json.loads(path.read_text())
                report["model"] = report["functions"][0]["operators"][0]["name"] = hostile
                path.write_text(json.dumps(report))
            c.page(*(c.train() if train else ()))
            for dark in (False, True):
                page = chrome.open(c.folder / "page.html", dark)
                expect(page.value("document.documentElement.dataset.drawn") == "all", f"{model}: {page.problems}")
                expect(not page.problems, f"{model}: {page.problems}")
                # What the Web Content Accessibility Guidelines 2 ask of text, and of areas whose colour says something.
                contrast = page.contrast(AREAS)
                expect(contrast["text"][0] >= 4.5 and min(contrast["named"].values()) >= 3, f"{model}, dark {dark}: {contrast}")
                for section in SECTIONS:
                    expect(len(page.value(f"document.getElementById('{section}').innerText")) > 40, f"{model}: {section} is empty")
                if not train:
                    expect(page.value("document.getElementById('title').textContent").startswith(hostile), "the name is not text")
                shown = page.value("document.getElementById('compare').hidden")
                expect(shown is True, "a comparison is shown with one plan")
            if train:
                tables = page.value("document.getElementById('time').innerText")
                expect("rank 3, measured" in tables and "exposed" in tables, tables)
                for row, rank in zip(page.value(TIME_ROWS)[1:], c.data()["trace"]["ranks"]):
                    for told, share in zip(row[4:], shares_of(rank)):
                        expect(abs(float(re.sub("under|[ %]", "", told)) / 100 - share) < 0.006, f"{row} of rank {rank['rank']}: {share}")
                expect(page.value("document.querySelectorAll('#training figure').length") >= 4, "charts are missing")


@in_browser
def two_plans_and_machines_are_drawn(c):
    c.compile("resnet18_cifar_train.onnx", "--what-if", "nodes=1,2", "--what-if", "batch=16,64", "--what-if", "memory=1KiB,4GiB", batch=32)
    c.compile("resnet18_cifar_train.onnx", mesh="all=4", mode="data", batch=32, out="other")
    c.page(c.folder / "other")
    with browser.Browser() as chrome:
        for dark in (False, True):
            page = chrome.open(c.folder / "page.html", dark)
            expect(page.value("document.documentElement.dataset.drawn") == "all" and not page.problems, page.problems)
            shown = page.value("document.getElementById('compare').innerText")
            expect("cut by all" in shown and "cut by model" in shown and c.data()["compare"]["rows"][0]["name"] in shown, shown)
            page.value("document.querySelector('#compare button').click()")
            detail = page.value("document.getElementById('detail').innerText")
            expect(detail.startswith(c.data()["compare"]["rows"][0]["name"]), detail)
            shown = page.value("document.getElementById('whatif').innerText")
            expect("node=2,data=2,model=2" in shown and "strong scaling" in shown, shown)
            expect(all(x in shown for x in ("Another size of 'batch'", "\n64\t", "\n4 GiB\t", "--memory")), shown)


@in_browser
def a_click_the_search_and_keys_work(c):
    c.compile("resnet18_cifar_train.onnx", batch=32)
    c.page()
    data = c.data()
    with browser.Browser() as chrome:
        page = chrome.open(c.folder / "page.html")
        detail = "document.getElementById('detail').innerText"
        at = next(i for i, n in enumerate(data["nodes"]) if n[0] == "/layer1/layer1.0/conv1/Conv")
        page.value(f"document.querySelector('[data-node=\"{at}\"]').click()")
        shown, cls = page.value(detail), data["classes"][data["operators"][data["nodes"][at][1]][1]]
        for needed in ("/layer1/layer1.0/conv1/Conv", cls["strategy"], cls["rule"], cls["results"][0], "Alternatives", "conv1.weight",
                       cls["collectives"][0]["kind"], "no way needs fewer bytes"):
            expect(needed in shown, f"no '{needed}' in:\n{shown}")
        # The second layer of a repeat is found and shown, too, and a key chooses it.
        page.value("(() => { const s = document.getElementById('search'); s.focus(); s.value = 'layer1.1/conv2'; "
                   "s.dispatchEvent(new Event('input')); document.querySelector('#found button').focus(); })()")
        expect("found" in page.value("document.getElementById('count').textContent"), "no count")
        page.press("Enter")
        expect(page.value(detail).startswith("/layer1/layer1.1/conv2/Conv"), page.value(detail))
        # A click into the arena tells the buffer there, and keys zoom.
        page.value("document.querySelector('#memory canvas').focus()")
        before = page.value("document.querySelector('#memory canvas').toDataURL()")
        page.press("+")
        expect(page.value("document.querySelector('#memory canvas').toDataURL()") != before, "a key does not zoom")
        page.value("(() => { const s = document.getElementById('links'); s.value = '1'; s.dispatchEvent(new Event('input')); })()")
        expect("10 times the bandwidth" in page.value("document.getElementById('whatif').innerText"), "the slider")
        light = page.value("getComputedStyle(document.body).backgroundColor")
        page.value("document.getElementById('theme').click()")
        expect(page.value("getComputedStyle(document.body).backgroundColor") != light, "the theme stays")
        expect(not page.problems, page.problems)


if __name__ == "__main__":
    main(__doc__, Context)
