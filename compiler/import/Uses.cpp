//===- Uses.cpp - following data ---------------------------------------------------------------===//

#include "compiler/import/Uses.h"
#include "compiler/import/Node.h"

using namespace llvm;

namespace tessera::compiler {

UseMap::UseMap(const ModelFile &file) {
  for (const onnx::NodeProto *node : file.order)
    file.eachRead(*node, [&](const std::string &name, int operand) { uses_[name].push_back({node, operand}); });
  for (const auto &output : file.graph().output())
    outputs_.insert(output.name());
}

std::vector<Reach> UseMap::reach(const std::string &name) const {
  std::vector<Reach> result;
  struct Item {
    std::string name;
    bool part, transposed;
  };
  std::vector<Item> work{{name, false, false}};
  std::set<std::string> seen{name};
  while (!work.empty()) {
    Item item = work.back();
    work.pop_back();
    auto it = uses_.find(item.name);
    if (it == uses_.end())
      continue;
    for (const Use &use : it->second) {
      const OpRow *row = findRow(*use.node);
      StringRef codes = row ? StringRef(row->operands) : ".";
      char code = codes[std::min<size_t>(use.operand, codes.size() - 1)];
      bool moves = code == '>' || code == '/';
      if (!moves || use.operand != 0) {
        result.push_back({code, use, item.part, item.transposed});
        continue;
      }
      for (const std::string &output : use.node->output())
        if (!output.empty() && seen.insert(output).second)
          work.push_back({output, item.part || code == '/', item.transposed != (use.node->op_type() == "Transpose")});
    }
  }
  return result;
}

} // namespace tessera::compiler
