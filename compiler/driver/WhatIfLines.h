//===- WhatIfLines.h - lines of a what-if table -----------------------------------------------------===//
//
// This header is private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_WHATIFLINES_H
#define TESSERA_COMPILER_DRIVER_WHATIFLINES_H

#include "compiler/driver/Driver.h"

namespace tessera {

/// The first line that has a prediction, to which the efficiency of all is relative; the first if none has.
inline const ClusterPrediction &reference(llvm::ArrayRef<ClusterPrediction> lines) {
  const auto *it = llvm::find_if(lines, [](const ClusterPrediction &line) { return line.error.empty(); });
  return it == lines.end() ? lines.front() : *it;
}

} // namespace tessera

#endif
