#include "strategies/report/Report.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/GraphOrigin.h"

#include "llvm/ADT/StringExtras.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace mlir;

namespace tessera::strategies {

using Json = nlohmann::ordered_json;

double SearchReport::gap() const { return cost > 0 ? double(cost - lowerBound) / double(cost) : 0.0; }

Cost OperatorReport::communication() const {
  Cost sum = 0;
  for (const CollectiveReport &c : collectives)
    sum += c.cost;
  return sum;
}

const FunctionReport *AssignReport::find(llvm::StringRef function) const {
  for (const FunctionReport &f : functions)
    if (f.name == function)
      return &f;
  return nullptr;
}

CollectiveReport describe(const CostModel &model, const dist::Collective &c, int64_t elementBytes, std::string where) {
  CollectiveReport r;
  r.where = std::move(where);
  r.kind = dist::stringify(c.kind).str();
  for (int axis : c.axes)
    r.axes += (r.axes.empty() ? "" : ",") + model.mesh().axisName(axis).str();
  r.localIn = c.localIn;
  r.localOut = c.localOut;
  r.elementBytes = elementBytes;
  r.bytesSent = dist::bytesSent(model.mesh(), c, elementBytes);
  r.cost = model.collective(c, elementBytes);
  return r;
}

namespace {

/// Prices each (value, wanted sharding) once, at the first consumer: later ones share the result.
class Reshards {
public:
  Reshards(const CostModel &model) : model_(model) {}

  /// `made`: when the value is there; `used`: when it is wanted like this.
  void add(Value value, const Sharding &from, const Sharding &to, const std::string &where, int64_t made, int64_t used,
           std::vector<CollectiveReport> &out) {
    if (from == to)
      return;
    for (auto &[sharding, copy] : done_[value])
      if (sharding == to) {
        copies_[copy].to = std::max(copies_[copy].to, used);
        return;
      }
    done_[value].push_back({to, copies_.size()});
    int64_t bytes = elementBytes(value.getType());
    copies_.push_back({from.isPartial() ? made : used, used, model_.localBytes(shapeOf(value), bytes, to)});
    for (const dist::Collective &c : model_.planReshard(shapeOf(value), bytes, from, to))
      out.push_back(describe(model_, c, bytes, where));
  }

  /// What they leave in memory, from the first use to the last one.
  struct Copy {
    int64_t from, to, bytes;
  };
  const std::vector<Copy> &copies() const { return copies_; }

private:
  const CostModel &model_;
  llvm::DenseMap<Value, llvm::SmallVector<std::pair<Sharding, size_t>, 2>> done_;
  std::vector<Copy> copies_;
};

llvm::Expected<Sharding> shardingAttr(Attribute attr, const Mesh &mesh, const std::string &what) {
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
  if (!sharding)
    return llvm::createStringError("%s carries no sharding", what.c_str());
  return sharding.resolve(mesh);
}

} // namespace

llvm::Expected<FunctionReport> priceFunction(func::FuncOp func, const CostModel &model) {
  const Mesh &mesh = model.mesh();
  llvm::Expected<Program> program = Program::analyse(func);
  if (!program)
    return program.takeError();
  FunctionReport report;
  report.name = func.getName().str();
  llvm::DenseMap<Value, Sharding> values;
  for (unsigned a = 0; a < func.getNumArguments(); ++a) {
    auto s =
        shardingAttr(func.getArgAttr(a, dist::kShardingAttr), mesh, "argument '" + graph::argName(func, a).str() + "'");
    if (!s)
      return s.takeError();
    Value arg = func.getArgument(a);
    llvm::StringRef role = graph::argRole(func, a);
    if (role == graph::kParameter || role == graph::kState)
      report.persistentBytes += model.localBytes(shapeOf(arg), elementBytes(arg.getType()), *s);
    values[arg] = std::move(*s);
  }
  std::vector<Strategy> strategies;
  for (const OperatorInfo &info : program->operators) {
    llvm::Expected<Strategy> strategy = dist::getStrategy(info.op, info.cls->rule, mesh);
    if (!strategy)
      return strategy.takeError();
    for (unsigned r = 0; r < info.op->getNumResults(); ++r)
      values[info.op->getResult(r)] = dist::resultSharding(info.cls->rule, *strategy, int(r));
    strategies.push_back(std::move(*strategy));
  }
  // Fusion keeps a value out of memory if it is computed point by point and read only by operators of one
  // pass over the same blocks.
  llvm::DenseMap<Value, bool> known; // a learning rate is read by every update
  auto isVirtual = [&](Value v) {
    auto [it, fresh] = known.try_emplace(v, false);
    if (!fresh)
      return it->second;
    int producer = program->producer(v);
    bool result = producer >= 0 && llvm::all_of(v.getUses(), [&](OpOperand &use) {
                    auto it = program->index.find(use.getOwner());
                    return it != program->index.end() && program->mayFuse(producer, it->second) &&
                           dist::operandSharding(program->operators[it->second].cls->rule, strategies[it->second],
                                                 int(use.getOperandNumber())) == values[v];
                  });
    return known[v] = result;
  };
  Reshards reshards(model);
  // Live bytes: a result lives from its operator to its last use.
  const std::vector<int64_t> time = program->schedule();
  const int64_t end = int64_t(program->operators.size());
  std::vector<int64_t> change(size_t(end) + 2, 0);
  auto live = [&](int64_t from, int64_t to, int64_t bytes) {
    change[size_t(from)] += bytes;
    change[size_t(to) + 1] -= bytes;
  };
  llvm::DenseMap<unsigned, Value> updated; // result -> argument
  for (unsigned a = 0; a < func.getNumArguments(); ++a) {
    Value arg = func.getArgument(a);
    if (auto r = graph::updateOf(func, a))
      updated[*r] = arg;
    llvm::StringRef role = graph::argRole(func, a);
    if (role == graph::kParameter || role == graph::kState)
      continue;
    int64_t last = 0;
    for (const ValueUse &use : program->uses(arg))
      last = std::max(last, time[use.op]);
    live(0, last, model.localBytes(shapeOf(arg), elementBytes(arg.getType()), values[arg]));
  }
  for (size_t i = 0; i < program->operators.size(); ++i) {
    const OperatorInfo &info = program->operators[i];
    const OperatorClass &cls = *info.cls;
    const Strategy *strategy = &strategies[i];
    double streamed = 0; // bytes through memory
    bool writes = info.op->getNumResults() == 0;
    OperatorReport r;
    r.name = info.name;
    r.kind = info.op->getName().stripDialect().str();
    r.gradientOf = graph::gradientOf(info.op).str();
    r.updateOf = graph::parameterUpdatedBy(info.op).str();
    r.strategy = dist::strategyText(*strategy, cls.rule, mesh);
    r.rule = cls.rule.str();
    r.globalOperands.assign(cls.operandShapes.begin(), cls.operandShapes.end());
    r.globalResults.assign(cls.resultShapes.begin(), cls.resultShapes.end());
    llvm::SmallVector<Shape> operands = localOperands(cls, mesh, *strategy);
    llvm::SmallVector<Shape> results = localResults(cls, mesh, *strategy);
    r.flops = cast<dist::ShardingRuleOpInterface>(info.op).getFlops(operands, results);
    for (size_t o = 0; o < operands.size(); ++o) {
      Sharding needs = dist::operandSharding(cls.rule, *strategy, int(o));
      Value v = info.op->getOperand(unsigned(o));
      auto it = values.find(v);
      int producer = program->producer(v);
      if (!dist::canReshard(mesh, it->second, needs))
        return llvm::createStringError("function '" + report.name + "': operator '" + info.name + "' expects operand " +
                                       llvm::Twine(o) + " " + dist::notOwed(mesh, it->second, needs));
      reshards.add(v, it->second, needs, "operand " + std::to_string(o), producer < 0 ? 0 : time[producer], time[i],
                   r.collectives);
      r.operands.push_back(needs.str(mesh));
      int64_t bytes = numElements(operands[o]) * cls.operandBytes[o];
      r.bytes += bytes;
      if (!isVirtual(v))
        streamed += double(bytes);
    }
    for (OwnCollective &own : model.ownCollectives(cls, *strategy)) {
      live(time[i], time[i],
           own.elementBytes * numElements(own.result < 0 ? own.collective.localOut : own.collective.localIn));
      r.collectives.push_back(describe(model, own.collective, own.elementBytes,
                                       own.operand >= 0     ? "operand " + std::to_string(own.operand)
                                       : own.statistic >= 0 ? "statistic " + std::to_string(own.statistic)
                                                            : "result " + std::to_string(own.result)));
    }
    for (size_t o = 0; o < results.size(); ++o) {
      Sharding handed = dist::resultSharding(cls.rule, *strategy, int(o));
      Value v = info.op->getResult(unsigned(o));
      int64_t last = time[i];
      bool inPlace = false; // of what it updates
      for (OpOperand &use : v.getUses()) {
        auto it = program->index.find(use.getOwner());
        if (it != program->index.end()) {
          last = std::max(last, time[it->second]);
          continue;
        }
        auto update = updated.find(use.getOperandNumber());
        if (update != updated.end() && values[update->second] == handed)
          inPlace = true;
        else
          last = end;
      }
      if (!inPlace && !isVirtual(v))
        live(time[i], last, model.localBytes(cls.resultShapes[o], cls.resultBytes[o], handed));
      r.results.push_back(handed.str(mesh));
      int64_t written = numElements(results[o]) * cls.resultBytes[o];
      r.bytes += written;
      if (!isVirtual(v)) {
        streamed += double(written);
        writes = true;
      }
    }
    r.localOperands.assign(operands.begin(), operands.end());
    r.localResults.assign(results.begin(), results.end());
    // An operator inside a fused loop has no launch of its own.
    Cost launch = writes ? 0 : Cost(model.topology().launch * 1e9);
    r.compute = std::max<Cost>(0, model.compute(cls, *strategy, streamed) - launch);
    report.compute += r.compute;
    report.operators.push_back(std::move(r));
  }
  Operation *terminator = program->returnOp();
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
    auto s = shardingAttr(func.getResultAttr(i, dist::kShardingAttr), mesh,
                          "result " + std::to_string(i) + " of '" + report.name + "'");
    if (!s)
      return s.takeError();
    Value v = terminator->getOperand(i);
    int producer = program->producer(v);
    if (const Sharding &have = values.find(v)->second; !dist::canReshard(mesh, have, *s))
      return llvm::createStringError("function '" + report.name + "': result '" + graph::resultName(func, i) +
                                     "' is expected " + dist::notOwed(mesh, have, *s));
    reshards.add(v, values.find(v)->second, *s, "result '" + graph::resultName(func, i).str() + "'",
                 producer < 0 ? 0 : time[producer], updated.contains(i) && producer >= 0 ? time[producer] : end,
                 report.boundary);
  }
  for (const Reshards::Copy &copy : reshards.copies())
    live(copy.from, std::max(copy.from, copy.to), copy.bytes);
  int64_t now = 0, peak = 0;
  for (int64_t c : change)
    peak = std::max(peak, now += c);
  report.peakBytes = report.persistentBytes + peak;
  auto count = [&](const std::vector<CollectiveReport> &list) {
    for (const CollectiveReport &c : list) {
      report.communication += c.cost;
      report.bytesSent += c.bytesSent;
      report.numCollectives += dist::communicates(*dist::parseCollectiveKind(c.kind));
    }
  };
  for (const OperatorReport &r : report.operators)
    count(r.collectives);
  count(report.boundary);
  return report;
}

namespace {

Json toJson(const std::vector<Shape> &shapes) {
  Json list = Json::array();
  for (const Shape &s : shapes)
    list.push_back(std::vector<int64_t>(s.begin(), s.end()));
  return list;
}

Json toJson(const std::vector<CollectiveReport> &collectives) {
  Json list = Json::array();
  for (const CollectiveReport &c : collectives)
    list.push_back({{"where", c.where},
                    {"kind", c.kind},
                    {"axes", c.axes},
                    {"local_in", std::vector<int64_t>(c.localIn.begin(), c.localIn.end())},
                    {"local_out", std::vector<int64_t>(c.localOut.begin(), c.localOut.end())},
                    {"element_bytes", c.elementBytes},
                    {"bytes_sent", c.bytesSent},
                    {"cost_ns", c.cost}});
  return list;
}

} // namespace

Json toJson(const AssignReport &report) {
  Json functions = Json::array();
  for (const FunctionReport &f : report.functions) {
    Json operators = Json::array();
    for (const OperatorReport &r : f.operators) {
      operators.push_back({{"name", r.name},
                           {"kind", r.kind},
                           {"strategy", r.strategy},
                           {"rule", r.rule},
                           {"operands", r.operands},
                           {"results", r.results},
                           {"global_operands", toJson(r.globalOperands)},
                           {"global_results", toJson(r.globalResults)},
                           {"local_operands", toJson(r.localOperands)},
                           {"local_results", toJson(r.localResults)},
                           {"flops", r.flops},
                           {"bytes", r.bytes},
                           {"compute_ns", r.compute},
                           {"communication_ns", r.communication()},
                           {"collectives", toJson(r.collectives)}});
      for (auto [field, of] : {std::pair("gradient_of", &r.gradientOf), std::pair("update_of", &r.updateOf)})
        if (!of->empty())
          operators.back()[field] = *of;
      auto it = f.search.alternatives.find(int(&r - f.operators.data()));
      if (it == f.search.alternatives.end())
        continue;
      Json &list = operators.back()["alternatives"] = Json::array();
      for (const Alternative &a : it->second)
        list.push_back({{"strategy", a.strategy},
                        {"more_compute_ns", a.compute},
                        {"more_communication_ns", a.communication},
                        {"growing_with_batch_ns", a.growing},
                        {"more_memory_bytes", a.memory}});
    }
    Json function = {{"name", f.name},
                     {"compute_ns", f.compute},
                     {"communication_ns", f.communication},
                     {"bytes_sent", f.bytesSent},
                     {"num_collectives", f.numCollectives},
                     {"persistent_bytes", f.persistentBytes},
                     {"peak_bytes_estimate", f.peakBytes}};
    if (!f.search.searcher.empty())
      function["search"] = {
          {"searcher", f.search.searcher}, {"cost_ns", f.search.cost},    {"lower_bound_ns", f.search.lowerBound},
          {"gap", f.search.gap()},         {"optimal", f.search.optimal}, {"nodes", f.search.nodes},
          {"edges", f.search.edges},       {"options", f.search.options}};
    function["operators"] = std::move(operators);
    function["boundary"] = toJson(f.boundary);
    functions.push_back(std::move(function));
  }
  return {{"mode", report.mode},
          {"mesh", report.mesh},
          {"topology", report.topology},
          {"memory_limit", report.memoryLimit},
          {"functions", std::move(functions)}};
}

} // namespace tessera::strategies
