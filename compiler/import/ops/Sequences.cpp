//===- Sequences.cpp - lists of tensors ------------------------------------------------------------------===//
//
// Scripted models collect tensors in lists and take them out again. Programs have no lists. The length of a list and
// the positions in it must be known at import, so each element becomes a value of its own.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

constexpr size_t kMaxLength = 1 << 16;

static void give(Node &n, std::vector<Val> values) {
  if (n.failed())
    return;
  if (values.size() > kMaxLength)
    return (void)n.fail("a sequence of more than " + Twine(kMaxLength) + " tensors is not supported");
  Val v;
  v.sequence = std::make_shared<const std::vector<Val>>(std::move(values));
  n.out(0, v);
}

/// The position among `count` that input i gives for a sequence of `length`; `otherwise` if the input is absent. A
/// negative position counts from the sequence's end.
static std::optional<size_t> place(Node &n, int i, int64_t count, int64_t length, int64_t otherwise) {
  auto given = n.knownInts(i, "the position");
  if (n.failed())
    return std::nullopt;
  if (given && given->size() != 1) {
    n.fail("the position must be one number");
    return std::nullopt;
  }
  const int64_t position = given ? (*given)[0] : otherwise, at = position < 0 ? position + length : position;
  if (at >= 0 && at < count)
    return size_t(at);
  n.fail("the position " + Twine(position) + " lies outside a sequence of " + Twine(length));
  return std::nullopt;
}

static void sequenceEmpty(Node &n) {
  n.ignoreAttr("dtype"); // its elements have theirs
  give(n, {});
}

static void sequenceConstruct(Node &n) {
  std::vector<Val> values;
  for (int i = 0; i < n.numInputs(); ++i)
    values.push_back(n.in(i));
  give(n, std::move(values));
}

static void sequenceInsert(Node &n) {
  std::vector<Val> values = n.sequenceIn(0);
  Val x = n.in(1);
  auto length = int64_t(values.size());
  auto at = place(n, 2, length + 1, length, length);
  if (!at)
    return;
  values.insert(values.begin() + int64_t(*at), x);
  give(n, std::move(values));
}

static void sequenceErase(Node &n) {
  std::vector<Val> values = n.sequenceIn(0);
  if (auto length = int64_t(values.size()); auto at = place(n, 1, length, length, -1)) {
    values.erase(values.begin() + int64_t(*at));
    give(n, std::move(values));
  }
}

static void sequenceAt(Node &n) {
  const std::vector<Val> &values = n.sequenceIn(0);
  n.in(1);
  auto length = int64_t(values.size());
  if (auto at = place(n, 1, length, length, 0); at && !n.failed())
    n.out(0, values[*at]);
}

static void sequenceLength(Node &n) {
  auto count = int64_t(n.sequenceIn(0).size());
  if (!n.failed())
    n.out(0, n.b.known(Constant::scalar(DType::I64, count)));
}

/// Splits along one dimension: into pieces of 1 without `split`, of one size, or of given sizes. With keepdims = 0
/// pieces of 1 lose the dimension. This also holds for split = 1, which PyTorch's exporter writes, although ONNX
/// ignores keepdims then.
static void splitToSequence(Node &n) {
  Val x = n.in(0);
  int64_t axis = n.axis(n.attrInt("axis", 0), x.rank());
  bool keep = n.attrInt("keepdims", 1) != 0;
  auto given = n.knownInts(1, "split");
  if (n.failed())
    return;
  int64_t extent = x.shape[axis], total = 0;
  bool one = !n.has(1) || n.in(1).rank() == 0;
  Shape sizes = given.value_or(Shape{1});
  keep |= !one || sizes != Shape{1};
  if (one) {
    int64_t size = sizes.empty() ? 0 : sizes[0];
    if (size < 1 || extent / size >= int64_t(kMaxLength))
      return (void)n.fail("cannot split the extent " + Twine(extent) + " into parts of " + Twine(size));
    sizes.clear();
    for (int64_t at = 0; at < extent; at += size)
      sizes.push_back(std::min(size, extent - at));
  }
  for (int64_t size : sizes) {
    if (size < 0 || size > extent)
      return (void)n.fail("a part has the extent " + Twine(size));
    total += size;
  }
  if (total != extent)
    return (void)n.fail("the parts make up " + Twine(total) + ", not the extent " + Twine(extent));
  std::vector<Val> values;
  Shape starts(x.rank(), 0), limits = x.shape, strides(x.rank(), 1);
  for (int64_t size : sizes) {
    limits[axis] = starts[axis] + size;
    Val part = n.b.slice(x, starts, limits, strides, "part");
    starts[axis] = limits[axis];
    if (!keep && part) {
      Shape shape = part.shape;
      shape.erase(shape.begin() + axis);
      part = n.b.reshape(part, shape, "part_reshape");
    }
    values.push_back(part);
  }
  give(n, std::move(values));
}

static void concatFromSequence(Node &n) {
  const std::vector<Val> &values = n.sequenceIn(0);
  bool stack = n.attrInt("new_axis", 0) != 0;
  if (!n.hasAttr("axis"))
    n.fail("the attribute axis is missing");
  if (!n.failed() && values.empty())
    n.fail("an empty sequence has no tensor to begin with");
  if (n.failed())
    return;
  int64_t axis = n.axis(n.attrInt("axis", 0), values[0].rank() + (stack ? 1 : 0));
  llvm::SmallVector<Val> parts;
  for (const Val &value : values) {
    Shape shape = value.shape;
    if (n.failed() || value.rank() != values[0].rank())
      return (void)n.fail("the sequence's tensors differ in rank");
    if (stack)
      shape.insert(shape.begin() + axis, 1);
    parts.push_back(stack ? n.b.reshape(value, shape, "stack_reshape") : value);
  }
  if (!n.failed())
    n.out(0, n.b.concat(parts, axis));
}

llvm::ArrayRef<OpRow> tessera::compiler::sequenceOps() {
  static const llvm::StringLiteral known = "positions and lengths known at import";
  static const OpRow rows[] = {
      {"ConcatFromSequence", 11, kNewestOpset, concatFromSequence, ".", known},
      {"SequenceAt", 11, kNewestOpset, sequenceAt, ">t", known},
      {"SequenceConstruct", 11, kNewestOpset, sequenceConstruct, ".", known},
      {"SequenceEmpty", 11, kNewestOpset, sequenceEmpty, ".", known},
      {"SequenceErase", 11, kNewestOpset, sequenceErase, ">t", known},
      {"SequenceInsert", 11, kNewestOpset, sequenceInsert, "..t", known},
      {"SequenceLength", 11, kNewestOpset, sequenceLength, "t", known},
      {"SplitToSequence", 11, kNewestOpset, splitToSequence, "/t", known},
  };
  return rows;
}
