// gather, scatter_add, argmax, topk.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

constexpr int64_t kMostBlocks = 1 << 20; // further indices are taken by the same blocks
/// With more indices than this, lists of the indices of each row take less time than to look at all indices for each.
constexpr int64_t kMostScanned = 1 << 14;

std::string addOf(plan::DType type) {
  switch (type) {
  case plan::F32:
  case plan::F64:
    return "((a) + (b))";
  default:
    return std::string("(") + memoryType(type) + ")((u64)(a) + (u64)(b))"; // wraps
  }
}

Constants constantsOf(const IndexGeometry &g) {
  return {{"BATCH", wide(g.batch)},
          {"OUTER", wide(g.outer)},
          {"EXTENT", wide(g.extent)},
          {"INNER", wide(g.inner)},
          {"INDICES", wide(g.indices)},
          {"START", g.start == INT64_MIN ? "(-9223372036854775807LL - 1)" : "(" + wide(g.start) + ")"}};
}

/// Adds the rows by lists. The lists are the same in every run, once they are in order.
void addByLists(CudaKernel &kernel, const KernelCall &call, const IndexGeometry &g, const Constants &constants) {
  const Place indices = at(call.inputs[0].data), updates = at(call.inputs[1].data), y = at(call.outputs[0].data);
  auto numbers = [&](int64_t n) { return kernel.reserve(uint64_t(n) * sizeof(uint32_t)); };
  const int64_t all = g.batch * g.indices, rows = g.batch * g.extent;
  const Place counts = numbers(rows), begins = numbers(rows + g.batch), places = numbers(all), ordered = numbers(all);
  const std::array<uint32_t, 3> each = {blocksFor(all), 1, 1};
  kernel.description = "generated, by lists";
  kernel.actions.push_back(FillBytes{counts, uint64_t(rows) * sizeof(uint32_t)});
  kernel.actions.push_back(Launch{withConstants(constants, kernels::kScatterCount), each, 256, {indices, counts}});
  kernel.actions.push_back(
      Launch{withConstants(constants, kernels::kScatterBegins), {uint32_t(g.batch), 1, 1}, 256, {counts, begins}});
  kernel.actions.push_back(
      Launch{withConstants(constants, kernels::kScatterPlaces), each, 256, {indices, counts, begins, places}});
  kernel.actions.push_back(Launch{withConstants(constants, kernels::kScatterRows),
                                  {uint32_t(std::min(rows, kMostBlocks)), 1, 1},
                                  256,
                                  {updates, begins, places, ordered, y}});
}

} // namespace

CudaKernel bindIndexing(const KernelCall &call) {
  CudaKernel kernel;
  kernel.description = "generated";
  const TensorView &y = call.outputs[0];
  if (call.name() == "argmax" || call.name() == "topk") {
    AxisGeometry g = *axisGeometry(call);
    const int64_t lines = g.outer * g.inner;
    if (lines == 0)
      return kernel;
    uint32_t block = 32;
    while (block < 256 && block < g.extent)
      block *= 2;
    kernel.actions.push_back(Launch{withConstants({{"OUTER", wide(g.outer)},
                                                   {"EXTENT", wide(g.extent)},
                                                   {"INNER", wide(g.inner)},
                                                   {"BLOCK", std::to_string(block)},
                                                   {"K", wide(call.intAttribute("k", 1))},
                                                   {"SMALLEST", call.intAttribute("smallest") != 0 ? "true" : "false"},
                                                   {"T", memoryType(call.inputs[0].dtype)}},
                                                  kernels::kTopK),
                                    {uint32_t(std::min<int64_t>(lines, 65535)), 1, 1},
                                    block,
                                    {at(call.inputs[0].data), at(y.data)}});
    return kernel;
  }
  IndexGeometry g = *indexGeometry(call);
  Constants constants = constantsOf(g);
  const bool scatter = call.name() == "scatter_add";
  constants.push_back({"I", memoryType(call.inputs[scatter ? 0 : 1].dtype)});
  constants.push_back({"T", memoryType(y.dtype)});
  if (!scatter) {
    if (y.elements() > 0)
      kernel.actions.push_back(Launch{withConstants(constants, kernels::kGather),
                                      {blocksFor(y.elements()), 1, 1},
                                      256,
                                      {at(call.inputs[0].data), at(call.inputs[1].data), at(y.data)}});
    return kernel;
  }
  constants.push_back({"ADD(a, b)", addOf(y.dtype)});
  if (y.elements() > 0 && g.indices > kMostScanned && g.indices <= INT32_MAX && g.batch <= kMostBlocks) {
    addByLists(kernel, call, g, constants);
    return kernel;
  }
  if (y.bytes() > 0)
    kernel.actions.push_back(FillBytes{at(y.data), y.bytes()});
  if (y.elements() > 0 && g.indices > 0)
    kernel.actions.push_back(Launch{withConstants(constants, kernels::kScatterAdd),
                                    {uint32_t(std::min<int64_t>(g.batch * g.indices, kMostBlocks)), 1, 1},
                                    256,
                                    {at(call.inputs[0].data), at(call.inputs[1].data), at(y.data)}});
  return kernel;
}

} // namespace tessera::rt::cuda
