//===- ConvertCheckpoint.h - checkpoints and weight files into one another --------------------===//
//
// All functions work piece by piece: at any time they have a few MiB of one tensor in memory.
//
//   Manifest merged = old.manifest();
//   layOutWhole(merged);                                          // Layout.h
//   TESSERA_RETURN_IF_ERROR(rewrite(old, merged, "merged"));      // the same tensors, in other files
//   std::vector<Difference> d = *compare(old, *Checkpoint::open("merged"));   // none
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_CONVERTCHECKPOINT_H
#define TESSERA_RUNTIME_CHECKPOINT_CONVERTCHECKPOINT_H

#include "runtime/checkpoint/Checkpoint.h"

namespace tessera::rt {

/// Writes the tensors of `source` as the new checkpoint `path`, laid out as `manifest` says, and fills in the
/// checksums. The name appears only when the checkpoint is complete.
Status rewrite(const TensorSource &source, Manifest manifest, const std::string &path);

/// Writes these tensors of the source to one safetensors file. Floating-point tensors are converted to `type` if it is
/// given.
Status exportTensors(const TensorSource &source, const std::vector<std::string> &names, const std::string &file,
                     std::optional<plan::DType> type);

struct Difference {
  std::string name, what;           // what: "only in the first", "shapes [2] and [3]", or empty: contents
  uint64_t elements = 0;            // that differ
  double largest = 0, relative = 0; // difference; and by the largest magnitude in the first
};

/// The tensors in which two sources differ.
Result<std::vector<Difference>> compare(const TensorSource &a, const TensorSource &b);

/// What is wrong with the bytes of a checkpoint: one line for each damaged stretch, and no line if it is intact.
std::vector<std::string> damagesOf(const Checkpoint &checkpoint);

} // namespace tessera::rt

#endif
