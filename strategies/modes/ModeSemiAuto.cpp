// Semi-automatic: what the user says, everything else batch parallel. Four steps: the whole function as in
// mode data; the user's groups over it; the gradients of these groups, by propagation from what the forward
// operators hold; and parameters, states and updates, which follow their users.
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
      function_.assignment.values[info.op->getResult(r)] = dist::resultSharding(info.cls->rule, strategy, int(r));
  }

  /// The model's own operators are those on which a result that is no update depends; the update's are the
  /// rest, less gradients.
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

  /// A parameter lies as its users want it; two that want it differently are an error.
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
                  dist::operandSharding(program_.operators[use.op].cls->rule, function_.assignment.strategies[use.op],
                                        use.operand)
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
      // What the gradients read: the forward operator's inputs as they arrived there, its own values
      // as they are, and the result's adjoint, which lies as the natural result does.
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
                {shapeOf(v), dist::naturalResult(info.cls->rule, fixed_.strategies[i], int(r)).withoutPartial()});
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

  /// Updates follow parameters and gradients; a state lies as its new value does.
  void applyUpdates() {
    llvm::SmallVector<int> ops;
    for (size_t i = 0; i < program_.operators.size(); ++i)
      if (update_[i])
        ops.push_back(int(i));
    auto outside = [&](Value v) { return &function_.assignment.of(v); };
    func::FuncOp func = program_.func;
    // Twice: a state learns its sharding from the first round.
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
  // Batch parallel to begin with; persistent arguments whole, whatever earlier functions found.
  if (llvm::Error e = assignData(function, options, SharedShardings()))
    return e;
  function.adopt(shared);
  llvm::Expected<FixedStrategies> fixed = mapUserStrategies(function, options.mesh, options.user, shared);
  if (!fixed)
    return fixed.takeError();
  return SemiAuto(function, options.mesh, *fixed, shared).run();
}

} // namespace tessera::strategies
