//===- KnownOptions.h - heads and options that were priced before ------------------------------------===//
//
// Training, evaluation and inference have equal operators, and a training step is searched several times where it does
// not fit at once. What an operator costs at the head of a group depends on none of that, and what a group costs only
// on the group. So the searches of a compilation price equal operators once, and equal groups where that is worth the
// memory.
//
//   KnownOptions known;
//   buildGraph(train, model, &fixed, shared, limit, &known);
//   buildGraph(infer, model, &fixed, shared, limit, &known); // prices what the first one does not have
//
// Of one CostModel and of functions of one MLIRContext. One thread may use it at a time. A copy knows the same.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_KNOWNOPTIONS_H
#define TESSERA_STRATEGIES_GRAPH_KNOWNOPTIONS_H

#include "strategies/space/Program.h"

#include <map>

namespace tessera::strategies {

struct GroupHead;
struct GroupOptions;
using GroupHeads = std::shared_ptr<const std::vector<GroupHead>>;

class KnownOptions {
public:
  /// The heads of operators of the class that run alike (see OptionBuilder::heads); null until they are set.
  GroupHeads &heads(const OperatorClass &cls, const std::vector<int64_t> &runs) { return heads_[{number(cls), runs}]; }
  /// Options by what they depend on (OptionBuilder::key); null until they are set.
  using Options = std::map<std::vector<int64_t>, std::shared_ptr<const GroupOptions>>;
  /// Null where options are not kept: those of a training step are many, and few other functions have the same.
  Options *options() { return keepsOptions ? &options_ : nullptr; }
  bool keepsOptions = false;
  /// Equal in classes that are equal, of any function.
  int64_t number(const OperatorClass &cls) {
    return numbers_.try_emplace({keyOf(cls.sample), cls.units}, int64_t(numbers_.size())).first->second;
  }

private:
  using Units = std::vector<llvm::SmallVector<int64_t, 2>>;
  std::map<std::pair<OperatorKey, Units>, int64_t> numbers_;
  std::map<std::pair<int64_t, std::vector<int64_t>>, GroupHeads> heads_;
  Options options_;
};

} // namespace tessera::strategies

#endif
