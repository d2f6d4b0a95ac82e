// Saving an assignment as text, and taking it back without any search.
#include "strategies/user/UserStrategies.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/dist/wire/WirePlanner.h"
#include "dialects/graph/Graph.h"

#include <nlohmann/json.hpp>

using namespace mlir;

namespace tessera::strategies {

using Json = nlohmann::ordered_json;

/// How a file begins.
static std::string head(llvm::StringRef mesh, llvm::ArrayRef<UserStage> stages) {
  std::string out = "{\n \"format\": \"tessera-strategies\",\n \"mesh\": " + Json(mesh.str()).dump();
  for (size_t i = 0; i < stages.size(); ++i)
    out += (i ? ",\n  " : ",\n \"stages\": [\n  ") + Json({{"op", stages[i].op}, {"stage", stages[i].stage}}).dump() +
           (i + 1 == stages.size() ? "]" : "");
  return out;
}

std::string saveVersions(llvm::ArrayRef<ModuleOp> modules, llvm::StringRef meshes, llvm::ArrayRef<UserStage> stages) {
  std::string out = head(meshes, stages) + ",\n \"versions\": [";
  for (auto [i, module] : llvm::enumerate(modules))
    out += (i ? ",\n" : "\n") + llvm::StringRef(saveStrategies(module)).rtrim().str();
  return out + "]\n}\n";
}

std::string saveStrategies(ModuleOp module, llvm::ArrayRef<UserStage> stages) {
  Json functions = Json::array();
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    auto text = [](Attribute attr) {
      auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
      return sharding ? sharding.getText().str() : std::string();
    };
    std::vector<std::string> args, results;
    for (unsigned a = 0; a < func.getNumArguments(); ++a)
      args.push_back(text(func.getArgAttr(a, dist::kShardingAttr)));
    for (unsigned r = 0; r < func.getNumResults(); ++r)
      results.push_back(text(func.getResultAttr(r, dist::kShardingAttr)));
    Json operators = Json::array();
    for (Operation &op : func.getBody().front().without_terminator()) {
      auto strategy = op.getAttrOfType<dist::StrategyAttr>(dist::kStrategyAttr);
      operators.push_back({{"op", graph::nameOf(&op)},
                           {"kind", op.getName().stripDialect().str()},
                           {"strategy", strategy ? strategy.getText().str() : std::string()}});
    }
    functions.push_back({{"name", func.getName().str()},
                         {"args", args},
                         {"results", results},
                         {"apart", func->hasAttr(dist::kApartAttr)},
                         {"operators", std::move(operators)}});
  }
  // One operator per line: made to be read and compared.
  std::string out = head(dist::getMesh(module).str(), stages);
  out += ",\n \"functions\": [";
  for (size_t f = 0; f < functions.size(); ++f) {
    out += f ? ",\n" : "\n";
    const Json &function = functions[f];
    out += "  {\"name\": " + function["name"].dump() + ",\n   \"args\": " + function["args"].dump() +
           ",\n   \"results\": " + function["results"].dump() +
           (function["apart"] == true ? ",\n   \"apart\": true" : "") + ",\n   \"operators\": [";
    for (size_t i = 0; i < function["operators"].size(); ++i)
      out += (i ? ",\n    " : "\n    ") + function["operators"][i].dump();
    out += "]}";
  }
  return out + "]\n}\n";
}

llvm::Error applySaved(ModuleOp module, const Mesh &mesh, const UserStrategies &user) {
  auto fail = [&](const std::string &what) {
    return llvm::createStringError("strategy file %s: %s", user.origin.c_str(), what.c_str());
  };
  if (user.savedMesh != mesh.str())
    return fail("it was saved for mesh " + user.savedMesh + ", not for " + mesh.str());
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    std::string name = func.getName().str();
    auto it = user.saved.find(name);
    if (it == user.saved.end())
      return fail("it has no function '" + name + "': it was saved for another program");
    const SavedFunction &saved = it->second;
    auto ops = func.getBody().front().without_terminator();
    size_t count = size_t(std::distance(ops.begin(), ops.end()));
    if (count != saved.operators.size() || saved.args.size() != func.getNumArguments() ||
        saved.results.size() != func.getNumResults())
      return fail("function '" + name + "' has " + std::to_string(count) + " operators but the file " +
                  std::to_string(saved.operators.size()) + ": it was saved for another program");
    size_t i = 0;
    for (Operation &op : ops) {
      const SavedFunction::Operator &entry = saved.operators[i++];
      std::string opName = graph::nameOf(&op), kind = op.getName().stripDialect().str();
      if (entry.name != opName || entry.kind != kind)
        return fail("operator " + std::to_string(i - 1) + " of '" + name + "' is '" + opName + "' (" + kind +
                    ") but the file has '" + entry.name + "' (" + entry.kind + "): it was saved for another program");
      auto iface = dyn_cast<dist::ShardingRuleOpInterface>(op);
      if (!iface)
        return fail("operator '" + opName + "' has no sharding rule");
      llvm::Expected<ShardingRule> rule = dist::boundRule(&op);
      if (!rule)
        return rule.takeError();
      llvm::Expected<Strategy> strategy = dist::parseStrategy(entry.strategy, *rule, mesh);
      llvm::Error bad =
          strategy ? dist::verifyStrategy(*rule, *strategy, mesh, dist::operandShapes(&op), dist::resultShapes(&op))
                   : strategy.takeError();
      if (bad)
        return fail("operator '" + opName + "': " + llvm::toString(std::move(bad)));
      dist::setStrategy(&op, *rule, mesh, *strategy);
    }
    auto sharding = [&](const std::string &text, Type type,
                        const std::string &what) -> llvm::Expected<dist::ShardingAttr> {
      llvm::Expected<Sharding> s = dist::parseSharding(text, mesh);
      llvm::Error bad = s ? s->verify(mesh, cast<RankedTensorType>(type).getShape()) : s.takeError();
      if (bad)
        return fail(what + ": " + llvm::toString(std::move(bad)));
      if (s->isPartial())
        return fail(what + ": " + text + " is a partial sum; arguments and results of a function must be complete");
      return dist::ShardingAttr::get(func.getContext(), mesh, *s);
    };
    for (unsigned a = 0; a < func.getNumArguments(); ++a) {
      auto attr =
          sharding(saved.args[a], func.getArgumentTypes()[a], "argument '" + graph::argName(func, a).str() + "'");
      if (!attr)
        return attr.takeError();
      func.setArgAttr(a, dist::kShardingAttr, *attr);
    }
    for (unsigned r = 0; r < func.getNumResults(); ++r) {
      auto attr =
          sharding(saved.results[r], func.getResultTypes()[r], "result '" + graph::resultName(func, r).str() + "'");
      if (!attr)
        return attr.takeError();
      func.setResultAttr(r, dist::kShardingAttr, *attr);
    }
    if (saved.apart)
      func->setAttr(dist::kApartAttr, UnitAttr::get(func.getContext()));
  }
  return llvm::Error::success();
}

} // namespace tessera::strategies
