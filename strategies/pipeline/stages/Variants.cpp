#include "strategies/pipeline/stages/Variants.h"

#include <algorithm>

namespace tessera::strategies {

namespace {

constexpr size_t kMostSums = 4096; // of a part of the nodes; more are not looked at

struct Option {
  int64_t time, memory;
  int variant;
};

/// From long and small to short and large, without those that another is no worse than.
std::vector<Option> optionsOf(const StageNodeWay &way, int64_t inFlight, bool free) {
  std::vector<Option> options;
  for (size_t v = 0; v < way.variants.size(); ++v) {
    const StageVariant &variant = way.variants[v];
    options.push_back({variant.time(), free ? 0 : variant.fixed + inFlight * variant.held, int(v)});
  }
  std::stable_sort(options.begin(), options.end(), [](const Option &a, const Option &b) {
    return std::pair(a.time, a.memory) < std::pair(b.time, b.memory);
  });
  std::vector<Option> kept;
  for (const Option &option : options)
    if (kept.empty() || option.memory < kept.back().memory)
      kept.push_back(option);
  return kept;
}

/// One more step towards less memory: of the node, to the option.
struct Saving {
  size_t node;
  int option;
  int64_t time, memory;
  double rate() const { return double(time) / double(memory); }
};

/// Savings of a node by rising price of a byte; options that are never worth their price are left out.
void addSavings(size_t node, const std::vector<Option> &options, std::vector<Saving> &savings) {
  std::vector<int> hull{0};
  for (int o = 1; o < int(options.size()); ++o) {
    auto saving = [&](int from, int to) {
      return Saving{node, to, options[size_t(to)].time - options[size_t(from)].time,
                    options[size_t(from)].memory - options[size_t(to)].memory};
    };
    while (hull.size() > 1 && saving(hull[hull.size() - 2], hull.back()).rate() >= saving(hull.back(), o).rate()) {
      hull.pop_back();
      savings.pop_back();
    }
    savings.push_back(saving(hull.back(), o));
    hull.push_back(o);
  }
}

struct Sum {
  int64_t time, memory;
  int option;
  uint32_t before; // place among the sums of one node less
};

} // namespace

Variants chooseVariants(const StageProblem &problem, const std::vector<int> &nodes, int way, int64_t inFlight,
                        int64_t limit, const std::vector<bool> *free, int64_t enough) {
  Variants chosen;
  std::vector<std::vector<Option>> options;
  std::vector<Saving> savings;
  std::vector<int> taken(nodes.size(), 0);
  int64_t memory = 0, smallest = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    options.push_back(
        optionsOf(problem.nodes[size_t(nodes[n])].ways[size_t(way)], inFlight, free && (*free)[size_t(nodes[n])]));
    chosen.time += options[n][0].time;
    memory += options[n][0].memory;
    smallest += options[n].back().memory;
    addSavings(n, options[n], savings);
  }
  auto tell = [&] {
    for (size_t n = 0; n < nodes.size(); ++n)
      chosen.variants.push_back(options[n][size_t(taken[n])].variant);
    return chosen;
  };
  const int64_t fastest = chosen.time;
  chosen.lower = fastest;
  chosen.fits = limit < 0 || smallest <= limit;
  if (!chosen.fits || limit < 0 || memory <= limit)
    return tell();

  // The cheapest savings first. The last one in part is a bound, in full an answer.
  std::stable_sort(savings.begin(), savings.end(),
                   [](const Saving &a, const Saving &b) { return a.rate() < b.rate(); });
  for (const Saving &saving : savings) {
    const double part = double(memory - limit) / double(saving.memory);
    chosen.lower = chosen.time + int64_t(double(saving.time) * std::min(part, 1.0) * (1 - 1e-12));
    chosen.time += saving.time;
    memory -= saving.memory;
    taken[saving.node] = saving.option;
    if (memory <= limit)
      break;
  }
  if (chosen.lower >= chosen.time || chosen.lower >= enough)
    return tell();

  std::vector<std::vector<Sum>> sums{{{0, 0, 0, 0}}};
  int64_t restTime = fastest, restMemory = smallest;
  for (size_t n = 0; n < nodes.size(); ++n) {
    restTime -= options[n][0].time;
    restMemory -= options[n].back().memory;
    std::vector<Sum> next;
    for (size_t s = 0; s < sums[n].size(); ++s)
      for (size_t o = 0; o < options[n].size(); ++o) {
        const Sum sum{sums[n][s].time + options[n][o].time, sums[n][s].memory + options[n][o].memory, int(o),
                      uint32_t(s)};
        if (sum.memory + restMemory <= limit && sum.time + restTime < chosen.time)
          next.push_back(sum);
      }
    std::sort(next.begin(), next.end(),
              [](const Sum &a, const Sum &b) { return std::pair(a.time, a.memory) < std::pair(b.time, b.memory); });
    std::vector<Sum> kept;
    for (const Sum &sum : next)
      if (kept.empty() || sum.memory < kept.back().memory)
        kept.push_back(sum);
    if (kept.size() > kMostSums)
      return tell();
    sums.push_back(std::move(kept));
  }
  if (!sums.back().empty()) { // the shortest is first
    chosen.time = sums.back()[0].time;
    uint32_t at = 0;
    for (size_t n = nodes.size(); n-- > 0;) {
      const Sum &sum = sums[n + 1][at];
      taken[n] = sum.option;
      at = sum.before;
    }
  }
  chosen.lower = chosen.time;
  return tell();
}

} // namespace tessera::strategies
