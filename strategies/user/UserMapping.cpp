#include "strategies/user/UserMapping.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/leaves/LeafRule.h"
#include "dialects/graph/GraphOrigin.h"
#include "strategies/space/Units.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <set>

using namespace mlir;

namespace tessera::strategies {

bool belongsTo(llvm::StringRef name, llvm::StringRef node) {
  return name.consume_front(node) && (name.empty() || name.starts_with("/"));
}

namespace {

/// The names of the operators that are no gradients of others.
std::vector<std::string> nodesOf(func::FuncOp func) {
  std::vector<std::string> nodes;
  for (Operation &op : func.getBody().front().without_terminator())
    if (op.hasAttr(graph::kNameAttr) && !op.hasAttr(graph::kGradOfAttr))
      nodes.push_back(graph::nameOf(&op));
  return nodes;
}

/// Names that the pattern matches; of a node and its parts only the node.
std::vector<std::string> matching(const std::vector<std::string> &nodes, const std::string &pattern) {
  std::vector<std::string> hits;
  for (const std::string &node : nodes)
    if (matchesName(pattern, node))
      hits.push_back(node);
  std::vector<std::string> roots;
  for (const std::string &name : hits)
    if (llvm::none_of(hits, [&](const std::string &other) { return other != name && belongsTo(name, other); }))
      roots.push_back(name);
  return roots;
}

/// One sentence about the operator.
llvm::Error fail(const FixedGroup &group, const std::string &what) {
  return llvm::createStringError("%s", ("operator '" + group.name + "': " + what).c_str());
}
template <typename... Args> llvm::Error fail(const FixedGroup &group, const char *format, const Args &...args) {
  return fail(group, llvm::formatv(format, args...).str());
}

class Mapper {
public:
  Mapper(const FunctionAssignment &function, const Mesh &mesh, const SharedShardings &shared, FixedStrategies &out)
      : function_(function), mesh_(mesh), shared_(shared), out_(out), scratch_(function.assignment) {}

  llvm::Error map(FixedGroup &group);

private:
  void collect(FixedGroup &group);
  llvm::Error checkTensor(const FixedGroup &group, const char *side, size_t number, llvm::ArrayRef<int64_t> shape,
                          const UserTensor &tensor) const;
  llvm::Error seedNamed(const FixedGroup &group);
  bool search(const FixedGroup &group, size_t input);
  bool searchDims(const FixedGroup &group, size_t input, size_t dim, Sharding &sharding);
  void run(const FixedGroup &group);
  Sharding needed(const FixedGroup &group, size_t input) const;
  llvm::Error explain(const FixedGroup &group);
  llvm::Error applyOut(FixedGroup &group);
  std::string factorNote(const FixedGroup &group, size_t input, size_t dim) const;
  std::string leafNote(const FixedGroup &group, size_t input, size_t dim) const;
  llvm::SmallVector<Cut> cutsBy(const FixedGroup &group, size_t input, size_t dim, llvm::ArrayRef<int> axes) const;
  const UserTensor &said(const FixedGroup &group, size_t input) const {
    static const UserTensor none;
    return input < group.entry->in.size() ? group.entry->in[input] : none;
  }

  const FunctionAssignment &function_;
  const Mesh &mesh_;
  const SharedShardings &shared_;
  FixedStrategies &out_;
  Assignment scratch_;
  std::vector<std::optional<Sharding>> seeds_;
  int64_t tries_ = 0;
  static constexpr int64_t kMaxTries = 20000;
};

void Mapper::collect(FixedGroup &group) {
  const Program &program = function_.program;
  llvm::DenseSet<int> inside(group.ops.begin(), group.ops.end());
  auto isConstant = [](Value v) { return v.getDefiningOp() && v.getDefiningOp()->hasTrait<OpTrait::ConstantLike>(); };
  if (group.ops.size() == 1) {
    // The operands one by one; constants count if the user counts them.
    Operation *op = program.operators[group.ops[0]].op;
    bool all = group.entry->in.size() == op->getNumOperands();
    for (Value v : op->getOperands())
      if (all || !isConstant(v))
        group.inputs.push_back(v);
  } else {
    for (int i : group.ops)
      for (Value v : program.operators[i].op->getOperands()) {
        int producer = program.producer(v);
        bool own = producer >= 0 && inside.contains(producer);
        if (!own && !isConstant(v) && !llvm::is_contained(group.inputs, v))
          group.inputs.push_back(v);
      }
  }
  for (int i : group.ops)
    for (Value v : program.operators[i].op->getResults())
      if (llvm::any_of(v.getUsers(), [&](Operation *user) {
            auto it = program.index.find(user);
            return it == program.index.end() || !inside.contains(it->second);
          }))
        group.outputs.push_back(v);
}

std::string Mapper::factorNote(const FixedGroup &group, size_t input, size_t dim) const {
  if (group.ops.size() != 1)
    return "";
  const OperatorInfo &info = function_.program.operators[group.ops[0]];
  for (size_t o = 0; o < info.op->getNumOperands(); ++o)
    if (info.op->getOperand(unsigned(o)) == group.inputs[input]) {
      std::string names;
      for (int f : info.cls->rule.operands[o][dim])
        names += (names.empty() ? "" : " ") + info.cls->rule.factors[f].name;
      return names.empty() ? "" : " (factor " + names + ")";
    }
  return "";
}

/// What the second half of a message says if a reproducible plan does not cut the dimension as others do; else nothing.
std::string Mapper::leafNote(const FixedGroup &group, size_t input, size_t dim) const {
  for (int op : group.ops) {
    const OperatorInfo &info = function_.program.operators[op];
    const dist::ShardingRule &rule = info.cls->rule;
    // The operator's own rule has the same factors, and fewer.
    const dist::ShardingRule own = llvm::cantFail(cast<dist::ShardingRuleOpInterface>(info.op).getShardingRule());
    const int leaves = dist::leafFactor(rule);
    for (auto [o, value] : llvm::enumerate(info.op->getOperands())) {
      if (value != group.inputs[input])
        continue;
      if (leaves >= 0 && llvm::is_contained(rule.operands[o][dim], leaves))
        return llvm::formatv("; it is summed over in {0} leaves (--reproducible), of which every part needs as many",
                             rule.factors[leaves].size);
      for (int f : rule.operands[o][dim]) {
        if (size_t(f) >= own.factors.size())
          return llvm::formatv("; blocks of {0} of it stay together (--reproducible)", rule.factors[f].size);
        if (rule.factors[f].kind == dist::FactorKind::Whole && own.factors[f].kind != dist::FactorKind::Whole)
          return "; it stays whole (--reproducible)";
      }
    }
  }
  return "";
}

/// How the axes may cut a dimension of an input: in the unit that the user said; or else in plain blocks, and in the
/// units that the group's operators have for it.
llvm::SmallVector<Cut> Mapper::cutsBy(const FixedGroup &group, size_t input, size_t dim,
                                      llvm::ArrayRef<int> axes) const {
  const UserDim &wanted = (*said(group, input))[dim];
  llvm::SmallVector<int64_t> units = {std::max<int64_t>(1, wanted.unit)};
  for (int i : group.ops) {
    const OperatorInfo &info = function_.program.operators[i];
    for (size_t o = 0; o < info.op->getNumOperands() && !wanted.unit; ++o)
      if (info.op->getOperand(unsigned(o)) == group.inputs[input])
        llvm::append_range(units, dimensionUnits(*info.cls, info.cls->rule.operands[o][dim]));
  }
  const int64_t extent = shapeOf(group.inputs[input])[dim];
  llvm::SmallVector<Cut> cuts;
  for (int64_t unit : units)
    if (Sharding::canCut(extent, mesh_.size(axes), unit))
      if (Cut cut = Cut(axes, unit).canonical(mesh_, extent); !llvm::is_contained(cuts, cut))
        cuts.push_back(std::move(cut));
  return cuts;
}

llvm::Error Mapper::checkTensor(const FixedGroup &group, const char *side, size_t number, llvm::ArrayRef<int64_t> shape,
                                const UserTensor &tensor) const {
  if (!tensor)
    return llvm::Error::success();
  if (tensor->size() != shape.size())
    return fail(group, "{0} {1} has {2} dimensions but its strategy {3}; give one entry per dimension", side, number,
                shape.size(), tensor->size());
  int64_t product = 1;
  std::set<int> used;
  for (size_t d = 0; d < shape.size(); ++d) {
    const UserDim &dim = (*tensor)[d];
    int64_t count = dim.named ? 1 : dim.count;
    for (const std::string &name : dim.axes) {
      int axis = mesh_.findAxis(name);
      if (axis < 0)
        return fail(group, "mesh {0} has no axis '{1}'", mesh_.str(), name);
      if (!used.insert(axis).second)
        return fail(group, "axis '{0}' is used twice in {1} {2}", name, side, number);
      count *= mesh_.axisSize(axis);
    }
    product *= count;
    if (product > mesh_.numRanks())
      return fail(group, "{0} {1} is split in {2} parts or more but mesh {3} has {4} ranks", side, number, product,
                  mesh_.str(), mesh_.numRanks());
    if (!Sharding::canCut(shape[d], count, std::max<int64_t>(1, dim.unit))) {
      std::string note = side[0] == 'i' ? factorNote(group, number, d) : "";
      std::string units = dim.unit > 1 ? " in units of " + std::to_string(dim.unit) : "";
      return fail(group, "dimension {1}{2} of {3} {4} has {5} elements and cannot be split in {0}{6}", count, d, note,
                  side, number, shape[d], units);
    }
  }
  return llvm::Error::success();
}

void Mapper::run(const FixedGroup &group) {
  ++tries_;
  auto outside = [&](Value v) -> const Sharding * {
    for (size_t i = 0; i < group.inputs.size(); ++i)
      if (group.inputs[i] == v && seeds_[i])
        return &*seeds_[i];
    return nullptr;
  };
  propagate(function_.program, mesh_, group.ops, outside, scratch_, /*sliceKnown=*/false);
}

Sharding Mapper::needed(const FixedGroup &group, size_t input) const {
  const Program &program = function_.program;
  for (int i : group.ops) {
    const OperatorInfo &info = program.operators[i];
    for (size_t o = 0; o < info.op->getNumOperands(); ++o) {
      // The same value twice in one operator: one input each.
      bool hit = info.op->getOperand(unsigned(o)) == group.inputs[input];
      if (hit && group.ops.size() == 1 && group.inputs.size() == info.op->getNumOperands())
        hit = o == input;
      if (hit)
        return dist::operandSharding(mesh_, info.cls->rule, scratch_.strategies[i], int(o));
    }
  }
  return Sharding::replicated(int64_t(shapeOf(group.inputs[input]).size()));
}

bool Mapper::search(const FixedGroup &group, size_t input) {
  if (tries_ > kMaxTries)
    return false;
  if (input == group.inputs.size()) {
    run(group);
    for (size_t i = 0; i < seeds_.size(); ++i)
      if (seeds_[i] && !(needed(group, i) == *seeds_[i]))
        return false;
    return true;
  }
  if (seeds_[input] || !said(group, input))
    return search(group, input + 1);
  run(group);
  Sharding sharding = needed(group, input).withoutPartial();
  bool found = searchDims(group, input, 0, sharding);
  if (!found)
    seeds_[input].reset();
  return found;
}

bool Mapper::searchDims(const FixedGroup &group, size_t input, size_t dim, Sharding &sharding) {
  if (dim == sharding.dims.size()) {
    seeds_[input] = sharding;
    return search(group, input + 1);
  }
  const int64_t count = (*said(group, input))[dim].count, unit = (*said(group, input))[dim].unit;
  const Cut inherited = sharding.dims[dim];
  if (mesh_.size(inherited) == count)
    return (!unit || llvm::is_contained(cutsBy(group, input, dim, inherited), inherited)) &&
           searchDims(group, input, dim + 1, sharding);
  if (!inherited.empty())
    return false; // an earlier input cuts this factor otherwise
  // Subsets of the free axes with the product, those with early axes first.
  llvm::SmallVector<int> chosen;
  std::function<bool(int, int64_t)> pick = [&](int from, int64_t rest) -> bool {
    if (rest == 1) {
      for (Cut &cut : cutsBy(group, input, dim, chosen)) {
        sharding.dims[dim] = std::move(cut);
        if (searchDims(group, input, dim + 1, sharding))
          return true;
      }
      sharding.dims[dim].clear();
      return false;
    }
    for (int axis = from; axis < mesh_.numAxes(); ++axis) {
      int64_t size = mesh_.axisSize(axis);
      if (size == 1 || rest % size != 0 || sharding.uses(axis))
        continue;
      chosen.push_back(axis);
      if (pick(axis + 1, rest / size))
        return true;
      chosen.pop_back();
    }
    return false;
  };
  return pick(0, count);
}

/// The cut by the axes that the user named; those longer than one.
static Cut namedCut(const UserDim &dim, const Mesh &mesh, int64_t extent) {
  Cut cut;
  for (const std::string &name : dim.axes)
    if (int axis = mesh.findAxis(name); mesh.axisSize(axis) > 1)
      cut.push_back(axis);
  cut.unit = std::max<int64_t>(1, dim.unit);
  return cut.canonical(mesh, extent);
}

llvm::Error Mapper::seedNamed(const FixedGroup &group) {
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const UserTensor &tensor = said(group, i);
    if (!tensor)
      continue;
    bool named = llvm::all_of(*tensor, [](const UserDim &d) { return d.named; });
    if (!named)
      continue;
    Sharding s = Sharding::replicated(int64_t(tensor->size()));
    for (size_t d = 0; d < tensor->size(); ++d)
      s.dims[d] = namedCut((*tensor)[d], mesh_, shapeOf(group.inputs[i])[d]);
    seeds_[i] = std::move(s);
  }
  return llvm::Error::success();
}

llvm::Error Mapper::explain(const FixedGroup &group) {
  if (tries_ > kMaxTries)
    return fail(group, "no assignment of mesh axes was found in {0} tries; name the axes instead", kMaxTries);
  // Each input alone: what fails then is the input's own fault.
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const UserTensor &tensor = said(group, i);
    if (!tensor)
      continue;
    for (size_t d = 0; d < tensor->size(); ++d) {
      const UserDim &dim = (*tensor)[d];
      const int64_t extent = shapeOf(group.inputs[i])[d];
      Sharding s = Sharding::replicated(int64_t(tensor->size()));
      if (dim.named) {
        s.dims[d] = namedCut(dim, mesh_, extent);
      } else {
        std::function<bool(int, int64_t)> pick = [&](int from, int64_t rest) {
          if (rest == 1)
            return true;
          for (int axis = from; axis < mesh_.numAxes(); ++axis)
            if (mesh_.axisSize(axis) > 1 && rest % mesh_.axisSize(axis) == 0) {
              s.dims[d].push_back(axis);
              if (pick(axis + 1, rest / mesh_.axisSize(axis)))
                return true;
              s.dims[d].pop_back();
            }
          return false;
        };
        if (!pick(0, dim.count))
          return fail(group, "no axes of mesh {0} split dimension {1} of input {2} in {3} parts", mesh_.str(), d, i,
                      dim.count);
      }
      if (s.isReplicated())
        continue;
      auto fits = [&](const Cut &cut) {
        s.dims[d] = cut;
        seeds_.assign(group.inputs.size(), std::nullopt);
        seeds_[i] = s;
        run(group);
        return needed(group, i).dims[d] == cut;
      };
      const Cut asked = s.dims[d];
      llvm::SmallVector<Cut> tried = {asked};
      if (!dim.named)
        tried = cutsBy(group, i, d, asked);
      if (llvm::any_of(tried, fits))
        continue;
      std::string instead = leafNote(group, i, d);
      for (const Cut &cut : cutsBy(group, i, d, asked))
        if (dim.named && instead.empty() && fits(cut))
          instead =
              llvm::formatv("; it can in units of {0}: write \"{1}/{0}\"", cut.unit, llvm::join(dim.axes, "+")).str();
      return fail(group, "dimension {0}{1} of input {2}, whose extent is {3}, cannot be split in {4}{5}{6}", d,
                  factorNote(group, i, d), i, extent, mesh_.size(asked),
                  dim.unit > 1 ? " in units of " + std::to_string(dim.unit) : "", instead);
    }
  }
  return fail(group,
              "the splits of its inputs do not fit together on mesh {0}: a factor that two inputs "
              "share must be split alike, and an axis can split only one factor",
              mesh_.str());
}

llvm::Error Mapper::applyOut(FixedGroup &group) {
  const UserEntry &entry = *group.entry;
  if (!entry.hasOut)
    return llvm::Error::success();
  // The outputs as the model file counts them: what the group itself reads on is no end of it.
  llvm::SmallVector<Value> outputs;
  for (Value v : group.outputs)
    if (llvm::none_of(v.getUsers(), [&](Operation *user) {
          auto it = function_.program.index.find(user);
          return it != function_.program.index.end() && llvm::is_contained(group.ops, it->second);
        }))
      outputs.push_back(v);
  if (entry.out.size() > outputs.size())
    return fail(group, "it has {0} outputs but its strategy {1}", outputs.size(), entry.out.size());
  for (size_t r = 0; r < entry.out.size(); ++r) {
    const UserTensor &tensor = entry.out[r];
    if (!tensor)
      continue;
    auto result = cast<OpResult>(outputs[r]);
    Shape shape = shapeOf(result);
    if (llvm::Error e = checkTensor(group, "output", r, shape, tensor))
      return e;
    int i = function_.program.producer(result);
    const OperatorInfo &info = function_.program.operators[i];
    Strategy &strategy = scratch_.strategies[i];
    int number = int(result.getResultNumber());
    Sharding natural = dist::naturalResult(mesh_, info.cls->rule, strategy, number);
    Sharding wanted = natural.withoutPartial();
    for (size_t d = 0; d < tensor->size(); ++d) {
      const UserDim &dim = (*tensor)[d];
      if (dim.named) {
        wanted.dims[d] = namedCut(dim, mesh_, shape[d]);
        continue;
      }
      if (mesh_.size(wanted.dims[d]) == dim.count && !dim.unit)
        continue;
      // A dimension in more blocks takes axes over which the result is partial, and then free axes. A dimension in fewer
      // blocks loses its minor axes.
      while (mesh_.size(wanted.dims[d]) > dim.count)
        wanted.dims[d].pop_back();
      AxisList order = natural.partial;
      for (int axis = 0; axis < mesh_.numAxes(); ++axis)
        if (!llvm::is_contained(order, axis))
          order.push_back(axis);
      for (int axis : order) {
        int64_t now = mesh_.size(wanted.dims[d]);
        if (now < dim.count && mesh_.axisSize(axis) > 1 && !wanted.uses(axis) &&
            dim.count % (now * mesh_.axisSize(axis)) == 0)
          wanted.dims[d].push_back(axis);
      }
      if (mesh_.size(wanted.dims[d]) != dim.count)
        return fail(group, "no free axes of mesh {0} split dimension {1} of output {2} in {3} parts", mesh_.str(), d, r,
                    dim.count);
      wanted.dims[d].unit = std::max<int64_t>(1, dim.unit);
      wanted.dims[d] = wanted.dims[d].canonical(mesh_, shape[d]);
    }
    if (llvm::Error e = wanted.verify(mesh_, shape))
      return fail(group, "output {0}: {1}", r, llvm::toString(std::move(e)));
    if (wanted == natural)
      continue;
    if (strategy.results.empty())
      for (size_t k = 0; k < info.cls->rule.results.size(); ++k)
        strategy.results.push_back(dist::naturalResult(mesh_, info.cls->rule, strategy, int(k)).withoutPartial());
    strategy.results[number] = std::move(wanted);
  }
  return llvm::Error::success();
}

llvm::Error Mapper::map(FixedGroup &group) {
  collect(group);
  const UserEntry &entry = *group.entry;
  // Inputs at the end that the strategy does not mention must be vectors (a bias), which follow.
  bool few = entry.in.size() < group.inputs.size();
  for (size_t i = entry.in.size(); few && i < group.inputs.size(); ++i)
    if (shapeOf(group.inputs[i]).size() > 1)
      return fail(group, "it has {0} inputs but its strategy {1}; null leaves an input open", group.inputs.size(),
                  entry.in.size());
  // A later function (inference beside training) may have lost or reordered inputs of a group; there the
  // parameters lie as the first function says and the rest is taken in order.
  bool later = llvm::any_of(group.inputs, [&](Value v) {
    auto arg = dyn_cast<BlockArgument>(v);
    return arg && function_.isPersistent(arg.getArgNumber()) && shared_.contains(function_.argName(arg.getArgNumber()));
  });
  seeds_.assign(group.inputs.size(), std::nullopt);
  tries_ = 0;
  if (later) {
    for (size_t i = 0; i < group.inputs.size(); ++i)
      if (auto arg = dyn_cast<BlockArgument>(group.inputs[i]); arg && function_.isPersistent(arg.getArgNumber()))
        if (auto it = shared_.find(function_.argName(arg.getArgNumber())); it != shared_.end())
          seeds_[i] = it->second;
  } else if (entry.in.size() > group.inputs.size()) {
    return fail(group, "it has {0} inputs but its strategy {1}", group.inputs.size(), entry.in.size());
  }
  UserEntry open; // for a later function: what cannot be matched is left open
  if (later) {
    open = entry;
    open.in.resize(group.inputs.size());
    for (size_t i = 0; i < group.inputs.size(); ++i)
      if (seeds_[i] || (open.in[i] && open.in[i]->size() != shapeOf(group.inputs[i]).size()))
        open.in[i] = std::nullopt;
    group.entry = &open;
  }
  auto finish = [&]() -> llvm::Error {
    for (size_t i = 0; i < group.inputs.size(); ++i)
      if (llvm::Error e = checkTensor(group, "input", i, shapeOf(group.inputs[i]), said(group, i)))
        return e;
    if (llvm::Error e = seedNamed(group))
      return e;
    if (!search(group, 0)) {
      if (!later)
        return explain(group);
      // Parameters came out otherwise than this function alone would have them: reshard at the edge.
      for (auto &seed : seeds_)
        seed.reset();
      if (llvm::Error e = seedNamed(group))
        return e;
      if (!search(group, 0))
        return explain(group);
    }
    for (size_t i = 0; i < group.inputs.size(); ++i)
      group.wanted.push_back(needed(group, i));
    return applyOut(group);
  };
  llvm::Error e = finish();
  group.entry = &entry;
  if (e)
    return e;
  for (int i : group.ops) {
    const OperatorInfo &info = function_.program.operators[i];
    if (llvm::Error bad = dist::verifyStrategy(info.cls->rule, scratch_.strategies[i], mesh_, info.cls->operandShapes,
                                               info.cls->resultShapes))
      return fail(group, llvm::toString(std::move(bad)));
    out_.strategies[i] = scratch_.strategies[i];
  }
  return llvm::Error::success();
}

} // namespace

llvm::Error checkNames(ModuleOp module, const UserStrategies &user) {
  std::vector<std::string> nodes;
  llvm::StringSet<> known;
  for (func::FuncOp func : module.getOps<func::FuncOp>())
    for (std::string &node : nodesOf(func))
      if (known.insert(node).second)
        nodes.push_back(std::move(node));
  std::vector<std::string> given;
  for (const UserEntry &entry : user.entries)
    given.push_back(entry.op);
  for (const UserStage &entry : user.stages)
    given.push_back(entry.op);
  for (const std::string &op : given) {
    if (!matching(nodes, op).empty())
      continue;
    std::vector<std::pair<unsigned, size_t>> near;
    for (size_t i = 0; i < nodes.size(); ++i)
      near.push_back({llvm::StringRef(nodes[i]).edit_distance(op), i});
    llvm::sort(near);
    std::string list;
    for (size_t i = 0; i < near.size() && i < 3; ++i)
      list += (i ? ", '" : "'") + nodes[near[i].second] + "'";
    return llvm::createStringError("%s", ("strategy file " + user.origin + ": the model has no operator '" + op +
                                          "'; the nearest names are " + list)
                                             .c_str());
  }
  return llvm::Error::success();
}

std::vector<std::string> operatorsOf(func::FuncOp func, llvm::StringRef op) {
  const std::vector<std::string> nodes = nodesOf(func);
  const std::vector<std::string> roots = matching(nodes, op.str());
  std::vector<std::string> names;
  for (const std::string &node : nodes)
    if (llvm::any_of(roots, [&](const std::string &root) { return belongsTo(node, root); }))
      names.push_back(node);
  return names;
}

llvm::Expected<std::map<std::string, int>> givenStages(ModuleOp module, const UserStrategies &user) {
  std::map<std::string, int> stages;
  if (user.stages.empty())
    return stages;
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    std::map<std::string, const UserStage *> by;
    for (const UserStage &entry : user.stages)
      for (const std::string &node : operatorsOf(func, entry.op)) {
        const UserStage *&other = by[node];
        if (other && other->stage != entry.stage)
          return llvm::createStringError(
              "strategy file %s: operator '%s' has two stages: %lld by '%s' and %lld by '%s'", user.origin.c_str(),
              node.c_str(), (long long)other->stage, other->op.c_str(), (long long)entry.stage, entry.op.c_str());
        other = &entry;
        stages[node] = int(entry.stage);
      }
  }
  return stages;
}

llvm::Expected<FixedStrategies> mapUserStrategies(const FunctionAssignment &function, const Mesh &mesh,
                                                  const UserStrategies &user, const SharedShardings &shared) {
  const Program &program = function.program;
  FixedStrategies fixed;
  fixed.groupOf.assign(program.operators.size(), -1);
  if (user.entries.empty())
    return fixed;
  fixed.strategies.resize(program.operators.size());
  const std::vector<std::string> nodes = nodesOf(program.func);
  Mapper mapper(function, mesh, shared, fixed);
  for (const UserEntry &entry : user.entries)
    for (const std::string &node : matching(nodes, entry.op)) {
      FixedGroup group;
      group.name = node;
      group.entry = &entry;
      for (size_t i = 0; i < program.operators.size(); ++i) {
        Operation *op = program.operators[i].op;
        if (op->hasAttr(graph::kGradOfAttr) || !op->hasAttr(graph::kNameAttr) ||
            !belongsTo(program.operators[i].name, node))
          continue;
        if (fixed.groupOf[i] >= 0) {
          // An entry with the name itself wins over a pattern that came first or comes later.
          const std::string &other = fixed.groups[fixed.groupOf[i]].entry->op;
          return llvm::createStringError(
              "%s", ("operator '" + node + "' has two strategies: '" + other + "' and '" + entry.op + "'; give it one")
                        .c_str());
        }
        group.ops.push_back(int(i));
      }
      for (int i : group.ops)
        fixed.groupOf[i] = int(fixed.groups.size());
      if (llvm::Error e = mapper.map(group))
        return e;
      fixed.groups.push_back(std::move(group));
    }
  return fixed;
}

} // namespace tessera::strategies
