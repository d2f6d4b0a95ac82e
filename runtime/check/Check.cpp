#include "runtime/check/Check.h"

#include "runtime/check/Links.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

namespace tessera::rt {
namespace {

constexpr int kAgain = 3;              // so often slow links are measured again,
constexpr size_t kMostAgain = 12;      // and so many of them, the slowest,
constexpr double kAgainUntil = 6;      // unless so many seconds of the check have passed
constexpr double kReduceSeconds = 0.5; // a long all-reduce is smaller where the slowest link would make it take longer
constexpr size_t kLeastReduce = size_t(1) << 14;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Everybody's rows of equally many numbers, by rank.
Result<std::vector<std::vector<double>>> gather(Communicator &everyone, const std::vector<double> &row) {
  std::vector<double> all(row.size() * size_t(everyone.size()));
  TESSERA_RETURN_IF_ERROR(everyone.allGather(row.data(), all.data(), 1, row.size(), plan::F64));
  std::vector<std::vector<double>> rows;
  for (size_t at = 0; at < all.size(); at += row.size())
    rows.emplace_back(all.begin() + long(at), all.begin() + long(at + row.size()));
  return rows;
}

/// Numbers the hosts by their first ranks.
void nameHosts(CheckReport &report) {
  std::map<std::pair<std::string, std::string>, int> known;
  for (const RankFacts &facts : report.ranks) {
    auto [it, fresh] = known.try_emplace({facts.host, facts.network}, int(report.hosts.size()));
    if (fresh) {
      std::string name = facts.host;
      // Containers of one machine may share its name.
      if (std::find(report.hosts.begin(), report.hosts.end(), name) != report.hosts.end())
        name += "/" + std::to_string(it->second);
      report.hosts.push_back(name);
    }
    report.hostOf.push_back(it->second);
  }
}

Status gatherFacts(Communicator &everyone, const RankFacts &own, CheckReport &report) {
  report.ranks.resize(size_t(everyone.size()));
  return everyone.allGather(&own, report.ranks.data(), 1, sizeof own, plan::U8);
}

Status measureLinks(World &world, Communicator &everyone, double begin, CheckReport &report) {
  Result<Latencies> mine = measureLatencies(world, everyone);
  if (!mine)
    return mine.status();
  Result<std::vector<std::vector<double>>> latency = gather(everyone, mine->seconds),
                                           clocks = gather(everyone, mine->clockAhead);
  if (!latency || !clocks)
    return latency ? clocks.status() : latency.status();
  report.latency = std::move(*latency);
  report.clockAhead = clocks->front();
  std::vector<int> first; // rank of each host
  for (size_t r = 0; r < report.hostOf.size(); ++r)
    if (report.hostOf[r] == int(first.size()))
      first.push_back(int(r));
  if (first.size() < 2)
    return Status();
  Result<std::vector<double>> rates = measureBandwidths(world, everyone, first);
  if (!rates)
    return rates.status();
  Result<std::vector<std::vector<double>>> all = gather(everyone, *rates);
  if (!all)
    return all.status();
  for (size_t from = 0; from < first.size(); ++from)
    for (size_t to = 0; to < first.size(); ++to)
      if (from != to)
        report.links.push_back({int(from), int(to), (*all)[size_t(first[from])][to]});
  // A machine that was busy for a moment is no slow link.
  for (int again = 0; again < kAgain; ++again) {
    std::vector<size_t> slow = slowLinks(report);
    slow.resize(std::min(slow.size(), kMostAgain));
    double passed = now() - begin;
    TESSERA_RETURN_IF_ERROR(everyone.allReduce(&passed, &passed, 1, plan::F64, plan::MAX));
    if (slow.empty() || passed > kAgainUntil)
      break;
    std::vector<double> mine;
    for (size_t i : slow) {
      Result<double> rate =
          measureDirection(world, first[size_t(report.links[i].from)], first[size_t(report.links[i].to)]);
      if (!rate)
        return rate.status();
      mine.push_back(*rate);
    }
    Result<std::vector<std::vector<double>>> rows = gather(everyone, mine);
    if (!rows)
      return rows.status();
    for (size_t s = 0; s < slow.size(); ++s)
      for (const std::vector<double> &row : *rows)
        report.links[slow[s]].bytesPerSecond = std::max(report.links[slow[s]].bytesPerSecond, row[s]);
  }
  return Status();
}

/// The bytes of a long all-reduce, which passes a link about twice.
size_t longReduce(const CheckReport &report) {
  double slowest = 1e300;
  for (const HostLink &link : report.links)
    if (link.bytesPerSecond > 0)
      slowest = std::min(slowest, link.bytesPerSecond);
  size_t bytes = kLongReduce;
  while (bytes > kLeastReduce && 2 * double(bytes) > kReduceSeconds * slowest)
    bytes /= 4;
  return bytes;
}

/// Every rank has as many groups as the others, in the same order.
Status measureGroups(const PlanDirectory &plan, World &world, Communicator &everyone, CheckReport &report) {
  const plan::Plan &own = plan.ranks[size_t(world.rank())];
  std::vector<double> times;
  for (const plan::Group &group : own.groups()) {
    if (group.ranks_size() < 2)
      continue;
    Result<std::unique_ptr<Communicator>> members = world.groupOf(group);
    if (!members)
      return members.status();
    for (size_t bytes : {kShortReduce, report.longReduce}) {
      Result<double> seconds = measureAllReduce(**members, bytes);
      if (!seconds)
        return seconds.status();
      times.push_back(*seconds);
    }
  }
  if (times.empty())
    return Status();
  Result<std::vector<std::vector<double>>> all = gather(everyone, times);
  if (!all)
    return all.status();
  for (int rank = 0; rank < world.size(); ++rank) {
    size_t at = 0;
    for (const plan::Group &group : plan.ranks[size_t(rank)].groups()) {
      if (group.ranks_size() < 2)
        continue;
      if (int(group.ranks(0)) == rank) // once a group
        report.groups.push_back({group.name(),
                                 {group.ranks().begin(), group.ranks().end()},
                                 (*all)[size_t(rank)][at],
                                 (*all)[size_t(rank)][at + 1]});
      at += 2;
    }
  }
  std::stable_sort(report.groups.begin(), report.groups.end(),
                   [](const GroupTime &a, const GroupTime &b) { return a.name < b.name; });
  return Status();
}

} // namespace

Result<CheckReport> checkRanks(const PlanDirectory &plan, const CheckOptions &options, World &world) {
  const double begin = now();
  std::vector<int> all(size_t(world.size()));
  std::iota(all.begin(), all.end(), 0);
  Result<std::unique_ptr<Communicator>> everyone = world.group(all);
  if (!everyone)
    return everyone.status();
  CheckReport found;
  found.checkpoints = !options.checkpointDir.empty();
  found.devices = options.devices;
  const int device = options.devices ? options.localRank : -1;
  TESSERA_RETURN_IF_ERROR(gatherFacts(**everyone,
                                      factsOfRank(plan.ranks[size_t(world.rank())], options.checkpointDir, device,
                                                  options.shareDevices, options.libraries),
                                      found));
  nameHosts(found);
  if (!options.threads && world.size() > 1)
    TESSERA_RETURN_IF_ERROR(measureLinks(world, **everyone, begin, found));
  found.longReduce = longReduce(found);
  TESSERA_RETURN_IF_ERROR(measureGroups(plan, world, **everyone, found));
  TESSERA_RETURN_IF_ERROR((*everyone)->barrier()); // nobody leaves before all are done
  found.seconds = now() - begin;
  return found;
}

} // namespace tessera::rt
