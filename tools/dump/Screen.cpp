#include "tools/dump/Screen.h"

#include "runtime/support/Printable.h"
#include "tools/page/Costs.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace tessera {

namespace {

constexpr size_t kCosts = 10, kBlocks = 10; // so many lines
constexpr size_t kNamed = 3;                // strategies that a line names,
constexpr size_t kStrategies = 44;          // in so many columns, or the first one
constexpr size_t kName = 56;                // the width of the first column

std::string duration(double ns) {
  char buffer[40];
  if (ns >= 1e9)
    std::snprintf(buffer, sizeof buffer, "%.2f s", ns / 1e9);
  else
    std::snprintf(buffer, sizeof buffer, "%.3f ms", ns / 1e6);
  return buffer;
}

std::string column(const std::string &s, size_t width) {
  return s + std::string(s.size() < width ? width - s.size() : 0, ' ') + " ";
}

/// The strategies of a block's operators, the most frequent first.
std::string strategiesOf(const Network &network, const Block &block) {
  std::map<std::string, size_t> counts;
  for (size_t n = block.first; n < block.first + block.period; ++n)
    ++counts[text(*network.nodes[n].op, "strategy")];
  std::vector<std::pair<std::string, size_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
  std::string line;
  size_t named = 0;
  for (; named < std::min(order.size(), kNamed); ++named) {
    const auto &[strategy, count] = order[named];
    const std::string one =
        (strategy.empty() ? "nothing cut" : rt::printable(strategy)) + (count > 1 ? " x" + std::to_string(count) : "");
    if (named > 0 && line.size() + one.size() > kStrategies)
      break;
    line += (named ? "; " : "") + one;
  }
  return line + (order.size() > named ? "; and " + std::to_string(order.size() - named) + " more" : "");
}

std::string titleOf(const Block &block) {
  return rt::printable(block.title) + (block.lastTitle == block.title ? "" : " to " + rt::printable(block.lastTitle)) +
         (block.count > 1 ? ", " + std::to_string(block.count) + " alike" : "");
}

} // namespace

std::string screenText(const Json &function, const Json &report) {
  const Network network = readNetwork(function);
  std::string out = "  " + column("largest costs", kName) + column("time", 12) +
                    (report.contains("pipeline")   ? "of all stages' work\n"
                     : function.contains("beside") ? "of the step's work\n"
                                                   : "of the step\n");
  std::vector<CostItem> costs = costItems(network, report);
  for (size_t i = 0; i < std::min(costs.size(), kCosts); ++i) {
    const CostItem &cost = costs[i];
    std::string what = rt::printable(cost.what);
    if (cost.communication)
      what += ", " + std::to_string(cost.count) + (cost.count == 1 ? " time" : " times");
    else
      what += (cost.count > 1 ? " and " + std::to_string(cost.count - 1) + " alike" : "") + " (" +
              rt::printable(cost.kind) + ")";
    char share[24];
    std::snprintf(share, sizeof share, "%9.1f %%", 100 * cost.share);
    out += "  " + column(what, kName) + column(duration(cost.ns), 12) + share + "\n";
  }
  out += "\n  " + column("layers", kName) + column("operators", 9) + column("compute", 12) +
         column("communication", 13) + "strategies\n";
  for (size_t b = 0; b < std::min(network.blocks.size(), kBlocks); ++b) {
    const Block &block = network.blocks[b];
    double compute = 0, communication = 0;
    for (size_t n = block.first; n < block.first + block.period * block.count; ++n) {
      compute += network.nodes[n].computeTotal();
      communication += network.nodes[n].communicationTotal();
    }
    out += "  " + column(titleOf(block), kName) + column(std::to_string(block.period * block.count), 9) +
           column(duration(compute), 12) + column(duration(communication), 13) + strategiesOf(network, block) + "\n";
  }
  if (network.blocks.size() > kBlocks)
    out += "  and " + std::to_string(network.blocks.size() - kBlocks) + " more\n";
  return out + "  all operators: --all; as a page to look at: --html page.html\n";
}

} // namespace tessera
