//===- Groups.h - checks that ranks mean the same groups -------------------------------------===//
//
// World::group is called by all ranks of a world together; each names the group it belongs to. The
// call is right if every list is a set of ranks with its caller among them, and all ranks on a list
// gave the same list. Rank 0 and 1 giving [0, 1] while rank 2 and 3 give [2, 3] is right; rank 1
// giving [1, 0] is not.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_GROUPS_H
#define TESSERA_RUNTIME_COMM_GROUPS_H

#include "runtime/support/Status.h"

#include <vector>

namespace tessera::rt {

/// `lists[r]` is what rank r gave. The same answer on every rank.
Status checkGroups(const std::vector<std::vector<int>> &lists);

} // namespace tessera::rt

#endif
