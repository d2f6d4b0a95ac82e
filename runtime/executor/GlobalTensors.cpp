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

Status gatherGlobal(Executor &executor, const BoundTensors &tensors, int tensor, std::vector<char> &global) {
  const std::span<const plan::Plan> plans = tensors.plans();
  size_t me = executor.plan().rank();
  std::vector<char> mine;
  if (const int binding = tensors.on(me, tensor); binding >= 0)
    TESSERA_RETURN_IF_ERROR(executor.fetch(binding, mine));
  auto boundOn = [&](size_t rank) -> const plan::Binding * {
    const int binding = tensors.on(rank, tensor);
    return binding < 0 ? nullptr : &plans[rank].bindings(binding);
  };
  auto holds = [&](size_t rank) {
    const plan::Binding *b = boundOn(rank);
    return b && b->primary() && !isEmpty(extentOf(plans[rank], *b));
  };
  plan::DType type = executor.heldType(tensors.type(tensor));
  std::vector<Transfer> sends, receives;
  if (holds(me)) {
    const plan::Binding &b = *boundOn(me);
    sends.push_back({0, boxOf(toVector(plans[me].buffers(int(b.buffer())).shape()), extentOf(plans[me], b))});
  }
  if (me == 0) {
    std::vector<int64_t> whole = toVector(tensors.binding(tensor).global_shape());
    global.resize(bytesOf(whole, type).value_or(0));
    const Box all = boxOf(whole, whole);
    for (size_t rank = 0; rank < plans.size(); ++rank) {
      if (!holds(rank))
        continue;
      const plan::Binding &b = *boundOn(rank);
      Box box{0, whole.empty() ? all.count : extentOf(plans[rank], b), all.stride};
      for (size_t d = 0; d < whole.size(); ++d)
        box.offset += b.offset(int(d)) * all.stride[d];
      receives.push_back({int(rank), std::move(box)});
    }
  }
  return executor.everyone().exchange(mine.data(), sends, global.data(), receives, type);
}

Status saveWeights(Executor &executor, const std::vector<plan::Plan> &plans, const std::string &path) {
  const BoundTensors all(plans);
  std::vector<int> saved = all.of(plan::PARAMETER, "");
  for (int tensor : all.of(plan::STATE, ""))
    if (!isOptimizerState(all.plan(), all.binding(tensor)))
      saved.push_back(tensor);
  std::optional<SafetensorsWriter> writer;
  if (executor.plan().rank() == 0) {
    std::vector<SafetensorsWriter::Tensor> tensors;
    for (int tensor : saved)
      tensors.push_back({all.binding(tensor).name(), executor.heldType(all.type(tensor)),
                         toVector(all.binding(tensor).global_shape())});
    Result<SafetensorsWriter> created = SafetensorsWriter::create(path, std::move(tensors), {{"format", "pt"}});
    if (!created)
      return created.status();
    writer.emplace(std::move(*created));
  }
  std::vector<char> global;
  for (int tensor : saved) {
    TESSERA_RETURN_IF_ERROR(gatherGlobal(executor, all, tensor, global).context(quoted(all.binding(tensor).name())));
    if (writer)
      TESSERA_RETURN_IF_ERROR(writer->add(global.data(), global.size()));
  }
  if (writer)
    TESSERA_RETURN_IF_ERROR(writer->commit());
  return executor.everyone().barrier(); // no rank goes on before the file is complete
}

} // namespace tessera::rt
