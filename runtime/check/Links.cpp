#include "runtime/check/Links.h"

#include <algorithm>
#include <chrono>

namespace tessera::rt {
namespace {

constexpr int kPings = 8;                                                   // the first opens the way
constexpr size_t kStages[] = {1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22}; // bytes of long messages, until one takes
constexpr double kLongEnough = 0.05; // so many seconds, or less where there are many
constexpr int kReduces = 4;          // the first opens the ways
constexpr double kSlowReduce = 0.2;  // seconds; one such is enough
// What is not measured after so many seconds is not measured. Set by hand: sixteen ranks on four hosts need a tenth of
// it on an idle machine.
constexpr double kLatencySeconds = 3, kBandwidthSeconds = 3;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
int64_t wallClock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// This rank and its partner; a partner of -1: this rank alone. All ranks call it. Groups of two meet without the
/// others, so that what two of them measure is theirs.
Result<std::unique_ptr<Communicator>> pairUp(World &world, int partner) {
  std::vector<int> members = {world.rank()};
  if (partner >= 0)
    members.insert(partner < world.rank() ? members.begin() : members.end(), partner);
  return world.group(members);
}

/// One call in which the sender sends and the receiver receives.
Status pass(Communicator &pair, bool sends, void *data, size_t bytes) {
  const std::vector<Transfer> list = {{1 - pair.rank(), {0, {int64_t(bytes)}, {1}}}}, none;
  return sends ? pair.exchange(data, list, nullptr, none, plan::U8)
               : pair.exchange(nullptr, none, data, list, plan::U8);
}

/// A sender's bytes per second to its partner; 0 for a receiver. Messages grow until one takes `enough` seconds.
Result<double> measureRate(Communicator &pair, bool sends, double enough, std::vector<char> &buffer) {
  double rate = 0, took = 0;
  for (size_t stage : kStages) {
    uint64_t bytes = took > enough ? 0 : stage; // the sender decides
    TESSERA_RETURN_IF_ERROR(pass(pair, sends, &bytes, sizeof bytes));
    if (bytes == 0)
      break;
    char answer = 0;
    const double begin = now();
    TESSERA_RETURN_IF_ERROR(pass(pair, sends, buffer.data(), bytes));
    TESSERA_RETURN_IF_ERROR(pass(pair, !sends, &answer, 1));
    took = now() - begin;
    if (sends)
      rate = double(bytes) / took;
  }
  return rate;
}

/// Whether less than `most` seconds have passed since `begin` on every rank: the same answer on all.
Result<bool> hasTime(Communicator &everyone, double begin, double most) {
  double passed = now() - begin, longest = 0;
  TESSERA_RETURN_IF_ERROR(everyone.allReduce(&passed, &longest, 1, plan::F64, plan::MAX));
  return longest < most;
}

} // namespace

int tournamentRounds(int players) { return players < 2 ? 0 : players % 2 ? players : players - 1; }

int tournamentPartner(int player, int round, int players) {
  const int ring = tournamentRounds(players); // an odd number; the last player of an even number stands outside of it
  if (ring == 0)
    return -1;
  if (player == ring) // meets the one who would meet themselves
    return round * ((ring + 1) / 2) % ring;
  const int partner = (round - player + ring) % ring;
  if (partner != player)
    return partner;
  return ring < players ? ring : -1;
}

Result<Latencies> measureLatencies(World &world, Communicator &everyone) {
  const int me = world.rank(), n = world.size();
  const double start = now();
  Latencies found{std::vector<double>(size_t(n)), std::vector<double>(size_t(n))};
  for (int round = 0; round < tournamentRounds(n); ++round) {
    Result<bool> time = hasTime(everyone, start, kLatencySeconds);
    if (!time)
      return time.status();
    if (!*time)
      break;
    const int partner = tournamentPartner(me, round, n);
    Result<std::unique_ptr<Communicator>> pair = pairUp(world, partner);
    if (!pair)
      return pair.status();
    if (partner < 0)
      continue;
    // Both send and receive at once. What this rank sends in one call, its partner has before it sends in the next; so
    // from the begin of one call to the end of the next a message goes there and another one back.
    double shortest = 1e300, ahead = 0, before = 0;
    int64_t clockBefore = 0;
    for (int ping = 0; ping < kPings; ++ping) {
      const int64_t clock = wallClock();
      const double begin = now();
      int64_t clocks[2] = {};
      TESSERA_RETURN_IF_ERROR((*pair)->allGather(&clock, clocks, 1, 1, plan::I64));
      const double took = now() - before;
      if (took < shortest && ping > 1) {
        shortest = took;
        ahead = double(clocks[1 - (*pair)->rank()] - clockBefore) / 1e9 - took / 2;
      }
      before = begin;
      clockBefore = clock;
    }
    found.seconds[size_t(partner)] = shortest / 2;
    found.clockAhead[size_t(partner)] = ahead;
  }
  return found;
}

Result<double> measureDirection(World &world, int from, int to) {
  const int me = world.rank();
  Result<std::unique_ptr<Communicator>> pair = pairUp(world, me == from ? to : me == to ? from : -1);
  if (!pair)
    return pair.status();
  if (me != from && me != to)
    return 0.0;
  std::vector<char> buffer(std::end(kStages)[-1]);
  return measureRate(**pair, me == from, kLongEnough, buffer);
}

Result<std::vector<double>> measureBandwidths(World &world, Communicator &everyone, const std::vector<int> &players) {
  const int n = int(players.size()), rounds = tournamentRounds(n);
  const auto found = std::find(players.begin(), players.end(), world.rank());
  const int me = found == players.end() ? -1 : int(found - players.begin());
  const double start = now(), enough = std::min(kLongEnough, kBandwidthSeconds / (4 * std::max(1, rounds)));
  std::vector<double> rates(players.size());
  std::vector<char> buffer(me < 0 ? 1 : std::end(kStages)[-1]);
  for (int round = 0; round < rounds; ++round) {
    Result<bool> time = hasTime(everyone, start, kBandwidthSeconds);
    if (!time)
      return time.status();
    if (!*time)
      break;
    const int partner = me < 0 ? -1 : tournamentPartner(me, round, n);
    Result<std::unique_ptr<Communicator>> pair = pairUp(world, partner < 0 ? -1 : players[size_t(partner)]);
    if (!pair)
      return pair.status();
    for (bool first : {true, false}) {
      if (partner < 0)
        break;
      const bool sends = (me < partner) == first;
      Result<double> rate = measureRate(**pair, sends, enough, buffer);
      if (!rate)
        return rate.status();
      if (sends)
        rates[size_t(partner)] = *rate;
    }
  }
  return rates;
}

Result<double> measureAllReduce(Communicator &group, size_t bytes) {
  std::vector<float> data(bytes / sizeof(float));
  double shortest = 1e300;
  for (int i = 0; i < kReduces; ++i) {
    TESSERA_RETURN_IF_ERROR(group.barrier());
    const double begin = now();
    TESSERA_RETURN_IF_ERROR(group.allReduce(data.data(), data.data(), data.size(), plan::F32, plan::SUM));
    double took = now() - begin, longest = 0; // the members' longest: all go on, or none
    TESSERA_RETURN_IF_ERROR(group.allReduce(&took, &longest, 1, plan::F64, plan::MAX));
    shortest = std::min(shortest, longest);
    if (longest > kSlowReduce)
      break;
  }
  return shortest;
}

} // namespace tessera::rt
