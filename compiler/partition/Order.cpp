#include "compiler/partition/Order.h"

#include "llvm/ADT/DenseMap.h"

#include <set>
#include <vector>

using namespace mlir;

namespace tessera::compiler {

void sortByDependence(Block &block) {
  sortByDependence(
      block, [](Operation *) { return false; }, [](Operation *) {});
}

void sortByDependence(Block &block, llvm::function_ref<bool(Operation *)> eager,
                      llvm::function_ref<void(Operation *)> placed) {
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, int> index;
  for (Operation &op : block.without_terminator()) {
    index[&op] = int(ops.size());
    ops.push_back(&op);
  }
  std::vector<int> missing(ops.size(), 0);
  std::vector<std::vector<int>> users(ops.size());
  std::set<int> ready;
  for (size_t i = 0; i < ops.size(); ++i) {
    for (Value operand : ops[i]->getOperands())
      if (Operation *maker = operand.getDefiningOp()) {
        users[index.lookup(maker)].push_back(int(i));
        ++missing[i];
      }
    if (missing[i] == 0)
      ready.insert(int(i));
  }
  Operation *end = block.getTerminator();
  while (!ready.empty()) {
    auto next = ready.begin();
    for (auto it = ready.begin(); it != ready.end(); ++it)
      if (eager(ops[*it])) {
        next = it;
        break;
      }
    int i = *next;
    ready.erase(next);
    ops[i]->moveBefore(end);
    placed(ops[i]);
    for (int user : users[i])
      if (--missing[user] == 0)
        ready.insert(user);
  }
}

} // namespace tessera::compiler
