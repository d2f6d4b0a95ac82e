#!/usr/bin/env python3
"""Every way to launch ranks gives the same bits, on one host and on two; a rank that is lost is noticed and named.

usage: launch_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import time

from cases import case, main
from launching import (CONTINUE, KILL, PEER_TIMEOUT, STOP, Launching, TwoHosts, expect, free_port, kill_all, processes_of_ranks,
                       rank_environment, ranks_of, runs)
from tensors import manifest_of


def table(path, *servers):
    """A rank table: (address, ranks) per server."""
    path.write_text(json.dumps({
        "version": "1.0", "server_count": str(len(servers)), "status": "completed",
        "server_list": [{"server_id": address, "host_nic_ip": "reserve",
                         "device": [{"device_id": str(i), "device_ip": f"192.168.100.{100 + i}", "rank_id": str(rank)}
                                    for i, rank in enumerate(ranks)]} for address, ranks in servers]}))
    return path


def all_ranks(c, command, port, ranks=4, more=()):
    """Starts a process per rank, which learns its rank from the environment."""
    return [c.start(command, rank_environment(r, ranks, "127.0.0.1", port) | dict(more)) for r in range(ranks)]


def torchrun_works():
    """Debian 12's cannot start a program: its PyTorch is older than its Python."""
    return shutil.which("torchrun") and subprocess.run(
        ["torchrun", "--no_python", "--nproc_per_node", "1", "--master_port", str(free_port()), "true"],
        capture_output=True, timeout=100).returncode == 0


@case
def every_launch_path_has_the_same_bits(c):
    plan = c.compile()
    files = {}

    def command(name):
        files[name] = c.folder / f"{name}.safetensors"
        return c.command(plan, 6, "--save-weights", files[name])

    c.finish(c.start(command("threads")))
    c.finish(c.start(command("processes") + ["--processes"]))
    for process in all_ranks(c, command("environment"), free_port()):
        c.finish(process)
    one = table(c.folder / "one.json", ("127.0.0.1", range(4)))
    c.finish(c.start(command("table") + ["--rank-table", str(one)], {"MASTER_PORT": free_port()}))
    port = free_port()
    for process in [c.start(command("rank_id") + ["--rank-table", str(one)], {"RANK_ID": r, "MASTER_PORT": port})
                    for r in range(4)]:
        c.finish(process)
    # Under torchrun an agent occupies the port that the variables name.
    with socket.socket() as agent:
        agent.bind(("127.0.0.1", free_port()))
        agent.listen()
        for process in all_ranks(c, command("agent"), agent.getsockname()[1],
                                 more={"TORCHELASTIC_USE_AGENT_STORE": "True"}):
            c.finish(process)
    if torchrun_works():
        c.finish(c.start(command("torchrun"), prefix=("torchrun", "--no_python", "--nproc_per_node", "4", "--master_port",
                                                       str(free_port()))))
    if shutil.which("mpirun"):
        c.finish(c.start(command("mpi"), prefix=("mpirun", "--oversubscribe", "-n", "4")))
    for name, file in files.items():
        expect(file.read_bytes() == files["threads"].read_bytes(), f"{name} computes something else")
    print("      " + ", ".join(files))


def mpirun_on(c, hosts):
    """Two ranks run on each host. A command that enters the namespace takes the place of ssh.

    Each daemon has a folder for temporary files of its own, as on another machine: a daemon that starts clears the job's
    folder, and the other one was making its own there. A daemon that says its last word when mpirun has gone would end by SIGPIPE
    otherwise, and the job with its code, 141; ranks get the signal as ever."""
    agent = c.folder / "agent"
    agent.write_text('#!/bin/sh\nhost=$1\nshift\ntrap "" PIPE\nexport TMPDIR="$0-tmp/$host"\nmkdir -p "$TMPDIR"\n'
                     'exec ip netns exec "$host" sh -c "$*"\n')
    agent.chmod(0o755)
    return (*hosts.on(0), "mpirun", "--host", ",".join(f"{name}:2" for name in hosts.names), "-n", "4", "--mca", "plm_rsh_agent",
            str(agent), "--mca", "btl_tcp_if_include", "cable", "--mca", "oob_tcp_if_include", "cable", "--mca", "btl", "tcp,self")


def two_machines(c):
    """A topology: two machines with two devices each, and a slow network between them."""
    path = c.folder / "machines.json"
    path.write_text(json.dumps({
        "name": "two machines", "devices": 4, "flops": {"f32": 50e9}, "memory_bandwidth": 10e9, "memory": "4GiB",
        "links": [{"devices": 2, "latency": 5e-6, "bandwidth": 5e9}, {"devices": 4, "latency": 50e-6, "bandwidth": 12e6}]}))
    return path


@case
def ranks_of_one_machine_cross_the_cable_once(c):
    """Where the topology says which ranks share a machine, they add their gradients before these cross the network."""
    plans = {"one link": c.compile("flat", "data=4", "data"),
             "two machines": c.compile("machines", "data=4", "data", options=("--topology", two_machines(c)))}
    try:
        with TwoHosts() as hosts:
            def crossed():
                return sum(int(subprocess.run([*hosts.on(h), "cat", "/sys/class/net/cable/statistics/tx_bytes"],
                                              capture_output=True, text=True, check=True).stdout) for h in range(2))

            sent = {}
            for name, plan in plans.items():
                threads, two = c.folder / "threads.safetensors", c.folder / "two.safetensors"
                c.finish(c.start(c.command(plan, 6, "--save-weights", threads)))
                before = crossed()
                for process in [c.start(c.command(plan, 6, "--save-weights", two),
                                        rank_environment(r, 4, hosts.addresses[0], 29500, r % 2, 2), hosts.on(r // 2))
                                for r in range(4)]:
                    c.finish(process)
                sent[name] = crossed() - before
                expect(two.read_bytes() == threads.read_bytes(), f"{name}: other bits than with threads")
            expect(sent["two machines"] < 0.6 * sent["one link"], f"bytes on the cable: {sent}")
            print(f"      bytes on the cable: {sent}")
    except TwoHosts.Skipped as reason:
        print(f"skipped: {reason}")


@case
def two_hosts_over_every_launch_path(c):
    plan = c.compile(options=("--topology", two_machines(c)))
    straight = c.folder / "threads.safetensors"
    c.finish(c.start(c.command(plan, 6, "--save-weights", straight)))
    try:
        with TwoHosts() as hosts:
            a, b = hosts.addresses
            file = c.folder / "two.safetensors"
            command = c.command(plan, 6, "--save-weights", file)
            two, done = table(c.folder / "two.json", (a, (0, 1)), (b, (2, 3))), []

            def check(name, processes):
                for process in processes:
                    c.finish(process)
                expect(file.read_bytes() == straight.read_bytes(), f"{name}: other bits on two hosts")
                file.unlink()
                done.append(name)

            check("environment", [c.start(command, rank_environment(r, 4, a, 29500, r % 2, 2), hosts.on(r // 2))
                                  for r in range(4)])
            # First with the variables of torchrun's agents: one agent per host, the first on the port that they name.
            # Then with torchrun itself.
            agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TESSERA_SECRET": "between these"}
            check("torchrun's environment", [c.start(command, rank_environment(r, 4, a, 29500, r % 2, 2) | agent, hosts.on(r // 2))
                                             for r in range(4)])
            if torchrun_works():
                check("torchrun", [c.start(command, prefix=(*hosts.on(h), "torchrun", "--no_python", "--nnodes", "2",
                                                             "--nproc_per_node", "2", "--node_rank", str(h), "--master_addr", a))
                                   for h in range(2)])
            check("rank table", [c.start(command + ["--rank-table", str(two)], prefix=hosts.on(h)) for h in range(2)])
            check("RANK_ID", [c.start(command + ["--rank-table", str(two)], {"RANK_ID": r}, hosts.on(r // 2))
                              for r in range(4)])
            if shutil.which("mpirun"):
                check("mpirun", [c.start(command, prefix=mpirun_on(c, hosts))])
            check("--processes", [c.start(command + ["--processes"], prefix=hosts.on(1))])
            print("      " + ", ".join(done))
    except TwoHosts.Skipped as reason:
        print(f"skipped: {reason}")


@case
def an_mpi_rank_that_is_stopped_or_cut_off_is_named(c):
    """mpirun names a rank that is killed."""
    if not shutil.which("mpirun"):
        return print("skipped: no mpirun")
    log = c.folder / "log.jsonl"
    command = c.command(c.compile(), 1000000, "--peer-timeout", PEER_TIMEOUT, "--log", log)
    for signal, message in ((STOP, rf"^\[rank \d\] tessera-run: rank 2 \(on .*\) gave no sign of life for {PEER_TIMEOUT} s"),
                            (KILL, r"rank 2 .* exited on signal 9")):
        log.unlink(missing_ok=True)
        process = c.start(command, prefix=("mpirun", "--oversubscribe", "-n", "4"))
        c.wait_for_steps(log)
        begin = time.monotonic()
        os.kill(processes_of_ranks(process.pid)[2], signal)
        text = c.finish(process, code=None, timeout=60)
        expect(process.returncode != 0 and re.search(message, text, re.M), text)
        expect(time.monotonic() - begin < 15, f"{time.monotonic() - begin:.1f} s")
    try:
        with TwoHosts() as hosts:
            log.unlink()
            process = c.start(command, prefix=mpirun_on(c, hosts))
            c.wait_for_steps(log)
            ranks, begin = processes_of_ranks(process.pid), time.monotonic()
            hosts.cut()
            c.wait_for(lambda: not any(map(runs, ranks.values())), "the end of both sides", 30)
            seconds = time.monotonic() - begin
            # Open MPI's own daemons, on both sides of the cut, may wait for each other for ever.
            for name in hosts.names:
                kill_all(subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split())
            text = c.finish(process, code=None)
            expect(process.returncode != 0 and
                   re.search(rf"^\[rank [01]\] tessera-run: rank 2 \(on .*\) and rank 3 \(on .*\) gave no sign of life for {PEER_TIMEOUT} s: "
                             r"they were stopped", text, re.M), text)
            expect(seconds < 15, f"{seconds:.1f} s")
            print(f"      both sides ended {seconds:.1f} s after the cut")
    except TwoHosts.Skipped as reason:
        print(f"skipped: {reason}")


@case
def a_cut_cable_is_noticed_on_both_sides(c):
    plan = c.compile()
    try:
        with TwoHosts() as hosts:
            command = c.command(plan, 1000000, "--peer-timeout", PEER_TIMEOUT, "--log", c.folder / "log.jsonl")
            processes = [c.start(command, rank_environment(r, 4, hosts.addresses[0], 29500, r % 2, 2), hosts.on(r // 2))
                         for r in range(4)]
            c.wait_for_steps(c.folder / "log.jsonl")
            expect(all(process.poll() is None for process in processes), "ended by themselves")
            begin = time.monotonic()
            hosts.cut()
            texts = [c.finish(process, code=1, timeout=30) for process in processes]
            seconds = time.monotonic() - begin
            expect(seconds < PEER_TIMEOUT + 7, f"noticed after {seconds:.1f} s")
            for rank, text in enumerate(texts):
                lost = "rank 2|rank 3" if rank < 2 else "rank 0|rank 1"
                expect(re.search(rf"\[rank {rank}\].*({lost}).*(no sign of life for {PEER_TIMEOUT} s|has died)", text), text)
            print(f"      both sides ended {seconds:.1f} s after the cut")
    except TwoHosts.Skipped as reason:
        print(f"skipped: {reason}")


@case
def a_killed_rank_is_named_by_all_at_once(c):
    plan = c.compile()
    for victim in (0, 2):
        log = c.folder / f"{victim}.jsonl"
        processes = all_ranks(c, c.command(plan, 1000000, "--log", log), free_port())
        c.wait_for_steps(log)
        begin = time.monotonic()
        processes[victim].send_signal(KILL)
        for rank, process in enumerate(processes):
            if rank != victim:
                text = c.finish(process, code=1, timeout=20)
                expect(f"[rank {rank}]" in text and f"rank {victim} (on " in text and "has died" in text, text)
        processes[victim].communicate()
        expect(time.monotonic() - begin < 8, f"took {time.monotonic() - begin:.1f} s")


@case
def a_stopped_rank_is_named_after_the_timeout(c):
    plan = c.compile()
    log = c.folder / "log.jsonl"
    processes = all_ranks(c, c.command(plan, 1000000, "--peer-timeout", PEER_TIMEOUT, "--log", log), free_port())
    c.wait_for_steps(log)
    processes[3].send_signal(STOP)
    begin = time.monotonic()
    for rank in range(3):
        text = c.finish(processes[rank], code=1, timeout=20)
        expect("rank 3 (on " in text and f"no sign of life for {PEER_TIMEOUT} s" in text, text)
    expect(PEER_TIMEOUT / 2 < time.monotonic() - begin < PEER_TIMEOUT + 6, f"noticed after {time.monotonic() - begin:.1f} s")
    processes[3].send_signal(CONTINUE)
    text = c.finish(processes[3], code=1, timeout=20)
    expect("[rank 3]" in text, text)


@case
def ranks_that_do_not_fit_together_are_told_so(c):
    plan, other = c.compile("plan", "2", "data"), c.compile("other", "2", "data", "lenet_train.onnx")
    port = free_port()
    processes = [c.start(c.command(p, 1), rank_environment(r, 2, "127.0.0.1", port)) for r, p in enumerate((plan, other))]
    for process in processes:
        text = c.finish(process, code=1)
        expect("rank 1 (on " in text and "has the plan" in text, text)
    late = c.command(plan, 1, "--rendezvous-timeout", 1)
    text = c.finish(c.start(late, rank_environment(0, 2, "127.0.0.1", free_port())), code=1)
    expect("[rank 0]" in text and "rank 1 of 2 is missing after 1 s" in text, text)
    text = c.finish(c.start(late, rank_environment(1, 2, "127.0.0.1", free_port())), code=1)
    expect("[rank 1]" in text and "rank 0 could not be reached" in text, text)
    port = free_port()
    patient = c.command(plan, 1, "--rendezvous-timeout", 10)
    processes = [c.start(patient, rank_environment(r, 2, "127.0.0.1", port) | {"TESSERA_SECRET": f"secret {r}"}) for r in range(2)]
    for process in processes:
        expect("another secret" in c.finish(process, code=1), "secrets")
    for change, message in (({"WORLD_SIZE": 4}, "WORLD_SIZE is 4"), ({"RANK": "x"}, "RANK=x"), ({"MASTER_ADDR": ""}, "MASTER_ADDR"),
                            ({"RANK": 2}, "RANK is 2"), ({"MASTER_PORT": 70000}, "MASTER_PORT=70000"),
                            ({"MASTER_PORT": 0}, "MASTER_PORT=0")):
        text = c.finish(c.start(c.command(plan, 1), rank_environment(0, 2, "127.0.0.1", 29500) | change), code=1)
        expect(message in text and text.count("\n") == 1, text)
    text = c.finish(c.start(c.command(plan, 1), {"RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}), code=1)
    expect("WORLD_SIZE is not set" in text and text.count("\n") == 1, text)
    bad = c.folder / "bad.json"
    good = table(bad, ("127.0.0.1", (0, 1))).read_text()
    for old, new, message in (('"1.0"', '"2.0"', "version"), ('"completed"', '"initializing"', "status"),
                              ('"rank_id": "1"', '"rank_id": "0"', "rank 0 twice"), ('"rank_id": "1"', '"rank_id": "5"', "gaps"),
                              ('"rank_id": "1"', '"rank_id": "-1"', "rank_id"), ("127.0.0.1", "192.0.2.1", "address of this"),
                              ('"server_count": "1"', '"server_count": "3"', "server_count"), ("{", "", "JSON"),
                              ('"rank_id": "0"}, ', '"rank_id": "0"}, {"device_id": "7", "rank_id": "2"}, ', "names 3")):
        expect(old in good, old)
        bad.write_text(good.replace(old, new, 1))
        text = c.finish(c.start(c.command(plan, 1, "--rank-table", bad)), code=1)
        expect(message in text and text.count("\n") == 1, f"{new}: {text}")
    c.finish(c.start(c.command(plan, 1, "--restarts", 1)), code=2)


@case
def a_hang_is_dumped_rank_by_rank(c):
    """One of four ranks is stopped. Its silence alone would be noticed much later."""
    plan = c.compile()
    log = c.folder / "log.jsonl"
    process = c.start(c.command(plan, 1000000, "--processes", "--step-timeout", 4, "--peer-timeout", 30, "--log", log))
    c.wait_for_steps(log)
    os.kill(ranks_of(process.pid)[3], STOP)
    begin = time.monotonic()
    text = c.finish(process, code=1)
    expect(time.monotonic() - begin < 15, f"{time.monotonic() - begin:.1f} s")
    expect("rank 3 is stopped and is killed" in text, text)
    for rank in range(3):
        expect(re.search(rf"\[rank {rank}\] (no progress for 4 s|another rank hangs): step \d+, ", text), text)
    expect("collective '" in text or "agreeing" in text, text)


@case
def a_slow_rank_is_named(c):
    """Its process gets no processor for much of the time; under MPI, too. (unit.test_executor has the warning, which depends on the
    share of a step, and thereby on what else the machine does.)"""
    plan, steps = c.compile("plan", "data=2", "data", "lenet_train.onnx", batch=20), 30
    starts = {"--processes": lambda command: c.start(command + ["--processes"])}
    if shutil.which("mpirun"):
        starts["mpirun"] = lambda command: c.start(command, prefix=("mpirun", "--oversubscribe", "-n", "2"))
    for name, start in starts.items():
        log = c.folder / f"{name}.jsonl"
        process = start(c.command(plan, steps, "--backend", "reference", "--f64", "--log", log, "--log-dir", c.folder / name))
        c.wait_for(lambda: log.exists() and log.read_text().count("\n") > 5, "the first steps")
        victim = processes_of_ranks(process.pid)[1]
        try:
            while process.poll() is None:
                os.kill(victim, STOP)
                time.sleep(0.1)  # long, since on a busy machine it waits for the other rank for most of a step
                os.kill(victim, CONTINUE)
                time.sleep(0.01)
        except ProcessLookupError:
            pass
        text = c.finish(process)
        expect(re.search(r"^rank 1 was the slowest: .* ms of its own a step, .* times the others'", text, re.M), f"{name}: {text}")
        logged = [json.loads(line)["rank_seconds"] for line in log.read_text().splitlines()]
        expect(len(logged) == steps and all(len(seconds) == 2 for seconds in logged), f"{name}: {logged[-1]}")
        expect("of its own a step" in (c.folder / name / "rank-1.log").read_text(), f"{name}: no figure in a rank's log")


@case
def each_rank_has_a_log(c):
    plan = c.compile()
    logs = c.folder / "logs"
    text = c.finish(c.start(c.command(plan, 3, "--processes", "--log-dir", logs)))
    expect(text.count("trained 3 steps") == 1, "only rank 0 is on the terminal")
    plan_id = json.loads(c.run(c.bin / "tessera-dump", plan, "--json"))
    for rank in range(4):
        text = (logs / f"rank-{rank}.log").read_text()
        expect("tessera-run 0." in text and f"rank {rank} of 4 as processes over TCP" in text and "processors" in text and
               f"data {rank // 2}, model {rank % 2}" in text and text.endswith("ended\n"), text)
    expect(plan_id, "no dump")


@case
def restarted_runs_lose_nothing(c):
    """Ranks killed at random moments, of a start and of the steps, threads and processes: the parameters of an uninterrupted run,
    bit for bit."""
    plan, steps = c.compile(), 240
    straight = c.folder / "straight.safetensors"
    c.finish(c.start(c.command(plan, steps, "--save-weights", straight)))
    rng = random.Random(1)

    def behind(run):
        return max((int(folder.name[5:]) for folder in run.glob("step-*")), default=0)

    for flags in (["--processes"], []):
        file, run = c.folder / f"end{len(flags)}.safetensors", c.folder / f"run{len(flags)}"
        process = c.start(c.command(plan, steps, "--save-weights", file, "--checkpoint-dir", run, "--checkpoint-every", 5,
                                    "--restarts", 50, *flags))
        kills, before, children = 0, set(), pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")

        def ended():
            return process.poll() is not None

        def started():
            """The processes of an attempt from which no rank was killed yet."""
            now = set() if ended() else set(ranks_of(process.pid).values()) or set(map(int, children.read_text().split()))
            return now if now and not now & before else set()

        while not ended() and kills < 8:
            c.wait_for(lambda: ended() or started(), "another start")
            if kills % 4 != 3:
                reached = behind(run) + rng.randrange(5, 25)
                c.wait_for(lambda: ended() or behind(run) >= reached, f"step {reached}")
            time.sleep(rng.uniform(0, 0.1))
            victims = started()
            if victims:
                try:
                    os.kill(rng.choice(sorted(victims)), KILL)
                    kills, before = kills + 1, victims
                except ProcessLookupError:
                    pass
        text = c.finish(process, timeout=300)
        expect(kills > 2 and text.count("starting again") >= kills - 1, text)
        expect(file.read_bytes() == straight.read_bytes(), f"{flags}: other parameters after {kills} kills\n{text}")
        expect("was ended by signal 9" in text, text)


@case
def what_would_only_fail_again_is_not_started_again(c):
    """A supervisor gives up at once on errors before the first step, and on others after two failures without a new checkpoint."""
    plan = c.compile("plan", "data=2")
    (c.folder / "bad.npy").write_bytes(b"no array")
    run = c.folder / "run"
    for flags in ((), ("--processes",)):
        for options, message in ((("--data", f"npy:{c.folder}/none.npy"), "none.npy"), (("--data", f"npy:{c.folder}/bad.npy"), "bad.npy"),
                                 (("--weights", "/dev/zero"), "/dev/zero")):
            command = c.command(plan, 3, "--checkpoint-dir", run, "--restarts", 1000, *flags) + [str(o) for o in options]
            if "--data" in options:
                first = command.index("--data")
                del command[first:first + 2]
            text = c.finish(c.start(command), code=1, timeout=60)
            expect(message in text and "not started again: this failure would come again" in text and
                   "starting again" not in text, text)
        # A folder that has a checkpoint's name cannot be replaced.
        shutil.rmtree(run, ignore_errors=True)
        (run / "step-00000004/full").mkdir(parents=True)
        text = c.finish(c.start(c.command(plan, 1000, "--checkpoint-dir", run, "--checkpoint-every", 2, "--restarts", 1000,
                                          *flags)), code=1, timeout=120)
        # The first start writes step 2; the others fail at step 4 without a new one.
        failures = [line for line in text.splitlines() if "cannot be given its name" in line and "aborted" not in line]
        expect(text.count("starting again") == 2 and len(failures) == 3 and
               "not started again: the same failure twice, without a new checkpoint" in text, text)


@case
def an_elastic_run_goes_on_with_the_ranks_that_are_left(c):
    """One killed, then one stopped: four ranks, three, two. Every step once, in order, with the uninterrupted run's loss."""
    plan = c.compile()
    exact, steps = ("--f64", "--backend", "reference", "--checkpoint-every", 5), 120
    def losses(log):
        return [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    c.finish(c.start(c.command(plan, steps, *exact, "--log", c.folder / "straight.jsonl", "--checkpoint-dir",
                               c.folder / "straight")))
    straight, log, run = losses(c.folder / "straight.jsonl"), c.folder / "log.jsonl", c.folder / "run"
    process = c.start(c.command(plan, steps, *exact, "--log", log, "--checkpoint-dir", run, "--processes", "--restarts", 3,
                                "--elastic", "--peer-timeout", PEER_TIMEOUT))
    for left, victim, signal, reached in ((4, 1, KILL, 20), (3, 2, STOP, 50)):
        c.wait_for(lambda: len(ranks_of(process.pid)) == left and log.exists() and losses(log)[-1:] and
                   losses(log)[-1]["step"] >= reached, f"step {reached}")
        os.kill(ranks_of(process.pid)[victim], signal)
    text = c.finish(process)
    expect(re.search(r"starting again on 3 ranks \(data=3,model=1, .*run/plan-3\) without rank 1 \(1 of 3\)", text) and
           "rank 2 is stopped and is killed" in text and
           re.search(r"starting again on 2 ranks \(data=1,model=2, .*run/plan-2\) without rank 2 \(2 of 3\)", text), text)
    logged, last = losses(log), {}
    for before, entry in zip([{"step": 0}] + logged, logged):
        expect(entry["step"] == before["step"] + 1 or entry["step"] % 5 == 1 and entry["step"] <= before["step"],
               f"step {entry['step']} after {before['step']}")
        last[entry["step"]] = entry
        same = straight[entry["step"] - 1]
        expect(entry["epoch"] == same["epoch"] and abs(entry["loss"] - same["loss"]) <= 1e-9 * abs(same["loss"]),
               f"{entry} is not {same}")
    expect(sorted(last) == list(range(1, steps + 1)), "steps are missing")
    ends = [manifest_of(folder / f"step-{steps:08}") for folder in (run, c.folder / "straight")]
    mesh = ends[0]["mesh"]
    expect(ends[0]["position"] == ends[1]["position"] and [size for _, size in mesh if size > 1] == [2], f"{mesh}")


@case
def a_pipeline_goes_on_without_a_rank(c):
    """Started again it ends with the bits of the uninterrupted run. On fewer ranks it has other stages, as long as there are two,
    and then none; without stages there is no schedule of them."""
    plan = c.compile(mesh="stage=2,data=2", mode="data", options=("--pipeline", "micro=2,schedule=1f1b"))
    exact, steps = ("--f64", "--backend", "reference", "--checkpoint-every", 5), 80
    def losses(log):
        return {entry["step"]: entry["loss"] for entry in map(json.loads, filter(lambda line: line.endswith("}"),
                                                                                 log.read_text().splitlines()))}
    def begun(name, *options):
        log = c.folder / f"{name}.jsonl"
        process = c.start(c.command(plan, steps, *exact, "--log", log, "--checkpoint-dir", c.folder / name, "--processes", *options))
        def reached(step, ranks):
            c.wait_for(lambda: len(ranks_of(process.pid)) == ranks and log.exists() and max(losses(log), default=0) >= step,
                       f"step {step}")
            return ranks_of(process.pid)
        return process, log, reached
    process, log, _ = begun("straight")
    c.finish(process)
    straight = losses(log)
    process, log, reached = begun("again", "--restarts", 1)
    os.kill(reached(10, 4)[2], KILL)
    expect("starting again" in c.finish(process), "no start")
    expect(losses(log) == straight, "the losses differ")
    text = c.run(c.bin / "tessera-ckpt", "compare", *(c.folder / name / f"step-{steps:08}" for name in ("again", "straight")))
    expect("identical" in text, text)
    process, log, reached = begun("fewer", "--restarts", 3, "--elastic", "--peer-timeout", PEER_TIMEOUT)
    for step, ranks, victim in ((10, 4, 1), (25, 3, 2), (40, 2, 1)):
        os.kill(reached(step, ranks)[victim], KILL)
    text = c.finish(process)
    for told in ("3 ranks (stage=3,data=1, ", "2 ranks (stage=2,data=1, ", "1 rank (data=1, "):
        expect(f"starting again on {told}" in text, f"'{told}' is missing: {text}")
    found = losses(log)
    expect(sorted(found) == sorted(straight), "steps are missing")
    expect(all(abs(found[step] - loss) <= 1e-9 * abs(loss) for step, loss in straight.items()), "the losses differ")


@case
def stages_with_meshes_of_their_own_go_on_without_a_rank(c):
    """No meshes are given for the ranks that are left, so they have no stages. The run goes on from the last checkpoint, with the
    losses of the uninterrupted one; what cannot be compiled again is refused before the first step."""
    model = c.folder / "model.onnx"
    shutil.copy(c.models / "mlp_train.onnx", model)
    plan = c.compile(mesh="stages=[data=2,model=2; data=4]", mode="auto", model=model, options=("--accumulate", 2))
    exact, steps = ("--f64", "--backend", "reference", "--checkpoint-every", 5), 60
    def losses(log):
        return {entry["step"]: entry["loss"] for entry in map(json.loads, filter(lambda line: line.endswith("}"),
                                                                                 log.read_text().splitlines()))}
    straight, log, run = c.folder / "straight.jsonl", c.folder / "log.jsonl", c.folder / "run"
    c.finish(c.start(c.command(plan, steps, *exact, "--log", straight, "--checkpoint-dir", c.folder / "straight")))
    command = c.command(plan, steps, *exact, "--log", log, "--checkpoint-dir", run, "--processes", "--restarts", 3, "--elastic",
                        "--peer-timeout", PEER_TIMEOUT)
    process = c.start(command)
    for ranks, victim, step in ((8, 5, 10), (7, 0, 25)):  # of the second stage; of those that have none
        c.wait_for(lambda: len(ranks_of(process.pid)) == ranks and log.exists() and max(losses(log), default=0) >= step, f"step {step}")
        os.kill(ranks_of(process.pid)[victim], KILL)
    text = c.finish(process)
    expect(re.search(r"starting again on 7 ranks \([^;\[]*, .*run/plan-7\) without rank 5 \(1 of 3\)", text) and
           re.search(r"starting again on 6 ranks \([^;\[]*, .*run/plan-6\) without rank 0 \(2 of 3\)", text), text)
    found, wanted = losses(log), losses(straight)
    expect(sorted(found) == sorted(wanted) == list(range(1, steps + 1)), "steps are missing")
    expect(all(abs(found[step] - loss) <= 1e-9 * abs(loss) for step, loss in wanted.items()), "the losses differ")
    model.unlink()
    text = c.finish(c.start(command), code=1)
    expect("is not there any more" in text and text.count("\n") == 1, text)


@case
def an_elastic_run_that_is_reproducible_keeps_its_bits(c):
    """Four ranks, of which one is lost; three go on; four again. Every loss and the last checkpoint are those of the
    uninterrupted run, although three do not divide the leaves."""
    plan, steps = c.compile(mesh="data=4", mode="data", options=("--reproducible=4",)), 100
    straight, log, run = c.folder / "straight.jsonl", c.folder / "log.jsonl", c.folder / "run"

    def losses(file):
        return {entry["step"]: entry["loss"] for entry in map(json.loads, filter(lambda line: line.endswith("}"),
                                                                                 file.read_text().splitlines()))}

    c.finish(c.start(c.command(plan, steps, "--log", straight, "--checkpoint-dir", c.folder / "straight")))
    process = c.start(c.command(plan, steps - 20, "--log", log, "--checkpoint-dir", run, "--checkpoint-every", 5, "--processes",
                                "--restarts", 2, "--elastic", "--peer-timeout", PEER_TIMEOUT))
    c.wait_for(lambda: len(ranks_of(process.pid)) == 4 and log.exists() and len(losses(log)) >= 20, "step 20")
    os.kill(ranks_of(process.pid)[1], KILL)
    text = c.finish(process)
    expect(re.search(r"starting again on 3 ranks \(data=3, .*run/plan-3\) without rank 1 \(1 of 2\)", text), text)
    expect([size for _, size in manifest_of(run / f"step-{steps - 20:08}")["mesh"] if size > 1] == [3], "three ranks did not end the run")
    found = losses(log)
    c.finish(c.start(c.command(plan, steps, "--log", log, "--checkpoint-dir", run, "--resume", run)))
    found |= losses(log)
    expect(found == losses(straight) and len(found) == steps, "the losses differ")
    ends = [folder / f"step-{steps:08}" for folder in (run, c.folder / "straight")]
    text = c.run(c.bin / "tessera-ckpt", "compare", *ends)
    expect("identical" in text, text)


@case
def an_elastic_run_goes_on_without_a_machine(c):
    """Two hosts of two ranks: a rank of the second is killed, then the whole first host, with rank 0 on it."""
    plan, exact, steps = c.compile(), ("--f64", "--backend", "reference", "--checkpoint-every", 5), 200
    straight = c.folder / "straight.jsonl"
    c.finish(c.start(c.command(plan, steps, *exact, "--log", straight, "--checkpoint-dir", c.folder / "straight")))
    run, log = c.folder / "run", c.folder / "log.jsonl"

    def written():
        return [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")] if log.exists() else []

    try:
        with TwoHosts() as hosts:
            two = table(c.folder / "two.json", (hosts.addresses[0], (0, 1)), (hosts.addresses[1], (2, 3)))
            a, b = [c.start(c.command(plan, steps, *exact, "--log", log, "--checkpoint-dir", run, "--rank-table", two,
                                      "--restarts", 3, "--elastic", "--peer-timeout", PEER_TIMEOUT), prefix=hosts.on(h)) for h in range(2)]
            c.wait_for(lambda: written() and written()[-1]["step"] >= 20, "step 20")
            os.kill(ranks_of(b.pid)[3], KILL)
            c.wait_for(lambda: (run / "plan-3/rank0.plan").exists(), "another plan")
            before = len(written())
            c.wait_for(lambda: len(written()) > before + 20, "steps on three ranks")
            victims = ranks_of(a.pid).values()
            a.kill()
            kill_all(victims)
            a.communicate()
            text = c.finish(b)
            expect(re.search(r"starting again on 3 ranks \(data=3,model=1, .*\) without rank 3 \(1 of 3\)", text) and
                   re.search(r"starting again on 1 rank \(.*\) without rank 0, 1 \(2 of 3\)", text), text)
    except TwoHosts.Skipped as reason:
        return print(f"skipped: {reason}")
    last = {entry["step"]: entry for entry in written()}
    expect(sorted(last) == list(range(1, steps + 1)), "steps are missing")
    for entry, same in zip(last.values(), map(json.loads, straight.read_text().splitlines())):
        expect(entry["epoch"] == same["epoch"] and abs(entry["loss"] - same["loss"]) <= 1e-9 * abs(same["loss"]),
               f"{entry}: {same}")
    ends = [manifest_of(folder / f"step-{steps:08}")["position"] for folder in (run, c.folder / "straight")]
    expect(ends[0] == ends[1] and not (run / ".elastic").exists(), f"{ends}")


@case
def an_elastic_run_takes_the_ranks_that_a_launcher_starts(c):
    """torchrun's variables for four ranks, then three, then mpirun with two, or five by variables: every step with the loss of
    the uninterrupted run."""
    plan, exact, run, log = c.compile(), ("--f64", "--backend", "reference", "--checkpoint-every", 2), c.folder / "run", c.folder / "log"
    c.finish(c.start(c.command(plan, 16, *exact, "--log", c.folder / "straight", "--checkpoint-dir", c.folder / "straight-run")))
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_RUN_ID": "1"}

    def command(steps):
        return c.command(plan, steps, *exact, "--log", log, "--checkpoint-dir", run, "--elastic")

    for restarts, (ranks, steps) in enumerate(((4, 4), (3, 8), (4, 10))):
        for process in all_ranks(c, command(steps), free_port(), ranks, agent | {"TORCHELASTIC_RESTART_COUNT": str(restarts)}):
            c.finish(process)
    # A plan that is there is taken as it is; one of another recipe is not.
    made = (run / "plan-3/rank0.plan").stat().st_mtime_ns
    (run / "plan-2").mkdir()
    for name in ("rank0.plan", "compile.json"):
        shutil.copy(run / "plan-3" / name, run / "plan-2" / name)
    if shutil.which("mpirun"):
        c.finish(c.start(command(12), prefix=("mpirun", "--oversubscribe", "-n", "2")))
    for ranks, steps in ((3, 14), (5, 16)):
        for process in all_ranks(c, command(steps), free_port(), ranks, agent):
            c.finish(process)
    expect((run / "plan-3/rank0.plan").stat().st_mtime_ns == made, "a plan was compiled twice")
    logged, straight = ([json.loads(line) for line in file.read_text().splitlines()] for file in (log, c.folder / "straight"))
    expect([entry["step"] for entry in logged] == list(range(1, 17)), f"steps: {[entry['step'] for entry in logged]}")
    for entry, same in zip(logged, straight):
        expect(abs(entry["loss"] - same["loss"]) <= 1e-9 * abs(same["loss"]), f"{entry} is not {same}")
    expect(dict(manifest_of(run / "step-00000016")["mesh"]) == {"data": 5, "model": 1}, "the mesh")
    # What cannot be is one sentence.
    for process in all_ranks(c, c.command(plan, 20, "--elastic"), free_port(), 1):
        expect("--elastic needs --checkpoint-dir" in c.finish(process, code=2), "no folder")
    for process in all_ranks(c, command(20) + ["--restarts", "2"], free_port(), 1):
        expect("--elastic goes without --restarts where a launcher" in c.finish(process, code=1), "both")
    if shutil.which("mpirun"):
        text = c.finish(c.start(command(20) + ["--restarts", "2"], prefix=("mpirun", "-n", "1")), code=1)
        expect("--elastic goes without --restarts under an MPI launcher" in text, text)


@case
def torchrun_starts_an_elastic_run_again_on_fewer_ranks(c):
    """Two agents of two ranks; one is killed with its ranks, the other goes on with its own."""
    if not torchrun_works():
        return print("skipped: no torchrun that works")
    plan, run, log, port = c.compile(), c.folder / "run", c.folder / "log", free_port()
    steps = 1500
    command = c.command(plan, steps, "--checkpoint-every", 20, "--log", log, "--checkpoint-dir", run, "--elastic", "--peer-timeout", PEER_TIMEOUT)
    prefix = ("torchrun", "--nnodes", "1:2", "--nproc_per_node", "2", "--max_restarts", "5", "--rdzv_backend", "c10d",
              "--rdzv_id", "t", "--rdzv_conf", "join_timeout=60,last_call_timeout=5", "--no_python", "--rdzv_endpoint",
              f"127.0.0.1:{port}", "--")  # or torchrun takes --log for its own
    agents = [c.start(command, prefix=prefix) for _ in range(2)]
    c.wait_for_steps(log, 60)
    # The second agent to come; the first has the store.
    holds = subprocess.run(["ss", "-Htlnp", f"sport = :{port}"], capture_output=True, text=True).stdout
    host = next((a for a in agents if f"pid={a.pid}," in holds), agents[0])
    other = agents[1 - agents.index(host)]
    kill_all(processes_of_ranks(other.pid).values())
    other.kill()
    other.communicate()
    text = c.finish(host, timeout=300)
    steps_seen = [json.loads(line)["step"] for line in log.read_text().splitlines() if line.endswith("}")]
    expect(sorted(set(steps_seen)) == list(range(1, steps + 1)) and len(steps_seen) >= steps, text)
    expect([size for _, size in manifest_of(run / f"step-{steps:08}")["mesh"] if size > 1] == [2], text)


@case
def an_elastic_run_says_what_it_lacks(c):
    model = c.folder / "model.onnx"
    shutil.copy(c.models / "mlp_train.onnx", model)
    c.models = c.folder
    plan, elastic = c.compile(model="model.onnx"), ("--elastic", "--restarts", 2, "--checkpoint-dir", c.folder / "run")

    def refused(options, message, code=1):
        text = c.finish(c.start(c.command(plan, 3, *options)), code=code)
        expect(message in text and text.count("\n") == 1, text)

    refused(("--elastic", "--checkpoint-dir", c.folder / "run"), "--elastic needs --restarts", 2)
    refused(("--elastic", "--restarts", 0), "--elastic needs --checkpoint-dir", 2)
    refused(elastic, "give --processes")
    good = model.read_bytes()
    model.write_bytes(good + b"\0")
    refused((*elastic, "--processes"), "has changed since the plan was compiled")
    model.unlink()
    refused((*elastic, "--processes"), "is not there any more")
    model.write_bytes(good)
    # The model vanishes while the run goes on.
    process = c.start(c.command(plan, 1000000, "--processes", "--checkpoint-every", 5, *elastic))
    c.wait_for(lambda: list(c.folder.glob("run/step-*")), "a checkpoint")
    model.unlink()
    os.kill(ranks_of(process.pid)[3], KILL)
    text = c.finish(process, code=1)
    expect("cannot go on with the ranks that are left" in text and "model.onnx: is not there any more" in text, text)
    (plan / "compile.json").unlink()
    refused((*elastic, "--processes"), "has no compile.json")


if __name__ == "__main__":
    main(__doc__, Launching)
