#include "tools/dump/PictureRows.h"

#include <algorithm>
#include <map>
#include <set>

namespace tessera {

namespace {

/// The global shapes of an operator's results. In mode hybrid there are none, and they are one rank's.
const Json &shapeOf(const Json &op) {
  const Json &whole = list(op, "global_results");
  return whole.empty() ? list(op, "local_results") : whole;
}

void add(std::vector<Traffic> &all, const Traffic &more) {
  auto it = std::find_if(all.begin(), all.end(),
                         [&](const Traffic &t) { return t.kind == more.kind && t.axes == more.axes; });
  if (it == all.end())
    it = all.insert(all.end(), {more.kind, more.axes});
  it->count += more.count;
  it->bytes += more.bytes;
}

void addCollectives(std::vector<Traffic> &all, const Json &collectives) {
  for (const Json &c : collectives)
    if (double bytes = number(c, "bytes_sent"); bytes > 0)
      add(all, {text(c, "kind"), text(c, "axes"), timesOf(c), bytes});
}

bool looksLike(const Row &a, const Row &b) {
  return a.labels == b.labels && a.op && b.op && a.sharding() == b.sharding() && a.shape() == b.shape();
}

/// Operators without operands are constants, which compute nothing and are not shown.
bool isShown(const Json &op) {
  const Json &results = list(op, "results"), &shapes = shapeOf(op);
  return !list(op, "operands").empty() && !results.empty() && results[0].is_string() && !shapes.empty() &&
         shapes[0].is_array();
}

/// Whether the operator is neither a gradient nor the update of a parameter.
bool isForward(const Json &op) { return text(op, "gradient_of").empty() && text(op, "update_of").empty(); }

/// The names of the model's operators, and the modules that contain modules.
class Names {
public:
  explicit Names(const Json &operators) {
    for (const Json &op : operators)
      if (isForward(op))
        operators_.emplace(text(op, "name"), &op);
    for (const auto &[name, op] : operators_)
      if (root(name) == name)
        for (std::string module = moduleOf(moduleOf(name)); !module.empty(); module = moduleOf(module))
          parents_.insert(module);
  }

  /// The name of the model's operator of which this one is a part: "/bn1/BatchNormalization" for ".../mean.1".
  std::string root(const std::string &name) const {
    for (size_t end = name.find_first_of("/.", 1); end != std::string::npos; end = name.find_first_of("/.", end + 1))
      if (operators_.count(name.substr(0, end)))
        return name.substr(0, end);
    return name;
  }
  /// The operator with the name.
  const Json *find(const std::string &name) const {
    auto it = operators_.find(name);
    return it == operators_.end() ? nullptr : it->second;
  }
  /// "/layer1/layer1.0" of "/layer1/layer1.0/conv1/Conv" and of "/layer1/layer1.0/Add", at most `depth` deep: a module
  /// that holds no modules is shown as an operator.
  std::string shownModule(const std::string &root, size_t depth) const {
    std::string module = moduleOf(root);
    if (!parents_.count(module))
      module = moduleOf(module);
    size_t end = 0;
    for (size_t d = 0; d < depth && end != std::string::npos; ++d)
      end = module.find('/', end + 1);
    return module.substr(0, end);
  }
  size_t depth() const {
    size_t deepest = 0;
    for (const std::string &module : parents_)
      deepest = std::max(deepest, size_t(std::count(module.begin(), module.end(), '/')));
    return deepest;
  }

private:
  static std::string moduleOf(const std::string &name) {
    size_t slash = name.rfind('/');
    return slash == std::string::npos ? "" : name.substr(0, slash);
  }
  std::map<std::string, const Json *> operators_;
  std::set<std::string> parents_;
};

/// "conv1" of "/layer1/layer1.0/conv1/Conv", "downsample.0" of ".../downsample/downsample.0/Conv", "Add" of ".../Add".
std::string labelOf(const std::string &root, const std::string &module) {
  std::string rest = root.substr(std::min(root.size(), module.size()));
  rest.erase(0, rest.find_first_not_of('/'));
  size_t last = rest.rfind('/');
  if (last == std::string::npos)
    return rest;
  size_t before = rest.rfind('/', last - 1);
  return rest.substr(before == std::string::npos ? 0 : before + 1,
                     last - (before == std::string::npos ? 0 : before + 1));
}

std::vector<Row> rowsOf(const Json &function, const Names &names, size_t depth) {
  std::vector<Row> rows;
  std::map<std::string, size_t> rowOf; // by the model's operator
  Row updates;
  updates.labels = {"gradients and updates of parameters"};
  for (const Json &op : list(function, "operators")) {
    const bool forward = isForward(op);
    const std::string root = names.root(text(op, forward ? "name" : "gradient_of"));
    auto known = rowOf.find(root);
    if (const Json *named = names.find(root); forward && known == rowOf.end() && named && isShown(*named)) {
      Row row;
      row.module = row.lastModule = names.shownModule(root, depth);
      row.op = named;
      if (rows.empty() || rows.back().module != row.module || rows.back().sharding() != row.sharding() ||
          rows.back().shape().size() != row.shape().size())
        rows.push_back(std::move(row));
      known = rowOf.emplace(root, rows.size() - 1).first;
      rows.back().labels.push_back(labelOf(root, rows.back().module));
    }
    Row &row = known == rowOf.end() ? updates : rows[known->second];
    row.compute += number(op, "compute_ns");
    addCollectives(forward && &row != &updates ? row.forward : row.backward, list(op, "collectives"));
  }
  addCollectives(updates.backward, list(function, "boundary"));
  if (updates.compute > 0 || !updates.backward.empty())
    rows.push_back(std::move(updates));
  return rows;
}

/// Consecutive modules that look alike become one.
std::vector<Row> folded(const std::vector<Row> &rows) {
  std::vector<Row> out;
  size_t last = 0; // first row of the last module in `out`
  for (size_t begin = 0, end; begin < rows.size(); begin = end) {
    for (end = begin + 1; end < rows.size() && rows[end].module == rows[begin].module;)
      ++end;
    bool alike = !out.empty() && out.size() - last == end - begin;
    for (size_t i = 0; alike && i < end - begin; ++i)
      alike = looksLike(out[last + i], rows[begin + i]);
    if (!alike) {
      last = out.size();
      out.insert(out.end(), rows.begin() + long(begin), rows.begin() + long(end));
      continue;
    }
    for (size_t i = 0; i < end - begin; ++i) {
      Row &into = out[last + i];
      const Row &from = rows[begin + i];
      into.lastModule = from.module;
      ++into.repeats;
      into.compute += from.compute;
      for (const Traffic &t : from.forward)
        add(into.forward, t);
      for (const Traffic &t : from.backward)
        add(into.backward, t);
    }
  }
  return out;
}

} // namespace

std::string Row::sharding() const { return op ? list(*op, "results")[0].get<std::string>() : ""; }

const Json &Row::shape() const { return shapeOf(*op)[0]; }

std::vector<Row> pictureRows(const Json &function, size_t limit) {
  const Names names(list(function, "operators"));
  std::vector<Row> rows;
  for (size_t depth = names.depth() + 1; depth-- > 0;)
    if (rows = folded(rowsOf(function, names, depth)); rows.size() <= limit)
      break;
  return rows;
}

} // namespace tessera
