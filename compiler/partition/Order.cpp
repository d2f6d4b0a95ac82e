#include "compiler/partition/Order.h"

#include "llvm/ADT/DenseMap.h"

#include <set>
#include <vector>

using namespace mlir;

namespace tessera::compiler {

void sortByDependence(Block &block) {
  sortByDependence(
      block, [](Operation *) { return false; }, [](Operation *, llvm::function_ref<void(Operation *)>) {});
}

void sortByDependence(Block &block, llvm::function_ref<bool(Operation *)> eager,
                      llvm::function_ref<void(Operation *, Reconsider)> placed) {
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, int> index;
  for (Operation &op : block.without_terminator()) {
    index[&op] = int(ops.size());
    ops.push_back(&op);
  }
  std::vector<int> missing(ops.size(), 0);
  std::vector<std::vector<int>> users(ops.size());
  std::set<int> ready, early; // early: those of them that are eager
  auto consider = [&](int i) {
    if (ready.count(i) && eager(ops[i]))
      early.insert(i);
    else
      early.erase(i);
  };
  for (size_t i = 0; i < ops.size(); ++i) {
    for (Value operand : ops[i]->getOperands())
      if (Operation *maker = operand.getDefiningOp()) {
        users[index.lookup(maker)].push_back(int(i));
        ++missing[i];
      }
    if (missing[i] == 0)
      ready.insert(int(i));
  }
  for (int i : ready)
    consider(i);
  Operation *end = block.getTerminator();
  while (!ready.empty()) {
    const int i = early.empty() ? *ready.begin() : *early.begin();
    ready.erase(i);
    early.erase(i);
    ops[i]->moveBefore(end);
    placed(ops[i], [&](Operation *op) {
      if (auto it = index.find(op); it != index.end())
        consider(it->second);
    });
    for (int user : users[i])
      if (--missing[user] == 0) {
        ready.insert(user);
        consider(user);
      }
  }
}

} // namespace tessera::compiler
