//===- JoinSteps.h - which steps of a program run as one -----------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_JOINSTEPS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_JOINSTEPS_H

#include "runtime/backend/Backend.h"
#include "runtime/backend/cuda/join/JoinedSteps.h"

#include <functional>

namespace tessera::rt::cuda {

/// A set of steps that can run as one.
struct FoundKernel {
  JoinedKernel kernel;
  size_t first = 0, place = 0; // the first of the steps, and the one in whose place it runs
  enum class Kind {
    Product, // with what follows it, or one that adds to what memory holds
    Loop,    // alone, and without what a product has added for it
    Rows,    // along the same rows
    Sums,    // with loops over their results
    Batch,   // independent loops of the same code
  } kind = Kind::Product;
};

enum class Joins {
  All,
  NoProducts, // neither products nor attention
  Loops,      // nothing but batches, which compute every number as single steps do
};
/// What may be joined: in a reproducible plan no result may depend on what else a kernel computes.
Joins joinsFor(const plan::Plan &plan, const LoadOptions &options);

/// Convolutions that add to what memory holds come first, since they change the loops behind them (AddingConvs.h). Then
/// products and attention are joined with what follows them, so that such a step is no kernel of its own any more.
/// Then come batches of what nothing reads, which keeps no other steps apart once it is put off, then loops along rows,
/// products with sums over the rows that they read and that no loop has summed, sums with the loops over their results,
/// and batches of the loops that are left. `take` says whether the device can run a kernel; if not, the steps stay
/// apart. `ranges`: the buffers' bytes.
void joinSteps(JoinedProgram &joins, const plan::Program &program, const std::vector<KernelCall> &calls,
               const std::vector<ByteRange> &ranges, const BufferUses &uses, const BindOptions &options, Joins which,
               const std::function<bool(const FoundKernel &)> &take);

/// The bytes of every buffer in an arena at `base`.
std::vector<ByteRange> byteRanges(const std::vector<TensorView> &buffers, const char *base);

} // namespace tessera::rt::cuda

#endif
