"""Equal machines of one rank each, as many as are wanted: each gets the same share of one core's time, and no more.

    with SlowMachines(args.bin, folder, 4) as machines:     # raises SlowMachines.Skipped where the kernel gives no shares
        profile = machines.profile("mlp", model, options)
        plan = machines.compile("mlp", model, "--mesh", "stage=4", ..., profile=profile)
        machines.train(plan, files, steps)                  # all that Hosts of linked_hosts.py can do

A rank is a process in a control group of its own (cgroup v1, controller cpu), which lets it run for a fixed time in every period.
All ranks have the same core, and their shares together leave some of it: so each is as fast while the others wait as while they
compute, which ranks on several cores of a busy machine, or on the threads of one core, are not. What takes a rank several periods or
more takes 1 / SHARE times as long as on a core of its own. The programs' own time outside of the limit is not seen: the core
should have nothing else to do.
"""
import json
import os
import pathlib

from launching import free_port, rank_environment
from linked_hosts import Hosts

GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")
CORE = 0
PERIOD = 10_000  # microseconds: some ticks of the kernel, which ends a rank's time at one, and far less than a stage's action
SHARE = 0.2      # of the core, for each of up to four ranks


class SlowMachines(Hosts):
    class Skipped(Exception):
        pass

    def __init__(self, bin, folder, ranks, profiles=None, seconds=0.01, limit=300):
        super().__init__(bin, folder, ranks, f"{ranks}-slow", profiles, seconds, limit)
        assert ranks * SHARE < 0.9
        self.groups = [GROUPS / f"tessera{os.getpid()}.{rank}" for rank in range(ranks)]
        self.port = free_port()

    def __enter__(self):
        try:
            for group in self.groups:
                group.mkdir()
                (group / "cpu.cfs_period_us").write_text(str(PERIOD))
                (group / "cpu.cfs_quota_us").write_text(str(round(SHARE * PERIOD)))
            self.measure()
        except OSError as error:
            self.__exit__()
            raise self.Skipped(f"no machines of a share of a core here: {error} (this needs root and the cpu controller of cgroup v1 "
                               f"at {GROUPS})") from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for group in self.groups:
            if group.exists():
                group.rmdir()  # together() has waited for all that ran in it

    def on(self, rank):
        return ("taskset", "-c", str(CORE), "sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.groups[rank] / "tasks"))

    def environment(self, rank):
        return rank_environment(rank, self.ranks, "127.0.0.1", self.port, 0, 1)

    def profile(self, name, model, options, mesh="data=1"):
        """Of kernels and loops on the core without a limit, made as slow as the limit makes them: a measurement lasts no longer than
        some periods, so that what it sees of the limit would be chance."""
        whole = self.profiles / f"{name}.{self.name}.json"
        kernels = self.kernels(name, model, options, mesh, ("taskset", "-c", str(CORE)))
        whole.write_text(json.dumps({"kernels": {kernel: seconds / SHARE for kernel, seconds in kernels["kernels"].items()},
                                     "loops": [[bytes, seconds / SHARE] for bytes, seconds in kernels.get("loops", ())],
                                     "loop_operation": kernels.get("loop_operation", 0) / SHARE}))
        return whole
