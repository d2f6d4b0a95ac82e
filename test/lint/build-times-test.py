#!/usr/bin/env python3
"""test/benchmark/build_times.py changes every file that it names, and restores it however it ends.

usage: build-times-test.py ROOT

It runs in a copy of the script and of those files, with a stand-in for ninja.
"""
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SCRIPT = "test/benchmark/build_times.py"
# Notes the files that are not as they were. In a tree with the file `hang` it does not end while there are such files.
NINJA = """#!/bin/sh
for file in FILES; do cmp -s ROOT/$file TREE/$file || echo "$file" >>TREE/changed; done
while [ -s TREE/changed ] && [ -e TREE/hang ]; do sleep 0.1; done
exit 0
"""


def run_in(tree, args, stop_by):
    """Starts the script; with a signal, sends it while the first file is changed. Returns the exit status."""
    env = os.environ | {"PATH": f"{tree / 'bin'}:{os.environ['PATH']}"}
    process = subprocess.Popen([sys.executable, tree / SCRIPT, *args], env=env, stdout=subprocess.PIPE, text=True)
    if stop_by:
        end = time.monotonic() + 60
        while not (tree / "changed").exists() and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(stop_by)
    process.communicate(timeout=60)
    return process.returncode


def main(root):
    spec = importlib.util.spec_from_file_location("build_times", root / SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    files = [file for _, file, _ in script.CHANGES]
    failed = []
    for stop_by, expected in [(None, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]:
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            for file in [SCRIPT, *files]:
                (tree / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / file, tree / file)
            (tree / "bin").mkdir()
            ninja = tree / "bin/ninja"
            ninja.write_text(NINJA.replace("FILES", " ".join(files)).replace("ROOT", str(root)).replace("TREE", str(tree)))
            ninja.chmod(0o755)
            if stop_by:
                (tree / "hang").touch()
            status = run_in(tree, ["--build", "build", "--runs", "1"], stop_by)
            changed = (tree / "changed").read_text().split()
            if status != expected:
                failed.append(f"{stop_by}: exit status {status}, expected {expected}")
            if changed != (files[:1] if stop_by else files):
                failed.append(f"{stop_by}: changed were {changed}")
            failed += [f"{stop_by}: {file} was not restored" for file in files
                       if (tree / file).read_text() != (root / file).read_text()]
    print("\n".join(failed) or "every file is changed and restored")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
