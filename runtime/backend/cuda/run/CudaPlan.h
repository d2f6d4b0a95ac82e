//===- CudaPlan.h - one rank's plan, loaded on a device ---------------------------------------------===//
//
// See CudaBackend.h. Loading: bind every kernel (CudaKernel.h), prepare library calls (a refusal takes the next
// choice), compile all sources at once, allocate arena and scratch, write the constants.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_RUN_CUDAPLAN_H
#define TESSERA_RUNTIME_BACKEND_CUDA_RUN_CUDAPLAN_H

#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/join/JoinSteps.h"
#include "runtime/backend/cuda/join/StreamSchedule.h"
#include "runtime/backend/cuda/layout/PaddedRows.h"
#include "runtime/backend/cuda/run/FiniteCheck.h"
#include "runtime/device/Device.h"

#include <map>

namespace tessera::rt::cuda {

class CudaPlan final : public ResolvedPlan,
                       private ProgramRunner,
                       private InputPaths,
                       private Snapshots,
                       private FiniteWatch,
                       private WaitTimers {
public:
  static Result<std::unique_ptr<LoadedPlan>> load(std::shared_ptr<Device> device, const plan::Plan &plan,
                                                  const LoadOptions &options);
  ~CudaPlan() override;

  size_t arenaBytes() const override { return arena_.size(); }
  size_t scratchBytes() const override { return scratch_.size() + tables_.size() + inputBytes_ + snapshotBytes_; }
  Status upload(uint32_t buffer, const void *host) override { return uploadAt(buffer, 0, host); }
  Status download(uint32_t buffer, void *host) override { return downloadAt(buffer, 0, host); }
  Status uploadAt(uint32_t buffer, uint32_t index, const void *host) override;
  Status downloadAt(uint32_t buffer, uint32_t index, void *host) override;
  Status launch(uint32_t program, uint32_t step, uint32_t index) override;
  Status synchronize() override;
  Capabilities capabilities() override;

private:
  /// An action with everything resolved.
  struct Bound {
    Action action;
    size_t code = 0;         // of a Launch: index in codes_
    TesseraOp *op = nullptr; // of a library call
  };
  struct Kernel {
    std::string description, label; // label: of its generated kernels, for profilers
    std::vector<Bound> actions;
    uint64_t workspace = 0; // where the library's workspace begins in the scratch
  };
  struct ProgramState {
    std::vector<Segment> segments;
    std::vector<std::vector<TesseraEvent *>> events; // by segment
    std::vector<TesseraGraph *> graphs;              // by segment; null: not recorded
    // These graphs have a timer before and after each wait of the compute stream. A timer takes a few microseconds on
    // the device, so only some runs use these graphs.
    std::vector<std::vector<TesseraEvent *>> timers; // by segment, in pairs
    std::vector<TesseraGraph *> timedGraphs;
    bool measures = false, measured = false; // measures: runs should be measured; measured: the last one was
    bool scheduled = false, onHost = false;
    bool recorded = false, timedRecorded = false; // by all ranks, or by none: it was tried
    int64_t runs = 0;
  };

  CudaPlan(std::shared_ptr<Device> device, const plan::Plan &plan)
      : ResolvedPlan(plan, "cuda"), device_(std::move(device)) {}

  Status runProgram(uint32_t program, const CollectiveRunner &collectives) override;
  Status runPlace(uint32_t program, StepInTime at) override;
  std::optional<AsRun> asRun(uint32_t program, uint32_t step) const override;
  void forgetGraphs() override;
  std::string notice() const override { return notice_; }
  Result<std::unique_ptr<InputPath>> inputPath(const std::vector<uint32_t> &buffers) override;
  std::unique_ptr<Snapshot> snapshot(const std::vector<uint32_t> &buffers) override;
  bool watch(uint32_t program, uint32_t buffer, const std::shared_ptr<std::atomic<bool>> &found) override;
  Status endProgram(uint32_t program) override;
  void measureWaits(uint32_t program) override;
  Result<std::optional<double>> waited(uint32_t program) override;
  std::string implementation(uint32_t program, uint32_t step) const override;

  Status allocate(const LoadOptions &options, const PaddedRows *layouts);
  Status bind(const LoadOptions &options);
  void joinProgram(uint32_t program, const std::vector<KernelCall> &calls, const BufferUses &uses,
                   const BindOptions &options, Joins which);
  Result<Kernel> prepare(const std::vector<CudaKernel> &choices);
  Status compile(const LoadOptions &options);
  Status placeTables();
  uint64_t variantsOf(const Launch &launch, uint64_t indices) const;
  uint64_t shiftAt(uint64_t address, uint32_t index) const;
  Status copyIn(char *to, const char *from, size_t bytes);
  Status placeScalars();
  Status tell(uint32_t program);
  Status ended(uint32_t program);
  void *resolve(const Place &place, uint32_t index) const;
  template <typename F> void forEachKernel(F &&f);
  Status run(const Bound &bound, const Kernel &kernel, uint32_t index);
  Status run(const Kernel &kernel, uint32_t program, StepInTime at);
  Status schedule(ProgramState &state, uint32_t program, bool onHost);
  Status enqueue(ProgramState &state, size_t segment, uint32_t program, const CollectiveRunner &collectives,
                 bool timed);
  Status record(ProgramState &state, size_t segment, uint32_t program, const CollectiveRunner &collectives, bool timed);
  Status recordAll(ProgramState &state, uint32_t program, const CollectiveRunner &collectives, bool timed);
  void forget(std::vector<TesseraGraph *> &graphs);
  template <typename F> Status call(F &&f) { return Device::check(std::forward<F>(f)); }

  std::shared_ptr<Device> device_;
  DeviceMemory arena_, scratch_, staging_, tables_; // tables_: of launches
  size_t staged_ = 0;                               // bytes of staging_ that copies may still read
  std::vector<std::vector<Kernel>> kernels_;        // by program, step; collectives have no actions
  // By program: which steps run as one in whole programs, and with which kernel, by the step in whose place it runs.
  std::vector<JoinedProgram> joins_;
  std::vector<std::map<size_t, Kernel>> joined_;
  std::vector<TesseraCode *> codes_; // of the sources
  std::vector<ProgramState> programs_;
  std::map<uint32_t, FiniteCheck> checks_; // by program
  // Numbers that programs tell are copied to pinned memory at the end of each run, as a part of the recorded graph, so
  // that whoever asks for one need not wait for the device again.
  struct Scalar {
    uint32_t program, buffer;
    size_t place;
  };
  std::vector<Scalar> scalars_;
  DeviceMemory told_;
  std::optional<uint32_t> toldBy_; // the program that has been run last, if nothing has changed memory since
  uint64_t scratchNeeded_ = 0;
  size_t inputBytes_ = 0, snapshotBytes_ = 0;
  bool graphs_ = true, shared_ = false;
  std::string notice_;
};

} // namespace tessera::rt::cuda

#endif
