//===- Groups.h - checks that ranks mean the same groups -------------------------------------===//
//
// All ranks of a world call World::group together, and each names the group that it belongs to. The call is right if
// every list is a set of ranks with its caller among them, and if all ranks on a list gave the same list. For example,
// ranks 0 and 1 may give [0, 1] while ranks 2 and 3 give [2, 3]; rank 1 may not give [1, 0].
// Runs of neighbours divide a group into equal parts.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_GROUPS_H
#define TESSERA_RUNTIME_COMM_GROUPS_H

#include "runtime/support/Status.h"

#include <vector>

namespace tessera::rt {

/// `lists[r]` is the list that rank r gave. Every rank gets the same answer.
Status checkGroups(const std::vector<std::vector<int>> &lists);
Status checkRun(size_t members, int run);

} // namespace tessera::rt

#endif
