#!/usr/bin/env python3
"""One contestant's round of versus_pytorch.py, in a process of its own and by the Python that has the libraries.

usage: PYTHON test/benchmark/torch_contestant.py TASK JSON      prints one JSON object as its last line

Tasks: facts (of a network: files x.npy, y.npy and net.onnx in a folder), train, pipeline (dense layers in stages), infer, product (a
yardstick). The keys of JSON are the parameters of the function of the task's name.
"""
import inspect
import json
import os
import pathlib
import sys
import time
import warnings

import numpy as np


def timed(run, steps):
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def product(precision, size=4096, threads=2, steps=5):
    import torch

    torch.set_num_threads(threads)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size).to(kind) for _ in "ab")
    return {"times": timed(lambda: torch.mm(a, b), steps)}


def forward_flops(net, inputs):
    """Two operations for every multiply-add of convolutions, dense layers and products of activations."""
    import torch

    total = [0]

    def hook(module, inputs, output):
        if isinstance(module, torch.nn.Conv2d):
            total[0] += 2 * output.numel() * module.weight[0].numel()
        elif isinstance(module, torch.nn.ConvTranspose2d):
            total[0] += 2 * inputs[0].numel() * module.weight[0].numel()
        elif isinstance(module, torch.nn.Linear):
            total[0] += 2 * output.numel() * module.in_features

    times = torch.Tensor.__matmul__

    def counted(a, b):
        out = times(a, b)
        total[0] += 2 * out.numel() * a.shape[-1]
        return out

    for module in net.eval().modules():
        module.register_forward_hook(hook)
    torch.Tensor.__matmul__ = counted
    with torch.no_grad():
        net(torch.from_numpy(inputs))
    torch.Tensor.__matmul__ = times
    return total[0]


def facts(network, folder, train, batch=0):
    """Exports the network, by the older exporter where PyTorch has one."""
    import torch
    from torch_networks import NETWORKS, with_batch

    if network not in NETWORKS:
        sys.exit(f"there is no network '{network}' in torch_networks.py: it has {', '.join(NETWORKS)}")
    make, inputs, target, adam, images = NETWORKS[network]
    inputs = with_batch(inputs, batch)
    folder = pathlib.Path(folder)
    np.save(folder / "x.npy", inputs)
    np.save(folder / "y.npy", target)
    two = "dynamo" in inspect.signature(torch.onnx.export).parameters

    def export(**options):
        torch.onnx.export(make().train(train), (torch.from_numpy(inputs),), str(folder / "net.onnx"), input_names=["x"],
                          output_names=["logits"], **options)

    try:
        export(opset_version=17, **({"dynamo": False} if two else {}),
               **({"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False} if train else {}))
    except Exception:
        if not two:
            raise
        export(dynamo=True, optimize=not train, verbose=False)
    return {"adam": adam, "images": images, "flops": forward_flops(make(), inputs), "torch": torch.__version__}


def train(network, steps, threads=2, channels_last=False, compiled=False, precision="f32", ranks=1):
    import torch
    from torch_networks import NETWORKS

    torch.set_num_threads(threads)
    make, inputs, target, adam, _ = NETWORKS[network]
    rank, batch = int(os.environ.get("RANK", 0)), len(inputs)
    part = slice(rank * batch // ranks, (rank + 1) * batch // ranks)
    net, x, y = make().train(), torch.from_numpy(inputs[part]), torch.from_numpy(target[part])
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        net = torch.nn.parallel.DistributedDataParallel(net)
    model = torch.compile(net) if compiled else net
    optimizer = (torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.01) if adam else
                 torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4))
    losses = []

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            out = model(x)
            if out.dim() == 3:  # classes last
                out = out.transpose(1, 2)
            loss = torch.nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    times = timed(step, steps)
    if ranks > 1:
        torch.distributed.destroy_process_group()
    return {"times": times, "losses": losses}


def pipeline(width, layers, batch, parts, schedule, steps, threads=1):
    """Dense layers with rectifiers, as many on every rank, trained in stages by torch.distributed.pipelining."""
    import torch
    from torch.distributed import pipelining

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group("gloo")
    net = torch.nn.Sequential(*(layer for _ in range(layers // ranks) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())))
    stage = pipelining.PipelineStage(net, rank, ranks, torch.device("cpu"))
    kind = {"1f1b": pipelining.Schedule1F1B, "gpipe": pipelining.ScheduleGPipe}[schedule]
    order = kind(stage, parts, loss_fn=torch.nn.functional.cross_entropy)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y, losses = torch.randn(batch, width), torch.randint(0, width, (batch,)), []

    def step():
        optimizer.zero_grad()
        found = []
        order.step(*([x] if rank == 0 else []), **({"target": y, "losses": found} if rank == ranks - 1 else {}))
        optimizer.step()
        losses.extend([sum(loss.item() for loss in found) / parts] if found else [])

    times = timed(step, steps)
    torch.distributed.destroy_process_group()
    return {"times": times, "losses": losses}


def infer(engine, network, folder, steps, threads=2):
    """The times of batches, and the first output in out.npy."""
    x = np.load(pathlib.Path(folder) / "x.npy")
    model = str(pathlib.Path(folder) / "net.onnx")
    if engine == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        run = lambda: session.run(None, {"x": x})[0]
    elif engine == "openvino":
        import openvino

        request = openvino.Core().compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        ).create_infer_request()
        run = lambda: request.infer({0: x})[0]
    else:
        import torch
        from torch_networks import NETWORKS

        torch.set_num_threads(threads)
        net, x = NETWORKS[network][0]().eval(), torch.from_numpy(x)
        if "channels-last" in engine:
            net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        if "compiled" in engine:
            net = torch.compile(net)

        def run():
            with torch.inference_mode():
                return net(x)

    times = timed(run, steps)
    np.save(pathlib.Path(folder) / "out.npy", np.asarray(run()))
    return {"times": times}


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    warnings.filterwarnings("ignore")  # of the exporter, for every BatchNorm's counter
    task = {f.__name__: f for f in (product, facts, train, pipeline, infer)}[sys.argv[1]]
    result = task(**json.loads(sys.argv[2]))
    # Not getrusage: its maximum counts the parent's memory between fork and exec.
    result["peak_mib"] = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
