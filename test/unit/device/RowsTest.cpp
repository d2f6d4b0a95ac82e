// Boxes as rows: every element of a box exactly once, in order.
#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/nccl/NcclGroup.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tessera::rt;

TEST_CASE("boxes become rows in order") {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    // A box of a row-major tensor.
    const size_t rank = random() % 5;
    Box box;
    std::vector<int64_t> sizes;
    for (size_t d = 0; d < rank; ++d) {
      sizes.push_back(1 + int64_t(random() % 4));
      box.count.push_back(int64_t(random() % (unsigned(sizes[d]) + 1)));
    }
    box.stride.assign(rank, 1);
    for (size_t d = rank; d-- > 1;)
      box.stride[d - 1] = box.stride[d] * sizes[d];
    box.offset = int64_t(random() % 7);
    std::vector<int64_t> expected;
    const int64_t n = boxElements(box);
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = box.offset, rest = i;
      for (size_t d = rank; d-- > 0;) {
        at += rest % box.count[d] * box.stride[d];
        rest /= box.count[d];
      }
      expected.push_back(at);
    }
    std::vector<int64_t> found;
    for (const RowCopy &r : rowsOf(box)) {
      CHECK(r.packed == int64_t(found.size()));
      CHECK((r.rows == 1 || r.pitch >= r.width));
      for (int64_t row = 0; row < r.rows; ++row)
        for (int64_t i = 0; i < r.width; ++i)
          found.push_back(r.offset + row * r.pitch + i);
    }
    CHECK(found == expected);
  }
}
