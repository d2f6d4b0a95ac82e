// matmul: per matrix, b is packed as panels of 16 columns; then one row of a meets one panel at a time, leaf by leaf.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/reference/Panel.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>
#include <array>

namespace tessera::rt {
namespace {

/// The sums of leaves that wait for a neighbour: at most one of every size. A sum of sizes doubles.
template <typename T> class LeafTree {
public:
  using Sums = std::array<T, size_t(kPanel)>;
  /// Adds the next leaf. `store` gives a sum as memory holds it.
  template <typename Store> void add(Sums sums, Store store) {
    for (T &sum : sums)
      sum = store(sum);
    for (uint64_t carried = count_++; carried & 1; carried >>= 1) {
      const Sums &before = waiting_[--depth_];
      for (size_t j = 0; j < sums.size(); ++j)
        sums[j] = store(static_cast<T>(before[j] + sums[j]));
    }
    waiting_[depth_++] = sums;
  }
  /// The sums of all leaves, whose number is a power of two.
  const Sums &root() const { return waiting_[0]; }

private:
  std::array<Sums, 64> waiting_;
  size_t depth_ = 0;
  uint64_t count_ = 0;
};

template <typename T, typename Store>
void multiply(const MatMulGeometry &g, int threads, const T *a, const T *b, T *y, Accumulator<T> *packed, Store store) {
  using A = Accumulator<T>;
  const int64_t length = g.k / g.leaves;
  auto *out = packed;
  for (int64_t nb = 0; nb < panels(g.n); ++nb)
    for (int64_t k = 0; k < g.k; ++k)
      for (int64_t j = 0; j < kPanel; ++j) {
        int64_t n = nb * kPanel + j;
        *out++ = n < g.n ? static_cast<A>(g.transposeB ? b[n * g.k + k] : b[k * g.n + n]) : A(0);
      }
  int64_t rowStride = g.transposeA ? 1 : g.k, stepStride = g.transposeA ? g.m : 1;
  parallelFor(threads, g.m, [&](int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
      for (int64_t nb = 0; nb < panels(g.n); ++nb) {
        LeafTree<T> tree;
        for (int64_t leaf = 0; leaf < g.leaves; ++leaf) {
          Panel<A> acc;
          for (int64_t k = leaf * length; k < (leaf + 1) * length; ++k)
            acc.fma(static_cast<A>(a[m * rowStride + k * stepStride]), packed + (nb * g.k + k) * kPanel);
          typename LeafTree<T>::Sums sums;
          std::ranges::transform(acc.v, sums.begin(), [](A sum) { return static_cast<T>(sum); });
          tree.add(sums, store);
        }
        std::copy_n(tree.root().begin(), std::min(kPanel, g.n - nb * kPanel), y + m * g.n + nb * kPanel);
      }
  });
}

BindResult bindMatMul(const KernelCall &call) {
  MatMulGeometry g = *matmulGeometry(call);
  TensorView a = call.inputs[0], b = call.inputs[1], y = call.outputs[0];
  int threads = call.threads;
  plan::DType narrowed = call.narrowed;
  auto run = [=](std::byte *scratch) {
    auto store = [narrowed](auto sum) { return roundedTo(narrowed, sum); };
    dispatchNumber(y.dtype, [&](auto tag) {
      using T = decltype(tag);
      for (int64_t i = 0, n = elementCount(g.batch); i < n; ++i) {
        const auto [ia, ib] = g.operands(i);
        multiply(g, threads, a.as<T>() + ia * g.m * g.k, b.as<T>() + ib * g.k * g.n, y.as<T>() + i * g.m * g.n,
                 reinterpret_cast<Accumulator<T> *>(scratch), store);
      }
    });
  };
  return bindFunction("reference", run, size_t(panels(g.n) * g.k * kPanel) * 8);
}

} // namespace

void registerReferenceMatMul(KernelRegistry &registry) { addFloatKernel<bindMatMul>(registry, "matmul"); }

} // namespace tessera::rt
