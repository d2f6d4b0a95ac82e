//===- Text.h - shardings and strategies as text ---------------------------------------------===//
//
// What attributes hold, strategy files keep and tools print.
//
//   sharding   "[data, -, model+x]"            axes per dimension, "-": not cut
//              "[-, model/64]"                 in units of 64 elements
//              "[-, -] sum(model)"             partial: the tensor is the sum over "model"
//   strategy   "m=data, k=model"               axes per factor of the operator's rule
//              "n=model/64"                    in units of 64 elements
//              "m=data | partial 0(model)"     operand group 0 of its linear clause arrives partial
//              "k=model -> [data, -]"          the result is handed on under another sharding
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_TEXT_H
#define TESSERA_DIALECTS_DIST_TEXT_H

#include "dialects/dist/ShardingRule.h"

namespace tessera::dist {

llvm::Expected<Sharding> parseSharding(llvm::StringRef text, const Mesh &mesh);
std::string strategyText(const Strategy &strategy, const ShardingRule &rule, const Mesh &mesh);
llvm::Expected<Strategy> parseStrategy(llvm::StringRef text, const ShardingRule &rule, const Mesh &mesh);

} // namespace tessera::dist

#endif
