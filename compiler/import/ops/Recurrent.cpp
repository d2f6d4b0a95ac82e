//===- Recurrent.cpp - RNN, GRU and LSTM, one step after the other --------------------------------===//
//
// One product computes the contributions of the inputs for all steps. Each step then adds the product with the state.
// Formulas and the order of gates are ONNX's (i o f c; z r h). The steps are unrolled, so a network of 1,000 steps
// becomes some 10,000 operators.
//
// A sequence that is shorter than the input keeps its state in the steps behind its end, where its outputs are 0. In
// the backward direction these steps come first and leave the initial state unchanged.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

constexpr int64_t kMaxSteps = 4096;

namespace {

enum class Cell { Rnn, Gru, Lstm };

/// One direction of one layer.
class Layer {
public:
  Layer(Node &n, Cell cell, int64_t direction, int64_t hidden)
      : n_(n), cell_(cell), direction_(direction), hidden_(hidden), gates_(cell == Cell::Lstm  ? 4
                                                                           : cell == Cell::Gru ? 3
                                                                                               : 1),
        name_(direction == 0 ? "" : "reverse_") {}

  /// Returns Y [steps, batch, hidden] as one value per step, and sets h and c to those of the last step.
  std::vector<Val> run(const Val &x, bool backward);
  Val lengths; // [batch, 1], or all are whole
  Val h, c;
  std::vector<std::string> activations;
  bool linearBeforeReset = false;

private:
  /// The weight of this direction, a row of the stacked weight.
  Val own(const Val &v, const std::string &suffix) {
    if (!v)
      return {};
    Shape starts(v.rank(), 0), limits = v.shape, strides(v.rank(), 1);
    starts[0] = direction_;
    limits[0] = direction_ + 1;
    Shape shape(v.shape.begin() + 1, v.shape.end());
    return n_.b.reshape(n_.b.slice(v, starts, limits, strides, name_ + suffix), shape, name_ + suffix + "_reshape");
  }
  /// Columns [first, first + count) * hidden of the last dimension.
  Val columns(const Val &v, int64_t first, int64_t count, const std::string &suffix) {
    if (!v)
      return {};
    Shape starts(v.rank(), 0), limits = v.shape, strides(v.rank(), 1);
    starts.back() = first * hidden_;
    limits.back() = (first + count) * hidden_;
    return n_.b.slice(v, starts, limits, strides, name_ + suffix);
  }
  Val activate(size_t which, const Val &x, const std::string &suffix) {
    const std::string &f = activations[which];
    if (f == "Sigmoid")
      return n_.b.unary<graph::SigmoidOp>(x, name_ + suffix);
    if (f == "Tanh")
      return n_.b.unary<graph::TanhOp>(x, name_ + suffix);
    return n_.b.unary<graph::ReluOp>(x, name_ + suffix);
  }
  void step(const Val &inputs);

  Node &n_;
  Cell cell_;
  int64_t direction_, hidden_, gates_;
  std::string name_;
  Val recurrent_, recurrentBias_, peepholes_;
};

std::vector<Val> Layer::run(const Val &x, bool backward) {
  int64_t steps = x.shape[0], batch = x.shape[1], width = gates_ * hidden_;
  Val w = own(n_.in(1), "w"), bias = own(n_.opt(3), "bias");
  recurrent_ = own(n_.in(2), "r");
  recurrentBias_ = bias ? columns(bias, gates_, gates_, "bias_r") : Val();
  peepholes_ = own(n_.opt(7), "peepholes");
  h = own(n_.opt(5), "h0");
  if (!h)
    h = n_.b.known(Constant::splat(x.type, {batch, hidden_}, 0));
  c = own(n_.opt(6), "c0");
  if (!c)
    c = n_.b.known(Constant::splat(x.type, {batch, hidden_}, 0));
  Val all = n_.b.matmul(n_.b.reshape(x, {steps * batch, x.shape[2]}, name_ + "rows"), w, false, true, name_ + "inputs");
  if (bias)
    all = n_.b.add(all, columns(bias, 0, gates_, "bias_w"), name_ + "inputs_bias");
  all = n_.b.reshape(all, {steps, batch, width}, name_ + "inputs_steps");
  std::vector<Val> outputs(steps);
  for (int64_t i = 0; i < steps && !n_.failed(); ++i) {
    int64_t t = backward ? steps - 1 - i : i;
    Val now = n_.b.slice(all, {t, 0, 0}, {t + 1, batch, width}, {1, 1, 1}, name_ + "step");
    Val oldH = h, oldC = c;
    step(n_.b.reshape(now, {batch, width}, name_ + "step_reshape"));
    outputs[t] = h;
    if (!lengths)
      continue;
    Val inside = n_.b.binary<graph::LtOp>(n_.b.scalarLike(lengths, double(t)), lengths, name_ + "inside");
    h = n_.b.select(inside, h, oldH, name_ + "h_masked");
    if (cell_ == Cell::Lstm)
      c = n_.b.select(inside, c, oldC, name_ + "c_masked");
    outputs[t] = n_.b.select(inside, outputs[t], n_.b.scalarLike(x, 0), name_ + "y_masked");
  }
  return outputs;
}

void Layer::step(const Val &inputs) {
  Val product = n_.b.matmul(h, recurrent_, false, true, name_ + "state");
  if (cell_ == Cell::Rnn) {
    Val sum = n_.b.add(inputs, product, name_ + "sum");
    if (recurrentBias_)
      sum = n_.b.add(sum, recurrentBias_, name_ + "sum_bias");
    h = activate(0, sum, "h");
    return;
  }
  if (cell_ == Cell::Gru) {
    Val sum = product;
    if (recurrentBias_)
      sum = n_.b.add(sum, recurrentBias_, name_ + "state_bias");
    Val gates =
        activate(0, n_.b.add(columns(inputs, 0, 2, "x_zr"), columns(sum, 0, 2, "h_zr"), name_ + "zr_sum"), "zr");
    Val z = columns(gates, 0, 1, "z"), r = columns(gates, 1, 1, "r_gate"), hidden;
    if (linearBeforeReset) {
      hidden = n_.b.mul(r, columns(sum, 2, 1, "h_h"), name_ + "reset");
    } else { // the reset state meets the last block of the weights alone
      Shape limits = recurrent_.shape;
      Val block = n_.b.slice(recurrent_, {2 * hidden_, 0}, limits, {1, 1}, name_ + "r_h");
      hidden = n_.b.matmul(n_.b.mul(r, h, name_ + "reset"), block, false, true, name_ + "state_h");
      if (recurrentBias_)
        hidden = n_.b.add(hidden, columns(recurrentBias_, 2, 1, "bias_h"), name_ + "state_h_bias");
    }
    Val candidate = activate(1, n_.b.add(columns(inputs, 2, 1, "x_h"), hidden, name_ + "h_sum"), "candidate");
    // (1 - z) * candidate + z * h
    h = n_.b.add(candidate, n_.b.mul(z, n_.b.sub(h, candidate, name_ + "change"), name_ + "kept"), name_ + "h");
    return;
  }
  Val sum = n_.b.add(inputs, product, name_ + "sum");
  if (recurrentBias_)
    sum = n_.b.add(sum, recurrentBias_, name_ + "sum_bias");
  auto gate = [&](int64_t which, size_t activation, int64_t peephole, const Val &state, const std::string &suffix) {
    Val v = columns(sum, which, 1, suffix + "_sum");
    if (peepholes_ && peephole >= 0)
      v = n_.b.add(v, n_.b.mul(columns(peepholes_, peephole, 1, suffix + "_weights"), state, name_ + suffix + "_peep"),
                   name_ + suffix + "_peeped");
    return activate(activation, v, suffix);
  };
  Val i = gate(0, 0, 0, c, "i"), f = gate(2, 0, 2, c, "f"), g = gate(3, 1, -1, {}, "g");
  c = n_.b.add(n_.b.mul(f, c, name_ + "kept"), n_.b.mul(i, g, name_ + "new"), name_ + "c");
  Val o = gate(1, 0, 1, c, "o");
  h = n_.b.mul(o, activate(2, c, "c_out"), name_ + "h");
}

} // namespace

template <Cell cell> static void recurrent(Node &n) {
  Val x = n.in(0), w = n.in(1), r = n.in(2);
  std::string direction = n.attrString("direction", "forward");
  int64_t hidden = n.attrInt("hidden_size", r && r.rank() == 3 ? r.shape[2] : 0);
  bool batchFirst = n.attrInt("layout", 0) != 0;
  auto names = n.attrStrings("activations");
  bool lbr = cell == Cell::Gru && n.attrInt("linear_before_reset", 0) != 0;
  if (cell == Cell::Lstm && n.attrInt("input_forget", 0) != 0)
    n.fail("input_forget=1 is not supported");
  if (n.failed())
    return;
  constexpr int64_t gates = cell == Cell::Lstm ? 4 : cell == Cell::Gru ? 3 : 1;
  int64_t dirs = direction == "bidirectional" ? 2 : 1;
  if (direction != "forward" && direction != "reverse" && dirs == 1)
    return (void)n.fail("direction='" + direction + "' is unknown");
  if (batchFirst)
    x = n.b.transpose(x, {1, 0, 2}, "steps_first");
  bool good = x && x.rank() == 3 && isFloat(x.type) && hidden > 0 && hidden < (1 << 20) &&
              w.shape == Shape{dirs, gates * hidden, x.shape[2]} && r.shape == Shape{dirs, gates * hidden, hidden} &&
              (!n.has(3) || n.in(3).shape == Shape{dirs, 2 * gates * hidden}) &&
              (!n.has(7) || n.in(7).shape == Shape{dirs, 3 * hidden});
  if (!good)
    return (void)n.fail("the input " + shapeText(x.shape) + ", W " + shapeText(w.shape) + ", R " + shapeText(r.shape) +
                        " and the biases do not fit hidden_size " + Twine(hidden));
  int64_t steps = x.shape[0], batch = x.shape[1];
  if (steps > kMaxSteps)
    return (void)n.fail("more than " + Twine(kMaxSteps) + " steps are not supported");
  Val lengths = n.opt(4);
  if (lengths && (lengths.shape != Shape{batch} || isFloat(lengths.type) || lengths.type == DType::I1))
    return (void)n.fail("sequence_lens " + shapeText(lengths.shape) + " " + dtypeName(lengths.type) + " must be " +
                        Twine(batch) + " integers");
  if (lengths && lengths.known) {
    bool whole = true;
    for (int64_t i = 0; i < batch; ++i) {
      int64_t length = lengths.known->intAt(i);
      if (length < 0 || length > steps)
        return (void)n.fail("a sequence of length " + Twine(length) + " does not fit " + Twine(steps) + " steps");
      whole &= length == steps;
    }
    if (whole)
      lengths = {};
  }
  if (lengths)
    lengths = n.b.reshape(lengths, {batch, 1}, "lengths");
  std::vector<std::string> defaults = {"Sigmoid", "Tanh", "Tanh"};
  if (cell == Cell::Rnn)
    defaults = {"Tanh"};
  if (cell == Cell::Gru)
    defaults = {"Sigmoid", "Tanh"};
  std::vector<std::string> chosen = names.value_or(std::vector<std::string>());
  if (chosen.empty())
    for (int64_t d = 0; d < dirs; ++d)
      llvm::append_range(chosen, defaults);
  if (chosen.size() != defaults.size() * dirs ||
      llvm::any_of(chosen, [](const std::string &f) { return f != "Sigmoid" && f != "Tanh" && f != "Relu"; }))
    return (void)n.fail("activations must be " + Twine(defaults.size() * dirs) + " of Sigmoid, Tanh and Relu");
  const Shape state = batchFirst ? Shape{batch, dirs, hidden} : Shape{dirs, batch, hidden};
  for (int i : {5, 6})
    if (n.has(i) && n.in(i).shape != state)
      return (void)n.fail("an initial state has the shape " + shapeText(n.in(i).shape) + ", not " + shapeText(state));
  if (batchFirst && (n.has(5) || n.has(6)))
    return (void)n.fail("initial states with layout=1 are not supported");

  std::vector<std::vector<Val>> outputs;
  llvm::SmallVector<Val> lastH, lastC;
  for (int64_t d = 0; d < dirs; ++d) {
    Layer layer(n, cell, d, hidden);
    layer.activations.assign(chosen.begin() + d * int64_t(defaults.size()),
                             chosen.begin() + (d + 1) * int64_t(defaults.size()));
    layer.linearBeforeReset = lbr;
    layer.lengths = lengths;
    outputs.push_back(layer.run(x, direction == "reverse" || d == 1));
    if (n.failed())
      return;
    lastH.push_back(n.b.reshape(layer.h, {1, batch, hidden}, "h_reshape"));
    lastC.push_back(n.b.reshape(layer.c, {1, batch, hidden}, "c_reshape"));
  }
  if (n.wanted(0)) {
    llvm::SmallVector<Val> parts; // [1, 1, batch, hidden], by step and direction
    for (int64_t t = 0; t < steps; ++t)
      for (int64_t d = 0; d < dirs; ++d)
        parts.push_back(n.b.reshape(outputs[d][t], {1, 1, batch, hidden}, "y_reshape"));
    Val y = n.b.reshape(n.b.concat(parts, 0, "y"), {steps, dirs, batch, hidden}, "y_steps");
    n.out(0, batchFirst ? n.b.transpose(y, {2, 0, 1, 3}, "batch_first") : y);
  }
  auto last = [&](int i, llvm::ArrayRef<Val> parts) {
    if (!n.wanted(i))
      return;
    Val v = n.b.concat(parts, 0, "last");
    n.out(i, batchFirst ? n.b.transpose(v, {1, 0, 2}, "last_batch_first") : v);
  };
  last(1, lastH);
  if (cell == Cell::Lstm)
    last(2, lastC);
}

llvm::ArrayRef<OpRow> tessera::compiler::recurrentOps() {
  static const llvm::StringLiteral limits = "activations Sigmoid, Tanh, Relu; no clip";
  static const OpRow rows[] = {
      {"GRU", 7, kNewestOpset, recurrent<Cell::Gru>, ".kkbt.", limits},
      {"LSTM", 7, kNewestOpset, recurrent<Cell::Lstm>, ".kkbt...p", limits},
      {"RNN", 7, kNewestOpset, recurrent<Cell::Rnn>, ".kkbt.", limits},
  };
  return rows;
}
