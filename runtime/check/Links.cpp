#include "runtime/check/Links.h"

#include <algorithm>
#include <chrono>

namespace tessera::rt {
namespace {

constexpr int kPings = 6;                                         // the first opens the way
constexpr size_t kStages[] = {1 << 16, 1 << 19, size_t(1) << 22}; // bytes of long messages, until one takes
constexpr double kLongEnough = 0.05;                              // so many seconds
constexpr int kReduces = 4;                                       // the first opens the ways
constexpr double kSlowReduce = 0.2;                               // seconds; one such is enough

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
int64_t wallClock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// One exchange in which this rank sends bytes to one rank, or receives some, or does neither. A peer of -1: neither.
/// All ranks make the same calls, as communicators want it.
Status send(Communicator &everyone, int to, const void *data, size_t bytes) {
  const std::vector<Transfer> list = {{to, {0, {int64_t(bytes)}, {1}}}};
  return everyone.exchange(data, to < 0 || bytes == 0 ? std::vector<Transfer>() : list, nullptr, {}, plan::U8);
}
Status receive(Communicator &everyone, int from, void *data, size_t bytes) {
  const std::vector<Transfer> list = {{from, {0, {int64_t(bytes)}, {1}}}};
  return everyone.exchange(nullptr, {}, data, from < 0 || bytes == 0 ? std::vector<Transfer>() : list, plan::U8);
}

/// One call in which the sender sends and the receiver receives.
Status pass(Communicator &everyone, bool sends, int partner, void *data, size_t bytes) {
  return sends ? send(everyone, partner, data, bytes) : receive(everyone, partner, data, bytes);
}

/// A sender's bytes per second to its partner; 0 for a receiver, and for a rank without a partner.
Result<double> measureRate(Communicator &everyone, bool sends, int partner, std::vector<char> &buffer) {
  double rate = 0;
  bool enough = false;
  for (size_t stage : kStages) {
    uint64_t bytes = enough ? 0 : stage; // the sender decides
    TESSERA_RETURN_IF_ERROR(pass(everyone, sends, partner, &bytes, sizeof bytes));
    char answer = 0;
    const double begin = now();
    TESSERA_RETURN_IF_ERROR(pass(everyone, sends, partner, buffer.data(), bytes));
    TESSERA_RETURN_IF_ERROR(pass(everyone, !sends, partner, &answer, 1));
    const double took = now() - begin;
    if (sends && bytes > 0 && partner >= 0)
      rate = double(bytes) / took;
    enough |= took > kLongEnough;
  }
  return rate;
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

Result<Latencies> measureLatencies(Communicator &everyone) {
  const int me = everyone.rank(), n = everyone.size();
  Latencies found{std::vector<double>(size_t(n)), std::vector<double>(size_t(n))};
  for (int round = 0; round < tournamentRounds(n); ++round) {
    TESSERA_RETURN_IF_ERROR(everyone.barrier());
    const int partner = tournamentPartner(me, round, n);
    for (bool first : {true, false}) { // both measure, one after the other
      const bool asks = (me < partner) == first;
      double shortest = 1e300, ahead = 0;
      for (int ping = 0; ping < kPings; ++ping) {
        const int64_t clock = wallClock();
        const double begin = now();
        int64_t told = clock;
        TESSERA_RETURN_IF_ERROR(pass(everyone, asks, partner, &told, sizeof told));
        told = wallClock();
        TESSERA_RETURN_IF_ERROR(pass(everyone, !asks, partner, &told, sizeof told));
        const double took = now() - begin;
        if (took < shortest && ping > 0) {
          shortest = took;
          ahead = double(told - clock) / 1e9 - took / 2;
        }
      }
      if (asks && partner >= 0) {
        found.seconds[size_t(partner)] = shortest / 2;
        found.clockAhead[size_t(partner)] = ahead;
      }
    }
  }
  return found;
}

Result<double> measureDirection(Communicator &everyone, int from, int to) {
  const int me = everyone.rank();
  std::vector<char> buffer(me == from || me == to ? std::end(kStages)[-1] : 1);
  TESSERA_RETURN_IF_ERROR(everyone.barrier());
  return measureRate(everyone, me == from, me == from ? to : me == to ? from : -1, buffer);
}

Result<std::vector<double>> measureBandwidths(Communicator &everyone, const std::vector<int> &players) {
  const int n = int(players.size());
  const auto found = std::find(players.begin(), players.end(), everyone.rank());
  const int me = found == players.end() ? -1 : int(found - players.begin());
  std::vector<double> rates(players.size());
  std::vector<char> buffer(me < 0 ? 1 : std::end(kStages)[-1]);
  for (int round = 0; round < tournamentRounds(n); ++round)
    for (bool first : {true, false}) {
      TESSERA_RETURN_IF_ERROR(everyone.barrier());
      const int partner = me < 0 ? -1 : tournamentPartner(me, round, n);
      const bool sends = (me < partner) == first;
      Result<double> rate = measureRate(everyone, sends, partner < 0 ? -1 : players[size_t(partner)], buffer);
      if (!rate)
        return rate.status();
      if (sends && partner >= 0)
        rates[size_t(partner)] = *rate;
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
