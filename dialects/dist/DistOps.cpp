#include "dialects/dist/DistOps.h"

#include "dialects/dist/exchange/Exchange.h"

#include "mlir/IR/BuiltinOps.h"

using namespace llvm;
using namespace mlir;

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.cpp.inc"

namespace tessera::dist {

void DistDialect::registerOperations() {
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/DistOps.cpp.inc"
      >();
}

void CollectiveOp::build(OpBuilder &builder, OperationState &state, Value x, const Mesh &mesh,
                         const Collective &collective) {
  SmallVector<StringRef> axes;
  for (int axis : collective.axes)
    axes.push_back(mesh.axisName(axis));
  Type type = RankedTensorType::get(collective.localOut, cast<RankedTensorType>(x.getType()).getElementType());
  build(builder, state, type, x, stringify(collective.kind), builder.getStrArrayAttr(axes), uint64_t(collective.dim),
        uint64_t(collective.splitDim),
        collective.reduction == Reduction::None ? StringRef() : stringify(collective.reduction),
        uint64_t(collective.haloLo), uint64_t(collective.haloHi), APFloat(collective.fill), collective.sources,
        uint64_t(collective.root), collective.boxes);
}

CollectiveKind CollectiveOp::getCollectiveKind() { return *parseCollectiveKind(getKind()); }

AxisList CollectiveOp::getAxisList(const Mesh &mesh) {
  AxisList axes;
  for (StringAttr name : getAxes().getAsRange<StringAttr>())
    axes.push_back(mesh.findAxis(name));
  return axes;
}

Collective CollectiveOp::getCollective(const Mesh &mesh) {
  Collective c;
  c.kind = getCollectiveKind();
  c.axes = getAxisList(mesh);
  c.dim = getDim();
  c.splitDim = getSplitDim();
  c.reduction = parseReduction(getReduction()).value_or(Reduction::None);
  c.haloLo = getHaloLo();
  c.haloHi = getHaloHi();
  c.fill = getFill().convertToDouble();
  c.sources.assign(getSources().begin(), getSources().end());
  c.root = getRoot();
  c.boxes.assign(getBoxes().begin(), getBoxes().end());
  auto shape = [](Value v) {
    ArrayRef<int64_t> s = cast<RankedTensorType>(v.getType()).getShape();
    return Shape(s.begin(), s.end());
  };
  c.localIn = shape(getX());
  c.localOut = shape(getY());
  if (c.kind == CollectiveKind::Exchange)
    c.loads = rankLoads(mesh, c);
  return c;
}

/// Boxes lie inside the tensors of two ranks of one group, and every rank receives as many elements as its result has.
static LogicalResult verifyBoxes(CollectiveOp op, const Mesh &mesh, const AxisList &axes) {
  Collective c;
  c.boxes.assign(op.getBoxes().begin(), op.getBoxes().end());
  const ArrayRef<int64_t> in = cast<RankedTensorType>(op.getX().getType()).getShape(),
                          out = cast<RankedTensorType>(op.getY().getType()).getShape();
  c.localIn.assign(in.begin(), in.end());
  c.localOut.assign(out.begin(), out.end());
  const size_t each = numbersPerBox(c.localIn.size());
  if (c.boxes.size() % each != 0)
    return op.emitOpError("has ") << c.boxes.size() << " numbers in `boxes`, which are no whole messages of " << each;
  std::vector<int64_t> received(size_t(mesh.numRanks()));
  bool good = true;
  forEachBox(c, [&](const ExchangeBox &box) {
    for (int64_t rank : {box.from, box.to})
      good = good && rank >= 0 && rank < mesh.numRanks();
    good = good && is_contained(mesh.group(box.from, axes), box.to);
    for (size_t d = 0; d < c.localIn.size() && good; ++d)
      good = box.shape[d] > 0 && box.source[d] >= 0 && box.target[d] >= 0 && box.shape[d] <= c.localIn[d] &&
             box.source[d] <= c.localIn[d] - box.shape[d] && box.shape[d] <= c.localOut[d] &&
             box.target[d] <= c.localOut[d] - box.shape[d];
    if (good)
      received[size_t(box.to)] += box.elements();
  });
  if (!good)
    return op.emitOpError("has a box that is not inside the operand and the result of two ranks of one group");
  for (int64_t elements : received)
    if (elements != cast<RankedTensorType>(op.getY().getType()).getNumElements())
      return op.emitOpError("has a rank that receives ") << elements << " elements for " << op.getY().getType();
  return success();
}

LogicalResult CollectiveOp::verify() {
  std::optional<CollectiveKind> kind = parseCollectiveKind(getKind());
  if (!kind)
    return emitOpError("has the unknown kind '") << getKind() << "'; CollectiveKind lists all";
  auto in = cast<RankedTensorType>(getX().getType()), out = cast<RankedTensorType>(getY().getType());
  if (!in.hasStaticShape() || !out.hasStaticShape() || in.getElementType() != out.getElementType() ||
      in.getRank() != out.getRank())
    return emitOpError("must keep rank and element type and have static shapes; it turns ") << in << " into " << out;
  auto module = (*this)->getParentOfType<ModuleOp>();
  Mesh mesh = module ? getMesh(module) : Mesh();
  AxisList axes;
  for (StringAttr name : getAxes().getAsRange<StringAttr>()) {
    int axis = mesh.findAxis(name);
    if (axis < 0)
      return emitOpError("names '") << name.getValue() << "', which is no axis of the mesh " << mesh.str();
    if (is_contained(axes, axis))
      return emitOpError("names the axis '") << name.getValue() << "' twice";
    axes.push_back(axis);
  }
  bool reduces =
      *kind == CollectiveKind::AllReduce || *kind == CollectiveKind::ReduceScatter || *kind == CollectiveKind::Fold;
  auto reduction = parseReduction(getReduction());
  if (reduces ? !reduction || *reduction == Reduction::None : !getReduction().empty())
    return emitOpError("has the reduction '")
           << getReduction() << (reduces ? "'; it needs sum, max or min" : "'; its kind takes none");
  bool needsDim = *kind != CollectiveKind::AllReduce && *kind != CollectiveKind::Permute &&
                  *kind != CollectiveKind::Broadcast && *kind != CollectiveKind::Exchange;
  int64_t dim = getDim(), split = getSplitDim(), rank = in.getRank(), n = mesh.size(axes);
  if (needsDim ? dim < 0 || dim >= rank : dim != -1)
    return emitOpError("has the dimension ")
           << dim << " on " << in << (needsDim ? "; it needs one below the rank" : "; its kind takes none (-1)");
  bool toAll = *kind == CollectiveKind::AllToAll;
  if (toAll ? split < 0 || split >= rank || split == dim : split != -1)
    return emitOpError("has the split dimension ")
           << split << " on " << in
           << (toAll ? "; it needs one below the rank, other than dim" : "; only all-to-all takes one (-1)");
  if (*kind == CollectiveKind::Broadcast ? getRoot() >= uint64_t(n) : getRoot() != 0)
    return emitOpError("has the root ") << getRoot() << " in a group of " << n;
  bool halo = *kind == CollectiveKind::Halo;
  if (halo ? getHaloLo() > uint64_t(in.getShape()[dim]) || getHaloHi() > uint64_t(in.getShape()[dim])
           : getHaloLo() || getHaloHi())
    return emitOpError("has a halo wider than its neighbour's block");
  if (*kind == CollectiveKind::Permute) {
    SmallVector<bool> seen(mesh.numRanks(), false);
    if (int64_t(getSources().size()) != mesh.numRanks() || n != mesh.numRanks())
      return emitOpError("must name a source for each of the mesh's ranks");
    for (int64_t source : getSources()) {
      if (source < 0 || source >= mesh.numRanks() || seen[source])
        return emitOpError("has sources that are no permutation");
      seen[source] = true;
    }
  } else if (!getSources().empty()) {
    return emitOpError("has sources, which only permute takes");
  }
  if (*kind == CollectiveKind::Exchange)
    return verifyBoxes(*this, mesh, axes);
  if (!getBoxes().empty())
    return emitOpError("has boxes, which only exchange takes");
  Shape want(in.getShape().begin(), in.getShape().end());
  auto divide = [&](int64_t d) {
    if (want[d] % n)
      return false;
    want[d] /= n;
    return true;
  };
  bool divides = true;
  switch (*kind) {
  case CollectiveKind::Slice:
  case CollectiveKind::ReduceScatter:
    divides = divide(dim);
    break;
  case CollectiveKind::AllGather:
    want[dim] *= n;
    break;
  case CollectiveKind::AllToAll:
    divides = divide(split);
    want[dim] *= n;
    break;
  case CollectiveKind::Halo:
    want[dim] += int64_t(getHaloLo() + getHaloHi());
    break;
  case CollectiveKind::Fit:
    want[dim] = out.getShape()[dim];
    break;
  case CollectiveKind::Fold:
    divides = out.getShape()[dim] > 0 && want[dim] % out.getShape()[dim] == 0;
    want[dim] = out.getShape()[dim];
    break;
  case CollectiveKind::Exchange: // verifyBoxes
  case CollectiveKind::AllReduce:
  case CollectiveKind::Permute:
  case CollectiveKind::Broadcast:
    break;
  }
  if (!divides || ArrayRef<int64_t>(want) != out.getShape())
    return emitOpError("over ") << n << " ranks cannot turn " << in << " into " << out;
  return success();
}

} // namespace tessera::dist
