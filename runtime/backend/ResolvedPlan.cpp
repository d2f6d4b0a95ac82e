#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/KernelChecks.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

namespace {

constexpr int64_t kMaxDim = int64_t(1) << 40;

Status badBuffer(const plan::Plan &plan, int b, const std::string &what) {
  return Status::error("buffer " + std::to_string(b) + " ('" + plan.buffers(b).name() + "') " + what);
}

/// Where the buffer begins that `b` is a view of, or `b` itself.
uint64_t wholeOffset(const plan::Plan &plan, int b) {
  uint64_t offset = plan.buffers(b).offset();
  for (int views = 0; views < plan.buffers_size(); ++views) { // a plan that was not checked may name them in a circle
    const uint32_t of = plan.buffers(b).alias_of_plus_one();
    if (of == 0 || of > uint32_t(plan.buffers_size()))
      break;
    b = int(of) - 1;
    offset = std::min(offset, plan.buffers(b).offset());
  }
  return offset;
}

} // namespace

std::vector<uint32_t> wholeBuffers(const plan::Plan &plan) {
  std::vector<uint32_t> whole(size_t(plan.buffers_size()));
  for (uint32_t b = 0; b < whole.size(); ++b) {
    whole[b] = b;
    for (size_t views = 0; views < whole.size(); ++views) { // they may be named in a circle
      const uint32_t of = plan.buffers(int(whole[b])).alias_of_plus_one();
      if (of == 0 || of > whole.size())
        break;
      whole[b] = of - 1;
    }
  }
  return whole;
}

Status resolveBuffers(const plan::Plan &plan, bool widen, const std::vector<Layout> &layouts, std::byte *base,
                      std::vector<TensorView> &views) {
  TESSERA_RETURN_IF_ERROR(checkFrames(plan));
  const Frames frames(plan);
  for (int b = 0; b < plan.buffers_size(); ++b) {
    const plan::Buffer &buffer = plan.buffers(b);
    TensorView v;
    v.dtype = buffer.dtype();
    v.shape.assign(buffer.shape().begin(), buffer.shape().end());
    size_t size = bytesPerElement(v.dtype);
    if (size == 0)
      return badBuffer(plan, b, "has no element type");
    if (v.shape.size() > 16)
      return badBuffer(plan, b, "has more than 16 dimensions");
    uint64_t bytes = size;
    bool empty = false;
    for (int64_t d : v.shape) {
      // The strides of an empty tensor must not overflow either, so a size of 0 counts as 1.
      if (d < 0 || d > kMaxDim || __builtin_mul_overflow(bytes, uint64_t(std::max<int64_t>(d, 1)), &bytes) ||
          bytes > (uint64_t(1) << 50))
        return badBuffer(plan, b, "has the shape " + str(v.shape) + ", which is out of range");
      empty = empty || d == 0;
    }
    bytes = empty ? 0 : bytes;
    if (bytes > plan.arena_bytes() || buffer.offset() > plan.arena_bytes() - bytes)
      return badBuffer(plan, b, "ends beyond the arena of " + std::to_string(plan.arena_bytes()) + " bytes");
    if (buffer.offset() % 64)
      return badBuffer(plan, b, "has an offset that is no multiple of 64");
    if (const int f = frames.frameOf(buffer.offset());
        f >= 0 && buffer.offset() + bytes > frames[f].offset + frames[f].bytes)
      return badBuffer(plan, b, "does not lie in the first place of its frame");
    if (buffer.alias_of_plus_one()) {
      uint32_t of = buffer.alias_of_plus_one() - 1;
      if (of >= uint32_t(plan.buffers_size()) || plan.buffers(int(of)).offset() > buffer.offset() ||
          plan.buffers(int(of)).dtype() != buffer.dtype())
        return badBuffer(plan, b, "is no view of the buffer it names");
    }
    if (!buffer.constant().empty() && buffer.constant().size() != bytes)
      return badBuffer(plan, b,
                       "has " + std::to_string(buffer.constant().size()) + " bytes of contents for " +
                           std::to_string(bytes));
    if (widen && v.dtype == plan::F32)
      v.dtype = plan::F64;
    if (!layouts.empty())
      v.layout = layouts[size_t(b)];
    // All offsets are doubled, whether their type is widened or not. So ranges that were disjoint stay disjoint. Inside
    // a buffer, where a part of it begins, only bytes of a widened type are.
    const uint64_t whole = wholeOffset(plan, b);
    const uint64_t inside = (buffer.offset() - whole) * (v.dtype == buffer.dtype() ? 1 : 2);
    v.data = base ? base + whole * (widen ? 2 : 1) + inside : nullptr;
    views.push_back(std::move(v));
  }
  return Status();
}

Status resolveCall(const plan::Plan &plan, const plan::Step &step, const std::vector<TensorView> &buffers,
                   const LoadOptions &options, KernelCall &call) {
  const plan::Kernel &kernel = step.kernel();
  call.kernel = &kernel;
  call.threads = std::max(1, options.threads);
  call.widen = options.widen;
  call.exact = plan.leaves() > 0;
  for (bool output : {false, true})
    for (uint32_t b : output ? kernel.outputs() : kernel.inputs()) {
      if (b >= buffers.size())
        return Status::error("there is no buffer " + std::to_string(b));
      if (output && !plan.buffers(int(b)).constant().empty())
        return Status::error("a constant is written");
      (output ? call.outputs : call.inputs).push_back(buffers[b]);
    }
  return checkKernel(call);
}

void moveCall(const plan::Kernel &kernel, const plan::Plan &plan, const Frames &frames, uint32_t index,
              KernelCall &call) {
  auto move = [&](uint32_t buffer, TensorView &view) {
    const uint64_t shift = frames.shift(plan.buffers(int(buffer)).offset(), index);
    view.data = view.as<std::byte>() + shift * (call.widen ? 2 : 1);
  };
  for (int i = 0; i < kernel.inputs_size(); ++i)
    move(kernel.inputs(i), call.inputs[size_t(i)]);
  for (int o = 0; o < kernel.outputs_size(); ++o)
    move(kernel.outputs(o), call.outputs[size_t(o)]);
}

std::vector<std::byte> constantContents(const plan::Buffer &buffer, const TensorView &held) {
  std::vector<std::byte> contents(held.bytes());
  const std::string &given = buffer.constant();
  if (held.dtype == buffer.dtype()) {
    std::memcpy(contents.data(), given.data(), contents.size());
    return contents;
  }
  for (size_t i = 0; i < contents.size() / sizeof(double); ++i) { // F32 held as F64
    float f;
    std::memcpy(&f, given.data() + 4 * i, 4);
    const double wide = f;
    std::memcpy(contents.data() + 8 * i, &wide, 8);
  }
  return contents;
}

Result<std::vector<std::vector<KernelCall>>> resolveCalls(const plan::Plan &plan, const LoadOptions &options) {
  std::vector<TensorView> buffers;
  // Any base address will do, since checkKernel only compares addresses.
  TESSERA_RETURN_IF_ERROR(resolveBuffers(plan, options.widen, {}, reinterpret_cast<std::byte *>(64), buffers));
  std::vector<std::vector<KernelCall>> result;
  for (const plan::Program &program : plan.programs()) {
    result.emplace_back();
    for (const plan::Step &step : program.steps()) {
      KernelCall call;
      if (step.has_kernel())
        TESSERA_RETURN_IF_ERROR(resolveCall(plan, step, buffers, options, call).context("step '" + step.name() + "'"));
      result.back().push_back(std::move(call));
    }
  }
  return result;
}

Status checkArena(const plan::Plan &plan) {
  if (plan.arena_bytes() > (uint64_t(1) << 47))
    return Status::error("the plan wants an arena of " + std::to_string(plan.arena_bytes()) + " bytes");
  return Status();
}

void *ResolvedPlan::address(uint32_t buffer) { return buffer < buffers_.size() ? buffers_[buffer].data : nullptr; }

void *ResolvedPlan::addressAt(uint32_t buffer, uint32_t index) {
  if (buffer >= buffers_.size())
    return nullptr;
  return buffers_[buffer].as<std::byte>() +
         frames_.shift(plan_.buffers(int(buffer)).offset(), index) * (widen_ ? 2 : 1);
}

Layout ResolvedPlan::layout(uint32_t buffer) const {
  return buffer < buffers_.size() ? buffers_[buffer].layout : Layout();
}

plan::DType ResolvedPlan::dtype(uint32_t buffer) const {
  return buffer < buffers_.size() ? buffers_[buffer].dtype : plan::DTYPE_INVALID;
}

std::string ResolvedPlan::describe(uint32_t program, uint32_t number) const {
  if (!checkStep(program, number))
    return "";
  const plan::Step &described = step(program, number);
  if (!described.has_kernel())
    return prefix_ + (described.has_send() ? ": send" : described.has_receive() ? ": receive" : ": collective");
  const std::string what = implementation(program, number);
  return prefix_ + ": " + described.kernel().name() + (what.empty() ? "" : " " + what);
}

Status ResolvedPlan::writeConstants() {
  for (int b = 0; b < plan_.buffers_size(); ++b)
    if (!plan_.buffers(b).constant().empty())
      TESSERA_RETURN_IF_ERROR(upload(uint32_t(b), constantContents(plan_.buffers(b), buffers_[size_t(b)]).data()));
  return synchronize();
}

const plan::Step &ResolvedPlan::step(uint32_t program, uint32_t number) const {
  return plan_.programs(int(program)).steps(int(number));
}

std::string ResolvedPlan::stepText(uint32_t program, uint32_t number) const {
  return "step '" + step(program, number).name() + "'";
}

Status ResolvedPlan::checkBuffer(uint32_t buffer) const {
  return buffer < buffers_.size() ? Status() : Status::error("there is no buffer " + std::to_string(buffer));
}

Status ResolvedPlan::checkStep(uint32_t program, uint32_t number) const {
  if (program < uint32_t(plan_.programs_size()) && number < uint32_t(plan_.programs(int(program)).steps_size()))
    return Status();
  return Status::error("there is no step " + std::to_string(number) + " of program " + std::to_string(program));
}

} // namespace tessera::rt
