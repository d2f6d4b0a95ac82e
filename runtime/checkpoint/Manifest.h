//===- Manifest.h - what a checkpoint holds, and where ----------------------------------------===//
//
// A checkpoint is a folder of safetensors files and manifest.json, which says of every tensor in which
// files its blocks lie, how far the run was, and what the files' checksums are. Nothing in it depends
// on the mesh that wrote it: a reader asks for blocks of its own. docs/checkpoints.md is the
// description of the format.
//
//   {"format": "tessera-checkpoint", "version": 2, "producer": "tessera-run 0.1.0",
//    "model": {"name": "mlp.onnx", "hash": "…"}, "plan": "…", "mesh": [["data", 2]],
//    "leaves": 8,                                             // of a reproducible plan
//    "position": {"step": 30, "epoch": 1, "sample": 64, "batch": 16},
//    "data": {"source": "npy:x.npy", "seed": 0, "shuffle": null, "augment": null},
//    "random": {"generator": "philox4x32-10", "counter": "element/4", "step": 30},
//    "files": [{"name": "rank0.safetensors", "bytes": 1000, "crc32": ["0badcafe"]}],
//    "cuts": [[[0, 4, 8], [0, 4]]], "places": [[0, 1]],       // what tensors have in common (BlockTables.h)
//    "tensors": {"fc.weight": {"role": "parameter", "dtype": "F32", "shape": [8, 4], "split": [2, 1],
//                              "cuts": 0, "places": 0}},
//    "crc32": "…"}                              // of the text without this member (Manifest.cpp)
//
// Version 1 had no tables; each tensor had "blocks": [{"file": 0, "offset": [0, 0], "shape": [4, 4]}, …]. It is read.
//
// The text is not trusted: parseManifest returns only what holds together.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_MANIFEST_H
#define TESSERA_RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/tensor/Safetensors.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::rt {

constexpr uint64_t kMaxManifestBytes = uint64_t(64) << 20;
constexpr size_t kMaxCheckpointFiles = 4096;
/// Of all tensors together: 600 MB in memory.
constexpr size_t kMaxPieces = size_t(1) << 22;

/// How far a run was. The next batch is the one that begins at sample `sample` of epoch `epoch`.
struct RunPosition {
  int64_t step = 0; // updates that were done
  int64_t epoch = 0, sample = 0;
  int64_t batch = 0; // samples of a global batch, for the reader's information
};

/// What the batches are made of. Together with the position it determines them.
struct DataState {
  std::string source;
  uint64_t seed = 0;
  std::optional<bool> shuffle, augment;
};

enum class TensorRole { Parameter, State, Optimizer };

struct Manifest {
  struct File {
    std::string name;
    FileSums sums;
  };
  struct Piece {
    size_t file = 0;
    Block block;
  };
  struct Tensor {
    TensorRole role = TensorRole::Parameter;
    plan::DType type = plan::DTYPE_INVALID;
    std::vector<int64_t> shape;
    std::vector<int64_t> split; // into how many blocks the run had every dimension cut
    std::vector<Piece> pieces;  // tile the tensor; at most one in a file
  };

  std::string producer, model, modelHash, planId;
  std::vector<std::pair<std::string, int64_t>> mesh;
  int64_t leaves = 0; // Plan.leaves of the run; 0: its plan was not reproducible
  RunPosition position;
  DataState data;
  std::vector<File> files;
  std::map<std::string, Tensor> tensors;

  /// What a file holds, in order of the names, and that of all files.
  std::vector<NamedTensor> tensorsOf(size_t file) const;
  std::vector<std::vector<NamedTensor>> tensorsByFile() const;
  /// Where it lies there.
  Result<SafetensorsLayout> layoutOf(size_t file) const { return layoutOf(tensorsOf(file)); }
  static Result<SafetensorsLayout> layoutOf(const std::vector<NamedTensor> &held);
};

std::string roleName(TensorRole role); // "parameter", "state", "optimizer"

std::string formatManifest(const Manifest &manifest);
/// The manifest as text. An error if it is longer than `most` bytes, which no reader would take.
Result<std::string> manifestText(const Manifest &manifest, uint64_t most = kMaxManifestBytes);
/// Parses a manifest. Any other text gives one error.
Result<Manifest> parseManifest(std::string_view text);

} // namespace tessera::rt

#endif
