//===- Control.cpp - If, Loop and Scan, unrolled ---------------------------------------------------===//
//
// Programs have no control flow, so conditions and trip counts must be known at import. An If becomes the branch that
// its condition selects. A Loop becomes its body once per trip, a Scan its body once per element of the scanned
// dimension. The operators of later trips have the names of the body's nodes with "_2", "_3", ... appended.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

using namespace tessera;
using namespace tessera::compiler;
using llvm::ArrayRef;
using llvm::Twine;

constexpr int64_t kMaxTrips = 1 << 14;

/// The name of a collective (a node of ai.tessera) in the body; empty if there is none.
static std::string collectiveIn(const onnx::GraphProto &body) {
  for (const auto &node : body.node()) {
    if (node.domain() == kTesseraDomain.str())
      return node.name().empty() ? node.op_type() : node.name();
    for (const auto &attribute : node.attribute())
      if (std::string name = attribute.has_g() ? collectiveIn(attribute.g()) : ""; !name.empty())
        return name;
  }
  return "";
}

static void branch(Node &n) {
  Val condition = n.in(0);
  auto *yes = n.attrGraph("then_branch"), *no = n.attrGraph("else_branch");
  if (n.failed())
    return;
  for (const onnx::GraphProto *body : {yes, no})
    if (std::string name = body && !condition.known ? collectiveIn(*body) : ""; !name.empty())
      return (void)n.fail("the collective '" + Twine(name) +
                          "' in its branch would be reached only by the ranks whose condition says "
                          "so, and they would wait forever: move it out of the branch");
  if (!yes || !no)
    return (void)n.fail("then_branch or else_branch is missing");
  if (!condition.known || condition.size() != 1)
    return (void)n.fail("the condition must be one value known at import: which branch is taken must "
                        "not depend on data");
  std::vector<Val> results = n.subgraph(condition.known->intAt(0) != 0 ? *yes : *no, {});
  if (!n.failed() && results.size() != n.outputs().size())
    return (void)n.fail("its branch has " + Twine(results.size()) + " outputs, not " + Twine(n.outputs().size()));
  for (size_t i = 0; i < results.size() && !n.failed(); ++i)
    n.out(int(i), results[i]);
}

/// x without its dimension `axis` at position `at`.
static Val element(Node &n, const Val &x, int64_t axis, int64_t at) {
  if (!x)
    return {};
  Shape starts(x.rank(), 0), limits = x.shape, strides(x.rank(), 1), shape = x.shape;
  starts[axis] = at;
  limits[axis] = at + 1;
  shape.erase(shape.begin() + axis);
  return n.b.reshape(n.b.slice(x, starts, limits, strides, "element"), shape, "element_reshape");
}

/// The parts along a new dimension `axis`.
static Val stacked(Node &n, ArrayRef<Val> parts, int64_t axis) {
  llvm::SmallVector<Val> wide;
  for (const Val &part : parts) {
    if (!part)
      return {};
    Shape shape = part.shape;
    shape.insert(shape.begin() + axis, 1);
    wide.push_back(n.b.reshape(part, shape, "stack_reshape"));
  }
  return n.b.concat(wide, axis, "stack");
}

static void loop(Node &n) {
  auto *body = n.attrGraph("body");
  if (!body)
    return (void)n.fail("the body is missing");
  Val trips = n.opt(0), condition = n.opt(1);
  std::vector<Val> carried;
  for (int i = 2; i < n.numInputs(); ++i)
    carried.push_back(n.has(i) ? n.inputs()[i] : n.in(i)); // a sequence, too
  size_t scanned = n.outputs().size() - std::min(n.outputs().size(), carried.size());
  if (n.failed())
    return;
  if ((trips && (!trips.known || trips.size() != 1)) || n.outputs().size() < carried.size())
    return (void)n.fail("the trip count must be one number known at import");
  int64_t limit = trips ? trips.known->intAt(0) : kMaxTrips + 1;
  std::vector<llvm::SmallVector<Val>> collected(scanned);
  for (int64_t i = 0; i < limit; ++i) {
    if (condition && (!condition.known || condition.size() != 1))
      return (void)n.fail("its condition must be known at import: when it ends must not depend on "
                          "data");
    if (condition && condition.known->intAt(0) == 0)
      break;
    if (i == kMaxTrips)
      return (void)n.fail("it makes more than " + Twine(kMaxTrips) + " trips");
    std::vector<Val> inputs = {n.b.known(Constant::scalar(DType::I64, i)),
                               condition ? condition : n.b.known(Constant::scalar(DType::I1, 1))};
    llvm::append_range(inputs, carried);
    std::vector<Val> results = n.subgraph(*body, inputs);
    if (n.failed())
      return;
    if (results.size() != 1 + carried.size() + scanned)
      return (void)n.fail("its body has " + Twine(results.size()) + " outputs, not " +
                          Twine(1 + carried.size() + scanned));
    condition = results[0];
    for (size_t k = 0; k < carried.size(); ++k)
      carried[k] = results[1 + k];
    for (size_t k = 0; k < scanned; ++k)
      collected[k].push_back(results[1 + carried.size() + k]);
  }
  for (size_t k = 0; k < carried.size(); ++k)
    n.out(int(k), carried[k]);
  for (size_t k = 0; k < scanned; ++k) {
    if (collected[k].empty())
      return (void)n.fail("it makes no trip, so that an output has no elements");
    n.out(int(carried.size() + k), stacked(n, collected[k], 0));
  }
}

static void scan(Node &n) {
  auto *body = n.attrGraph("body");
  int64_t count = n.attrInt("num_scan_inputs", 0), total = n.numInputs();
  if (!body || count < 1 || count > total)
    return (void)n.fail("the body is missing or num_scan_inputs does not fit");
  int64_t states = total - count, outputs = int64_t(n.outputs().size());
  int64_t made = outputs - states;
  if (made < 0)
    return (void)n.fail("there are fewer outputs than states");
  Shape inAxes = n.attrInts("scan_input_axes").value_or(Shape(count, 0));
  Shape outAxes = n.attrInts("scan_output_axes").value_or(Shape(made, 0));
  Shape inBack = n.attrInts("scan_input_directions").value_or(Shape(count, 0));
  Shape outBack = n.attrInts("scan_output_directions").value_or(Shape(made, 0));
  if (int64_t(inAxes.size()) != count || int64_t(inBack.size()) != count || int64_t(outAxes.size()) != made ||
      int64_t(outBack.size()) != made)
    return (void)n.fail("axes and directions need one number per scanned input or output");
  std::vector<Val> carried, sources;
  int64_t extent = -1;
  for (int64_t i = 0; i < total; ++i) {
    Val x = n.in(int(i));
    if (!x)
      return;
    if (i < states) {
      carried.push_back(x);
      continue;
    }
    int64_t &axis = inAxes[i - states];
    axis = n.axis(axis, x.rank());
    if (n.failed())
      return;
    if (extent >= 0 && x.shape[axis] != extent)
      return (void)n.fail("the scanned inputs differ in extent");
    extent = x.shape[axis];
    sources.push_back(x);
  }
  if (extent < 1 || extent > kMaxTrips)
    return (void)n.fail("it makes " + Twine(extent) + " trips; 1 to " + Twine(kMaxTrips) + " are supported");
  std::vector<llvm::SmallVector<Val>> collected(made);
  for (int64_t i = 0; i < extent; ++i) {
    std::vector<Val> inputs = carried;
    for (int64_t k = 0; k < count; ++k)
      inputs.push_back(element(n, sources[k], inAxes[k], inBack[k] != 0 ? extent - 1 - i : i));
    std::vector<Val> results = n.subgraph(*body, inputs);
    if (n.failed())
      return;
    if (int64_t(results.size()) != outputs)
      return (void)n.fail("its body has " + Twine(results.size()) + " outputs, not " + Twine(outputs));
    for (int64_t k = 0; k < states; ++k)
      carried[k] = results[k];
    for (int64_t k = 0; k < made; ++k)
      collected[k].push_back(results[states + k]);
  }
  for (int64_t k = 0; k < states; ++k)
    n.out(int(k), carried[k]);
  for (int64_t k = 0; k < made; ++k) {
    if (outBack[k] != 0)
      std::reverse(collected[k].begin(), collected[k].end());
    Val first = collected[k].front();
    int64_t axis = n.axis(outAxes[k], first.rank() + 1);
    if (!n.failed())
      n.out(int(states + k), stacked(n, collected[k], axis));
  }
}

ArrayRef<OpRow> tessera::compiler::controlOps() {
  static const OpRow rows[] = {
      {"If", 7, kNewestOpset, branch, "t.", "condition known at import"},
      {"Loop", 7, kNewestOpset, loop, "tt.", "trip count and condition known at import"},
      {"Scan", 9, kNewestOpset, scan, ".", ""},
  };
  return rows;
}
