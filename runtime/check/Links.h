//===- Links.h - how long messages take between two ranks --------------------------------------------===//
//
// Ranks meet in rounds, as teams of a tournament do: in every round each rank has one partner, and after the last one
// it has met all others.
//
//   4 ranks: 0-3 1-2 | 2-3 0-1 | 1-3 0-2         tournamentPartner(rank, round, 4)
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECK_LINKS_H
#define TESSERA_RUNTIME_CHECK_LINKS_H

#include "runtime/comm/Communicator.h"

#include <vector>

namespace tessera::rt {

/// How many rounds there are.
int tournamentRounds(int players);
/// Whom a player meets in a round; -1: nobody.
int tournamentPartner(int player, int round, int players);

struct Latencies {
  std::vector<double> seconds;    // by rank, half of the way there and back; 0: this rank, or there was no time
  std::vector<double> clockAhead; // by rank: how far its clock is ahead of this rank's, seconds
};

/// Called by all ranks: every two of them exchange short messages. `everyone` is a group of all. Ends after some
/// seconds, whatever was measured then.
Result<Latencies> measureLatencies(World &world, Communicator &everyone);

/// Called by all ranks: rank `from` sends rank `to` long messages. Bytes per second at `from`, 0 at all others.
Result<double> measureDirection(World &world, int from, int to);

/// Called by all ranks. Ranks `players` send each other long messages, one direction after the other. The result is of
/// this rank as a sender, by player, in bytes per second; 0: not measured. Ends after some seconds, too.
Result<std::vector<double>> measureBandwidths(World &world, Communicator &everyone, const std::vector<int> &players);

/// The shortest of some all-reduces of so many bytes, in seconds. Called by all members of the group.
Result<double> measureAllReduce(Communicator &group, size_t bytes);

} // namespace tessera::rt

#endif
