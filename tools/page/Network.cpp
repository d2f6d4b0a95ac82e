#include "tools/page/Network.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace tessera {

namespace {

constexpr size_t kLongestPeriod = 1000; // operators of one layer; longer sequences are not looked for
constexpr size_t kLeastFolded = 6;      // fewer operators are quicker read than folded

bool isForward(const Json &op) { return text(op, "gradient_of").empty() && text(op, "update_of").empty(); }

std::string moduleOf(const std::string &name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

class Reader {
public:
  explicit Reader(const Json &function) : operators_(list(function, "operators")) {
    network_.function = &function;
    for (const Json &op : operators_)
      if (isForward(op))
        names_.insert(text(op, "name"));
  }

  Network read() {
    for (size_t i = 0; i < operators_.size(); ++i)
      classify(operators_[i]);
    for (size_t i = 0; i < operators_.size(); ++i)
      place(i);
    sign();
    divide();
    return std::move(network_);
  }

private:
  /// "/bn1/BatchNormalization" for "/bn1/BatchNormalization/mean.1": the shortest name of which this one is a part.
  std::string root(const std::string &name) const {
    for (size_t end = name.find_first_of("/.", 1); end != std::string::npos; end = name.find_first_of("/.", end + 1))
      if (names_.count(name.substr(0, end)))
        return name.substr(0, end);
    return name;
  }

  void classify(const Json &op) {
    std::string key;
    if (op.is_object())
      for (const auto &[field, value] : op.items())
        if (!isIdentity(field))
          key += value.dump(-1, ' ', false, Json::error_handler_t::replace) + ";";
    auto [it, fresh] = classes_.try_emplace(std::move(key), int(network_.classes.size()));
    if (fresh)
      network_.classes.push_back(&op);
    network_.classOf.push_back(it->second);
  }

  void place(size_t i) {
    const Json &op = operators_[i];
    const std::string parameter = text(op, "update_of"), gradient = text(op, "gradient_of");
    const Part part = !parameter.empty() ? Part::Update : !gradient.empty() ? Part::Backward : Part::Forward;
    network_.partOf.push_back(part);
    int at = -1;
    if (part == Part::Update) {
      if (auto reader = readers_.find(parameter); reader != readers_.end())
        at = reader->second;
    } else if (const std::string name = root(part == Part::Backward ? gradient : text(op, "name"));
               nodes_.count(name)) {
      at = nodes_[name];
    } else if (part == Part::Forward && !list(op, "operands").empty()) {
      at = nodes_[name] = int(network_.nodes.size());
      network_.nodes.push_back({name});
    }
    network_.nodeOf.push_back(at);
    if (at < 0)
      return;
    Node &node = network_.nodes[size_t(at)];
    if (part == Part::Forward) {
      if (!node.op || text(op, "name") == node.name)
        node.op = &op;
      for (const Json &input : list(op, "inputs"))
        if (input.is_string())
          readers_.try_emplace(input.get<std::string>(), at);
    }
    node.operators[size_t(part)].push_back(i);
    node.compute[size_t(part)] += number(op, "compute_ns");
    node.communication[size_t(part)] += number(op, "communication_ns");
  }

  void sign() {
    std::unordered_map<std::string, int> known;
    for (Node &node : network_.nodes) {
      std::string key = text(*node.op, "kind") + ";" + text(*node.op, "strategy");
      for (const char *field : {"results", "global_operands", "global_results", "local_operands", "local_results"})
        key += ";" + list(*node.op, field).dump(-1, ' ', false, Json::error_handler_t::replace);
      node.signature = known.try_emplace(std::move(key), int(known.size())).first->second;
    }
  }

  /// The module that a node is shown in. A module that holds no modules is the operator itself.
  std::string shownModule(const std::string &name) const {
    const std::string module = moduleOf(name);
    return parents_.count(module) ? module : moduleOf(module);
  }

  /// What a sequence is called: its module, else the first part of a dotted name, "l0" of "l0.qkv", else an operator.
  std::string titleOf(size_t first, size_t count) const {
    for (size_t i = first; i < first + count; ++i)
      if (const std::string module = shownModule(network_.nodes[i].name); !module.empty())
        return module;
    for (size_t i = first; count > 1 && i < first + count; ++i)
      if (const size_t dot = network_.nodes[i].name.find('.'); dot != std::string::npos && dot > 0)
        return network_.nodes[i].name.substr(0, dot);
    return network_.nodes[first].name;
  }

  /// Nodes side by side of one module are a unit; a node of no module is one by itself. Units that repeat are a block,
  /// and so are units side by side that do not.
  void divide() {
    const std::vector<Node> &nodes = network_.nodes;
    for (const Node &node : nodes)
      for (std::string module = moduleOf(moduleOf(node.name)); !module.empty(); module = moduleOf(module))
        parents_.insert(module);
    std::vector<size_t> firsts, sizes;
    std::vector<std::vector<int>> contents;
    std::vector<std::string> modules;
    for (size_t n = 0; n < nodes.size(); ++n) {
      std::string module = shownModule(nodes[n].name);
      if (n == 0 || module.empty() || module != modules.back()) {
        firsts.push_back(n);
        sizes.push_back(0);
        contents.emplace_back();
        modules.push_back(std::move(module));
      }
      ++sizes.back();
      contents.back().push_back(nodes[n].signature);
    }
    firsts.push_back(nodes.size());
    std::map<std::vector<int>, int> known;
    std::vector<int> units;
    for (std::vector<int> &content : contents)
      units.push_back(known.try_emplace(std::move(content), int(known.size())).first->second);
    std::vector<Block> &blocks = network_.blocks;
    for (const Block &found : foldRepeats(units, sizes, kLeastFolded)) {
      const size_t last = found.first + found.period * (found.count - 1);
      Block block{firsts[found.first], firsts[found.first + found.period] - firsts[found.first], found.count};
      block.title = titleOf(block.first, block.period);
      block.lastTitle = titleOf(firsts[last], block.period);
      if (found.count == 1 && modules[found.first].empty() && !blocks.empty() && blocks.back().count == 1 &&
          modules[found.first - 1].empty()) {
        ++blocks.back().period;
        blocks.back().lastTitle = block.title;
      } else {
        blocks.push_back(std::move(block));
      }
    }
  }

  const Json &operators_;
  Network network_;
  std::unordered_set<std::string> names_; // of forward operators
  std::unordered_map<std::string, int> classes_, nodes_, readers_;
  std::set<std::string> parents_; // modules that hold modules
};

} // namespace

bool isIdentity(const std::string &field) {
  return field == "name" || field == "inputs" || field == "gradient_of" || field == "update_of" || field == "stage";
}

std::vector<Block> foldRepeats(const std::vector<int> &sequence, const std::vector<size_t> &sizes, size_t least) {
  std::vector<Block> blocks;
  const size_t size = sequence.size();
  for (size_t i = 0; i < size;) {
    Block best{i};
    size_t covered = 1;
    for (size_t period = 1; period <= std::min(kLongestPeriod, (size - i) / 2); ++period) {
      if (sequence[i] != sequence[i + period])
        continue;
      size_t equal = 1;
      while (i + period + equal < size && sequence[i + equal] == sequence[i + period + equal])
        ++equal;
      const size_t count = equal / period + 1;
      if (count > 1 && count * period > covered &&
          std::accumulate(sizes.begin() + long(i), sizes.begin() + long(i + count * period), size_t(0)) >= least) {
        best = {i, period, count, "", ""};
        covered = count * period;
      }
    }
    blocks.push_back(best);
    i += covered;
  }
  return blocks;
}

Network readNetwork(const Json &function) { return Reader(function).read(); }

} // namespace tessera
