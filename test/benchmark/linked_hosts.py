"""Two hosts of one core each, with a cable of a given rate between them: what two_hosts.py runs programs on.

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


class Linked:
    def __init__(self, bin, folder, rate, profiles=None, seconds=0.01, limit=300):
        self.bin, self.folder, self.rate, self.seconds, self.limit = bin, folder, rate, seconds, limit
        self.profiles = profiles or folder
        self.hosts = TwoHosts(rate)
        self.logs = 0

    def __enter__(self):
        self.hosts.__enter__()
        try:
            self.topology = self.folder / f"{self.rate:.0f}.json"
            self.topology.write_text(json.dumps(self.machine(50e-6, self.rate / 8)))
            latency, bandwidth = self.measured()
            self.topology.write_text(json.dumps(self.machine(latency, bandwidth)))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.hosts.__exit__()

    @staticmethod
    def machine(latency, bandwidth):
        """The preset cpu, but for the link. Of kernels that are measured only the times count."""
        return {"name": "two hosts", "devices": 2, "flops": {"f64": 58e9, "f32": 117e9}, "memory_bandwidth": 13e9, "memory": "10GiB",
                "launch": 1e-6, "shared": True,
                "links": [{"devices": 1, "latency": 1e-6, "bandwidth": 5e9}, {"devices": 2, "latency": latency, "bandwidth": bandwidth}]}

    def measured(self):
        """Latency and bandwidth of the cable, for messages that no profile has, such as those between stages."""
        told = json.loads(self.together([self.bin / "tessera-profile", "--network", "--json"])[0])
        return max(told["latency_seconds"][a][b] for a, b in ((0, 1), (1, 0))), min(link["bytes_per_second"] for link in told["links"])

    def together(self, command, environment=(), ranks=2):
        """Runs the command as rank 0 on one host and as rank 1 on the other, each on one core. Returns what they print."""
        running = []
        try:
            for rank in range(ranks):
                env = dict(os.environ) | {k: str(v) for k, v in (rank_environment(rank, ranks, self.hosts.addresses[0], PORT, 0, 1) |
                                                                dict(environment) | {"GLOO_SOCKET_IFNAME": "cable"}).items()}
                # By their names programs know that these are two machines.
                host = (*self.hosts.on(rank), "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"host{rank}",
                        "taskset", "-c", str(rank % os.cpu_count()))
                running.append(subprocess.Popen([*host, *map(str, command)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            outputs = [process.communicate(timeout=self.limit) for process in running]
        except subprocess.TimeoutExpired as slow:
            raise Failed(f"{command[0]}: took more than {self.limit} s") from slow
        finally:
            for process in running:
                process.kill()
        for process, (out, errors) in zip(running, outputs):
            if process.returncode:
                raise Failed((errors.strip().splitlines() or [f"{command[0]}: exit code {process.returncode}\n{out}"])[-1])
        return [out for out, _ in outputs]

    def profile(self, name, model, options, mesh="data=2"):
        """Of all kernels that this mesh may need and of loops, on both cores at once, and of collectives over the cable."""
        kernels, whole = self.profiles / f"{name}.kernels.json", self.profiles / f"{name}.{self.rate:.0f}.json"
        if not kernels.exists():
            phases = self.folder / f"{name}.phases"
            self.compile(f"{name}.first", model, "--mesh", mesh, *options, "--dump-phases", phases)
            run([self.bin / "tessera-profile", phases / "2-training.mlir", "--mesh", mesh, "-q", "--seconds", self.seconds,
                 "--max-bytes", "4KiB", "-o", kernels])
            shutil.rmtree(phases)
        links = self.profiles / f"links.{self.rate:.0f}.json"
        if not links.exists():
            self.together([self.bin / "tessera-profile", "--network", "--mesh", mesh, "-q", "--seconds", max(self.seconds, 0.05),
                           "-o", links])
        ours = ("kernels", "loops", "loop_operation")
        measured = {part: value for part, value in json.loads(kernels.read_text()).items() if part in ours}
        whole.write_text(json.dumps(json.loads(links.read_text()) | measured))
        return whole

    def compile(self, name, model, *options, profile=None):
        plan = self.folder / f"{name}.{self.rate:.0f}.plan"
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


def predicted(plan):
    """Seconds of a training step, and of its pipeline the share in which ranks are idle."""
    report = json.loads((plan / "report.json").read_text())
    step = next(f for f in report["functions"] if f["name"] == "train")
    return step["predicted_ns"] / 1e9, report.get("pipeline", {}).get("bubble")
