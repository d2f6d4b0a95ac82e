//===- StrategyGraphIO.cpp - checks and writes strategy graphs -------------------------------===//
#include "strategies/space/StrategyGraphIO.h"

#include <cstdio>
#include <numeric>
#include <zlib.h>

using namespace tessera::strategies;

namespace {

std::string label(const StrategyGraph &graph, size_t i) {
  const std::string &name = graph.nodes[i].name;
  return "node " + std::to_string(i) + (name.empty() ? "" : " ('" + name + "')");
}

void appendString(std::string &out, const std::string &text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if ((unsigned char)c < 0x20) {
      char escape[8];
      snprintf(escape, sizeof(escape), "\\u%04x", unsigned(c));
      out += escape;
    } else {
      out += c;
    }
  }
  out += '"';
}

void appendList(std::string &out, const std::vector<int64_t> &values) {
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i)
      out += ',';
    out += std::to_string(values[i]);
  }
  out += ']';
}

/// `item(i)` appends element i.
template <typename F> void appendItems(std::string &out, size_t count, F item) {
  out += '[';
  for (size_t i = 0; i < count; ++i) {
    if (i)
      out += ',';
    item(i);
  }
  out += ']';
}

} // namespace

std::string tessera::strategies::checkStrategyGraph(const StrategyGraph &graph) {
  const size_t n = graph.nodes.size();
  if (n > size_t(std::numeric_limits<int32_t>::max()))
    return "too many nodes";
  int64_t mostUsage = 0;
  for (size_t i = 0; i < n; ++i) {
    const StrategyNode &node = graph.nodes[i];
    if (node.costs.empty())
      return label(graph, i) + " has no option";
    if (!node.usages.empty() && node.usages.size() != node.costs.size())
      return label(graph, i) + " has " + std::to_string(node.costs.size()) + " costs but " +
             std::to_string(node.usages.size()) + " usages";
    for (Cost cost : node.costs)
      if (cost < 0)
        return label(graph, i) + " has the negative cost " + std::to_string(cost);
    int64_t most = 0;
    for (int64_t usage : node.usages) {
      if (usage < 0)
        return label(graph, i) + " has the negative usage " + std::to_string(usage);
      most = std::max(most, usage);
    }
    if (__builtin_add_overflow(mostUsage, most, &mostUsage))
      return "the usages add up to more than 64 bits hold";
    if (node.liveFrom < 0 && node.liveFrom < node.liveTo)
      return label(graph, i) + " is live before time 0";
  }
  for (size_t e = 0; e < graph.edges.size(); ++e) {
    const StrategyEdge &edge = graph.edges[e];
    const std::string name = "edge " + std::to_string(e);
    for (int32_t end : {edge.from, edge.to})
      if (end < 0 || size_t(end) >= n)
        return name + " names node " + std::to_string(end) + " of " + std::to_string(n);
    size_t rows = graph.nodes[edge.from].costs.size(), columns = graph.nodes[edge.to].costs.size();
    if (edge.costs.size() != rows * columns)
      return name + ": " + std::to_string(edge.costs.size()) + " costs, but nodes " + std::to_string(edge.from) +
             " and " + std::to_string(edge.to) + " have " + std::to_string(rows) + " x " + std::to_string(columns) +
             " options";
    for (Cost cost : edge.costs)
      if (cost < 0)
        return name + " has the negative cost " + std::to_string(cost);
  }
  // Aliases join nodes into groups. A pair within one group closes a cycle and says nothing new.
  std::vector<int32_t> group(graph.aliases.empty() ? 0 : n);
  std::iota(group.begin(), group.end(), 0);
  auto root = [&](int32_t i) {
    while (group[size_t(i)] != i)
      i = group[size_t(i)] = group[size_t(group[size_t(i)])];
    return i;
  };
  for (auto [a, b] : graph.aliases) {
    for (int32_t end : {a, b})
      if (end < 0 || size_t(end) >= n)
        return "an alias names node " + std::to_string(end) + " of " + std::to_string(n);
    if (graph.nodes[a].costs.size() != graph.nodes[b].costs.size())
      return "nodes " + std::to_string(a) + " and " + std::to_string(b) + " are aliases, but have " +
             std::to_string(graph.nodes[a].costs.size()) + " and " + std::to_string(graph.nodes[b].costs.size()) +
             " options";
    if (root(a) == root(b))
      return "the alias of nodes " + std::to_string(a) + " and " + std::to_string(b) +
             " closes a cycle of aliases: leave it out";
    group[size_t(root(a))] = root(b);
  }
  if (!graph.dataParallel.empty() && graph.dataParallel.size() != n)
    return "\"data_parallel\" has " + std::to_string(graph.dataParallel.size()) + " options for " + std::to_string(n) +
           " nodes";
  for (size_t i = 0; i < graph.dataParallel.size(); ++i)
    if (graph.dataParallel[i] < 0 || size_t(graph.dataParallel[i]) >= graph.nodes[i].costs.size())
      return "\"data_parallel\" names option " + std::to_string(graph.dataParallel[i]) + " of the " +
             std::to_string(graph.nodes[i].costs.size()) + " of " + label(graph, i);
  if (graph.memoryLimit < 0)
    return "the memory limit " + std::to_string(graph.memoryLimit) + " is negative";
  return {};
}

std::string tessera::strategies::toJson(const StrategyGraph &graph) {
  const auto &nodes = graph.nodes;
  const auto &edges = graph.edges;
  std::string out = "{\"problem\":{\"name\":";
  appendString(out, graph.name);
  out += ",\n\"nodes\":{\"intervals\":";
  appendItems(out, nodes.size(), [&](size_t i) { appendList(out, {nodes[i].liveFrom, nodes[i].liveTo}); });
  out += ",\n\"costs\":";
  appendItems(out, nodes.size(), [&](size_t i) { appendList(out, nodes[i].costs); });
  out += ",\n\"usages\":";
  appendItems(out, nodes.size(), [&](size_t i) { appendList(out, nodes[i].usages); });
  bool named = false;
  for (const StrategyNode &node : nodes)
    named |= !node.name.empty();
  if (named) {
    out += ",\n\"names\":";
    appendItems(out, nodes.size(), [&](size_t i) { appendString(out, nodes[i].name); });
  }
  out += "},\n\"edges\":{\"nodes\":";
  appendItems(out, edges.size(), [&](size_t e) { appendList(out, {edges[e].from, edges[e].to}); });
  out += ",\n\"costs\":";
  appendItems(out, edges.size(), [&](size_t e) { appendList(out, edges[e].costs); });
  out += '}';
  if (!graph.aliases.empty()) {
    out += ",\n\"aliases\":";
    appendItems(out, graph.aliases.size(), [&](size_t a) {
      appendList(out, {graph.aliases[a].first, graph.aliases[a].second});
    });
  }
  if (!graph.dataParallel.empty()) {
    out += ",\n\"data_parallel\":";
    appendList(out, {graph.dataParallel.begin(), graph.dataParallel.end()});
  }
  if (graph.memoryLimit != std::numeric_limits<int64_t>::max())
    out += ",\n\"usage_limit\":" + std::to_string(graph.memoryLimit);
  return out += "}}\n";
}

bool tessera::strategies::writeStrategyGraph(const StrategyGraph &graph, const std::string &path, std::string &error) {
  const std::string text = toJson(graph), part = path + ".part";
  bool gzip = path.size() > 3 && path.ends_with(".gz");
  gzFile file = gzopen(part.c_str(), gzip ? "wb6" : "wbT"); // T: as it is, without compression
  bool ok = file != nullptr;
  for (size_t at = 0; ok && at < text.size();) {
    unsigned size = unsigned(std::min(text.size() - at, size_t(1) << 20));
    ok = gzwrite(file, text.data() + at, size) == int(size);
    at += size;
  }
  if (file)
    ok &= gzclose(file) == Z_OK;
  ok = ok && rename(part.c_str(), path.c_str()) == 0;
  if (!ok) {
    remove(part.c_str());
    error = path + ": cannot be written";
  }
  return ok;
}
