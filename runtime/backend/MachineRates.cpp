#include "runtime/backend/MachineRates.h"

#include "runtime/backend/Tensor.h"

#include <algorithm>
#include <chrono>

namespace tessera::rt {
namespace {

/// A measurement takes the first size that runs so long, in seconds, or else the largest. The clock's and a launch's
/// share is then small.
constexpr double kLongEnough = 0.02;
constexpr int kTries = 3; // the best of them counts: other programs only slow a kernel down

/// One kernel: two inputs and an output of one shape.
plan::Plan planOf(const std::string &kernel, plan::DType type, const Shape &shape) {
  plan::Plan plan;
  plan.set_version(1);
  plan::Step *step = plan.add_programs()->add_steps();
  step->set_name(kernel);
  step->mutable_kernel()->set_name(kernel);
  for (uint32_t b = 0; b < 3; ++b) {
    plan::Buffer *buffer = plan.add_buffers();
    buffer->set_name("b" + std::to_string(b));
    buffer->set_dtype(type);
    buffer->set_offset(plan.arena_bytes());
    for (int64_t d : shape)
      buffer->add_shape(d);
    plan.set_arena_bytes(plan.arena_bytes() + uint64_t(elementCount(shape)) * bytesPerElement(type));
    if (b < 2)
      step->mutable_kernel()->add_inputs(b);
    else
      step->mutable_kernel()->add_outputs(b);
  }
  return plan;
}

/// The plan's kernel on zeros.
Result<std::unique_ptr<LoadedPlan>> loadOnZeros(Backend &backend, const LoadOptions &options, const plan::Plan &plan) {
  Result<std::unique_ptr<LoadedPlan>> loaded = backend.load(plan, options);
  if (!loaded)
    return loaded;
  const plan::Buffer &first = plan.buffers(0);
  const Shape shape(first.shape().begin(), first.shape().end());
  const std::vector<char> zeros(size_t(elementCount(shape)) * bytesPerElement((*loaded)->dtype(0)), 0);
  for (uint32_t b = 0; b < 3; ++b) // also the output: memory that was never written costs more, or nothing
    TESSERA_RETURN_IF_ERROR((*loaded)->upload(b, zeros.data()));
  return loaded;
}

Status runOnce(LoadedPlan &loaded) {
  TESSERA_RETURN_IF_ERROR(loaded.launch(0, 0));
  return loaded.synchronize();
}

/// The seconds that the plan's kernel takes.
Result<double> secondsOf(Backend &backend, const LoadOptions &options, const plan::Plan &plan) {
  using Clock = std::chrono::steady_clock;
  Result<std::unique_ptr<LoadedPlan>> loaded = loadOnZeros(backend, options, plan);
  if (!loaded)
    return loaded.status();
  double best = 0;
  for (int i = 0; i <= kTries; ++i) { // the first warms up
    const Clock::time_point begin = Clock::now();
    TESSERA_RETURN_IF_ERROR(runOnce(**loaded));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = i < 2 ? seconds : std::min(best, seconds);
  }
  return std::max(best, 1e-9);
}

plan::DType plannedType(const LoadOptions &options, plan::DType held) {
  return options.widen && held == plan::F64 ? plan::F32 : held;
}

} // namespace

Result<LoadedProduct> LoadedProduct::load(Backend &backend, const LoadOptions &options, plan::DType type,
                                          int64_t size) {
  LoadedProduct product;
  product.plan_ = std::make_unique<plan::Plan>(planOf("matmul", plannedType(options, type), {size, size}));
  Result<std::unique_ptr<LoadedPlan>> loaded = loadOnZeros(backend, options, *product.plan_);
  if (!loaded)
    return loaded.status();
  product.loaded_ = std::move(*loaded);
  return product;
}

Status LoadedProduct::run() { return runOnce(*loaded_); }

Result<double> measureProducts(Backend &backend, const LoadOptions &options, plan::DType type) {
  const plan::DType planned = plannedType(options, type);
  double rate = 0;
  for (int64_t size : {256, 1024, 2048, 4096}) {
    Result<double> seconds = secondsOf(backend, options, planOf("matmul", planned, {size, size}));
    if (!seconds)
      return seconds;
    rate = std::max(rate, 2 * double(size) * double(size) * double(size) / *seconds);
    if (*seconds > kLongEnough)
      break;
  }
  return rate;
}

Result<double> measureBandwidth(Backend &backend, const LoadOptions &options) {
  double rate = 0;
  for (int64_t elements = int64_t(1) << 18; elements <= int64_t(1) << 24; elements *= 4) { // up to 64 MiB, three times
    Result<double> seconds = secondsOf(backend, options, planOf("add", plan::F32, {elements}));
    if (!seconds)
      return seconds;
    rate = 3 * double(elements) * (options.widen ? 8 : 4) / *seconds; // of the largest, which no cache holds
    if (*seconds > kLongEnough)
      break;
  }
  return rate;
}

} // namespace tessera::rt
