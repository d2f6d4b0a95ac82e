//===- FuseAttention.cpp - attention as one operator -----------------------------------------------===//
//
// Exporters write attention as two products with a softmax between. This pass replaces the pattern by graph.attention,
// whose scores are never in memory as a whole:
//
//   %s = matmul %q, %kt             scores
//   %t = div %s, 8                  or mul, here or on q or k
//   %c = select %triangle, %t, -1e4 a triangle, however it is computed (IndexPattern.h): causal
//   %m = add %c, %mask              any number of them: the bias; a triangle of 0 and -1e9 or less: causal
//   %p = softmax %m
//   %y = matmul %p, %v        ->    %y = attention %q, %k, %v, %mask {scale = 0.125, causal, outside = -1e4}
//
// Between the softmax and the second product there may be dropout. What it keeps becomes an operand of attention and of
// its gradient; the random numbers stay an operator of their own. So they are the same as before, and graph-recompute
// decides, as for other values, whether memory holds what is kept until the gradient or it is drawn again.
//
//   %f = select %drop, 0, 1.25      %keep = not %drop
//   %d = mul %p, %f
//   %y = matmul %d, %v        ->    %y = attention %q, %k, %v, %mask, %keep {.., keep_scale = 1.25}
//
// Transposes that bring heads before rows are removed if q, k and v all have one (rows_first), also where they are
// slices of one transposed tensor: then the tensor is sliced as it is. Copies of k and v for every group of queries are
// removed, too (grouped-query attention).
//
// The result is unchanged. A mask that replaces scores becomes a bias only if it replaces them by -infinity. For a
// triangle that replaces them by another number, the attribute `outside` is that number. The pass does not fuse
//   - scores and probabilities that another operator reads;
//   - a bias that is trained (relative positions), since graph.attention has no gradient for the bias;
//   - operators that the option `keep` names, since a user's strategy names them;
//   - 16-bit models, since the fused kernels compute in float32 and would convert all operands.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/IndexPattern.h"
#include "dialects/graph/OpWriter.h"

#include "mlir/Pass/Pass.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_FUSEATTENTIONPASS
#include "compiler/transform/Passes.h.inc"

namespace {

/// Scores that a mask replaces by this or less get the probability 0, as those do to which it is added: a score that
/// could make up for it is no number that a network computes with.
constexpr double kFarOutside = -1e9;

/// A tensor [.., heads, rows, depth] as a transpose of another value, or of a slice of it.
struct Operand {
  Value source;
  SmallVector<int64_t> perm; // dimension i is the source's dimension perm[i]
  SliceOp slice;             // null, or what slices a transpose of the source

  explicit Operand(Value v) : source(v) {
    for (int64_t d = 0; d < rankOf(v); ++d)
      perm.push_back(d);
  }
  bool isPlain() const { return llvm::is_sorted(perm); }
  bool isRowsFirst() const {
    SmallVector<int64_t> p(perm);
    std::swap(p[p.size() - 3], p[p.size() - 2]);
    return llvm::is_sorted(p);
  }
  /// The same tensor by way of what a slice's operand is a transpose of, if it is.
  std::optional<Operand> beforeSlice(llvm::function_ref<bool(Operation *)> mayGo) const {
    auto made = source.getDefiningOp<SliceOp>();
    auto transpose = made ? made.getX().getDefiningOp<TransposeOp>() : nullptr;
    if (!transpose || !mayGo(made) || !mayGo(transpose))
      return std::nullopt;
    Operand before(transpose.getX());
    before.slice = made;
    for (auto [d, own] : llvm::zip_equal(before.perm, perm))
      d = transpose.getPerm()[own];
    return before;
  }
  /// What the tensor is a transpose of.
  Value make(OpWriter &writer) const {
    if (!slice)
      return source;
    SliceOp slice = this->slice; // its accessors are not const
    ArrayRef<int64_t> order = slice.getX().getDefiningOp<TransposeOp>().getPerm();
    SmallVector<int64_t> starts(order.size()), limits(order.size()), strides(order.size());
    for (auto [d, from] : llvm::enumerate(order)) {
      starts[from] = slice.getStarts()[d];
      limits[from] = slice.getLimits()[d];
      strides[from] = slice.getStrides()[d];
    }
    return writer.make<SliceOp>(source, starts, limits, strides);
  }
  /// Replaces the source by its operand while it is a transpose or a scaling that may be removed. Multiplies `scale` by
  /// the factors.
  void peel(double &scale, llvm::function_ref<bool(Operation *)> mayGo) {
    while (Operation *op = source.getDefiningOp()) {
      if (!mayGo(op))
        return;
      if (auto transpose = dyn_cast<TransposeOp>(op)) {
        for (int64_t &d : perm)
          d = transpose.getPerm()[d];
        source = transpose.getX();
      } else if (Value matrices = swapped(op, mayGo)) {
        std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
        source = matrices;
      } else if (std::optional<double> factor = scaling(op)) {
        scale *= *factor;
        source = scaled(op);
      } else {
        return;
      }
    }
  }
  /// x of its matrices transposed by three operators: batch dimensions made one, the transposition, and made many again.
  static Value swapped(Operation *op, llvm::function_ref<bool(Operation *)> mayGo) {
    auto many = dyn_cast<ReshapeOp>(op);
    auto transpose = many ? many.getX().getDefiningOp<TransposeOp>() : nullptr;
    auto one = transpose ? transpose.getX().getDefiningOp<ReshapeOp>() : nullptr;
    if (!one || !mayGo(transpose) || !mayGo(one) || transpose.getPerm() != ArrayRef<int64_t>{0, 2, 1})
      return nullptr;
    ArrayRef<int64_t> from = shapeOf(one.getX()), to = shapeOf(many.getY());
    bool same = from.size() == to.size() && from.size() > 2 && from.drop_back(2) == to.drop_back(2) &&
                from.take_back(2) == shapeOf(one.getY()).take_back(2);
    return same ? one.getX() : Value();
  }
  static Value scaled(Operation *op) { return op->getOperand(splatOf(op->getOperand(0)) ? 1 : 0); }
  /// The factor, if the operator multiplies or divides a value by a number and keeps the value's type.
  static std::optional<double> scaling(Operation *op) {
    if (auto mul = dyn_cast<MulOp>(op)) {
      Value x = splatOf(mul.getA()) ? mul.getB() : mul.getA();
      if (auto factor = splatOf(splatOf(mul.getA()) ? mul.getA() : mul.getB()))
        return x.getType() == mul.getType() ? factor : std::nullopt;
    } else if (auto div = dyn_cast<DivOp>(op)) {
      auto divisor = splatOf(div.getB());
      if (divisor && *divisor != 0 && !splatOf(div.getA()) && div.getA().getType() == div.getType())
        return 1 / *divisor;
    }
    return std::nullopt;
  }
};

/// If the value [.., u * g, n, d] repeats each of u matrices g > 1 times, the value x [.., u, 1, n, d] that it repeats;
/// else null.
Value repeated(Value v) {
  auto joined = v.getDefiningOp<ReshapeOp>();
  auto stretched = joined ? joined.getX().getDefiningOp<BroadcastOp>() : nullptr;
  if (!stretched)
    return nullptr;
  SmallVector<int64_t> in(shapeOf(stretched.getX())), out(shapeOf(stretched.getY()));
  if (in.size() != out.size() || in.size() < 4 || in[in.size() - 3] != 1)
    return nullptr;
  SmallVector<int64_t> once(out), all(out);
  once[in.size() - 3] = 1;
  all.erase(all.end() - 3);
  all[all.size() - 3] = out[out.size() - 4] * out[out.size() - 3];
  return once == in && shapeOf(v) == ArrayRef<int64_t>(all) ? stretched.getX() : Value();
}

class Fusion {
public:
  Fusion(func::FuncOp func, const llvm::StringSet<> &keep)
      : func_(func), trained_(func.getName() == "forward"), keep_(keep), writer_(func) {}

  void run() {
    Block &block = func_.getBody().front();
    SmallVector<SoftmaxOp> found(block.getOps<SoftmaxOp>());
    bool any = false;
    for (SoftmaxOp softmax : found)
      if (match(softmax)) {
        rewrite();
        any = true;
      }
    if (!any)
      return;
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isa_and_nonnull<GraphDialect>(op.getDialect()) && op.use_empty())
        op.erase();
  }

private:
  bool mayGo(Operation *op) const { return !keep_.contains(nameOf(op)); }

  bool match(SoftmaxOp softmax) {
    int64_t rank = rankOf(softmax.getY());
    Type element = elementTypeOf(softmax.getY());
    if (rank < 3 || int64_t(softmax.getDim()) != rank - 1 || !softmax.getY().hasOneUse() ||
        !(element.isF32() || element.isF64()) || !mayGo(softmax))
      return false;
    dropout_ = {};
    Value p = softmax.getY();
    if (auto mul = dyn_cast<MulOp>(*p.user_begin())) {
      if (!matchDropout(mul, p))
        return false;
      p = mul.getY();
    }
    second_ = dyn_cast<MatMulOp>(*p.user_begin());
    if (!second_ || second_.getA() != p || second_.getTransposeA() || second_.getWide() ||
        !sameBatch(second_.getB(), p) || !mayGo(second_))
      return false;
    scale_ = 1;
    causal_ = false;
    outside_ = 0;
    start_ = 0;
    biases_.clear();
    masks_.clear();
    return matchScores(softmax.getX());
  }

  /// Matches a product of the probabilities with 0 where a condition says so, and with one number elsewhere.
  bool matchDropout(MulOp mul, Value p) {
    auto factor = (mul.getA() == p ? mul.getB() : mul.getA()).getDefiningOp<SelectOp>();
    if (!factor || !mul.getY().hasOneUse() || mul.getType() != p.getType() || !mayGo(mul) || !mayGo(factor) ||
        shapeOf(factor.getCond()) != shapeOf(p))
      return false;
    const std::optional<double> a = splatOf(factor.getA()), b = splatOf(factor.getB());
    if (!a || !b || (*a == 0) == (*b == 0))
      return false;
    dropout_ = {factor, *a != 0, *a != 0 ? *a : *b};
    return true;
  }

  /// Matches the softmax's operand, from the outside to the inside: additions and masks, a triangle, scalings, the
  /// product.
  bool matchScores(Value s) {
    for (bool inner = false;;) {
      Operation *op = s.getDefiningOp();
      if (!op || !s.hasOneUse() || !mayGo(op))
        return false;
      if (auto matmul = dyn_cast<MatMulOp>(op)) {
        first_ = matmul;
        return !matmul.getTransposeA() && !matmul.getWide() && sameBatch(matmul.getA(), matmul.getY()) &&
               sameBatch(matmul.getB(), matmul.getY());
      }
      Value within;
      if (auto add = dyn_cast<AddOp>(op); add && !inner) {
        within = leadsToProduct(add.getA(), s.getType()) ? add.getA() : add.getB();
        Value bias = within == add.getA() ? add.getB() : add.getA();
        if (trained_ && isTrained(bias))
          return false;
        if (!addsTriangle(bias, s))
          biases_.push_back(bias);
      } else if (auto select = dyn_cast<SelectOp>(op); select && !inner) {
        std::optional<double> a = numberOf(select.getA()), b = numberOf(select.getB());
        if (a.has_value() == b.has_value())
          return false;
        bool inside = !a; // the scores stay where the condition is true
        within = inside ? select.getA() : select.getB();
        double other = inside ? *b : *a;
        std::optional<Triangle> seen = causal_ ? std::nullopt : triangleOf(select.getCond(), s);
        if (seen && (seen->inside != 0) == inside && (seen->outside != 0) != inside) {
          causal_ = inner = true;
          outside_ = other;
          start_ = seen->start;
        } else if (std::isinf(other) && other < 0) {
          masks_.push_back({select.getCond(), inside});
        } else {
          return false;
        }
      } else if (std::optional<double> factor = Operand::scaling(op)) {
        inner = true;
        scale_ *= *factor;
        within = Operand::scaled(op);
      } else {
        return false;
      }
      if (within.getType() != s.getType())
        return false;
      s = within;
    }
  }

  std::optional<double> numberOf(Value v) {
    std::optional<IndexPattern> p = patterns_.of(v);
    return p && p->isNumber() ? std::optional(p->met) : std::nullopt;
  }

  std::optional<Triangle> triangleOf(Value mask, Value scores) {
    std::optional<IndexPattern> p = patterns_.of(mask);
    ArrayRef<int64_t> shape = shapeOf(scores).take_back(2);
    return p && shapeOf(mask).take_back(2) == shape ? triangle(*p, shape[0], shape[1]) : std::nullopt;
  }

  /// Notes the triangle if what is added to the scores is 0 inside of one and takes all weight from what is outside.
  /// Every row must see a key: what a sum makes of a row without any depends on the scores.
  bool addsTriangle(Value bias, Value scores) {
    std::optional<Triangle> added = causal_ ? std::nullopt : triangleOf(bias, scores);
    if (!added || added->inside != 0 || !(added->outside <= kFarOutside) || added->start < 0)
      return false;
    causal_ = true;
    outside_ = added->outside;
    start_ = added->start;
    return true;
  }

  /// Whether `v`, an operand of an addition, holds the scores.
  bool leadsToProduct(Value v, Type type) {
    for (Operation *op = v.getDefiningOp(); op && v.getType() == type; op = v.getDefiningOp()) {
      if (auto select = dyn_cast<SelectOp>(op))
        v = numberOf(select.getA()) ? select.getB() : select.getA();
      else if (auto add = dyn_cast<AddOp>(op))
        v = add.getA().getType() == type && leadsToProduct(add.getA(), type) ? add.getA() : add.getB();
      else if (Operand::scaling(op))
        v = Operand::scaled(op);
      else
        return isa<MatMulOp>(op);
    }
    return false;
  }

  static bool sameBatch(Value a, Value b) { return shapeOf(a).drop_back(2) == shapeOf(b).drop_back(2); }

  /// Whether the value depends on a parameter in a way that has a gradient.
  bool isTrained(Value v) {
    SmallVector<Value> todo = {v};
    DenseSet<Value> seen;
    while (!todo.empty()) {
      Value next = todo.pop_back_val();
      if (!seen.insert(next).second || !isFloat(next))
        continue;
      if (auto argument = dyn_cast<BlockArgument>(next)) {
        if (argRole(func_, argument.getArgNumber()) == kParameter)
          return true;
      } else {
        llvm::append_range(todo, next.getDefiningOp()->getOperands());
      }
    }
    return false;
  }

  /// Removes the copies of k and v for every group of queries, if both have them.
  void ungroup(Operand &k, Operand &v) {
    Operand *both[] = {&k, &v};
    Value once[2];
    for (auto [i, x] : llvm::enumerate(both)) {
      once[i] = x->isPlain() ? repeated(x->source) : Value();
      if (once[i] && !mayGo(x->source.getDefiningOp()))
        return;
    }
    int64_t heads = rankOf(k.source) - 3; // dimension
    if (!once[0] || !once[1] || shapeOf(once[0])[heads] != shapeOf(once[1])[heads])
      return;
    for (auto [i, x] : llvm::enumerate(both)) {
      SmallVector<int64_t> shape(shapeOf(once[i]));
      shape.erase(shape.end() - 3);
      auto made = once[i].getDefiningOp<ReshapeOp>();
      bool same = made && shapeOf(made.getX()) == ArrayRef<int64_t>(shape);
      *x = Operand(same ? made.getX() : writer_.reshape(once[i], shape));
    }
  }

  /// Brings the operands into a form in which all are rows first, if they have one.
  bool takeRowsFirst(ArrayRef<Operand *> operands) const {
    SmallVector<Operand> forms;
    for (Operand *x : operands) {
      std::optional<Operand> sliced;
      if (!x->isRowsFirst())
        sliced = x->beforeSlice([&](Operation *op) { return mayGo(op); });
      forms.push_back(sliced ? *sliced : *x);
      if (!forms.back().isRowsFirst())
        return false;
    }
    for (auto [x, form] : llvm::zip_equal(operands, forms))
      *x = form;
    return true;
  }

  void rewrite() {
    int64_t rank = rankOf(second_.getY());
    std::string base;
    if (auto name = second_->getAttrOfType<StringAttr>(kNameAttr))
      base = name.str();
    writer_.moveBefore(second_);
    writer_.setName(base.empty() ? base : base + "/operand");
    auto go = [&](Operation *op) { return mayGo(op); };

    Operand q(first_.getA()), k(first_.getB()), v(second_.getB());
    if (!first_.getTransposeB()) // [.., depth, n]
      std::swap(k.perm[rank - 2], k.perm[rank - 1]);
    if (second_.getTransposeB())
      std::swap(v.perm[rank - 2], v.perm[rank - 1]);
    // A scaling of v stays, because it scales the result and not the scores.
    auto goUnscaled = [&](Operation *op) { return mayGo(op) && !Operand::scaling(op); };
    double one = 1;
    q.peel(scale_, go);
    k.peel(scale_, go);
    v.peel(one, goUnscaled);
    ungroup(k, v);
    k.peel(scale_, go);
    v.peel(one, goUnscaled);

    const bool rowsFirst = takeRowsFirst({&q, &k, &v});
    auto place = [&](const Operand &x) {
      return rowsFirst || x.isPlain() ? x.make(writer_) : writer_.transpose(x.source, x.perm);
    };
    Value operands[] = {place(q), place(k), place(v)}, bias;
    writer_.setName(base.empty() ? base : base + "/bias");
    Type element = elementTypeOf(second_.getY());
    for (auto [condition, inside] : masks_) {
      Value zero = writer_.constant(element, 0), none = writer_.constant(element, -INFINITY);
      biases_.push_back(inside ? writer_.select(condition, zero, none) : writer_.select(condition, none, zero));
    }
    for (Value b : biases_)
      bias = bias ? writer_.add(bias, b) : b;
    SmallVector<Value> more;
    if (bias)
      more.push_back(bias);
    FloatAttr keepScale;
    if (dropout_.factor) {
      writer_.setName(base.empty() ? base : base + "/keep");
      more.push_back(dropout_.whereTrue ? dropout_.factor.getCond()
                                        : writer_.make<NotOp>(dropout_.factor.getCond()).getY());
      keepScale = FloatAttr::get(Float64Type::get(func_.getContext()), dropout_.scale);
    }
    if (!base.empty())
      writer_.takeName(second_);
    writer_.setName(base);
    auto made = writer_.make<AttentionOp>(operands[0], operands[1], operands[2], more, llvm::APFloat(scale_), causal_,
                                          llvm::APFloat(outside_), uint64_t(start_), rowsFirst, keepScale);
    replace(made, rowsFirst);
  }

  /// Replaces the result of the second product. With rows first, readers that are a transpose to rows first are
  /// replaced by the result itself.
  void replace(AttentionOp made, bool rowsFirst) {
    Value old = second_.getY(), y = made.getY();
    if (rowsFirst) {
      Operand back(old);
      std::swap(back.perm[back.perm.size() - 3], back.perm[back.perm.size() - 2]);
      for (Operation *user : llvm::make_early_inc_range(old.getUsers())) {
        auto transpose = dyn_cast<TransposeOp>(user);
        if (transpose && transpose.getPerm() == ArrayRef<int64_t>(back.perm) && mayGo(user))
          transpose.getY().replaceAllUsesWith(y);
      }
      if (llvm::any_of(old.getUsers(), [](Operation *user) { return !user->use_empty(); }))
        y = writer_.transpose(y, back.perm);
    }
    old.replaceAllUsesWith(y);
  }

  func::FuncOp func_;
  bool trained_;
  const llvm::StringSet<> &keep_;
  OpWriter writer_;
  IndexPatterns patterns_;
  // The pattern that was matched last.
  MatMulOp first_, second_;
  double scale_ = 1, outside_ = 0;
  bool causal_ = false;
  int64_t start_ = 0;
  SmallVector<Value> biases_;
  struct Dropout {
    SelectOp factor;        // null: there is none
    bool whereTrue = false; // its condition says what is kept, not what is dropped
    double scale = 1;       // of what is kept
  } dropout_;
  SmallVector<std::pair<Value, bool>> masks_; // condition; whether scores stay where it is true
};

struct FuseAttention : impl::FuseAttentionPassBase<FuseAttention> {
  using Base::Base;

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    llvm::StringSet<> names;
    for (const std::string &name : keep)
      names.insert(name);
    Fusion(getOperation(), names).run();
  }
};

} // namespace

} // namespace tessera::compiler
