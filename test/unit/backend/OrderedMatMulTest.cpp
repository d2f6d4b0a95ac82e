// Products whose order is fixed: every instruction set, tiling and number of threads gives the bits of a loop that is
// written here from the definition. So do products whose right matrix stays.
#include "runtime/backend/cpu/product/OrderedMatMul.h"
#include "runtime/backend/cpu/product/KeptMatMul.h"
#include "runtime/backend/cpu/product/ProductOps.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

using namespace tessera;
using namespace tessera::rt;

namespace {

struct Sizes {
  int64_t m, n, k, leaves;
  Shape batchA = {}, batchB = {}, batch = {};
};

std::vector<float> numbers(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float &v : values)
    v = std::ldexp(float(int(random() % 20001) - 10000), int(random() % 7) - 16);
  return values;
}

Shape shaped(Shape batch, int64_t rows, int64_t columns, bool transposed) {
  batch.push_back(transposed ? columns : rows);
  batch.push_back(transposed ? rows : columns);
  return batch;
}

/// From the definition: a leaf's terms in ascending order, the leaves as a tree.
std::vector<float> expected(const MatMulGeometry &g, const std::vector<float> &a, const std::vector<float> &b) {
  std::vector<float> y;
  for (int64_t i = 0; i < elementCount(g.batch); ++i) {
    const auto [matrixA, matrixB] = g.operands(i);
    for (int64_t r = 0; r < g.m; ++r)
      for (int64_t c = 0; c < g.n; ++c) {
        std::vector<float> sums;
        const int64_t terms = g.k / g.leaves;
        for (int64_t leaf = 0; leaf < g.leaves; ++leaf) {
          float sum = 0;
          for (int64_t t = leaf * terms; t < (leaf + 1) * terms; ++t)
            sum = std::fma(a[size_t(matrixA * g.m * g.k + (g.transposeA ? t * g.m + r : r * g.k + t))],
                           b[size_t(matrixB * g.k * g.n + (g.transposeB ? c * g.k + t : t * g.n + c))], sum);
          sums.push_back(sum);
        }
        for (; sums.size() > 1; sums.resize(sums.size() / 2))
          for (size_t s = 0; s < sums.size() / 2; ++s)
            sums[s] = sums[2 * s] + sums[2 * s + 1];
        y.push_back(sums[0]);
      }
  }
  return y;
}

} // namespace

TEST_CASE("an ordered product has the bits of its definition, whatever computes it", "[bits]") {
  for (const Sizes &s : {
           Sizes{1, 1, 1, 1}, Sizes{5, 7, 9, 1}, Sizes{13, 33, 64, 4}, // all leaves in a chunk, edges everywhere
           Sizes{100, 40, 1000, 2},                                    // leaves of two chunks
           Sizes{30, 40, 96, 32},                                      // leaves of three terms
           Sizes{12, 96, 2048, 8},                   // one panel of rows: columns are read where they lie
           Sizes{7, 65, 1200, 4},                    // the last column is not
           Sizes{1000, 48, 24, 8},                   // several tiles of rows
           Sizes{25, 1100, 280, 1},                  // several tiles of columns
           Sizes{20, 24, 1536, 4, {3}, {}, {3}},     // matrices that share B
           Sizes{6, 20, 40, 2, {2, 1}, {3}, {2, 3}}, // broadcast on both sides
           Sizes{6, 20, 300, 1, {4}, {4}, {4}}, Sizes{30, 70, 1600, 1}, // chunks of terms
           Sizes{500, 33, 768, 1},                                      // blocks of rows
       })
    for (const auto &[ta, tb] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
      plan::Kernel kernel;
      kernel.set_name("matmul");
      for (const auto &[name, value] : {std::pair{"leaves", s.leaves}, {"transpose_a", ta}, {"transpose_b", tb}}) {
        plan::Attribute *attribute = kernel.add_attributes();
        attribute->set_name(name);
        attribute->set_i(value);
      }
      KernelCall call;
      call.kernel = &kernel;
      call.exact = true;
      const Shape shapeA = shaped(s.batchA, s.m, s.k, ta), shapeB = shaped(s.batchB, s.k, s.n, tb),
                  shapeY = shaped(s.batch, s.m, s.n, false);
      std::vector<float> a = numbers(elementCount(shapeA), 1), b = numbers(elementCount(shapeB), 2),
                         y(size_t(elementCount(shapeY)));
      call.inputs = {{plan::F32, shapeA, {}, a.data()}, {plan::F32, shapeB, {}, b.data()}};
      call.outputs = {{plan::F32, shapeY, {}, y.data()}};
      Result<MatMulGeometry> geometry = matmulGeometry(call);
      REQUIRE(geometry);
      const std::vector<float> wanted = expected(*geometry, a, b);
      auto check = [&](BoundKernel &bound, const std::vector<float> &wanted) {
        INFO(bound.describe() << ", " << call.threads << " threads, " << str(shapeA) << " and " << str(shapeB));
        std::fill(y.begin(), y.end(), NAN);
        const size_t bytes = bound.scratchBytes();
        std::vector<std::byte> memory(bytes + 128, std::byte(0x5a));
        std::byte *const scratch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
        REQUIRE(bound.run(scratch));
        CHECK(std::memcmp(y.data(), wanted.data(), y.size() * sizeof(float)) == 0);
        // Nothing is written behind the scratch memory that it asks for.
        CHECK(std::all_of(scratch + bytes, memory.data() + memory.size(),
                          [](std::byte x) { return x == std::byte(0x5a); }));
      };
      for (const ProductOps *const *ops = allProductOps(); *ops; ++ops)
        for (int threads : {1, 2, 3}) {
          call.threads = threads;
          check(*bindOrderedMatMul(call, **ops), wanted);
          if (s.leaves > 1)
            continue;
          uint64_t edition = 1;
          call.inputs[1].edition = &edition;
          BindResult kept = bindKeptMatMul(call, **ops);
          REQUIRE(kept);
          CHECK((*kept)->keptBytes() >= b.size() * sizeof(float));
          check(**kept, wanted);
          b[0] += 1; // is not looked at
          check(**kept, wanted);
          ++edition;
          check(**kept, expected(*geometry, a, b));
          b[0] -= 1;
          call.inputs[1].edition = nullptr;
        }
    }
}
