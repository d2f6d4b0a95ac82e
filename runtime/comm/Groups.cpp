#include "runtime/comm/Groups.h"

namespace tessera::rt {

static std::string listText(const std::vector<int> &ranks) {
  std::string text = "[";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text + "]";
}

Status checkGroups(const std::vector<std::vector<int>> &lists) {
  const int n = int(lists.size());
  for (int rank = 0; rank < n; ++rank) {
    std::vector<bool> seen(n, false);
    for (int member : lists[rank]) {
      if (member < 0 || member >= n || seen[member])
        return Status::error("rank " + std::to_string(rank) + " names the group " + listText(lists[rank]) +
                             ", which is no set of ranks of a world of " + std::to_string(n));
      seen[member] = true;
    }
    if (!seen[rank])
      return Status::error("rank " + std::to_string(rank) + " is not in the group " + listText(lists[rank]) +
                           " that it names");
  }
  for (int rank = 0; rank < n; ++rank)
    for (int member : lists[rank])
      if (lists[member] != lists[rank])
        return Status::error("group mismatch: rank " + std::to_string(rank) + " names the group " +
                             listText(lists[rank]) + ", its member rank " + std::to_string(member) + " names " +
                             listText(lists[member]));
  return Status();
}

Status checkRun(size_t members, int run) {
  if (run < 1 || members % size_t(run) != 0)
    return Status::error("runs of " + std::to_string(run) + " members do not divide a group of " +
                         std::to_string(members));
  return Status();
}

} // namespace tessera::rt
