//===- Downsets.h - every set of units that can be cut off the end ---------------------------------===//
//
// A downset holds with a unit everything that must be taken before it. A cut separates a downset from the rest, and a
// stage is what lies between two of them. The lattice has an edge for every unit that can be added to a downset:
//
//   for (const DownsetEdge &edge : lattice.edges(0))      // of the empty one
//     edge.unit, edge.next
//
// Graphs may have too many. A width w keeps the downsets that are near the order of the units: unit i comes before all
// beyond i + w. Width 0 is the order itself. The lattice is complete if the width does not matter.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_DOWNSETS_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_DOWNSETS_H

#include "strategies/pipeline/stages/Units.h"

#include <optional>
#include <span>

namespace tessera::strategies {

struct DownsetEdge {
  int unit;
  uint32_t next;
};

/// The edges of a downset are in the order of units. A downset has a lower number than all that hold it: 0 is empty,
/// the last one is full.
class Downsets {
public:
  uint32_t count() const { return uint32_t(begin_.size() - 1); }
  uint32_t full() const { return count() - 1; }
  std::span<const DownsetEdge> edges(uint32_t downset) const {
    return {edges_.data() + begin_[downset], edges_.data() + begin_[downset + 1]};
  }

  /// The units of a downset, in no order.
  std::vector<int> units(uint32_t downset) const;

  /// Nothing, if there are more than `most`, or so many edges that memory would be short.
  static std::optional<Downsets> build(const Units &units, int width, uint32_t most);

private:
  std::vector<uint64_t> begin_;
  std::vector<DownsetEdge> edges_;
  std::vector<std::pair<uint32_t, int>> made_; // from which downset, with which unit; the empty one has none
};

} // namespace tessera::strategies

#endif
