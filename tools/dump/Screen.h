//===- Screen.h - a large program on one screen of text -----------------------------------------------===//
//
//   largest costs                               time      of the step
//   l0.up and 23 alike (matmul)                 9.91 s        29.2 %
//
//   layers                                      operators  compute    communication  strategies
//   l0 to l11, 12 alike                         37         2.53 s     3.21 ms        b0=data+model x25, n=model x2
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_SCREEN_H
#define TESSERA_TOOLS_DUMP_SCREEN_H

#include "tools/dump/ReportFields.h"

#include <string>

namespace tessera {

/// The ten largest costs of a report's function, and its layers, those that repeat once.
std::string screenText(const Json &function, const Json &report);

} // namespace tessera

#endif
