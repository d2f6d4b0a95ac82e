//===- PictureRows.h - a plan's operators, grouped and folded to fit on a screen ------------------===//
//
// A row is a group of consecutive operators of one module whose results are sharded alike. Modules are shown down to a
// depth that gives at most `limit` rows. Consecutive modules that look alike share their rows.
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

/// The data that one rank sends by one kind of collective over some axes.
struct Traffic {
  std::string kind, axes;
  uint64_t count = 0;
  double bytes = 0;
};

/// A row. `op` is null in the last row, which collects what belongs to no operator of the model: updates, and
/// reductions of gradients.
struct Row {
  std::string module, lastModule;  // the first and last of several modules that look alike
  std::vector<std::string> labels; // of its operators
  const Json *op = nullptr;        // the operator whose result is shown
  size_t repeats = 1;              // the number of modules that look alike
  double compute = 0;
  std::vector<Traffic> forward, backward;

  std::string sharding() const;
  /// The shape of the global result; in mode hybrid, which has none, that of a rank's.
  const Json &shape() const;
};

/// The rows of one function of a report; they point into it. There may be more than `limit` rows if even whole modules
/// need more.
std::vector<Row> pictureRows(const Json &function, size_t limit);

} // namespace tessera

#endif
