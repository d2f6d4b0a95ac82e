#include "runtime/executor/GlobalTensors.h"
#include "runtime/plan/PlanInfo.h"

#include <cstring>
#include <optional>

namespace tessera::rt {
namespace {

/// All of a row-major tensor; a scalar is one element of one dimension.
Box wholeBox(std::vector<int64_t> shape) {
  if (shape.empty())
    shape = {1};
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return {0, shape, strides};
}

} // namespace

Status gatherGlobal(Executor &executor, const std::vector<plan::Plan> &plans, int binding,
                    std::vector<char> &global) {
  size_t me = executor.plan().rank();
  std::vector<char> mine;
  TESSERA_RETURN_IF_ERROR(executor.fetch(binding, mine));
  auto shapeOn = [&](size_t rank) {
    const plan::Binding &b = plans[rank].bindings(binding);
    return toVector(plans[rank].buffers(static_cast<int>(b.buffer())).shape());
  };
  plan::DType type = executor.heldType(binding);
  std::vector<Transfer> sends, receives;
  if (plans[me].bindings(binding).primary())
    sends.push_back({0, wholeBox(shapeOn(me))});
  if (me == 0) {
    std::vector<int64_t> whole = toVector(plans[0].bindings(binding).global_shape());
    global.resize(bytesOf(whole, type).value_or(0));
    const Box all = wholeBox(whole);
    for (size_t rank = 0; rank < plans.size(); ++rank) {
      const plan::Binding &b = plans[rank].bindings(binding);
      if (!b.primary())
        continue;
      Box box{0, wholeBox(shapeOn(rank)).count, all.stride};
      for (size_t d = 0; d < whole.size(); ++d)
        box.offset += b.offset(static_cast<int>(d)) * all.stride[d];
      receives.push_back({static_cast<int>(rank), std::move(box)});
    }
  }
  return executor.everyone().exchange(mine.data(), sends, global.data(), receives, type);
}

Status saveWeights(Executor &executor, const std::vector<plan::Plan> &plans,
                   const std::string &path, bool states,
                   const std::map<std::string, std::string> &metadata) {
  std::vector<int> bindings = executor.bindings(plan::PARAMETER, "");
  if (states)
    for (int binding : executor.bindings(plan::STATE, ""))
      bindings.push_back(binding);
  std::optional<SafetensorsWriter> writer;
  if (executor.plan().rank() == 0) {
    std::vector<SafetensorsWriter::Tensor> tensors;
    for (int binding : bindings)
      tensors.push_back({executor.plan().bindings(binding).name(), executor.heldType(binding),
                         toVector(executor.plan().bindings(binding).global_shape())});
    Result<SafetensorsWriter> created =
        SafetensorsWriter::create(path, std::move(tensors), metadata);
    if (!created)
      return created.status();
    writer.emplace(std::move(*created));
  }
  std::vector<char> global;
  for (int binding : bindings) {
    TESSERA_RETURN_IF_ERROR(gatherGlobal(executor, plans, binding, global)
                                .context(quoted(executor.plan().bindings(binding).name())));
    if (writer)
      TESSERA_RETURN_IF_ERROR(writer->add(global.data(), global.size()));
  }
  if (writer)
    TESSERA_RETURN_IF_ERROR(writer->commit());
  return executor.everyone().barrier(); // nobody goes on before the file is there
}

} // namespace tessera::rt
