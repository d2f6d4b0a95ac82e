"""safetensors files and checkpoints by their descriptions, without the programs that write them."""
import itertools
import json
import zlib

import numpy as np

DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64}


def read_safetensors(path):
    """Reads the format by its description, without a library."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, contents = {}, b""
    names = {np.dtype(value): name for name, value in DTYPES.items()}
    for name, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape),
                        "data_offsets": [len(contents), len(contents) + len(data)]}
        contents += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + contents)


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


def sums_hold(folder):
    """Every checksum of a checkpoint, those of the manifest included."""
    manifest = manifest_of(folder)
    told = manifest.pop("crc32")
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if f"{zlib.crc32(text.encode()):08x}" != told:
        return False
    for file in manifest["files"]:
        data = (folder / file["name"]).read_bytes()
        chunks = [data[i:i + manifest["chunk_bytes"]] for i in range(0, len(data), manifest["chunk_bytes"])]
        if len(data) != file["bytes"] or [f"{zlib.crc32(c):08x}" for c in chunks] != file["crc32"]:
            return False
    return True


def whole_tensors(folder):
    """Every tensor of a checkpoint, put together as the manifest says."""
    manifest = manifest_of(folder)
    files = [read_safetensors(folder / file["name"]) for file in manifest["files"]]
    whole = {}
    for name, tensor in manifest["tensors"].items():
        array = np.zeros(tensor["shape"], DTYPES[tensor["dtype"]])
        cuts = [[slice(*ends) for ends in itertools.pairwise(cut)] for cut in manifest["cuts"][tensor["cuts"]]]
        for place, file in zip(itertools.product(*cuts), manifest["places"][tensor["places"]], strict=True):
            array[place] = files[file][name]
        whole[name] = array
    return whole
