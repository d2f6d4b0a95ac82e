# Text tests, in the folders of the source tree. Run one: lit-22 -v BUILD/test/lit --filter relu
import importlib.util
import os
import sys

import lit.formats

config.name = "tessera"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.build_dir, "test", "lit")
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.build_dir, "bin"), config.llvm_bin, config.environment.get("PATH", "")]
)
config.environment["TESSERA_TOPOLOGY"] = "cpu"  # plans for a fixed machine: the same choices everywhere
config.substitutions.append(("%test_root", os.path.dirname(config.test_source_root)))
# Small models, and files of other kinds, written as text in the test itself.
for name in ("onnx_cases", "file_cases"):
    script = os.path.join(config.test_source_root, "Inputs", f"{name}.py")
    config.substitutions.append((f"%{name}", f"{sys.executable} {script}"))
if importlib.util.find_spec("onnx"):
    config.available_features.add("onnx-python")
# Small models of all kinds: the ONNX project's backend tests (libonnx-testdata).
onnx = "/usr/include/onnx/backend/test/data/node"
config.substitutions.append(("%onnx", onnx))
if os.path.isdir(onnx):
    config.available_features.add("onnx-testdata")
for name in ("tessera-opt", "tessera-compile", "tessera-solve", "tessera-run", "tessera-dump", "tessera-ckpt"):
    if os.path.exists(os.path.join(config.build_dir, "bin", name)):
        config.available_features.add(name)
