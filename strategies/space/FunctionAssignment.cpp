#include "strategies/space/FunctionAssignment.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/wire/WirePlanner.h"
#include "dialects/graph/Graph.h"

using namespace mlir;

namespace tessera::strategies {

FunctionAssignment::FunctionAssignment(Program p) : program(std::move(p)) {
  func::FuncOp func = program.func;
  args.resize(func.getNumArguments());
  assignment.strategies.resize(program.operators.size());
  for (unsigned a = 0; a < args.size(); ++a)
    setArg(a, Sharding::replicated(int64_t(shapeOf(func.getArgument(a)).size())));
  for (unsigned a = 0; a < args.size(); ++a)
    if (auto r = graph::updateOf(func, a))
      updates[*r] = a;
}

bool FunctionAssignment::isPersistent(unsigned arg) const {
  llvm::StringRef role = graph::argRole(program.func, arg);
  return role == graph::kParameter || role == graph::kState;
}

std::string FunctionAssignment::argName(unsigned arg) const { return graph::argName(program.func, arg).str(); }

void FunctionAssignment::adopt(const SharedShardings &shared) {
  for (unsigned a = 0; a < args.size(); ++a)
    if (isPersistent(a))
      if (auto it = shared.find(argName(a)); it != shared.end())
        setArg(a, it->second);
}

void FunctionAssignment::publish(SharedShardings &shared) const {
  for (unsigned a = 0; a < args.size(); ++a)
    if (isPersistent(a))
      shared.emplace(argName(a), args[a]);
}

void FunctionAssignment::setArg(unsigned arg, Sharding sharding) {
  assignment.values[program.func.getArgument(arg)] = sharding;
  args[arg] = std::move(sharding);
}

void FunctionAssignment::finishResults() {
  Operation *terminator = program.returnOp();
  results.clear();
  for (Value v : terminator->getOperands())
    results.push_back(assignment.of(v).withoutPartial());
  for (auto [r, a] : updates)
    results[r] = args[a];
}

llvm::Error FunctionAssignment::write(const Mesh &mesh) const {
  func::FuncOp func = program.func;
  for (size_t i = 0; i < program.operators.size(); ++i) {
    const OperatorInfo &info = program.operators[i];
    const Strategy &strategy = assignment.strategies[i];
    if (llvm::Error e =
            dist::verifyStrategy(info.cls->rule, strategy, mesh, info.cls->operandShapes, info.cls->resultShapes))
      return llvm::createStringError("operator '%s': %s", info.name.c_str(), llvm::toString(std::move(e)).c_str());
    dist::setStrategy(info.op, info.cls->rule, mesh, strategy);
  }
  auto attr = [&](const Sharding &s) { return dist::ShardingAttr::get(func.getContext(), mesh, s); };
  // All at once: setting one copies the list of all.
  auto with = [&](DictionaryAttr dict, const Sharding &s) {
    NamedAttrList list(dict);
    list.set(dist::kShardingAttr, attr(s));
    return list.getDictionary(func.getContext());
  };
  llvm::SmallVector<DictionaryAttr> dicts;
  for (unsigned a = 0; a < args.size(); ++a)
    dicts.push_back(with(func.getArgAttrDict(a), args[a]));
  func.setAllArgAttrs(dicts);
  dicts.clear();
  for (unsigned r = 0; r < results.size(); ++r)
    dicts.push_back(with(func.getResultAttrDict(r), results[r]));
  func.setAllResultAttrs(dicts);
  func->removeAttr(dist::kApartAttr);
  if (apart)
    func->setAttr(dist::kApartAttr, UnitAttr::get(func.getContext()));
  return llvm::Error::success();
}

AxisList batchAxes(const Mesh &mesh, int64_t extent) {
  auto cut = [&](auto may) {
    AxisList axes;
    int64_t parts = 1;
    for (int axis = 0; axis < mesh.numAxes(); ++axis) {
      int64_t size = mesh.axisSize(axis);
      if (size == 1 || !may(parts * size))
        continue;
      parts *= size;
      axes.push_back(axis);
    }
    return axes;
  };
  AxisList even = cut([&](int64_t parts) { return extent % parts == 0; });
  return even.empty() ? cut([&](int64_t parts) { return Sharding::canCut(extent, parts); }) : even;
}

void shardBatch(FunctionAssignment &function, const Mesh &mesh) {
  func::FuncOp func = function.program.func;
  for (unsigned a = 0; a < function.args.size(); ++a) {
    llvm::StringRef role = graph::argRole(func, a);
    if (role != graph::kInput && role != graph::kTarget)
      continue;
    Shape shape = shapeOf(func.getArgument(a));
    if (shape.empty())
      continue;
    Sharding s = Sharding::replicated(int64_t(shape.size()));
    s.dims[0] = batchAxes(mesh, shape[0]);
    function.setArg(a, std::move(s));
  }
}

} // namespace tessera::strategies
