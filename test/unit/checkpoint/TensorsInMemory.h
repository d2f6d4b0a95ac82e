// Tensors of floats in memory: a source for tests.
#ifndef TESSERA_TEST_UNIT_CHECKPOINT_TENSORSINMEMORY_H
#define TESSERA_TEST_UNIT_CHECKPOINT_TENSORSINMEMORY_H

#include "runtime/plan/PlanInfo.h"
#include "runtime/tensor/ConvertElements.h"
#include "runtime/tensor/TensorSource.h"

#include <map>

namespace tessera::rt {

struct TensorsInMemory : TensorSource {
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, Tensor> tensors;
  std::string name = "memory";
  mutable uint64_t mostElements = 0; // of one read

  /// Adds a tensor whose values show their position.
  void add(const std::string &tensor, const std::vector<int64_t> &shape, float first) {
    Tensor &t = tensors[tensor] = {shape, {}};
    for (int64_t i = 0; i < *elementsOf(shape); ++i)
      t.values.push_back(first + float(i));
  }

  const std::string &path() const override { return name; }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto &[tensor, t] : tensors)
      all.push_back(tensor);
    return all;
  }
  std::optional<TensorType> typeOf(const std::string &tensor) const override {
    auto it = tensors.find(tensor);
    if (it == tensors.end())
      return std::nullopt;
    return TensorType{plan::F32, it->second.shape};
  }
  Status read(const std::string &tensor, const Block &block, plan::DType type, void *out) const override {
    const Tensor &t = tensors.at(tensor);
    if (!isInside(block, t.shape) || !isFloatType(type))
      return Status::error("not inside");
    const auto count = uint64_t(*elementsOf(block.shape));
    mostElements = std::max(mostElements, count);
    std::vector<float> part(count);
    copyBlock(t.values.data(), wholeBlock(t.shape), part.data(), block, 4);
    convertElements(part.data(), plan::F32, out, type, count);
    return Status();
  }
};

} // namespace tessera::rt

#endif
