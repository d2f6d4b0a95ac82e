#!/usr/bin/env python3
"""Writes the backend node tests of the installed `onnx` package as folders, as libonnx-testdata has them.

usage: write_node_tests.py FOLDER       then: build/bin/onnx_node_test FOLDER --verbose

Packages of ONNX bring the code that makes its node tests, not their data. Debian's data are those of ONNX 1.12; this shows
what newer operators do. The Attention tests in 16 bits fail in the last place: ONNX's reference rounds every step of a
softmax to 16 bits, its sum, too, where Tessera rounds the result.
"""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases


def written(value, info):
    if info.type.HasField("sequence_type"):
        return numpy_helper.from_list(value, info.name)
    if info.type.HasField("optional_type"):
        return numpy_helper.from_optional(value, info.name)
    return value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), info.name)


def main(folder):
    for test in collect_testcases():
        here = folder / test.name
        here.mkdir(parents=True, exist_ok=True)
        (here / "model.onnx").write_bytes(test.model.SerializeToString())
        for i, sides in enumerate(test.data_sets):
            data = here / f"test_data_set_{i}"
            data.mkdir(exist_ok=True)
            for side, values, infos in zip(("input", "output"), sides, (test.model.graph.input, test.model.graph.output)):
                for j, value in enumerate(values):
                    (data / f"{side}_{j}.pb").write_bytes(written(value, infos[j]).SerializeToString())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
