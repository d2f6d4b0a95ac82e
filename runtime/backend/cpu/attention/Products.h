//===- Products.h - the matrix products of attention ------------------------------------------------------===//
//
// Attention (cpu/Attention.cpp) goes block by block of rows of q; a block's scores are lines of F32 in scratch memory,
// `line` numbers apart. Here is what is multiplied to make them, and with them. The products know how the operands lie,
// and of which type they and the results are.
//
//   products.begin(batch, keyHead, own);                       // a head of k and v
//   products.scores({batch, head, first, rows, used}, s, own);  // ... softmax ...
//   products.mix({batch, head, first, rows, used}, s, own);     // y of these rows
//
// A thread has `floats()` numbers of scratch memory of its own.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_ATTENTION_PRODUCTS_H
#define TESSERA_RUNTIME_BACKEND_CPU_ATTENTION_PRODUCTS_H

#include "runtime/backend/AttentionGeometry.h"

#include <memory>

namespace tessera::rt {

/// Rows of a head of q, and how many keys they meet.
struct AttentionBlock {
  int64_t batch, head, first, rows, used;
};

class AttentionProducts {
public:
  virtual ~AttentionProducts() = default;
  virtual int64_t floats() const { return 0; }
  /// Before the blocks of a head of k and v. In a gradient its dk and dv begin with 0.
  virtual void begin(int64_t batch, int64_t keyHead, float *own) = 0;
  /// s = scale q kT, also beyond `used` keys up to a whole vector.
  virtual void scores(const AttentionBlock &block, float *s, float *own) = 0;
  /// y = p v.
  virtual void mix(const AttentionBlock &block, const float *p, float *own) = 0;
  /// ds = dy vT.
  virtual void mixGradient(const AttentionBlock &block, float *ds, float *own) = 0;
  /// dy . y of row number i of the block, if the gradient has y.
  virtual float dot(const AttentionBlock &block, int64_t i) const = 0;
  /// dq = scale ds k, dk += scale dsT q.
  virtual void scoreGradients(const AttentionBlock &block, const float *ds, float *own) = 0;
  /// dv += pT dy.
  virtual void valueGradients(const AttentionBlock &block, const float *p, float *own) = 0;
  /// Behind the last block of a head of k and v.
  virtual void end(int64_t batch, int64_t keyHead, float *own) = 0;
  virtual bool failed() const { return false; }
  virtual std::string describe() const = 0;
};

/// What attention multiplies in F32, by oneDNN. All operands are F32.
std::unique_ptr<AttentionProducts> singleProducts(const KernelCall &call, const AttentionGeometry &g, int64_t line);
/// The same of BF16 operands and results, with sums in F32: what softmax makes is rounded to BF16 before it is
/// multiplied. A block has at most `block` rows. Null where this processor has no instruction for it, or operands do
/// not lie in pairs.
std::unique_ptr<AttentionProducts> pairProducts(const KernelCall &call, const AttentionGeometry &g, int64_t line,
                                                int64_t block);

} // namespace tessera::rt

#endif
