//===- PictureRows.h - a plan's operators, grouped and folded to fit on a screen ------------------===//
//
// A row is a group of operators: consecutive ones of one module whose results are sharded alike. Modules are cut off
// at the depth that leaves at most `limit` rows, and consecutive modules that look alike share their rows.
//
//   /layer1/layer1.0/conv1/Conv and /layer1/layer1.0/relu/Relu     one row "layer1/layer1.0: conv1 relu"
//   /layer1/layer1.1/..., which looks the same                     the same row, "layer1/layer1.0 to layer1/layer1.1"
//
// Times and bytes of shared rows are sums, so that all rows together have what the function has.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_PICTUREROWS_H
#define TESSERA_TOOLS_DUMP_PICTUREROWS_H

#include "tools/dump/ReportFields.h"

#include <cstdint>
#include <vector>

namespace tessera {

/// What one rank sends by one kind of collective over some axes.
struct Traffic {
  std::string kind, axes;
  uint64_t count = 0;
  double bytes = 0;
};

/// `op` is null in the last row, of what belongs to no operator of the model: updates and what reduces gradients.
struct Row {
  std::string module, lastModule;  // of modules that look alike, the first and the last
  std::vector<std::string> labels; // of its operators
  const Json *op = nullptr;        // whose result is shown
  size_t repeats = 1;              // modules
  double compute = 0;
  std::vector<Traffic> forward, backward;

  std::string sharding() const;
  /// Of the whole result; in mode hybrid, which knows no whole, of a rank's.
  const Json &shape() const;
};

/// The rows of one function of a report, which they point into. Where even whole modules need more rows than `limit`,
/// so many it is.
std::vector<Row> pictureRows(const Json &function, size_t limit);

} // namespace tessera

#endif
