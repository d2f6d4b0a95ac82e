#include "runtime/backend/cuda/join/Batches.h"

#include "runtime/backend/cuda/bind/LoopTable.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <map>

namespace tessera::rt::cuda {
namespace {

class BatchSearch {
public:
  BatchSearch(JoinedProgram &joins, const plan::Program &program, const std::vector<KernelCall> &calls,
              const BufferUses &uses, const BindOptions &options, BatchOf which,
              const std::function<bool(const JoinedKernel &, size_t place)> &take)
      : joins_(joins), program_(program), calls_(calls), uses_(uses), options_(options), which_(which), take_(take) {
    for (int s = 0; s < program.steps_size(); ++s) {
      const plan::Step &step = program.steps(s);
      if (!step.has_kernel() || which == BatchOf::LastWrites)
        for (uint32_t in : readsOf(step))
          lastRead_[uses.root(in)] = size_t(s);
    }
  }

  void search() {
    const TimeOrder order(program_);
    for (const Section &section : order.sections()) {
      for (size_t s = section.begin; s < section.end; ++s) {
        const StepAccess &access = joins_.accesses()[s];
        // All that wait can wait until the first of them cannot, so they run together before it.
        for (auto group = waiting_.begin(); group != waiting_.end();)
          group = std::any_of(group->second.begin(), group->second.end(),
                              [&](const Waiting &w) { return conflict(access, joins_.accesses()[w.step]); })
                      ? run(group)
                      : std::next(group);
        if (std::optional<Launch> launch = loopOf(s))
          waiting_[keyOf(*launch->loop)].push_back({s, std::move(*launch)});
      }
      for (auto group = waiting_.begin(); group != waiting_.end();)
        group = run(group);
    }
  }

private:
  struct Waiting {
    size_t step;
    Launch launch;
  };
  using Groups = std::map<std::string, std::vector<Waiting>>; // by code

  static std::string keyOf(const PointLoop &loop) {
    std::string key = loop.index.name() + (loop.apart ? " apart " : " ") + std::to_string(loop.each) + "\n";
    for (const PointLoop::Parameter &p : loop.parameters)
      key += p.type + " " + p.name + (p.together ? " together " + p.firstPlace + "\n" : "\n");
    return key + loop.body;
  }

  /// The only launch of a step that may wait.
  std::optional<Launch> loopOf(size_t s) const {
    if (!calls_[s].kernel || joins_.taken(s))
      return std::nullopt;
    for (uint32_t out : program_.steps(int(s)).kernel().outputs())
      if (const auto last = lastRead_.find(uses_.root(out)); last != lastRead_.end() && last->second > s)
        return std::nullopt;
    const Result<std::vector<CudaKernel>> choices = bindCuda(calls_[s], options_);
    if (!choices || choices->empty() || choices->front().actions.size() != 1)
      return std::nullopt;
    const auto *launch = std::get_if<Launch>(&choices->front().actions.front());
    return launch && fitsTable(*launch) ? std::optional(*launch) : std::nullopt;
  }

  Groups::iterator run(Groups::iterator group) {
    JoinedKernel batch;
    std::vector<const Launch *> launches;
    for (const Waiting &w : group->second) {
      batch.set.steps.push_back(w.step);
      batch.set.accesses.push_back(joins_.accesses()[w.step]);
      launches.push_back(&w.launch);
    }
    if (launches.size() > 1)
      if (const std::optional<size_t> place = joins_.place(batch.set)) {
        batch.kernel.description = "generated loops of " + std::to_string(launches.size()) + " steps";
        batch.kernel.actions.emplace_back(inOneTable(launches));
        if (take_(batch, *place))
          joins_.join(batch.set, *place);
      }
    return waiting_.erase(group);
  }

  JoinedProgram &joins_;
  const plan::Program &program_;
  const std::vector<KernelCall> &calls_;
  const BufferUses &uses_;
  const BindOptions &options_;
  const BatchOf which_;
  const std::function<bool(const JoinedKernel &, size_t place)> &take_;
  std::map<uint32_t, size_t> lastRead_; // of a buffer: the last step that must not wait for a batch
  Groups waiting_;
};

} // namespace

void joinBatches(JoinedProgram &joins, const plan::Program &program, const std::vector<KernelCall> &calls,
                 const BufferUses &uses, const BindOptions &options, BatchOf which,
                 const std::function<bool(const JoinedKernel &, size_t place)> &take) {
  BatchSearch(joins, program, calls, uses, options, which, take).search();
}

} // namespace tessera::rt::cuda
