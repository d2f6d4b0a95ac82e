#!/usr/bin/env python3
"""What training reads: token files and trees of images, on any mesh and resumed; what its event files say.

usage: data_test.py --bin DIR --models DIR [NAME...]      NAME: only these cases
"""
import json
import struct
import subprocess
import sys
import time
import zlib

import numpy as np
import onnx
import onnx.numpy_helper

from cases import Programs, case, main


class Context(Programs):
    def log(self, plan, *options):
        """The log of a training run, one entry per step."""
        self.count += 1
        path = self.folder / f"log{self.count}.jsonl"
        self.run(self.bin / "tessera-run", plan, "--log", path, *options)
        return [json.loads(line) for line in path.read_text().splitlines()]

    def losses(self, plan, *options):
        return [entry["loss"] for entry in self.log(plan, *options)]

    def gpt(self):
        path = self.folder / "gpt.onnx"
        subprocess.run([sys.executable, self.models / "networks.py", "gpt", "-o", path, "layers=1", "hidden=32",
                        "heads=2", "words=300", "batch=8", "length=16"], check=True)
        return path

    def linear(self):
        """A network from images [8, 3, 16, 20] to ten classes."""
        path = self.folder / "linear.onnx"
        tensor = onnx.helper.make_tensor_value_info
        weights = onnx.numpy_helper.from_array(np.random.default_rng(3).normal(0, 0.01, (960, 10)).astype(np.float32), "w")
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Flatten", ["x"], ["flat"]), onnx.helper.make_node("MatMul", ["flat", "w"], ["y"])],
            "linear", [tensor("x", onnx.TensorProto.FLOAT, [8, 3, 16, 20])],
            [tensor("y", onnx.TensorProto.FLOAT, [8, 10])], [weights])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
        return path

    def compile(self, model, *options):
        self.count += 1
        plan = self.folder / f"plan{self.count}"
        self.run(self.bin / "tessera-compile", model, "--train", "--loss", "cross_entropy", "-o", plan, *options)
        return plan


def tokens(count, words):
    """A file of tokens that can be learned: most tokens are followed by their successor."""
    rng = np.random.default_rng(1)
    steps = np.where(rng.random(count) < 0.9, 1, rng.integers(0, words, count))
    return (np.cumsum(steps) % words).astype(np.uint16)


@case
def token_files_train_the_same_on_any_mesh(c):
    tokens(5000, 300).tofile(c.folder / "text.bin")
    model, options = c.gpt(), ("--inputs", "ids", "--init", "normal:0.02", "--optimizer", "sgd:lr=0.5")
    plans = [c.compile(model, *options, "--mesh", *mesh) for mesh in (("data=1",), ("data=2,model=2", "--mode", "auto"))]
    exact = ("--data", f"tokens:{c.folder}/text.bin", "--f64", "--backend", "reference", "--steps", 30)
    one, four = (c.losses(plan, *exact) for plan in plans)
    assert np.allclose(one, four, rtol=1e-9), (one, four)
    assert one[-1] < one[0] - 0.1, one
    # A run that is interrupted and resumed goes on with the next window.
    checkpoints = c.folder / "checkpoints"
    first = c.losses(plans[1], *exact[:-1], 13, "--checkpoint-dir", checkpoints)
    rest = c.losses(plans[1], *exact, "--resume", checkpoints)
    assert first + rest == four, (first, rest, four)


@case
def an_id_outside_the_embedding_is_named(c):
    text = tokens(5000, 300)
    text[77] = 300
    np.save(c.folder / "text.npy", text)
    for mesh in ("data=1", "model=2"):
        plan = c.compile(c.gpt(), "--inputs", "ids", "--init", "normal:0.02", "--optimizer", "sgd:lr=0.5", "--mesh", mesh,
                         "--mode", "auto")
        told = c.run(c.bin / "tessera-run", plan, "--data", f"tokens:{c.folder}/text.npy", code=1)
        assert "text.npy: token 77 is 300, but ids are 0 to 299" in told, told


def write_png(path, pixels):
    """The format by its description, without anybody's library."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def image_tree(folder):
    """Ten classes of bright quadrants and colours, six images each."""
    rng = np.random.default_rng(2)
    for cls in range(10):
        for i in range(6):
            pixels = rng.integers(0, 60, (40 + i, 48 - i, 3), dtype=np.uint8)
            pixels[cls % 2 * 20:][:20, :, cls % 3] += 150
            write_png(folder / f"class{cls}" / f"{i}.png", pixels)


@case
def image_folders_train_the_same_on_any_mesh(c):
    image_tree(c.folder / "images")
    model, options = c.linear(), ("--optimizer", "sgd:lr=0.01")
    plans = [c.compile(model, *options, "--mesh", *mesh) for mesh in (("data=1",), ("data=2,model=2", "--mode", "auto"))]
    exact = ("--data", f"imagefolder:{c.folder}/images", "--f64", "--backend", "reference", "--steps", 4)
    one, four = (c.losses(plan, *exact) for plan in plans)
    assert np.allclose(one, four, rtol=1e-9), (one, four)
    checkpoints = c.folder / "checkpoints"
    first = c.losses(plans[1], *exact[:-1], 2, "--checkpoint-dir", checkpoints)
    rest = c.losses(plans[1], *exact, "--resume", checkpoints)
    assert first + rest == four, (first, rest, four)
    # A damaged file ends the run, or is named in a notice.
    broken = c.folder / "images" / "class3" / "0.png"
    broken.write_bytes(broken.read_bytes()[:200])
    epoch = ("--data", f"imagefolder:{c.folder}/images,on_error=", "--epochs", 1)
    told = c.run(c.bin / "tessera-run", plans[1], epoch[0], epoch[1] + "fail", *epoch[2:], code=1)
    assert "class3/0.png: is no intact PNG file" in told, told
    told = c.run(c.bin / "tessera-run", plans[1], epoch[0], epoch[1] + "skip", *epoch[2:])
    assert "class3/0.png: is no intact PNG file" in told and "trained 7 steps" in told, told


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """The fields of a protocol buffers message: (number, value)."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at

    at = 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        else:
            size, start = (8, at) if key & 7 == 1 else (4, at) if key & 7 == 5 else varint(at)
            value, at = data[start:start + size], start + size
        yield key >> 3, value


def records(path):
    """The records of a TFRecord file, checksums checked."""
    data = path.read_bytes()
    while data:
        length, = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == crc32c(data[:8])
        event = data[12:12 + length]
        assert struct.unpack("<I", data[12 + length:16 + length])[0] == crc32c(event)
        data = data[16 + length:]
        yield event


@case
def arrays_are_given_by_name_and_without_a_batch_dimension(c):
    """y = (x - z + place) w: two inputs of one shape, and one that all samples share."""
    rng = np.random.default_rng(4)
    w = rng.normal(size=(3, 2)).astype(np.float32)
    info, f32 = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Sub", ["x", "z"], ["d"]), onnx.helper.make_node("Add", ["d", "place"], ["a"]),
         onnx.helper.make_node("MatMul", ["a", "w"], ["y"])], "places",
        [info("x", f32, ["batch", 5, 3]), info("z", f32, ["batch", 5, 3]), info("place", f32, [5, 3])],
        [info("y", f32, None)], [onnx.numpy_helper.from_array(w, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), c.folder / "places.onnx")
    x, z, place = (rng.normal(size=shape).astype(np.float32) for shape in ((8, 5, 3), (8, 5, 3), (5, 3)))
    files = {name: c.folder / f"{name}.npy" for name in ("x", "z", "place")}
    for name, array in zip(files, (x, z, place)):
        np.save(files[name], array)
    for mesh in ("data=1", "data=2"):
        plan = c.folder / f"places-{mesh}"
        c.run(c.bin / "tessera-compile", c.folder / "places.onnx", "--dim", "batch=4", "--mesh", mesh, "-o", plan)
        infer = lambda data, **more: c.run(c.bin / "tessera-run", plan, "--infer", "--output", c.folder / "out", "--data",
                                           data, **more)
        told = infer("npy:" + ",".join(f"{name}={files[name]}" for name in ("place", "z", "x")))
        assert "though there is an input" not in told, told
        assert np.allclose(np.load(c.folder / "out" / "output0.npy"), (x - z + place) @ w, atol=1e-5)
        told = infer(f"npy:{files['z']},{files['x']},{files['place']}")
        assert told.count("z.npy is read as 'x', though there is an input 'z'") == 1, told
        assert np.allclose(np.load(c.folder / "out" / "output0.npy"), (z - x + place) @ w, atol=1e-5)
        told = infer(f"npy:x={files['x']},z={files['z']}", code=1)
        assert "has no file for 'place'; the program reads 'x', 'z', 'place'" in told, told
        told = infer("synthetic", code=1)
        assert "input 2 of shape [5, 3] has no batch dimension of 4 samples; synthetic cannot fill it" in told, told


@case
def event_files_say_what_the_log_says(c):
    assert crc32c(b"123456789") == (((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    plan = c.compile(c.linear(), "--mesh", "data=2", "--optimizer", "sgd:lr=0.01")
    log = c.log(plan, "--data", "synthetic:samples=40,eval_samples=16", "--steps", 5, "--eval-each-epoch",
                "--tensorboard", c.folder / "events")
    (path,) = (c.folder / "events").glob("events.out.tfevents.*")
    first, *events = records(path)
    assert (3, b"brain.Event:2") in fields(first)
    assert len(events) == len(log) == 6, log
    for event, entry in zip(events, log):
        message = dict(fields(event))
        assert message[2] == entry.pop("step") and abs(struct.unpack("<d", message[1])[0] - time.time()) < 600
        prefix = "eval/" if entry.pop("eval", 0) else "train/"
        assert len(entry.pop("rank_seconds", [0, 0])) == 2  # no scalar, so only in the log
        values = {}
        for _, value in fields(message[5]):
            scalar = dict(fields(value))
            values[scalar[1].decode()] = struct.unpack("<f", scalar[2])[0]
        assert values == {prefix + k: np.float32(v) for k, v in entry.items()}, (values, entry)
    assert {"loss", "samples_per_second", "memory_bytes"} <= log[0].keys() and "accuracy" in log[-1]


if __name__ == "__main__":
    main(__doc__, Context)
