"""What two_hosts.py runs programs on: hosts of one rank each, and of these two of one core each with a cable of a given rate.

    with Linked(args.bin, folder, 1e9) as link:            # bits per second; raises TwoHosts.Skipped without root
        profile = link.profile("bert", model, options)     # measured kernels, and collectives over the cable
        plan = link.compile("bert-data", model, "--mesh", "data=2", ..., profile=profile)
        link.train(plan, x, y, steps)                      # {"times": ..., "exposed": ..., "predicted_exposed": ...}
        link.together([PYTHON, "script.py"], {"OMP_NUM_THREADS": 1})   # standard output of both ranks
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from launching import TwoHosts, rank_environment  # noqa: E402

PORT = 29500  # namespaces have ports of their own


class Failed(Exception):
    pass


def run(command, limit=600):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=limit)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Hosts:
    """Hosts of one rank each. A kind of them says what starts a rank on its host, where ranks meet, and what it has of a machine."""

    def __init__(self, bin, folder, ranks, name, profiles=None, seconds=0.01, limit=300):
        self.bin, self.folder, self.ranks, self.name, self.seconds, self.limit = bin, folder, ranks, name, seconds, limit
        self.profiles = profiles or folder
        self.logs = 0

    def on(self, rank):
        """What stands before a command that is to run on this rank's host."""
        raise NotImplementedError

    def environment(self, rank):
        """How this rank's programs find the others."""
        raise NotImplementedError

    def machine(self, latency=50e-6, bandwidth=1e9):
        """The preset cpu, but for the link. Of kernels that are measured only the times count."""
        return {"name": "hosts", "devices": self.ranks, "flops": {"f64": 58e9, "f32": 117e9}, "memory_bandwidth": 13e9,
                "memory": "10GiB", "launch": 1e-6, "shared": True,
                "links": [{"devices": 1, "latency": 1e-6, "bandwidth": 5e9},
                          {"devices": self.ranks, "latency": latency, "bandwidth": bandwidth}]}

    def measure(self):
        """Writes the topology with latency and bandwidth as they are between hosts, for messages that no profile has, such as those
        between stages."""
        self.topology = self.folder / f"{self.name}.json"
        told = json.loads(self.together([self.bin / "tessera-profile", "--network", "--json"])[0])
        latency = max(told["latency_seconds"][a][b] for a in range(self.ranks) for b in range(self.ranks) if a != b)
        self.topology.write_text(json.dumps(self.machine(latency, min(link["bytes_per_second"] for link in told["links"]))))

    def together(self, command, environment=()):
        """Runs the command as every rank on its host. Returns what they print."""
        running = []
        try:
            for rank in range(self.ranks):
                env = dict(os.environ) | {k: str(v) for k, v in (self.environment(rank) | dict(environment)).items()}
                # By their names programs know that these are machines of their own.
                host = (*self.on(rank), "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"host{rank}")
                running.append(subprocess.Popen([*host, *map(str, command)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            outputs = [process.communicate(timeout=self.limit) for process in running]
        except subprocess.TimeoutExpired as slow:
            raise Failed(f"{command[0]}: took more than {self.limit} s") from slow
        finally:
            for process in running:
                process.kill()
                process.wait()
        for process, (out, errors) in zip(running, outputs):
            if process.returncode:
                raise Failed((errors.strip().splitlines() or [f"{command[0]}: exit code {process.returncode}\n{out}"])[-1])
        return [out for out, _ in outputs]

    def kernels(self, name, model, options, mesh, prefix=()):
        """A profile of all kernels that this mesh may need and of loops, on as many cores at once as it has ranks."""
        profile = self.profiles / f"{name}.kernels.json"
        if not profile.exists():
            phases = self.folder / f"{name}.phases"
            self.compile(f"{name}.first", model, "--mesh", mesh, *options, "--dump-phases", phases)
            run([*prefix, self.bin / "tessera-profile", phases / "2-training.mlir", "--mesh", mesh, "-q", "--seconds", self.seconds,
                 "--max-bytes", "4KiB", "-o", profile])
            shutil.rmtree(phases)
        return json.loads(profile.read_text())

    def compile(self, name, model, *options, profile=None):
        plan = self.folder / f"{name}.{self.name}.plan"
        run([self.bin / "tessera-compile", model, "-q", "--topology", self.topology, *options,
             *(("--profile", profile) if profile else ()), "-o", plan])
        return plan

    def train(self, plan, data, steps, *options):
        self.logs += 1
        log = self.folder / f"log{self.logs}.jsonl"
        text = self.together([self.bin / "tessera-run", plan, "--data", f"npy:{','.join(map(str, data))}", "--steps", steps, "--threads", 1,
                              "--log", log, *options])[0]
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        told = re.search(r"^exposed communication: .*, predicted ([0-9.e+]+) (ms|s|us) of", text, re.M)
        unit = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
        return {"times": [line["seconds"] for line in lines], "losses": [line["loss"] for line in lines],
                "exposed": [line.get("exposed_seconds", 0.0) for line in lines],
                "predicted_exposed": float(told[1]) * unit[told[2]] if told else None}


class Linked(Hosts):
    def __init__(self, bin, folder, rate, profiles=None, seconds=0.01, limit=300):
        super().__init__(bin, folder, 2, f"{rate:.0f}", profiles, seconds, limit)
        self.hosts = TwoHosts(rate)

    def __enter__(self):
        self.hosts.__enter__()
        try:
            self.measure()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.hosts.__exit__()

    def on(self, rank):
        return (*self.hosts.on(rank), "taskset", "-c", str(rank % os.cpu_count()))

    def environment(self, rank):
        return rank_environment(rank, self.ranks, self.hosts.addresses[0], PORT, 0, 1) | {"GLOO_SOCKET_IFNAME": "cable"}

    def profile(self, name, model, options, mesh="data=2"):
        """Of kernels and loops on both cores at once, and of collectives over the cable."""
        whole = self.profiles / f"{name}.{self.name}.json"
        kernels = self.kernels(name, model, options, mesh)
        links = self.profiles / f"links.{self.name}.json"
        if not links.exists():
            self.together([self.bin / "tessera-profile", "--network", "--mesh", mesh, "-q", "--seconds", max(self.seconds, 0.05),
                           "-o", links])
        ours = ("kernels", "loops", "loop_operation")
        measured = {part: value for part, value in kernels.items() if part in ours}
        whole.write_text(json.dumps(json.loads(links.read_text()) | measured))
        return whole


def predicted(plan):
    """Seconds of a training step, and of its pipeline the share in which ranks are idle."""
    report = json.loads((plan / "report.json").read_text())
    step = next(f for f in report["functions"] if f["name"] == "train")
    return step["predicted_ns"] / 1e9, report.get("pipeline", {}).get("bubble")
