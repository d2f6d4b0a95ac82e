// Attention's products of BF16. q and dy are read where they lie, as pairs of neighbours; k and v are laid as products
// read columns, once for a head. What softmax makes of a block is rounded to BF16, as rows for y and dq. For dk and dv,
// whose terms are rows, it is interleaved, as q and dy are. dk and dv are summed in F32 over all blocks.
#include "runtime/backend/cpu/attention/PairTiles.h"
#include "runtime/backend/cpu/attention/Products.h"
#include "runtime/backend/cpu/product/PairRows.h"
#include "runtime/backend/cpu/product/ProductOps.h"

#include <algorithm>

namespace tessera::rt {
namespace {

using Rows = AttentionGeometry::Rows;

int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

/// The left operand: data[row * rowStride + pair * pairStride].
struct Left {
  const float *data;
  int64_t rowStride, pairStride;
};

class PairProducts final : public AttentionProducts {
public:
  PairProducts(const KernelCall &call, const AttentionGeometry &g, int64_t line, int64_t block)
      : ops_(*pairOps()), rows_(*pairRows()), tiles_(pairTiles()), g_(g), line_(line),
        grad_(call.name() == "attention_grad") {
    const size_t first = grad_ ? 1 : 0;
    q_ = call.inputs[first].as<uint16_t>();
    k_ = call.inputs[first + 1].as<uint16_t>();
    v_ = call.inputs[first + 2].as<uint16_t>();
    dy_ = grad_ ? call.inputs[0].as<uint16_t>() : nullptr;
    y_ = grad_ && g_.hasStatistics ? call.inputs[kGradientY].as<uint16_t>() : nullptr;
    for (size_t i = 0; i < std::min<size_t>(call.outputs.size(), 3); ++i)
      out_[i] = call.outputs[i].dtype == plan::BF16 ? call.outputs[i].as<uint16_t>() : nullptr;
    const int64_t keys = g_.keys(), q = g_.q.depth, v = g_.v.depth;
    take(keyColumns_, keys, q / 2);
    lines(rowsOfHalf_, block, line / 2);
    if (tiles_)
      lines(packed_, 1, PairTiles::packedFloats(std::max({parts(keys, 2), parts(block, 2), q / 2, v / 2})));
    take(result_, std::max(q, v), block);
    if (!grad_) {
      take(valueRows_, v, parts(keys, 2));
      return;
    }
    take(valueColumns_, keys, v / 2);
    take(keyRows_, q, parts(keys, 2));
    lines(interleaved_, parts(block, 2), line);
    take(queryRows_, q, parts(block, 2));
    take(gradientRows_, v, parts(block, 2));
    take(dk_, q, keys);
    take(dv_, v, keys);
  }

  int64_t floats() const override { return floats_; }

  void begin(int64_t batch, int64_t keyHead, float *own) override {
    const uint16_t *const k = k_ + g_.k.base(batch, keyHead), *const v = v_ + g_.v.base(batch, keyHead);
    packSideBySide(keyColumns_, own, k, g_.k);
    if (!grad_) {
      packRows(valueRows_, own, v, g_.v.stride(), g_.keys(), g_.v.depth);
      return;
    }
    packSideBySide(valueColumns_, own, v, g_.v);
    packRows(keyRows_, own, k, g_.k.stride(), g_.keys(), g_.k.depth);
    for (const Place &sums : {dk_, dv_})
      std::fill_n(own + sums.at, sums.floats(ops_.columns), 0.0f);
  }

  void scores(const AttentionBlock &b, float *s, float *own) override {
    multiply(b.rows, b.used, g_.q.depth / 2, sideBySide(q_, g_.q, b), keyColumns_, own,
             {s, line_, ops_.columns, false});
    for (int64_t i = 0; i < b.rows; ++i)
      rows_.multiply(s + i * line_, float(g_.scale), b.used);
  }
  void mix(const AttentionBlock &b, const float *p, float *own) override {
    multiply(b.rows, g_.v.depth, parts(b.used, 2), narrowed(b, p, own), valueRows_, own, sums(result_, own, false));
    store(own + result_.at, b.rows, result_.rows, g_.v.depth, 1, out_[0] + at(g_.y, b), g_.y.stride());
  }
  void mixGradient(const AttentionBlock &b, float *ds, float *own) override {
    multiply(b.rows, b.used, g_.v.depth / 2, sideBySide(dy_, g_.y, b), valueColumns_, own,
             {ds, line_, ops_.columns, false});
  }
  float dot(const AttentionBlock &b, int64_t i) const override {
    const int64_t row = at(g_.y, b) + i * g_.y.stride();
    return rows_.dot(dy_ + row, y_ + row, g_.y.depth);
  }
  void scoreGradients(const AttentionBlock &b, const float *ds, float *own) override {
    const Left rows = narrowed(b, ds, own);
    multiply(b.rows, g_.q.depth, parts(b.used, 2), rows, keyRows_, own, sums(result_, own, false));
    store(own + result_.at, b.rows, result_.rows, g_.q.depth, float(g_.scale), out_[0] + at(g_.dq, b), g_.dq.stride());
    packRows(queryRows_, own, q_ + at(g_.q, b), g_.q.stride(), b.rows, g_.q.depth);
    multiply(b.used, g_.q.depth, parts(b.rows, 2), interleaved(b, own), queryRows_, own, sums(dk_, own, true));
  }
  void valueGradients(const AttentionBlock &b, const float *p, float *own) override {
    narrowed(b, p, own);
    packRows(gradientRows_, own, dy_ + at(g_.y, b), g_.y.stride(), b.rows, g_.v.depth);
    multiply(b.used, g_.v.depth, parts(b.rows, 2), interleaved(b, own), gradientRows_, own, sums(dv_, own, true));
  }
  void end(int64_t batch, int64_t keyHead, float *own) override {
    const int64_t keys = g_.keys();
    store(own + dk_.at, keys, keys, g_.k.depth, float(g_.scale), out_[1] + g_.dk.base(batch, keyHead), g_.dk.stride());
    store(own + dv_.at, keys, keys, g_.v.depth, 1, out_[2] + g_.dv.base(batch, keyHead), g_.dv.stride());
  }
  std::string describe() const override { return std::string("products ") + (tiles_ ? "amx" : ops_.isa); }

private:
  /// A part of a thread's memory: panels of columns, each with as many rows.
  struct Place {
    int64_t at = 0, panels = 0, rows = 0;
    int64_t floats(int64_t columns) const { return panels * rows * columns; }
  };
  /// c[row * stride + panel * panelStride + column]
  struct Sums {
    float *data;
    int64_t stride, panelStride;
    bool adds;
  };

  void take(Place &place, int64_t columns, int64_t rows) {
    place = {floats_, parts(columns, ops_.columns), rows};
    floats_ += place.floats(ops_.columns);
  }
  void lines(int64_t &place, int64_t count, int64_t floats) {
    place = floats_;
    floats_ += count * floats;
  }
  static int64_t at(const Rows &rows, const AttentionBlock &b) {
    return rows.base(b.batch, b.head) + b.first * rows.stride();
  }
  static Left sideBySide(const uint16_t *data, const Rows &rows, const AttentionBlock &b) {
    return {reinterpret_cast<const float *>(data + at(rows, b)), rows.stride() / 2, 1};
  }
  Sums sums(const Place &place, float *own, bool adds) const {
    return {own + place.at, ops_.columns, place.rows * ops_.columns, adds};
  }

  /// Columns whose terms lie side by side.
  void packSideBySide(const Place &to, float *own, const uint16_t *from, const Rows &rows) const {
    for (int64_t p = 0; p < to.panels; ++p) {
      const int64_t first = p * ops_.columns, count = std::min(ops_.columns, rows.rows - first);
      ops_.packTransposed(own + to.at + p * to.rows * ops_.columns,
                          reinterpret_cast<const float *>(from + first * rows.stride()), rows.stride() / 2, to.rows,
                          count);
    }
  }
  /// Columns whose terms are rows.
  void packRows(const Place &to, float *own, const uint16_t *from, int64_t stride, int64_t terms,
                int64_t columns) const {
    for (int64_t p = 0; p < parts(columns, ops_.columns); ++p) {
      const int64_t first = p * ops_.columns, count = std::min(ops_.columns, columns - first);
      rows_.interleave(own + to.at + p * to.rows * ops_.columns, ops_.columns, from + first, stride, terms, count);
    }
  }
  /// Lines of a block in BF16.
  Left narrowed(const AttentionBlock &b, const float *lines, float *own) const {
    uint16_t *const to = reinterpret_cast<uint16_t *>(own + rowsOfHalf_);
    for (int64_t i = 0; i < b.rows; ++i)
      rows_.narrow(to + i * line_, lines + i * line_, 1, b.used);
    return {own + rowsOfHalf_, line_ / 2, 1};
  }
  /// Those, with keys as rows and the block's rows as terms.
  Left interleaved(const AttentionBlock &b, float *own) const {
    rows_.interleave(own + interleaved_, line_, reinterpret_cast<const uint16_t *>(own + rowsOfHalf_), line_, b.rows,
                     b.used);
    return {own + interleaved_, 1, line_};
  }

  void multiply(int64_t rows, int64_t columns, int64_t pairs, const Left &a, const Place &b, float *own,
                const Sums &c) const {
    if (tiles_) {
      tiles_->multiply({a.data, a.rowStride, a.pairStride, own + b.at, b.rows * ops_.columns, c.data, c.stride,
                        c.panelStride, rows, columns, pairs, c.adds},
                       own + packed_);
      return;
    }
    MicroTile t;
    t.rowStride = a.rowStride;
    t.termStride = a.pairStride;
    t.bStride = ops_.columns;
    t.bVectorStride = ops_.vector;
    t.terms = pairs;
    t.yStride = c.stride;
    t.yVectorStride = ops_.vector;
    const int64_t tile = parts(rows, parts(rows, ops_.rows));
    for (int64_t r = 0; r < rows; r += tile) {
      t.a = a.data + r * a.rowStride;
      for (int64_t p = 0; p < parts(columns, ops_.columns); ++p) {
        t.b = own + b.at + p * b.rows * ops_.columns;
        t.y = c.data + r * c.stride + p * c.panelStride;
        t.before = c.adds ? t.y : nullptr;
        ops_.run(std::min(tile, rows - r), columns - p * ops_.columns > ops_.vector ? 2 : 1, t);
      }
    }
  }
  /// Rows of panels of `room` rows, in BF16.
  void store(const float *from, int64_t rows, int64_t room, int64_t columns, float scale, uint16_t *to,
             int64_t stride) const {
    for (int64_t p = 0; p < parts(columns, ops_.columns); ++p)
      for (int64_t r = 0; r < rows; ++r)
        rows_.narrow(to + r * stride + p * ops_.columns, from + (p * room + r) * ops_.columns, scale,
                     std::min(ops_.columns, columns - p * ops_.columns));
  }

  const ProductOps &ops_;
  const PairRows &rows_;
  const PairTiles *const tiles_; // null: ops_ multiplies
  AttentionGeometry g_;
  int64_t line_;
  bool grad_;
  const uint16_t *q_, *k_, *v_, *dy_, *y_;
  uint16_t *out_[3] = {};
  int64_t floats_ = 0;
  Place keyColumns_, valueColumns_, keyRows_, valueRows_; // k and v as columns
  int64_t rowsOfHalf_ = 0, interleaved_ = 0, packed_ = 0; // lines of the block; what tiles need
  Place queryRows_, gradientRows_, result_, dk_, dv_;
};

bool inPairs(const Rows &rows) { return rows.depth % 2 == 0 && rows.width % 2 == 0 && rows.firstColumn % 2 == 0; }

} // namespace

std::unique_ptr<AttentionProducts> pairProducts(const KernelCall &call, const AttentionGeometry &g, int64_t line,
                                                int64_t block) {
  if (!pairOps() || !inPairs(g.q) || !inPairs(g.k) || !inPairs(g.v))
    return nullptr;
  return std::make_unique<PairProducts>(call, g, line, block);
}

} // namespace tessera::rt
