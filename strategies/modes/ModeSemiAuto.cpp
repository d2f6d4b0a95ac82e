// Mode semi-auto takes the user's strategies and cuts the batch of everything else. It assigns the whole function as
// mode data does. Over that it sets the user's groups, and then the parameters as their readers want them. Then it
// propagates the gradients of the groups from the shardings of the forward operators. Last come the updates and states,
// which follow parameters and gradients.
#include "strategies/modes/Modes.h"
#include "strategies/user/UserMapping.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"

using namespace mlir;

namespace tessera::strategies {

namespace {

class SemiAuto {
public:
  SemiAuto(FunctionAssignment &function, const Mesh &mesh, const FixedStrategies &fixed, const SharedShardings &shared)
      : function_(function), program_(function.program), mesh_(mesh), fixed_(fixed), shared_(shared) {}

  llvm::Error run() {
    findRegions();
    applyGroups();
    if (llvm::Error e = shardParameters())
      return e;
    applyGradients();
    applyUpdates();
    function_.finishResults();
    return llvm::Error::success();
  }

private:
  void setOperator(int i, const Strategy &strategy) {
    const OperatorInfo &info = program_.operators[i];
    function_.assignment.strategies[i] = strategy;
    for (unsigned r = 0; r < info.op->getNumResults(); ++r)
      function_.assignment.values[info.op->getResult(r)] =
          dist::resultSharding(mesh_, info.cls->rule, strategy, int(r));
  }

  /// Finds the model's own operators and the updates' operators. A result that is no update depends on the former. The
  /// latter are all others except gradients and the user's groups.
  void findRegions() {
    size_t n = program_.operators.size();
    llvm::SmallVector<bool> reaches(n, false);
    func::FuncOp func = program_.func;
    Operation *terminator = program_.returnOp();
    for (size_t i = n; i-- > 0;) {
      Operation *op = program_.operators[i].op;
      for (OpOperand &use : op->getUses()) {
        auto it = program_.index.find(use.getOwner());
        if (it != program_.index.end())
          reaches[i] |= reaches[it->second];
        else if (use.getOwner() == terminator)
          reaches[i] |= graph::resultRole(func, use.getOperandNumber()) != graph::kUpdate;
      }
    }
    for (size_t i = 0; i < n; ++i) {
      bool gradient = program_.operators[i].op->hasAttr(graph::kGradOfAttr);
      model_.push_back(reaches[i] && !gradient);
      update_.push_back(!reaches[i] && !gradient && fixed_.groupOf[i] < 0);
    }
  }

  void applyGroups() {
    for (const FixedGroup &group : fixed_.groups)
      for (int i : group.ops)
        setOperator(i, fixed_.strategies[i]);
  }

  /// Shards a parameter or state as its first reader wants it, if that reader is in a group. Two readers that want it
  /// differently are an error if one of them is in a group.
  llvm::Error shardParameters() {
    func::FuncOp func = program_.func;
    for (unsigned a = 0; a < function_.args.size(); ++a) {
      if (!function_.isPersistent(a) || shared_.contains(function_.argName(a)))
        continue;
      struct User {
        std::string name;
        Sharding wants;
        bool byUser;
      };
      std::optional<User> first;
      for (const ValueUse &use : program_.uses(func.getArgument(a))) {
        int group = fixed_.groupOf[use.op];
        if (group < 0 && !model_[use.op])
          continue;
        User user{group >= 0 ? fixed_.groups[group].name : program_.operators[use.op].name,
                  dist::operandSharding(mesh_, program_.operators[use.op].cls->rule,
                                        function_.assignment.strategies[use.op], use.operand)
                      .withoutPartial(),
                  group >= 0};
        if (!first) {
          first = std::move(user);
          continue;
        }
        if (first->wants == user.wants)
          continue;
        if (first->byUser || user.byUser)
          return llvm::createStringError("%s", ("operators '" + first->name + "' and '" + user.name +
                                                "' share parameter '" + function_.argName(a) +
                                                "' but shard it differently: " + first->wants.str(mesh_) + " and " +
                                                user.wants.str(mesh_) + "; give both the same strategy for it")
                                                   .c_str());
        first->wants = Sharding::replicated(first->wants.rank());
      }
      if (first && first->byUser)
        function_.setArg(a, first->wants);
    }
    return llvm::Error::success();
  }

  void applyGradients() {
    for (const FixedGroup &group : fixed_.groups) {
      llvm::SmallVector<int> ops;
      for (size_t i = 0; i < program_.operators.size(); ++i) {
        auto of = program_.operators[i].op->getAttrOfType<StringAttr>(graph::kGradOfAttr);
        if (of && belongsTo(of.getValue(), group.name) && fixed_.groupOf[i] < 0)
          ops.push_back(int(i));
      }
      if (ops.empty())
        continue;
      // The gradients read the forward operators' inputs as these arrived there, the forward operators' own values, and
      // the adjoints of the group's results. An adjoint lies as the natural result does.
      std::vector<std::pair<Value, Sharding>> known;
      for (size_t i = 0; i < group.inputs.size(); ++i)
        known.push_back({group.inputs[i], group.wanted[i].withoutPartial()});
      std::vector<std::pair<Shape, Sharding>> adjoints;
      for (int i : group.ops) {
        const OperatorInfo &info = program_.operators[i];
        for (unsigned r = 0; r < info.op->getNumResults(); ++r) {
          Value v = info.op->getResult(r);
          known.push_back({v, function_.assignment.of(v)});
          if (llvm::is_contained(group.outputs, v))
            adjoints.push_back(
                {shapeOf(v),
                 dist::naturalResult(mesh_, info.cls->rule, fixed_.strategies[i], int(r)).withoutPartial()});
        }
      }
      auto outside = [&](Value v) -> const Sharding * {
        for (const auto &[value, sharding] : known)
          if (value == v)
            return &sharding;
        for (const auto &[shape, sharding] : adjoints)
          if (shape == shapeOf(v))
            return &sharding;
        return nullptr;
      };
      propagate(program_, mesh_, ops, outside, function_.assignment);
    }
  }

  /// Updates follow parameters and gradients. A state that no group and no model operator reads lies as its new value
  /// does.
  void applyUpdates() {
    llvm::SmallVector<int> ops;
    for (size_t i = 0; i < program_.operators.size(); ++i)
      if (update_[i])
        ops.push_back(int(i));
    auto outside = [&](Value v) { return &function_.assignment.of(v); };
    func::FuncOp func = program_.func;
    // The second round takes the shardings of states that the first round found.
    for (int round = 0; round < 2; ++round) {
      propagate(program_, mesh_, ops, outside, function_.assignment);
      for (unsigned a = 0; a < function_.args.size(); ++a) {
        auto r = graph::updateOf(func, a);
        if (!r || !function_.isPersistent(a) || shared_.contains(function_.argName(a)))
          continue;
        bool hasModelUser = llvm::any_of(program_.uses(func.getArgument(a)),
                                         [&](ValueUse use) { return model_[use.op] || fixed_.groupOf[use.op] >= 0; });
        if (!hasModelUser)
          function_.setArg(a, function_.assignment.of(program_.returnOp()->getOperand(*r)).withoutPartial());
      }
    }
  }

  FunctionAssignment &function_;
  const Program &program_;
  const Mesh &mesh_;
  const FixedStrategies &fixed_;
  const SharedShardings &shared_;
  llvm::SmallVector<bool> model_, update_; // by operator
};

} // namespace

llvm::Error assignSemiAuto(FunctionAssignment &function, const AssignOptions &options, const SharedShardings &shared) {
  // First everything cuts its batch, and persistent arguments are whole, whatever earlier functions found.
  if (llvm::Error e = assignData(function, options, SharedShardings()))
    return e;
  function.adopt(shared);
  llvm::Expected<FixedStrategies> fixed = mapUserStrategies(function, options.mesh, options.user, shared);
  if (!fixed)
    return fixed.takeError();
  return SemiAuto(function, options.mesh, *fixed, shared).run();
}

} // namespace tessera::strategies
