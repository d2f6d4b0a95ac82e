#include "strategies/graph/MicroBatchNodes.h"

#include "dialects/graph/GraphOrigin.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tessera::strategies {

namespace {

int64_t microBatchOf(Operation *op) {
  auto number = op->getAttrOfType<IntegerAttr>(graph::kMicroBatchAttr);
  return number ? number.getInt() : 0;
}

/// The name that an operator has in every micro-batch. It leaves out the number that tells operators of one name apart,
/// since that number goes on from one micro-batch to the next.
std::string sharedName(Operation *op) {
  const std::string name = graph::nodeNameOf(op);
  auto [stem, number] = llvm::StringRef(name).rsplit('.');
  return !number.empty() && llvm::all_of(number, llvm::isDigit) ? stem.str() : name;
}

} // namespace

std::vector<int32_t> nodesOfGroups(const Program &program, const FollowGroups &groups,
                                   llvm::ArrayRef<std::shared_ptr<const GroupOptions>> options) {
  using Kind = std::pair<const GroupOptions *, std::string>;
  std::map<std::pair<Kind, int64_t>, size_t> counts;      // by kind and micro-batch; looked up only
  std::map<std::pair<Kind, size_t>, int32_t> counterpart; // by kind and place
  std::vector<int32_t> nodes;
  int32_t number = 0;
  for (size_t c = 0; c < groups.list.size(); ++c) {
    if (groups.list[c].arg >= 0) {
      nodes.push_back(number++);
      continue;
    }
    Operation *head = program.operators[size_t(groups.list[c].ops.front())].op;
    Kind kind{options[c].get(), sharedName(head)};
    const size_t place = counts[{kind, microBatchOf(head)}]++;
    auto [it, fresh] = counterpart.try_emplace({kind, place}, number);
    number += fresh;
    nodes.push_back(it->second);
  }
  return nodes;
}

} // namespace tessera::strategies
