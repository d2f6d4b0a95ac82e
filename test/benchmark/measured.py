"""Runs one program and measures it.

    code, text, wall, usage = run([binary, "--option", 3], folder)   # usage: resource.struct_rusage of that process
"""
import os
import subprocess
import time


def run(command, folder):
    with open(folder / "out", "w+") as out:
        start = time.monotonic()
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return process.returncode, out.read(), wall, usage
