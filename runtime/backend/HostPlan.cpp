#include "runtime/backend/HostPlan.h"

#include "runtime/backend/BufferUses.h"
#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/Parallel.h"
#include "runtime/plan/Alignment.h"
#include "runtime/plan/TimeOrder.h"
#include "runtime/support/Threads.h"

#include <algorithm>
#include <mutex>
#include <numeric>
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
    return Status::error("cannot allocate " + std::to_string(bytes) +
                         " bytes of memory; use fewer ranks on this machine, or a smaller batch");
  if (bytes >= (size_t(4) << 20))
    madvise(p, bytes, MADV_HUGEPAGE); // gives fewer TLB misses; only a hint, so its failure does not matter
  memory.data_ = static_cast<std::byte *>(p);
  memory.size_ = bytes;
  return memory;
}

/// Starts the threads that the loops of this rank share. OpenMP would end the process where it got none.
static Status startThreads(int threads) {
  static std::mutex mutex; // no other rank of this process takes them in between
  thread_local int started = 1;
  if (threads <= started)
    return Status();
  std::lock_guard lock(mutex);
  TESSERA_RETURN_IF_ERROR(probeThreads(threads - 1));
  const ThreadsAtWork atWork; // another rank's threads may take them still, and other ranks use their libraries by now
  parallelFor(threads, threads, [](int64_t, int64_t) {});
  started = threads;
  return Status();
}

HostPlan::HostPlan(const plan::Plan &plan, std::string prefix) : ResolvedPlan(plan, std::move(prefix)) {}

Result<std::unique_ptr<LoadedPlan>> HostPlan::load(const plan::Plan &plan, const LoadOptions &options,
                                                   std::string prefix, const Binder &bind,
                                                   const std::vector<Layout> &layouts, const PairBinder &bindPair) {
  TESSERA_RETURN_IF_ERROR(checkArena(plan));
  TESSERA_RETURN_IF_ERROR(startThreads(options.threads));
  // Checked once before a byte is allocated, then resolved to addresses.
  TESSERA_RETURN_IF_ERROR(resolveCalls(plan, options).status());
  std::unique_ptr<HostPlan> loaded(new HostPlan(plan, std::move(prefix)));
  Result<HostMemory> arena = HostMemory::allocate(plan.arena_bytes() * (options.widen ? 2 : 1));
  if (!arena)
    return arena.status().context("arena");
  loaded->arena_ = std::move(*arena);
  TESSERA_RETURN_IF_ERROR(loaded->placeBuffers(options.widen, layouts, loaded->arena_.data()));
  TESSERA_RETURN_IF_ERROR(loaded->bind(options, bind, bindPair));
  TESSERA_RETURN_IF_ERROR(loaded->writeConstants());
  return std::unique_ptr<LoadedPlan>(std::move(loaded));
}

/// Tells kernels which operands no step writes, so that they may keep what they make of them.
void HostPlan::markConstants(const BufferUses &uses) {
  const auto count = uint32_t(plan().buffers_size());
  std::vector<bool> stays(count, false);
  for (uint32_t b = 0; b < count; ++b)
    stays[b] = !plan().buffers(int(b)).constant().empty();
  for (const plan::Binding &binding : plan().bindings())
    if (binding.role() == plan::PARAMETER || binding.role() == plan::STATE)
      stays[uses.root(binding.buffer())] = true;
  for (uint32_t b = 0; b < count; ++b)
    if (stays[uses.root(b)] && uses.writes(b) == 0)
      placedBuffers()[b].edition = &edition_;
}

/// More micro-batches than anyone has under way at once.
constexpr uint64_t kMostVariants = 4096;

/// In how many combinations of places a kernel's operands lie, in calls with the indices [0, indices).
uint64_t HostPlan::variantsOf(const plan::Kernel &kernel, uint64_t indices) const {
  uint64_t places = 1;
  for (const auto *buffers : {&kernel.inputs(), &kernel.outputs()})
    for (uint32_t buffer : *buffers)
      if (places < indices)
        places = std::lcm(places, uint64_t(frames().slots(plan().buffers(int(buffer)).offset())));
  return std::max<uint64_t>(1, std::min(places, indices));
}

/// Binds steps of a program together with the loops behind them. Not in training, where every step's result can be
/// asked for, not where the bits of a result may depend on nothing else, and not where NaN must stay NaN.
Status HostPlan::bindPairs(uint32_t number, const LoadOptions &options, const PairBinder &bindPair,
                           const BufferUses &uses) {
  const plan::Program &program = plan().programs(int(number));
  pairs_.emplace_back(size_t(program.steps_size()), 0);
  if (!bindPair || !frames().empty() || program.name() == "train" || plan().leaves() || options.device.keepNan)
    return Status();
  const TimeOrder order(program);
  for (uint32_t s = 0; s + 1 < uint32_t(program.steps_size()); ++s) {
    const plan::Step &step = program.steps(int(s)), &next = program.steps(int(s) + 1);
    if (!step.has_kernel() || !next.has_kernel() || !next.waits().empty() ||
        !isExpressionKernel(next.kernel().name()) || order.sectionOf(s).begin != order.sectionOf(s + 1).begin ||
        step.kernel().outputs_size() != 1 || next.kernel().outputs_size() != 1)
      continue;
    const uint32_t between = step.kernel().outputs(0);
    const auto input = std::ranges::find(next.kernel().inputs(), between);
    if (input == next.kernel().inputs().end() || uses.kept(between) || uses.reads(between) != 1 ||
        uses.writes(between) != 1)
      continue;
    KernelCall first, loop;
    TESSERA_RETURN_IF_ERROR(resolveCall(plan(), step, buffers(), options, first));
    TESSERA_RETURN_IF_ERROR(resolveCall(plan(), next, buffers(), options, loop));
    const size_t place = size_t(input - next.kernel().inputs().begin());
    // What is still to be read must not be written over.
    bool intact = true;
    uint64_t bytes = loop.outputs[0].bytes();
    for (const TensorView &operand : first.inputs) {
      intact = intact && !overlap(operand, loop.outputs[0]);
      bytes += operand.bytes();
    }
    for (size_t i = 0; i < loop.inputs.size(); ++i)
      if (i != place) {
        intact = intact && !overlap(loop.inputs[i], loop.outputs[0]);
        bytes += loop.inputs[i].bytes();
      }
    if (!intact)
      continue;
    BindResult both = bindPair(first, loop, place);
    if (!both)
      return both.status().context("step '" + step.name() + "'");
    if (!*both)
      continue;
    kernels_[number][s].push_back(std::move(*both));
    pairs_[number][s++] = bytes;
  }
  return Status();
}

Status HostPlan::bind(const LoadOptions &options, const Binder &bind, const PairBinder &bindPair) {
  size_t scratch = 0;
  const BufferUses uses(plan());
  markConstants(uses);
  for (const plan::Program &program : plan().programs()) {
    auto &kernels = kernels_.emplace_back(size_t(program.steps_size()));
    TESSERA_RETURN_IF_ERROR(bindPairs(uint32_t(kernels_.size() - 1), options, bindPair, uses));
    const std::vector<uint64_t> &pairs = pairs_.back();
    const TimeOrder order(program);
    std::vector<uint64_t> indices(order.sections().size(), 0);
    for (const SectionCall &call : order.calls())
      indices[call.section] = std::max(indices[call.section], uint64_t(call.index) + 1);
    for (size_t s = 0; s < kernels.size(); ++s) {
      const plan::Step &step = program.steps(int(s));
      if (!step.has_kernel() || pairs[s] || (s > 0 && pairs[s - 1]))
        continue;
      const std::string where = "step '" + step.name() + "'";
      KernelCall first;
      TESSERA_RETURN_IF_ERROR(resolveCall(plan(), step, buffers(), options, first).context(where));
      first.index = &index_;
      const auto section = size_t(&order.sectionOf(uint32_t(s)) - order.sections().data());
      const uint64_t variants = frames().empty() ? 1 : variantsOf(step.kernel(), indices[section]);
      if (variants > kMostVariants)
        return Status::error(where + ": its operands lie in " + std::to_string(variants) +
                             " combinations of places, more than " + std::to_string(kMostVariants));
      for (uint32_t v = 0; v < variants; ++v) {
        KernelCall call = first;
        for (TensorView &input : call.inputs) // one copy is as good as many
          input.edition = variants > 1 ? nullptr : input.edition;
        moveCall(step.kernel(), plan(), frames(), v, call);
        BindResult bound = bind(call);
        if (!bound)
          return bound.status().context(where);
        kernels[s].push_back(std::move(*bound));
      }
    }
    for (const Variants &variants : kernels)
      for (const auto &kernel : variants) {
        scratch = std::max(scratch, kernel->scratchBytes());
        kept_ += kernel->keptBytes();
      }
  }
  Result<HostMemory> memory = HostMemory::allocate(scratch);
  if (!memory)
    return memory.status().context("kernel scratch");
  scratch_ = std::move(*memory);
  return Status();
}

Status HostPlan::uploadAt(uint32_t buffer, uint32_t index, const void *host) {
  TESSERA_RETURN_IF_ERROR(checkBuffer(buffer));
  const TensorView &v = buffers()[buffer];
  edition_ += v.edition != nullptr;
  convertLayout(addressAt(buffer, index), v.layout, host, Layout(), v.shape, bytesPerElement(v.dtype));
  return Status();
}

Status HostPlan::downloadAt(uint32_t buffer, uint32_t index, void *host) {
  TESSERA_RETURN_IF_ERROR(checkBuffer(buffer));
  const TensorView &v = buffers()[buffer];
  convertLayout(host, Layout(), addressAt(buffer, index), v.layout, v.shape, bytesPerElement(v.dtype));
  return Status();
}

Status HostPlan::launch(uint32_t program, uint32_t number, uint32_t index) {
  TESSERA_RETURN_IF_ERROR(checkStep(program, number));
  const Variants &kernels = kernels_[program][number];
  if (kernels.empty())
    return Status(); // the executor's, or ran with the step before it
  index_ = index;
  Status status = kernels[index % kernels.size()]->run(scratch_.data());
  return status.ok() ? status : status.context(stepText(program, number));
}

std::string HostPlan::implementation(uint32_t program, uint32_t number) const {
  if (kernels_[program][number].empty())
    return "with the step before it";
  return kernels_[program][number][0]->describe();
}

std::optional<AsRun> HostPlan::asRun(uint32_t program, uint32_t number) const {
  const std::vector<uint64_t> &pairs = pairs_[program];
  const uint32_t place = pairs[number] || number == 0 ? number : number - 1;
  if (!pairs[place])
    return std::nullopt;
  return AsRun{place, describe(program, place), pairs[place]};
}

bool HostPlan::watch(uint32_t program, uint32_t buffer, const std::shared_ptr<std::atomic<bool>> &found) {
  if (program >= kernels_.size() || buffer >= buffers().size())
    return false;
  auto viewed = [&](uint32_t b) {
    const uint32_t of = plan().buffers(int(b)).alias_of_plus_one();
    return of ? of - 1 : b;
  };
  for (size_t s = kernels_[program].size(); s-- > 0;) {
    const plan::Step &last = step(program, uint32_t(s));
    if ((last.has_collective() && viewed(last.collective().output()) == viewed(buffer)) ||
        (last.has_receive() && viewed(last.receive().output()) == viewed(buffer)))
      return false;
    for (int o = 0; o < last.kernel().outputs_size(); ++o)
      if (viewed(last.kernel().outputs(o)) == viewed(buffer))
        return !kernels_[program][s].empty() &&
               std::ranges::all_of(kernels_[program][s], [&](auto &kernel) { return kernel->watch(size_t(o), found); });
  }
  return false;
}

} // namespace tessera::rt
