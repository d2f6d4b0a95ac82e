//===- HybridOptions.h - how a per-rank program lies on the mesh ------------------------------------===//
//
// What the model file of hybrid mode cannot say: which slices its parameters are, and how the batch and the
// outputs are cut (docs/hybrid.md). A JSON object, all of it optional:
//
//   {"batch": "data",                                   axes over which data parallelism cuts dimension 0
//    "inputs": {"tokens": ["data", "seq"]},             axes per dimension, where that is not all
//    "target": ["data", "seq"],
//    "outputs": {"logits": ["data", "model"]},
//    "parameters": {"fc1.*": ["model"], "fc2.weight": [null, "model"]}}
//
// Axes of a dimension are null, "data", "data+model" or ["data", "model"]; dimensions at the end may be left out.
// One star in a name stands for any text; a name of its own goes before patterns, and of these the first.
//
//   Expected<HybridOptions> options = HybridOptions::load("mlp.json", mesh);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_HYBRID_HYBRIDOPTIONS_H
#define TESSERA_COMPILER_HYBRID_HYBRIDOPTIONS_H

#include "dialects/dist/Sharding.h"

#include <optional>
#include <utility>
#include <vector>

namespace tessera::compiler {

struct HybridOptions {
  using Cuts = llvm::SmallVector<dist::AxisList>; // per dimension

  dist::Mesh mesh;
  std::string origin; // the file, for messages; empty: there is none
  dist::AxisList batch;
  std::vector<std::pair<std::string, Cuts>> inputs, outputs, parameters; // in the file's order
  std::optional<Cuts> target;

  /// Without a file: the batch is cut by the axis "data", and every parameter is whole on every rank.
  static llvm::Expected<HybridOptions> none(const dist::Mesh &mesh);
  static llvm::Expected<HybridOptions> load(llvm::StringRef path, const dist::Mesh &mesh);
  static llvm::Expected<HybridOptions> parse(llvm::StringRef text, llvm::StringRef origin, const dist::Mesh &mesh);

  /// How something that is `local` on every rank is cut; `key` and `name` for messages. What `list` has no entry
  /// for is whole.
  llvm::Expected<dist::Sharding> find(const std::vector<std::pair<std::string, Cuts>> &list, llvm::StringRef key,
                                      llvm::StringRef name, llvm::ArrayRef<int64_t> local) const;
  /// Whether `list` speaks of the name.
  static bool names(const std::vector<std::pair<std::string, Cuts>> &list, llvm::StringRef name);
  /// Dimension 0 by the axes of the batch; of a scalar nothing.
  dist::Sharding batchSharding(int64_t rank) const;
  llvm::Expected<dist::Sharding> input(llvm::StringRef name, llvm::ArrayRef<int64_t> local) const;
  llvm::Expected<dist::Sharding> targets(llvm::ArrayRef<int64_t> local) const;
  llvm::Expected<dist::Sharding> parameter(llvm::StringRef name, llvm::ArrayRef<int64_t> local) const;
  /// "FILE: KEY: what", or without a file "--mode hybrid: what".
  llvm::Error error(llvm::StringRef key, const llvm::Twine &what) const;

private:
  llvm::Expected<dist::Sharding> sharding(const Cuts &cuts, llvm::StringRef key, llvm::StringRef name,
                                          llvm::ArrayRef<int64_t> local) const;
};

/// The shape of the tensor of which every rank has a `local` block.
llvm::Expected<llvm::SmallVector<int64_t>> wholeShape(const dist::Mesh &mesh, const dist::Sharding &sharding,
                                                      llvm::ArrayRef<int64_t> local);

} // namespace tessera::compiler

#endif
