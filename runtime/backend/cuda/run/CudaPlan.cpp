// Loading: everything that can fail for a reason in the plan, the device or the libraries fails here.
#include "runtime/backend/cuda/run/CudaPlan.h"

#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cuda/CudaBackend.h"
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/layout/OwnPlaces.h"
#include "runtime/backend/cuda/run/KernelCache.h"
#include "runtime/backend/cuda/run/KernelNames.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

namespace tessera::rt::cuda {
namespace {

constexpr size_t kStaging = size_t(32) << 20;

} // namespace

template <typename F> void CudaPlan::forEachKernel(F &&f) {
  for (std::vector<Kernel> &kernels : kernels_)
    for (Kernel &kernel : kernels)
      f(kernel);
  for (std::map<size_t, Kernel> &joined : joined_)
    for (auto &[step, kernel] : joined)
      f(kernel);
}

CudaPlan::~CudaPlan() {
  const TesseraDeviceApi &api = device_->api();
  TesseraDevice *d = device_->handle();
  forgetGraphs(); // no work may use what is freed now
  for (ProgramState &state : programs_) {
    for (const auto *kind : {&state.events, &state.timers})
      for (const std::vector<TesseraEvent *> &events : *kind)
        for (TesseraEvent *event : events)
          api.destroyEvent(d, event);
  }
  forEachKernel([&](Kernel &kernel) {
    for (Bound &bound : kernel.actions)
      if (bound.op)
        api.destroyOp(d, bound.op);
  });
  for (TesseraCode *code : codes_)
    api.unloadCode(d, code);
}

Result<std::unique_ptr<LoadedPlan>> CudaPlan::load(std::shared_ptr<Device> device, const plan::Plan &plan,
                                                   const LoadOptions &options) {
  TESSERA_RETURN_IF_ERROR(checkArena(plan));
  // Calls are checked once before memory is allocated, and then resolved to addresses.
  Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(plan, options);
  if (!calls)
    return calls.status();
  std::unique_ptr<CudaPlan> loaded(new CudaPlan(std::move(device), plan));
  loaded->graphs_ = options.device.graphs;
  const std::optional<PaddedRows> layouts = layoutsFor(plan, *calls, options);
  TESSERA_RETURN_IF_ERROR(loaded->allocate(options, layouts ? &*layouts : nullptr));
  TESSERA_RETURN_IF_ERROR(loaded->bind(options));
  TESSERA_RETURN_IF_ERROR(loaded->compile(options));
  TESSERA_RETURN_IF_ERROR(loaded->writeConstants());
  return std::unique_ptr<LoadedPlan>(std::move(loaded));
}

Status CudaPlan::allocate(const LoadOptions &options, const PaddedRows *layouts) {
  const size_t behind = plan().arena_bytes() * (options.widen ? 2 : 1);
  const OwnPlaces places(plan());
  const size_t bytes = behind + (layouts ? layouts->bytes() + places.bytes() : 0);
  shared_ = options.device.sharedArena;
  Result<DeviceMemory> arena =
      DeviceMemory::allocate(device_, bytes, shared_ ? MemoryKind::Shared : MemoryKind::Device);
  if (!arena)
    return arena.status().context("arena");
  arena_ = std::move(*arena);
  Result<DeviceMemory> staging = DeviceMemory::allocate(device_, kStaging, MemoryKind::Pinned);
  if (!staging)
    return staging.status();
  staging_ = std::move(*staging);
  // The arena begins as zeros, like memory fresh from the system. So a wrong plan reads the same values in every run.
  TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) {
    return device_->api().fill(device_->handle(), TESSERA_COMPUTE_STREAM, arena_.data(), 0, bytes, m);
  }));
  TESSERA_RETURN_IF_ERROR(placeBuffers(options.widen, layouts ? layouts->layouts() : std::vector<Layout>(),
                                       reinterpret_cast<std::byte *>(arena_.data())));
  if (layouts) {
    layouts->place(placedBuffers(), arena_.data() + behind);
    places.place(placedBuffers(), arena_.data() + behind + layouts->bytes());
  }
  return Status();
}

/// Takes the first choice whose library calls can be prepared.
Result<CudaPlan::Kernel> CudaPlan::prepare(const std::vector<CudaKernel> &given) {
  std::vector<CudaKernel> choices; // a library that refuses a part may take the whole
  for (const CudaKernel &choice : given) {
    CudaKernel &inParts = choices.emplace_back(choice);
    inParts.actions = inAlignedParts(choice.actions);
    if (inParts.actions.size() != choice.actions.size())
      choices.push_back(choice);
  }
  const TesseraDeviceApi &api = device_->api();
  Status refusal = Status::error("the cuda backend has no kernel for it; use --device cpu");
  for (const CudaKernel &choice : choices) {
    if (plan().leaves() > 0 && std::ranges::any_of(choice.actions, isLibraryCall)) {
      refusal =
          Status::error("the plan is reproducible (--reproducible), and the backend cuda has only a library's kernel "
                        "for it, which may choose how to add by the shapes of a rank; run it on the backend cpu");
      continue;
    }
    Kernel kernel;
    kernel.description = choice.description;
    kernel.workspace = choice.scratch;
    uint64_t workspace = 0;
    TesseraMessage message;
    message.text[0] = '\0';
    int32_t code = TESSERA_OK;
    for (const Action &action : choice.actions) {
      Bound bound;
      bound.action = action;
      size_t bytes = 0;
      if (const auto *matmul = std::get_if<LibraryMatMul>(&action))
        code = api.createMatMul(device_->handle(), &matmul->what, &bound.op, &bytes, &message);
      else if (const auto *conv = std::get_if<LibraryConv>(&action))
        code = api.createConv(device_->handle(), &conv->what, &bound.op, &bytes, &message);
      else if (const auto *attention = std::get_if<LibraryAttention>(&action))
        code = api.createAttention(device_->handle(), &attention->what, &bound.op, &bytes, &message);
      if (code != TESSERA_OK)
        break;
      workspace = std::max<uint64_t>(workspace, bytes);
      kernel.actions.push_back(std::move(bound));
    }
    if (code == TESSERA_OK) {
      scratchNeeded_ = std::max(scratchNeeded_, kernel.workspace + workspace);
      return kernel;
    }
    for (Bound &bound : kernel.actions)
      if (bound.op)
        api.destroyOp(device_->handle(), bound.op);
    refusal = Status::error(message.text);
    if (code != TESSERA_UNSUPPORTED)
      return refusal;
  }
  return refusal;
}

void CudaPlan::joinProgram(uint32_t program, const std::vector<KernelCall> &calls, const BufferUses &uses,
                           const BindOptions &options, Joins which) {
  const plan::Program &steps = plan().programs(int(program));
  const std::vector<ByteRange> ranges = byteRanges(buffers(), arena_.data());
  JoinedProgram &joins = joins_.emplace_back(steps, ranges);
  std::map<size_t, Kernel> &joined = joined_.emplace_back();
  joinSteps(joins, steps, calls, ranges, uses, options, which, [&](const FoundKernel &found) {
    Result<Kernel> kernel = prepare({found.kernel.kernel});
    if (!kernel)
      return false;
    const char *what = found.kind == FoundKernel::Kind::Rows      ? "rows_"
                       : found.kind == FoundKernel::Kind::Product ? "with_epilogue_"
                       : found.kind == FoundKernel::Kind::Loop    ? ""
                       : found.kind == FoundKernel::Kind::Sums    ? "sums_"
                                                                  : "batch_";
    kernel->label = what + kernelLabel(calls[found.first]);
    joined[found.place] = std::move(*kernel);
    return true;
  });
}

Status CudaPlan::bind(const LoadOptions &options) {
  BindOptions choice;
  choice.tf32 = options.device.tf32;
  choice.keepNan = options.device.keepNan;
  choice.tiledAttention = options.device.tiledAttention;
  const BufferUses uses(plan());
  for (int p = 0; p < plan().programs_size(); ++p) {
    const plan::Program &program = plan().programs(p);
    auto &kernels = kernels_.emplace_back(size_t(program.steps_size()));
    std::vector<KernelCall> calls(kernels.size());
    for (size_t s = 0; s < calls.size(); ++s) {
      const plan::Step &step = program.steps(int(s));
      if (!step.has_kernel())
        continue;
      const std::string where = "step '" + step.name() + "'";
      TESSERA_RETURN_IF_ERROR(resolveCall(plan(), step, buffers(), options, calls[s]).context(where));
      Result<std::vector<CudaKernel>> choices = bindCuda(calls[s], choice);
      if (!choices)
        return choices.status().context(where);
      Result<Kernel> kernel = prepare(*choices);
      if (!kernel)
        return kernel.status().context(where);
      kernels[s] = std::move(*kernel);
      kernels[s].label = kernelLabel(calls[s]);
    }
    joinProgram(uint32_t(p), calls, uses, choice, joinsFor(plan(), options));
  }
  Result<DeviceMemory> scratch = DeviceMemory::allocate(device_, scratchNeeded_);
  if (!scratch)
    return scratch.status().context("kernel scratch");
  scratch_ = std::move(*scratch);
  programs_.resize(kernels_.size());
  TESSERA_RETURN_IF_ERROR(placeScalars());
  return placeTables();
}

/// Finds the single numbers that programs tell whoever runs them.
Status CudaPlan::placeScalars() {
  constexpr size_t kApart = 64;
  for (const plan::Binding &binding : plan().bindings()) {
    const bool told = binding.role() == plan::LOSS || binding.role() == plan::CORRECT ||
                      binding.role() == plan::PREDICTIONS || binding.role() == plan::LEARNING_RATE ||
                      binding.role() == plan::GRADIENT_NORM;
    for (int p = 0; told && p < plan().programs_size(); ++p)
      if (plan().programs(p).name() == binding.program() && buffers()[binding.buffer()].elements() == 1)
        scalars_.push_back({uint32_t(p), binding.buffer(), kApart * scalars_.size()});
  }
  Result<DeviceMemory> told = DeviceMemory::allocate(device_, kApart * scalars_.size(), MemoryKind::Pinned);
  if (!told)
    return told.status();
  told_ = std::move(*told);
  return Status();
}

/// So many bytes further than at an address of the device calls with this index find what begins there.
uint64_t CudaPlan::shiftAt(uint64_t address, uint32_t index) const {
  const auto begin = reinterpret_cast<uint64_t>(arena_.data());
  return address < begin || address >= begin + arena_.size() ? 0 : shiftOf(address - begin, index);
}

/// In how many combinations of places the operands of a launch with a table lie, in calls with indices below this one.
uint64_t CudaPlan::variantsOf(const Launch &launch, uint64_t indices) const {
  const auto begin = reinterpret_cast<uint64_t>(arena_.data());
  uint64_t places = 1;
  for (uint32_t word : launch.addresses)
    if (const uint64_t address = launch.table[word];
        places < indices && address >= begin && address < begin + arena_.size())
      places = std::lcm(places, uint64_t(slotsOf(address - begin)));
  return std::min(places, indices);
}

/// Writes the tables of all launches, which say addresses in the arena and so do not change, into memory of their own,
/// and zeros for their counters. A launch whose operands lie in frames has a table for each combination of places.
Status CudaPlan::placeTables() {
  uint64_t indices = 1; // of all calls
  for (const plan::Program &program : plan().programs())
    for (const plan::Call &call : program.calls())
      indices = std::max(indices, uint64_t(call.index()) + 1);
  std::vector<uint64_t> all;
  std::vector<std::pair<Launch *, size_t>> launches; // where the table begins
  forEachKernel([&](Kernel &kernel) {
    for (Bound &bound : kernel.actions)
      if (auto *launch = std::get_if<Launch>(&bound.action);
          launch && (!launch->table.empty() || launch->counters > 0)) {
        launches.emplace_back(launch, all.size());
        for (uint32_t index = 0; index < variantsOf(*launch, indices); ++index) {
          const size_t begin = all.size();
          all.insert(all.end(), launch->table.begin(), launch->table.end());
          for (uint32_t word : launch->addresses)
            all[begin + word] += shiftAt(launch->table[word], index);
        }
        all.insert(all.end(), launch->table.empty() ? (launch->counters + 1) / 2 : 0, 0);
      }
  });
  const size_t bytes = all.size() * sizeof(uint64_t);
  Result<DeviceMemory> tables = DeviceMemory::allocate(device_, bytes);
  if (!tables)
    return tables.status().context("tables of kernels");
  tables_ = std::move(*tables);
  for (const auto &[launch, begin] : launches) {
    Place &place = launch->arguments.emplace_back(at(tables_.data() + begin * sizeof(uint64_t)));
    place.perIndex = launch->table.size() * sizeof(uint64_t);
    place.period = uint32_t(variantsOf(*launch, indices));
  }
  return copyIn(tables_.data(), reinterpret_cast<const char *>(all.data()), bytes);
}

/// All distinct sources are compiled at once; many steps share one.
Status CudaPlan::compile(const LoadOptions &options) {
  std::map<std::string_view, size_t> index;
  std::vector<NamedKernel> named; // where several steps share a source, the first gives it its name
  forEachKernel([&](Kernel &kernel) {
    for (Bound &bound : kernel.actions)
      if (const auto *launch = std::get_if<Launch>(&bound.action)) {
        auto [entry, added] = index.try_emplace(launch->source, named.size());
        if (added)
          named.push_back(nameKernel(launch->source, kernel.label));
        bound.code = entry->second;
      }
  });
  std::vector<const std::string *> sources;
  for (const NamedKernel &kernel : named)
    sources.push_back(&kernel.source);
  Result<std::vector<std::string>> images =
      compileKernels(device_->api(), device_->capability(), sources, options.threads, plan().leaves() > 0);
  if (!images)
    return images.status();
  for (size_t i = 0; i < images->size(); ++i) {
    const std::string &image = (*images)[i];
    TesseraCode *code = nullptr;
    TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) {
      return device_->api().loadCode(device_->handle(), image.data(), image.size(), named[i].name.c_str(), &code, m);
    }));
    codes_.push_back(code);
  }
  // The sources are not needed any more.
  forEachKernel([](Kernel &kernel) {
    for (Bound &bound : kernel.actions)
      if (auto *launch = std::get_if<Launch>(&bound.action))
        std::string().swap(launch->source), launch->loop.reset(), launch->end.reset();
  });
  return Status();
}

} // namespace tessera::rt::cuda

namespace tessera::rt {
namespace {

class CudaBackend final : public Backend {
public:
  explicit CudaBackend(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::string_view name() const override { return "cuda"; }
  Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) override {
    return cuda::CudaPlan::load(device_, plan, options);
  }

private:
  std::shared_ptr<Device> device_;
};

} // namespace

std::unique_ptr<Backend> createCudaBackend(std::shared_ptr<Device> device) {
  return std::make_unique<CudaBackend>(std::move(device));
}

} // namespace tessera::rt
