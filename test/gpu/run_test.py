#!/usr/bin/env python3
"""Checks run.py without a device: programs and tools that only say what real ones say stand in their places.

usage: run_test.py
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

PROGRAM = """#!/usr/bin/env python3
import json, os, subprocess, sys, time
args = sys.argv[1:]
if "--version" in args:
    sys.exit(print("tessera 0"))
if os.environ.get("HANGS", "nothing") in " ".join(args):  # with a child that would keep the output open
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)
steps = int(args[args.index("--steps") + 1])
if "--log" in args:
    first = 2.5 + float(os.environ.get("TILES_ARE_OFF", 0)) * ("--tiled-attention" in args)
    open(args[args.index("--log") + 1], "w").writelines(json.dumps({"loss": first / (i + 1), "seconds": 0.012}) + "\\n" for i in range(steps))
if "--trace-file" in args:
    json.dump({"traceEvents": [{"cat": "kernel", "args": {"flops": 5, "bytes": 7}}]}, open(args[args.index("--trace-file") + 1], "w"))
print("rank 0 on device 0 (driver 13.0, cuDNN 9.19.0)\\nprofile of program train\\n  a line")
"""

SUITE = """#!/usr/bin/env python3
import sys, time
if "--list-tags" in sys.argv:
    print("All available tags:\\n  12  [#Windows]\\n   7  [#Attention]\\n   3  [#Other]\\n3 tags")
elif "[#Other]" in sys.argv:
    print("one is wrong"); sys.exit(3)
else:
    print("All tests passed (9 assertions in 3 test cases)")
"""

PROFILER = """#!/usr/bin/env python3
import sys
args = sys.argv[1:]
assert args[args.index("--device") + 1] == "cuda"
to = args.index("--write-topology" if "--write-topology" in args else "-o")
open(args[to + 1], "w").write('{"kernels": {"graph.add 3->3 f32": 1e-6}}')
"""

# Nsight Compute: what the program says stands before the table. Units are chosen by size unless they are asked for.
NCU = """#!/usr/bin/env python3
import sys
args = sys.argv[1:]
assert args[args.index("--clock-control") + 1] == "none", "clocks are not ours to set"
assert "--no-graphs" in args
base = "base" in args
steps = int(args[args.index("--steps") + 1])
print("==PROF== Connected to process 7\\nepoch 1, done\\n==PROF== Disconnected")
print('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name",'
      '"Metric Name","Metric Unit","Metric Value"')
def row(i, kernel, metric, unit, value):
    print(f'"{i}","7","tessera-run","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(132, 1, 1)","0","9.0","Command line profiler metrics",'
          f'"{metric}","{unit}","{value}"')
row(0, "only_once", "gpu__time_duration.sum", "ns" if base else "ms", "7,000,000" if base else "7.00")
row(0, "only_once", "dram__bytes.sum", "byte" if base else "Gbyte", "9,000,000,000" if base else "9.00")
for step in range(steps):
    row(1, "rows_8192x768_1f3a", "gpu__time_duration.sum", *(("ns", "8,000,000") if base else ("ms", "8.00")))
    row(1, "rows_8192x768_1f3a", "dram__bytes.sum", *(("byte", "2,000,000,000") if base else ("Gbyte", "2.00")))
    row(2, "nvjet<a, b>(int, float)", "gpu__time_duration.sum", *(("ns", "4,000") if base else ("us", "4.00")))
    row(2, "nvjet<a, b>(int, float)", "dram__bytes.sum", *(("byte", "1,000,000") if base else ("Mbyte", "1.00")))
"""

SMI = """#!/bin/sh
case "$*" in *query-gpu=memory.used*) echo "1234, 1980, 651.25" ;; *) echo "| NVIDIA-SMI 580.65 |" ;; esac
"""

SANITIZER = """#!/bin/sh
echo "========= COMPUTE-SANITIZER"
echo "========= ERROR SUMMARY: 0 errors"
"""


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)


class Context:
    def __init__(self, folder):
        self.folder, self.bundle, self.tools = folder, folder / "bundle", folder / "tools"
        for made in (self.tools, self.bundle / "bin", self.bundle / "lib"):
            made.mkdir(parents=True)
        executable(self.bundle / "bin/tessera-run", PROGRAM)
        executable(self.bundle / "bin/backend_conformance", SUITE)
        executable(self.bundle / "bin/tessera-profile", PROFILER)
        executable(self.bundle / "bin/device_nccl", "#!/bin/sh\necho All tests passed\n")
        shutil.copy(shutil.which("true"), self.bundle / "lib/libtessera_cuda.so")
        for name, text in (("ncu", NCU), ("nvidia-smi", SMI), ("compute-sanitizer", SANITIZER)):
            executable(self.tools / name, text)
        plans = []
        for name, use, precision, ranks in (("tiny", "equal", "f32", 1), ("tiny", "equal", "f32", 2), ("bert_large", "fast", "bf16", 1)):
            plan = f"{name}-{ranks}-{precision}"
            (self.bundle / "plans" / plan).mkdir(parents=True)
            header = json.dumps({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}})
            (self.bundle / "plans" / plan / "weights.recipe.json").write_text(json.dumps({"header": header, "tensors": {"w": [0, 1]}}))
            plans.append({"plan": plan, "network": name, "ranks": ranks, "use": use, "precision": precision, "inputs": [["below", 9, [2, 3]]],
                          "target": ["below", 9, [2, 3]]})
        (self.bundle / "plans.json").write_text(json.dumps(plans))
        self.write_references()

    def write_references(self, **changed):
        sys.path.insert(0, str(HERE))
        import run
        found = run.Machine(self.bundle).references()
        for entry in found.values():
            entry.update(changed)
        (self.bundle / "references.json").write_text(json.dumps(found))

    def run(self, *arguments, code=0, **env):
        path = f"{self.tools}:{os.environ['PATH']}"
        done = subprocess.run([sys.executable, str(HERE / "run.py"), str(self.bundle), str(self.folder / "report"), *arguments],
                              capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": path, **env})
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        assert (self.folder / "report/report.md").read_text() == done.stdout, "the report is not what was said"
        return done.stdout


def has(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is not in\n{text}"


def in_order(text, *parts):
    places = [text.index(part) for part in parts]
    assert places == sorted(places), f"{parts} stand at {places}"


def facts_come_first_and_the_hottest_files_of_the_suite(c):
    said = c.run("facts", code=1)
    in_order(said, "## machine", "## smoke", "## ranks", "## equal", "## ours", "## attention", "## conformance")
    has(said, "NVIDIA-SMI 580.65", "without graphs", "with graphs", "cuDNN 9.19.0", "| tiny-1-f32 | 1 | 0.0e+00 |")
    has(said, "bert_large-1-bf16: 12.00 ms a step; at most 1234 MiB on the device, 1980 MHz, 651 W") if "1234" in said else has(said, "unknown")
    in_order(said, "- Attention:", "- Windows:", "- Other: FAILED")
    has(said, "files that fail: Other", "failed: conformance")


def kernels_are_counted_in_fixed_units(c):
    said = c.run("kernels")
    # The step takes 12 ms, its kernels 8.004; what runs once does not count.
    has(said, "step 12.00 ms with graphs; 2 kernels take 8.00 ms and move 2.0 GB; overhead 49.9% **ABOVE 5 %**")
    has(said, "| 8.000 | 2.00 | 1 | rows_8192x768_1f3a |", "| 0.004 | 0.00 | 1 | nvjet<a, b>(int, float) |")
    assert "| 7.0" not in said and (c.folder / "report/kernels-bert_large-1-bf16-2.csv").exists()
    # A tool that chooses units itself is understood, too.
    executable(c.tools / "ncu", NCU.replace('base = "base" in args', "base = False"))
    has(c.run("kernels"), "2 kernels take 8.00 ms and move 2.0 GB")
    executable(c.tools / "ncu", NCU.replace('"us"', '"fortnight"').replace('base = "base" in args', "base = False"))
    has(c.run("kernels", code=1), "a unit that this script does not know: 'fortnight'")


def what_hangs_is_killed_and_the_rest_goes_on(c):
    begin = time.monotonic()
    said = c.run("smoke", "ranks", "conformance", "--minutes", "0.15", code=1, HANGS="--no-graphs")
    assert time.monotonic() - begin < 60, "nothing was killed"
    has(said, "was killed after", "## ranks", "no time is left", "## conformance", "failed: smoke, ranks, conformance")
    assert subprocess.run(["pgrep", "-f", str(c.bundle)], capture_output=True).returncode, "a program is still there"


def losses_that_differ_are_told(c):
    has(c.run("equal", "shared"), "| tiny-2-f32 | 2 |")
    c.write_references(exact=[2.6 / (i + 1) for i in range(10)])
    has(c.run("equal", code=1), "FLOAT64 IS OFF", "not equal: tiny-1-f32")
    c.write_references(digest="other")
    has(c.run("equal", code=1), "NumPy makes other weights or data here")


def attention_of_the_library_is_held_against_the_generated_kernels(c):
    has(c.run("attention"), "bert_large-1-bf16: 12.00 ms a step, by generated kernels 12.00; losses differ by at most 0.0e+00")
    has(c.run("attention", code=1, TILES_ARE_OFF="0.1"), "differ by at most 3.8e-02 **ABOVE 1e-02**", "attention by cuDNN trains otherwise: bert_large-1-bf16")


def safety_says_what_the_sanitizer_says(c):
    said = c.run("safety")
    in_order(said, "## sanitize", "- memcheck, tiny-1-f32: ERROR SUMMARY: 0 errors", "- racecheck, RowChains", "## shared", "## profile", "## costs", "graph.add",
             "- profile-bert_large-1-bf16.json: 1 kernels")


def wrong_sections_are_refused(c):
    done = subprocess.run([sys.executable, str(HERE / "run.py"), str(c.bundle), "x", "fact"], capture_output=True, text=True)
    assert done.returncode and "there is no section fact" in done.stderr, done.stderr


def main():
    failed = 0
    for test in (facts_come_first_and_the_hottest_files_of_the_suite, kernels_are_counted_in_fixed_units, what_hangs_is_killed_and_the_rest_goes_on,
                 losses_that_differ_are_told, attention_of_the_library_is_held_against_the_generated_kernels,
                 safety_says_what_the_sanitizer_says, wrong_sections_are_refused):
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(Context(pathlib.Path(folder)))
                print(f"ok   {test.__name__}", flush=True)
            except (AssertionError, ValueError) as e:
                failed += 1
                print(f"FAIL {test.__name__}: {e}", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
