// softmax and its kin along a dimension that is not the last: lines are columns of rows, of which many lie side by side
// (the classes of every pixel). A row of them is a vector, so that few classes take no longer than many.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/Softmax.h"
#include "runtime/backend/cpu/fused/VectorOps.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

/// Fewer lines side by side than half a vector are no faster as columns.
constexpr int64_t kLeastColumns = kLanes / 2;
/// Elements of columns that are done together, which stay in the cache from one pass to the next, and the most columns.
constexpr int64_t kTogether = 16 << 10, kMostColumns = 256;

/// n columns of `extent` rows; a row begins `stride` elements behind the one before.
struct Columns {
  int64_t extent, stride, n;
};

/// The functions of columns, and their scratch: a row each. The result may be one of the operands.
class SoftmaxColumns {
public:
  static constexpr int64_t kFloats = 5 * kMostColumns; // of scratch

  explicit SoftmaxColumns(float *scratch)
      : sums_(reinterpret_cast<double *>(scratch)), top_(scratch + 2 * kMostColumns), total_(top_ + kMostColumns),
        row_(total_ + kMostColumns) {}

  void softmax(Columns c, const float *x, const float *, float *y) {
    maxima(c, x);
    addUp(c, [&](int64_t e) {
      sub_(y + e, x + e, top_, nullptr, c.n);
      exp_(y + e, y + e, nullptr, nullptr, c.n);
      return y + e;
    });
    reciprocal_(total_, total_, nullptr, nullptr, c.n);
    forRows(c, [&](int64_t e) { mul_(y + e, y + e, total_, nullptr, c.n); });
  }
  void softmaxGrad(Columns c, const float *dy, const float *y, float *dx) {
    addUp(c, [&](int64_t e) {
      mul_(row_, dy + e, y + e, nullptr, c.n);
      return row_;
    });
    forRows(c, [&](int64_t e) {
      sub_(row_, dy + e, total_, nullptr, c.n);
      mul_(dx + e, row_, y + e, nullptr, c.n);
    });
  }

private:
  template <typename F> static void forRows(Columns c, const F &f) {
    for (int64_t e = 0; e < c.extent; ++e)
      f(e * c.stride);
  }
  void maxima(Columns c, const float *x) {
    std::memcpy(top_, x, size_t(c.n) * sizeof(float));
    forRows(c, [&](int64_t e) { max_(top_, top_, x + e, nullptr, c.n); });
  }
  /// The totals of the rows that `row` gives, added in F64.
  template <typename F> void addUp(Columns c, const F &row) {
    std::fill_n(sums_, c.n, 0.0);
    forRows(c, [&](int64_t e) { vectorOps().sumFull(sums_, row(e), c.n); });
    std::copy_n(sums_, c.n, total_);
  }

  VectorFn exp_ = vectorOps().find(VectorOp::Exp, 0);
  VectorFn max_ = vectorOps().find(VectorOp::Max, 0), reciprocal_ = vectorOps().find(VectorOp::Reciprocal, 0);
  VectorFn sub_ = vectorOps().find(VectorOp::Sub, 0), mul_ = vectorOps().find(VectorOp::Mul, 0);
  double *sums_;
  float *top_, *total_, *row_;
};

/// In a reproducible plan the number of elements behind a line must not matter, so there lines are copied
/// (Softmax.cpp).
bool accepts(const KernelCall &call) {
  return call.outputs[0].dtype == plan::F32 && acceptsPlain(call) && !call.exact &&
         axisGeometry(call)->inner >= kLeastColumns && call.outputs[0].elements() > 0;
}

BindResult bind(const KernelCall &call) {
  const AxisGeometry g = *axisGeometry(call);
  const float *a = call.inputs[0].as<float>();
  const float *b = call.inputs.size() > 1 ? call.inputs[1].as<float>() : nullptr;
  float *y = call.outputs[0].as<float>();
  auto function = call.name() == "softmax" ? &SoftmaxColumns::softmax : &SoftmaxColumns::softmaxGrad;
  const int64_t most = std::clamp(kTogether / g.extent / kLanes * kLanes, kLanes, kMostColumns);
  const int64_t blocks = (g.inner + most - 1) / most, count = g.outer * blocks;
  const int threads = int(std::min<int64_t>(call.threads, call.outputs[0].elements() < kTogether ? 1 : count));
  auto run = [=](std::byte *scratch) {
    parallelFor(threads, threads, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        SoftmaxColumns columns(reinterpret_cast<float *>(scratch) + p * SoftmaxColumns::kFloats);
        for (int64_t block = count * p / threads; block < count * (p + 1) / threads; ++block) {
          const int64_t column = block % blocks * most, at = block / blocks * g.extent * g.inner + column;
          (columns.*function)({g.extent, g.inner, std::min(most, g.inner - column)}, a + at, b ? b + at : nullptr,
                              y + at);
        }
      }
    });
  };
  return bindFunction(std::string("columns ") + vectorOps().isa, run,
                      size_t(threads * SoftmaxColumns::kFloats) * sizeof(float));
}

} // namespace

void registerColumnSoftmax(KernelRegistry &registry) {
  for (const char *name : {"softmax", "softmax_grad"})
    registry.add(name, {"columns", accepts, bind});
}

} // namespace tessera::rt
