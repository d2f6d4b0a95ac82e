//===- OpWriter.cpp ------------------------------------------------------------------------------===//
#include "dialects/graph/OpWriter.h"

#include "dialects/dist/DistOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

#include <numeric>

using namespace mlir;

namespace tessera::graph {

ArrayRef<int64_t> shapeOf(Value v) { return cast<RankedTensorType>(v.getType()).getShape(); }
Type elementTypeOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }
bool isFloat(Value v) { return isa<FloatType>(elementTypeOf(v)); }

std::optional<double> splatOf(Value v) {
  auto constant = v.getDefiningOp<ConstantOp>();
  return constant ? constant.getNumber() : std::nullopt;
}

OpWriter::OpWriter(func::FuncOp func) : builder_(func.getBody().front().getTerminator()), loc_(func.getLoc()) {
  func.walk([&](Operation *op) {
    if (auto name = op->getAttrOfType<StringAttr>(kNameAttr))
      used_.insert(name.getValue());
  });
}

void OpWriter::moveBefore(Operation *op) {
  builder_.setInsertionPoint(op);
  loc_ = op->getLoc();
}

std::string OpWriter::takeName(Operation *op) {
  std::string name = nameOf(op);
  op->removeAttr(kNameAttr);
  used_.erase(name);
  return name;
}

void OpWriter::setName(const Twine &name, StringRef gradOf) {
  name_ = name.str();
  origin_.clear();
  if (!gradOf.empty())
    origin_.set(kGradOfAttr, builder_.getStringAttr(gradOf));
}

void OpWriter::setUpdateName(const Twine &name, StringRef parameter) {
  setName(name);
  origin_.set(kUpdateOfAttr, builder_.getStringAttr(parameter));
}

void OpWriter::setOrigin(Operation *op) {
  origin_.clear();
  for (StringRef name : kOriginAttrs)
    if (Attribute attr = op->getAttr(name))
      origin_.set(name, attr);
}

void OpWriter::label(Operation *op) {
  if (isa<ConstantOp>(op)) // several operators share it
    return;
  if (!name_.empty()) {
    std::string unique = name_;
    int &next = next_[name_];
    while (!used_.insert(unique).second)
      unique = name_ + "." + std::to_string(++next);
    op->setAttr(kNameAttr, builder_.getStringAttr(unique));
  }
  for (NamedAttribute attr : origin_)
    op->setAttr(attr.getName(), attr.getValue());
}

Value OpWriter::helper(Operation *op, StringRef suffix) {
  std::string name = name_;
  if (!name.empty())
    name_ += suffix;
  label(op);
  name_ = name;
  return op->getResult(0);
}

Operation *OpWriter::insert(Operation *op) {
  op->setLoc(loc_);
  builder_.insert(op);
  label(op);
  return op;
}

Value OpWriter::constant(Type type, double value) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    tensor = RankedTensorType::get({}, type);
  Value &known = constants_[{tensor, llvm::bit_cast<uint64_t>(value)}];
  if (!known)
    known = ConstantOp::create(builder_, loc_, tensor, value);
  return known;
}

Value OpWriter::integer(int64_t value) {
  auto type = RankedTensorType::get({}, builder_.getI64Type());
  return ConstantOp::create(builder_, loc_, DenseElementsAttr::get(type, value));
}

Value OpWriter::like(Value v, double value) { return constant(elementTypeOf(v), value); }

// Whether `v` already has the shape that broadcasting it with `other` gives.
static bool covers(Value v, Value other) {
  auto shape = broadcastShapes(shapeOf(v), shapeOf(other));
  return shape && ArrayRef<int64_t>(*shape) == shapeOf(v);
}

// Two constants of rank 0 fold: scalar formulas (learning rates) stay one constant where they can.
template <typename Fn> static std::optional<double> foldScalars(Value a, Value b, Fn fn) {
  if (rankOf(a) != 0 || rankOf(b) != 0)
    return std::nullopt;
  auto x = splatOf(a), y = splatOf(b);
  if (!x || !y)
    return std::nullopt;
  return fn(*x, *y);
}

Value OpWriter::neg(Value x) {
  if (auto v = splatOf(x))
    return constant(x.getType(), -*v);
  if (auto inner = x.getDefiningOp<NegOp>())
    return inner.getX();
  return make<NegOp>(x);
}

Value OpWriter::add(Value a, Value b) {
  if (splatOf(b) == 0.0 && covers(a, b))
    return a;
  if (splatOf(a) == 0.0 && covers(b, a))
    return b;
  if (auto v = foldScalars(a, b, std::plus<double>()))
    return constant(a.getType(), *v);
  return make<AddOp>(a, b);
}

Value OpWriter::sub(Value a, Value b) {
  if (splatOf(b) == 0.0 && covers(a, b))
    return a;
  if (splatOf(a) == 0.0 && covers(b, a))
    return neg(b);
  if (auto v = foldScalars(a, b, std::minus<double>()))
    return constant(a.getType(), *v);
  return make<SubOp>(a, b);
}

Value OpWriter::mul(Value a, Value b) {
  if (splatOf(b) == 1.0 && covers(a, b))
    return a;
  if (splatOf(a) == 1.0 && covers(b, a))
    return b;
  if (auto v = foldScalars(a, b, std::multiplies<double>()))
    return constant(a.getType(), *v);
  return make<MulOp>(a, b);
}

Value OpWriter::div(Value a, Value b) {
  if (splatOf(b) == 1.0 && covers(a, b))
    return a;
  if (auto v = foldScalars(a, b, std::divides<double>()))
    return constant(a.getType(), *v);
  return make<DivOp>(a, b);
}

Value OpWriter::select(Value cond, Value a, Value b) { return make<SelectOp>(cond, a, b); }

Value OpWriter::cast(Value x, Type elementType) {
  if (elementTypeOf(x) == elementType)
    return x;
  return make<CastOp>(RankedTensorType::get(shapeOf(x), elementType), x);
}

Value OpWriter::reshape(Value x, ArrayRef<int64_t> shape) {
  if (shapeOf(x) == shape)
    return x;
  auto type = RankedTensorType::get(shape, elementTypeOf(x));
  if (auto v = splatOf(x))
    return constant(type, *v);
  return helper(ReshapeOp::create(builder_, loc_, type, x), ".reshape");
}

Value OpWriter::broadcast(Value x, ArrayRef<int64_t> shape) {
  if (shapeOf(x) == shape)
    return x;
  if (auto v = splatOf(x))
    return constant(RankedTensorType::get(shape, elementTypeOf(x)), *v);
  auto type = RankedTensorType::get(shape, elementTypeOf(x));
  return helper(BroadcastOp::create(builder_, loc_, type, x), ".broadcast");
}

Value OpWriter::transpose(Value x, ArrayRef<int64_t> perm) { return make<TransposeOp>(x, perm); }

Value OpWriter::reduceSum(Value x, ArrayRef<int64_t> dims, bool keepdims) {
  if (dims.empty())
    return x;
  return make<ReduceSumOp>(x, dims, keepdims).getY();
}

Value OpWriter::sumAll(Value x) {
  SmallVector<int64_t> dims(rankOf(x));
  std::iota(dims.begin(), dims.end(), 0);
  return reduceSum(x, dims, /*keepdims=*/false);
}

Value OpWriter::alongDim(Value vector, int64_t dim, int64_t rank) {
  SmallVector<int64_t> shape(rank, 1);
  shape[dim] = shapeOf(vector)[0];
  return reshape(vector, shape);
}

Value OpWriter::unbroadcast(Value x, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = shapeOf(x);
  int64_t lead = int64_t(from.size()) - int64_t(shape.size());
  SmallVector<int64_t> dims;
  bool inner = false;
  for (int64_t d = 0; d < int64_t(from.size()); ++d) {
    if (d < lead) {
      dims.push_back(d);
    } else if (shape[d - lead] == 1 && from[d] != 1) {
      dims.push_back(d);
      inner = true;
    }
  }
  if (dims.empty())
    return x;
  // Repeated dimensions keep an extent of 1, leading ones are dropped. If both occur, a reshape does it.
  return reshape(reduceSum(x, dims, /*keepdims=*/inner && lead == 0), shape);
}

Value sumOverRanks(OpWriter &b, const dist::Mesh &mesh, const dist::AxisList &axes, Value value) {
  if (mesh.size(axes) == 1)
    return value;
  dist::Collective c;
  c.kind = dist::CollectiveKind::AllReduce;
  c.axes = axes;
  c.reduction = dist::Reduction::Sum;
  c.localIn = c.localOut = dist::Shape(shapeOf(value));
  return b.make<dist::CollectiveOp>(value, mesh, c).getY();
}

} // namespace tessera::graph
