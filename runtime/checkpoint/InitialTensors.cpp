#include "runtime/checkpoint/InitialTensors.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/InitialValues.h"
#include "runtime/tensor/BoundTensors.h"
#include "runtime/tensor/ConvertElements.h"
#include "runtime/tensor/Safetensors.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

namespace tessera::rt {
namespace {

constexpr int64_t kPiece = 1 << 16; // elements that are made at a time
constexpr int64_t kChunk = 1 << 18; // elements that a thread takes at a time; normal ones take 10 ms

double valueOf(const plan::Initial &rule, uint64_t stream, uint64_t element) {
  switch (rule.kind()) {
  case plan::Initial::UNIFORM:
    return rule.value() * uniformValue(rule.seed(), stream, element);
  case plan::Initial::NORMAL:
    return rule.value() * normalValue(rule.seed(), stream, element);
  default:
    return rule.value();
  }
}

/// Starts one more thread, if the system lets it.
template <typename Work> bool start(std::vector<std::thread> &threads, const Work &work) {
  try {
    threads.emplace_back(work);
    return true;
  } catch (const std::system_error &) {
    return false;
  }
}

/// Calls make(begin, end) for ranges that cover [0, elements), on all processors. Threads that the system refuses leave
/// their ranges to the others.
template <typename Make> void inChunks(int64_t elements, const Make &make) {
  const int64_t chunks = (elements + kChunk - 1) / kChunk;
  std::atomic<int64_t> next{0};
  auto work = [&] {
    for (int64_t c; (c = next++) < chunks;)
      make(c * kChunk, std::min(elements, (c + 1) * kChunk));
  };
  std::vector<std::thread> helpers;
  const int64_t wanted = std::min(chunks, int64_t(std::thread::hardware_concurrency())) - 1;
  while (std::ssize(helpers) < wanted && start(helpers, work)) {
  }
  work();
  for (std::thread &helper : helpers)
    helper.join();
}

} // namespace

Result<std::unique_ptr<TensorSource>> InitialTensors::open(const PlanDirectory &directory) {
  if (directory.weights.empty())
    return std::unique_ptr<TensorSource>();
  Result<Safetensors> file = Safetensors::open(directory.weights);
  if (!file)
    return file.status();
  return std::unique_ptr<TensorSource>(std::make_unique<InitialTensors>(std::make_unique<Safetensors>(std::move(*file)),
                                                                        BoundTensors(directory.ranks).plan()));
}

InitialTensors::InitialTensors(std::unique_ptr<TensorSource> file, const plan::Plan &plan) : file_(std::move(file)) {
  for (const plan::Binding &binding : plan.bindings())
    if (binding.has_initial() && !file_->typeOf(binding.name()))
      made_[binding.name()] = {{plan.buffers(int(binding.buffer())).dtype(), toVector(binding.global_shape())},
                               binding.initial()};
}

std::vector<std::string> InitialTensors::names() const {
  std::vector<std::string> names = file_->names();
  for (const auto &[name, made] : made_)
    names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<TensorType> InitialTensors::typeOf(const std::string &name) const {
  auto it = made_.find(name);
  return it == made_.end() ? file_->typeOf(name) : it->second.type;
}

Status InitialTensors::read(const std::string &name, const Block &block, plan::DType type, void *out) const {
  auto it = made_.find(name);
  if (it == made_.end())
    return file_->read(name, block, type, out);
  const Made &made = it->second;
  const std::vector<int64_t> &shape = made.type.shape;
  if (type != made.type.type && !(isFloatType(type) && isFloatType(made.type.type)))
    return Status::error("tensor " + quoted(name) + " has the type " + typeName(made.type.type) + "; the plan wants " +
                         typeName(type));
  if (block.offset.size() != shape.size() || block.shape.size() != shape.size() || !isInside(block, shape))
    return Status::error("tensor " + quoted(name) + " has no block " + shapeText(block.shape) + " at " +
                         shapeText(block.offset));
  const uint64_t stream = streamOf(name);
  const size_t rank = shape.size();
  const int64_t row = rank == 0 ? 1 : block.shape.back(), elements = *elementsOf(block.shape);
  inChunks(elements, [&](int64_t begin, int64_t end) {
    std::vector<double> values(size_t(std::min(row, kPiece)));
    std::vector<char> rounded(values.size() * bytesPerElement(made.type.type));
    auto *target = static_cast<char *>(out) + begin * int64_t(bytesPerElement(type));
    for (int64_t at = begin; at < end;) {
      const int64_t column = at % row;
      int64_t first = rank == 0 ? 0 : block.offset.back(), stride = rank == 0 ? 1 : shape.back();
      int64_t rest = at / row;
      for (size_t d = rank; d-- > 1;) {
        first += (block.offset[d - 1] + rest % block.shape[d - 1]) * stride;
        rest /= block.shape[d - 1];
        stride *= shape[d - 1];
      }
      const auto count = size_t(std::min({row - column, end - at, kPiece}));
      for (size_t i = 0; i < count; ++i)
        values[i] = valueOf(made.rule, stream, uint64_t(first + column) + i);
      // The values are rounded to the type of the plan, even where the run computes in a wider one.
      convertElements(values.data(), plan::F64, rounded.data(), made.type.type, count);
      convertElements(rounded.data(), made.type.type, target, type, count);
      target += count * bytesPerElement(type);
      at += int64_t(count);
    }
  });
  return Status();
}

} // namespace tessera::rt
