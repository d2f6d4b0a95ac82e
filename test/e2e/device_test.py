#!/usr/bin/env python3
"""tessera-run --device cuda on the emulated device: what is said where it cannot work, and that it gives what the CPU gives
in whatever order the device's streams get on.

usage: device_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np

from cases import ON_DEVICE, case, emulated, main
from launching import Launching, expect

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
from networks import Network  # noqa: E402

BATCH = 8


class Context(Launching):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.cuda = self.bin.parent / "lib" / "libtessera_cuda.so"
        self.env = os.environ | emulated(self.bin)

    def device(self, plan, *options, data=None, code=0, **env):
        """Runs a plan on the device and returns stdout and stderr."""
        command = [self.bin / "tessera-run", plan, "--data", data or self.data, *ON_DEVICE, *options]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, env={**self.env, **env})
        expect(done.returncode == code, f"{env} {command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def losses(self, plan, *options, steps=5, data=None, **env):
        log = self.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        self.device(plan, "--steps", steps, "--log", log, *options, data=data, **env)
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]

    def expected(self, plan, *options, steps=5, data=None):
        """The same on the CPU."""
        log = self.folder / "cpu.jsonl"
        log.unlink(missing_ok=True)
        self.run(self.bin / "tessera-run", plan, "--data", data or self.data, "--steps", steps, "--log", log, *options)
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]

    def refused(self, plan, sentence, **env):
        """The run must fail with one sentence and print nothing before it."""
        said, error = self.device(plan, "--steps", "1", code=1, **env)
        expect(said == "", f"{env}: something was done before\n{said}")
        expect(re.fullmatch(rf"tessera-run: (rank \d: )?{sentence}\n", error), f"{env}: not `{sentence}` but\n{error}")

    def network(self, write, *options, optimizer="sgd:lr=0.01"):
        """A plan of a network on [8, 4] numbers, on one rank if nothing else is said."""
        net = Network()
        out = write(net, net.input("x", [BATCH, 4]))
        net.write(self.folder / "net.onnx", out, [BATCH, 4])
        self.run(self.bin / "tessera-compile", self.folder / "net.onnx", "--inputs", "x", "--train", "--loss", "mse", "--optimizer",
                 optimizer, *options, "-o", self.folder / "net")
        return self.folder / "net"

    def residual(self, out, mesh, mode, *options):
        """A plan of a small network that has one of everything around its convolutions, and batches for it."""
        net, shape = Network(), [BATCH, 3, 9, 8]

        def unit(x, name, inputs, outputs, kernel, **attributes):
            w = net.input(name + ".w", [outputs, inputs // attributes.get("group", 1), kernel, kernel])
            pads = [kernel // 2] * 4
            y = net.node("Conv", x, w, net.input(name + ".b", [outputs]), name=name, pads=pads, **attributes)
            y = net.node("BatchNormalization", y, *(net.input(f"{name}.{p}", [outputs]) for p in ("scale", "shift", "mean", "var")),
                         name=name + ".norm")
            return net.node("Relu", y)

        x = unit(net.input("x", shape), "first", 3, 8, 3)
        x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        y = unit(unit(x, "a", 8, 16, 3, strides=[2, 2]), "b", 16, 8, 1)
        short = net.node("AveragePool", x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0], name="short")
        x = net.node("Concat", net.node("Add", y, short), y, axis=1)
        x = net.node("Pad", x, net.constant([0, 0, 1, 0, 0, 0, 0, 1]))
        x = unit(x, "last", 16, 8, 3, group=2)
        x = net.node("Flatten", net.node("GlobalAveragePool", x), axis=1)
        net.write(self.folder / f"{out}.onnx", net.dense(x, "fc", 8, 5), [BATCH, 5])
        self.run(self.bin / "tessera-compile", self.folder / f"{out}.onnx", "--inputs", "x", "--train", "--loss", "cross_entropy",
                 "--optimizer", "sgd:lr=0.05,momentum=0.9", "--mesh", mesh, "--mode", mode, *options, "-o", self.folder / out)
        rng = np.random.default_rng(9)
        np.save(self.folder / "images.npy", rng.standard_normal((5 * BATCH, *shape[1:])).astype(np.float32))
        np.save(self.folder / "labels.npy", rng.integers(0, 5, 5 * BATCH).astype(np.int64))
        return self.folder / out, f"npy:{self.folder}/images.npy,{self.folder}/labels.npy"

    def numbers(self, x):
        np.save(self.folder / "net_x.npy", x)
        np.save(self.folder / "net_y.npy", np.ones_like(x))
        return f"npy:{self.folder}/net_x.npy,{self.folder}/net_y.npy"


MEMORY = r"CUDA device \d is out of memory: \d+ MiB are needed, 0 of 0 MiB are free; compile for more ranks, or with --memory"


@case
def what_is_missing_is_one_sentence_before_any_step(c):
    for plan in (c.compile("one", "1", "data"), c.compile("four")):
        c.refused(plan, r"there is no NVIDIA driver on this machine \(libcuda.so.1 is missing\); install one, or use --device cpu",
                  TESSERA_EMULATOR_FAIL="no-driver")
        c.refused(plan, "there is no CUDA device on this machine, or CUDA_VISIBLE_DEVICES hides it; use --device cpu",
                  TESSERA_EMULATOR_FAIL="no-device")
        c.refused(plan, "the NVIDIA driver is too old: it supports CUDA 12.4, this build needs 13.0; update the driver",
                  TESSERA_EMULATOR_FAIL="old-driver")
        c.refused(plan, r"CUDA device 0 \(emulated device\) has compute capability 7.0; 8.0 or later is needed",
                  TESSERA_EMULATOR_FAIL="capability:0")
        c.refused(plan, "backend cuda: arena: " + MEMORY, TESSERA_EMULATOR_FAIL="memory:0")
        missing = c.folder / "nowhere.so"
        c.refused(plan, f"there is no CUDA module at {missing}; build Tessera where a CUDA toolkit is installed, or use --device cpu",
                  TESSERA_CUDA_MODULE=str(missing))
    # Only one device of several has the fault.
    c.refused(plan, r"CUDA device 2 \(emulated device\) has compute capability 7.0; 8.0 or later is needed",
              TESSERA_EMULATOR_FAIL="capability:2")


@case
def ranks_with_devices_of_their_own_are_processes(c):
    """NCCL advises against several devices in a process that records graphs."""
    plan = c.compile("two", "data=2", "data")

    def error(*options):
        command = [c.bin / "tessera-run", plan, "--data", c.data, "--device", "cuda", "--steps", "1", *options]
        done = subprocess.run([str(a) for a in command], capture_output=True, text=True, timeout=300,
                              env={**c.env, "TESSERA_EMULATOR_FAIL": "no-device"})
        expect(done.returncode == 1, f"{options}: {done.returncode} {done.stderr}")
        return done.stderr

    expect(re.match(r"\[rank \d\] tessera-run: ", error()), "ranks are no processes")
    for options in (["--no-processes"], ["--share-devices"]):
        expect(re.match(r"tessera-run: rank \d: there is no CUDA device", error(*options)), f"{options}: ranks are no threads")


@case
def memory_that_is_needed_later_is_missed_before_any_step(c):
    """A device that holds the arena, and not what comes on top of it, says so at the start."""
    plan = c.compile("two", "data=2", "data")
    said, _ = c.device(plan, "--steps", "1")
    arena = int(re.search(r"arena (\d+)", said).group(1))
    sentences = set()
    for mebibytes in range(1, 40):
        log = c.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        command = [c.bin / "tessera-run", plan, "--data", c.data, *ON_DEVICE, "--steps", "2", "--log", log]
        done = subprocess.run([str(a) for a in command], capture_output=True, text=True, timeout=300,
                              env={**c.env, "TESSERA_EMULATOR_FAIL": f"memory:{mebibytes}"})
        if done.returncode == 0:
            break
        expect(not log.exists() or not log.read_text(), f"with {mebibytes} MiB steps are done before it fails\n{done.stderr}")
        expect(done.stderr.count("\n") == 1 and "out of memory" in done.stderr, done.stderr)
        sentences.add(re.search(r"rank \d: (.*): CUDA device", done.stderr).group(1))
    expect(arena < mebibytes < 39, f"{arena}, {mebibytes}: {sentences}")
    expect("backend cuda: arena" in sentences, sentences)


@case
def a_library_that_is_missing_is_named(c):
    absent, module = c.folder / "libabsent.so.9", c.folder / "module.so"
    for name, *options in ((absent,), (module, f"-L{c.folder}", "-l:libabsent.so.9", "-Wl,--no-as-needed")):
        subprocess.run(["g++", "-shared", "-x", "c++", "/dev/null", "-o", str(name), "-Wl,--no-as-needed", *options], check=True)
    absent.unlink()
    c.refused(c.compile("one", "1", "data"), f"the CUDA module {module} needs the library libabsent.so.9, which was not found; "
              "install it or add its folder to LD_LIBRARY_PATH", TESSERA_CUDA_MODULE=str(module))


DRIVER = r"""
#include <dlfcn.h>
#include <stdlib.h>
static int nothing() { return 0; }
extern "C" int cuDriverGetVersion(int *version) { *version = atoi(getenv("DRIVER_VERSION")); return 0; }
extern "C" int cuInit(unsigned) { return 100; } // no device
extern "C" int cuGetExportTable(const void **, const void *) { return 1; }
extern "C" int cuGetProcAddress_v2(const char *name, void **function, int, unsigned long long, int *found) {
  *function = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name);
  if (!*function)
    *function = (void *)nothing;
  if (found)
    *found = 0;
  return 0;
}
extern "C" int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
"""


@case
def the_module_itself_says_what_a_machine_lacks(c):
    """The CUDA module, with no driver or with one that is good for nothing else."""
    if not c.cuda.exists() or subprocess.run(["nvidia-smi"], capture_output=True, shell=True).returncode == 0:
        return print("      (there is no CUDA module in this build, or a device)")
    plan, folder = c.compile("one", "1", "data"), c.folder / "driver"
    folder.mkdir()
    c.env["TESSERA_CUDA_MODULE"] = str(c.cuda)
    none = "there is no NVIDIA driver on this machine .*; install one, or use --device cpu"
    _, error = c.device(plan, "--steps", "1", code=1)
    if "needs the library" in error:
        return print("      (there is a toolkit without its libraries)")
    c.refused(plan, none)
    (folder / "driver.cpp").write_text(DRIVER)
    subprocess.run(["g++", "-shared", "-fPIC", str(folder / "driver.cpp"), "-o", str(folder / "libcuda.so.1")], check=True)
    path = ":".join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    c.refused(plan, r"the NVIDIA driver is too old: it supports CUDA 11.8, this build needs 1\d.\d; update the driver",
              DRIVER_VERSION="11080", LD_LIBRARY_PATH=path)
    c.refused(plan, "there is no CUDA device on this machine, or CUDA_VISIBLE_DEVICES hides it; use --device cpu",
              DRIVER_VERSION="99000", LD_LIBRARY_PATH=path)


@case
def batches_reach_their_steps_in_every_order_of_the_streams(c):
    for name, mesh, mode, *options in (("one", "1", "data"), ("two", "data=2", "data"), ("four", "data=2,model=2", "auto"),
                                       ("beside", "data=2", "data", "--overlap", "on"),
                                       ("beside_auto", "data=2,model=2", "auto", "--overlap", "on")):
        plan = c.compile(name, mesh, mode, options=options)
        expected = c.expected(plan, steps=8)
        found = c.losses(plan, steps=8)
        expect(np.allclose(found, expected, rtol=1e-4) and len(found) == 8, f"{name}: {found}, on the CPU {expected}")
        for order in ("comm", "copy"):
            expect(c.losses(plan, steps=8, TESSERA_EMULATOR_ORDER=order) == found, f"{name}, {order} first: other losses")
        expect(c.losses(plan, "--no-graphs", steps=8) == found, f"{name}: other losses without graphs")


def chain(net, x):
    """Layers for stages, with one that drops some numbers."""
    for layer in range(4):
        x = net.node("Relu", net.linear(x, f"layer{layer}", 4, 4))
        x = net.dropout(x, 0.25) if layer == 1 else x
    return net.linear(x, "last", 4, 4)


@case
def pipelines_give_what_the_cpu_gives(c):
    """Messages of several micro-batches under way, of chunks and of stages with meshes of their own, between devices."""
    parts, clip = ("--accumulate", 4), ("--clip-norm", 0.1)
    for name, mesh, *options in (("gpipe", "stage=2", "--pipeline", "schedule=gpipe"), ("three", "stage=3", "--pipeline", "schedule=1f1b", *clip),
                                 ("chunks", "stage=2,data=2", "--pipeline", "schedule=interleaved:2", *clip),
                                 ("back", "stage=2", "--pipeline", "schedule=zb-v"), ("ahead", "stage=2,data=2", "--pipeline", "schedule=zb-h2"),
                                 ("own", "stages=[data=2; data=1]", *clip), ("wider", "stages=[data=1; model=2; data=1]")):
        plan = c.compile(name, mesh, "auto" if name == "wider" else "data", options=(*parts, *options))
        expected = c.expected(plan)
        found = c.losses(plan)
        expect(np.allclose(found, expected, rtol=1e-4) and len(found) == 5, f"{name}: {found}, on the CPU {expected}")
        expect(c.losses(plan, TESSERA_EMULATOR_ORDER="comm") == found, f"{name}: other losses with the communication first")
        expect(c.losses(plan, "--no-graphs", steps=2) == found[:2], f"{name}: other losses without graphs")
    expect(c.losses(plan, "--share-devices", steps=3) == found[:3], "other losses through the host")
    said, _ = c.device(plan, "--steps", "2", "--profile")
    expect(re.search(r"x cuda: send", said) and re.search(r"x cuda: receive", said), said)
    points = c.folder / "points"
    c.device(plan, "--steps", "3", "--checkpoint-dir", points)
    found = c.losses(plan, "--resume", points)
    expect(np.allclose(found, expected[3:], rtol=1e-4) and len(found) == 2, f"resumed: {found}, not {expected[3:]}")
    # Statistics that every micro-batch changes, and layouts that the two ends of a message have by themselves.
    plan, data = c.residual("cut", "stage=2,data=2", "data", *parts)
    expected = c.expected(plan, "--save-weights", c.folder / "cpu", data=data)
    for options in ((), ("--tf32",)):
        found = c.losses(plan, *options, "--save-weights", c.folder / "device", data=data)
        expect(np.allclose(found, expected, rtol=2e-5) and len(found) == 5, f"{options}: {found}, on the CPU {expected}")
        cpu, device = saved(c.folder / "cpu"), saved(c.folder / "device")
        expect(np.allclose(device, cpu, atol=1e-4), f"{options}: other weights, by up to {abs(device - cpu).max()}")
    plan = c.network(chain, "--mesh", "stage=2", "--mode", "data", *parts)
    data = c.numbers(np.random.default_rng(4).uniform(1, 2, (5 * BATCH, 4)).astype(np.float32))
    found, expected = c.losses(plan, data=data), c.expected(plan, data=data)
    expect(np.allclose(found, expected, rtol=1e-4) and len(set(found)) == 5, f"dropout: {found}, on the CPU {expected}")


@case
def networks_in_pipelines_give_what_the_cpu_gives(c):
    """LeNet and a small GPT, whose table is read at both ends, in training; LeNet in inference."""
    rng, length, words = np.random.default_rng(6), 8, 32
    for name, array in (("images", rng.standard_normal((BATCH, 1, 28, 28)).astype(np.float32)), ("labels", rng.integers(0, 10, BATCH)),
                        ("ids", rng.integers(0, words, (BATCH, length))), ("next", rng.integers(0, words, (BATCH, length)))):
        np.save(c.folder / f"{name}.npy", array)
    images, text = (f"npy:{c.folder}/{a}.npy,{c.folder}/{b}.npy" for a, b in (("images", "labels"), ("ids", "next")))
    c.run(sys.executable, c.models / "networks.py", "gpt", "-o", c.folder / "gpt.onnx", "layers=2", "hidden=16", "heads=2",
          f"words={words}", "batch=batch", f"length={length}")

    def plan(model, name, *options):
        c.run(c.bin / "tessera-compile", model, "--dim", f"batch={BATCH}", "--mesh", "stage=2", "--mode", "data", "--seed", 3, *options,
              "-o", c.folder / name)
        return c.folder / name

    train = ("--train", "--accumulate", 4, "--optimizer", "adam:lr=0.01")
    for name, model, data, *options in (("lenet", c.models / "lenet_train.onnx", images, "--pipeline", "schedule=zb-v"),
                                        ("gpt", c.folder / "gpt.onnx", text, "--inputs", "ids")):
        found, expected = (of(plan(model, name, *train, *options), data=data, steps=3) for of in (c.losses, c.expected))
        expect(np.allclose(found, expected, rtol=1e-4) and len(set(found)) == 3, f"{name}: {found}, on the CPU {expected}")
    infer, outputs = plan(c.models / "lenet_eval.onnx", "eval"), []
    for where in ("device", "cpu"):
        options = ("--steps", "1", "--infer", "--output", c.folder / where)
        if where == "device":
            c.device(infer, *options, data=images)
        else:
            c.run(c.bin / "tessera-run", infer, "--data", images, *options)
        outputs.append([np.load(file) for file in sorted((c.folder / where).glob("*.npy"))])
    expect(len(outputs[0]) == len(outputs[1]) > 0, outputs)
    for found, expected in zip(*outputs):
        expect(np.allclose(found, expected, rtol=1e-4, atol=1e-5) and found.std() > 0, f"outputs {found}, on the CPU {expected}")


@case
def a_pipeline_that_fails_ends_on_all_ranks(c):
    plan = c.compile("cut", "stage=2", "data", options=("--accumulate", 4))
    losses = c.losses(plan)
    for rank in 0, 1:
        said, _ = c.device(plan, "--steps", "4", TESSERA_EMULATOR_FAIL=f"graph:{rank}")
        expect("note: steps are launched one by one, since recording a graph failed" in said, said)
        expect(c.losses(plan, TESSERA_EMULATOR_FAIL=f"graph:{rank}") == losses, "other losses")
    _, error = c.device(plan, "--steps", "8", code=1, TESSERA_EMULATOR_FAIL="replay:1")
    expect(re.match(r"tessera-run: rank 1: .*network error", error) and error.count("\n") == 1, error)


@case
def convolutions_of_16_bits_lie_channels_last(c):
    for mesh in ("1", "data=2"):
        plan = c.folder / f"lenet-{mesh}"
        c.run(c.bin / "tessera-compile", c.models / "lenet_train.onnx", "--train", "--dim", "batch=4", "--mesh", mesh, "--mode", "data",
              "--precision", "bf16", "--optimizer", "sgd:lr=0.01,momentum=0.9", "-o", plan)
        expected = c.expected(plan, "--save-weights", c.folder / "cpu", steps=4)
        found = c.losses(plan, "--save-weights", c.folder / "device", steps=4)
        expect(np.allclose(found, expected, rtol=1e-2) and len(found) == 4, f"{mesh}: {found}, on the CPU {expected}")
        # Saved weights are in the host's layout, whatever layout they had on the device.
        cpu, device = saved(c.folder / "cpu"), saved(c.folder / "device")
        expect(np.allclose(device, cpu, atol=1e-3), f"{mesh}: other weights, by up to {abs(device - cpu).max()}")
    said, _ = c.device(c.folder / "lenet-1", "--steps", "2", "--profile")
    kernels = re.findall(r"x cuda: (conv\S*) (.*)", said)
    # Filters' gradients of few channels are not left to cuDNN as they lie, since it gets them wrong.
    kernels = [k for kind, k in kernels if kind != "conv_weight_grad"]
    expect(len(kernels) >= 2 and all("channels last" in k and "copies" not in k for k in kernels), said)


def saved(path):
    """All numbers of a safetensors file of F32."""
    content = path.read_bytes()
    return np.frombuffer(content[8 + int.from_bytes(content[:8], "little"):], np.float32)


@case
def convolutions_in_tf32_lie_channels_last(c):
    """The emulator does not round to TF32. So tensors with channels last must give what the CPU gives."""
    for mesh, mode in (("1", "data"), ("data=2", "data"), ("data=2,model=2", "auto")):
        plan, data = c.residual(f"net-{mesh}", mesh, mode)
        expected = c.expected(plan, "--save-weights", c.folder / "cpu", data=data)
        for options in (["--tf32"], ["--tf32", "--no-graphs"], []):
            found = c.losses(plan, *options, "--save-weights", c.folder / "device", data=data)
            expect(np.allclose(found, expected, rtol=2e-5) and len(found) == 5, f"{mesh} {options}: {found}, on the CPU {expected}")
            cpu, device = saved(c.folder / "cpu"), saved(c.folder / "device")
            expect(np.allclose(device, cpu, atol=1e-4), f"{mesh}: other weights, by up to {abs(device - cpu).max()}")
        c.device(plan, "--tf32", "--steps", "2", "--verify", data=data)
        # Checkpoints are independent of layouts: either run reads what the other wrote.
        for first, then in ((["--tf32"], []), ([], ["--tf32"])):
            points = c.folder / f"points-{mesh}-{len(first)}"
            c.device(plan, *first, "--steps", "3", "--checkpoint-dir", points, data=data)
            found = c.losses(plan, *then, "--resume", points, data=data)
            expect(np.allclose(found, expected[3:], rtol=2e-5) and len(found) == 2, f"{mesh} {first}: {found}, not {expected[3:]}")
    plan = c.folder / "net-1"
    said, _ = c.device(plan, "--tf32", "--steps", "2", "--profile", data=data)
    kernels = re.findall(r"x cuda: (\S+) (.*)", said)
    expect(any("cuDNN tf32 channels last" in k for _, k in kernels), said)
    # Only the loops around padding and concatenation use operands in other layouts.
    expect(all("copies" not in k for name, k in kernels if name.startswith("fused")), said)
    # When steps run one by one, a NaN is found where it was made.
    trace = c.folder / "trace.json"
    c.device(plan, "--tf32", "--steps", "3", "--trace", "steps=2", "--trace-file", trace, data=data)
    made = [e["args"]["implementation"] for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    expect(any("channels last" in m for m in made), made)
    images = np.load(c.folder / "images.npy")
    images[2 * BATCH:] = np.copysign(np.float32(3e38), images[2 * BATCH:])
    np.save(c.folder / "images.npy", images)
    _, error = c.device(plan, "--tf32", "--steps", "5", "--check-numerics", "stop", data=data, code=3)
    expect(re.search(r"step 3, batch 2: .* the operator 'first[^']*' \(conv\) makes", error), error)


@case
def sixteen_bits_train_as_in_the_reference(c):
    """With sums in float64 both round the same numbers to 16 bits, so that losses agree to the digits of a sum. With sums in float32,
    in whatever order, a number now and then falls on the other side of a middle: losses, to which thousands of such numbers
    contribute, may differ by as much as one of them, 2^-11 in float16 and 2^-8 in bfloat16. Scales, which are powers of two, and
    the steps that are left out agree exactly."""
    steps, log = 7, c.folder / "half.jsonl"
    # 2^20 is too much for the first step, and once more when it has grown to that again after two good ones.
    dynamic, fixed = (("--loss-scale", s) for s in ("dynamic:initial=1048576,interval=2", "static:scale=1024"))
    parts = ("--accumulate", 2)
    for model, batch, mesh, precision, options in (
            ("mlp", 8, "1", "f16", dynamic), ("mlp", 8, "data=2", "f16", (*dynamic, *parts)), ("lenet", 4, "data=2", "f16", fixed),
            ("mlp", 8, "1", "bf16", parts), ("mlp", 8, "data=2", "bf16", ())):
        plan, name = c.folder / "half", f"{model}, {mesh}, {precision} {options}"
        c.run(c.bin / "tessera-compile", c.models / f"{model}_train.onnx", "--train", "--dim", f"batch={batch}", "--mesh", mesh, "--mode",
              "data", "--loss", "cross_entropy", "--optimizer", "adamw:lr=0.0003", "--precision", precision, *options, "-o", plan)
        for exact in (True, False):
            run = [c.bin / "tessera-run", plan, "--data", c.data, "--steps", steps, "--log", log, "--check-numerics", "stop",
                   *(("--f64",) if exact else ())]
            found = []
            for device in (("--backend", "reference"), ON_DEVICE):
                log.unlink(missing_ok=True)
                done = subprocess.run([str(a) for a in (*run, *device)], capture_output=True, text=True, timeout=300, env=c.env)
                expect(done.returncode == 0, f"{name} {device}: {done.stderr}")
                found.append([json.loads(line) for line in log.read_text().splitlines()])
            reference, cuda = (np.array([line["loss"] for line in lines]) for lines in found)
            worst, allowed = np.max(np.abs(cuda / reference - 1)), 1e-9 if exact else 2.0**-(11 if precision == "f16" else 8)
            print(f"      {name}{', f64' * exact}: {worst:.1e}")
            expect(len(reference) == len(cuda) == steps and worst < allowed, f"{name}, f64 {exact}: {cuda}, the reference {reference}")
            scales = [[(line.get("loss_scale"), line.get("loss_scale_skipped")) for line in lines] for lines in found]
            expect(scales[0] == scales[1], f"{name}: {scales}")
            if options[:2] == dynamic:
                skipped = [count for _, count in scales[1]]
                expect(skipped[0] == 1 and 2 <= skipped[-1] < steps - 2, f"{name}: {skipped}")


@case
def attention_of_16_bits_is_the_librarys_or_generated(c):
    """Queries, keys and values are parts of one projection, and so are their gradients."""
    length, hidden, heads, steps = 8, 32, 4, 4
    rng = np.random.default_rng(3)
    for name in "xy":
        np.save(c.folder / f"rows_{name}.npy", rng.standard_normal((steps * BATCH, length, hidden)).astype(np.float32))
    data = f"npy:{c.folder}/rows_x.npy,{c.folder}/rows_y.npy"
    for mesh, precision in (("1", "bf16"), ("1", "f16"), ("data=2", "bf16"), ("model=2", "bf16")):
        net = Network()
        x, plan = net.input("x", [BATCH, length, hidden]), c.folder / "rows"
        mask = net.causal(length)
        for layer in ("a", "b"):
            x = net.node("Add", x, net.attention(net.normalised(x, f"{layer}.n", hidden), layer, BATCH, length, hidden, heads, mask))
        net.write(c.folder / "rows.onnx", x, [BATCH, length, hidden])
        c.run(c.bin / "tessera-compile", c.folder / "rows.onnx", "--inputs", "x", "--train", "--loss", "mse", "--optimizer", "sgd:lr=0.05",
              "--mesh", mesh, "--mode", "data" if "model" not in mesh else "auto", "--precision", precision, "--seed", "1", "-o", plan)
        expected = c.expected(plan, steps=steps, data=data)
        for options in ((), ("--no-graphs",), ("--tiled-attention",)):
            found = c.losses(plan, *options, steps=steps, data=data)
            expect(np.allclose(found, expected, rtol=2.0**-8) and len(found) == steps, f"{mesh} {precision} {options}: {found}, not {expected}")
            said, _ = c.device(plan, "--steps", "2", "--profile", *options, data=data)
            kernels = [how for name, how in re.findall(r"x cuda: (\S+) (.*)", said) if name.startswith("attention")]
            library = "generated" if "--tiled-attention" in options else f"cuDNN {precision}"
            expect(len(kernels) >= 2 and all(library in how for how in kernels), f"{mesh} {precision} {options}: {kernels}\n{said}")


@case
def batches_are_padded_and_widened_on_their_way(c):
    plan = c.compile("padded", "data=2", "data", batch=7)
    for cpu, device, tolerance in (((), (), 1e-4), (("--f64", "--backend", "reference"), ("--f64",), 1e-9)):
        expected = c.expected(plan, *cpu)
        found = c.losses(plan, *device)
        expect(np.allclose(found, expected, rtol=tolerance) and len(found) == 5, f"{device}: {found}, on the CPU {expected}")


@case
def memory_is_registered_by_all_ranks_or_none(c):
    for name, mesh, mode in (("two", "data=2", "data"), ("four", "data=2,model=2", "auto")):
        plan = c.compile(name, mesh, mode)
        expect(c.losses(plan) == c.losses(plan, TESSERA_EMULATOR_FAIL="register:1"), f"{name}: other losses")


@case
def a_communicator_that_fails_ends_the_run_and_names_the_rank(c):
    plan = c.compile("two", "data=2", "data")
    _, error = c.device(plan, "--steps", "3", code=1, TESSERA_EMULATOR_FAIL="comm:1")
    expect(re.match(r"tessera-run: rank 1: .*network error", error) and error.count("\n") == 1, error)


@case
def a_failure_behind_recorded_graphs_ends_the_run(c):
    """NCCL gives a communicator back only when no graph holds its work, so the graphs must go first."""
    for name, mesh, mode in (("two", "data=2", "data"), ("four", "data=2,model=2", "auto")):
        _, error = c.device(c.compile(name, mesh, mode), "--steps", "8", code=1, TESSERA_EMULATOR_FAIL="replay:1")
        expect(re.match(r"tessera-run: rank 1: .*network error", error) and error.count("\n") == 1, error)


@case
def a_device_that_does_not_come_to_rest_ends_with_its_process(c):
    """Whatever frees its memory would wait for it for ever."""
    _, error = c.device(c.compile("two", "data=2", "data"), "--steps", "8", code=1, TESSERA_EMULATOR_FAIL="stuck:1")
    expect(re.fullmatch(r"\[rank 1\] .*network error.*; its device does not come to rest, so the process ends\n", error), error)


@case
def a_recording_that_fails_is_told_and_harmless(c):
    plan = c.compile("one", "1", "data")
    said, _ = c.device(plan, "--steps", "4", TESSERA_EMULATOR_FAIL="graph")
    expect("note: steps are launched one by one, since recording a graph failed" in said, said)
    expect(c.losses(plan) == c.losses(plan, TESSERA_EMULATOR_FAIL="graph"), "other losses")


@case
def all_ranks_use_graphs_or_none(c):
    """NCCL demands it. The emulator refuses a collective that some members replay and others do not."""
    for name, mesh, mode in (("two", "data=2", "data"), ("four", "data=2,model=2", "auto")):
        plan = c.compile(name, mesh, mode)
        losses = c.losses(plan)
        for rank, why in ((0, "recording a graph failed, as it was told to"), (1, "on another rank")):
            said, _ = c.device(plan, "--steps", "4", TESSERA_EMULATOR_FAIL=f"graph:{rank}")
            expect(f"note: steps are launched one by one, since recording a graph failed: {why}" in said, said)
            expect(c.losses(plan, TESSERA_EMULATOR_FAIL=f"graph:{rank}") == losses, "other losses")
            expect(c.losses(plan, steps=12, TESSERA_EMULATOR_FAIL=f"timers:{rank}")[:5] == losses, "other losses")


@case
def a_slow_device_is_named(c):
    """The slow device's kernels take longer, and the other device waits in collectives: in recorded graphs, and step by step."""
    plan = c.network(lambda net, x: net.linear(net.linear(x, "first", 4, 8), "second", 8, 4), "--mesh", "data=2", "--mode", "data")
    data = c.numbers(np.ones((5 * BATCH, 4), np.float32))
    # A rank is named from half a second of steps on. The slow device needs 2 ms more for each of six kernels of a step.
    log, steps, losses = c.folder / "log.jsonl", 80, []
    slow = {"TESSERA_EMULATOR_FAIL": "slow:1"}
    for options in ((), ("--no-graphs",), ("--trace", f"steps=1:{steps}", "--trace-file", c.folder / "trace.json")):
        log.unlink(missing_ok=True)
        said, _ = c.device(plan, "--steps", steps, "--log", log, *options, data=data, **slow)
        expect(re.search(r"^rank 1 was the slowest: .* ms of its own a step, .* times the others'", said, re.M), f"{options}: {said}")
        logged = [json.loads(line) for line in log.read_text().splitlines()]
        losses.append([line["loss"] for line in logged])
        # Known from the first run that is measured; a traced step always is.
        known = [i for i, line in enumerate(logged) if "rank_seconds" in line]
        expect(known == list(range(0 if "--trace" in options else 2, steps)), f"{options}: {known}")
        own = np.median([logged[i]["rank_seconds"] for i in known], axis=0)
        whole = np.median([line["seconds"] for line in logged])
        expect(own[1] > 2 * own[0] and own[1] < 1.1 * whole, f"{options}: {own} of {whole}")
    # If a graph with timers cannot be recorded, only the figure is missing.
    log.unlink()
    said, _ = c.device(plan, "--steps", steps, "--log", log, data=data, TESSERA_EMULATOR_FAIL="timers")
    expect("note: it is not measured which rank is slow" in said and "of its own a step" not in said, said)
    expect([json.loads(line)["loss"] for line in log.read_text().splitlines()] == losses[0], "other losses")


@case
def a_product_with_an_epilogue_is_named_where_it_spoils_a_step(c):
    """In whole programs the product is never stored. The check must still find the infinity in it."""
    plan = c.network(lambda net, x: net.linear(net.linear(x, "first", 4, 8), "second", 8, 4))
    x = np.random.default_rng(5).uniform(1, 2, (5 * BATCH, 4)).astype(np.float32)
    x[2 * BATCH + 3] = 3e38
    trace = c.folder / "trace.json"
    for options in ((), ("--trace", "steps=1:4", "--trace-file", trace)):
        _, error = c.device(plan, "--steps", "5", "--check-numerics", "stop", *options, data=c.numbers(x), code=3)
        expect(re.search(r"step 3, batch 2: .* the operator 'first[^']*' \(matmul\) makes an infinity of finite operands", error), error)
    said, _ = c.device(plan, "--epochs", "1", "--check-numerics", "skip", *options, data=c.numbers(x))
    expect("its update is left out" in said and "not finite: 1" in said, said)
    # The kernels of a trace run one by one; each tells how it runs in a whole program.
    kernels = [e["args"] for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    made = {k["implementation"] for k in kernels}
    expect(any("(in whole programs: with step" in i for i in made), made)
    expect(any("in whole programs: cuBLASLt f32 + bias)" in i for i in made), made)
    expect(all(k["flops"] > 0 for k in kernels if k["kernel"] == "matmul"), "a product without work")


def rooted(net, x):
    """Where a row of x is 0, so is the root, and its gradient is infinite."""
    first = net.node("MatMul", x, net.input("first.w", [4, 8]), name="first")
    return net.linear(net.node("Sqrt", net.node("Abs", first)), "second", 8, 4)


@case
def what_is_not_finite_is_told_as_on_the_cpu(c):
    """NaNs are found in inputs, results, gradients, parameters and states, in every precision, by programs and by single steps."""
    rng = np.random.default_rng(5)
    rows, bad = 5 * BATCH, 2 * BATCH + 6  # of rank 1
    good = rng.uniform(1, 2, (rows, 4)).astype(np.float32)

    def spoilt(value):
        x = good.copy()
        x[bad] = value
        return c.numbers(x)

    def told(plan, data, *options, device=True, code=3):
        command = [c.bin / "tessera-run", plan, "--data", data, "--epochs", "1", "--check-numerics", "stop", *options]
        done = subprocess.run([str(a) for a in command + (list(ON_DEVICE) if device else [])], capture_output=True, text=True,
                              timeout=300, env=c.env)
        expect(done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return re.search(r"step \d.*$", done.stderr, re.M).group(0) if code else ""

    apart = (), ("--no-graphs",), ("--trace", "steps=1:4", "--trace-file", c.folder / "trace.json")

    def same(plan, data, needed, *options, cpu=(), ways=((),)):
        expected = told(plan, data, *options, *cpu, device=False)
        expect(re.search(needed, expected), f"no '{needed}' in\n{expected}")
        for more in ways:
            found = told(plan, data, *options, *more)
            expect(found == expected, f"{more}: on the device\n{found}\non the CPU\n{expected}")

    mesh = ("--mesh", "data=2", "--mode", "data", "--no-fuse")
    for precision in ("f32", "bf16", "f16"):
        scale = ("--loss-scale", "static:scale=8") if precision == "f16" else ()
        plan = c.network(rooted, *mesh, "--precision", precision, *scale)
        same(plan, spoilt(np.nan), "step 3, batch 2: .* has a NaN before the step on rank 1")
        same(plan, spoilt(-np.inf), "step 3, batch 2: .* has an infinity before the step on rank 1")
    expect(told(plan, c.numbers(good), code=0) == "", "nothing is wrong")
    # One precision is enough for the NaNs of a gradient, an update and a state.
    plan = c.network(rooted, *mesh)
    same(plan, spoilt(0), r"step 3, batch 2: a gradient or an update is not finite: the operator '[^']*' \(\w+\) makes .* on rank 1",
         ways=apart)
    same(plan, spoilt(0), r"step 3, batch 2: a gradient or an update is not finite", "--f64", cpu=("--backend", "reference"))
    plan = c.network(rooted, *mesh, optimizer="sgd:lr=1e38,momentum=0.9")
    same(plan, c.numbers(good), "step [12], batch [01]: .* makes an infinity of finite operands")
    # The ReLU would be an epilogue, which takes NaN for 0.
    plan, x = c.compile("four", "data=4"), np.load(c.folder / "x.npy")
    x[bad] = np.nan
    np.save(c.folder / "nan.npy", x)
    same(plan, f"npy:{c.folder}/nan.npy,{c.folder}/y.npy", "step 3, batch 2: the loss is a NaN: .* has a NaN before the step on rank")
    # Leaving out a step while graphs are replayed gives, to the last bit, what the other batches give.
    plan, kept = c.network(rooted, *mesh, optimizer="adamw:lr=0.01"), np.delete(np.arange(rows), np.s_[2 * BATCH:3 * BATCH])
    c.device(plan, "--epochs", "6", "--save-weights", c.folder / "without", data=c.numbers(good[kept]))
    said, _ = c.device(plan, "--epochs", "6", "--check-numerics", "skip", "--save-weights", c.folder / "skipped", data=spoilt(0))
    expect(said.count("its update is left out") == 6, said)
    expect((c.folder / "without").read_bytes() == (c.folder / "skipped").read_bytes(), "other weights than without the batch")


@case
def a_bad_step_is_undone_with_copies_on_the_device_or_on_the_host(c):
    """Copies of parameters and states stay on the device where it has memory to spare."""
    plan, log = c.compile("two", "data=2", "data"), c.folder / "log.jsonl"
    x, y = (np.load(c.folder / f"{n}.npy") for n in "xy")
    kept = np.delete(np.arange(len(x)), np.s_[2 * BATCH:3 * BATCH])

    def source(name, x, y):
        np.save(c.folder / f"{name}_x.npy", x)
        np.save(c.folder / f"{name}_y.npy", y)
        return f"npy:{c.folder}/{name}_x.npy,{c.folder}/{name}_y.npy"

    good = source("good", x[kept], y[kept])
    x[2 * BATCH + 5] = np.nan
    bad = source("bad", x, y)

    def weights(data, *options, **env):
        log.unlink(missing_ok=True)
        said, _ = c.device(plan, "--epochs", "2", "--log", log, "--save-weights", c.folder / "weights", *options, data=data, **env)
        return said, json.loads(log.read_text().splitlines()[0])["memory_bytes"], (c.folder / "weights").read_bytes()

    _, without, _ = weights(good)
    _, copied, expected = weights(good, "--check-numerics", "stop")  # a ReLU is no epilogue then, as below
    expect(copied > without + 2 * 2**20, f"{copied} bytes, {without} without copies")
    least = without // 2**20 + 3
    for more, env in ((True, {}), (False, {"TESSERA_EMULATOR_FAIL": f"memory:{least}"})):
        said, memory, found = weights(bad, "--check-numerics", "skip", **env)
        expect("not finite: 2" in said and found == expected, f"{env}: other weights than without the batch\n{said}")
        expect((memory > without + 2 * 2**20) == more, f"{env}: {memory} bytes, {without} without copies")


if __name__ == "__main__":
    main(__doc__, Context)
