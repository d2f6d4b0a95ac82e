// matmul by ordered products: operands are row-major matrices or their transposes.
#include "runtime/backend/cpu/product/OrderedMatMul.h"

#include "runtime/backend/cpu/product/OrderedProduct.h"

#include <cstring>

namespace tessera::rt {
namespace {

class Matrices final : public ProductOperands {
public:
  Matrices(const KernelCall &call, const ProductOps &ops, MatMulGeometry g)
      : ops_(ops), g_(std::move(g)), a_(call.inputs[0].as<float>()), b_(call.inputs[1].as<float>()),
        y_(call.outputs[0].as<float>()) {}

  bool termsSideBySide() const override { return !g_.transposeA; }

  void packRows(float *to, int64_t stride, const Panel &panel) const override {
    const Source from = rows(panel);
    ops_.copyPieces(to, stride, from.data, from.stride, from.rows, from.columns);
  }
  void packColumns(float *to, const ProductOps &ops, const Panel &panel) const override {
    const Source from = columns(panel);
    (g_.transposeB ? ops.packTransposed : ops.packColumns)(to, from.data, from.stride, panel.terms, panel.count);
  }

  Source rows(const Panel &p) const override {
    const float *const a = a_ + g_.operands(p.matrix).first * g_.m * g_.k;
    return g_.transposeA ? Source{a + p.term * g_.m + p.first, p.terms, p.count, g_.m}
                         : Source{a + p.first * g_.k + p.term, p.count, p.terms, g_.k};
  }
  Source columns(const Panel &p) const override {
    const float *const b = b_ + g_.operands(p.matrix).second * g_.k * g_.n;
    return g_.transposeB ? Source{b + p.first * g_.k + p.term, p.count, p.terms, g_.k}
                         : Source{b + p.term * g_.n + p.first, p.terms, p.count, g_.n};
  }
  InPlace columnsInPlace(const ProductOps &ops, const Panel &p) const override {
    return g_.transposeB ? InPlace() : InPlace{columns(p).data, g_.n, ops.vector};
  }

  ResultStrides strides(const ProductOps &ops) const override { return {g_.n, ops.vector}; }
  float *place(const ProductOps &, int64_t matrix, int64_t row, int64_t, int64_t column) const override {
    return at(matrix, row, column);
  }
  void store(const float *tile, const ProductOps &ops, int64_t matrix, int64_t row, int64_t rows, int64_t column,
             int64_t columns) const override {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(at(matrix, row + r, column), tile + r * ops.columns, size_t(columns) * sizeof(float));
  }

private:
  float *at(int64_t matrix, int64_t row, int64_t column) const { return y_ + (matrix * g_.m + row) * g_.n + column; }

  const ProductOps &ops_;
  MatMulGeometry g_;
  const float *a_, *b_;
  float *y_;
};

bool accepts(const KernelCall &call) { return acceptsOrdered(call) && acceptsPlain(call); }

BindResult bind(const KernelCall &call) { return BindResult(bindOrderedMatMul(call, *productOps())); }

} // namespace

MatMulGeometry joinRows(MatMulGeometry g) {
  const int64_t matrices = elementCount(g.batch);
  for (int64_t i = 0; i < matrices; ++i)
    if (g.transposeA || g.operands(i) != std::pair(i, int64_t(0)))
      return g;
  g.m *= matrices;
  g.batch.clear();
  return g;
}

std::unique_ptr<BoundKernel> bindOrderedMatMul(const KernelCall &call, const ProductOps &ops) {
  const MatMulGeometry g = joinRows(*matmulGeometry(call));
  const ProductSizes sizes{elementCount(g.batch), g.m, g.n, g.k, g.leaves};
  return std::make_unique<OrderedProduct>(sizes, call.threads, ops, std::make_unique<Matrices>(call, ops, g));
}

void registerOrderedMatMul(KernelRegistry &registry) { registry.add("matmul", {"ordered product", accepts, bind}); }

} // namespace tessera::rt
