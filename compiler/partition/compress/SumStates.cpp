#include "compiler/partition/compress/SumStates.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/GraphAttributes.h"
#include "runtime/support/UnsentNames.h"

#include <limits>

using namespace llvm;
using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

using dist::AxisList;

SumStates::State SumStates::add(OpWriter &b, ArrayRef<int64_t> shape, StringRef kind, StringRef parameter,
                                const AxisList &axes) {
  std::string name;
  auto taken = [&](StringRef wanted) {
    return any_of(seq(func_.getNumArguments()), [&](unsigned i) { return argName(func_, i) == wanted; });
  };
  for (int number = 0; name.empty() || taken(name); ++number) // a parameter's sums over several groups of ranks
    name = rt::unsentName(kind.str(), parameter.str(), number);
  SmallVector<int64_t> held(shape);
  held.insert(held.begin(), 1);
  dist::Sharding sharding = dist::Sharding::replicated(int64_t(held.size()));
  sharding.dims[0] = axes;
  SmallVector<int64_t> whole(held);
  whole[0] = mesh_.size(axes);
  Builder types(func_.getContext());
  const unsigned argument = func_.getNumArguments();
  const SmallVector<NamedAttribute> attributes = {
      types.getNamedAttr(kRoleAttr, types.getStringAttr(kState)),
      types.getNamedAttr(kNameAttr, types.getStringAttr(name)),
      types.getNamedAttr(kFillAttr, types.getF64FloatAttr(0.0)),
      types.getNamedAttr(dist::kShardingAttr, dist::ShardingAttr::get(func_.getContext(), mesh_, sharding)),
      types.getNamedAttr(dist::kGlobalShapeAttr, types.getDenseI64ArrayAttr(whole))};
  (void)func_.insertArgument(argument, RankedTensorType::get(held, types.getF32Type()),
                             types.getDictionaryAttr(attributes), func_.getLoc());
  return {argument, b.reshape(func_.getArgument(argument), shape)};
}

void SumStates::keep(OpWriter &b, const State &state, Value next, Value otherwise) {
  const double largest = std::numeric_limits<float>::max();
  Value isNumber = b.binary<LeOp>(b.unary<AbsOp>(next), b.constant(elementTypeOf(next), largest));
  Value kept = b.select(isNumber, next, otherwise);
  next_.push_back({state.argument, b.reshape(kept, shapeOf(func_.getArgument(state.argument)))});
}

void SumStates::finish() {
  Operation *ret = func_.getBody().front().getTerminator();
  Builder types(func_.getContext());
  for (const auto &[argument, next] : next_) {
    const unsigned result = ret->getNumOperands();
    const Attribute name = func_.getArgAttr(argument, kNameAttr);
    func_.setArgAttr(argument, kUpdateAttr, types.getI64IntegerAttr(result));
    ret->insertOperands(result, next);
    (void)func_.insertResult(
        result, next.getType(),
        types.getDictionaryAttr(
            {types.getNamedAttr(kRoleAttr, types.getStringAttr(kUpdate)), types.getNamedAttr(kNameAttr, name),
             types.getNamedAttr(dist::kShardingAttr, func_.getArgAttr(argument, dist::kShardingAttr)),
             types.getNamedAttr(dist::kGlobalShapeAttr, func_.getArgAttr(argument, dist::kGlobalShapeAttr))}));
  }
}

AxisList axesOfTerms(const dist::Mesh &mesh, const dist::Sharding &of) {
  AxisList axes;
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    if (of.uses(axis) && mesh.axisSize(axis) > 1)
      axes.push_back(axis);
  return axes;
}

} // namespace tessera::compiler
