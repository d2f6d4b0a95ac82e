#include "runtime/plan/TimeOrder.h"

#include <algorithm>

namespace tessera::rt {

TimeOrder::TimeOrder(const plan::Program &program) {
  uint32_t begin = 0;
  for (uint32_t end : program.section_ends()) {
    sections_.push_back({begin, end});
    begin = end;
  }
  if (sections_.empty())
    sections_.push_back({0, uint32_t(program.steps_size())});
  for (const plan::Call &call : program.calls())
    calls_.push_back({call.section(), call.index()});
  if (calls_.empty())
    for (uint32_t s = 0; s < sections_.size(); ++s)
      calls_.push_back({s, 0});
  for (const SectionCall &call : calls_)
    ++sections_[call.section].calls;
}

bool TimeOrder::repeats() const {
  return std::ranges::any_of(sections_, [](const Section &section) { return section.calls != 1; });
}

const Section &TimeOrder::sectionOf(uint32_t step) const {
  return *std::ranges::upper_bound(sections_, step, {}, &Section::end);
}

uint64_t TimeOrder::size() const {
  uint64_t steps = 0;
  for (const Section &section : sections_)
    steps += uint64_t(section.calls) * (section.end - section.begin);
  return steps;
}

std::string TimeOrder::callText(StepInTime at) const {
  const uint32_t calls = timesOf(at.step);
  return calls < 2 ? "" : "micro-batch " + std::to_string(at.index + 1) + " of " + std::to_string(calls);
}

std::string TimeOrder::text() const {
  if (!repeats())
    return std::to_string(sections_.back().end) + " steps";
  std::string text;
  for (const Section &section : sections_)
    text += (text.empty() ? "" : " + ") + std::to_string(section.end - section.begin) +
            (section.calls == 1 ? "" : " x " + std::to_string(section.calls));
  return text + " steps";
}

void TimeOrder::Iterator::enter() {
  auto section = [&] { return order_->sections_[order_->calls_[call_].section]; };
  while (call_ < order_->calls_.size() && section().begin == section().end)
    ++call_;
  step_ = call_ < order_->calls_.size() ? section().begin : 0;
}

TimeOrder::Iterator &TimeOrder::Iterator::operator++() {
  if (++step_ == order_->sections_[order_->calls_[call_].section].end) {
    ++call_;
    enter();
  }
  return *this;
}

} // namespace tessera::rt
