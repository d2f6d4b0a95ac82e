#include "runtime/session/Replica.h"
#include "runtime/comm/threads/ThreadWorld.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/tensor/ConvertElements.h"

namespace tessera::rt {

std::vector<double> asDoubles(const std::vector<char> &bytes, plan::DType type) {
  std::vector<double> values(bytes.size() / bytesPerElement(type));
  convertElements(bytes.data(), type, values.data(), plan::F64, values.size());
  return values;
}

Result<std::unique_ptr<Replica>> Replica::create(const PlanDirectory &plan, std::string_view backend,
                                                 const LoadOptions &options) {
  if (!plan.sequential)
    return Status::error(plan.path +
                         ": has no sequential program to verify with: in mode hybrid the model file is only what "
                         "one rank computes");
  std::unique_ptr<Replica> replica(new Replica(createThreadWorlds(1)));
  Result<std::unique_ptr<Backend>> created = createBackend(backend);
  if (!created)
    return created.status();
  replica->backend_ = std::move(*created);
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(*plan.sequential, *replica->backend_, *replica->worlds_[0], options);
  if (!executor)
    return executor.status().context("sequential.plan");
  replica->executor_ = std::move(*executor);
  return replica;
}

Status Replica::open(const std::string &program, const std::string &data, const DataOptions &options,
                     int64_t firstStep) {
  program_ = program;
  if (findProgram(executor_->plan(), program) < 0)
    return Status::error("sequential.plan has no program " + quoted(program));
  const BoundTensors tensors(std::span(&executor_->plan(), 1));
  Result<Feed> feed = Feed::open(*executor_, tensors, program, data, options);
  if (!feed)
    return feed.status().context("sequential.plan");
  feed_.emplace(std::move(*feed));
  return feed_->source().seek(firstStep);
}

Status Replica::next() { return feed_->next().context("sequential.plan"); }

Status Replica::step(int64_t step) {
  TESSERA_RETURN_IF_ERROR(feed_->again());
  TESSERA_RETURN_IF_ERROR(executor_->feedStep(program_, step));
  return executor_->run(findProgram(executor_->plan(), program_)).context("sequential.plan");
}

int Replica::find(plan::Role role, const std::string &name) const {
  bool held = role == plan::PARAMETER || role == plan::STATE;
  for (int binding : executor_->bindings(role, held ? "" : program_))
    if (executor_->plan().bindings(binding).name() == name)
      return binding;
  return -1;
}

Status Replica::fetch(int binding, std::vector<double> &values) {
  std::vector<char> bytes;
  TESSERA_RETURN_IF_ERROR(executor_->fetch(binding, bytes));
  values = asDoubles(bytes, executor_->heldType(binding));
  return Status();
}

Status Replica::set(int binding, const std::vector<double> &values) {
  return executor_->set(binding, values.data(), plan::F64);
}

} // namespace tessera::rt
