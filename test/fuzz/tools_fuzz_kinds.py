"""What tools_fuzz.py tries: samples of every kind of file, and for each kind the commands that read it.

    make_samples(folder, run)            # once; run("tessera-compile", …) in the folder
    trial = KINDS["plan"](rng, folder)   # folder: a copy, which the trial may change
"""
import dataclasses
import gzip
import json
import pathlib
import shutil
import struct
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools_fuzz_mutate import NAMES, NUMBERS, signed_manifest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = {}


@dataclasses.dataclass
class Trial:
    program: str
    arguments: list  # from the folder above `in` and `out`
    files: list      # of `in`, that are mutated
    sign: object = None
    environment: dict = dataclasses.field(default_factory=dict)


def kind(function):
    KINDS[function.__name__] = function
    return function


#--- samples


def model(path, nodes, inputs, outputs, weights, external=None):
    held = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(made, str(path), **({"save_as_external_data": True, "location": external, "size_threshold": 0} if external else {}))


def png(width, height):
    rows = b"".join(b"\0" + bytes((x * 7 + y * 3 + c * 50) & 255 for x in range(width) for c in range(3)) for y in range(height))
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))  # noqa: E731
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_samples(folder, run, images=None):
    """`images`: a folder with more of them."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    values = lambda *shape: rng.normal(0, 0.1, shape).astype(np.float32)  # noqa: E731
    tensor, node, F, I = helper.make_tensor_value_info, helper.make_node, TensorProto.FLOAT, TensorProto.INT64
    dense = [node("Gemm", ["x", "w1", "b1"], ["h"], name="fc1"), node("Relu", ["h"], ["r"], name="relu"),
             node("Gemm", ["r", "w2", "b2"], ["y"], name="fc2")]
    io = [tensor("x", F, ["batch", 6])], [tensor("y", F, ["batch", 4])]
    weights = {"w1": values(6, 8), "b1": values(8), "w2": values(8, 4), "b2": values(4)}
    model(folder / "model.onnx", dense, *io, weights)
    model(folder / "external.onnx", dense, *io, weights, external="external.bin")
    model(folder / "image.onnx", [node("Conv", ["x", "k"], ["c"], name="conv", strides=[4, 4]), node("Flatten", ["c"], ["f"]),
                                  node("MatMul", ["f", "w"], ["y"], name="fc")],
          [tensor("x", F, ["batch", 3, 32, 32])], [tensor("y", F, ["batch", 10])], {"k": values(2, 3, 4, 4), "w": values(128, 10)})
    model(folder / "words.onnx", [node("Gather", ["e", "ids"], ["h"], name="embed"), node("MatMul", ["h", "w"], ["y"], name="head")],
          [tensor("ids", I, ["batch", 8])], [tensor("y", F, ["batch", 8, 30])], {"e": values(30, 4), "w": values(4, 30)})
    shutil.copy(ROOT / "test/models/mlp_hybrid.onnx", folder / "hybrid.onnx")
    shutil.copy(ROOT / "test/models/mlp_hybrid.json", folder / "hybrid.json")
    np.save(folder / "x.npy", values(16, 6))
    np.save(folder / "y.npy", rng.integers(0, 4, 16))
    (folder / "cifar").mkdir()
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = rng.integers(0, 256, (8, 3073)).astype(np.uint8)
        records[:, 0] %= 10
        (folder / "cifar" / name).write_bytes(records.tobytes())
    for cls in range(10):
        (folder / "images" / f"c{cls}").mkdir(parents=True)
        for i in range(2):
            (folder / "images" / f"c{cls}" / f"{i}.png").write_bytes(png(36, 40))
    for i, image in enumerate(sorted(images.glob("seed*")) if images else ()):
        ending = "png" if image.read_bytes().startswith(b"\x89PNG") else "jpg"
        shutil.copy(image, folder / "images/c1" / f"s{i}.{ending}")
    rng.integers(0, 30, 500).astype(np.uint16).tofile(folder / "tokens.bin")
    (folder / "topology.json").write_text(json.dumps({
        "name": "box", "devices": 2, "flops": {"f32": 1e12, "f16": 4e12}, "memory_bandwidth": 1e11, "memory": "16GiB",
        "links": [{"devices": 2, "latency": 1e-6, "bandwidth": 1e10}]}))
    (folder / "strategy.json").write_text(json.dumps([{"op": "fc1", "in": [[1, 1], [1, 2]]}, {"op": "fc2", "in": [[1, 2], [2, 1]]}]))
    (folder / "table.json").write_text(json.dumps({"version": "1.0", "server_count": "1", "status": "completed", "server_list": [
        {"server_id": "127.0.0.1", "device": [{"device_id": str(r), "device_ip": "127.0.0.1", "rank_id": str(r)} for r in (0, 1)]}]}))
    (folder / "map.json").write_text(json.dumps({"w1": "a.first", "w2": {"name": "a.second", "transpose": True}, "b*": "a.b*"}))
    train = ("--train", "--dim", "batch=4", "--optimizer", "adam:lr=0.01", "-q")
    auto = ("--mesh", "data=2", "--mode", "auto")
    run("tessera-compile", "model.onnx", *train, *auto, "-o", "plan", "--save-strategies", "saved.json", "--dump-strategy-graph",
        "graph.json", "--dump-phases", "phases")
    (folder / "graph.gz").write_bytes(gzip.compress((folder / "graph.json").read_bytes()))
    run("tessera-compile", "image.onnx", *train, "--mesh", "data=2", "-o", "plan_image")
    run("tessera-compile", "words.onnx", *train, "--mesh", "data=2", "-o", "plan_words")
    run("tessera-profile", "--mesh", "2", "--seconds", "0.001", "--max-bytes", "4KiB", "-q", "-o", "profile.json")
    data = ("--data", "npy:x.npy,y.npy", "--quiet")
    run("tessera-run", "plan", *data, "--steps", 2, "--checkpoint-dir", "run", "--checkpoint-every", 1, "--save-weights", "w.safetensors")
    run("tessera-run", "plan", *data, "--steps", 1, "--checkpoint-dir", "whole", "--integrated")
    renamed = {"w1": "a.first", "w2": "a.second", "b1": "a.b1", "b2": "a.b2"}
    (folder / "renamed.safetensors").write_bytes(renamed_safetensors((folder / "w.safetensors").read_bytes(), renamed))


def renamed_safetensors(data, names):
    length = int.from_bytes(data[:8], "little")
    header = {names.get(k, k): v for k, v in json.loads(data[8:8 + length]).items()}
    header["a.second"]["shape"].reverse()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length:]


#--- files


TRAIN = ["--train", "--dim", "batch=4", "--optimizer", "adam:lr=0.01", "--mesh", "data=2"]
NPY = ["--data", "npy:in/x.npy,in/y.npy"]


def compiles(file, *options, files=None, out="out/plan"):
    return Trial("tessera-compile", [file, *TRAIN, *options, "-o", out], files)


def runs(plan, *options, files, sign=None, **environment):
    return Trial("tessera-run", [plan, "--steps", "1", *options], files, sign, environment)


@kind
def onnx_model(rng, folder):
    how = rng.choice([TRAIN + ["-o", "out/plan"], ["--dim", "batch=4", "-o", "out/plan"], ["--list-parameters"],
                      ["--export-weights", "out/w"], TRAIN + ["--mode", "auto", "--search-only"],
                      TRAIN + ["--what-if", "nodes=1", "--topology", "8xh100"]])
    file = rng.choice(["model.onnx", "image.onnx", "words.onnx"])
    return Trial("tessera-compile", ["in/" + file, *how], [file])


@kind
def external_data(rng, folder):
    return compiles("in/external.onnx", files=[rng.choice(["external.onnx", "external.onnx", "external.bin"])])


@kind
def hybrid_options(rng, folder):
    file = rng.choice(["hybrid.json"] * 3 + ["hybrid.onnx"])
    return Trial("tessera-compile", ["in/hybrid.onnx", "--mode", "hybrid", "--hybrid-options", "in/hybrid.json", "--mesh",
                                     "data=2,model=2", "--train", "--dim", "batch=8", "-o", "out/plan"], [file])


@kind
def strategy_file(rng, folder):
    return compiles("in/model.onnx", "--mode", "semi-auto", "--strategy", "in/strategy.json", files=["strategy.json"])


@kind
def saved_strategies(rng, folder):
    return compiles("in/model.onnx", "--mode", rng.choice(["auto", "semi-auto"]), "--strategy", "in/saved.json", files=["saved.json"])


@kind
def topology(rng, folder):
    return compiles("in/model.onnx", "--mode", "auto", "--topology", "in/topology.json", files=["topology.json"])


@kind
def profile(rng, folder):
    if rng.random() < 0.3:
        return Trial("tessera-profile", ["--mesh", "2", "--seconds", "0.001", "--max-bytes", "1KiB", "--add-to", "in/profile.json",
                                         "-o", "out/p.json"], ["profile.json"])
    return compiles("in/model.onnx", "--mode", "auto", "--profile", "in/profile.json", files=["profile.json"])


@kind
def strategy_graph(rng, folder):
    return Trial("tessera-solve", ["in/graph.json", "--seconds", "1", "--output", "out/c.json"], ["graph.json"])


@kind
def strategy_graph_gz(rng, folder):
    if rng.random() < 0.5:
        return Trial("tessera-solve", ["in/graph.gz", "--seconds", "1"], ["graph.gz"])
    plain = gzip.decompress((folder / "graph.gz").read_bytes())
    (folder / "graph.gz").write_bytes(plain)
    return Trial("tessera-solve", ["in/graph.gz", "--seconds", "1"], ["graph.gz"], gzip.compress)


@kind
def plan_run(rng, folder):
    mode = rng.choice([[], ["--eval"], ["--infer", "--output", "out/o"], ["--verify"], ["--backend", "null"], ["--f64"]])
    return runs("in/plan", *NPY, *mode, files=[rng.choice(["plan/rank0.plan", "plan/rank1.plan", "plan/sequential.plan"])])


@kind
def plan_dump(rng, folder):
    mode = rng.choice([[], ["--json"], ["--all"], ["--svg", "out/p.svg"], ["--html", "out/p.html"], ["--explain", "fc1"], ["--parameters"]])
    file = rng.choice([f.name for f in (folder / "plan").iterdir()])
    return Trial("tessera-dump", ["in/plan", *mode], ["plan/" + file])


@kind
def plan_weights(rng, folder):
    return runs("in/plan", *NPY, files=["plan/weights.safetensors"])


@kind
def plan_recipe(rng, folder):
    return runs("in/plan", *NPY, "--processes", "--elastic", "--restarts", "1", "--checkpoint-dir", "out/run",
                files=["plan/compile.json"])


@kind
def weights(rng, folder):
    return runs("in/plan", *NPY, "--weights", "in/w.safetensors", files=["w.safetensors"])


@kind
def weights_map(rng, folder):
    return runs("in/plan", *NPY, "--weights", "in/renamed.safetensors", "--weights-map", "in/map.json", files=["map.json"])


def checkpoint_command(rng, step):
    return rng.choice([
        lambda f, s: Trial("tessera-ckpt", ["show", step], f, s), lambda f, s: Trial("tessera-ckpt", ["show", step, "--json"], f, s),
        lambda f, s: Trial("tessera-ckpt", ["verify", step], f, s),
        lambda f, s: Trial("tessera-ckpt", ["merge", step, "-o", "out/m"], f, s),
        lambda f, s: Trial("tessera-ckpt", ["split", step, "-o", "out/s", "--parts", "3"], f, s),
        lambda f, s: Trial("tessera-ckpt", ["split", step, "-o", "out/s", "--plan", "in/plan"], f, s),
        lambda f, s: Trial("tessera-ckpt", ["compare", step, "in/run/step-00000001"], f, s),
        lambda f, s: Trial("tessera-ckpt", ["export", step, "-o", "out/e", "--dtype", "F16"], f, s),
        lambda f, s: Trial("tessera-run", ["in/plan", *NPY, "--steps", "3", "--resume", step], f, s)])


@kind
def checkpoint_manifest(rng, folder):
    step = rng.choice(["run/step-00000002", "whole/step-00000001"])
    return checkpoint_command(rng, "in/" + step)([step + "/manifest.json"], signed_manifest)


@kind
def checkpoint_tensors(rng, folder):
    step = rng.choice(["run/step-00000002", "whole/step-00000001"])
    file = rng.choice(sorted(f.name for f in (folder / step).glob("*.safetensors")))

    def sums(data):  # the manifest's are those of the mutated file
        path = folder / step / "manifest.json"
        manifest = json.loads(path.read_text())
        for entry in manifest["files"]:
            if entry["name"] == file:
                chunk = manifest["chunk_bytes"]
                entry |= {"bytes": len(data), "crc32": [f"{zlib.crc32(data[i:i + chunk]):08x}" for i in range(0, len(data), chunk)]}
        path.write_bytes(signed_manifest(json.dumps(manifest).encode()))
        return data
    return checkpoint_command(rng, "in/" + step)([f"{step}/{file}"], sums)


@kind
def data_npy(rng, folder):
    source = rng.choice(["npy:in/x.npy,in/y.npy", "npy:x=in/x.npy,target=in/y.npy"])
    return runs("in/plan", "--data", source, files=[rng.choice(["x.npy", "y.npy"])])


@kind
def data_cifar(rng, folder):
    return runs("in/plan_image", "--data", "cifar10:in/cifar", files=[f"cifar/data_batch_{rng.randrange(1, 6)}.bin"])


@kind
def data_images(rng, folder):
    file = rng.choice(sorted((folder / "images").rglob("*.*")))
    more = rng.choice(["", ",on_error=skip"])
    return Trial("tessera-run", ["in/plan_image", "--data", "imagefolder:in/images" + more, "--epochs", "1"],
                 [str(file.relative_to(folder))])


@kind
def data_tokens(rng, folder):
    return runs("in/plan_words", "--data", "tokens:in/tokens.bin", files=["tokens.bin"])


@kind
def rank_table(rng, folder):
    return runs("in/plan", *NPY, "--rank-table", "in/table.json", "--rendezvous-timeout", "3", "--peer-timeout", "5",
                files=["table.json"], MASTER_PORT=str(rng.randrange(20000, 60000)))


@kind
def mlir_program(rng, folder):
    phases = sorted((folder / "phases").glob("*.mlir"))
    if rng.random() < 0.5:
        return Trial("tessera-profile", ["in/phases/2-training.mlir", "--mesh", "2", "--seconds", "0.001", "--max-bytes", "1KiB",
                                         "-o", "out/p.json"], ["phases/2-training.mlir"])
    passes = rng.choice([["--graph-simplify"], ["--dist-insert-reshards", "--dist-localize"], []])
    file = rng.choice(phases).name
    return Trial("tessera-opt", [*passes, "in/phases/" + file, "-o", "out/x.mlir"], ["phases/" + file])


#--- command lines and environments


WORDS = ["", "x", "foo", "-", "--", "=", ",", ":", "data=2", "data=2,model=2", "2", "0", "auto", "cpu", "null", "steps=1", "all",
         "in/model.onnx", "in/plan", "in/x.npy", "in/nothing", "in", "out/new", "in/plan/rank0.plan", "in/run", "synthetic",
         "synthetic:classes=4", "npy:in/x.npy,in/y.npy", "batch=4", "1KiB", "1e3", "none", "sgd:lr=0.1", "cosine:steps=3", "full",
         "in/strategy.json", "in/topology.json", "a=1,b=2,c=3", "*", "mse", "bf16", "f32"] + [str(n) for n in NUMBERS] + NAMES
LONG = {"--search-budget", "--seconds", "--work", "--steps", "--epochs", "--rendezvous-timeout", "--peer-timeout", "--restarts",
        "--max-bytes", "--search-threads", "--threads", "--accumulate"}  # a large number is a long wait, and no mistake
OPTIONS = {
    "tessera-compile": (["in/model.onnx"], """--output --what-if --search-only --export-weights --mesh --mode --hybrid-options
        --strategy --save-strategies --topology --profile --memory --search-budget --search-gap --split-groups --searcher --dump-strategy-graph
        --search-threads --dim --init --force-init --init-at-start --seed --inputs --parameters --constants --freeze
        --freeze-batchnorm --list-parameters --train --loss --optimizer --schedule --gradient-reduction --broadcast-parameters
        --clip-norm --accumulate --precision --loss-scale --recompute --aux-outputs --dump-phases --no-fuse --no-fuse-attention
        --accept --json --quiet --version --completion --man --help"""),
    "tessera-run": (["in/plan", "--data", "synthetic", "--steps", "1"], """--data --eval --infer --verify --steps --epochs --seed
        --shuffle --augment --eval-each-epoch --eval-data --output --tolerance --weights --weights-map --save-weights
        --checkpoint-dir --checkpoint-every --keep --integrated --resume --processes --no-processes --rank-table --rendezvous-timeout
        --peer-timeout --restarts --elastic --step-timeout --log-dir --ranks --threads --device --share-devices --tf32 --tiled-attention --no-graphs
        --backend --f64 --log --tensorboard --check-numerics --trace --trace-file --profile --quiet --version --completion --man"""),
    "tessera-dump": (["in/plan"], "--json --explain --all --svg --html --trace --log --parameters --version --completion --man --help"),
    "tessera-solve": (["in/graph.json", "--seconds", "1"], """--seconds --work --threads --seed --gap --searcher --verbose --output
        --version --completion"""),
    "tessera-profile": (["--mesh", "2", "--seconds", "0.001", "--max-bytes", "1KiB", "-o", "out/p.json"], """--output --mesh
        --write-topology --like --device --add-to --backend --seconds --max-bytes --quiet --version --man in/phases/2-training.mlir"""),
    "tessera-ckpt": (["show", "in/run"], """show verify merge split compare export --json --output --parts --plan --tolerance --dtype
        --all in/whole in/run out/m"""),
}
# Options whose value names what is written: what stands there before is no trial of what is lost, so it is new, or an input.
WRITES = {"--output", "-o", "--export-weights", "--save-strategies", "--dump-strategy-graph", "--save-weights", "--trace-file",
          "--svg", "--write-topology", "--log"}
FOLDERS = {"--checkpoint-dir", "--log-dir", "--tensorboard", "--dump-phases"}


def command_line(program):
    def trial(rng, folder):
        arguments, options = list(OPTIONS[program][0]), OPTIONS[program][1].split()
        for _ in range(rng.choice((1, 1, 2, 3, 6))):
            option = rng.choice(options)
            if option in WRITES:
                value = rng.choice(["out/a", "out/b/c", "", "in", arguments[0], "/dev/null"])
            elif option in FOLDERS:
                value = rng.choice(["out/a", "out/b", "in/x.npy", "", "/dev/null"])
            elif option in LONG:
                value = rng.choice(["0", "1", "2", "-1", "x", "nan", "", "1e-3"])
            else:
                value = rng.choice(WORDS)
            value = value.replace("\0", "")  # no argument holds one
            at = rng.randrange(len(arguments) + 1)
            arguments[at:at] = rng.choice([[option, value], [f"{option}={value}"], [option]])
        if rng.random() < 0.2:
            del arguments[rng.randrange(len(arguments))]
        return Trial(program, arguments, [])
    trial.__name__ = "line_" + program.removeprefix("tessera-")
    return kind(trial)


for name in OPTIONS:
    command_line(name)


@kind
def environment(rng, folder):
    names = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK_ID", "TESSERA_SECRET",
             "TESSERA_LISTEN_ADDRESS", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", "SLURM_STEP_NODELIST",
             "SLURM_LOCALID", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT", "OMP_NUM_THREADS", "LANG", "HOME", "TMPDIR"]
    values = [w.replace("\0", "") for w in ["0", "1", "2", "4", "127.0.0.1", "localhost", "n[1-2]", "True", *WORDS]]
    chosen = {name: rng.choice(values) for name in rng.sample(names, rng.randrange(1, 7))}
    return Trial("tessera-run", ["in/plan", *NPY, "--steps", "1", "--rendezvous-timeout", "2"], [], None, chosen)
