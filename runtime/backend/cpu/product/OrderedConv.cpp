// Rows of the product are pixels of all images, its columns the channels of the result, its terms the other channels.
// An image lies row-major or in blocks of channels, filters row-major or in blocks of both kinds. With strides the
// pixels of the smaller image are rows: forward they are the result's, and the gradient is 0 between them.
#include "runtime/backend/cpu/product/OrderedConv.h"

#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/product/OrderedProduct.h"
#include "runtime/backend/cpu/product/Points.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tessera::rt {
namespace {

/// Terms of rows that are read where they lie, which saves 1 to 5 % of a product. With fewer, products begin more often
/// with rows that are on their way: of 64 terms one took 2 % longer.
constexpr int64_t kLeastInPlace = 128;

class Pixels final : public ProductOperands {
public:
  /// x is summed over, y is made. `gradient`: columns are the filters' input channels.
  Pixels(const ProductOps &ops, const Image &x, const Image &y, const float *filters, int64_t filterBlock,
         bool gradient, std::vector<int64_t> pixelOfX, std::vector<int64_t> pixelOfY, Line line, int64_t images)
      : ops_(ops), x_(x), y_(y), filters_(filters), block_(filterBlock), gradient_(gradient),
        pixelOfX_(std::move(pixelOfX)), pixelOfY_(std::move(pixelOfY)), images_(images),
        perImage_(int64_t(pixelOfX_.size())), allOfX_(perImage_ == x.pixels), allOfY_(perImage_ == y.pixels),
        lineOfX_(allOfX_ ? Line{perImage_, 1} : line) {}

  void begin(int threads) const override {
    if (!allOfY_)
      parallelFor(threads, images_,
                  [&](int64_t first, int64_t last) { std::fill(y_.at(first, 0, 0), y_.at(last, 0, 0), 0.0F); });
  }

  bool termsSideBySide() const override { return true; }
  // No division in the inner loops: each costs as much as the copy of a block.
  void packRows(float *to, int64_t stride, const Panel &p) const override {
    const int64_t step = x_.block * x_.pixels; // from block to block
    for (int64_t done = 0; done < p.count;) {
      const int64_t n = (p.first + done) / perImage_, first = (p.first + done) % perImage_;
      const int64_t rows = std::min(lineOfX_.pixels - first % lineOfX_.pixels, p.count - done);
      const float *const image = x_.at(n, p.term / x_.block * x_.block, 0);
      float *const out = to + done * stride;
      done += rows;
      if (x_.block == 1) {
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t t = 0; t < p.terms; ++t)
            out[r * stride + t] = image[t * step + pixelOfX_[size_t(first + r)]];
        continue;
      }
      const float *from = image;
      for (int64_t term = 0, lane = p.term % x_.block; term < p.terms; from += step, lane = 0) {
        const int64_t run = std::min(x_.block - lane, p.terms - term);
        ops_.copyPieces(out + term, stride, from + pixelOfX_[size_t(first)] * x_.block + lane, lineOfX_.step * x_.block,
                        rows, run);
        term += run;
      }
    }
  }

  void packColumns(float *to, const ProductOps &ops, const Panel &p) const override {
    const int64_t c = gradient_ ? y_.channels : x_.channels;
    if (block_ == 1) // filters are [f][c]
      return gradient_ ? ops.packColumns(to, filters_ + p.term * c + p.first, c, p.terms, p.count)
                       : ops.packTransposed(to, filters_ + p.first * c + p.term, c, p.terms, p.count);
    // They are [f / block][c][block of f]: blocks of c follow each other.
    if (gradient_) {
      for (int64_t done = 0; done < p.terms;) {
        const int64_t f = p.term + done, lane = f % block_, run = std::min(block_ - lane, p.terms - done);
        ops.packTransposed(to + done * ops.columns, filters_ + (f / block_ * c + p.first) * block_ + lane, block_, run,
                           p.count);
        done += run;
      }
      return;
    }
    if (p.count < ops.columns)
      std::fill(to, to + p.terms * ops.columns, 0.0F);
    for (int64_t done = 0; done < p.count;) {
      const int64_t f = p.first + done, lane = f % block_, run = std::min(block_ - lane, p.count - done);
      ops.copyPieces(to + done, ops.columns, filters_ + (f / block_ * c + p.term) * block_ + lane, block_, p.terms,
                     run);
      done += run;
    }
  }

  Source rows(const Panel &p) const override {
    if (x_.block == 1)
      return {};
    const int64_t n = p.first / perImage_, pixel = p.first % perImage_, blocks = p.terms / x_.block;
    Source source{x_.at(n, p.term / x_.block * x_.block, allOfX_ ? pixel : 0), blocks,
                  std::min(p.count, perImage_ - pixel) * x_.block, x_.pixels * x_.block};
    if (!allOfX_) {
      source.pieces = &pixelOfX_[size_t(pixel)];
      source.piece = x_.block;
    }
    return source;
  }
  // Pixels of an image lie a block apart, and a block of terms after the other.
  TermRuns runs(int64_t term) const override { return {x_.block - term % x_.block, x_.block}; }
  InPlace rowsInPlace(const Panel &p) const override {
    const int64_t pixel = p.first % perImage_;
    if (x_.block != ops_.vector || !allOfX_ || pixel + p.count > perImage_ || p.terms < kLeastInPlace)
      return {};
    return {x_.at(p.first / perImage_, p.term, pixel), x_.block, 0, (x_.pixels - 1) * x_.block};
  }
  Source columns(const Panel &) const override { return {}; } // filters are few

  // Forward, filters are [f / block][c][block of f]: a term of a block is a vector.
  InPlace columnsInPlace(const ProductOps &ops, const Panel &p) const override {
    if (gradient_ || block_ != ops.vector || p.first % block_ != 0)
      return {};
    return {filters_ + (p.first * x_.channels + p.term * block_), block_, x_.channels * block_};
  }
  bool columnsAreLines() const override { return !gradient_; }

  ResultStrides strides(const ProductOps &) const override { return {y_.block, y_.block * y_.pixels}; }
  float *place(const ProductOps &ops, int64_t, int64_t row, int64_t rows, int64_t column) const override {
    const int64_t pixel = row % perImage_;
    if (y_.block != ops.vector || column % y_.block != 0 || !allOfY_ || pixel + rows > perImage_)
      return nullptr;
    return y_.at(row / perImage_, column, pixel);
  }
  void store(const float *tile, const ProductOps &ops, int64_t, int64_t row, int64_t rows, int64_t column,
             int64_t columns) const override {
    int64_t n = row / perImage_, pixel = row % perImage_;
    for (int64_t r = 0; r < rows; ++r, tile += ops.columns) {
      for (int64_t done = 0; done < columns;) {
        const int64_t run = std::min(y_.block - (column + done) % y_.block, columns - done);
        ops.copyPieces(y_.at(n, column + done, pixelOfY_[size_t(pixel)]), 0, tile + done, 0, 1, run);
        done += run;
      }
      if (++pixel == perImage_) {
        pixel = 0;
        ++n;
      }
    }
  }

private:
  const ProductOps &ops_;
  Image x_, y_;
  const float *filters_;
  int64_t block_;
  bool gradient_;
  std::vector<int64_t> pixelOfX_, pixelOfY_; // by row of an image
  int64_t images_, perImage_;
  bool allOfX_, allOfY_; // every pixel is a row
  Line lineOfX_;         // rows that lie at equal distances
};

BindResult bind(const KernelCall &call) { return BindResult(bindOrderedConv(call, *productOps())); }

} // namespace

std::unique_ptr<BoundKernel> bindOrderedConv(const KernelCall &call, const ProductOps &ops) {
  const ConvGeometry g = *convGeometry(call);
  const int64_t imageBlock = blockOf(call.inputs[0].layout), resultBlock = blockOf(call.outputs[0].layout),
                filterBlock = filterBlockOf(call.inputs[1].layout);
  if (!isPoints(g) || !imageBlock || !resultBlock || !filterBlock)
    return nullptr;
  const bool gradient = call.name() == "conv_input_grad";
  const Image large{nullptr, g.c, points(g.in)}, small{nullptr, g.f, points(g.out)};
  Image x = gradient ? small : large, y = gradient ? large : small;
  x.data = call.inputs[0].as<float>();
  x.block = imageBlock;
  y.data = call.outputs[0].as<float>();
  y.block = resultBlock;
  std::vector<int64_t> every(size_t(small.pixels)), some = places(g);
  std::iota(every.begin(), every.end(), 0);
  const ProductSizes sizes{.m = g.n * small.pixels, .n = y.channels, .k = x.channels};
  auto pixels = std::make_unique<Pixels>(ops, x, y, call.inputs[1].as<float>(), filterBlock, gradient,
                                         gradient ? every : some, gradient ? some : every, line(g), g.n);
  return std::make_unique<OrderedProduct>(sizes, call.threads, ops, std::move(pixels));
}

void registerOrderedConv(KernelRegistry &registry) {
  for (const char *name : {"conv", "conv_input_grad"})
    registry.add(name, {"ordered product", acceptsOrdered, bind});
}

} // namespace tessera::rt
