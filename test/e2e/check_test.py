#!/usr/bin/env python3
"""`tessera-run --check`: what is told before a run, and what is wrong is named; a slow link between hosts is found.

usage: check_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import itertools
import json
import os
import re
import shutil
import subprocess
import time

from cases import case, main
from launching import Launching, expect, rank_environment


class Hosts:
    """Hosts a, b, c, ... as network namespaces with names of their own, and a cable of 200 Mbit/s between each two.

    with Hosts(4) as hosts:              # raises Skipped without root
        hosts.slow("b", "c", "10mbit")   # one direction
        c.start(command, environment, prefix=hosts.on("a"))
    """

    class Skipped(Exception):
        pass

    def __init__(self, count):
        self.letters = "abcdefgh"[:count]

    def __enter__(self):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
            raise self.Skipped("only root makes network namespaces, with ip and tc")
        try:
            for letter in self.letters:
                self.run("ip", "netns", "add", self.name(letter))
                self.run("ip", "-n", self.name(letter), "link", "set", "lo", "up")
                self.run("ip", "-n", self.name(letter), "address", "add", f"{self.address(letter)}/32", "dev", "lo")
            for x, y in itertools.combinations(self.letters, 2):
                self.run("ip", "-n", self.name(x), "link", "add", f"to-{y}", "type", "veth", "peer", "name", f"to-{x}", "netns", self.name(y))
                for one, other in ((x, y), (y, x)):
                    self.run("ip", "-n", self.name(one), "link", "set", f"to-{other}", "up")
                    self.run("tc", "-n", self.name(one), "qdisc", "add", "dev", f"to-{other}", "root", *self.limit("200mbit"))
                for one, other in ((x, y), (y, x)):
                    self.run("ip", "-n", self.name(one), "route", "add", f"{self.address(other)}/32", "dev", f"to-{other}", "src", self.address(one))
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise self.Skipped(f"no network namespaces here: {error.stderr.strip()}") from None
        return self

    def __exit__(self, *_):
        for letter in self.letters:
            subprocess.run(["ip", "netns", "delete", self.name(letter)], capture_output=True)

    @staticmethod
    def run(*command):
        subprocess.run(command, check=True, capture_output=True, text=True)

    @staticmethod
    def limit(rate):
        return "tbf", "rate", rate, "burst", "64k", "latency", "100ms"

    @staticmethod
    def name(letter):
        return f"check{os.getpid()}{letter}"

    @staticmethod
    def address(letter):
        return f"10.78.0.{1 + 'abcdefgh'.index(letter)}"

    def slow(self, one, other, rate):
        self.run("tc", "-n", self.name(one), "qdisc", "replace", "dev", f"to-{other}", "root", *self.limit(rate))

    def on(self, letter):
        return ("ip", "netns", "exec", self.name(letter), "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', letter)


def check(c, plan, *options):
    return [str(a) for a in (c.bin / "tessera-run", plan, "--check", *options)]


@case
def threads_and_processes_are_checked(c):
    plan = c.compile()
    text = c.finish(c.start(check(c, plan, "--checkpoint-dir", c.folder / "run")))
    expect("memory free" in text and "disk free" in text and "0 to 3" in text and "all-reduce" in text, text)
    expect("nothing is wrong" in text and not (c.folder / "run").exists(), text)
    expect(re.search(r"^Tessera [\d.]+, oneDNN [\d.]+ on every rank$", text, re.M), text)
    text = c.finish(c.start(check(c, plan, "--processes")))
    expect("nothing is wrong" in text and "latency" in text and "data" in text, text)
    told = json.loads(c.finish(c.start(check(c, plan, "--processes", "--checkpoint-dir", c.folder / "run", "--json"))))
    expect(told["wrong"] == [] and [r["rank"] for r in told["ranks"]] == [0, 1, 2, 3], told)
    expect(all(r["free_memory"] > r["needed_memory"] > 0 and r["free_disk"] > r["checkpoint"] > 0 for r in told["ranks"]), told)
    expect(all((s is None) == (a == b) for a, row in enumerate(told["latency_seconds"]) for b, s in enumerate(row)), told)
    expect({g["name"] for g in told["groups"]} == {"data,model"} and told["seconds"] > 0, told)
    # What is wrong is the error, and the exit code tells it.
    (c.folder / "file").write_text("")
    text = c.finish(c.start(check(c, plan, "--checkpoint-dir", c.folder / "file" / "run")), code=1)
    expect("is no folder" in text, text)
    text = c.finish(c.start(check(c, plan, "--device", "cuda"), {"TESSERA_CUDA_MODULE": c.folder / "none.so"}), code=1)
    expect("none.so" in text and "1 x none" not in text.splitlines()[0], text)
    c.finish(c.start([str(c.bin / "tessera-run"), str(plan), "--data", "synthetic", "--json"]), code=2)
    for bad in (("--infer",), ("--restarts", "2", "--checkpoint-dir", "x"), ("--html", "x.html")):
        c.finish(c.start(check(c, plan, *bad)), code=2)


@case
def a_slow_link_is_found(c):
    """Sixteen ranks on four hosts; one direction of one cable is twenty times as slow as the others."""
    plan = c.compile(mesh="data=16", mode="data", batch=16)
    command = check(c, plan)

    def run(hosts, port, code):
        begin = time.monotonic()
        ranks = [c.start(command, rank_environment(r, 16, hosts.address("a"), port, r % 4, 4), hosts.on("abcd"[r // 4])) for r in range(16)]
        texts = [c.finish(process, code if r == 0 else None) for r, process in enumerate(ranks)]
        told = re.search(r"checked in ([\d.]+) s", texts[0])
        expect(told and float(told[1]) < 10, f"sixteen ranks are to be checked in 10 s: {texts[0]}")
        print(f"      16 ranks in {time.monotonic() - begin:.1f} s, of them checked {told[1] if told else '?'} s")
        return texts[0]

    try:
        with Hosts(4) as hosts:
            text = run(hosts, 29500, 0)
            expect("nothing is wrong" in text and "to d" in text and re.search(r"^b +4 to 7 ", text, re.M), text)
            hosts.slow("b", "c", "10mbit")
            text = run(hosts, 29510, 1)
            wrong = re.findall(r"WRONG: (.*)", text)
            expect(len(wrong) == 1 and re.fullmatch(r"host b reaches host c at [\d.]+ Mbit/s, \S+( \S+)? of the others", wrong[0]), text)
    except Hosts.Skipped as reason:
        print(f"skip  {reason}")


@case
def the_network_is_checked_under_mpi(c):
    if not shutil.which("mpirun"):
        return print("skipped: no mpirun")
    mpirun = ("mpirun", "--oversubscribe", "-n", "3")
    told = json.loads(c.finish(c.start([str(c.bin / "tessera-profile"), "--network", "--json"], prefix=mpirun)))
    expect(told["wrong"] == [] and len(told["ranks"]) == 3 and len({r["libraries"] for r in told["ranks"]}) == 1, told)
    expect(re.search(r"\d+\.\d+", told["ranks"][0]["libraries"]), "which MPI it is")
    plan = c.compile(mesh="data=3", batch=9)
    text = c.finish(c.start(check(c, plan), prefix=mpirun))
    expect(f", {told['ranks'][0]['libraries']} on every rank" in text and "nothing is wrong" in text, text)


@case
def the_network_is_checked_without_a_plan(c):
    command = [str(c.bin / "tessera-profile"), "--network", "--json"]
    ranks = [c.start(command, rank_environment(r, 3, "127.0.0.1", 29520, r, 3)) for r in range(3)]
    texts = [c.finish(process) for process in ranks]
    told = json.loads(texts[0])
    expect(texts[1] == texts[2] == "" and told["wrong"] == [] and len(told["ranks"]) == 3, texts)
    expect(all(r["libraries"] == "" for r in told["ranks"]), told)
    expect([g["name"] for g in told["groups"]] == ["all"] and told["latency_seconds"][0][2] > 0, told)
    expect("torchrun" in c.finish(c.start(command), code=1), "how to start it")
    c.finish(c.start([*command, "-o", "x", "--mesh", "2"]), code=2)


@case
def a_profile_has_the_collectives_of_the_links(c):
    """Kernels stay those of the profile that is added to; collectives between its threads are forgotten."""
    kernels, profile = c.folder / "kernels.json", c.folder / "profile.json"
    kernels.write_text(json.dumps({"kernels": {"graph.relu 4->4 f32": 1e-6}, "beside": {"hand_over": 1, "per_byte": 1},
                                   "collectives": {"all-reduce 2": [[1 << 30, 1e-3]], "all-reduce 8": [[1024, 1]]}}))
    command = [str(a) for a in (c.bin / "tessera-profile", "--network", "--mesh", "data=2", "--add-to", kernels, "-o", profile,
                                "--max-bytes", "512KiB", "--seconds", "0.001")]
    try:
        with Hosts(2) as hosts:
            ranks = [c.start(command, rank_environment(r, 2, hosts.address("a"), 29500, 0, 1), hosts.on("ab"[r])) for r in range(2)]
            texts = [c.finish(process) for process in ranks]
    except Hosts.Skipped as reason:
        return print(f"skipped: {reason}")
    told = json.loads(profile.read_text())
    expect("all-reduce 2, 524288 bytes" in texts[0] and texts[1] == "", texts)
    expect(told["kernels"] == {"graph.relu 4->4 f32": 1e-6} and told["beside"]["per_byte"] < 1, told)
    expect(set(told["collectives"]) == {f"{kind} 2" for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "halo")}, told)
    points = told["collectives"]["all-reduce 2"]  # each rank sends half and half of the sum: 512 KiB at 25 MB/s, less the burst
    expect(points[-1][0] == 512 << 10 and 0.9 * (448 << 10) / 25e6 < points[-1][1] < 0.5, points)
    # Another number of ranks than the mesh has.
    ranks = [c.start([*command[:3], "data=4", *command[4:]], rank_environment(r, 2, "127.0.0.1", 29522, r, 2)) for r in range(2)]
    expect(all("mesh has 4 ranks" in text for text in [c.finish(process, code=1) for process in ranks]), "which mesh")


if __name__ == "__main__":
    main(__doc__, Launching)
