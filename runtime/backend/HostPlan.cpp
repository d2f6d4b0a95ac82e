#include "runtime/backend/HostPlan.h"
#include "runtime/backend/KernelChecks.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace tessera::rt {

HostMemory &HostMemory::operator=(HostMemory &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostMemory::~HostMemory() {
  if (data_)
    munmap(data_, size_);
}

Result<HostMemory> HostMemory::allocate(size_t bytes) {
  HostMemory memory;
  if (bytes == 0)
    return memory;
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return Status::error("this machine cannot give " + std::to_string(bytes) + " bytes of memory");
  if (bytes >= (size_t(4) << 20))
    madvise(p, bytes, MADV_HUGEPAGE); // fewer TLB misses; a hint, so its failure is no matter
  memory.data_ = static_cast<std::byte *>(p);
  memory.size_ = bytes;
  return memory;
}

namespace {

constexpr int64_t kMaxDim = int64_t(1) << 40;

Status badBuffer(const plan::Plan &plan, int b, const std::string &what) {
  return Status::error("buffer " + std::to_string(b) + " ('" + plan.buffers(b).name() + "') " + what);
}

} // namespace

Status resolveBuffers(const plan::Plan &plan, bool widen, const std::vector<Layout> &layouts, std::byte *base,
                      std::vector<TensorView> &views) {
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
      // Strides of an empty tensor must not overflow either: 0 counts as 1.
      if (d < 0 || d > kMaxDim ||
          __builtin_mul_overflow(bytes, static_cast<uint64_t>(std::max<int64_t>(d, 1)), &bytes) ||
          bytes > (uint64_t(1) << 50))
        return badBuffer(plan, b, "has the shape " + str(v.shape) + ", which is out of range");
      empty = empty || d == 0;
    }
    bytes = empty ? 0 : bytes;
    if (bytes > plan.arena_bytes() || buffer.offset() > plan.arena_bytes() - bytes)
      return badBuffer(plan, b, "ends beyond the arena of " + std::to_string(plan.arena_bytes()) + " bytes");
    if (buffer.offset() % 64)
      return badBuffer(plan, b, "has an offset that is no multiple of 64");
    if (buffer.alias_of_plus_one()) {
      uint32_t of = buffer.alias_of_plus_one() - 1;
      if (of >= static_cast<uint32_t>(plan.buffers_size()) ||
          plan.buffers(static_cast<int>(of)).offset() != buffer.offset() ||
          plan.buffers(static_cast<int>(of)).dtype() != buffer.dtype())
        return badBuffer(plan, b, "is no view of the buffer it names");
    }
    if (!buffer.constant().empty() && buffer.constant().size() != bytes)
      return badBuffer(plan, b,
                       "has " + std::to_string(buffer.constant().size()) + " bytes of contents for " +
                           std::to_string(bytes));
    if (widen && v.dtype == plan::F32)
      v.dtype = plan::F64;
    if (!layouts.empty())
      v.layout = layouts[static_cast<size_t>(b)];
    // Doubled offsets keep ranges that were apart apart, whether their type was widened or not.
    v.data = base ? base + buffer.offset() * (widen ? 2 : 1) : nullptr;
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
  for (bool output : {false, true})
    for (uint32_t b : output ? kernel.outputs() : kernel.inputs()) {
      if (b >= buffers.size())
        return Status::error("there is no buffer " + std::to_string(b));
      if (output && !plan.buffers(static_cast<int>(b)).constant().empty())
        return Status::error("a constant is written");
      (output ? call.outputs : call.inputs).push_back(buffers[b]);
    }
  return checkKernel(call);
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

Result<std::vector<std::vector<KernelCall>>> HostPlan::calls(const plan::Plan &plan, const LoadOptions &options) {
  std::vector<TensorView> buffers;
  // Any base does: checkKernel compares addresses, nothing is read.
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

Result<std::unique_ptr<LoadedPlan>> HostPlan::load(const plan::Plan &plan, const LoadOptions &options,
                                                   std::string prefix, const Binder &bind,
                                                   std::vector<Layout> layouts) {
  auto loaded = std::make_unique<HostPlan>();
  loaded->plan_ = &plan;
  loaded->prefix_ = std::move(prefix);
  if (plan.arena_bytes() > (uint64_t(1) << 47))
    return Status::error("the plan wants an arena of " + std::to_string(plan.arena_bytes()) + " bytes");
  // Checked once before a byte is allocated, then resolved to addresses.
  TESSERA_RETURN_IF_ERROR(calls(plan, options).status());
  Result<HostMemory> arena = HostMemory::allocate(plan.arena_bytes() * (options.widen ? 2 : 1));
  if (!arena)
    return arena.status().context("arena");
  loaded->arena_ = std::move(*arena);
  TESSERA_RETURN_IF_ERROR(resolveBuffers(plan, options.widen, layouts, loaded->arena_.data(), loaded->buffers_));
  size_t scratch = 0;
  for (const plan::Program &program : plan.programs()) {
    auto &kernels = loaded->kernels_.emplace_back();
    for (const plan::Step &step : program.steps()) {
      kernels.emplace_back();
      if (!step.has_kernel())
        continue;
      KernelCall call;
      TESSERA_RETURN_IF_ERROR(
          resolveCall(plan, step, loaded->buffers_, options, call).context("step '" + step.name() + "'"));
      if (!bind)
        continue;
      BindResult bound = bind(call);
      if (!bound)
        return bound.status().context("step '" + step.name() + "'");
      kernels.back() = std::move(*bound);
      scratch = std::max(scratch, kernels.back()->scratchBytes());
    }
  }
  Result<HostMemory> memory = HostMemory::allocate(scratch);
  if (!memory)
    return memory.status().context("kernel scratch");
  loaded->scratch_ = std::move(*memory);
  for (int b = 0; b < plan.buffers_size(); ++b) {
    const std::string &contents = plan.buffers(b).constant();
    if (contents.empty())
      continue;
    TESSERA_RETURN_IF_ERROR(loaded->upload(
        static_cast<uint32_t>(b), constantContents(plan.buffers(b), loaded->buffers_[static_cast<size_t>(b)]).data()));
  }
  return std::unique_ptr<LoadedPlan>(std::move(loaded));
}

void *HostPlan::address(uint32_t buffer) { return buffer < buffers_.size() ? buffers_[buffer].data : nullptr; }

Layout HostPlan::layout(uint32_t buffer) const { return buffer < buffers_.size() ? buffers_[buffer].layout : Layout(); }

plan::DType HostPlan::dtype(uint32_t buffer) const {
  return buffer < buffers_.size() ? buffers_[buffer].dtype : plan::DTYPE_INVALID;
}

Status HostPlan::upload(uint32_t buffer, const void *host) {
  if (buffer >= buffers_.size())
    return Status::error("there is no buffer " + std::to_string(buffer));
  const TensorView &v = buffers_[buffer];
  convertLayout(v.data, v.layout, host, Layout(), v.shape, bytesPerElement(v.dtype));
  return Status();
}

Status HostPlan::download(uint32_t buffer, void *host) {
  if (buffer >= buffers_.size())
    return Status::error("there is no buffer " + std::to_string(buffer));
  const TensorView &v = buffers_[buffer];
  convertLayout(host, Layout(), v.data, v.layout, v.shape, bytesPerElement(v.dtype));
  return Status();
}

Status HostPlan::launch(uint32_t program, uint32_t step) {
  if (program >= kernels_.size() || step >= kernels_[program].size())
    return Status::error("there is no step " + std::to_string(step) + " of program " + std::to_string(program));
  BoundKernel *kernel = kernels_[program][step].get();
  if (!kernel)
    return Status(); // a collective, or a backend that executes nothing
  return kernel->run(scratch_.data())
      .context("step '" + plan_->programs(static_cast<int>(program)).steps(static_cast<int>(step)).name() + "'");
}

std::string HostPlan::describe(uint32_t program, uint32_t step) const {
  if (program >= kernels_.size() || step >= kernels_[program].size())
    return "";
  const plan::Step &s = plan_->programs(static_cast<int>(program)).steps(static_cast<int>(step));
  const BoundKernel *kernel = kernels_[program][step].get();
  if (!s.has_kernel())
    return prefix_ + ": collective";
  return prefix_ + ": " + s.kernel().name() + (kernel ? " " + kernel->describe() : "");
}

bool HostPlan::watch(uint32_t program, uint32_t buffer, const std::shared_ptr<std::atomic<bool>> &found) {
  if (program >= kernels_.size() || buffer >= buffers_.size())
    return false;
  auto viewed = [&](uint32_t b) {
    const uint32_t of = plan_->buffers(static_cast<int>(b)).alias_of_plus_one();
    return of ? of - 1 : b;
  };
  for (size_t s = kernels_[program].size(); s-- > 0;) {
    const plan::Step &step = plan_->programs(static_cast<int>(program)).steps(static_cast<int>(s));
    if (step.has_collective() && viewed(step.collective().output()) == viewed(buffer))
      return false;
    for (int o = 0; o < step.kernel().outputs_size(); ++o)
      if (viewed(step.kernel().outputs(o)) == viewed(buffer))
        return kernels_[program][s] && kernels_[program][s]->watch(static_cast<size_t>(o), found);
  }
  return false;
}

} // namespace tessera::rt
