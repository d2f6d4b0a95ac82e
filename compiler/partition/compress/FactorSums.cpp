#include "compiler/partition/compress/FactorSums.h"

#include "dialects/dist/DistOps.h"
#include "runtime/support/UnsentNames.h"

using namespace llvm;
using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

using dist::AxisList;
using dist::CollectiveKind;

Value FactorSums::product(Value a, Value b, bool transposeA, bool transposeB) {
  return b_.make<MatMulOp>(a, b, transposeA, transposeB, /*wide=*/false, /*leaves=*/IntegerAttr()).getY();
}

Value FactorSums::sum(Value term, const dist::Collective &step, const dist::Sharding &from, Operation *reader,
                      StringRef parameter) {
  b_.moveBefore(reader);
  b_.setUpdateName(parameter + ".send", parameter);
  const dist::MatrixView matrix(step.localIn);
  const AxisList differ = axesOfTerms(mesh_, from);
  AxisList others; // ranks that add up have one basis
  copy_if(differ, std::back_inserter(others), [&](int axis) { return !is_contained(step.axes, axis); });
  const SumStates::State unsent = states_.add(b_, {matrix.rows, matrix.columns}, rt::kUnsent, parameter, differ),
                         basis = states_.add(b_, {matrix.columns, step.wire.rank}, rt::kSentBasis, parameter, others);

  Value whole = b_.add(b_.reshape(term, {matrix.rows, matrix.columns}), unsent.before);
  // Of length 1, so that the products of large or small gradients are no larger or smaller than these.
  Value directions = b_.make<OrthonormalizeOp>(basis.before).getY();
  Value rows = sumOverRanks(b_, mesh_, step.axes, product(whole, directions, false, false));
  Value left = b_.make<OrthonormalizeOp>(rows).getY();
  Value own = product(whole, left, true, false), right = sumOverRanks(b_, mesh_, step.axes, own);
  states_.keep(b_, unsent, b_.sub(whole, product(left, own, false, true)), unsent.before);
  states_.keep(b_, basis, right, basis.before);

  Value sum = b_.reshape(product(left, right, false, true), step.localIn);
  if (step.kind == CollectiveKind::AllReduce)
    return sum;
  dist::Collective part = step; // of a reduce-scatter: the sum is there on every rank
  part.kind = CollectiveKind::Slice;
  part.reduction = dist::Reduction::None;
  part.wire = {};
  return b_.make<dist::CollectiveOp>(sum, mesh_, part).getY();
}

} // namespace tessera::compiler
