#!/usr/bin/env python3
"""Faults while training, and whether anything is lost by them.

usage: faults.py --bin DIR [--trials 200] [--steps 40] [--seed 1] [--folder DIR] [KIND...]

Every trial trains a small network on two ranks, as processes, with a checkpoint after every step; does something to
it; goes on from what is left; and holds the last checkpoint against the uninterrupted run's, byte for byte: parameters,
optimizer states and the data's position. Between, every checkpoint that is there must be whole by its checksums, and
the latest one that was there before the fault must still be, or a later one.

KIND   (each in the place of some of the trials' moments; without, all)
  kill       SIGKILL to a rank, to all of them or to their supervisor at a random moment, half of them while a checkpoint is
             being written; --trials of them
  restart    the same to one rank under --restarts, several times in a run
  disk       the file system (a tmpfs) is full at a random byte; it grows, and the run goes on
  damage     one or two of the last checkpoints are cut or have a bit flipped
  cut        the network between two hosts (network namespaces) is cut and comes back
  stop       a rank is stopped (SIGSTOP); the others must notice within --peer-timeout
  slow       a rank gets the processor only now and then: nothing may happen

A kind other than kill has a tenth as many trials, at least two. What this machine does not permit is skipped with the reason.
"""
import argparse
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/e2e"))
from launching import CONTINUE, KILL, STOP, Launching, TwoHosts, expect, rank_environment, ranks_of, runs  # noqa: E402
from tensors import sums_hold  # noqa: E402



class Skipped(Exception):
    pass


class Faults(Launching):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.rng, self.steps, self.peer_timeout = random.Random(args.seed), args.steps, args.peer_timeout
        self.plan = self.compile("plan", "data=2", "data")
        self.counts = {"writing": 0}
        self.notices = []
        self.straight = self.folder / "straight"
        begin = time.monotonic()
        self.finish(self.train(self.straight))
        self.seconds = time.monotonic() - begin
        self.reference = self.files(self.straight)

    def train(self, run, *options, steps=None, environment=(), prefix=(), launch=("--processes",)):
        resume = ("--resume", run) if any(run.glob("step-*")) else ()
        return self.start(self.command(self.plan, steps or self.steps, "--checkpoint-dir", run, "--checkpoint-every", 1, "--threads",
                                       1, *launch, *resume, *options), environment, prefix)

    def files(self, run):
        folder = run / f"step-{self.steps:08}"
        expect(folder.is_dir(), f"{folder} is not there")
        return {file.name: file.read_bytes() for file in folder.iterdir()}

    @staticmethod
    def latest(run):
        return max((int(path.name[5:]) for path in run.glob("step-????????")), default=0)

    def check_whole(self, run, reached=0):
        """Every folder with a checkpoint's name is a checkpoint, and none that existed before is gone."""
        for folder in run.glob("step-????????"):
            expect(sums_hold(folder), f"{folder.name} is damaged")
        expect(self.latest(run) >= reached, f"step {reached} is lost: {self.latest(run)} is the last")

    def check_end(self, run):
        expect(self.files(run) == self.reference, "another state than the uninterrupted run's")

    def moment(self, run, process):
        """Waits until a random moment; half of the time, until a checkpoint is being written."""
        if self.rng.random() < 0.5:
            time.sleep(self.rng.uniform(0, 1.1 * self.seconds))
            return
        step = self.rng.randrange(1, self.steps)
        while process.poll() is None and not (run / f".step-{step:08}.partial").exists() and self.latest(run) < step:
            time.sleep(0.0005)
        time.sleep(self.rng.uniform(0, 0.01))

    def victims(self, process):
        ranks = list(ranks_of(process.pid).values())
        return self.rng.choice([[process.pid], ranks, ranks[:1], ranks[1:]]) or [process.pid]

    def kill(self, pids):
        for pid in pids:
            try:
                os.kill(pid, KILL)
            except ProcessLookupError:
                pass

    def await_death(self, pids):
        """A supervisor's ranks end by themselves, soon after it."""
        self.wait_for(lambda: not any(map(runs, pids)), "the end of all ranks", 60)

    # Each method is a kind: one trial in an empty folder `run`.

    def trial_kill(self, run):
        for _ in range(self.rng.randrange(1, 3)):
            process = self.train(run)
            self.moment(run, process)
            before, ranks = self.latest(run), ranks_of(process.pid).values()
            self.kill(self.victims(process))
            process.communicate()
            self.await_death(ranks)
            self.counts["writing"] += any(run.glob(".step-*.partial"))
            self.check_whole(run, before)
        self.finish(self.train(run))
        self.check_end(run)

    def trial_restart(self, run):
        process = self.train(run, "--restarts", 20)
        for _ in range(self.rng.randrange(1, 4)):
            self.moment(run, process)
            ranks = list(ranks_of(process.pid).values())
            if ranks:
                self.kill([self.rng.choice(ranks)])
        self.finish(process)
        self.check_whole(run)
        self.check_end(run)

    def trial_disk(self, run):
        size = sum(len(data) for data in self.reference.values())
        if os.geteuid() != 0 or not shutil.which("mount"):
            raise Skipped("only root mounts a small file system")
        # Room for some checkpoints and a part of one; three are kept, and one is being written.
        room = int(size * self.rng.uniform(0.05, 3.95))
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", run], capture_output=True, text=True)
        if done.returncode:
            raise Skipped(f"cannot mount: {done.stderr.strip()}")
        try:
            text = self.finish(self.train(run), code=1)
            expect("No space left" in text, text)
            self.check_whole(run)
            subprocess.run(["mount", "-o", f"remount,size={size * 8}", run], check=True)
            self.finish(self.train(run))
            self.check_end(run)
        finally:
            subprocess.run(["umount", run], check=True)

    def trial_damage(self, run):
        self.finish(self.train(run, steps=self.rng.randrange(4, self.steps - 1)))
        latest = self.latest(run)
        for step in range(latest, latest - self.rng.randrange(1, 3), -1):
            file = self.rng.choice(sorted((run / f"step-{step:08}").iterdir()))
            data = bytearray(file.read_bytes())
            if self.rng.random() < 0.5:
                data = data[:self.rng.randrange(len(data) - 1)]  # not the manifest's last newline alone
            else:
                data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
            file.write_bytes(data)
        text = self.finish(self.train(run))
        expect("cannot be read; going on from" in text, text)
        self.check_end(run)

    def trial_cut(self, run):
        try:
            with TwoHosts() as hosts:
                def both(*options):
                    return [self.train(run, *options, launch=(), prefix=hosts.on(r),
                                       environment=rank_environment(r, 2, hosts.addresses[0], 29500, 0, 1)) for r in range(2)]
                processes = both("--peer-timeout", self.peer_timeout)
                step = self.rng.randrange(1, self.steps // 2)
                self.wait_for(lambda: self.latest(run) >= step, f"step {step}")
                hosts.cut()
                begin = time.monotonic()
                for rank, process in enumerate(processes):
                    text = self.finish(process, code=1)
                    expect(f"rank {1 - rank} (on " in text, text)
                self.notices.append(time.monotonic() - begin)
                self.check_whole(run)
                hosts.mend()
                for process in both():
                    self.finish(process)
                self.check_end(run)
        except TwoHosts.Skipped as reason:
            raise Skipped(str(reason)) from None

    def trial_stop(self, run):
        process = self.train(run, "--peer-timeout", self.peer_timeout, "--restarts", 20)
        step = self.rng.randrange(1, self.steps // 2)
        self.wait_for(lambda: self.latest(run) >= step, f"step {step}")
        ranks = ranks_of(process.pid)
        if len(ranks) < 2:  # this machine was busy, and the run has ended: once more
            self.finish(process)
            shutil.rmtree(run)
            run.mkdir()
            return self.trial_stop(run)
        victim = self.rng.choice(list(ranks))
        os.kill(ranks[victim], STOP)
        begin = time.monotonic()
        self.await_death(ranks.values())
        self.notices.append(time.monotonic() - begin)
        text = self.finish(process)
        expect(f"rank {victim} is stopped and is killed" in text, text)
        self.check_end(run)

    def trial_slow(self, run):
        process = self.train(run)
        victim = 0
        while process.poll() is None:
            ranks = ranks_of(process.pid)
            victim = ranks.get(1, victim)
            try:
                if victim:
                    os.kill(victim, STOP)
                    time.sleep(self.rng.uniform(0.01, 0.1))
                    os.kill(victim, CONTINUE)
            except ProcessLookupError:
                pass
            time.sleep(0.02)
        self.finish(process)
        self.check_end(run)


KINDS = ("kill", "restart", "disk", "damage", "cut", "stop", "slow")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "test/models")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--steps", type=int, default=40, help="of a run")
    parser.add_argument("--peer-timeout", type=int, default=1,
                        help="seconds of silence after which a rank is given up; 1 needs a machine that does nothing else")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, help="on the file system to try (default: the system's temporary one)")
    parser.add_argument("kinds", nargs="*", metavar="KIND", choices=[*KINDS, []])
    args = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        faults = Faults(args, pathlib.Path(folder))
        size = sum(map(len, faults.reference.values()))
        print(f"{args.steps} steps with a checkpoint of {size / 1e6:.1f} MB each: {faults.seconds:.2f} s without a fault",
              flush=True)
        for kind in args.kinds or KINDS:
            trials = args.trials if kind == "kill" else max(2, args.trials // 10)
            done, lost, begin = 0, 0, time.monotonic()
            faults.notices.clear()
            try:
                for number in range(trials):
                    run = pathlib.Path(folder) / f"{kind}-{number}"
                    run.mkdir()
                    try:
                        getattr(faults, f"trial_{kind}")(run)
                    except AssertionError as error:
                        lost += 1
                        print(f"FAIL  {kind} {number} of seed {args.seed}: {error}", flush=True)
                    done += 1
                    shutil.rmtree(run)
            except Skipped as reason:
                print(f"skip  {kind}: {reason}", flush=True)
                continue
            failures += lost
            more = f", {faults.counts['writing']} kills while a checkpoint was being written" if kind == "kill" else ""
            if faults.notices:
                more += f", noticed after {statistics.median(faults.notices):.1f} s (at most {max(faults.notices):.1f} s)"
            print(f"{'ok  ' if not lost else 'FAIL'}  {kind}: {done} trials, {lost} lost or corrupted{more} "
                  f"({time.monotonic() - begin:.0f} s)", flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
