//===- Attention.cpp - attention, masks and rotary embeddings --------------------------------------===//
//
// Attention becomes separate operators, in the form that the pass graph-fuse-attention replaces by graph.attention.
// (The pass does not if there is a soft cap, or if the scores are an output.) A causal triangle that is known at import
// is applied by a select. All other masks are added up to one tensor, the bias:
//
//   scores = select(triangle, scale * q k^T, -inf) + bias        bias: attn_mask, windows, valid keys
//   y      = softmax(scores) v
//
// A row that sees no key has the result 0. Its bias is replaced by 0, so that neither values nor gradients become NaN,
// and then its result is replaced by 0.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

#include <cmath>
#include <limits>

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// [b, rows, heads * depth] as [b, heads, rows, depth].
static Val headsFirst(Node &n, const Val &x, int64_t heads, const std::string &what) {
  if (!x)
    return {};
  if (heads < 1 || x.shape[2] % heads != 0)
    return n.fail("the " + Twine(what) + " " + shapeText(x.shape) + " cannot be cut into " + Twine(heads) +
                  " heads: q_num_heads and kv_num_heads must say how many there are");
  Val split = n.b.reshape(x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads}, what + "_heads");
  return n.b.transpose(split, {0, 2, 1, 3}, what + "_to_front");
}

/// Repeats every head of [b, u, n, d] `copies` times.
static Val repeatHeads(Node &n, const Val &x, int64_t copies, const std::string &what) {
  if (!x || copies == 1)
    return x;
  Shape wide{x.shape[0], x.shape[1], copies, x.shape[2], x.shape[3]}, once = wide;
  once[2] = 1;
  Val all = n.b.broadcast(n.b.reshape(x, once, what + "_group"), wide, what + "_copies");
  return n.b.reshape(all, {x.shape[0], x.shape[1] * copies, x.shape[2], x.shape[3]}, what + "_repeated");
}

namespace {

/// Which keys a row sees. The reader fills it from the node's inputs, and `guard` adds `blind`.
struct Visibility {
  Val triangle; // [m, n], known; null: every key
  Val bias;     // null: 0
  Val blind;    // rows that see no key, broadcast to [b, h, m, 1]; null: there are none
};

/// Reads masks of scores [b, h, m, n] of the element type `type`.
class VisibilityReader {
public:
  VisibilityReader(Node &n, Shape scores, DType type, int64_t past)
      : n_(n), scores_(std::move(scores)), type_(type), past_(past) {}

  Visibility read() {
    const bool causal = n_.attrInt("is_causal", 0) != 0;
    const int64_t left = n_.attrInt("left_window_size", -1), right = n_.attrInt("right_window_size", -1);
    const int64_t m = scores_[2], keys = scores_[3];
    addMask();
    if (Val valid = n_.opt(6))
      addValidKeys(valid);
    if (left < -1 || right < -1)
      n_.fail("left_window_size and right_window_size must be -1 or more");
    if (n_.failed())
      return {};
    // Row i has the position i + offset.
    Val position = n_.b.iota(DType::I64, {m, 1}, 0, "rows"), key = n_.b.iota(DType::I64, {1, keys}, 1, "keys");
    position = n_.b.add(position, offset_ ? offset_ : n_.b.scalar(DType::I64, double(past_)), "positions");
    if (left >= 0)
      addAllowed(atMost(n_.b.sub(position, n_.b.scalar(DType::I64, double(std::min(left, m + keys + past_))), "first"),
                        key, "after_first"),
                 "left");
    if (right >= 0)
      addAllowed(atMost(key, n_.b.add(position, n_.b.scalar(DType::I64, double(std::min(right, m + keys))), "last"),
                        "before_last"),
                 "right");
    if (causal) {
      Val allowed = atMost(key, position, "triangle");
      if (offset_)
        addAllowed(allowed, "causal");
      else
        result_.triangle = allowed;
    }
    guard();
    return result_;
  }

private:
  Val atMost(const Val &a, const Val &b, const std::string &what) { return n_.b.binary<graph::LeOp>(a, b, what); }

  void addBias(const Val &bias, const std::string &what) {
    result_.bias = result_.bias ? n_.b.add(result_.bias, bias, what + "_sum") : bias;
  }
  /// 0 where `allowed`, else -infinity.
  void addAllowed(const Val &allowed, const std::string &what) {
    addBias(n_.b.select(allowed, n_.b.scalar(type_, 0), n_.b.scalar(type_, kMinusInfinity), what + "_bias"), what);
  }

  void addMask() {
    Val mask = n_.opt(3);
    if (!mask)
      return;
    if (mask.type == DType::I1)
      mask = n_.b.select(mask, n_.b.scalar(type_, 0), n_.b.scalar(type_, kMinusInfinity), "mask_bias");
    mask = n_.b.cast(mask, type_, "mask_cast");
    if (!mask)
      return;
    const int64_t keys = scores_[3];
    // Keys beyond the mask's last column are not seen. Before opset 24 a single column broadcasts to all keys.
    if (mask.rank() > 0 && mask.shape.back() < keys && !(n_.opset < 24 && mask.shape.back() == 1)) {
      Shape lo(mask.rank(), 0), hi(mask.rank(), 0);
      hi.back() = keys - mask.shape.back();
      mask = n_.b.pad(mask, lo, hi, kMinusInfinity, "mask_pad");
    }
    if (!mask || graph::broadcastShapes(mask.shape, scores_) != scores_)
      n_.fail("attn_mask " + shapeText(mask.shape) + " does not broadcast to the scores " + shapeText(scores_));
    else
      addBias(mask, "mask");
  }

  /// Only the first valid[b] keys of sample b exist, and the last row has the position of the last of them.
  void addValidKeys(const Val &valid) {
    if (past_ > 0 || valid.type != DType::I64 || valid.rank() != 1 || valid.shape[0] != scores_[0])
      return (void)n_.fail("nonpad_kv_seqlen must be " + Twine(scores_[0]) + " int64, without past_key");
    Val count = n_.b.reshape(valid, {scores_[0], 1, 1, 1}, "valid");
    Val key = n_.b.iota(DType::I64, {1, scores_[3]}, 1, "keys");
    addAllowed(n_.b.binary<graph::LtOp>(key, count, "is_valid"), "valid");
    offset_ = n_.b.sub(count, n_.b.scalar(DType::I64, double(scores_[2])), "offset");
  }

  /// Finds rows that see no key. With the triangle alone, every row sees a key.
  void guard() {
    if (!result_.bias || n_.failed())
      return;
    Val all = result_.bias;
    if (result_.triangle)
      all = n_.b.select(result_.triangle, all, n_.b.scalar(type_, kMinusInfinity), "visible");
    if (!all)
      return;
    if (all.rank() == 0)
      all = n_.b.reshape(all, {1}, "visible_reshape");
    Val best = n_.b.reduce<graph::ReduceMaxOp>(all, {all.rank() - 1}, true, "best");
    Val blind = n_.b.binary<graph::EqOp>(best, n_.b.scalar(type_, kMinusInfinity), "blind");
    if (!blind || (blind.known && blind.known->isSplat() && blind.known->intAt(0) == 0))
      return;
    result_.blind = blind;
    result_.bias = n_.b.select(blind, n_.b.scalar(type_, 0), result_.bias, "guarded_bias");
  }

  Node &n_;
  Shape scores_;
  DType type_;
  int64_t past_;
  Val offset_; // [b, 1, 1, 1]; null: past_
  Visibility result_;
};

} // namespace

/// x where rows see a key, else 0.
static Val seeing(Node &n, const Visibility &sees, const Val &x, llvm::StringRef suffix) {
  return sees.blind ? n.b.select(sees.blind, n.b.scalarLike(x, 0), x, suffix) : x;
}

static void attention(Node &n) {
  Val q = n.floatIn(0), k = n.floatIn(1), v = n.floatIn(2);
  const int64_t mode = n.attrInt("qk_matmul_output_mode", 0);
  const double cap = n.attrFloat("softcap", 0);
  int64_t heads = n.attrInt("q_num_heads", 0), groups = n.attrInt("kv_num_heads", 0);
  if (n.failed())
    return;
  const bool flat = q.rank() == 3;
  if ((!flat && q.rank() != 4) || k.rank() != q.rank() || v.rank() != q.rank())
    return (void)n.fail("q " + shapeText(q.shape) + ", k " + shapeText(k.shape) + " and v " + shapeText(v.shape) +
                        " must have three or four dimensions");
  const DType type = q.type;
  k = n.b.cast(k, type, "k_cast");
  v = n.b.cast(v, type, "v_cast");
  if (flat) {
    q = headsFirst(n, q, heads, "q");
    k = headsFirst(n, k, groups, "k");
    v = headsFirst(n, v, groups, "v");
  }
  if (n.has(4) != n.has(5))
    n.fail("past_key and past_value belong together");
  int64_t past = 0;
  if (!n.failed() && n.has(4)) {
    Val pastKey = n.floatIn(4), pastValue = n.floatIn(5);
    if (!n.failed() && (pastKey.rank() != 4 || pastValue.rank() != 4))
      n.fail("past_key and past_value must have four dimensions");
    k = n.b.concat({n.b.cast(pastKey, type, "past_k_cast"), k}, 2, "present_k");
    v = n.b.concat({n.b.cast(pastValue, type, "past_v_cast"), v}, 2, "present_v");
    past = n.failed() ? 0 : pastKey.shape[2];
  }
  if (n.failed())
    return;
  heads = q.shape[1];
  groups = k.shape[1];
  if (q.shape[0] != k.shape[0] || q.shape[0] != v.shape[0] || q.shape[3] != k.shape[3] || groups != v.shape[1] ||
      k.shape[2] != v.shape[2] || groups < 1 || heads % groups != 0 || q.shape[3] < 1)
    return (void)n.fail("q " + shapeText(q.shape) + ", k " + shapeText(k.shape) + " and v " + shapeText(v.shape) +
                        " (batch, heads, rows, depth) do not fit together");
  n.out(1, k);
  n.out(2, v);
  const double scale = n.attrFloat("scale", 1 / std::sqrt(double(q.shape[3])));
  k = repeatHeads(n, k, heads / groups, "k");
  v = repeatHeads(n, v, heads / groups, "v");
  if (n.failed())
    return;
  const Visibility sees = VisibilityReader(n, {q.shape[0], heads, q.shape[2], k.shape[2]}, type, past).read();

  Val shown[4]; // what the fourth output may be
  Val scores = n.b.scale(n.b.matmul(q, k, false, true, "scores"), scale, "scaled");
  shown[0] = scores;
  if (cap > 0)
    scores = n.b.scale(n.b.unary<graph::TanhOp>(n.b.scale(scores, 1 / cap, "uncapped"), "tanh"), cap, "capped");
  shown[1] = scores;
  if (sees.triangle)
    scores = n.b.select(sees.triangle, scores, n.b.scalar(type, kMinusInfinity), "causal");
  if (sees.bias)
    scores = n.b.add(scores, sees.bias, "masked");
  shown[2] = scores;
  DType wide = type;
  if (n.hasAttr("softmax_precision")) {
    auto given = compiler::dtypeOf(int32_t(n.attrInt("softmax_precision", 0)));
    if (!given || !isFloat(*given))
      return (void)n.fail("softmax_precision must be a floating point type");
    wide = *given;
  }
  scores = n.b.cast(scores, wide, "wide");
  Val p = n.b.cast(n.b.create<graph::SoftmaxOp>(scores, n.b.attr("dim", int64_t(3)), "softmax")[0], type, "narrow");
  if (n.wanted(3)) {
    if (mode < 0 || mode > 3 || (mode == 2 && sees.blind))
      return (void)n.fail("qk_matmul_output_mode must be 0, 1 or 3, or 2 where every row sees a key");
    shown[3] = seeing(n, sees, p, "probabilities");
    n.out(3, shown[mode]);
  }
  Val y = n.b.matmul(p, v);
  y = seeing(n, sees, y, "seeing");
  if (flat && y)
    y = n.b.reshape(n.b.transpose(y, {0, 2, 1, 3}, "to_rows"), {y.shape[0], y.shape[2], heads * y.shape[3]}, "merge");
  n.out(0, y);
}

//===----------------------------------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------------------------------===//

/// The rows of the table for all tokens, [b, s, r], reshaped to broadcast to x [b, h, s, d] or, with `rowsFirst`,
/// [b, s, h, d].
static Val rotaryTable(Node &n, int input, const Val &x, bool rowsFirst, const std::string &what) {
  Val table = n.floatIn(input), positions = n.opt(3);
  const int64_t rows = n.failed() ? 0 : x.shape[rowsFirst ? 1 : 2];
  if (n.failed())
    return {};
  if (positions) {
    if (table.rank() != 2 || positions.rank() != 2 || isFloat(positions.type) || positions.type == DType::I1)
      return n.fail("position_ids " + shapeText(positions.shape) + " must be whole numbers [batch, rows] and the " +
                    Twine(what) + " " + shapeText(table.shape) + " have two dimensions");
    table = n.b.gather(table, positions, 0, what + "_rows");
  }
  if (!table || table.rank() != 3 || table.shape[0] != x.shape[0] || table.shape[1] != rows)
    return n.fail("the " + Twine(what) + " table has the shape " + shapeText(table.shape) + ", not [" +
                  Twine(x.shape[0]) + ", " + Twine(rows) + ", ...], as x and position_ids need it");
  Shape shape{table.shape[0], rowsFirst ? rows : 1, rowsFirst ? 1 : rows, table.shape[2]};
  return n.b.cast(n.b.reshape(table, shape, what + "_reshape"), x.type, what + "_cast");
}

/// Entries [from, to) of x's last dimension.
static Val part(Node &n, const Val &x, int64_t from, int64_t to, const std::string &what) {
  if (!x)
    return {};
  Shape starts(x.rank(), 0), limits = x.shape, strides(x.rank(), 1);
  starts.back() = from;
  limits.back() = to;
  return n.b.slice(x, starts, limits, strides, what);
}

/// Rotates pairs of entries: (a, b) becomes (cos a - sin b, sin a + cos b). The entries of a pair are neighbours if
/// interleaved, else half of the rotated entries apart.
static void rotaryEmbedding(Node &n) {
  Val x = n.floatIn(0);
  const bool pairs = n.attrInt("interleaved", 0) != 0;
  const int64_t heads = n.attrInt("num_heads", 0);
  int64_t rotated = n.attrInt("rotary_embedding_dim", 0);
  if (n.failed())
    return;
  const Shape shape = x.shape;
  const bool flat = x.rank() == 3;
  if ((!flat && x.rank() != 4) || (flat && (heads < 1 || shape[2] % heads != 0)))
    return (void)n.fail("the input " + shapeText(shape) +
                        " must have four dimensions, or three of which num_heads divides the last");
  if (flat)
    x = n.b.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}, "heads");
  if (n.failed())
    return;
  const int64_t depth = x.shape[3];
  if (rotated == 0)
    rotated = depth;
  Val cos = rotaryTable(n, 1, x, flat, "cos"), sin = rotaryTable(n, 2, x, flat, "sin");
  if (n.failed())
    return;
  const int64_t half = rotated / 2;
  if (rotated < 2 || rotated > depth || rotated % 2 != 0 || cos.shape.back() != half || sin.shape.back() != half)
    return (void)n.fail("the tables hold " + Twine(cos.shape.back()) + " and " + Twine(sin.shape.back()) +
                        " numbers a token; of " + Twine(depth) + " entries " + Twine(rotated) +
                        " are rotated, which needs half as many");
  Val all = part(n, x, 0, rotated, "rotated"), a, b;
  Shape once = x.shape, apart = x.shape;
  once[3] = half;
  apart[3] = half;
  apart.push_back(1);
  if (pairs) {
    Shape split = apart;
    split[4] = 2;
    all = n.b.reshape(all, split, "pairs");
    a = n.b.reshape(part(n, all, 0, 1, "first"), once, "first_reshape");
    b = n.b.reshape(part(n, all, 1, 2, "second"), once, "second_reshape");
  } else {
    a = part(n, all, 0, half, "first");
    b = part(n, all, half, rotated, "second");
  }
  Val real = n.b.sub(n.b.mul(cos, a, "cos_first"), n.b.mul(sin, b, "sin_second"), "real");
  Val imaginary = n.b.add(n.b.mul(sin, a, "sin_first"), n.b.mul(cos, b, "cos_second"), "imaginary");
  if (pairs) {
    once[3] = rotated;
    Val both = n.b.concat({n.b.reshape(real, apart, "real_apart"), n.b.reshape(imaginary, apart, "imaginary_apart")}, 4,
                          "beside");
    real = n.b.reshape(both, once, "joined");
  } else {
    real = n.b.concat({real, imaginary}, 3, rotated == depth ? "" : "joined");
  }
  if (rotated != depth)
    real = n.b.concat({real, part(n, x, rotated, depth, "rest")}, 3);
  n.out(0, flat ? n.b.reshape(real, shape, "merge") : real);
}

llvm::ArrayRef<OpRow> tessera::compiler::attentionOps() {
  static const OpRow rows[] = {
      {"Attention", 23, kNewestOpset, attention, "...t..t", "qk_matmul_output_mode 2 where every row sees a key"},
      {"RotaryEmbedding", 23, kNewestOpset, rotaryEmbedding, ".ttt", ""},
  };
  return rows;
}
