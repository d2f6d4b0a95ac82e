//===- MemoryLoad.h - what lives when, and the most that lives at once ---------------------------===//
//
//   MemoryLoad load;
//   load.add(0, 2, 100);       // at the times 0, 1, 2
//   load.add(2, 3, 50);
//   load.peak()                // {150 bytes, at time 2}
//   load.above(60)             // {{0, 2}}: then more than 60 bytes live
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FLOW_MEMORYLOAD_H
#define TESSERA_DIALECTS_GRAPH_FLOW_MEMORYLOAD_H

#include <cstdint>
#include <map>
#include <vector>

namespace tessera::graph {

class MemoryLoad {
public:
  /// Adds bytes that live from `first` to `last`, both included.
  void add(int64_t first, int64_t last, int64_t bytes) {
    change_[first] += bytes;
    change_[last + 1] -= bytes;
  }

  struct Peak {
    int64_t bytes = 0, time = 0;
  };
  /// The most bytes that live at once, and the earliest time at which they do.
  Peak peak() const {
    Peak peak;
    int64_t now = 0;
    for (auto [time, bytes] : change_) {
      now += bytes;
      if (now > peak.bytes)
        peak = {now, time};
    }
    return peak;
  }

  struct Span {
    int64_t first, last; // times, both included
  };
  /// When more than so many bytes live at once: the longest spans, in order.
  std::vector<Span> above(int64_t bytes) const {
    std::vector<Span> spans;
    int64_t now = 0;
    bool within = false;
    for (auto [time, change] : change_) {
      now += change;
      if (!within && now > bytes)
        spans.push_back({time, time});
      else if (within && now <= bytes)
        spans.back().last = time - 1;
      within = now > bytes;
    }
    return spans;
  }

private:
  std::map<int64_t, int64_t> change_;
};

} // namespace tessera::graph

#endif
