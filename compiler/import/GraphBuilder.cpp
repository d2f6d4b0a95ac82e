//===- GraphBuilder.cpp - build or fold -------------------------------------------------------===//

#include "compiler/import/GraphBuilder.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistOps.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/IndexPattern.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using llvm::ArrayRef;
using llvm::StringRef;

namespace tessera::compiler {

GraphBuilder::GraphBuilder(Block *block, std::function<Value(const Val &)> bigConstant)
    : builder_(block, block->end()), bigConstant_(std::move(bigConstant)) {}

Val GraphBuilder::fail(const llvm::Twine &message) {
  if (!failed_)
    error_ = message.str();
  failed_ = true;
  return {};
}

void GraphBuilder::setNode(StringRef node) { node_ = node.str(); }

std::string GraphBuilder::opName(StringRef suffix) {
  std::string name = suffix.empty() ? node_ : node_ + "/" + suffix.str();
  std::string unique = name;
  // Two nodes may have the same name. Operators are looked up by name, so the second one is renamed.
  for (int &count = names_[name]; count > 0 && names_.count(unique);)
    unique = name + "_" + std::to_string(++count);
  ++names_[unique];
  return unique;
}

bool GraphBuilder::mayFold(int64_t elements) {
  if (elements > kMaxFolded)
    return false;
  budget_ -= std::max<int64_t>(1, elements);
  if (budget_ < 0) {
    fail("the model's constants take too much work to evaluate");
    return false;
  }
  return true;
}

RankedTensorType GraphBuilder::tensorType(DType type, ArrayRef<int64_t> shape) const {
  return RankedTensorType::get(shape, elementType(context(), type));
}

Val GraphBuilder::wrap(Value value) const {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  Val v;
  v.type = *dtypeOf(type.getElementType());
  v.shape = Shape(type.getShape());
  v.value = value;
  return v;
}

Val GraphBuilder::known(Constant constant, StringRef origin) const {
  Val v;
  v.type = constant.type();
  v.shape = constant.shape();
  v.known = std::make_shared<const Constant>(std::move(constant));
  v.origin = origin.str();
  return v;
}

Val GraphBuilder::knownInts(ArrayRef<int64_t> values) const {
  return known(Constant::ints(DType::I64, {int64_t(values.size())}, values.vec()));
}

Value GraphBuilder::materialize(const Val &x) {
  if (x.value)
    return x.value;
  if (!x.known) {
    fail("a sequence stands where a tensor is needed");
    return {};
  }
  if (x.known->size() == 0) {
    fail("a tensor without elements (" + shapeText(x.shape) + ") is read by an operator that computes");
    return {};
  }
  if (x.known->isSplat()) {
    // Splats are not shared, so that each can take the sharding of its only reader.
    auto op = graph::ConstantOp::create(builder_, NameLoc::get(builder_.getStringAttr(node_)),
                                        x.known->toAttr(context()), x.known->exactAttr(context()));
    op->setAttr(graph::kNameAttr, builder_.getStringAttr(opName("constant")));
    return op.getResult();
  }
  Value &value = dense_[{x.known.get(), x.shape}];
  if (value)
    return value;
  keep_.push_back(x.known);
  if (x.known->size() > kMaxDense) {
    if (Value made = computed(x))
      return value = made;
    return value = bigConstant_(x);
  }
  auto op =
      graph::ConstantOp::create(builder_, NameLoc::get(builder_.getStringAttr(node_)), x.known->toAttr(context()));
  op->setAttr(graph::kNameAttr, builder_.getStringAttr(opName("constant")));
  return value = op.getResult();
}

Value GraphBuilder::computed(const Val &x) {
  const Constant &known = *x.known;
  auto at = [&](int64_t i) { return isFloat(x.type) ? known.floatAt(i) : double(known.intAt(i)); };
  std::optional<graph::IndexPattern> pattern = graph::patternOfElements(at, x.shape);
  if (!pattern || !pattern->hasValues)
    return {};
  // One dimension has weight 1, another -1: the element is `met` where i[key] <= i[row] + offset.
  int64_t row = llvm::find(pattern->weights, 1) - pattern->weights.begin();
  int64_t key = llvm::find(pattern->weights, -1) - pattern->weights.begin();
  Val rows = iota(DType::I64, x.shape, row, "rows"), keys = iota(DType::I64, x.shape, key, "columns");
  Val edge = add(rows, scalar(DType::I64, double(pattern->offset)), "edge");
  Val met = binary<graph::LeOp>(keys, edge, "met");
  return materialize(select(met, scalar(x.type, pattern->met), scalar(x.type, pattern->unmet), "mask"));
}

//===----------------------------------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------------------------------===//

NamedAttribute GraphBuilder::attr(StringRef name, int64_t value) {
  return builder_.getNamedAttr(name, builder_.getI64IntegerAttr(value));
}
NamedAttribute GraphBuilder::attr(StringRef name, ArrayRef<int64_t> values) {
  return builder_.getNamedAttr(name, builder_.getDenseI64ArrayAttr(values));
}
NamedAttribute GraphBuilder::attrBool(StringRef name, bool value) {
  return builder_.getNamedAttr(name, builder_.getBoolAttr(value));
}
NamedAttribute GraphBuilder::attrF64(StringRef name, double value) {
  return builder_.getNamedAttr(name, builder_.getF64FloatAttr(value));
}

llvm::SmallVector<Val> GraphBuilder::createInferred(StringRef name, ArrayRef<Val> operands,
                                                    ArrayRef<NamedAttribute> attributes, StringRef suffix) {
  llvm::SmallVector<Val> none(3); // no operator has more results
  llvm::SmallVector<Value> values;
  for (const Val &operand : operands) {
    if (!operand)
      return none;
    values.push_back(materialize(operand));
  }
  if (failed_)
    return none;
  OperationName opName(name, context());
  auto *infer = opName.getInterface<InferTypeOpInterface>();
  assert(infer && "the operator infers its result types");
  Location loc = NameLoc::get(builder_.getStringAttr(node_));

  // The generated builders abort if types do not fit, and a model file must not be able to cause that. So types are
  // inferred first, and a failure becomes the node's error.
  std::string message;
  ScopedDiagnosticHandler handler(context(), [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
  });
  std::vector<char> storage(opName.getOpPropertyByteSize() + 64);
  void *aligned = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(storage.data()) + 63) & ~uintptr_t(63));
  OpaqueProperties properties(opName.getOpPropertyByteSize() ? aligned : nullptr);
  auto dictionary = builder_.getDictionaryAttr(attributes);
  bool hasProperties = opName.getOpPropertyByteSize() > 0;
  if (hasProperties)
    opName.initOpProperties(properties, OpaqueProperties(nullptr));
  llvm::SmallVector<Type> types;
  bool good = true;
  if (hasProperties)
    good = succeeded(
        opName.setOpPropertiesFromAttribute(opName, properties, dictionary, [&] { return mlir::emitError(loc); }));
  good = good && succeeded(infer->inferReturnTypes(context(), loc, values, dictionary, properties, {}, types));
  if (hasProperties)
    opName.destroyOpProperties(properties);
  if (!good) {
    std::string shapes;
    for (const Val &operand : operands)
      shapes += (shapes.empty() ? "" : ", ") + shapeText(operand.shape) + " " + dtypeName(operand.type).str();
    fail((message.empty() ? llvm::Twine("the operands do not fit") : llvm::Twine(message)) + " (operands: " + shapes +
         ")");
    return none;
  }
  for (Type type : types)
    if (!elementCount(llvm::cast<RankedTensorType>(type).getShape()).value_or(0)) {
      fail("the result's shape " + shapeText(llvm::cast<RankedTensorType>(type).getShape()) + " is empty or too large");
      return none;
    }

  OperationState state(loc, opName);
  state.addOperands(values);
  state.addTypes(types);
  state.addAttributes(attributes);
  state.addAttribute(graph::kNameAttr, builder_.getStringAttr(this->opName(suffix)));
  Operation *op = builder_.create(state);
  llvm::SmallVector<Val> results;
  for (Value result : op->getResults())
    results.push_back(wrap(result));
  return results;
}

Val GraphBuilder::createTyped(StringRef name, ArrayRef<Val> operands, ArrayRef<NamedAttribute> attributes, DType type,
                              Shape shape, StringRef suffix) {
  if (!elementCount(shape).value_or(0))
    return fail("the result's shape " + shapeText(shape) + " is empty or too large");
  OperationState state(NameLoc::get(builder_.getStringAttr(node_)), name);
  for (const Val &operand : operands) {
    if (!operand)
      return {};
    Value value = materialize(operand);
    if (!value)
      return {};
    state.addOperands(value);
  }
  state.addTypes(tensorType(type, shape));
  state.addAttributes(attributes);
  state.addAttribute(graph::kNameAttr, builder_.getStringAttr(opName(suffix)));
  return wrap(builder_.create(state)->getResult(0));
}

//===----------------------------------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------------------------------===//

Val GraphBuilder::unaryOp(StringRef op, const Val &x, StringRef suffix) {
  if (!x)
    return {};
  if (x.known && mayFold(x.known->stored()))
    if (auto folded = foldUnary(op, *x.known))
      return known(std::move(*folded), x.origin);
  return createInferred(op, x, {}, suffix)[0];
}

Val GraphBuilder::binaryOp(StringRef op, const Val &a, const Val &b, StringRef suffix) {
  if (!a || !b)
    return {};
  if (a.type != b.type)
    return fail("operands have different element types, " + dtypeName(a.type) + " and " + dtypeName(b.type));
  auto shape = graph::broadcastShapes(a.shape, b.shape);
  if (!shape || !elementCount(*shape))
    return fail("the shapes " + shapeText(a.shape) + " and " + shapeText(b.shape) + " do not broadcast together");
  if (a.known && b.known && mayFold(a.known->isSplat() && b.known->isSplat() ? 1 : *elementCount(*shape)))
    if (auto folded = foldBinary(op, *a.known, *b.known))
      return known(std::move(*folded), a.origin);
  if (elementCount(*shape) == 0)
    if (auto folded = foldBinary(op, *empty(a.type, *shape).known, *empty(b.type, *shape).known))
      return known(std::move(*folded), a.origin);
  return createInferred(op, {a, b}, {}, suffix)[0];
}

Val GraphBuilder::scale(const Val &x, double factor, StringRef suffix) {
  return factor == 1 ? x : mul(x, scalarLike(x, factor), suffix);
}

Val GraphBuilder::select(const Val &cond, const Val &a, const Val &b, StringRef suffix) {
  if (!cond || !a || !b)
    return {};
  if (cond.type != DType::I1)
    return fail("the condition is " + dtypeName(cond.type) + ", not boolean");
  if (a.type != b.type)
    return fail("operands have different element types, " + dtypeName(a.type) + " and " + dtypeName(b.type));
  auto shape = graph::broadcastShapes(a.shape, b.shape);
  if (shape)
    shape = graph::broadcastShapes(cond.shape, *shape);
  if (!shape || !elementCount(*shape))
    return fail("the shapes " + shapeText(cond.shape) + ", " + shapeText(a.shape) + " and " + shapeText(b.shape) +
                " do not broadcast together");
  if (cond.known && a.known && b.known && mayFold(*elementCount(*shape)))
    return known(foldSelect(*cond.known, *a.known, *b.known), a.origin);
  if (elementCount(*shape) == 0)
    return empty(a.type, *shape);
  return createInferred(graph::SelectOp::getOperationName(), {cond, a, b}, {}, suffix)[0];
}

Val GraphBuilder::cast(const Val &x, DType type, StringRef suffix) {
  if (!x || x.type == type)
    return x;
  if (x.known && mayFold(x.known->stored()))
    if (auto folded = foldCast(*x.known, type))
      return known(std::move(*folded), x.origin);
  return createTyped(graph::CastOp::getOperationName(), x, {}, type, x.shape, suffix);
}

Val GraphBuilder::iota(DType type, Shape shape, int64_t dim, StringRef suffix) {
  auto count = elementCount(shape);
  // A larger iota is an operator, because an operator can be sharded.
  if (count && *count <= kMaxDense && mayFold(*count))
    return known(foldIota(type, shape, dim));
  return createTyped(graph::IotaOp::getOperationName(), {}, {attr("dim", dim), attr("start", int64_t(0))}, type, shape,
                     suffix);
}

Val GraphBuilder::random(Value step, DType type, Shape shape, uint64_t seed, int64_t stream, StringRef suffix) {
  return createTyped(graph::RandomOp::getOperationName(), wrap(step),
                     {attr("seed", int64_t(seed)), attr("stream", stream)}, type, shape, suffix);
}

//===----------------------------------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------------------------------===//

Val GraphBuilder::reshape(const Val &x, Shape shape, StringRef suffix) {
  if (!x)
    return {};
  if (elementCount(shape) != elementCount(x.shape))
    return fail("cannot reshape " + shapeText(x.shape) + " to " + shapeText(shape));
  if (shape == x.shape)
    return x;
  if (x.known && mayFold(x.known->stored()))
    return known(x.known->withShape(shape), x.origin);
  return createTyped(graph::ReshapeOp::getOperationName(), x, {}, x.type, shape, suffix);
}

Val GraphBuilder::stopGradient(const Val &x, StringRef suffix) {
  if (!x.value || !isFloat(x.type))
    return x;
  NamedAttribute stops = builder_.getNamedAttr(graph::kStopsGradientAttr, builder_.getUnitAttr());
  return createTyped(graph::ReshapeOp::getOperationName(), x, stops, x.type, x.shape, suffix);
}

Val GraphBuilder::broadcast(const Val &x, Shape shape, StringRef suffix) {
  if (!x)
    return {};
  if (graph::broadcastShapes(x.shape, shape) != shape)
    return fail("cannot broadcast " + shapeText(x.shape) + " to " + shapeText(shape));
  if (shape == x.shape)
    return x;
  if (x.known && elementCount(shape) && mayFold(x.known->isSplat() ? 1 : *elementCount(shape)))
    return known(foldBroadcast(*x.known, shape), x.origin);
  if (elementCount(shape) == 0)
    return empty(x.type, shape);
  return createTyped(graph::BroadcastOp::getOperationName(), x, {}, x.type, shape, suffix);
}

Val GraphBuilder::transpose(const Val &x, ArrayRef<int64_t> perm, StringRef suffix) {
  if (!x)
    return {};
  std::set<int64_t> seen(perm.begin(), perm.end());
  if (int64_t(perm.size()) != x.rank() || seen.size() != perm.size() ||
      (!perm.empty() && (*seen.begin() != 0 || *seen.rbegin() != x.rank() - 1)))
    return fail("perm is no permutation of the " + llvm::Twine(x.rank()) + " dimensions");
  if (llvm::is_sorted(perm))
    return x;
  if (x.known && mayFold(x.known->stored()))
    return known(foldTranspose(*x.known, perm), x.origin);
  return create<graph::TransposeOp>(x, attr("perm", perm), suffix)[0];
}

Val GraphBuilder::slice(const Val &x, Shape starts, Shape limits, Shape strides, StringRef suffix) {
  if (!x)
    return {};
  Shape shape;
  bool whole = true;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (starts[d] < 0 || limits[d] > x.shape[d] || strides[d] <= 0)
      return fail("the slice does not lie within " + shapeText(x.shape));
    int64_t extent = std::max<int64_t>(0, limits[d] - starts[d]);
    shape.push_back(extent == 0 ? 0 : (extent - 1) / strides[d] + 1);
    whole &= shape[d] == x.shape[d];
  }
  if (whole)
    return x;
  if (x.known && mayFold(x.known->isSplat() ? 1 : *elementCount(shape)))
    return known(foldSlice(*x.known, starts, strides, shape), x.origin);
  if (elementCount(shape) == 0)
    return empty(x.type, shape);
  return create<graph::SliceOp>(x, {attr("starts", starts), attr("limits", limits), attr("strides", strides)},
                                suffix)[0];
}

Val GraphBuilder::pad(const Val &x, Shape lo, Shape hi, double value, StringRef suffix) {
  if (!x)
    return {};
  Shape shape;
  constexpr int64_t limit = int64_t(1) << 40;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (lo[d] < 0 || hi[d] < 0 || lo[d] > limit || hi[d] > limit)
      return fail("a padding is negative or too large");
    shape.push_back(x.shape[d] + lo[d] + hi[d]);
  }
  if (shape == x.shape)
    return x;
  auto count = elementCount(shape);
  if (!count)
    return fail("the padded shape " + shapeText(shape) + " is too large");
  if (x.known && mayFold(*count))
    return known(foldPad(*x.known, lo, value, shape), x.origin);
  if (x.size() == 0) // all of it is padding
    return known(Constant::splat(x.type, shape, value));
  Shape inner(x.rank(), 0);
  return create<graph::PadOp>(x, {attr("lo", lo), attr("hi", hi), attr("inner", inner), attrF64("value", value)},
                              suffix)[0];
}

Val GraphBuilder::concat(ArrayRef<Val> xs, int64_t dim, StringRef suffix) {
  llvm::SmallVector<const Constant *> constants;
  llvm::SmallVector<Val> parts; // without the empty ones
  Shape shape;
  for (const Val &x : xs) {
    if (!x)
      return {};
    if (x.type != xs[0].type || x.rank() != xs[0].rank())
      return fail("the parts differ in element type or rank");
    for (int64_t d = 0; d < x.rank(); ++d)
      if (d != dim && x.shape[d] != xs[0].shape[d])
        return fail("the parts " + shapeText(xs[0].shape) + " and " + shapeText(x.shape) +
                    " differ outside dimension " + llvm::Twine(dim));
    if (shape.empty())
      shape = x.shape;
    else
      shape[dim] += x.shape[dim];
    if (x.known)
      constants.push_back(x.known.get());
    if (x.size() > 0)
      parts.push_back(x);
  }
  if (!elementCount(shape))
    return fail("the result's shape " + shapeText(shape) + " is too large");
  if (constants.size() == xs.size() && mayFold(*elementCount(shape)))
    return known(foldConcat(constants, dim, shape), xs[0].origin);
  if (parts.size() == 1)
    return parts[0];
  return create<graph::ConcatOp>(parts, attr("dim", dim), suffix)[0];
}

Val GraphBuilder::gather(const Val &table, const Val &indices, int64_t axis, StringRef suffix, int64_t batchDims) {
  if (!table || !indices)
    return {};
  if (indices.known)
    for (int64_t i = 0; i < indices.known->stored(); ++i)
      if (int64_t at = indices.known->intAt(i); at < 0 || at >= table.shape[axis])
        return fail("index " + llvm::Twine(at) + " lies outside the extent " + llvm::Twine(table.shape[axis]) +
                    " of dimension " + llvm::Twine(axis));
  Shape result(table.shape.begin(), table.shape.begin() + axis);
  result.append(indices.shape.begin() + batchDims, indices.shape.end());
  result.append(table.shape.begin() + axis + 1, table.shape.end());
  if (elementCount(result) == 0)
    return empty(table.type, std::move(result));
  if (table.known && indices.known && batchDims == 0) {
    Shape shape = table.shape;
    shape[axis] = 1;
    auto rows = elementCount(shape);
    if (*rows == 0 || indices.size() <= kMaxFolded / *rows)
      if (mayFold(*rows * indices.size()))
        return known(foldGather(*table.known, *indices.known, axis), table.origin);
  }
  return create<graph::GatherOp>(
      {table, indices}, {attr("axis", axis), attr("start", int64_t(0)), attr("batch_dims", batchDims)}, suffix)[0];
}

Val GraphBuilder::scatterAdd(const Val &indices, const Val &updates, int64_t axis, int64_t size, StringRef suffix,
                             int64_t batchDims) {
  return create<graph::ScatterAddOp>(
      {indices, updates},
      {attr("axis", axis), attr("size", size), attr("start", int64_t(0)), attr("batch_dims", batchDims)}, suffix)[0];
}

//===----------------------------------------------------------------------------------------------===//
// Reductions and products
//===----------------------------------------------------------------------------------------------===//

Val GraphBuilder::reduceOp(StringRef op, const Val &x, ArrayRef<int64_t> dims, bool keepdims, StringRef suffix) {
  if (!x)
    return {};
  if (dims.empty())
    return x;
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!llvm::is_contained(dims, d))
      shape.push_back(x.shape[d]);
    else if (keepdims)
      shape.push_back(1);
  if (x.known && mayFold(x.known->size()))
    if (auto folded = foldReduce(op, *x.known, dims, shape))
      return known(std::move(*folded), x.origin);
  return createInferred(op, x, {attr("dims", dims), attrBool("keepdims", keepdims)}, suffix)[0];
}

Val GraphBuilder::mean(const Val &x, ArrayRef<int64_t> dims, bool keepdims, StringRef suffix) {
  if (!x)
    return {};
  if (!isFloat(x.type))
    return fail("a mean of " + dtypeName(x.type) + " is not supported");
  double count = 1;
  for (int64_t d : dims)
    count *= x.shape[d];
  Val sum = reduce<graph::ReduceSumOp>(x, dims, keepdims, suffix);
  return scale(sum, 1 / count, suffix.empty() ? std::string("scale") : suffix.str() + "_scale");
}

Val GraphBuilder::matmul(const Val &a, const Val &b, bool transposeA, bool transposeB, StringRef suffix) {
  return create<graph::MatMulOp>({a, b}, {attrBool("transpose_a", transposeA), attrBool("transpose_b", transposeB)},
                                 suffix)[0];
}

//===----------------------------------------------------------------------------------------------===//
// Among ranks
//===----------------------------------------------------------------------------------------------===//

Val GraphBuilder::collective(const dist::Mesh &mesh, dist::Collective c, const Val &x, StringRef suffix) {
  using Kind = dist::CollectiveKind;
  if (!x)
    return {};
  int64_t n = mesh.size(c.axes);
  c.localIn = c.localOut = dist::Shape(x.shape);
  int64_t cut = c.kind == Kind::AllToAll                                 ? c.splitDim
                : c.kind == Kind::Slice || c.kind == Kind::ReduceScatter ? c.dim
                                                                         : -1;
  int64_t joined = c.kind == Kind::AllToAll || c.kind == Kind::AllGather ? c.dim : -1;
  if (cut >= 0 && c.localOut[cut] % n != 0)
    return fail("dimension " + llvm::Twine(cut) + " of " + shapeText(x.shape) + " is to be cut in " + llvm::Twine(n) +
                ", which does not divide it");
  if (cut >= 0)
    c.localOut[cut] /= n;
  if (joined >= 0 && __builtin_mul_overflow(c.localOut[joined], n, &c.localOut[joined]))
    return fail("the result's shape is too large");
  if (!elementCount(c.localOut).value_or(0))
    return fail("the result's shape " + shapeText(c.localOut) + " is empty or too large");
  Value value = materialize(x);
  if (failed_)
    return {};
  auto op = dist::CollectiveOp::create(builder_, NameLoc::get(builder_.getStringAttr(node_)), value, mesh, c);
  op->setAttr(graph::kNameAttr, builder_.getStringAttr(opName(suffix)));
  return wrap(op.getY());
}

Val GraphBuilder::border(const Val &x, StringRef attribute, int64_t stage) {
  return createTyped(graph::ReshapeOp::getOperationName(), x, attr(attribute, stage), x.type, x.shape, "");
}

Val GraphBuilder::perRank(ArrayRef<int64_t> numbers, StringRef suffix) {
  auto op = graph::IotaOp::create(builder_, NameLoc::get(builder_.getStringAttr(node_)), tensorType(DType::I64, {1}),
                                  uint64_t(0));
  op->setAttr(graph::kNameAttr, builder_.getStringAttr(opName(suffix)));
  llvm::SmallVector<Attribute> starts;
  for (int64_t number : numbers)
    starts.push_back(builder_.getDictionaryAttr(attr("start", number)));
  op->setAttr(dist::kPerRankAttr, builder_.getArrayAttr(starts));
  return reshape(wrap(op.getY()), {}, suffix.empty() ? "scalar" : suffix);
}

} // namespace tessera::compiler
