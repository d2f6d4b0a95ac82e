// Terms are the pixels of all images, row-major, as in every layout. Columns are the channels that lie side by side in
// the gradient: those of the result's image where filters lie in blocks, else those of the other image.
#include "runtime/backend/cpu/product/OrderedWeightGrad.h"

#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/RoundedSum.h"
#include "runtime/backend/cpu/product/OrderedProduct.h"
#include "runtime/backend/cpu/product/Points.h"
#include "runtime/plan/Alignment.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace tessera::rt {
namespace {

/// Shares are worth while where the operands have so many times the bytes of the gradient, which each share stores.
constexpr size_t kSumsOfShares = 2;

/// An image, and which of its pixels are terms.
struct Terms {
  Image image;
  std::vector<int64_t> pixels;
  Line line; // of equal distances
  bool all() const { return int64_t(pixels.size()) == image.pixels; }

  /// Calls `with(image, pixel, first, count)` for runs of terms of one image: `first` counts from the first of all.
  template <typename With> void forRuns(int64_t term, int64_t terms, With with) const {
    const auto perImage = int64_t(pixels.size());
    for (int64_t done = 0; done < terms;) {
      const int64_t at = (term + done) % perImage, run = std::min(perImage - at, terms - done);
      with((term + done) / perImage, at, done, run);
      done += run;
    }
  }
};

class Channels final : public ProductOperands {
public:
  /// The gradient [f, c] has rows `rowStride` and columns `columnStride` numbers apart; of columns in blocks, blocks are
  /// `blockStride` apart.
  Channels(const ProductOps &ops, Terms rows, Terms columns, float *gradient, int64_t rowStride, int64_t block,
           int64_t blockStride)
      : ops_(ops), rows_(std::move(rows)), columns_(std::move(columns)), gradient_(gradient), rowStride_(rowStride),
        block_(block), blockStride_(blockStride) {}

  /// Where the gradient lies from now on.
  void writeTo(float *gradient) { gradient_ = gradient; }

  bool termsSideBySide() const override { return rows_.image.block == 1; }

  void packRows(float *to, int64_t stride, const Panel &p) const override {
    const Image &image = rows_.image;
    rows_.forRuns(p.term, p.terms, [&](int64_t n, int64_t pixel, int64_t first, int64_t count) {
      if (!termsSideBySide())
        return packBlocks(to + first * stride, stride, rows_, n, pixel, count, p);
      for (int64_t r = 0; r < p.count; ++r) {
        const float *const from = image.at(n, p.first + r, 0);
        float *const out = to + r * stride + first;
        if (rows_.all())
          std::memcpy(out, from + pixel, size_t(count) * sizeof(float));
        else
          for (int64_t t = 0; t < count; ++t)
            out[t] = from[rows_.pixels[size_t(pixel + t)]];
      }
    });
  }

  void packColumns(float *to, const ProductOps &ops, const Panel &p) const override {
    const Image &image = columns_.image;
    columns_.forRuns(p.term, p.terms, [&](int64_t n, int64_t pixel, int64_t first, int64_t count) {
      float *const out = to + first * ops.columns;
      if (image.block == 1 && columns_.all())
        return ops.packTransposed(out, image.at(n, p.first, pixel), image.pixels, count, p.count);
      if (p.count < ops.columns)
        std::fill(out, out + count * ops.columns, 0.0F);
      packBlocks(out, ops.columns, columns_, n, pixel, count, p);
    });
  }

  int64_t rowBlock() const override { return rows_.image.block; }
  TermRuns runs(int64_t term) const override {
    const auto perImage = int64_t(rows_.pixels.size());
    return {perImage - term % perImage, perImage};
  }
  InPlace rowsInPlace(const Panel &p) const override {
    const Image &image = rows_.image;
    if (image.block == 1 || p.first % image.block + p.count > image.block)
      return {};
    return inPlace(rows_, p);
  }
  InPlace columnsInPlace(const ProductOps &ops, const Panel &p) const override {
    const Image &image = columns_.image;
    return image.block == ops.vector && p.first % image.block == 0 ? inPlace(columns_, p) : InPlace();
  }
  bool columnsAreLines() const override { return true; }

  Source rows(const Panel &p) const override { return source(rows_, p); }
  Source columns(const Panel &p) const override { return source(columns_, p); }

  ResultStrides strides(const ProductOps &ops) const override {
    return {rowStride_, block_ == 1 ? ops.vector : blockStride_};
  }
  float *place(const ProductOps &ops, int64_t, int64_t row, int64_t, int64_t column) const override {
    if (block_ != 1 && block_ != ops.vector)
      return nullptr;
    return gradient_ + row * rowStride_ + column / block_ * blockStride_;
  }
  void store(const float *tile, const ProductOps &ops, int64_t, int64_t row, int64_t rows, int64_t column,
             int64_t columns) const override {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        gradient_[(row + r) * rowStride_ + (column + c) / block_ * blockStride_ + (column + c) % block_] =
            tile[r * ops.columns + c];
  }

private:
  /// to[term * stride + channel], for channels of a panel and pixels of an image.
  void packBlocks(float *to, int64_t stride, const Terms &terms, int64_t n, int64_t pixel, int64_t count,
                  const Panel &p) const {
    const Image &image = terms.image;
    for (int64_t done = 0; done < p.count;) {
      const int64_t channel = p.first + done, run = std::min(image.block - channel % image.block, p.count - done);
      const float *const from = image.at(n, channel, 0);
      for (int64_t t = 0; t < count;) {
        const int64_t some = std::min(terms.line.pixels - (pixel + t) % terms.line.pixels, count - t);
        ops_.copyPieces(to + t * stride + done, stride, from + terms.pixels[size_t(pixel + t)] * image.block,
                        terms.line.step * image.block, some, run);
        t += some;
      }
      done += run;
    }
  }

  /// Where every pixel is a term: from a channel of a block on, that block, and others as vectors.
  static InPlace inPlace(const Terms &terms, const Panel &p) {
    const Image &image = terms.image;
    if (!terms.all())
      return {};
    return {image.at(p.term / image.pixels, p.first, p.term % image.pixels), image.block, image.pixels * image.block,
            (image.channels - image.block) * image.pixels};
  }

  /// Of blocks and of several images whole ones.
  static Source source(const Terms &terms, const Panel &p) {
    const Image &image = terms.image;
    const int64_t perImage = int64_t(terms.pixels.size()), n = p.term / perImage;
    const int64_t last = (p.term + p.terms - 1) / perImage, pixel = n == last ? p.term % perImage : 0;
    const int64_t first = p.first / image.block * image.block;
    const int64_t blocks = (p.first + p.count - first + image.block - 1) / image.block;
    Source source{image.at(n, first, terms.all() ? pixel : 0), blocks, (n == last ? p.terms : perImage) * image.block,
                  image.pixels * image.block};
    source.planes = last - n + 1;
    source.planeStride = image.channels * image.pixels;
    if (!terms.all()) {
      source.pieces = &terms.pixels[size_t(pixel)];
      source.piece = image.block;
    }
    return source;
  }

  const ProductOps &ops_;
  Terms rows_, columns_;
  float *gradient_;
  int64_t rowStride_, block_, blockStride_;
};

/// The gradient in shares of the leaves, a subtree and a thread each, whose sums are added behind them. So a thread
/// reads its own images alone, which are those that it has in other steps.
class Shares final : public BoundKernel {
public:
  struct Share {
    std::unique_ptr<OrderedProduct> product; // of one thread
    Channels *channels;                      // its operands
  };
  Shares(std::vector<Share> shares, const TensorView &gradient) : shares_(std::move(shares)), gradient_(gradient) {}

  size_t scratchBytes() const override { return shares_.size() * perShare(); }
  std::string describe() const override {
    return std::to_string(shares_.size()) + " shares by " + shares_[0].product->describe();
  }
  Status run(std::byte *scratch) override {
    const auto count = int64_t(shares_.size());
    std::vector<Status> results(shares_.size());
    parallelFor(int(count), count, [&](int64_t first, int64_t last) {
      for (int64_t s = first; s < last; ++s) {
        std::byte *const own = scratch + size_t(s) * perShare();
        shares_[size_t(s)].channels->writeTo(s == 0 ? gradient_.as<float>() : reinterpret_cast<float *>(own));
        results[size_t(s)] = shares_[size_t(s)].product->run(own + sumBytes());
      }
    });
    for (Status &result : results)
      TESSERA_RETURN_IF_ERROR(std::move(result));
    addTree(plan::F32, gradient_.as<std::byte>(), scratch + perShare(), perShare(), count, gradient_.elements(),
            int(count));
    return Status();
  }

private:
  size_t sumBytes() const { return aligned(gradient_.bytes()); }
  size_t perShare() const { return sumBytes() + aligned(shares_[0].product->scratchBytes()) + kThreadsApart; }

  std::vector<Share> shares_;
  TensorView gradient_;
};

BindResult bind(const KernelCall &call) { return BindResult(bindOrderedWeightGrad(call, *productOps())); }

} // namespace

std::unique_ptr<BoundKernel> bindOrderedWeightGrad(const KernelCall &call, const ProductOps &ops) {
  const ConvGeometry g = *convGeometry(call);
  const int64_t xBlock = blockOf(call.inputs[0].layout), dyBlock = blockOf(call.inputs[1].layout),
                filterBlock = filterBlockOf(call.outputs[0].layout);
  if (!isPoints(g) || !xBlock || !dyBlock || !filterBlock)
    return nullptr;
  const std::vector<int64_t> some = places(g);
  std::vector<int64_t> every(size_t(points(g.out)));
  std::iota(every.begin(), every.end(), 0);
  const Line all{points(g.out), 1};
  const auto share = [&](int64_t number, int64_t count, int threads) {
    const int64_t first = g.n / count * number;
    Image large{call.inputs[0].as<float>(), g.c, points(g.in), xBlock},
        small{call.inputs[1].as<float>(), g.f, points(g.out), dyBlock};
    large.data = large.at(first, 0, 0);
    small.data = small.at(first, 0, 0);
    Terms x{large, some, large.pixels == small.pixels ? all : line(g)}, dy{small, every, all};
    ProductSizes sizes{.m = g.f, .n = g.c, .k = g.n / count * points(g.out), .leaves = g.leaves / count};
    auto *const gradient = call.outputs[0].as<float>();
    std::unique_ptr<Channels> channels;
    if (filterBlock == 1) {
      channels = std::make_unique<Channels>(ops, std::move(dy), std::move(x), gradient, g.c, 1, 1);
    } else { // [f / block][c][block of f]: blocks of c follow each other
      std::swap(sizes.m, sizes.n);
      channels = std::make_unique<Channels>(ops, std::move(x), std::move(dy), gradient, filterBlock, filterBlock,
                                            g.c * filterBlock);
    }
    Channels *const operands = channels.get();
    return Shares::Share{std::make_unique<OrderedProduct>(sizes, threads, ops, std::move(channels)), operands};
  };
  const int64_t threads = call.threads;
  if (threads == 1 || g.leaves % threads != 0 || !std::has_single_bit(uint64_t(threads)) ||
      kSumsOfShares * call.outputs[0].bytes() > call.inputs[0].bytes() + call.inputs[1].bytes())
    return share(0, 1, call.threads).product;
  std::vector<Shares::Share> shares;
  for (int64_t s = 0; s < threads; ++s)
    shares.push_back(share(s, threads, 1));
  return std::make_unique<Shares>(std::move(shares), call.outputs[0]);
}

void registerOrderedWeightGrad(KernelRegistry &registry) {
  registry.add("conv_weight_grad", {"ordered product", acceptsOrdered, bind});
}

} // namespace tessera::rt
