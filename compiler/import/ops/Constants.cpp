//===- Constants.cpp - operators whose result is known at import ------------------------------===//

#include "compiler/import/Node.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace tessera;
using namespace tessera::compiler;

/// A tensor of the file as a known value.
static Val knownTensor(Node &n, const onnx::TensorProto &tensor) {
  auto constant = constantOf(tensor, n.file().directory);
  if (!constant)
    return n.fail(llvm::toString(constant.takeError()));
  return n.b.known(std::move(*constant), n.proto.output(0));
}

static void constant(Node &n) {
  if (n.proto.attribute_size() != 1)
    return (void)n.fail("exactly one value is needed");
  if (auto *tensor = n.attrTensor("value"); tensor && !n.failed())
    return n.out(0, knownTensor(n, *tensor));
  if (n.hasAttr("value_int"))
    return n.out(0, n.b.known(Constant::scalar(DType::I64, n.attrInt("value_int", 0))));
  if (auto values = n.attrInts("value_ints"))
    return n.out(0, n.b.knownInts(*values));
  if (n.hasAttr("value_float"))
    return n.out(0, n.b.known(Constant::splat(DType::F32, {}, n.attrFloat("value_float", 0))));
  if (auto values = n.attrFloats("value_floats"))
    return n.out(0, n.b.known(Constant::floats(DType::F32, {int64_t(values->size())},
                                               std::vector<double>(values->begin(), values->end()))));
  n.fail("only value, value_int, value_ints, value_float and value_floats are supported");
}

static void constantOfShape(Node &n) {
  n.in(0);
  auto shape = n.knownInts(0, "shape");
  auto *tensor = n.attrTensor("value");
  if (n.failed())
    return;
  if (int64_t(shape->size()) > kMaxRank || !elementCount(*shape))
    return (void)n.fail("the shape " + shapeText(*shape) + " is negative or too large");
  Val value = tensor ? knownTensor(n, *tensor) : n.b.scalar(DType::F32, 0);
  if (!value || value.size() != 1)
    return (void)n.fail("value must be one number");
  n.out(0, n.b.broadcast(n.b.reshape(value, {}), *shape));
}

static void shape(Node &n) {
  Val x = n.in(0);
  int64_t start = n.attrInt("start", 0), end = n.attrInt("end", x.rank());
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + x.rank() : v, 0, x.rank()); };
  start = clamp(start);
  end = std::max(start, clamp(end));
  n.out(0, n.b.knownInts(llvm::ArrayRef<int64_t>(x.shape).slice(start, end - start)));
}

static void size(Node &n) {
  Val x = n.in(0);
  n.out(0, n.b.known(Constant::scalar(DType::I64, x.size())));
}

static void range(Node &n) {
  Val start = n.in(0), limit = n.in(1), delta = n.in(2);
  const bool stash = n.attrInt("stash_type", n.opset < 27 ? 0 : 1) == 1; // 16-bit numbers are computed in float32
  if (n.failed())
    return;
  for (const Val &v : {start, limit, delta})
    if (!v.known || v.size() != 1 || v.type != start.type)
      return (void)n.fail("start, limit and delta must be numbers of one type, known at import");
  double a = start.known->floatAt(0), z = limit.known->floatAt(0), d = delta.known->floatAt(0);
  if (d == 0)
    return (void)n.fail("the delta is 0");
  const double count = std::max(0.0, std::ceil((z - a) / d));
  if (std::isnan((z - a) / d))
    return (void)n.fail("start, limit and delta must be finite numbers");
  if (count > GraphBuilder::kMaxFolded)
    return (void)n.fail("it has " + llvm::formatv("{0:F0}", count).str() + " elements, which is too large; at most " +
                        llvm::Twine(GraphBuilder::kMaxFolded) + " are supported");
  auto extent = int64_t(count);
  if (!n.b.mayFold(extent))
    return;
  const DType type = start.type, wide = stash && isFloat(type) && byteSize(type) == 2 ? DType::F32 : type;
  Val line = n.b.known(foldIota(wide, {extent}, 0));
  Val first = n.b.cast(n.b.reshape(start, {}), wide), step = n.b.cast(n.b.reshape(delta, {}), wide);
  n.out(0, n.b.cast(n.b.add(n.b.mul(line, step), first), type));
}

/// Indices of the elements that are not 0, one column each.
static void nonZero(Node &n) {
  Val x = n.in(0);
  if (!x || !x.known || !n.b.mayFold(x.size()))
    return (void)n.fail("how many elements are not zero must be known at import: the result's "
                        "shape would depend on "
                        "data");
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.size(); ++i)
    if (x.known->floatAt(i) != 0)
      found.push_back(i);
  auto count = int64_t(found.size());
  if (!n.b.mayFold(x.rank() * count))
    return (void)n.fail("there are too many elements");
  std::vector<int64_t> indices(x.rank() * count);
  for (int64_t at = 0; at < count; ++at)
    for (int64_t d = x.rank() - 1; d >= 0; --d) {
      indices[d * count + at] = found[at] % x.shape[d];
      found[at] /= x.shape[d];
    }
  n.out(0, n.b.known(Constant::ints(DType::I64, {x.rank(), count}, std::move(indices))));
}

/// Ones on the k-th diagonal of a matrix of the input's shape.
static void eyeLike(Node &n) {
  Val x = n.in(0);
  int64_t k = n.attrInt("k", 0);
  auto type = n.hasAttr("dtype") ? compiler::dtypeOf(int32_t(n.attrInt("dtype", 0))) : std::optional<DType>(x.type);
  if (n.failed())
    return;
  if (x.rank() != 2 || !type)
    return (void)n.fail("the input must be a matrix and dtype a supported type");
  k = std::clamp(k, -x.shape[0], x.shape[1]);
  Val row = n.b.iota(DType::I64, x.shape, 0, "rows"), column = n.b.iota(DType::I64, x.shape, 1, "columns");
  Val edge = n.b.add(row, n.b.scalarLike(row, double(k)), "edge");
  n.out(0, n.b.cast(n.b.binary<graph::EqOp>(edge, column, "diagonal"), *type));
}

llvm::ArrayRef<OpRow> tessera::compiler::constantOps() {
  static const OpRow rows[] = {
      {"Constant", 7, kNewestOpset, constant, ".", "value, value_int(s), value_float(s)"},
      {"ConstantOfShape", 9, kNewestOpset, constantOfShape, "t", "shape known at import"},
      {"EyeLike", 9, kNewestOpset, eyeLike, "t", ""},
      {"NonZero", 9, kNewestOpset, nonZero, "t", "operand known at import"},
      {"Range", 11, kNewestOpset, range, "c", "operands known at import"},
      {"Shape", 7, kNewestOpset, shape, "t", ""},
      {"Size", 7, kNewestOpset, size, "t", ""},
  };
  return rows;
}
