"""What the tests of launched processes share: plans, runs that can be killed, two hosts as network namespaces."""
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time

import numpy as np

from cases import MPI_ENVIRONMENT, Programs


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def kill_all(pids):
    """Kills processes of which some end at that moment by themselves, since others have ended."""
    for pid in pids:
        try:
            os.kill(int(pid), KILL)
        except ProcessLookupError:
            pass


def ranks_of(supervisor):
    """Process ids by rank of those of a supervisor's children that run."""
    found = {}
    try:
        children = pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    except OSError:
        return found
    for pid in children:
        try:
            environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for entry in environ:
            if entry.startswith(b"RANK="):
                found[int(entry[5:])] = int(pid)
    return found


def processes_of_ranks(launcher):
    """The same for any launcher, such as mpirun: of all processes below it."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            environ = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else ()
            ancestor = int(entry.name) if environ else 0
            while ancestor not in (0, launcher):
                ancestor = int(pathlib.Path(f"/proc/{ancestor}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):
            continue
        for variable in environ if ancestor else ():
            if variable.startswith((b"RANK=", b"OMPI_COMM_WORLD_RANK=")):
                found[int(variable.split(b"=")[1])] = int(entry.name)
    return found


class Launching(Programs):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        rng = np.random.default_rng(3)
        np.save(folder / "x.npy", rng.standard_normal((40, 1, 28, 28)).astype(np.float32))
        np.save(folder / "y.npy", rng.integers(0, 10, 40).astype(np.int64))
        self.data = f"npy:{folder}/x.npy,{folder}/y.npy,shuffle=1"

    def compile(self, out="plan", mesh="data=2,model=2", mode="auto", model="mlp_train.onnx", batch=8, options=()):
        self.run(self.bin / "tessera-compile", self.models / model, "--mesh", mesh, "--mode", mode, "--dim", f"batch={batch}",
                 "--train", "--loss", "cross_entropy", "--optimizer", "adamw:lr=0.001", *options, "-o",
                 self.folder / out)
        return self.folder / out

    def command(self, plan, steps, *options):
        return [str(a) for a in (self.bin / "tessera-run", plan, "--data", self.data, "--steps", steps, *options)]

    def start(self, command, environment=(), prefix=()):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI"))}
        env |= MPI_ENVIRONMENT | {k: str(v) for k, v in dict(environment).items()}
        return subprocess.Popen([*prefix, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)

    def finish(self, process, code=0, timeout=120):
        try:
            text = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{process.args}: did not end in {timeout} s\n{process.communicate()[0]}") from None
        expect(code is None or process.returncode == code, f"{process.args}: exit code {process.returncode}\n{text}")
        return text

    def wait_for_steps(self, log, steps=3):
        """Waits until the run that writes this log has done so many steps."""
        self.wait_for(lambda: log.exists() and log.read_text().count("\n") >= steps, f"{steps} steps in {log}")

    def wait_for(self, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            expect(time.monotonic() < end, f"waited in vain for {what}")
            time.sleep(0.01)


def free_port():
    """A port that is free, as is the next one, which ranks take under an agent of torchrun. It is drawn from the range below the
    ports that the system gives to connections: those of other programs would come in between."""
    while True:
        port = random.randrange(12000, 32000, 2)
        try:
            for one in (port, port + 1):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", one))
        except OSError:
            continue
        return port


def rank_environment(rank, ranks, address, port, local=None, locals_=None):
    return {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": address, "MASTER_PORT": port,
            "LOCAL_RANK": rank if local is None else local, "LOCAL_WORLD_SIZE": locals_ or ranks}


class TwoHosts:
    """Two network namespaces, 10.77.0.1 and 10.77.0.2, and a cable of limited bandwidth between them.

    with TwoHosts() as hosts:              # raises Skipped without root; TwoHosts(10e9): bits per second
        c.start(command, environment, prefix=hosts.on(0))
        hosts.cut()
    """

    class Skipped(Exception):
        pass

    addresses = ("10.77.0.1", "10.77.0.2")

    def __init__(self, rate=200e6):
        self.rate = rate

    def __enter__(self):
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise self.Skipped("only root makes network namespaces")
        self.names = [f"tessera{os.getpid()}{end}" for end in "ab"]
        try:
            for name in self.names:
                self.ip("netns", "add", name)
            a, b = self.names
            self.ip("-n", a, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", b)
            for name, address in zip(self.names, self.addresses):
                self.ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
                self.ip("-n", name, "link", "set", "cable", "up")
                self.ip("-n", name, "link", "set", "lo", "up")
                if shutil.which("tc"):
                    subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "cable", "root", "tbf", "rate", f"{self.rate:.0f}",
                                    "burst", f"{max(256 << 10, self.rate / 8 * 2e-3):.0f}", "latency", "50ms"], capture_output=True)
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise self.Skipped(f"no network namespaces here: {error.stderr.strip()}") from None
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)

    def on(self, host):
        return ("ip", "netns", "exec", self.names[host])

    def cut(self):
        self.ip("-n", self.names[1], "link", "set", "cable", "down")

    def mend(self):
        self.ip("-n", self.names[1], "link", "set", "cable", "up")


STOP, CONTINUE, KILL = signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL
# Seconds that a rank may be silent in a test. Where far more processes run than there are cores, a healthy one may get
# none for a second.
PEER_TIMEOUT = 4
