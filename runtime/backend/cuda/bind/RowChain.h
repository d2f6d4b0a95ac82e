//===- RowChain.h - loops over the same rows, as one kernel ------------------------------------------------===//
//
// A normalisation reaches the device as loops and reductions that wait for each other along every row:
//
//   x [512, 768] -> sum over the row -> s [512, 1]; s / 768 -> m; x - m -> c [512, 768], sum of c c -> v [512, 1]; ...
//
// None of them looks beyond its row. As one kernel a group of threads does a row: every thread has the columns lane,
// lane + threads, ... of it, or as many neighbours in place of each as one access of 16 bytes moves, holds in registers
// what it needs of them again after a reduction, reduces with the others as the kernels of single steps do (in F64, in
// an order that depends on nothing), and computes what is one number per row by itself. What nobody else reads is not
// stored. Sums over the rows (the gradients of a scale or a bias) are kept per column by each block over the rows that
// it does, and added by the last block to arrive. Where nothing is reduced along rows, a block does part of the columns
// (`slices`), so that the sums of all parts are added at the same time.
//
// Where a row is too long for the registers, as that of a vocabulary is, a thread reads and computes the row's values
// again after a reduction. Rows may begin anywhere then: the columns before the first multiple of 16 bytes, and those
// behind the last, are done one by one.
//
// Which steps fit follows from their domains and strides alone: a loop over `rows` x `columns` points, or over `rows`.
//
// This file works on calls and knows no plan: JoinedSteps.h decides which steps are joined.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_ROWCHAIN_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_ROWCHAIN_H

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/text/Source.h"

#include <optional>

namespace tessera::rt::cuda {

struct Rows {
  int64_t rows = 0, columns = 0;
};
/// The ways to see the reductions of `code` as rows, best first; none where there is none.
std::vector<Rows> rowsOf(const ExpressionCode &code);

/// One loop of a chain.
struct RowMember {
  /// An output of an earlier member, by the numbers of member and output.
  struct Source {
    size_t member, output;
  };
  const ExpressionCode *code = nullptr;
  std::vector<TensorView> inputs,
      outputs;                             // where they lie; those taken over or not stored: nowhere
  std::vector<std::optional<Source>> from; // by input; nothing: read from memory
  std::vector<bool> stored;                // by output: whether something else reads it
};

/// How an array is stepped through: along the rows, and within one. Both with a single list of strides.
struct RowAccess {
  Nest row, column;
};

struct RowValue {
  enum class Kind { Load, Compute, Reduce, Round }; // Round: as memory of its type holds it
  Kind kind = Kind::Load;
  plan::DType type = plan::F32;
  Instr instr; // Compute; its operands are values of the chain
  uint32_t operand = 0;
  plan::Reduction reduction = plan::NONE;
  RowAccess access; // Load, and the index of iota and random
  size_t pointer = 0;
  bool wide = false; // the value differs within a row
  int level = 0;     // how many reductions it must wait for
  bool live = false;
  int phase = 0,
      lastPhase = 0; // of a wide one: between which reductions it is computed, and last needed
};
struct RowStore {
  uint32_t value = 0;
  plan::DType type = plan::F32;
  bool wide = false;
  size_t pointer = 0;
  int phase = 0;
};
/// A reduction over the rows, of every column or of all that there is: of a loop, or of one number per row.
struct RowSum {
  enum class Of { Column, All, PerRow };
  Of of = Of::Column;
  uint32_t value = 0;
  plan::Reduction reduction = plan::SUM;
  TensorView to;
  int phase = 0;
};
struct RowPointer {
  void *data = nullptr;
  plan::DType type = plan::F32;
  bool output = false;
  int64_t pitch = 0; // elements from one row to the next; 0: as many as a row has
  bool apart = true; // what is written through it is not read through another, nor the other way round
  // Written elsewhere and copied at the end, since other rows still read here. Numbers per row go to scratch memory, and
  // rows to memory that is free.
  bool aside = false;
  void *elsewhere = nullptr;
  uint64_t bytes = 0; // that are copied
};
/// Memory that nothing uses while a chain runs.
struct FreeMemory {
  void *data = nullptr;
  uint64_t bytes = 0;
};

struct RowChain {
  Rows size;
  std::vector<RowValue> values;
  std::vector<RowStore> stores;
  std::vector<RowSum> sums;
  std::vector<RowPointer> pointers;
  IndexType index;
  int phases = 1;
  int64_t threads = 32; // of a row
  int64_t perThread = 1;
  int64_t words = 0;  // of 32 bits that a thread holds across a reduction, or for sums over the rows
  int64_t side = 1;   // neighbouring columns of a thread that are one access
  bool again = false; // values of a row are computed anew between any two reductions: a thread cannot hold them all
  // Elements by which a row begins further behind a multiple of `side` than the row before. Without `again` it is 0, and
  // `side` divides the columns and perThread.
  int64_t shift = 0;
  // Parts of a row that are made by blocks of their own, where nothing is reduced along rows: sums over the rows are then
  // ended by as many blocks at a time. A thread has one access of columns, and all threads of a row are in one part.
  int64_t slices = 1;
  bool separate = true; // no row, and no other thread, reads what is overwritten; without it the chain is wrong
};

/// Which values of a whole row are needed between the reductions before `phase` and those after it.
std::vector<bool> neededIn(const RowChain &chain, int phase);

/// The members as one chain. Nothing if one does not fit the rows, if a value is read at other points than it is
/// computed at, or if a row is too long for a thread's registers and cannot be computed again.
/// `free`: where rows may be written aside.
std::optional<RowChain> mergeRows(const std::vector<RowMember> &members, const Rows &size,
                                  const std::vector<FreeMemory> &free = {});

/// Whether a value of `access`, at `data`, of every row and column is element row * n + column of memory, n is `shift`
/// more than a multiple of `side`, and `side` of them are one access.
bool liesSideBySide(const RowAccess &access, const void *data, plan::DType type, int64_t side, int64_t shift);
/// The same of what is stored, with rows of `columns` elements.
bool isStoredSideBySide(const RowPointer &pointer, int64_t columns, int64_t side, int64_t shift);

CudaKernel bindRows(const RowChain &chain);

} // namespace tessera::rt::cuda

#endif
