#include "strategies/graph/BuildGraph.h"

#include "dialects/dist/ReshardedValues.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/MemoryLoad.h"
#include "strategies/space/LiveRanges.h"

#include <set>
#include <unordered_map>

using namespace mlir;

namespace tessera::strategies {

namespace {

/// Numbers for things that repeat.
template <typename T> class Interner {
public:
  int operator()(const T &value) { return ids_.try_emplace(value, int(ids_.size())).first->second; }
  size_t size() const { return ids_.size(); }

private:
  std::map<T, int> ids_;
};

class Builder {
public:
  Builder(const FunctionAssignment &function, const CostModel &model, const FixedStrategies *fixed,
          const SharedShardings &shared, int64_t memoryLimit, size_t maxOptions)
      : function_(function), program_(function.program), batch_(function.program), model_(model), fixed_(fixed),
        shared_(shared), memoryLimit_(memoryLimit), maxOptions_(maxOptions) {}

  BuiltGraph run() {
    llvm::SmallVector<bool> isHead(program_.operators.size(), false);
    for (size_t i = 0; fixed_ && i < isHead.size(); ++i)
      isHead[i] = fixed_->groupOf[i] >= 0;
    built_.groups = formFollowGroups(function_, isHead);
    addNodes();
    addEdges();
    addMemory();
    return std::move(built_);
  }

private:
  const FollowGroup &group(int c) const { return built_.groups.list[c]; }
  const GroupOptions &options(int c) const { return *built_.options[c]; }

  void addNodes() {
    OptionBuilder builder(function_, built_.groups, model_, batch_, fixed_, maxOptions_);
    for (size_t c = 0; c < built_.groups.list.size(); ++c) {
      const Sharding *pinned = nullptr;
      int arg = group(int(c)).arg;
      if (arg >= 0 && function_.isPersistent(unsigned(arg)))
        if (auto it = shared_.find(function_.argName(unsigned(arg))); it != shared_.end())
          pinned = &it->second;
      built_.options.push_back(builder.options(int(c), pinned));
      StrategyNode node;
      node.name = arg >= 0 ? function_.argName(unsigned(arg)) : program_.operators[group(int(c)).ops.front()].name;
      for (const GroupOption &option : options(int(c)))
        node.costs.push_back(option.cost);
      built_.node.push_back(built_.graph.addNode(std::move(node)));
    }
  }

  /// How group `c` hands on the value under each of its options.
  std::vector<int> handed(int c, Value value) {
    std::vector<int> ids;
    int producer = program_.producer(value);
    for (const GroupOption &option : options(c)) {
      if (producer < 0) {
        ids.push_back(sharding(option.arg));
        continue;
      }
      ids.push_back(sharding(dist::resultSharding(program_.operators[producer].cls->rule,
                                                  option.strategies[position(c, producer)],
                                                  int(cast<OpResult>(value).getResultNumber()))));
    }
    return ids;
  }

  size_t position(int c, int op) const { return size_t(llvm::lower_bound(group(c).ops, op) - group(c).ops.begin()); }

  int sharding(const Sharding &s) {
    int id = shardingIds_(s);
    if (size_t(id) == shardings_.size())
      shardings_.push_back(s);
    return id;
  }

  Cost reshard(Value value, int shapeId, int from, int to) {
    if (from == to)
      return 0;
    uint64_t key = (uint64_t(shapeId) << 42) | (uint64_t(from) << 21) | uint64_t(to);
    auto [it, fresh] = reshards_.try_emplace(key, 0);
    if (fresh)
      it->second = model_.reshard(shapeOf(value), elementBytes(value.getType()), shardings_[from], shardings_[to]);
    return it->second;
  }

  using Matrix = std::vector<Cost>;

  /// Cost of the value's way from group p to group c; `wants[j]`: the distinct shardings under which
  /// option j of c takes it.
  std::shared_ptr<const Matrix> matrix(Value value, int p, const std::vector<std::vector<int>> &wants) {
    std::vector<int> from = handed(p, value);
    std::vector<int64_t> shapeKey = {elementBytes(value.getType())};
    for (int64_t d : shapeOf(value))
      shapeKey.push_back(d);
    int shapeId = shapeIds_(shapeKey);
    std::vector<int> key = {shapeId, int(from.size())};
    key.insert(key.end(), from.begin(), from.end());
    for (const std::vector<int> &w : wants) {
      key.push_back(-1);
      key.insert(key.end(), w.begin(), w.end());
    }
    std::shared_ptr<const Matrix> &known = matrices_[key];
    if (!known) {
      auto made = std::make_shared<Matrix>(from.size() * wants.size(), 0);
      for (size_t i = 0; i < from.size(); ++i)
        for (size_t j = 0; j < wants.size(); ++j) {
          Cost sum = 0;
          dist::ReshardedValues book(model_.mesh());
          for (int to : wants[j])
            if (wants[j].size() == 1 || book.want(nullptr, shardings_[from[i]], shardings_[to]).first)
              sum = std::min(kForbidden, sum + reshard(value, shapeId, from[i], to));
          (*made)[i * wants.size() + j] = sum;
        }
      known = std::move(made);
    }
    return known;
  }

  void addTo(int p, int c, Value value, const std::shared_ptr<const Matrix> &matrix) {
    const Matrix &m = *matrix;
    if (llvm::all_of(m, [](Cost x) { return x == 0; }))
      return;
    size_t np = options(p).size(), nc = options(c).size();
    auto [it, fresh] = edges_.try_emplace({std::min(p, c), std::max(p, c)});
    Matrix &sum = it->second.first;
    if (batch_.values.contains(value))
      it->second.second.push_back({matrix, p > c});
    if (fresh)
      sum.assign(np * nc, 0);
    for (size_t i = 0; i < np; ++i)
      for (size_t j = 0; j < nc; ++j) {
        Cost &cell = p < c ? sum[i * nc + j] : sum[j * np + i];
        cell = std::min(kForbidden, cell + m[i * nc + j]);
      }
  }

  /// How a group reads a value of another group.
  struct Reads {
    Value value;
    std::vector<std::pair<int, int>> places; // operators and their operands, in program order
    bool isUpdate;                           // it is also the new value of the group's argument
  };

  std::vector<Reads> readsFromOthers(int c) const {
    std::vector<Reads> reads;
    llvm::DenseMap<Value, size_t> at; // looked up only
    auto of = [&](Value v) -> Reads * {
      if (int p = built_.groups.of(program_, v); p < 0 || p == c)
        return nullptr;
      auto [it, fresh] = at.try_emplace(v, reads.size());
      if (fresh)
        reads.push_back({v, {}, false});
      return &reads[it->second];
    };
    for (int i : group(c).ops)
      for (OpOperand &operand : program_.operators[i].op->getOpOperands())
        if (Reads *read = of(operand.get()))
          read->places.push_back({i, int(operand.getOperandNumber())});
    if (group(c).arg < 0)
      return reads;
    if (auto r = graph::updateOf(program_.func, unsigned(group(c).arg)))
      if (Reads *read = of(program_.returnOp()->getOperand(*r)))
        read->isUpdate = true;
    return reads;
  }

  void addEdges() {
    for (size_t c = 0; c < built_.groups.list.size(); ++c)
      for (const Reads &reads : readsFromOthers(int(c))) {
        std::vector<std::vector<int>> wants;
        for (const GroupOption &option : options(int(c))) {
          std::set<int> distinct;
          for (auto [op, operand] : reads.places)
            distinct.insert(sharding(dist::operandSharding(program_.operators[op].cls->rule,
                                                           option.strategies[position(int(c), op)], operand)));
          if (reads.isUpdate)
            distinct.insert(sharding(option.arg));
          wants.emplace_back(distinct.begin(), distinct.end());
        }
        const int p = built_.groups.of(program_, reads.value);
        addTo(p, int(c), reads.value, matrix(reads.value, p, wants));
      }
    for (auto &[pair, edge] : edges_) {
      built_.graph.addEdge(built_.node[pair.first], built_.node[pair.second], std::move(edge.first));
      built_.growing.push_back(std::move(edge.second));
    }
  }

  /// Bytes that are live only while the operator runs, by option of its group; empty: none.
  std::vector<int64_t> transient(int op) {
    int c = built_.groups.ofOp[op];
    size_t at = position(c, op);
    std::vector<int64_t> bytes;
    for (const GroupOption &option : options(c))
      bytes.push_back(option.transient[at]);
    return llvm::any_of(bytes, [](int64_t b) { return b > 0; }) ? bytes : std::vector<int64_t>();
  }

  /// What a group keeps in memory for a while.
  struct Live {
    int group;
    std::vector<int64_t> bytes; // per option
    LiveRange range;
  };

  std::vector<int64_t> bytesOf(int c, Value v) {
    std::vector<int64_t> bytes;
    for (int id : handed(c, v))
      bytes.push_back(model_.localBytes(shapeOf(v), elementBytes(v.getType()), shardings_[id]));
    return bytes;
  }

  std::vector<Live> findLives() {
    std::vector<Live> lives;
    const LiveRanges ranges(program_);
    func::FuncOp func = program_.func;
    for (unsigned a = 0; a < function_.args.size(); ++a) {
      int c = built_.groups.ofArg[a];
      lives.push_back({c, bytesOf(c, func.getArgument(a)), ranges.argument(a)});
    }
    for (size_t i = 0; i < program_.operators.size(); ++i) {
      int c = built_.groups.ofOp[i];
      if (c < 0)
        continue;
      if (std::vector<int64_t> bytes = transient(int(i)); !bytes.empty())
        lives.push_back({c, std::move(bytes), {ranges.time(int(i)), ranges.time(int(i))}});
      for (Value v : program_.operators[i].op->getResults()) {
        // What updates the group's own argument lies as that does.
        std::optional<LiveRange> range = ranges.result(v, [&](unsigned arg) { return int(arg) == group(c).arg; });
        if (range)
          lives.push_back({c, bytesOf(c, v), *range});
      }
    }
    return lives;
  }

  /// Even if every group took its most wasteful option.
  static bool mustFit(const std::vector<Live> &lives, int64_t limit) {
    graph::MemoryLoad most;
    for (const Live &live : lives)
      most.add(live.range.from, live.range.to, *std::max_element(live.bytes.begin(), live.bytes.end()));
    return most.peak().bytes <= limit;
  }

  void addMemory() {
    std::vector<Live> lives = findLives();
    if (mustFit(lives, memoryLimit_))
      return;
    StrategyGraph &graph = built_.graph;
    graph.memoryLimit = memoryLimit_;
    for (Live &live : lives) {
      const int64_t from = live.range.from, to = live.range.to + 1;
      int32_t n = built_.node[live.group];
      StrategyNode &node = graph.nodes[n];
      if (node.usages.empty()) {
        node.usages = std::move(live.bytes);
        node.liveFrom = from;
        node.liveTo = to;
        continue;
      }
      if (node.liveFrom == from && node.liveTo == to) {
        for (size_t k = 0; k < node.usages.size(); ++k)
          node.usages[k] += live.bytes[k];
        continue;
      }
      StrategyNode extra;
      extra.name = node.name;
      extra.costs.assign(node.costs.size(), 0);
      extra.usages = std::move(live.bytes);
      extra.liveFrom = from;
      extra.liveTo = to;
      graph.aliases.push_back({n, graph.addNode(std::move(extra))});
    }
  }

  const FunctionAssignment &function_;
  const Program &program_;
  const BatchDependence batch_;
  const CostModel &model_;
  const FixedStrategies *fixed_;
  const SharedShardings &shared_;
  int64_t memoryLimit_;
  size_t maxOptions_;
  BuiltGraph built_;
  Interner<Sharding> shardingIds_;
  std::vector<Sharding> shardings_;
  Interner<std::vector<int64_t>> shapeIds_;
  std::unordered_map<uint64_t, Cost> reshards_; // looked up only
  std::map<std::vector<int>, std::shared_ptr<const Matrix>> matrices_;
  std::map<std::pair<int, int>, std::pair<Matrix, std::vector<BuiltGraph::Growing>>> edges_;
};

} // namespace

BuiltGraph buildGraph(const FunctionAssignment &function, const CostModel &model, const FixedStrategies *fixed,
                      const SharedShardings &shared, int64_t memoryLimit, size_t maxOptions) {
  return Builder(function, model, fixed, shared, memoryLimit, maxOptions).run();
}

/// Sources make what their users want, if these agree. Users come later, so from the back.
static void assignSources(FunctionAssignment &function, const Mesh &mesh, const BuiltGraph &built) {
  const Program &program = function.program;
  for (size_t i = program.operators.size(); i-- > 0;) {
    if (built.groups.ofOp[i] >= 0)
      continue;
    const OperatorInfo &info = program.operators[i];
    Strategy strategy;
    strategy.factors.resize(info.cls->rule.factors.size());
    if (info.op->getNumResults() == 1) {
      Value result = info.op->getResult(0);
      std::optional<Sharding> wanted;
      bool agree = true;
      for (OpOperand &use : result.getUses()) {
        auto it = program.index.find(use.getOwner());
        Sharding needs = it == program.index.end() ? Sharding::replicated(int64_t(shapeOf(result).size()))
                                                   : dist::operandSharding(program.operators[it->second].cls->rule,
                                                                           function.assignment.strategies[it->second],
                                                                           int(use.getOperandNumber()))
                                                         .withoutPartial();
        agree &= !wanted || *wanted == needs;
        wanted = std::move(needs);
      }
      if (wanted && agree) {
        llvm::SmallVector<const Sharding *> none(info.op->getNumOperands(), nullptr);
        strategy = strategyFrom(*info.cls, mesh, none, {&*wanted});
      }
    }
    for (unsigned r = 0; r < info.op->getNumResults(); ++r)
      function.assignment.values[info.op->getResult(r)] = dist::resultSharding(info.cls->rule, strategy, int(r));
    function.assignment.strategies[i] = std::move(strategy);
  }
}

void applyChoice(FunctionAssignment &function, const Mesh &mesh, const BuiltGraph &built, const Choice &choice) {
  const Program &program = function.program;
  for (size_t c = 0; c < built.groups.list.size(); ++c) {
    const FollowGroup &group = built.groups.list[c];
    const GroupOption &option = (*built.options[c])[size_t(choice[built.node[c]])];
    if (group.arg >= 0)
      function.setArg(unsigned(group.arg), option.arg);
    for (size_t m = 0; m < group.ops.size(); ++m) {
      int i = group.ops[m];
      const OperatorInfo &info = program.operators[i];
      function.assignment.strategies[i] = option.strategies[m];
      for (unsigned r = 0; r < info.op->getNumResults(); ++r)
        function.assignment.values[info.op->getResult(r)] =
            dist::resultSharding(info.cls->rule, option.strategies[m], int(r));
    }
  }
  assignSources(function, mesh, built);
}

void nameDataParallel(BuiltGraph &built, const FunctionAssignment &data) {
  StrategyGraph &graph = built.graph;
  graph.dataParallel.assign(graph.nodes.size(), 0);
  for (size_t c = 0; c < built.groups.list.size(); ++c) {
    const FollowGroup &group = built.groups.list[c];
    size_t most = 0;
    for (size_t k = 0; k < built.options[c]->size(); ++k) {
      const GroupOption &option = (*built.options[c])[k];
      size_t alike = group.arg >= 0 && option.arg == data.args[group.arg];
      for (size_t m = 0; m < group.ops.size(); ++m) {
        // Cut alike is what matters; a sum that is not reduced here is reduced on the way to its reader.
        const Strategy &mine = option.strategies[m], &wanted = data.assignment.strategies[group.ops[m]];
        alike += mine == wanted ? 3 : mine.factors == wanted.factors ? 2 : 0;
      }
      if (alike > most) {
        most = alike;
        graph.dataParallel[size_t(built.node[c])] = int32_t(k);
      }
    }
  }
  for (auto [node, other] : graph.aliases)
    graph.dataParallel[size_t(other)] = graph.dataParallel[size_t(node)];
}

} // namespace tessera::strategies
