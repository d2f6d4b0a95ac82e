//===- Uses.h - where the sources of a graph end up -------------------------------------------===//
//
// A source is a graph input or an initializer. UseMap follows it through operators that only move data, to the operands
// that read it:
//
//   UseMap uses(file);
//   uses.reach("fc.weight")     Gemm's operand 1 through a Transpose: {code 'k', transposed}
//
// The column `operands` of the operator table says how an operator uses each operand (Node.h).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_USES_H
#define TESSERA_COMPILER_IMPORT_USES_H

#include "compiler/import/ModelFile.h"

#include <set>

namespace tessera::compiler {

struct Use {
  const onnx::NodeProto *node;
  int operand;
};

/// An operand that a source reaches through operators that only move data.
struct Reach {
  char code;       // of the operand, see OpRow::operands
  Use use;         // the operand
  bool part;       // only a part of the source arrives
  bool transposed; // an odd number of transposes on the way

  /// Whether the operand takes a weight of any kind.
  bool isWeight() const { return llvm::StringRef("kbesomvp").contains(code); }
  /// Whether the operator must know the operand at import.
  bool isKnown() const { return code == 'c'; }
  /// Whether no gradient reaches the operand.
  bool isDiscrete() const { return code == 't' || isKnown(); }
  /// Whether the operand takes a running statistic of BatchNormalization.
  bool isStatistic() const { return code == 'm' || code == 'v'; }
};

class UseMap {
public:
  explicit UseMap(const ModelFile &file);

  /// Whether a live node reads the value, or it is an output.
  bool isLive(const std::string &name) const { return uses_.count(name) || outputs_.count(name); }
  std::vector<Reach> reach(const std::string &name) const;

private:
  std::map<std::string, std::vector<Use>> uses_;
  std::set<std::string> outputs_;
};

} // namespace tessera::compiler

#endif
