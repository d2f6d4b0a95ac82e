#include "strategies/report/Report.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/LeastBytes.h"
#include "dialects/graph/GraphOrigin.h"

#include "llvm/ADT/StringExtras.h"

#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <tuple>

using namespace mlir;

namespace tessera::strategies {

using Json = nlohmann::ordered_json;

double FunctionReport::besideGap() const {
  return predicted() > search.besideBound ? double(predicted() - search.besideBound) / double(predicted()) : 0.0;
}

double FunctionReport::scheduleGap() const {
  return predicted() > leastTime ? double(predicted() - leastTime) / double(predicted()) : 0.0;
}

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

std::string whereOfResult(func::FuncOp func, unsigned result) {
  return "result '" + graph::resultName(func, result).str() + "'";
}

std::vector<std::string> inputNames(Operation *op) {
  std::vector<std::string> names;
  for (Value v : op->getOperands()) {
    if (auto arg = dyn_cast<BlockArgument>(v))
      names.push_back(graph::argName(cast<func::FuncOp>(arg.getOwner()->getParentOp()), arg.getArgNumber()).str());
    else
      names.push_back(graph::nameOf(v.getDefiningOp()));
  }
  return names;
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
  r.wire = c.wire;
  if (c.wire) {
    r.parts = int64_t(dist::sentBy(model.mesh(), c, elementBytes).size());
    dist::Collective whole = c;
    whole.wire = {};
    r.wholeBytes = dist::bytesSent(model.mesh(), whole, elementBytes);
  }
  r.bytesSent = dist::bytesSent(model.mesh(), c, elementBytes);
  r.cost = model.collective(c, elementBytes);
  if (dist::communicates(c.kind))
    r.latency = std::min(r.cost, model.collective(c, 0));
  return r;
}

namespace {

llvm::Expected<Sharding> shardingAttr(Attribute attr, const Mesh &mesh, const std::string &what) {
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
  if (!sharding)
    return llvm::createStringError("%s carries no sharding", what.c_str());
  return sharding.resolve(mesh);
}

/// What is chosen, as the attributes say it.
struct Annotations {
  std::vector<Strategy> strategies;
  llvm::SmallVector<Sharding> args, results;

  static llvm::Expected<Annotations> read(const Program &program, const Mesh &mesh) {
    Annotations read;
    func::FuncOp func = program.func;
    for (unsigned a = 0; a < func.getNumArguments(); ++a) {
      auto s = shardingAttr(func.getArgAttr(a, dist::kShardingAttr), mesh,
                            "argument '" + graph::argName(func, a).str() + "'");
      if (!s)
        return s.takeError();
      read.args.push_back(std::move(*s));
    }
    for (const OperatorInfo &info : program.operators) {
      llvm::Expected<Strategy> strategy = dist::getStrategy(info.op, info.cls->rule, mesh);
      if (!strategy)
        return strategy.takeError();
      read.strategies.push_back(std::move(*strategy));
    }
    for (unsigned r = 0; r < func.getNumResults(); ++r) {
      auto s = shardingAttr(func.getResultAttr(r, dist::kShardingAttr), mesh,
                            "result " + std::to_string(r) + " of '" + func.getName().str() + "'");
      if (!s)
        return s.takeError();
      read.results.push_back(std::move(*s));
    }
    return read;
  }
};

/// dist::leastBytes, which looks at all ranks: once for the equal reshards of equal layers.
class LeastBytes {
public:
  explicit LeastBytes(const Mesh &mesh) : mesh_(mesh) {}
  std::optional<double> of(const Resharded &reshard, int64_t elementBytes) {
    auto [it, fresh] = known_.try_emplace({reshard.shape, elementBytes, reshard.from, reshard.to});
    if (fresh)
      it->second = dist::leastBytes(mesh_, reshard.shape, elementBytes, reshard.from, reshard.to);
    return it->second;
  }

private:
  const Mesh &mesh_;
  std::map<std::tuple<Shape, int64_t, Sharding, Sharding>, std::optional<double>> known_;
};

CollectiveReport describe(const CostModel &model, const PricedCollective &c, func::FuncOp func,
                          LeastBytes &leastBytes) {
  std::string where;
  switch (c.place) {
  case PricedCollective::Operand:
    where = "operand " + std::to_string(c.index);
    break;
  case PricedCollective::Statistic:
    where = "statistic " + std::to_string(c.index);
    break;
  case PricedCollective::Result:
    where = "result " + std::to_string(c.index);
    break;
  case PricedCollective::Output:
    where = whereOfResult(func, unsigned(c.index));
    break;
  }
  CollectiveReport report = describe(model, c.collective, c.elementBytes, std::move(where));
  report.repeat(c.times);
  report.setCost(c.cost);
  report.message = c.message;
  if (c.begins && !c.collective.wire) // it is of whole numbers
    report.leastBytes = leastBytes.of(*c.begins, c.elementBytes);
  if (report.leastBytes)
    *report.leastBytes *= double(c.times);
  return report;
}

OperatorReport describe(const CostModel &model, const OperatorInfo &info, const Strategy &strategy,
                        const OperatorPrice &price, llvm::StringRef rule, LeastBytes &leastBytes) {
  const Mesh &mesh = model.mesh();
  const OperatorClass &cls = *info.cls;
  OperatorReport r;
  r.name = info.name;
  r.kind = info.op->getName().stripDialect().str();
  r.gradientOf = graph::gradientOf(info.op).str();
  r.updateOf = graph::parameterUpdatedBy(info.op).str();
  r.inputs = inputNames(info.op);
  r.strategy = dist::strategyText(strategy, cls.rule, mesh);
  r.rule = rule.str();
  r.globalOperands.assign(cls.operandShapes.begin(), cls.operandShapes.end());
  r.globalResults.assign(cls.resultShapes.begin(), cls.resultShapes.end());
  llvm::SmallVector<Shape> operands = localOperands(cls, mesh, strategy), results = localResults(cls, mesh, strategy);
  r.flops = cast<dist::ShardingRuleOpInterface>(info.op).getFlops(operands, results);
  for (auto [o, shape] : llvm::enumerate(operands)) {
    r.operands.push_back(dist::operandSharding(mesh, cls.rule, strategy, int(o)).str(mesh));
    r.bytes += numElements(shape) * cls.operandBytes[o];
  }
  for (auto [o, shape] : llvm::enumerate(results)) {
    r.results.push_back(dist::resultSharding(mesh, cls.rule, strategy, int(o)).str(mesh));
    r.bytes += numElements(shape) * cls.resultBytes[o];
  }
  r.localOperands.assign(operands.begin(), operands.end());
  r.localResults.assign(results.begin(), results.end());
  r.times = info.times;
  r.flops *= double(r.times);
  r.bytes *= r.times;
  r.compute = price.compute;
  for (const PricedCollective &c : price.collectives)
    r.collectives.push_back(describe(model, c, {}, leastBytes));
  return r;
}

} // namespace

void countCollectives(FunctionReport &report) {
  report.bytesSent = 0;
  report.numCollectives = report.numMessages = 0;
  report.compressed = {};
  std::set<std::pair<int, int>> begun; // messages, by stage
  auto count = [&](const std::vector<CollectiveReport> &list, int stage) {
    for (const CollectiveReport &c : list) {
      report.bytesSent += c.bytesSent;
      const int64_t sent = dist::communicates(*dist::parseCollectiveKind(c.kind)) ? c.times * c.parts : 0;
      report.numCollectives += sent;
      report.numMessages += c.message && !begun.insert({stage, *c.message}).second ? 0 : sent;
      if (!c.wire)
        continue;
      report.compressed.sums += c.times;
      report.compressed.bytesSent += c.bytesSent;
      report.compressed.wholeBytes += c.wholeBytes;
    }
  };
  for (const OperatorReport &op : report.operators)
    count(op.collectives, op.stage.value_or(-1));
  count(report.boundary, -1);
}

FunctionReport reportFunction(const ChosenProgram &chosen, const ProgramCost &cost, const CostModel &model) {
  func::FuncOp func = chosen.program.func;
  FunctionReport report;
  report.name = func.getName().str();
  report.compute = cost.compute;
  report.communication = cost.communication;
  report.persistentBytes = cost.persistentBytes;
  report.peakBytes = cost.peakBytes;
  report.beside = cost.beside;
  report.leastTime = cost.leastTime;
  LeastBytes leastBytes(model.mesh());
  std::vector<std::string> rules; // by class
  for (const auto &cls : chosen.program.classes)
    rules.push_back(cls->rule.str());
  report.operators.reserve(chosen.program.operators.size());
  for (auto [i, info] : llvm::enumerate(chosen.program.operators))
    report.operators.push_back(
        describe(model, info, chosen.strategies[i], cost.operators[i], rules[size_t(info.cls->id)], leastBytes));
  for (const PricedCollective &c : cost.outputs)
    report.boundary.push_back(describe(model, c, func, leastBytes));
  countCollectives(report);
  return report;
}

llvm::Expected<FunctionReport> priceFunction(func::FuncOp func, const CostModel &model, const JoinOptions &join) {
  llvm::Expected<Program> program = Program::analyse(func);
  if (!program)
    return program.takeError();
  llvm::Expected<Annotations> chosen = Annotations::read(*program, model.mesh());
  if (!chosen)
    return chosen.takeError();
  const ChosenProgram all{*program, chosen->strategies, chosen->args, chosen->results, func->hasAttr(dist::kApartAttr)};
  llvm::Expected<ProgramCost> cost = priceProgram(all, model, join);
  if (!cost)
    return cost.takeError();
  return reportFunction(all, *cost, model);
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
  for (const CollectiveReport &c : collectives) {
    list.push_back({{"where", c.where},
                    {"kind", c.kind},
                    {"axes", c.axes},
                    {"local_in", std::vector<int64_t>(c.localIn.begin(), c.localIn.end())},
                    {"local_out", std::vector<int64_t>(c.localOut.begin(), c.localOut.end())},
                    {"element_bytes", c.elementBytes},
                    {"bytes_sent", c.bytesSent},
                    {"cost_ns", c.cost},
                    {"latency_ns", c.latency}});
    if (c.leastBytes)
      list.back()["least_bytes"] = *c.leastBytes;
    if (c.times > 1)
      list.back()["times"] = c.times;
    if (c.wire)
      list.back()["sent_as"] = c.wire.str();
  }
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
                           {"inputs", r.inputs},
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
      if (r.stage)
        operators.back()["stage"] = *r.stage;
      if (r.times > 1)
        operators.back()["times"] = r.times;
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
                     {"predicted_ns", f.predicted()},
                     {"compute_ns", f.compute},
                     {"communication_ns", f.communication},
                     {"bytes_sent", f.bytesSent},
                     {"num_collectives", f.numCollectives},
                     {"num_messages", f.numMessages},
                     {"persistent_bytes", f.persistentBytes},
                     {"peak_bytes_estimate", f.peakBytes}};
    if (f.compressed.sums > 0)
      function["compressed"] = {{"num_sums", f.compressed.sums},
                                {"bytes_sent", f.compressed.bytesSent},
                                {"whole_bytes", f.compressed.wholeBytes}};
    if (f.beside)
      function["beside"] = {{"exposed_ns", f.beside->exposed}, {"num_messages", f.beside->messages}};
    if (f.hasScheduleBound())
      function["schedule"] = {{"lower_bound_ns", f.leastTime}, {"gap", f.scheduleGap()}};
    if (!f.search.searcher.empty())
      function["search"] = {
          {"searcher", f.search.searcher}, {"cost_ns", f.search.cost},    {"lower_bound_ns", f.search.lowerBound},
          {"gap", f.search.gap()},         {"optimal", f.search.optimal}, {"nodes", f.search.nodes},
          {"edges", f.search.edges},       {"options", f.search.options}};
    if (f.hasBesideBound())
      function["search"]["beside"] = {{"lower_bound_ns", f.search.besideBound}, {"gap", f.besideGap()}};
    if (f.search.partly > 0)
      function["search"]["partly_enumerated"] = f.search.partly;
    if (f.search.stopped)
      function["search"]["stopped"] = true;
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
