//===- BlockTables.h - where blocks lie, said once --------------------------------------------------===//
//
// Of hundreds of ranks most tensors are cut alike, and by the same ranks. A manifest says each way once:
//
//   "cuts": [[[0, 4, 8], [0, 3]]],     // by dimension; the blocks are all combinations, the last dimension fastest
//   "places": [[0, 1]],                // the files of the blocks, in this order
//   "tensors": {"fc.weight": {…, "shape": [8, 3], "cuts": 0, "places": 0}}
//
// Nothing that is read is trusted.
//
//===------------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_BLOCKTABLES_H
#define TESSERA_RUNTIME_CHECKPOINT_BLOCKTABLES_H

#include "runtime/checkpoint/Manifest.h"

#include <nlohmann/json.hpp>

namespace tessera::rt {

class BlockTables {
public:
  using Json = nlohmann::json;

  /// The tables of a manifest that is read; empty where it has none. Keeps `manifest`.
  static Result<BlockTables> of(const Json &manifest);

  /// Notes where a tensor's pieces lie: members of its entry. False if its blocks are not cut dimension by dimension.
  bool write(const Manifest::Tensor &tensor, Json &entry);
  /// Into a manifest that is written.
  void writeTables(Json &manifest) const;

  /// The pieces of a tensor of this shape, whose entry has members of write(): they tile it, each in a file of its own
  /// of `files`.
  Result<std::vector<Manifest::Piece>> read(const Json &entry, const std::vector<int64_t> &shape, size_t files) const;

private:
  std::map<std::vector<std::vector<int64_t>>, size_t> cutNumbers_;
  std::map<std::vector<int64_t>, size_t> placeNumbers_;
  std::vector<std::vector<std::vector<int64_t>>> cuts_;
  std::vector<std::vector<int64_t>> places_;
};

} // namespace tessera::rt

#endif
