//===- RandomGraph.cpp - a graph as a whole ------------------------------------------------------===//
#include "test/e2e/RandomGraphWriter.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::test {

void Writer::body() {
  struct Row {
    Value (Writer::*make)();
    int weight;
  };
  static const Row rows[] = {
      {&Writer::unary, 8},      {&Writer::rounding, 2},    {&Writer::binary, 6},     {&Writer::division, 2},
      {&Writer::power, 1},      {&Writer::remainder, 1},   {&Writer::extremum, 2},   {&Writer::comparison, 2},
      {&Writer::logic, 2},      {&Writer::selection, 2},   {&Writer::conversion, 2}, {&Writer::integers, 1},
      {&Writer::source, 2},     {&Writer::dropout, 1},     {&Writer::broadcast, 2},  {&Writer::reshape, 4},
      {&Writer::transpose, 3},  {&Writer::slice, 2},       {&Writer::pad, 2},        {&Writer::concat, 2},
      {&Writer::gather, 2},     {&Writer::scatter, 2},     {&Writer::reduction, 4},  {&Writer::position, 2},
      {&Writer::matmul, 6},     {&Writer::convolution, 3}, {&Writer::transposed, 2}, {&Writer::pooling, 2},
      {&Writer::normalised, 3}, {&Writer::batchNorm, 2},   {&Writer::running, 1},
  };
  int total = 0;
  for (const Row &row : rows)
    total += row.weight;
  for (int64_t left = pick(4, 12); left > 0; --left) {
    int64_t at = pick(0, total - 1);
    const Row *row = rows;
    for (; at >= row->weight; ++row)
      at -= row->weight;
    if (Value made = (this->*row->make)())
      keep(made);
  }
}

/// One value, to which everything contributes that nothing has used.
Value Writer::output(RandomGraph &graph) {
  auto asReal = [&](Value v) {
    if (elementOf(v) == real_)
      return v;
    Value cast = make<CastOp>(type(shapeOf(v), real_), v);
    return elementOf(v) == whole_ ? scaled(cast, 0.1) : cast;
  };
  SmallVector<Value> left;
  for (BlockArgument a : func_.getArguments())
    if (a.use_empty() && a != step_)
      left.push_back(a);
  for (Value v : pool_)
    if (v.use_empty())
      left.push_back(v);
  Value base;
  for (Value v : left)
    if (elementOf(v) == real_ && count(shapeOf(v)) > 1 && (!base || chance(50)))
      base = v;
  if (!base)
    base = generic(real(1, 3));
  Value out = base;
  for (Value v : left) {
    if (v == base)
      continue;
    if (chance(15))
      others_.push_back(v);
    Shape dims(llvm::to_vector(llvm::seq<int64_t>(0, rankOf(v))));
    double size = double(count(shapeOf(v)));
    Value sum = make<ReduceSumOp>(asReal(v), array(dims), flag(false));
    out = make<AddOp>(out, scaled(sum, 0.5 / std::sqrt(size)));
  }
  out = bounded(out);
  if (!trained_)
    return out;
  compiler::TrainingOptions options;
  auto given = [&](auto parsed) { return llvm::cantFail(std::move(parsed)); };
  const char *optimizers[] = {"sgd:lr=0.05", "sgd:lr=0.05,momentum=0.9,weight_decay=0.01",
                              "sgd:lr=0.03,momentum=0.8,nesterov", "adam:lr=0.01,eps=0.001",
                              "adamw:lr=0.01,eps=0.001,weight_decay=0.1"};
  options.optimizer = given(compiler::parseOptimizer(optimizers[pick(0, 4)]));
  if (chance(20))
    options.clipNorm = 0.5;
  if (chance(20))
    options.schedule = given(compiler::parseLearningRate("cosine:steps=5,warmup=1"));
  bool classes = rankOf(out) >= 2;
  switch (pick(0, classes ? 4 : 2)) {
  case 0:
    options.loss = given(compiler::parseLoss("bce_with_logits"));
    break;
  case 1:
  case 2:
    options.loss = given(compiler::parseLoss("mse"));
    break;
  default:
    options.loss =
        given(compiler::parseLoss(chance(50) ? "cross_entropy" : "cross_entropy:label_smoothing=0.1,ignore_index=0"));
    options.loss.classDim = pick(0, rankOf(out) - 1);
    graph.classes = shapeOf(out)[*options.loss.classDim];
  }
  std::mt19937 other = random_; // what follows does not depend on this choice
  graph.hasRows = rankOf(out) > 0 && everyInputHasRows();
  if (other() % 4 == 0 && graph.hasRows)
    options.accumulate = 2 + int64_t(other() % 2);
  graph.training = options;
  return out;
}

bool Writer::everyInputHasRows() {
  for (auto [i, value] : llvm::enumerate(func_.getBody().front().getArguments()))
    if (roles_[i] == kInput && rankOf(value) == 0)
      return false;
  return true;
}

/// The function's type and attributes, and @infer from @forward.
void Writer::finish(RandomGraph &graph, Value out) {
  SmallVector<Value> results = {out};
  results.append(others_);
  SmallVector<std::string> resultRoles(results.size(), kOutput.str());
  for (auto [argument, value] : updates_) {
    results.push_back(value);
    resultRoles.push_back(kUpdate.str());
  }
  builder_.setInsertionPointToEnd(&func_.getBody().front());
  func::ReturnOp::create(builder_, loc_, results);
  func_.setFunctionType(builder_.getFunctionType(func_.getBody().getArgumentTypes(), ValueRange(results).getTypes()));
  auto text = [&](StringRef s) { return builder_.getStringAttr(s); };
  for (unsigned i = 0; i < func_.getNumArguments(); ++i) {
    func_.setArgAttr(i, kRoleAttr, text(roles_[i]));
    func_.setArgAttr(i, kNameAttr, text(names_[i]));
    if (roles_[i] == kState)
      func_.setArgAttr(i, kFillAttr, builder_.getF64FloatAttr(0.25));
  }
  for (unsigned i = 0; i < results.size(); ++i) {
    func_.setResultAttr(i, kRoleAttr, text(resultRoles[i]));
    func_.setResultAttr(i, kNameAttr, text("out" + std::to_string(i)));
  }
  if (!trained_) {
    func_.setName("infer");
    return;
  }
  auto infer = cast<func::FuncOp>(func_->clone());
  graph.module->push_back(infer);
  infer.setName("infer");
  for (auto [number, update] : llvm::enumerate(updates_)) {
    unsigned result = unsigned(1 + others_.size() + number);
    func_.setArgAttr(update.first, kUpdateAttr, i64(result));
    func_.setResultAttr(result, kNameAttr, text(names_[update.first]));
  }
  // Inference knows neither updates nor the step: what would be drawn is a constant.
  Operation *end = infer.getBody().front().getTerminator();
  end->setOperands(end->getOperands().take_front(1 + others_.size()));
  llvm::BitVector gone(infer.getNumResults());
  gone.set(unsigned(1 + others_.size()), infer.getNumResults());
  (void)infer.eraseResults(gone);
  for (Operation &op : llvm::make_early_inc_range(infer.getBody().front()))
    if (auto random = dyn_cast<RandomOp>(op)) {
      builder_.setInsertionPoint(random);
      auto held = ConstantOp::create(builder_, loc_, cast<RankedTensorType>(random.getType()), 0.5);
      random.replaceAllUsesWith(held.getY());
      random.erase();
    }
  for (unsigned i = 0; i < infer.getNumArguments(); ++i)
    if (argRole(infer, i) == kStep) {
      (void)infer.eraseArgument(i);
      break;
    }
}

RandomGraph Writer::write() {
  RandomGraph graph;
  graph.module = ModuleOp::create(loc_);
  trained_ = chance(70);
  func_ = func::FuncOp::create(loc_, "forward", builder_.getFunctionType({}, {}));
  graph.module->push_back(func_);
  builder_.setInsertionPointToEnd(func_.addEntryBlock());
  if (trained_) {
    step_ = argument({}, whole_, kStep);
  }
  keep(argument(randomShape(1, 4), real_, kInput));
  keep(parameter(randomShape(1, 3)));
  body();
  Value out = output(graph);
  finish(graph, out);
  return graph;
}

RandomGraph randomGraph(MLIRContext &context, unsigned seed) { return Writer(context, seed).write(); }

} // namespace tessera::test
