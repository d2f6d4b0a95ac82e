#!/usr/bin/env python3
"""The manifests for Kubernetes: their commands run here as in the operators' pods, and resume when started again.

usage: kubernetes_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases

There is no cluster: a pod is a process with the variables that its operator sets, and /job is a folder.
"""
import os
import pathlib
import re
import shlex
import shutil

import yaml

from cases import case, main
from launching import Launching, expect, free_port

HERE = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "package" / "kubernetes"


def manifest(name, kind, version):
    job = yaml.safe_load((HERE / name).read_text())
    expect((job["kind"], job["apiVersion"]) == (kind, f"kubeflow.org/{version}"), f"{name} is a {job['kind']}")
    return job["spec"]


def containers(replicas):
    """(role, number of pods, container) of every role."""
    for role, spec in replicas.items():
        for container in spec["template"]["spec"]["containers"]:
            mounts = {m["name"] for m in container["volumeMounts"]}
            volumes = {v["name"] for v in spec["template"]["spec"]["volumes"]}
            expect(mounts <= volumes, f"{role} mounts what is no volume")
            yield role, spec["replicas"], container


def known_options(c):
    return set(re.findall(r"(?<![\w-])--[a-z0-9-]+", c.run(c.bin / "tessera-run", "--help")))


def check_options(c, script):
    """Checks the options that a shell script gives tessera-run."""
    words = shlex.split(script.replace(";", " ; "))
    used = {word for word in words[words.index("tessera-run"):] if word.startswith("--")} | {"--resume"}
    expect("--resume" in script and len(used) > 4, f"options of tessera-run are not found in: {script}")
    expect(used <= known_options(c), f"tessera-run has no {used - known_options(c)}")


def command_of(c, container):
    """The container's command, with a folder in the place of /job, and the programs under test."""
    expect(container["command"][:2] == ["sh", "-c"], container["command"])
    check_options(c, container["command"][2])
    return [word.replace("/job", str(c.folder / "job")) for word in container["command"]]


def prepare(c):
    """Writes the files that a person puts into the volume."""
    (c.folder / "job").mkdir()
    c.compile("job/plan")
    for name in ("x.npy", "y.npy"):
        shutil.copy(c.folder / name, c.folder / "job")


def start(c, command, environment):
    path = f"{c.bin.resolve()}:{os.environ['PATH']}"
    return c.start(command, {"PATH": path, "OMPI_MCA_rmaps_base_oversubscribe": 1} | environment)


def trained(c):
    """The last step in the log. Checks that its checkpoint exists."""
    text = (c.folder / "job" / "log.jsonl").read_text()
    last = max(map(int, re.findall(r'"step": ?(\d+)', text)))
    expect((c.folder / "job" / "run" / f"step-{last:08}").is_dir(), f"no checkpoint of step {last}")
    return last


def longer(command):
    """The same job with twice as many epochs, as if it had been stopped in the middle."""
    return [word.replace("--epochs 10", "--epochs 20") for word in command]


@case
def a_pytorchjob_trains_and_resumes(c):
    spec = manifest("pytorchjob.yaml", "PyTorchJob", "v1")
    roles = list(containers(spec["pytorchReplicaSpecs"]))
    expect([role for role, *_ in roles] == ["Master", "Worker"] and spec["nprocPerNode"] == "1", "roles")
    pods = [container for _, count, container in roles for _ in range(count)]
    prepare(c)
    for container in pods:  # the operator sets variables in containers of this name only
        expect(container["name"] == "pytorch" and container["image"] == pods[0]["image"], container["name"])
    variables = {v["name"]: v for v in pods[0]["env"]}
    expect(variables["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP", "POD_IP")

    def run(change):
        port = free_port()
        # With old operators this name is not rank 0's own address. Rank 0 still listens at POD_IP.
        processes = [start(c, change(command_of(c, container)),
                           {"RANK": rank, "WORLD_SIZE": len(pods), "MASTER_PORT": port, "POD_IP": "127.0.0.1",
                            "MASTER_ADDR": "127.0.0.1" if rank else "no.such.host.invalid"})
                     for rank, container in enumerate(pods)]
        for process in processes:
            c.finish(process)
        return trained(c)

    expect(run(lambda command: command) == 50, "steps of ten epochs")
    expect(run(longer) == 100, "steps of twenty")
    expect((c.folder / "job" / "log.jsonl").read_text().count('"step"') == 100, "the second job began anew")


@case
def an_mpijob_trains_and_resumes(c):
    if not shutil.which("mpirun"):
        return print("skipped: no mpirun")
    spec = manifest("mpijob.yaml", "MPIJob", "v2beta1")
    (_, launchers, launcher), (_, workers, worker) = containers(spec["mpiReplicaSpecs"])
    expect(launchers == 1 and f"mpirun -n {workers * spec['slotsPerWorker']} " in launcher["command"][2], "ranks")
    # The container's daemon for ssh, its user and its key are those that the image is made for.
    image = (HERE / "Dockerfile").read_text()
    expect(launcher["image"] == worker["image"] and f"docker build -t {worker['image']} " in image, "image")
    expect(worker["command"][0].endswith("/sshd") and f">{worker['command'][-1]}" in image, "sshd's configuration")
    expect(f"HostKey {spec['sshAuthMountPath']}/id_rsa" in image, "sshd's key")
    user = re.search(r"useradd --create-home --uid (\d+) (\w+)", image)
    expect(spec["sshAuthMountPath"] == f"/home/{user[2]}/.ssh", "the user's folder")
    expect(f"AllowUsers {user[2]}" in image, "whom sshd lets in")
    for role in spec["mpiReplicaSpecs"].values():
        expect(role["template"]["spec"]["securityContext"]["runAsUser"] == int(user[1]), "runAsUser")
    prepare(c)
    command = command_of(c, launcher)
    c.finish(start(c, command, {}))
    expect(trained(c) == 50, "steps of ten epochs")
    c.finish(start(c, longer(command), {}))
    expect(trained(c) == 100, "steps of twenty")


if __name__ == "__main__":
    main(__doc__, Launching)
