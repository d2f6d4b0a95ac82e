//===- ProfileTable.h - what was measured --------------------------------------------------------===//
//
// Times of kernels as they were measured on the machine, by kernel key. Where an entry is present it
// replaces the estimate. A JSON file: {"kernels": {"graph.conv 8x64x32x32,64x64x3x3->8x64x32x32 f32": 1.2e-3}}
// (seconds); the key is what `kernelKey` builds.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_PROFILETABLE_H
#define TESSERA_STRATEGIES_COST_PROFILETABLE_H

#include "dialects/dist/ShardingRule.h"

#include <map>
#include <optional>
#include <string>

namespace tessera::strategies {

class ProfileTable {
public:
  static llvm::Expected<ProfileTable> load(llvm::StringRef path);
  static llvm::Expected<ProfileTable> parse(llvm::StringRef json, llvm::StringRef origin);

  static std::string kernelKey(llvm::StringRef kernel, llvm::ArrayRef<dist::Shape> operands,
                               llvm::ArrayRef<dist::Shape> results, int elementBits);

  bool empty() const { return seconds_.empty(); }
  std::optional<double> seconds(const std::string &key) const;

private:
  std::map<std::string, double> seconds_;
};

} // namespace tessera::strategies

#endif
