//===- Uses.h - where the sources of a graph end up -------------------------------------------===//
//
// A source (graph input or initializer) is followed through operators that only move data to the operands that read it:
//
//   UseMap uses(file);
//   uses.reach("fc.weight")     Gemm's operand 1 through a Transpose: {code 'k', transposed}
//
// What an operand is to its operator stands in the `operands` column of the operator table (Node.h).
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

/// Where a source ends up, through operators that only move data.
struct Reach {
  char code;       // of the operand, see OpRow::operands
  Use use;         // the operand
  bool part;       // only a part of it arrives
  bool transposed; // an odd number of transposes on the way

  /// Is it the operand of a weight, of whatever kind?
  bool isWeight() const { return llvm::StringRef("kbesomvp").contains(code); }
  /// Does its operator need to know it?
  bool isKnown() const { return code == 'c'; }
  /// Does no gradient reach it?
  bool isDiscrete() const { return code == 't' || isKnown(); }
  /// Is it one of BatchNormalization's running statistics?
  bool isStatistic() const { return code == 'm' || code == 'v'; }
};

class UseMap {
public:
  explicit UseMap(const ModelFile &file);

  /// Does a live node read it, or is it an output?
  bool isLive(const std::string &name) const { return uses_.count(name) || outputs_.count(name); }
  std::vector<Reach> reach(const std::string &name) const;

private:
  std::map<std::string, std::vector<Use>> uses_;
  std::set<std::string> outputs_;
};

} // namespace tessera::compiler

#endif
