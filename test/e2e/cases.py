"""What the scripts of cases share: a case is a function of a context; each gets a folder of its own.

    from cases import case, main

    @case
    def compiles(c): ...

    if __name__ == "__main__":
        main(__doc__, Context)      # Context(args, folder); args.bin, args.models
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

CASES = []

# What mpirun needs in a test. Containers and CI run as root, which Open MPI refuses unless told twice. Its component
# rtc/hwloc, which binds processes to cores, crashed the second daemon of a job over two hosts in 2 of 14 runs of
# Open MPI 4.1.4, and in none of 20 without it; the tests bind nothing.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rtc": "^hwloc"}


ON_DEVICE = ("--device", "cuda", "--no-processes")  # collectives of emulated devices meet in one process


def emulated(bin):
    """The environment of programs that run on the emulated devices."""
    return {"TESSERA_CUDA_MODULE": str(bin.parent / "lib" / "libtessera_emulator.so"),
            "TESSERA_CACHE_DIR": str(bin.parent / "emulated-kernels")}


# Plans are for a fixed machine, so that tests expect the same choices everywhere, also those that are run by hand.
os.environ["TESSERA_TOPOLOGY"] = "cpu"


class Programs:
    """The base of contexts that run the programs."""

    def __init__(self, args, folder):
        self.bin, self.models, self.folder, self.count = args.bin, args.models, folder, 0

    def run(self, *command, code=0):
        """Runs the command, which must end with this exit code, and returns what it printed. Devices are emulated ones."""
        env = os.environ | emulated(self.bin) | MPI_ENVIRONMENT
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env, timeout=600)
        text = done.stdout + done.stderr
        assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{text}"
        return text


def case(function):
    CASES.append(function)
    return function


def main(usage, context):
    """Runs the cases, or those named on the command line; the exit code tells whether any failed."""
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    failed = 0
    for function in CASES:
        if args.names and function.__name__ not in args.names:
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                function(context(args, pathlib.Path(folder)))
                print(f"ok    {function.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
            except (AssertionError, StopIteration, KeyError) as error:
                failed += 1
                print(f"FAIL  {function.__name__}: {error!s}", flush=True)
    sys.exit(failed > 0)
