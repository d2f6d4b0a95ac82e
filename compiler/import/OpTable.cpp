//===- OpTable.cpp - the table of ONNX operators ----------------------------------------------===//

#include "compiler/import/Node.h"
#include "compiler/import/OnnxImport.h"

namespace tessera::compiler {

const std::map<std::string, const OpRow *> &opTable() {
  static const std::map<std::string, const OpRow *> table = [] {
    std::map<std::string, const OpRow *> rows;
    for (auto family :
         {attentionOps(), constantOps(),    controlOps(),  convPoolOps(), einsumOps(),    elementwiseOps(),
          functionOps(),  gridSampleOps(),  indexingOps(), lossOps(),     matmulOps(),    movementOps(),
          normOps(),      poolIndicesOps(), quantizeOps(), randomOps(),   recurrentOps(), reduceOps(),
          resizeOps(),    sequenceOps(),    signalOps(),   windowOps()})
      for (const OpRow &row : family)
        rows.emplace(row.name.str(), &row);
    return rows;
  }();
  return table;
}

const OpRow *findRow(const onnx::NodeProto &node) {
  if (node.domain() == kTesseraDomain.str()) {
    const OpRow *row = llvm::find_if(collectiveOps(), [&](const OpRow &row) { return row.name == node.op_type(); });
    return row == collectiveOps().end() ? nullptr : row;
  }
  if (!node.domain().empty() && node.domain() != "ai.onnx")
    return nullptr;
  auto it = opTable().find(node.op_type());
  return it == opTable().end() ? nullptr : it->second;
}

std::vector<SupportedOperator> supportedOperators() {
  std::vector<SupportedOperator> list;
  for (const auto &[name, row] : opTable())
    list.push_back({name, row->since, row->until, row->limits.str()});
  return list;
}

} // namespace tessera::compiler
