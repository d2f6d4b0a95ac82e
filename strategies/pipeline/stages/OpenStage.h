//===- OpenStage.h - the sums of a stage while units are added to it and taken away ----------------===//
//
//   OpenStage stage(problem, units);
//   stage.add(3), stage.add(4);
//   stage.times(way, replicas).interval, stage.sums(way).fixed
//   stage.remove();                                            // 4
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_OPENSTAGE_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_OPENSTAGE_H

#include "strategies/pipeline/stages/Units.h"

#include <algorithm>

namespace tessera::strategies {

class OpenStage {
public:
  /// In one way.
  struct Sums {
    int impossible = 0, varies = 0; // units
    int64_t time = 0, fixed = 0, held = 0, synced = 0, least = 0;
    int64_t more = 0; // bytes that are moved because of the way
  };

  OpenStage(const StageProblem &problem, const Units &units)
      : problem_(problem), units_(units), sums_(problem.ways.size()), inside_(units.values.size(), 0),
        begins_(units.values.size(), false) {}

  const std::vector<int> &units() const { return stage_; }
  const Sums &sums(size_t way) const { return sums_[way]; }
  /// Where all of its units may be.
  UnitPlaces places() const { return places_.empty() ? UnitPlaces() : places_.back(); }
  bool mayBe(int stage) const { return places().first <= stage && stage <= places().last; }

  void add(int unit) {
    for (int v : units_.valuesOf[size_t(unit)])
      count(v, unit, true);
    stage_.push_back(unit);
    const UnitPlaces old = places(), &more = units_.places[size_t(unit)];
    places_.push_back({std::max(old.first, more.first), std::min(old.last, more.last)});
    sum(unit, 1);
  }
  /// Takes the unit away that was added last.
  void remove() {
    const int unit = stage_.back();
    for (int v : units_.valuesOf[size_t(unit)])
      count(v, unit, false);
    stage_.pop_back();
    places_.pop_back();
    sum(unit, -1);
  }

  StageTimes times(size_t way, int copies, int64_t time) const {
    return stageTimes(problem_, int(way), copies, time, bytes_ + sums_[way].more, sums_[way].synced);
  }
  StageTimes times(size_t way, int copies) const { return times(way, copies, sums_[way].time); }

  std::vector<int> nodes() const {
    std::vector<int> nodes;
    for (int unit : stage_)
      nodes.insert(nodes.end(), units_.nodes[size_t(unit)].begin(), units_.nodes[size_t(unit)].end());
    return nodes;
  }

private:
  void sum(int unit, int sign) {
    for (size_t w = 0; w < sums_.size(); ++w) {
      const UnitWay &way = units_.ways[size_t(unit)][w];
      Sums &sums = sums_[w];
      sums.impossible += sign * int(!way.possible);
      sums.varies += sign * int(way.varies);
      sums.time += sign * way.time;
      sums.fixed += sign * way.fixed;
      sums.held += sign * way.held;
      sums.synced += sign * way.synced;
      sums.least += sign * way.least;
    }
  }

  /// A value's producer or one of its readers joins or leaves the stage.
  void count(int v, int unit, bool joins) {
    const UnitValue &value = units_.values[size_t(v)];
    pay(v, -1);
    if (value.from == unit)
      begins_[size_t(v)] = joins;
    else
      inside_[size_t(v)] += joins ? 1 : -1;
    pay(v, 1);
  }
  void pay(int v, int sign) {
    const UnitValue &value = units_.values[size_t(v)];
    const bool sends = begins_[size_t(v)] && inside_[size_t(v)] < int(value.to.size());
    const bool receives = !begins_[size_t(v)] && inside_[size_t(v)] > 0;
    if (!sends && !receives)
      return;
    bytes_ += sign * value.bytes;
    const std::vector<int64_t> &more = sends ? value.source->sent : value.source->received;
    for (size_t w = 0; w < more.size(); ++w)
      sums_[w].more += sign * more[w];
  }

  const StageProblem &problem_;
  const Units &units_;
  std::vector<int> stage_;         // units
  std::vector<UnitPlaces> places_; // of the first of them, as many as there are
  std::vector<Sums> sums_;         // by way
  int64_t bytes_ = 0;
  std::vector<int> inside_;  // by value: readers in the stage
  std::vector<bool> begins_; // by value: it is produced in the stage
};

} // namespace tessera::strategies

#endif
