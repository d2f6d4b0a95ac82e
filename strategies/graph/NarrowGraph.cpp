// From the wide graph to the options that a search keeps, and back from a choice to the function.
#include "strategies/graph/BuildGraph.h"

using namespace mlir;

namespace tessera::strategies {

BuiltGraph optionsOf(const BuiltGraph &built) {
  BuiltGraph options;
  options.groups = built.groups;
  options.options = built.options;
  return options;
}

void narrow(BuiltGraph &built, DenseGraph dense) {
  for (size_t c = 0; c < built.options.size(); ++c) {
    const std::vector<int32_t> &own = dense.option[c];
    auto options = std::make_shared<GroupOptions>();
    options->heads = built.options[c]->heads;
    options->tails = built.options[c]->tails;
    for (int32_t k : own)
      options->push_back((*built.options[c])[size_t(k)]);
    built.options[c] = std::move(options);
  }
  built.dense = std::move(dense);
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
        Sharding needs =
            it == program.index.end()
                ? Sharding::replicated(int64_t(shapeOf(result).size()))
                : dist::operandSharding(mesh, program.operators[it->second].cls->rule,
                                        function.assignment.strategies[it->second], int(use.getOperandNumber()))
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
      function.assignment.values[info.op->getResult(r)] = dist::resultSharding(mesh, info.cls->rule, strategy, int(r));
    function.assignment.strategies[i] = std::move(strategy);
  }
}

void applyChoice(FunctionAssignment &function, const Mesh &mesh, const BuiltGraph &built, const Choice &choice) {
  const Program &program = function.program;
  for (size_t c = 0; c < built.groups.list.size(); ++c) {
    const FollowGroup &group = built.groups.list[c];
    const GroupOption &option = (*built.options[c])[size_t(choice[c])];
    if (group.arg >= 0)
      function.setArg(unsigned(group.arg), option.arg());
    for (size_t m = 0; m < group.ops.size(); ++m) {
      int i = group.ops[m];
      const OperatorInfo &info = program.operators[i];
      function.assignment.strategies[i] = option.strategy(m);
      for (unsigned r = 0; r < info.op->getNumResults(); ++r)
        function.assignment.values[info.op->getResult(r)] =
            dist::resultSharding(mesh, info.cls->rule, option.strategy(m), int(r));
    }
  }
  assignSources(function, mesh, built);
}

std::vector<int32_t> likestOptions(const BuiltGraph &built, const FunctionAssignment &like) {
  std::vector<int32_t> likest(built.groups.list.size(), 0);
  for (size_t c = 0; c < built.groups.list.size(); ++c) {
    const FollowGroup &group = built.groups.list[c];
    size_t most = 0;
    for (size_t k = 0; k < built.options[c]->size(); ++k) {
      const GroupOption &option = (*built.options[c])[k];
      if (group.arg < 0 && option.strategy(0).factors != like.assignment.strategies[group.ops.front()].factors)
        continue;
      size_t alike = group.arg >= 0 && option.arg() == like.args[group.arg];
      for (size_t m = 0; m < group.ops.size(); ++m) {
        // Cut alike is what matters; a sum that is not reduced here is reduced on the way to its reader.
        const Strategy &mine = option.strategy(m), &wanted = like.assignment.strategies[group.ops[m]];
        alike += mine == wanted ? 3 : mine.factors == wanted.factors ? 2 : 0;
      }
      if (alike > most) {
        most = alike;
        likest[c] = int32_t(k);
      }
    }
  }
  return likest;
}

} // namespace tessera::strategies
