#include "runtime/session/Numerics.h"

#include "runtime/backend/Parallel.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tessera::rt {
namespace {

const char *textOf(const NonFinite &found) { return found.nan ? "a NaN" : "an infinity"; }

} // namespace

Numerics::Numerics(Executor &executor, std::string program, int threads)
    : executor_(executor), program_(std::move(program)), threads_(threads), frames_(executor.plan()) {
  const Capabilities &can = executor.capabilities();
  std::vector<uint32_t> buffers;
  for (plan::Role role : {plan::PARAMETER, plan::STATE})
    for (int binding : executor.bindings(role, "")) {
      const uint32_t buffer = executor.plan().bindings(binding).buffer();
      const auto count = size_t(elementsOf(toVector(executor.plan().buffers(int(buffer)).shape())).value_or(0));
      const int number = findProgram(executor.plan(), program_);
      const bool watched = can.finite && can.finite->watch(uint32_t(number), buffer, found_);
      held_.push_back({buffer, executor.loaded().dtype(buffer), count, watched, {}});
      buffers.push_back(buffer);
    }
  if (can.snapshots)
    snapshot_ = can.snapshots->snapshot(buffers);
}

size_t Numerics::bytesOf(const Held &held) const { return held.count * bytesPerElement(held.type); }

/// Copies with all of the rank's threads.
static void copyBytes(void *to, const void *from, size_t bytes, int threads) {
  constexpr size_t kPage = 4096;
  const auto pages = int64_t((bytes + kPage - 1) / kPage);
  parallelFor(bytes < (size_t(1) << 18) ? 1 : threads, pages, [&](int64_t begin, int64_t end) {
    const size_t first = size_t(begin) * kPage, last = std::min(bytes, size_t(end) * kPage);
    std::memcpy(static_cast<char *>(to) + first, static_cast<const char *>(from) + first, last - first);
  });
}

Status Numerics::keep() {
  if (snapshot_)
    return snapshot_->take();
  for (Held &held : held_) {
    held.copy.resize(bytesOf(held));
    if (executor_.capabilities().onHost) // in the layout that it has in memory
      copyBytes(held.copy.data(), executor_.loaded().address(held.buffer), held.copy.size(), threads_);
    else
      TESSERA_RETURN_IF_ERROR(executor_.loaded().download(held.buffer, held.copy.data()));
  }
  return Status();
}

Status Numerics::restore() {
  *found_ = false;
  if (snapshot_)
    return snapshot_->putBack();
  for (Held &held : held_)
    if (executor_.capabilities().onHost)
      copyBytes(executor_.loaded().address(held.buffer), held.copy.data(), held.copy.size(), threads_);
    else
      TESSERA_RETURN_IF_ERROR(executor_.loaded().upload(held.buffer, held.copy.data()));
  return Status();
}

Result<NonFinite> Numerics::look(uint32_t buffer, uint32_t index) {
  const plan::DType type = executor_.loaded().dtype(buffer);
  const auto count = size_t(elementsOf(toVector(executor_.plan().buffers(int(buffer)).shape())).value_or(0));
  if (!isFloatType(type))
    return NonFinite();
  const void *data = executor_.loaded().addressAt(buffer, index);
  if (!executor_.capabilities().onHost) {
    fetched_.resize(count * bytesPerElement(type));
    TESSERA_RETURN_IF_ERROR(executor_.loaded().downloadAt(buffer, index, fetched_.data()));
    data = fetched_.data();
  }
  return nonFinite(data, type, count, threads_);
}

Result<bool> Numerics::bad(double loss) {
  if (found_->exchange(false) || !std::isfinite(loss))
    return true;
  for (const Held &held : held_) {
    if (held.watched)
      continue;
    Result<NonFinite> found = look(held.buffer);
    if (!found)
      return found.status();
    if (*found)
      return true;
  }
  return false;
}

NonFinite &Numerics::at(uint32_t buffer, uint32_t index) {
  const uint32_t alias = executor_.plan().buffers(int(buffer)).alias_of_plus_one();
  return seen_[{alias ? alias - 1 : buffer, index % frames_.slots(executor_.plan().buffers(int(buffer)).offset())}];
}

void Numerics::found(int64_t place, std::string what) {
  if (place_ >= 0)
    return;
  place_ = place;
  what_ = std::move(what) + " on rank " + std::to_string(executor_.plan().rank());
}

/// Looks at parameters and states (place 0) and at the batch (place 1) before the step.
Status Numerics::lookAtInputs() {
  seen_.clear();
  place_ = -1;
  what_.clear();
  for (int b = 0; b < executor_.plan().buffers_size(); ++b)
    if (!executor_.plan().buffers(b).constant().empty()) {
      Result<NonFinite> constant = look(uint32_t(b));
      if (!constant)
        return constant.status();
      at(uint32_t(b)) = *constant;
    }
  const plan::Role roles[] = {plan::PARAMETER, plan::STATE, plan::INPUT, plan::TARGET};
  for (plan::Role role : roles)
    for (int binding : executor_.bindings(role, program_)) {
      const plan::Binding &bound = executor_.plan().bindings(binding);
      Result<NonFinite> before = look(bound.buffer());
      if (!before)
        return before.status();
      at(bound.buffer()) = *before;
      const bool fed = role == plan::INPUT || role == plan::TARGET;
      if (*before)
        found(fed, "the " + std::string(fed ? "batch's " : "") + roleName(role) + " " + quoted(bound.name()) + " has " +
                       textOf(*before) + " before the step");
    }
  return Status();
}

Status Numerics::lookAt(const StepDone &done) {
  const plan::Step &step = executor_.plan().programs(done.program).steps(done.step);
  const std::string call = executor_.order(done.program).callText({uint32_t(done.step), done.index});
  NonFinite before, after;
  before.infinity = step.makes_infinity();
  auto add = [](NonFinite &sum, const NonFinite &more) {
    sum.nan |= more.nan;
    sum.infinity |= more.infinity;
  };
  std::vector<uint32_t> inputs, outputs;
  if (step.has_collective()) {
    inputs = {step.collective().input()};
    outputs = {step.collective().output()};
  } else if (step.has_send()) {
    return Status();
  } else if (step.has_receive()) { // what it brings was made elsewhere
    Result<NonFinite> result = look(step.receive().output(), done.index);
    if (!result)
      return result.status();
    at(step.receive().output(), done.index) = *result;
    return Status();
  } else {
    inputs.assign(step.kernel().inputs().begin(), step.kernel().inputs().end());
    outputs.assign(step.kernel().outputs().begin(), step.kernel().outputs().end());
  }
  for (uint32_t input : inputs) // as noted earlier: the step may have overwritten the buffer
    add(before, at(input, done.index));
  std::vector<NonFinite> results;
  for (uint32_t output : outputs) {
    Result<NonFinite> result = look(output, done.index);
    if (!result)
      return result.status();
    results.push_back(*result);
    add(after, *result);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    at(outputs[i], done.index) = results[i];
  // A number that is not finite and comes from another rank arrives by a collective, whose place is
  // later.
  if ((after.nan && !before.nan) || (after.infinity && !before.infinity && !before.nan))
    found(2 + done.place,
          (step.has_collective() ? "the " + collectiveName(step.collective().kind()) + " " + quoted(step.name())
                                 : "the operator " + quoted(step.name()) + " (" + step.kernel().name() + ")") +
              " makes " + textOf(after) + " of " + (before.infinity ? "infinite" : "finite") + " operands" +
              (call.empty() ? "" : " in " + call));
  return Status();
}

Result<std::string> Numerics::explain() {
  const plan::Plan &plan = executor_.plan();
  const int number = findProgram(plan, program_);
  TESSERA_RETURN_IF_ERROR(lookAtInputs());
  executor_.observe([this](const StepDone &done) { return lookAt(done); });
  Status status = executor_.run(number);
  executor_.observe(nullptr);
  TESSERA_RETURN_IF_ERROR(status);
  TESSERA_RETURN_IF_ERROR(restore());
  // The earliest place on any rank counts; if several ranks have it, the first rank.
  Communicator &everyone = executor_.everyone();
  const int64_t ranks = everyone.size(), none = INT64_MAX;
  int64_t first = place_ < 0 ? none : place_ * ranks + everyone.rank();
  TESSERA_RETURN_IF_ERROR(everyone.allReduce(&first, &first, 1, plan::I64, plan::MIN));
  if (first == none)
    return std::string("when the step is run again, all its numbers are finite");
  int32_t text[128] = {};
  what_.copy(reinterpret_cast<char *>(text), sizeof text - 1);
  TESSERA_RETURN_IF_ERROR(everyone.broadcast(text, text, std::size(text), plan::I32, int(first % ranks)));
  return std::string(reinterpret_cast<const char *>(text));
}

} // namespace tessera::rt
