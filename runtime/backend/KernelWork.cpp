#include "runtime/backend/KernelWork.h"

#include "runtime/backend/AttentionGeometry.h"
#include "runtime/backend/KernelChecks.h"
#include "runtime/plan/OperandParts.h"
#include "runtime/plan/TimeOrder.h"
#include "runtime/support/Scalar.h"

namespace tessera::rt {
namespace {

double product(const std::array<int64_t, 3> &sizes) { return double(sizes[0]) * double(sizes[1]) * double(sizes[2]); }

std::optional<double> flopsOf(const KernelCall &call) {
  const std::string &name = call.name();
  if (name == "matmul") {
    Result<MatMulGeometry> g = matmulGeometry(call);
    if (!g)
      return std::nullopt;
    return 2.0 * double(elementCount(g->batch)) * double(g->m) * double(g->n) * double(g->k);
  }
  if (name.starts_with("conv")) { // the gradients have as many products as the convolution
    Result<ConvGeometry> g = convGeometry(call);
    if (!g)
      return std::nullopt;
    return 2.0 * double(g->n) * double(g->groups) * double(g->f) * double(g->c) * product(g->out) * product(g->kernel);
  }
  if (name.starts_with("attention")) {
    Result<AttentionGeometry> g = attentionGeometry(call);
    if (!g)
      return std::nullopt;
    double scores = 0;
    for (int64_t row = 0; row < g->rows(); ++row)
      scores += double(g->inside(row));
    scores *= double(g->batches) * double(g->heads());
    // The forward pass computes scores and their products with v. The gradient computes the scores again, then dp, dq,
    // dk and dv.
    const bool gradient = name != "attention";
    return 2.0 * scores * (double(g->q.depth) * (gradient ? 3 : 1) + double(g->v.depth) * (gradient ? 2 : 1));
  }
  if (name == "fused") {
    double points = 1, each = 0;
    for (int64_t size : call.kernel->expression().domain())
      points *= double(size);
    for (const plan::Instruction &instruction : call.kernel->expression().code())
      if (const ElementwiseFunction *function = elementwiseFunction(instruction.op()))
        each += function->work;
      else
        each += instruction.op() != "constant" && instruction.op() != "iota";
    for (const plan::Result &result : call.kernel->expression().results())
      each += result.reduction() != plan::NONE;
    return points * each;
  }
  if (const ElementwiseFunction *function = elementwiseFunction(name))
    return double(elementCount(call.outputs[0].shape)) * function->work;
  if (name.starts_with("reduce_"))
    return double(elementCount(call.inputs[0].shape));
  return std::nullopt;
}

} // namespace

KernelWork workOf(const KernelCall &call) {
  KernelWork work;
  const bool takesPart = call.name() == kMicroRows || call.name() == "slice" || call.name() == "gather";
  for (size_t i = 0; i < call.inputs.size(); ++i)
    work.bytes += i == 0 && takesPart ? call.outputs[0].bytes() : call.inputs[i].bytes();
  if (call.attribute(kOperandParts))
    if (Result<AttentionGeometry> g = attentionGeometry(call))
      for (auto [i, rows] : {std::pair(0, &g->q), std::pair(1, &g->k), std::pair(2, &g->v)}) {
        const TensorView &whole = call.inputs[size_t(i) + (call.name() == "attention" ? 0 : 1)];
        work.bytes -= whole.bytes() - uint64_t(g->batches * rows->elements()) * bytesPerElement(whole.dtype);
      }
  for (const TensorView &view : call.outputs)
    work.bytes += view.bytes();
  work.flops = flopsOf(call);
  return work;
}

} // namespace tessera::rt
