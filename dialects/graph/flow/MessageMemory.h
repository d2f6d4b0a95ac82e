//===- MessageMemory.h - messages that memory has room for ---------------------------------------===//
//
// A message delays its members: what they read lives until the last of them is ready, and what a gather makes lives
// from the first on. Where more lives than there is room for, the messages around that time become smaller. Messages at
// other times stay as they are.
//
//   splitToFit(flow, {{1, 3, 5, 7}, {20, 22}, {30}}, room)     // {{1, 3}, {5, 7}, {20, 22}, {30}}: too much at step 7
//
// A list of one collective is sent alone. It is listed all the same, because its result takes its operand's place.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FLOW_MESSAGEMEMORY_H
#define TESSERA_DIALECTS_GRAPH_FLOW_MESSAGEMEMORY_H

#include "dialects/graph/flow/DataFlow.h"

#include <vector>

namespace tessera::graph {

/// The most bytes that live at once, without values that are kept, if messages are sent so.
int64_t peakOf(const DataFlow &flow, llvm::ArrayRef<std::vector<int>> messages);

/// `messages`, of which those at times at which more than `room` bytes live are halved until no more lives. All are
/// sent alone if nothing else helps.
std::vector<std::vector<int>> splitToFit(const DataFlow &flow, std::vector<std::vector<int>> messages, int64_t room);

} // namespace tessera::graph

#endif
