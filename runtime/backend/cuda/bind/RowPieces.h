//===- RowPieces.h - calls as loops over rows -----------------------------------------------------------===//
//
// What can be part of a chain of rows (RowChain.h): a loop with its reductions is one piece; softmax and its
// gradient along the last dimension are what they would be in pieces.
//
//   softmax x -> y     =>   x -> max over the row: t  ·  x, t -> e = exp(x - t), sum over the row: s  ·  e, s -> y = e
//   / s
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_ROWPIECES_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_ROWPIECES_H

#include "runtime/backend/cuda/bind/RowChain.h"

namespace tessera::rt::cuda {

struct RowPiece {
  struct Input {
    std::optional<RowMember::Source> made; // by an earlier piece of the call
    size_t operand = 0;                    // otherwise: an input of the call
  };
  ExpressionCode code;
  std::vector<Input> inputs;
  std::vector<std::optional<size_t>> outputs; // by result: an output of the call, or nothing that is stored
};

/// The call as pieces; none if it is no loop over rows.
std::vector<RowPiece> rowPieces(const KernelCall &call);
/// A loop as one piece.
RowPiece rowPiece(ExpressionCode code);

/// The ways to see the pieces as rows, best first.
std::vector<Rows> rowsOf(const std::vector<RowPiece> &pieces);

/// Appends a call's pieces to the members of a chain. The caller completes what they read and write: `from` is set only
/// within the call, and all outputs of the call are stored.
void addMembers(std::vector<RowMember> &members, const std::vector<RowPiece> &pieces, const KernelCall &call);

/// Binds all of a call as one kernel if its rows fit.
std::optional<CudaKernel> bindPieces(const std::vector<RowPiece> &pieces, const KernelCall &call);

} // namespace tessera::rt::cuda

#endif
