#!/usr/bin/env python3
"""What tessera-compile shows on a terminal while it works, and what Ctrl-C does to its search.

usage: progress_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time

from cases import Programs, case, main

ERASE = "\r\x1b[K"


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


class Terminal:
    """A program whose standard output is a terminal of so many columns, and what it has written there."""

    def __init__(self, command, columns=100, **environment):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")} | {"TERM": "xterm"} | environment
        self.process = subprocess.Popen([str(a) for a in command], stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE, env=env,
                                        text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        os.close(slave)
        self.bytes = b""
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while True:
            try:
                more = os.read(self.master, 1 << 16)
            except OSError:  # the program has ended
                return
            if not more:
                return
            self.bytes += more

    @property
    def text(self):
        return self.bytes.decode().replace("\r\n", "\n")

    def wait_for(self, pattern, seconds=300):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            expect(self.process.poll() is None and time.monotonic() < end, f"no {pattern!r} in {self.text!r}")
            time.sleep(0.01)

    def end(self):
        error = self.process.communicate(timeout=600)[1]
        self.reader.join(60)
        os.close(self.master)
        return self.process.returncode, error


def screen(text):
    """What is left on the screen: a line that is erased is gone."""
    return "\n".join(line.split(ERASE)[-1] for line in text.split("\n"))


class Context(Programs):
    def long_search(self, *options, model="resnet18_cifar_train", out="plan"):
        """Nothing but Ctrl-C ends it within a test."""
        return [self.bin / "tessera-compile", self.models / f"{model}.onnx", "--mesh", "a=2,b=2,c=2", "--mode", "auto", "--dim", "batch=64", "--train",
                "--search-budget", 100000, "--search-gap", 0, *options, "-o", self.folder / out]

    def short(self, *options):
        return [self.bin / "tessera-compile", self.models / "resnet18_cifar_train.onnx", "--mesh", "4", "--mode", "auto", "--dim", "batch=32", "--train", *options,
                "-o", self.folder / "plan"]


@case
def a_terminal_sees_what_is_done(c):
    plain = c.run(*c.short())
    expect("\x1b" not in plain and "\r" not in plain, repr(plain))
    shown = Terminal(c.short())
    code, error = shown.end()
    expect(code == 0 and not error, error)
    moving = [part.split("\n")[-1] for part in shown.text.split(ERASE)[:-1]]
    drawn = [line for line in moving if line.startswith("\x1b[1m")]
    expect(drawn and all(len(re.sub("\x1b\\[\\d*m", "", line)) < 100 for line in drawn), f"{shown.text!r}")
    expect(any("strategies" in line or "arrangements" in line for line in drawn), f"{drawn}")
    # What is left are the lines of a pipe; times differ.
    numbers = lambda text: re.sub(r"[\d.]+ s", "_ s", text)  # noqa: E731
    expect(numbers(screen(shown.text)) == numbers(plain), f"{screen(shown.text)!r}\nis not\n{plain!r}")


@case
def colours_width_and_dumb_terminals(c):
    for environment, columns, drawn in (({"NO_COLOR": "1"}, 100, True), ({}, 30, True), ({"TERM": "dumb"}, 100, False)):
        shown = Terminal(c.short(), columns, **environment)
        code, error = shown.end()
        expect(code == 0, error)
        expect((ERASE in shown.text) == drawn, f"{environment}: {shown.text!r}")
        if "NO_COLOR" in environment:
            expect("\x1b[1m" not in shown.text, f"coloured: {shown.text!r}")
        moving = [re.sub("\x1b\\[\\d*m", "", part.split("\n")[-1]) for part in shown.text.split(ERASE)[:-1]]
        expect(all(len(line) < columns for line in moving), f"wraps: {moving}")
    quiet = Terminal(c.short("-q"))
    expect(quiet.end()[0] == 0 and not quiet.text, f"{quiet.text!r}")
    told = Terminal(c.short("--json"))
    expect(told.end()[0] == 0 and json.loads(told.text)["mesh"], "--json on a terminal")


@case
def a_search_shows_cost_bound_and_gap_and_ctrl_c_leaves_nothing(c):
    shown = Terminal(c.long_search(), 120)
    shown.wait_for(r"strategies.*cost [\d.]+ ms  bound [\d.]+ ms  gap [\d.]+ %")
    shown.process.send_signal(signal.SIGINT)
    code, error = shown.end()
    expect(code == 130 and error == "tessera-compile: interrupted\n", f"exit code {code}: {error}")
    expect(screen(shown.text).endswith("\n"), f"something is left on the screen: {shown.text!r}")
    expect(not list(c.folder.glob("plan*")), f"left: {list(c.folder.iterdir())}")


@case
def with_accept_ctrl_c_takes_the_best_so_far(c):
    for number in (signal.SIGINT, signal.SIGTERM):
        out = f"plan{int(number)}"
        shown = Terminal(c.long_search("--accept", out=out), 120)
        shown.wait_for(r"strategies.*cost [\d.]+ ms  bound [\d.]+ ms  gap")
        shown.process.send_signal(number)
        code, error = shown.end()
        expect(code == 0 and not error, f"exit code {code}: {error}")
        expect("interrupted" in shown.text, f"{shown.text!r}")
        report = json.loads((c.folder / out / "report.json").read_text())
        search = report["functions"][0]["search"]
        expect(search["stopped"] and search["lower_bound_ns"] <= search["cost_ns"] and "--accept" not in (c.folder / out / "compile.json").read_text(), search)
        c.run(c.bin / "tessera-dump", c.folder / out)
    # A second signal ends it at once. Where it comes too late, since the best so far is already written, it is tried again.
    for _ in range(5):
        shown = Terminal(c.long_search("--accept", out="second"), 120)
        shown.wait_for(r"strategies.*cost [\d.]+ ms  bound [\d.]+ ms  gap")
        shown.process.send_signal(signal.SIGINT)
        time.sleep(0.05)  # two signals at once are one
        shown.process.send_signal(signal.SIGINT)
        code, error = shown.end()
        if code == 130:
            break
        expect(code == 0, f"exit code {code}: {error}")
        shutil.rmtree(c.folder / "second")
    expect(code == 130 and error == "tessera-compile: interrupted\n" and not (c.folder / "second").exists(), f"exit code {code}: {error}")
    # And so does one while nothing is searched: in a large network, whose import takes longer than the signal.
    shown = Terminal(c.long_search("--accept", model="resnet50_224_train"), 120)
    shown.wait_for(r"import ")
    shown.process.send_signal(signal.SIGINT)
    code, error = shown.end()
    expect(code == 130 and error == "tessera-compile: interrupted\n" and not (c.folder / "plan").exists(), f"exit code {code}: {error}")
    c.run(c.bin / "tessera-compile", c.models / "lenet_train.onnx", "--mode", "data", "--accept", "-o", c.folder / "plan", code=2)


if __name__ == "__main__":
    main(__doc__, Context)
