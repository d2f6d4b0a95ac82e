// Elementwise operators, reductions and random fused expressions, plain and behind convolutions (so that
// blocked layouts take part).
#include "runtime/support/Scalar.h"
#include "test/conformance/backend/Loops.h"
#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

void addAll(google::protobuf::RepeatedField<int64_t> *to, const Shape &shape) {
  for (int64_t d : shape)
    to->Add(d);
}

/// A random expression over given inputs. If it is exact, it has only operators that keep small integers exact.
class ExpressionMaker {
public:
  ExpressionMaker(Random &random, plan::Expression &e, bool exact) : random_(random), e_(e), exact_(exact) {}

  void input(plan::DType type, const Shape &view) {
    addAll(e_.add_input_views()->mutable_shape(), view);
    values_.push_back({type, true});
  }
  uint32_t add(const std::string &op, const std::vector<uint32_t> &operands, plan::DType type, double immediate = 0) {
    plan::Instruction *i = e_.add_code();
    i->set_op(op);
    for (uint32_t o : operands)
      i->add_operands(o);
    i->set_type(type);
    i->set_immediate(immediate);
    values_.push_back({type, false});
    return uint32_t(values_.size() - 1);
  }
  /// Any earlier value of this type. With `leaf` it is an input or a small constant.
  uint32_t any(plan::DType type, bool leaf = false) {
    std::vector<uint32_t> candidates;
    for (uint32_t v = 0; v < values_.size(); ++v)
      if (values_[v].first == type && (!leaf || values_[v].second))
        candidates.push_back(v);
    if (candidates.empty()) {
      uint32_t v = type == plan::BOOL && random_.coin()
                       ? add("lt", {any(plan::F32, true), any(plan::F32, true)}, plan::BOOL)
                   : type == plan::BOOL ? add("constant", {}, type, double(random_.integer(0, 1)))
                                        : add("constant", {}, type, double(random_.integer(-2, 2)));
      values_[v].second = true;
      return v;
    }
    return random_.pick(candidates);
  }
  void step() {
    static const std::vector<std::string> exactUnary = {"neg", "abs", "sign", "relu", "floor", "round"};
    static const std::vector<std::string> smoothUnary = {"neg", "tanh", "sigmoid", "erf", "atan",
                                                         "sin", "cos",  "relu",    "abs"};
    static const std::vector<std::string> exactBinary = {"add", "sub", "max", "min"};
    static const std::vector<std::string> compare = {"eq", "lt", "le"};
    static const std::vector<std::string> logic = {"and", "or", "xor"};
    switch (random_.integer(0, 9)) {
    case 0:
      add(random_.pick(exact_ ? exactUnary : smoothUnary), {any(plan::F32)}, plan::F32);
      break;
    case 1:
    case 2:
      add(random_.pick(exactBinary), {any(plan::F32), any(plan::F32)}, plan::F32);
      break;
    case 3:
    case 4: // small factors: products stay exact, or of the size of the inputs
      add("mul", {any(plan::F32, true), any(plan::F32, exact_)}, plan::F32);
      break;
    case 5: // a comparison of computed reals could fall differently in F64
      add(random_.pick(compare), {any(plan::F32, !exact_), any(plan::F32, !exact_)}, plan::BOOL);
      break;
    case 6:
      add("select", {any(plan::BOOL), any(plan::F32), any(plan::F32)}, plan::F32);
      break;
    case 8:
    case 9:
      integerStep();
      break;
    case 7:
      if (random_.coin())
        add(random_.pick(logic), {any(plan::BOOL), any(plan::BOOL)}, plan::BOOL);
      else
        add(random_.coin() ? "not" : "cast", {any(plan::BOOL)}, plan::BOOL);
      add("cast", {uint32_t(values_.size() - 1)}, plan::F32);
      break;
    }
  }
  /// Operators on integers: arithmetic, comparisons, and conversions from and to other types.
  void integerStep() {
    static const std::vector<std::string> arithmetic = {"add", "sub", "max", "min", "mul"};
    static const std::vector<std::string> compare = {"eq", "lt", "le"};
    switch (random_.integer(0, 5)) {
    case 0: {
      if (e_.domain_size() == 0)
        break;
      uint32_t v = add("iota", {}, plan::I64);
      plan::Expression &e = e_;
      setAttributes(*e.mutable_code(e.code_size() - 1)->mutable_attributes(),
                    {{"dim", random_.integer(0, e.domain_size() - 1)}, {"start", random_.integer(-3, 3)}});
      values_[v].second = true;
      break;
    }
    case 1:
      add(random_.pick(arithmetic), {any(plan::I64, true), any(plan::I64, true)}, plan::I64);
      break;
    case 2:
      add(random_.pick(compare), {any(plan::I64), any(plan::I64)}, plan::BOOL);
      break;
    case 3:
      add("select", {any(plan::BOOL), any(plan::I64), any(plan::I64)}, plan::I64);
      break;
    case 4:
      add("cast", {any(plan::BOOL)}, plan::I64);
      break;
    case 5: // of small integers: exact in F32, and of the size of the other values
      add("cast", {add("eq", {any(plan::I64), any(plan::I64)}, plan::BOOL)}, plan::F32);
      break;
    }
  }
  plan::DType typeOf(uint32_t v) const { return values_[v].first; }
  uint32_t count() const { return uint32_t(values_.size()); }
  void result(uint32_t value, plan::Reduction reduction, const Shape &view) {
    plan::Result *r = e_.add_results();
    r->set_value(value);
    r->set_reduction(reduction);
    addAll(r->mutable_shape(), view);
  }

private:
  Random &random_;
  plan::Expression &e_;
  bool exact_;
  std::vector<std::pair<plan::DType, bool>> values_;
};

/// The domain with some extents set to 1. Bit d of `mask` keeps dimension d.
Shape masked(const Shape &domain, int64_t mask) {
  Shape view = domain;
  for (size_t d = 0; d < view.size(); ++d)
    if (!(mask >> d & 1))
      view[d] = 1;
  return view;
}

/// Adds a random fused kernel over `fulls` (buffers of the domain's shape) and new broadcast inputs.
void addFused(Random &random, Case &c, const Shape &domain, const std::vector<uint32_t> &fulls, bool channelsOnly) {
  plan::Kernel &k = c.plan.kernel("fused", {}, {});
  plan::Expression &e = *k.mutable_expression();
  addAll(e.mutable_domain(), domain);
  bool exact = c.tolerance == 0;
  ExpressionMaker maker(random, e, exact);
  for (uint32_t b : fulls) {
    k.add_inputs(b);
    maker.input(plan::F32, domain);
  }
  int64_t all = (int64_t(1) << domain.size()) - 1;
  auto mask = [&]() -> int64_t {
    if (channelsOnly && domain.size() > 1)
      return random.pick<int64_t>({2, 2, 2, 0, 3, all});
    return random.integer(0, all);
  };
  for (int64_t i = random.integer(0, 3); i > 0; --i) {
    Shape view = masked(domain, mask());
    plan::DType type = random.pick<plan::DType>({plan::BOOL, plan::I64, plan::F32, plan::F32, plan::F32, plan::F32});
    k.add_inputs(c.input(random, type, view));
    maker.input(type, view);
  }
  // A step may add nothing, since an iota of a scalar has no dimension.
  for (int64_t i = random.integer(1, 10); i > 0 || maker.count() == 0; --i)
    maker.step();
  std::vector<uint32_t> overwritable = fulls;
  for (int64_t i = random.integer(1, 3); i > 0; --i) {
    uint32_t v = random.integer(0, 3) ? maker.count() - 1 : uint32_t(random.integer(0, maker.count() - 1));
    plan::Reduction kind =
        random.pick<plan::Reduction>({plan::NONE, plan::NONE, plan::SUM, plan::SUM, plan::MAX, plan::MIN});
    if (maker.typeOf(v) != plan::F32)
      kind = plan::NONE;
    Shape view = kind == plan::NONE ? domain : masked(domain, mask());
    maker.result(v, kind, view);
    if (kind == plan::NONE && maker.typeOf(v) == plan::F32 && !overwritable.empty() && random.coin()) {
      k.add_outputs(overwritable.back()); // in place
      c.wanted.push_back(overwritable.back());
      overwritable.pop_back();
    } else {
      k.add_outputs(c.output(maker.typeOf(v), view));
    }
  }
  c.what += " fused " + str(domain) + ": " + e.ShortDebugString();
}

} // namespace

TEST_CASE("random fused expressions", "[conformance]") {
  Random random(21);
  for (int i = 0; i < 400; ++i) {
    Case c;
    c.tolerance = random.coin() ? 0 : 1e-5;
    Shape domain;
    for (int64_t d = random.integer(0, 4); d > 0; --d)
      domain.push_back(random.pick<int64_t>({1, 2, 3, 5, 16, 17, 33}));
    if (random.integer(0, 3) == 0)
      domain.push_back(random.pick<int64_t>({300, 5000, 12345}));
    if (elementCount(domain) > 200000)
      continue;
    std::vector<uint32_t> fulls;
    for (int64_t n = random.integer(0, 3); n > 0; --n)
      fulls.push_back(c.input(random, plan::F32, domain));
    addFused(random, c, domain, fulls, false);
    check(c);
  }
}

TEST_CASE("the class of a target is found among all numbers that F32 tells apart, and beyond", "[conformance]") {
  Random random(24);
  const int64_t floats = int64_t(1) << 24; // F32 has no odd numbers beyond
  for (const int64_t start : {-floats - 3, -floats + 1, int64_t(0), floats - 48, floats - 47, floats - 20})
    for (const bool shared : {false, true}) { // also summed as an integer
      Case c;
      const Shape full = {8, 48}, row = {8, 1};
      const uint32_t x = c.input(random, plan::F32, full), target = c.input(random, plan::I64, row),
                     one = c.output(plan::F32, row), hit = c.output(plan::BOOL, full);
      c.inputs[target] = {double(start),      double(start + 47), double(start + 48), double(start - 1),
                          double(floats - 1), double(floats),     double(floats + 1), double(-floats - 1)};
      Loop loop(c.plan, full);
      loop.in(x)
          .in(target, row)
          .op("iota", {}, plan::I64, 0, {{"dim", int64_t(1)}, {"start", start}})
          .op("eq", {1, 2}, plan::BOOL)
          .constant(0)
          .op("select", {3, 0, 4})
          .out(one, 5, plan::SUM, row)
          .out(hit, 3);
      if (shared)
        loop.out(c.output(plan::I64, full), 2);
      check(c);
    }
}

TEST_CASE("random fused expressions behind a convolution", "[conformance]") {
  Random random(22);
  for (int i = 0; i < 120; ++i) {
    Case c;
    c.tolerance = random.coin() ? 0 : 2e-5;
    int64_t n = random.integer(1, 3), channels = random.pick<int64_t>({3, 16, 32, 64});
    Shape domain = {n, channels, random.integer(1, 9), random.integer(1, 9)};
    int64_t in = random.pick<int64_t>({1, 16});
    Shape xs = {n, in, domain[2], domain[3]};
    uint32_t x = c.input(random, plan::F32, xs), w = c.input(random, plan::F32, {channels, in, 1, 1});
    uint32_t y = c.output(plan::F32, domain);
    c.plan.kernel(
        "conv", {x, w}, {y},
        {{"strides", Shape{1, 1}}, {"pads", Shape(4, 0)}, {"dilations", Shape{1, 1}}, {"groups", int64_t(1)}});
    std::vector<uint32_t> fulls = {y};
    if (random.coin())
      fulls.push_back(c.input(random, plan::F32, domain));
    addFused(random, c, domain, fulls, random.integer(0, 4) != 0);
    // The results feed kernels that want other layouts.
    if (random.coin()) {
      Shape flat = {domain[0], domain[1] * domain[2] * domain[3]};
      c.plan.kernel("reshape", {y}, {c.output(plan::F32, flat)});
    }
    check(c);
  }
}

TEST_CASE("a weight update runs in the layout of the weight", "[conformance]") {
  Random random(23);
  for (int64_t channels : {16, 20, 64}) {
    Case c;
    c.tolerance = 1e-5;
    Shape ws = {channels, channels, 3, 3}, xs = {2, channels, 5, 5};
    uint32_t x = c.input(random, plan::F32, xs), dy = c.input(random, plan::F32, xs);
    uint32_t w = c.input(random, plan::F32, ws), momentum = c.input(random, plan::F32, ws);
    uint32_t y = c.output(plan::F32, xs), dw = c.output(plan::F32, ws);
    c.wanted.push_back(w);
    c.wanted.push_back(momentum);
    Attributes a = {
        {"strides", Shape{1, 1}}, {"pads", Shape(4, 1)}, {"dilations", Shape{1, 1}}, {"groups", int64_t(1)}};
    c.plan.kernel("conv", {x, w}, {y}, a);
    a["kernel_sizes"] = Shape{3, 3};
    c.plan.kernel("conv_weight_grad", {x, dy}, {dw}, a);
    // m = 0.9 m + dw and w = w - 0.1 m are computed in place, and the norm of dw beside them.
    plan::Kernel &k = c.plan.kernel("fused", {w, momentum, dw}, {w, momentum, c.output(plan::F32, {})});
    plan::Expression &e = *k.mutable_expression();
    addAll(e.mutable_domain(), ws);
    ExpressionMaker maker(random, e, false);
    for (int i = 0; i < 3; ++i)
      maker.input(plan::F32, ws);
    uint32_t decay = maker.add("constant", {}, plan::F32, 0.9), rate = maker.add("constant", {}, plan::F32, 0.1);
    uint32_t m = maker.add("add", {maker.add("mul", {1, decay}, plan::F32), 2}, plan::F32);
    uint32_t step = maker.add("sub", {0, maker.add("mul", {m, rate}, plan::F32)}, plan::F32);
    uint32_t square = maker.add("mul", {2, 2}, plan::F32);
    maker.result(step, plan::NONE, ws);
    maker.result(m, plan::NONE, ws);
    maker.result(square, plan::SUM, {1, 1, 1, 1});
    c.what = "update of " + str(ws);
    check(c);
  }
}

TEST_CASE("single elementwise operators", "[conformance]") {
  Random random(24);
  using Kind = ElementwiseKind;
  for (const ElementwiseFunction &f : elementwiseFunctions()) {
    if (f.kind == Kind::Logic || f.kind == Kind::LogicUnary || f.kind == Kind::Whole || f.kind == Kind::Select)
      continue;
    for (int i = 0; i < 12; ++i) {
      Case c;
      // The backend computes in F32, too. If the result falls between two numbers of 16 bits, its last bit decides.
      plan::DType type = i < 6 ? plan::F32 : i < 9 ? plan::BF16 : plan::F16;
      const double last = type == plan::BF16 ? 0x1p-7 : 0x1p-10;
      c.tolerance = i < 6 ? f.tolerance : f.tolerance > 0 ? last : 0;
      Shape shape = {random.integer(1, 5), random.integer(1, 40), random.integer(1, 30)};
      std::vector<uint32_t> inputs;
      std::string name(f.name);
      for (int o = 0; o < f.operands; ++o) {
        Shape own = o == 0 || random.coin() ? shape : masked(shape, random.integer(0, 7));
        inputs.push_back(c.plan.buffer(type, own));
        c.inputs[inputs.back()] = random.reals(elementCount(own), f.low, f.high);
      }
      c.what = name + " of " + dtypeName(type) + " " + str(shape);
      c.plan.kernel(name, inputs, {c.output(f.kind == Kind::Compare ? plan::BOOL : type, shape)});
      check(c);
    }
  }
}

TEST_CASE("integers of every type are read, compared and converted", "[conformance]") {
  Random random(28);
  for (plan::DType type : {plan::I64, plan::I32, plan::I8, plan::U8}) {
    Case c;
    c.what = "integers of type " + std::to_string(type);
    Shape shape = {7, 33};
    uint32_t a = c.input(random, type, shape), b = c.input(random, type, {33});
    c.plan.kernel("le", {a, b}, {c.output(plan::BOOL, shape)});
    c.plan.kernel("eq", {a, b}, {c.output(plan::BOOL, shape)});
    c.plan.kernel("cast", {a}, {c.output(plan::F32, shape)});
    c.plan.kernel("cast", {a}, {c.output(plan::I64, shape)});
    c.plan.kernel("cast", {a}, {c.output(plan::I32, shape)});
    c.plan.kernel("add", {a, b}, {c.output(type, shape)});
    c.plan.kernel("mul", {a, a}, {c.output(type, shape)});
    for (const ElementwiseFunction &f : elementwiseFunctions())
      if (f.kind == ElementwiseKind::Whole)
        c.plan.kernel(std::string(f.name), {a, b}, {c.output(type, shape)});
    check(c);
  }
}

TEST_CASE("numbers become integers", "[conformance]") {
  Random random(29);
  const Shape shape = {37, 50};
  for (plan::DType type : {plan::I64, plan::I32, plan::I8}) {
    Case c;
    c.what = "numbers as " + dtypeName(type);
    const uint32_t x = c.plan.buffer(plan::F32, shape), one = c.plan.buffer(plan::F32, {1, 50});
    c.inputs[x] = random.reals(elementCount(shape), -128, 128);
    c.inputs[one] = random.reals(50, -128, 128);
    c.plan.kernel("cast", {x}, {c.output(type, shape)});
    c.plan.kernel("cast", {one}, {c.output(type, {1, 50})});
    // Inside of a loop, and back.
    const uint32_t whole = c.output(type, shape), back = c.output(plan::F32, shape);
    Loop(c.plan, shape)
        .in(x)
        .op("round", {0})
        .op("cast", {1}, type)
        .op("cast", {2}, plan::F32)
        .out(whole, 2)
        .out(back, 3);
    check(c);
  }
  Case c;
  c.what = "numbers that no integer is";
  const uint32_t x = c.plan.buffer(plan::F32, {6});
  c.inputs[x] = {NAN, INFINITY, -INFINITY, 0x1p63, -0x1p63, -0.9};
  c.plan.kernel("cast", {x}, {c.output(plan::I64, {6})});
  check(c);
}

TEST_CASE("a conversion that rounds does so inside of a loop", "[conformance]") {
  Random random(30);
  const Shape shape = {40, 50};
  for (plan::DType half : {plan::BF16, plan::F16}) {
    Case c;
    c.what = "a conversion to " + dtypeName(half);
    c.tolerance = 1e-6;
    const uint32_t x = c.plan.buffer(plan::F32, shape), rounded = c.plan.buffer(half, shape);
    c.inputs[x] = random.reals(elementCount(shape), -9, 9);
    const uint32_t apart = c.output(plan::F32, shape), together = c.output(plan::F32, shape);
    const uint32_t row = c.output(plan::F32, {40, 1}), stored = c.output(half, shape);
    c.plan.kernel("cast", {x}, {rounded});
    Loop(c.plan, shape).in(rounded).op("mul", {0, 0}).out(apart, 1);
    Loop(c.plan, shape)
        .in(x)
        .op("neg", {0})
        .op("cast", {1}, half, 0, {{"rounds", int64_t(1)}})
        .op("cast", {2}, plan::F32)
        .op("mul", {3, 3})
        .out(together, 4)
        .out(row, 3, plan::SUM, {40, 1})
        .out(stored, 2);
    check(c);
    for (const std::string &backend : backendsUnderTest()) {
      const std::vector<Values> found = c.plan.run(backend, c.inputs, {apart, together});
      INFO(c.what << " on " << backend);
      CHECK(found[0] == found[1]);
    }
  }
}

TEST_CASE("special numbers pass as in the reference", "[conformance]") {
  const double inf = INFINITY, nan = NAN;
  for (const char *name : {"relu", "sign", "abs", "neg", "exp", "tanh", "sigmoid", "floor", "sqrt", "not"}) {
    Case c;
    c.tolerance = 1e-6;
    bool logic = name == std::string("not");
    plan::DType type = logic ? plan::BOOL : plan::F32;
    uint32_t x = c.plan.buffer(type, {40});
    c.inputs[x] = Values(40, logic ? 1 : nan);
    if (!logic)
      for (size_t i = 0; i < 40; i += 3)
        c.inputs[x][i] = i % 2 ? inf : i % 4 ? -inf : 0.5;
    c.what = name;
    c.plan.kernel(name, {x}, {c.output(type, {40})});
    check(c);
  }
  for (const char *name : {"max", "min", "add", "mul", "lt", "eq"}) {
    Case c;
    uint32_t a = c.plan.buffer(plan::F32, {5}), b = c.plan.buffer(plan::F32, {5});
    c.inputs[a] = {nan, 1, inf, -inf, 0};
    c.inputs[b] = {1, nan, 1, inf, -0.0};
    c.what = name;
    bool compare = name == std::string("lt") || name == std::string("eq");
    c.plan.kernel(name, {a, b}, {c.output(compare ? plan::BOOL : plan::F32, {5})});
    check(c);
  }
}

TEST_CASE("random numbers are the same on every backend", "[conformance]") {
  Random random(25);
  auto draw = [&](const Shape &global, const Shape &box, const Shape &offset) {
    Case c;
    uint32_t step = c.plan.buffer(plan::I64, {});
    c.inputs[step] = {double(random.integer(0, 1000000))};
    c.what = "random " + str(box) + " of " + str(global);
    c.plan.kernel("random", {step}, {c.output(plan::F32, box)},
                  {{"seed", random.integer(0, int64_t(1) << 62)},
                   {"stream", random.integer(0, 99)},
                   {"global_shape", global},
                   {"offset", offset}});
    check(c);
  };
  for (int i = 0; i < 20; ++i) {
    Shape global, box, offset;
    for (int64_t d = random.integer(1, 4); d > 0; --d) {
      global.push_back(random.integer(1, 40));
      box.push_back(random.integer(1, global.back()));
      offset.push_back(random.integer(0, global.back() - box.back()));
    }
    draw(global, box, offset);
  }
  // Large enough for four neighbours at a time, which have one counter, or two.
  draw({1030, 1088}, {1024, 1056}, {6, 32});
  draw({1030, 1088}, {1024, 1056}, {6, 30});
  draw({1030, 1087}, {1024, 1056}, {4, 28});
  draw({1024, 1025}, {1024, 1025}, {0, 0});
}

TEST_CASE("reductions of every kind and type", "[conformance]") {
  Random random(26);
  for (int i = 0; i < 150; ++i) {
    Case c;
    plan::DType type = random.pick<plan::DType>({plan::F32, plan::F32, plan::F32, plan::I64, plan::I32, plan::F64});
    Shape x, dims, y;
    for (int64_t d = random.integer(1, 4); d > 0; --d)
      x.push_back(random.pick<int64_t>({1, 2, 7, 16, 30}));
    bool keep = random.coin();
    for (size_t d = 0; d < x.size(); ++d) {
      bool gone = random.coin();
      if (gone)
        dims.push_back(int64_t(d));
      if (!gone || keep)
        y.push_back(gone ? 1 : x[d]);
    }
    std::string name = random.pick<std::string>({"reduce_sum", "reduce_max", "reduce_min"});
    c.what = name + " " + str(x) + " over " + str(dims);
    c.plan.kernel(name, {c.input(random, type, x)}, {c.output(type, y)}, {{"dims", dims}, {"keepdims", int64_t(keep)}});
    check(c);
  }
}

TEST_CASE("reductions of few terms, of which many lie side by side", "[conformance]") {
  Random random(28);
  for (const Shape &x : {Shape{16, 3, 4096}, {5, 2, 5, 300}, {3, 4, 1000}, {64, 8, 40}})
    for (const char *name : {"reduce_sum", "reduce_max", "reduce_min"}) {
      Case c;
      c.tolerance = 1e-5;
      c.what = std::string(name) + " " + str(x);
      Shape y = x;
      y[1] = 1;
      c.plan.kernel(name, {c.input(random, plan::F32, x)}, {c.output(plan::F32, y)},
                    {{"dims", Shape{1}}, {"keepdims", int64_t(1)}});
      check(c);
    }
}

TEST_CASE("sums do not depend on the number of threads", "[conformance]") {
  Random random(27);
  PlanBuilder p;
  uint32_t x = p.buffer(plan::F32, {8, 64, 33}), y = p.buffer(plan::F32, {64}), z = p.buffer(plan::F32, {});
  uint32_t w = p.buffer(plan::F32, {8, 3, 704}), few = p.buffer(plan::F32, {8, 704}); // as many as x
  p.kernel("reduce_sum", {w}, {few}, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}});
  p.kernel("reduce_sum", {x}, {y}, {{"dims", Shape{0, 2}}, {"keepdims", int64_t(0)}});
  p.kernel("reduce_sum", {x}, {z}, {{"dims", Shape{0, 1, 2}}, {"keepdims", int64_t(0)}});
  Values v = random.reals(8 * 64 * 33, -1, 1);
  std::vector<std::vector<Values>> all;
  for (int threads : {1, 2, 3, 7}) {
    LoadOptions options;
    options.threads = threads;
    all.push_back(p.run("cpu", {{x, v}, {w, v}}, {y, z, few}, options));
  }
  for (const auto &one : all)
    CHECK(one == all[0]);
}
