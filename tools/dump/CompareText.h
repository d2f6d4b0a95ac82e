//===- CompareText.h - what differs between two plans, on one screen ----------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_COMPARETEXT_H
#define TESSERA_TOOLS_DUMP_COMPARETEXT_H

#include "tools/dump/ReportFields.h"

#include <string>

namespace tessera {

/// The totals of both plans, and the operators with the largest difference of time. `compared` is of comparePages().
std::string compareText(const Json &compared);

} // namespace tessera

#endif
