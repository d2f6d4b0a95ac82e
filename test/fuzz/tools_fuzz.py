#!/usr/bin/env python3
"""The programs themselves, on mutated files of every kind that they read, and on mutated command lines.

usage: tools_fuzz.py --bin DIR [--seconds S | --trials N] [--seed N] [--jobs N] [--only KIND,...] [--trial N] [--images DIR]
                     [--findings DIR]

A trial is a function of seed and number: one mutated file or command line, in a folder of its own, under limits of time
and memory. It fails where a program crashes, hangs, ends with a code that docs/exit-codes.md does not have or without
its one line, where a sanitizer reports, where a file that was there is lost or changed, where something half-written is
left, and where a control character or what is no UTF-8 reaches the terminal. The programs are meant to be built with
sanitizers (tools/fuzz.sh does); others work, too. What failed is kept in the folder of findings; --trial runs it again.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import itertools
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import tools_fuzz_kinds as kinds
from tools_fuzz_mutate import mutate

SECONDS = 60  # that a program may take: sanitized, and on a machine that has other work
MEMORY_MB = 3000
REPORT = re.compile(rb"AddressSanitizer|runtime error:|LLVM ERROR|terminate called|Assertion .* failed|PLEASE submit a bug"
                    rb"|internal failure|DEADLYSIGNAL|libgomp: Thread")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
CODES = {"tessera-run": (0, 1, 2, 3), "tessera-opt": (0, 1)}
LEFT = re.compile(r"\.tmp|tessera-tmp|\.partial$|\.new\d+$|\.old\d+$")


def sanitizers(environment):
    address = ["detect_leaks=0",  # MPI's libraries leak at their end
               "allow_user_poisoning=0",  # LLVM's headers poison pools of its library, which has no sanitizers to undo it
               "exitcode=99", f"hard_rss_limit_mb={MEMORY_MB}", "allocator_may_return_null=0"]
    return environment | {"ASAN_OPTIONS": ":".join(address), "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
                          "KMP_WARNINGS": "FALSE",  # Clang's OpenMP repeats what OMP_NUM_THREADS says, whatever it is
                          "TESSERA_CACHE_DIR": "/dev/null/none"}


def fingerprint(folder):
    """What is under a folder: names, kinds and contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            found[str(path.relative_to(folder))] = "link" if path.is_symlink() else oct(path.stat().st_mode)
        else:
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def limit():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    os.setsid()


def run(command, cwd, environment):
    """Exit code (negative: a signal; None: out of time), output."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, cwd=cwd, env=sanitizers(os.environ | environment), stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=subprocess.STDOUT, preexec_fn=limit)
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(process.pid, signal.SIGKILL)  # with everything that it has started
        except ProcessLookupError:
            pass
        process.wait()
        out.seek(0)
        return code, out.read(1 << 24)


def judge(program, command, code, output, before, after, out):
    """What is wrong with a run, or None."""
    if code is None:
        return f"ran for more than {SECONDS} s"
    if code < 0:
        return f"was ended by signal {-code}"
    if report := REPORT.search(output):
        return f"reported: {report.group().decode()}"
    if code not in CODES.get(program, (0, 1, 2)):
        return f"ended with code {code}, which docs/exit-codes.md does not have"
    if before != after:
        changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        return f"changed, lost or left beside what it reads: {sorted(changed)}"
    if program == "tessera-opt":
        return None  # MLIR's own messages and codes
    left = [str(path.relative_to(out)) for path in out.rglob("*") if LEFT.search(path.name)]
    if left:
        return f"left something half-written: {left}"
    try:
        text = output.decode()
    except UnicodeDecodeError:
        return "printed what is no UTF-8"
    if bad := CONTROL.search(text):
        return f"printed a control character: {bad.group()!r}"
    if code in (1, 2) and not re.search(rf"^(\[rank \d+\] )?{program}: .", text, re.M):
        told = program == "tessera-run" and "NOT verified" in text or program in ("tessera-solve", "tessera-ckpt") and text
        if not told:
            return f"ended with code {code} without a line that begins with its name"
    return None


class Harness:
    def __init__(self, args, samples):
        self.args, self.samples = args, samples
        self.names = [k for k in kinds.KINDS if not args.only or k in args.only.split(",")]

    def trial(self, number):
        """None, or what failed and where it was kept."""
        rng = random.Random(f"{self.args.seed}:{number}")
        name = self.names[number % len(self.names)]
        with tempfile.TemporaryDirectory(prefix="tools-fuzz-", dir=self.args.scratch) as top:
            top = pathlib.Path(top)
            shutil.copytree(self.samples, top / "in", symlinks=True)
            (top / "out").mkdir()
            trial = kinds.KINDS[name](rng, top / "in")
            for path in trial.files:
                file = top / "in" / path
                file.write_bytes(mutate(rng, file.read_bytes(), trial.sign))
            before = fingerprint(top / "in")
            command = [str(self.args.bin / trial.program), *trial.arguments]
            environment = trial.environment
            code, output = run([os.fsencode(a) for a in command], top, environment)
            what = judge(trial.program, command, code, output, before, fingerprint(top / "in"), top / "out")
            if what is None:
                return name, code, None
            kept = self.args.findings / f"tools-{self.args.seed}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(top, kept, symlinks=True, ignore_dangling_symlinks=True,
                            ignore=lambda folder, names: [n for n in names if (pathlib.Path(folder) / n).is_fifo()])
            (kept / "output").write_bytes(output)
            words = [*(f"{name}={value}" for name, value in environment.items()), *command]
            (kept / "command").write_text(f"cd {kept} && env {shlex.join(words)}\n", errors="surrogateescape")
            tail = output[-600:].decode(errors="backslashreplace")
            return name, code, f"trial {number} ({name}): {trial.program} {what}\n  kept in {kept}\n  {tail}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--trials", type=int, help="so many, instead of --seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", help=f"some of: {', '.join(kinds.KINDS)}")
    parser.add_argument("--trial", type=int, help="only this one")
    parser.add_argument("--images", type=pathlib.Path, help="folder of seed* files for the trials of images")
    parser.add_argument("--findings", type=pathlib.Path, default=pathlib.Path("build-fuzz/findings"))
    args = parser.parse_args()
    args.bin, args.findings = args.bin.resolve(), args.findings.resolve()
    args.images = args.images and args.images.resolve()
    if unknown := set((args.only or "").split(",")) - set(kinds.KINDS) - {""}:
        parser.error(f"--only: there is no kind {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="tools-fuzz-") as scratch:
        args.scratch = scratch
        samples = pathlib.Path(scratch) / "samples"
        begin = time.monotonic()
        kinds.make_samples(samples, lambda *command: run_sample(args, samples, *command), args.images)
        print(f"tools_fuzz: samples in {time.monotonic() - begin:.0f} s; seed {args.seed}, {args.jobs} jobs", flush=True)
        harness = Harness(args, samples)
        if args.trial is not None:
            numbers = iter([args.trial])
        else:
            numbers = itertools.count() if args.trials is None else iter(range(args.trials))
        begin, failures, counts = time.monotonic(), [], collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            waiting = set()
            while True:
                in_time = args.trials is not None or args.trial is not None or time.monotonic() - begin < args.seconds
                while in_time and len(waiting) < args.jobs and (number := next(numbers, None)) is not None:
                    waiting.add(pool.submit(harness.trial, number))
                if not waiting:
                    break
                done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    name, code, failure = future.result()
                    counts[name, code] += 1
                    if failure:
                        failures.append(failure)
                        again = [sys.argv[0], "--bin", args.bin, "--seed", args.seed, "--trial", failure.split()[1]]
                        for option, value in (("--only", args.only), ("--images", args.images)):
                            again += [option, value] if value else []
                        print(f"tools_fuzz: {failure}\n  again: {shlex.join(map(str, again))}", flush=True)
        for name in harness.names:
            codes = {code: n for (kind, code), n in counts.items() if kind == name}
            print(f"tools_fuzz: {name}: {sum(codes.values())} trials, by exit code "
                  f"{dict(sorted(codes.items(), key=str))}")
        print(f"tools_fuzz: {sum(counts.values())} trials of {len(harness.names)} kinds in {time.monotonic() - begin:.0f} s, "
              f"{len(failures)} failed")
    sys.exit(bool(failures))


def run_sample(args, samples, program, *arguments):
    """What trials mutate is made by the programs themselves."""
    code, output = run([str(args.bin / program), *map(str, arguments)], samples, {})
    if code != 0:
        sys.exit(f"tools_fuzz: {program} {' '.join(map(str, arguments))}: exit code {code}\n{output.decode(errors='replace')}")


if __name__ == "__main__":
    main()
