//===- TimeOrder.h - what of a program runs when ----------------------------------------------===//
//
// A program's steps stand in sections, and a list of calls says which section runs when (plan.proto). Whoever prepares
// steps walks `steps` once. Whoever follows time walks a TimeOrder:
//
//   for (StepInTime at : TimeOrder(program))
//     run(program.steps(int(at.step)), at.index);
//
// Sections of 2, 3 and 1 steps, of which the second is called twice, give
//
//   (0, 0) (1, 0)   (2, 0) (3, 0) (4, 0)   (2, 1) (3, 1) (4, 1)   (5, 0)        as (step, index)
//
// The program passed checkSections (CheckSteps.h).
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_TIMEORDER_H
#define TESSERA_RUNTIME_PLAN_TIMEORDER_H

#include "runtime/plan/plan.pb.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::rt {

/// The name of the one kernel that sees the index of its call, and of the attribute that bounds it.
inline constexpr char kMicroRows[] = "micro_rows", kParts[] = "parts";

/// The steps [begin, end), and how often a run of the program calls them.
struct Section {
  uint32_t begin = 0, end = 0;
  uint32_t calls = 0;
};

struct SectionCall {
  uint32_t section = 0, index = 0;
};

/// A step that runs, and the index of the call in which it does.
struct StepInTime {
  uint32_t step = 0, index = 0;
  bool operator==(const StepInTime &) const = default;
};

/// Keeps nothing of the program.
class TimeOrder {
public:
  explicit TimeOrder(const plan::Program &program);

  /// Whether some section runs more or less than once.
  bool repeats() const;
  const std::vector<Section> &sections() const { return sections_; }
  /// The calls in order, those that the plan leaves out included.
  const std::vector<SectionCall> &calls() const { return calls_; }
  const Section &sectionOf(uint32_t step) const;
  /// How often a run of the program runs a step.
  uint32_t timesOf(uint32_t step) const { return sectionOf(step).calls; }
  /// How many steps run, each counted as often as it does.
  uint64_t size() const;

  /// For messages: "micro-batch 3 of 16"; empty where the step runs once.
  std::string callText(StepInTime at) const;
  /// For messages: "3 + 20 x 16 + 8 steps", by section; "31 steps" if no section repeats.
  std::string text() const;

  class Iterator {
  public:
    StepInTime operator*() const { return {step_, order_->calls_[call_].index}; }
    Iterator &operator++();
    bool operator==(const Iterator &other) const { return call_ == other.call_ && step_ == other.step_; }

  private:
    friend class TimeOrder;
    Iterator(const TimeOrder *order, size_t call) : order_(order), call_(call) { enter(); }
    /// Goes to the first step of the first call from call_ on that has one.
    void enter();
    const TimeOrder *order_;
    size_t call_;
    uint32_t step_ = 0;
  };
  Iterator begin() const { return Iterator(this, 0); }
  Iterator end() const { return Iterator(this, calls_.size()); }

private:
  std::vector<Section> sections_;
  std::vector<SectionCall> calls_;
};

} // namespace tessera::rt

#endif
