#include "tools/page/Costs.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

namespace tessera {

namespace {

std::string format(const char *pattern, double value) {
  char buffer[80];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

std::string durationText(double ns) {
  return ns >= 1e9 ? format("%.3g s", ns / 1e9) : ns >= 1e6 ? format("%.3g ms", ns / 1e6) : format("%.3g us", ns / 1e3);
}

/// Names and sizes of the mesh's axes.
std::vector<std::pair<std::string, int64_t>> axesOf(const std::string &mesh) {
  std::vector<std::pair<std::string, int64_t>> axes;
  std::stringstream parts(mesh);
  for (std::string axis; std::getline(parts, axis, ',');)
    if (const size_t equals = axis.find('='); equals != std::string::npos)
      axes.emplace_back(axis.substr(0, equals), std::strtoll(axis.c_str() + equals + 1, nullptr, 10));
  return axes;
}

/// Whether a strategy, "n=data, k=model -> [-, data]", cuts a factor along the axis.
bool cuts(const std::string &strategy, const std::string &axis) {
  const std::string chosen = strategy.substr(0, strategy.find("->"));
  for (size_t at = chosen.find(axis); at != std::string::npos; at = chosen.find(axis, at + 1)) {
    const size_t end = at + axis.size();
    const bool begins = at > 0 && (chosen[at - 1] == '=' || chosen[at - 1] == '+'),
               ends = end == chosen.size() || std::string(",+/ ").find(chosen[end]) != std::string::npos;
    if (begins && ends)
      return true;
  }
  return false;
}

class Adviser {
public:
  Adviser(const Network &network, const Json &report) : network_(network), axes_(axesOf(text(report, "mesh"))) {
    for (const Json *op : network.classes)
      if (const double ns = number(*op, "compute_ns"); ns > 0)
        rate_ = std::max(rate_, number(*op, "flops") / ns);
  }

  /// What would lower the compute time of nodes like this one.
  std::string computeAdvice(const Node &node) const {
    const Json *heaviest = nullptr;
    double whole = 0, apart = 0; // apart: of those whose strategy leaves an axis unused
    std::string unused;
    int64_t ranks = 1;
    for (const std::vector<size_t> &part : node.operators)
      for (size_t i : part) {
        const Json &op = list(*network_.function, "operators")[i];
        const double ns = number(op, "compute_ns");
        if (!heaviest || ns > number(*heaviest, "compute_ns"))
          heaviest = &op;
        whole += ns;
        for (const auto &[axis, size] : axes_)
          if (size > 1 && !cuts(text(op, "strategy"), axis)) {
            apart += ns;
            unused = axis;
            ranks = size;
            break;
          }
      }
    if (!heaviest || whole <= 0)
      return "";
    if (apart > whole / 2)
      return "All " + std::to_string(ranks) + " ranks along '" + unused + "' do the same work: a cut along '" + unused +
             "' would share it" + nearest(*heaviest) + ".";
    const double flops = number(*heaviest, "flops"), ns = number(*heaviest, "compute_ns");
    if (rate_ > 0 && flops / rate_ > ns / 2)
      return "Arithmetic limits it, and every rank has its share: more ranks, a faster device or a lower precision "
             "(--precision bf16) lower it.";
    return "Memory traffic limits it: a lower precision (--precision bf16) moves fewer bytes, and more ranks share "
           "them.";
  }

  static std::string communicationAdvice(double ns, double latency, bool known) {
    if (!known)
      return "Faster links lower it, at most in proportion.";
    const std::string saves = durationText((ns - latency) / 2);
    if (latency > ns / 2)
      return "Starting messages takes " + format("%.0f %%", 100 * latency / ns) +
             " of it: fewer and larger messages (a larger batch, fewer ranks on the axis) lower it; twice the "
             "bandwidth "
             "saves only " +
             saves + ".";
    return "Bandwidth limits it: twice the bandwidth saves " + saves + " a step.";
  }

private:
  /// What the best other strategy of the operator costs.
  static std::string nearest(const Json &op) {
    const Json &others = list(op, "alternatives");
    if (others.empty())
      return "";
    const double more = number(others[0], "more_compute_ns") + number(others[0], "more_communication_ns");
    return "; the best other way, " + text(others[0], "strategy") + ", makes the step " + durationText(more) +
           " longer";
  }

  const Network &network_;
  std::vector<std::pair<std::string, int64_t>> axes_;
  double rate_ = 0; // the most flops per ns of any operator
};

bool knowsLatency(const Json &collective) { return collective.is_object() && collective.contains("latency_ns"); }

/// Calls `visit` for every collective of the function.
template <typename Visit> void forCollectives(const Json &function, Visit visit) {
  for (const Json &op : list(function, "operators"))
    for (const Json &c : list(op, "collectives"))
      visit(c);
  for (const Json &c : list(function, "boundary"))
    visit(c);
}

} // namespace

double withBandwidth(const Json &function, double times) {
  double step = number(function, "compute_ns");
  bool known = true;
  forCollectives(function, [&](const Json &c) {
    const double ns = number(c, "cost_ns");
    known &= knowsLatency(c);
    const bool sends = number(c, "bytes_sent") > 0;
    const double latency = sends ? number(c, "latency_ns") : ns;
    step += latency + (ns - latency) / times;
  });
  return known ? step : -1;
}

std::vector<CostItem> costItems(const Network &network, const Json &report) {
  const Json &function = *network.function;
  const double step = number(function, "compute_ns") + number(function, "communication_ns");
  std::vector<CostItem> items;
  std::map<int, size_t> bySignature;
  double inNodes = 0;
  for (size_t n = 0; n < network.nodes.size(); ++n) {
    const Node &node = network.nodes[n];
    auto [it, fresh] = bySignature.try_emplace(node.signature, items.size());
    if (fresh) {
      items.push_back({node.name, text(*node.op, "kind")});
      items.back().node = int(n);
    }
    ++items[it->second].count;
    items[it->second].ns += node.computeTotal();
    inNodes += node.computeTotal();
  }
  if (const double rest = number(function, "compute_ns") - inNodes; rest > step * 1e-9) {
    items.push_back({"updates and operators of no layer", "other", false, 1, rest});
    items.back().lower = "Memory traffic limits updates: cutting the parameters' states over more ranks shares it.";
  }
  const Adviser adviser(network, report);
  for (CostItem &item : items)
    if (item.node >= 0)
      item.lower = adviser.computeAdvice(network.nodes[size_t(item.node)]);
  std::map<std::pair<std::string, std::string>, size_t> byKind;
  std::map<size_t, bool> known;
  forCollectives(function, [&](const Json &c) {
    const std::string kind = text(c, "kind"), axes = text(c, "axes");
    auto [it, fresh] = byKind.try_emplace({kind, axes}, items.size());
    if (fresh)
      items.push_back({kind + (axes.empty() ? "" : " over " + axes), kind, true});
    CostItem &item = items[it->second];
    item.count += timesOf(c);
    item.ns += number(c, "cost_ns");
    item.latency += number(c, "latency_ns");
    known.try_emplace(it->second, true).first->second &= knowsLatency(c);
  });
  for (const auto &[at, knows] : known)
    items[at].lower = items[at].latency > 0 || !knows
                          ? Adviser::communicationAdvice(items[at].ns, items[at].latency, knows)
                          : "It copies within a rank: a cut that fits the next operator would save it.";
  for (CostItem &item : items)
    item.share = step > 0 ? item.ns / step : 0;
  std::stable_sort(items.begin(), items.end(), [](const CostItem &a, const CostItem &b) { return a.ns > b.ns; });
  return items;
}

Json toJson(const std::vector<CostItem> &items) {
  Json all = Json::array();
  for (const CostItem &item : items)
    all.push_back({{"what", item.what},
                   {"kind", item.kind},
                   {"communication", item.communication},
                   {"count", item.count},
                   {"ns", item.ns},
                   {"share", item.share},
                   {"node", item.node},
                   {"lower", item.lower}});
  return all;
}

} // namespace tessera
