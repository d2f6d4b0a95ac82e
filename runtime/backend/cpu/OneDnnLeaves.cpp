// matmul in leaves: a tile of the result stays in cache while the products of its leaves are made and added, so that
// memory sees the sum alone. Threads take tiles in turn, each with primitives of one thread.
//
// In float32 oneDNN adds what waits when it stores a leaf: of four leaves, the second one is stored as l1 + l0, the
// fourth as (l3 + l2) + (l1 + l0). That is the tree, since two numbers have one sum in either order. In 16 bits every
// sum is rounded, which no primitive does in between: own loops add there.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/backend/cpu/RoundedSum.h"
#include "runtime/plan/Alignment.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>

namespace tessera::rt {
namespace {

using dnnl::memory;

// Of the sizes tried (128 to 512 rows, 256 to 2,048 columns) the fastest for a step of an MLP of width 4,096: 1 MiB.
constexpr int64_t kTileRows = 256, kTileColumns = 1024;
constexpr int64_t kGrain = 16; // numbers of a vector; tiles are as many of it as they can

int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

/// A length that is cut in equal tiles, as far as that is possible.
struct Cut {
  int64_t length, tile;
  Cut(int64_t length, int64_t most)
      : length(length), tile(std::min(length, parts(parts(length, parts(length, most)), kGrain) * kGrain)) {}
  int64_t count() const { return parts(length, tile); }
  int64_t begin(int64_t i) const { return i * tile; }
  int64_t size(int64_t i) const { return std::min(tile, length - begin(i)); }
  bool last(int64_t i) const { return i + 1 == count(); }
};

/// The matrices of an operand.
class Matrices {
public:
  Matrices(const TensorView &view, int64_t rows, int64_t columns, bool transposed)
      : data_(view.as<std::byte>()), dtype_(view.dtype), rows_(rows), columns_(columns), transposed_(transposed) {}

  int64_t elementBytes() const { return int64_t(bytesPerElement(dtype_)); }
  std::byte *at(int64_t matrix, int64_t row, int64_t column) const {
    const int64_t place = transposed_ ? column * rows_ + row : row * columns_ + column;
    return data_ + (matrix * rows_ * columns_ + place) * elementBytes();
  }
  /// A part of a matrix, as dense as part() gives it.
  memory::desc describe(int64_t rows, int64_t columns) const {
    return {{rows, columns}, dnnlType(dtype_), transposed_ ? memory::dims{1, rows} : memory::dims{columns, 1}};
  }
  /// Where a part lies densely: in place, or in `copy`. oneDNN's products that keep the order take no strides beyond.
  std::byte *part(int64_t matrix, int64_t row, int64_t column, int64_t rows, int64_t columns, std::byte *copy) const {
    const int64_t lines = transposed_ ? columns : rows, length = transposed_ ? rows : columns;
    const int64_t stride = transposed_ ? rows_ : columns_;
    std::byte *const from = at(matrix, row, column);
    if (lines == 1 || length == stride)
      return from;
    for (int64_t line = 0; line < lines; ++line)
      std::memcpy(copy + line * length * elementBytes(), from + line * stride * elementBytes(),
                  size_t(length * elementBytes()));
    return copy;
  }

private:
  std::byte *data_;
  plan::DType dtype_;
  int64_t rows_, columns_;
  bool transposed_;
};

class LeafMatMul final : public BoundKernel {
public:
  LeafMatMul(const KernelCall &call, const MatMulGeometry &g)
      : g_(g), threads_(call.threads), length_(g.k / g.leaves), a_(call.inputs[0], g.m, g.k, g.transposeA),
        b_(call.inputs[1], g.k, g.n, g.transposeB), y_(call.outputs[0], g.m, g.n, false), rows_(g.m, kTileRows),
        columns_(g.n, kTileColumns), depth_(std::countr_zero(uint64_t(g.leaves))),
        addsInKernel_(call.outputs[0].dtype == plan::F32) {}

  /// False where oneDNN has no product for a tile that adds in the order of all other products.
  bool prepare(bool (*keepsOrder)(const std::string &)) {
    useThreads(1);
    for (int64_t row : {int64_t(0), rows_.count() - 1})
      for (int64_t column : {int64_t(0), columns_.count() - 1})
        for (size_t sums = 0; sums <= (addsInKernel_ ? depth_ : 0); ++sums) {
          if (products_.contains({kind(row, column), sums}))
            continue;
          const std::optional<Product> product = describe(rows_.size(row), columns_.size(column), sums, keepsOrder);
          if (!product)
            return false;
          products_.emplace(std::pair(kind(row, column), sums), *product);
          padBytes_ = std::max(padBytes_, aligned(product->pad.get_size()));
        }
    return true;
  }

  size_t scratchBytes() const override { return size_t(threads_) * perThread(); }
  std::string describe() const override {
    return "oneDNN " + name_ + ", " + std::to_string(g_.leaves) + " leaves in tiles of " + std::to_string(rows_.tile) +
           " x " + std::to_string(columns_.tile);
  }

  Status run(std::byte *scratch) override {
    const int64_t perMatrix = rows_.count() * columns_.count(), all = elementCount(g_.batch) * perMatrix;
    const int64_t threads = std::min<int64_t>(threads_, all);
    std::vector<Status> results(size_t(std::max<int64_t>(threads, 1)));
    parallelFor(int(threads), threads, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t)
        try {
          dnnl::stream stream(dnnlEngine());
          for (int64_t i = all * t / threads; i < all * (t + 1) / threads; ++i)
            tile(stream, scratch + size_t(t) * perThread(), i / perMatrix, i % perMatrix % rows_.count(),
                 i % perMatrix / rows_.count());
        } catch (const dnnl::error &e) {
          results[size_t(t)] = Status::error(describe() + ": " + e.message);
        }
    });
    for (Status &result : results)
      TESSERA_RETURN_IF_ERROR(std::move(result));
    return Status();
  }

private:
  /// A product that adds some sums to what it stores.
  struct Product {
    dnnl::matmul primitive;
    memory::desc a, b, y, pad;
  };

  std::optional<Product> describe(int64_t rows, int64_t columns, size_t sums, bool (*keepsOrder)(const std::string &)) {
    const memory::desc a = a_.describe(rows, length_), b = b_.describe(length_, columns);
    const memory::desc y = y_.describe(rows, columns);
    dnnl::post_ops add;
    for (size_t i = 0; i < sums; ++i)
      add.append_binary(dnnl::algorithm::binary_add, y);
    dnnl::primitive_attr attributes = dnnlAttributes();
    attributes.set_post_ops(add);
    const auto pd = describePrimitiveWith<dnnl::matmul>({attributes, keepsOrder}, a, b, y);
    if (!pd)
      return std::nullopt;
    name_ = pd.impl_info_str();
    return Product{dnnl::matmul(pd), a, b, y, pd.scratchpad_desc()};
  }

  size_t kind(int64_t row, int64_t column) const { return size_t(rows_.last(row)) * 2 + size_t(columns_.last(column)); }
  size_t tileBytes() const { return aligned(size_t(rows_.tile * columns_.tile * y_.elementBytes())); }
  size_t copyBytesA() const { return aligned(size_t(rows_.tile * length_ * a_.elementBytes())); }
  size_t copyBytesB() const { return aligned(size_t(length_ * columns_.tile * b_.elementBytes())); }
  /// One sum of every size and a leaf, the leaf's operands, and what oneDNN needs.
  size_t perThread() const { return (depth_ + 2) * tileBytes() + copyBytesA() + copyBytesB() + padBytes_; }

  /// Computes one tile of one matrix.
  void tile(dnnl::stream &stream, std::byte *scratch, int64_t matrix, int64_t row, int64_t column) const {
    const auto [matrixA, matrixB] = g_.operands(matrix);
    const int64_t m = rows_.size(row), n = columns_.size(column);
    std::byte *const copyA = scratch + (depth_ + 2) * tileBytes(), *const copyB = copyA + copyBytesA();
    std::byte *const pad = copyB + copyBytesB();
    std::vector<std::byte *> free, waiting; // places; sums of leaves that wait for a neighbour, the smallest one last
    for (size_t i = 0; i < depth_ + 2; ++i)
      free.push_back(scratch + i * tileBytes());
    for (int64_t leaf = 0; leaf < g_.leaves; ++leaf) {
      const size_t sums = size_t(std::countr_one(uint64_t(leaf)));
      const Product &product = products_.at({kind(row, column), addsInKernel_ ? sums : 0});
      std::byte *const place = free.back();
      free.pop_back();
      const auto view = [](const memory::desc &desc, std::byte *data) { return memory(desc, dnnlEngine(), data); };
      std::unordered_map<int, memory> arguments = {
          {DNNL_ARG_SRC, view(product.a, a_.part(matrixA, rows_.begin(row), leaf * length_, m, length_, copyA))},
          {DNNL_ARG_WEIGHTS,
           view(product.b, b_.part(matrixB, leaf * length_, columns_.begin(column), length_, n, copyB))},
          {DNNL_ARG_DST, view(product.y, place)},
          {DNNL_ARG_SCRATCHPAD, view(product.pad, pad)}};
      for (size_t i = 0; addsInKernel_ && i < sums; ++i)
        arguments.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(int(i)) | DNNL_ARG_SRC_1,
                          view(product.y, waiting[waiting.size() - 1 - i]));
      product.primitive.execute(stream, arguments);
      stream.wait();
      for (size_t i = 0; i < sums; ++i) {
        if (!addsInKernel_)
          addRounded(plan::BF16, place, waiting.back(), place, m * n);
        free.push_back(waiting.back());
        waiting.pop_back();
      }
      waiting.push_back(place);
    }
    const size_t rowBytes = size_t(n * y_.elementBytes());
    for (int64_t i = 0; i < m; ++i)
      std::memcpy(y_.at(matrix, rows_.begin(row) + i, columns_.begin(column)), waiting.front() + size_t(i) * rowBytes,
                  rowBytes);
  }

  MatMulGeometry g_;
  int threads_;
  int64_t length_; // of a leaf
  Matrices a_, b_, y_;
  Cut rows_, columns_;
  size_t depth_; // of the tree
  bool addsInKernel_;
  /// By kind of tile (whole, or the last one of rows or columns), and the number of sums that are added.
  std::map<std::pair<size_t, size_t>, Product> products_;
  size_t padBytes_ = 0;
  std::string name_;
};

} // namespace

std::unique_ptr<BoundKernel> bindLeafMatMul(const KernelCall &call, const MatMulGeometry &geometry,
                                            bool (*keepsOrder)(const std::string &)) {
  auto kernel = std::make_unique<LeafMatMul>(call, geometry);
  return kernel->prepare(keepsOrder) ? std::move(kernel) : nullptr;
}

} // namespace tessera::rt
