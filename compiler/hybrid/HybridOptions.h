//===- HybridOptions.h - the shardings of a per-rank program ------------------------------------------===//
//
// The options say what the model file of mode hybrid cannot say: which slices its parameters are, and how the batch and
// the outputs are cut (docs/hybrid.md). They are a JSON object. Every key is optional:
//
//   {"batch": "data",                                   axes over which data parallelism cuts dimension 0
//    "inputs": {"tokens": ["data", "seq"]},             axes per dimension, where that is not all
//    "target": ["data", "seq"],
//    "outputs": {"logits": ["data", "model"]},
//    "parameters": {"fc1.*": ["model"], "fc2.weight": [null, "model"]}}
//
// The axes of a dimension are null, "data", "data+model" or ["data", "model"]. Dimensions at the end may be left out.
// A name may have one star, which stands for any text. A name without a star has precedence over patterns; of several
// patterns the first one counts.
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

  /// The options without a file: the batch is cut by the axis "data", and every rank holds every parameter whole. Fails
  /// if the mesh has no such axis.
  static llvm::Expected<HybridOptions> none(const dist::Mesh &mesh);
  static llvm::Expected<HybridOptions> load(llvm::StringRef path, const dist::Mesh &mesh);
  static llvm::Expected<HybridOptions> parse(llvm::StringRef text, llvm::StringRef origin, const dist::Mesh &mesh);

  /// The sharding of the tensor `name`, whose block on every rank has the shape `local`. It is whole if `list` has no
  /// entry for it. `key` is for messages.
  llvm::Expected<dist::Sharding> find(const std::vector<std::pair<std::string, Cuts>> &list, llvm::StringRef key,
                                      llvm::StringRef name, llvm::ArrayRef<int64_t> local) const;
  /// Whether `list` has an entry for the name.
  static bool names(const std::vector<std::pair<std::string, Cuts>> &list, llvm::StringRef name);
  /// The sharding in which the axes of the batch cut dimension 0. A scalar is not cut.
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

/// The global shape of a tensor whose block on every rank has the shape `local`. Fails if it is too large.
llvm::Expected<llvm::SmallVector<int64_t>> wholeShape(const dist::Mesh &mesh, const dist::Sharding &sharding,
                                                      llvm::ArrayRef<int64_t> local);

} // namespace tessera::compiler

#endif
