//===- MovedBytes.h - what stages along an order of the units move -----------------------------------===//
//
// A stage is a run of units. Of the stages that begin at one place, each moves some bytes more than the one that ends a
// unit before it, or fewer. A value changes these numbers at three units at most, so that those of the next place
// follow with little work.
//
//   MovedBytes moved(units, way);
//   moved.begin(3);
//   moved.more(3) + moved.more(4)      // of the stage of units 3 and 4, to and from other stages
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_MOVEDBYTES_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_MOVEDBYTES_H

#include "strategies/pipeline/stages/Units.h"

#include <algorithm>

namespace tessera::strategies {

class MovedBytes {
public:
  /// The units must outlive this.
  MovedBytes(const Units &units, size_t way) : units_(units) {
    auto beyond = [&](const std::vector<int64_t> &more) { return more.empty() ? 0 : more[way]; };
    for (const UnitValue &value : units.values) {
      Value &own = values_.emplace_back(Value{value.from, value.to, value.bytes + beyond(value.source->sent),
                                              value.bytes + beyond(value.source->received)});
      std::sort(own.to.begin(), own.to.end());
    }
  }

  /// From now on stages begin at this unit.
  void begin(int unit) {
    if (unit < begin_ || more_.empty()) {
      begin_ = 0;
      more_.assign(size_t(units_.count()), 0);
      for (const Value &value : values_)
        add(value, 1);
    }
    while (begin_ < unit) {
      const std::vector<int> &values = units_.valuesOf[size_t(begin_)];
      for (int v : values)
        add(values_[size_t(v)], -1);
      ++begin_;
      for (int v : values)
        add(values_[size_t(v)], 1);
    }
  }
  /// What the stage that ends with this unit moves beyond the one that ends before it.
  int64_t more(int unit) const { return more_[size_t(unit)]; }

private:
  struct Value {
    int from;
    std::vector<int> to; // ascending
    int64_t sent, received;
  };

  /// A stage receives the value from its first reader on, unless it has the producer; from there on it sends the value,
  /// until it has all readers.
  void add(const Value &value, int sign) {
    if (value.to.empty())
      return;
    const auto first = std::lower_bound(value.to.begin(), value.to.end(), begin_);
    const bool makes = value.from >= begin_;
    const bool receives = first != value.to.end() && (!makes || *first < value.from);
    if (receives)
      more_[size_t(*first)] += sign * value.received;
    if (!makes)
      return;
    int64_t change = receives ? -value.received : 0;
    if (first != value.to.begin() || value.to.back() > value.from) {
      change += value.sent;
      if (first == value.to.begin())
        more_[size_t(value.to.back())] -= sign * value.sent;
    }
    more_[size_t(value.from)] += sign * change;
  }

  const Units &units_;
  std::vector<Value> values_;
  int begin_ = 0;
  std::vector<int64_t> more_; // by unit
};

} // namespace tessera::strategies

#endif
