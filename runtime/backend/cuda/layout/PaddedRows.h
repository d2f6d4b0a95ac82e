//===- PaddedRows.h - tensors of tensor cores' products with rows that begin at multiples of 16 bytes ------===//
//
// Tensor cores load and store rows by 16 bytes. Where the rows of an operand or a result begin between multiples of
// them, a library moves elements one by one. What a large product of 16 bits reads or writes is held with its rows
// further apart, as the layout {{}, pitch}, where everything else that uses it can take that: products, loops and what
// runs along rows.
//
//   logits f32[8, 1024, 50257] = x w^T: rows of 50,260 elements; the loss reads them so, and writes the gradient
//   bf16[8, 1024, 50257] in rows of 50,264
//
// The arena has no room for that: such tensors lie behind it, and where they would lie in it nothing does. Tensors that
// are not used at the same time share their place. Other products work on copies (bind/MatMul.cpp).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_LAYOUT_PADDEDROWS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_LAYOUT_PADDEDROWS_H

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/cuda/layout/MovedBuffers.h"
#include "runtime/plan/plan.pb.h"

#include <optional>

namespace tessera::rt::cuda {

/// Whether rows of elements of `bytes` bytes, so many elements apart, begin at multiples of 16 bytes.
bool isAlignedPitch(int64_t pitch, int64_t bytes);
/// Whether so many operations take longer than a launch.
bool outlastsLaunch(double operations);
/// Whether the rows of a tensor begin between multiples of 16 bytes.
bool hasUnalignedRows(const TensorView &tensor);
/// The number of elements, as many as a row has at least, after which the next row is aligned.
int64_t alignedPitch(const TensorView &tensor);
/// Whether a product gains from aligned rows: tensor cores make it, and its operations take longer than a launch.
bool gainsFromAlignedRows(const KernelCall &product);

/// The expression of a call some of whose operands have rows further apart; nothing where it steps through one
/// otherwise than row by row, or one has blocks.
std::optional<ExpressionCode> withPitches(const ExpressionCode &code, const KernelCall &call);

class PaddedRows : public MovedBuffers {
public:
  /// `calls`: of all programs, in plain layouts. `layouts`: those chosen before, one for each buffer.
  PaddedRows(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls, std::vector<Layout> layouts);

  const std::vector<Layout> &layouts() const { return layouts_; }

private:
  std::vector<Layout> layouts_;
};

} // namespace tessera::rt::cuda

#endif
