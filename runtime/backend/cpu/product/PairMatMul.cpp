#include "runtime/backend/cpu/product/PairMatMul.h"
#include "runtime/backend/cpu/InstructionSet.h"

#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cpu/product/OrderedProduct.h"
#include "runtime/backend/cpu/product/PairRows.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

/// Two matrices whose rows are terms. A term of ProductOperands is a pair of them.
class RowPairs final : public ProductOperands {
public:
  RowPairs(const KernelCall &call, MatMulGeometry g)
      : rows_(*pairRows()), g_(std::move(g)), a_(call.inputs[0].as<uint16_t>()), b_(call.inputs[1].as<uint16_t>()),
        y_(call.outputs[0]) {}

  bool termsSideBySide() const override { return false; }
  void packRows(float *to, int64_t stride, const Panel &panel) const override {
    const uint16_t *const a = a_ + g_.operands(panel.matrix).first * g_.m * g_.k;
    rows_.interleave(to, stride, a + 2 * panel.term * g_.m + panel.first, g_.m, terms(panel), panel.count);
  }
  void packColumns(float *to, const ProductOps &ops, const Panel &panel) const override {
    const uint16_t *const b = b_ + g_.operands(panel.matrix).second * g_.k * g_.n;
    rows_.interleave(to, ops.columns, b + 2 * panel.term * g_.n + panel.first, g_.n, terms(panel), panel.count);
  }
  Source rows(const Panel &p) const override {
    const uint16_t *const a = a_ + g_.operands(p.matrix).first * g_.m * g_.k;
    return source(a + 2 * p.term * g_.m + p.first, terms(p), p.count, g_.m);
  }
  Source columns(const Panel &p) const override {
    const uint16_t *const b = b_ + g_.operands(p.matrix).second * g_.k * g_.n;
    return source(b + 2 * p.term * g_.n + p.first, terms(p), p.count, g_.n);
  }

  ResultStrides strides(const ProductOps &ops) const override { return {g_.n, ops.vector}; }
  float *place(const ProductOps &, int64_t matrix, int64_t row, int64_t, int64_t column) const override {
    return y_.dtype == plan::F32 ? y_.as<float>() + at(matrix, row, column) : nullptr;
  }
  void store(const float *tile, const ProductOps &ops, int64_t matrix, int64_t row, int64_t rows, int64_t column,
             int64_t columns) const override {
    for (int64_t r = 0; r < rows; ++r)
      if (y_.dtype == plan::F32)
        std::memcpy(y_.as<float>() + at(matrix, row + r, column), tile + r * ops.columns,
                    size_t(columns) * sizeof(float));
      else
        rows_.narrow(y_.as<uint16_t>() + at(matrix, row + r, column), tile + r * ops.columns, 1, columns);
  }

private:
  int64_t at(int64_t matrix, int64_t row, int64_t column) const { return (matrix * g_.m + row) * g_.n + column; }
  int64_t terms(const Panel &panel) const { return std::min(2 * panel.terms, g_.k - 2 * panel.term); }
  /// In numbers of F32, which have the bits of two.
  static Source source(const uint16_t *data, int64_t rows, int64_t columns, int64_t stride) {
    if (stride % 2)
      return {};
    return {reinterpret_cast<const float *>(data), rows, (columns + 1) / 2, stride / 2};
  }

  const PairRows &rows_;
  MatMulGeometry g_;
  const uint16_t *a_, *b_;
  TensorView y_;
};

bool accepts(const KernelCall &call) {
  // oneDNN transposes rows for tiles, which multiply several times as fast.
  if (!pairOps() || multipliesTiles() || call.exact || !acceptsPlain(call) || call.inputs[0].dtype != plan::BF16 ||
      call.inputs[1].dtype != plan::BF16)
    return false;
  const TensorView &y = call.outputs[0];
  if ((y.dtype != plan::F32 && y.dtype != plan::BF16) || y.elements() == 0 || call.inputs[0].elements() == 0)
    return false;
  const MatMulGeometry g = *matmulGeometry(call);
  return g.leaves == 1 && g.transposeA && !g.transposeB && g.n % 2 == 0;
}

BindResult bind(const KernelCall &call) {
  const MatMulGeometry g = *matmulGeometry(call);
  const ProductSizes sizes{elementCount(g.batch), g.m, g.n, (g.k + 1) / 2, 1};
  return BindResult(
      std::make_unique<OrderedProduct>(sizes, call.threads, *pairOps(), std::make_unique<RowPairs>(call, g)));
}

} // namespace

void registerPairMatMul(KernelRegistry &registry) { registry.add("matmul", {"pairs", accepts, bind}); }

} // namespace tessera::rt
