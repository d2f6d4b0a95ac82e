#include "runtime/executor/GlobalTensors.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/comm/BoxCopy.h"
#include "runtime/plan/PlanInfo.h"

#include <cstring>
#include <optional>

namespace tessera::rt {
namespace {

/// The first `extent` elements of each dimension of a row-major tensor. A scalar counts as one
/// dimension of one element.
Box boxOf(std::vector<int64_t> shape, std::vector<int64_t> extent) {
  if (shape.empty())
    shape = extent = {1};
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return {0, extent, strides};
}

} // namespace

void padBox(const std::vector<int64_t> &shape, const std::vector<int64_t> &extent, const void *held, void *padded,
            uint64_t elementBytes) {
  std::memset(padded, 0, size_t(*elementsOf(shape)) * elementBytes);
  if (!isEmpty(extent))
    copyBox(held, boxOf(extent, extent), padded, boxOf(shape, extent), elementBytes);
}

Status gatherGlobal(Executor &executor, const std::vector<plan::Plan> &plans, int binding, std::vector<char> &global) {
  size_t me = executor.plan().rank();
  std::vector<char> mine;
  TESSERA_RETURN_IF_ERROR(executor.fetch(binding, mine));
  auto holds = [&](size_t rank) {
    const plan::Binding &b = plans[rank].bindings(binding);
    return b.primary() && !isEmpty(extentOf(plans[rank], b));
  };
  plan::DType type = executor.heldType(binding);
  std::vector<Transfer> sends, receives;
  if (holds(me)) {
    const plan::Binding &b = plans[me].bindings(binding);
    sends.push_back({0, boxOf(toVector(plans[me].buffers(int(b.buffer())).shape()), extentOf(plans[me], b))});
  }
  if (me == 0) {
    std::vector<int64_t> whole = toVector(plans[0].bindings(binding).global_shape());
    global.resize(bytesOf(whole, type).value_or(0));
    const Box all = boxOf(whole, whole);
    for (size_t rank = 0; rank < plans.size(); ++rank) {
      if (!holds(rank))
        continue;
      const plan::Binding &b = plans[rank].bindings(binding);
      Box box{0, whole.empty() ? all.count : extentOf(plans[rank], b), all.stride};
      for (size_t d = 0; d < whole.size(); ++d)
        box.offset += b.offset(int(d)) * all.stride[d];
      receives.push_back({int(rank), std::move(box)});
    }
  }
  return executor.everyone().exchange(mine.data(), sends, global.data(), receives, type);
}

Status saveWeights(Executor &executor, const std::vector<plan::Plan> &plans, const std::string &path) {
  std::vector<int> bindings = executor.bindings(plan::PARAMETER, "");
  for (int binding : executor.bindings(plan::STATE, ""))
    if (!isOptimizerState(executor.plan(), executor.plan().bindings(binding)))
      bindings.push_back(binding);
  std::optional<SafetensorsWriter> writer;
  if (executor.plan().rank() == 0) {
    std::vector<SafetensorsWriter::Tensor> tensors;
    for (int binding : bindings)
      tensors.push_back({executor.plan().bindings(binding).name(), executor.heldType(binding),
                         toVector(executor.plan().bindings(binding).global_shape())});
    Result<SafetensorsWriter> created = SafetensorsWriter::create(path, std::move(tensors), {{"format", "pt"}});
    if (!created)
      return created.status();
    writer.emplace(std::move(*created));
  }
  std::vector<char> global;
  for (int binding : bindings) {
    TESSERA_RETURN_IF_ERROR(
        gatherGlobal(executor, plans, binding, global).context(quoted(executor.plan().bindings(binding).name())));
    if (writer)
      TESSERA_RETURN_IF_ERROR(writer->add(global.data(), global.size()));
  }
  if (writer)
    TESSERA_RETURN_IF_ERROR(writer->commit());
  return executor.everyone().barrier(); // no rank goes on before the file is complete
}

} // namespace tessera::rt
