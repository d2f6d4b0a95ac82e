// The check before a run: who meets whom, what is measured between threads, and what the judge says of measurements.
#include "runtime/check/Check.h"
#include "runtime/check/Links.h"
#include "runtime/launch/Launcher.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <mutex>
#include <set>

using namespace tessera::rt;

namespace {

/// Hosts a, b, c, ... with a rank each, links of 1 Gbit/s and 0.1 ms, and nothing wrong.
CheckReport healthy(int hosts) {
  CheckReport report;
  for (int h = 0; h < hosts; ++h) {
    RankFacts facts = {};
    facts.host[0] = char('a' + h);
    std::strcpy(facts.version, "1.0.0");
    std::strcpy(facts.libraries, "oneDNN 2.6.3");
    std::strcpy(facts.plan, "p");
    facts.cores = 4;
    facts.freeMemory = int64_t(8) << 30;
    facts.neededMemory = int64_t(1) << 30;
    facts.freeDisk = int64_t(100) << 30;
    facts.checkpoint = int64_t(1) << 20;
    report.ranks.push_back(facts);
    report.hosts.push_back(facts.host);
    report.hostOf.push_back(h);
    report.clockAhead.push_back(0);
    report.latency.emplace_back(size_t(hosts), 1e-4);
    report.latency.back()[size_t(h)] = 0;
    for (int to = 0; to < hosts; ++to)
      if (to != h)
        report.links.push_back({h, to, 125e6});
  }
  report.checkpoints = true;
  return report;
}

HostLink &link(CheckReport &report, int from, int to) {
  for (HostLink &link : report.links)
    if (link.from == from && link.to == to)
      return link;
  throw std::logic_error("no such link");
}

} // namespace

TEST_CASE("in a tournament every two meet once") {
  for (int players : {0, 1, 2, 3, 4, 5, 8, 15, 16}) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < tournamentRounds(players); ++round)
      for (int player = 0; player < players; ++player) {
        const int partner = tournamentPartner(player, round, players);
        if (partner < 0)
          continue;
        REQUIRE(partner != player);
        REQUIRE(tournamentPartner(partner, round, players) == player);
        if (player < partner)
          CHECK(met.emplace(player, partner).second);
      }
    CHECK(int(met.size()) == players * (players - 1) / 2);
  }
}

TEST_CASE("nothing is wrong with equal links") {
  const CheckReport report = healthy(4);
  CHECK(checkFaults(report).empty());
  const std::string table = checkTable(report);
  CHECK(table.find("1 Gbit/s") != std::string::npos);
  CHECK(table.find("to d") != std::string::npos);
}

TEST_CASE("a slow link is told with its direction and how slow it is") {
  CheckReport report = healthy(4);
  link(report, 1, 2).bytesPerSecond = 11.75e6;
  CHECK(checkFaults(report) == std::vector<std::string>{"host b reaches host c at 94 Mbit/s, 1/11 of the others"});
  link(report, 1, 2).bytesPerSecond = 12.5e6;
  CHECK(checkFaults(report).front() == "host b reaches host c at 100 Mbit/s, a tenth of the others");
  CheckReport two = healthy(2); // the other direction is what there is to compare with
  link(two, 0, 1).bytesPerSecond = 125e5;
  CHECK(checkFaults(two).front() == "host a reaches host b at 100 Mbit/s, a tenth of the others");
}

TEST_CASE("late messages, clocks, memory, disks, versions and plans are told") {
  CheckReport report = healthy(3);
  report.latency[0][2] = 0.02;
  report.clockAhead[1] = -7.25;
  report.ranks[1].freeMemory = int64_t(512) << 20;
  report.ranks[2].freeDisk = 1024;
  std::strcpy(report.ranks[2].version, "0.9.0");
  std::strcpy(report.ranks[2].libraries, "oneDNN 3.2.0");
  std::strcpy(report.ranks[1].plan, "q");
  std::strcpy(report.ranks[0].fault, "no device\x1b");
  const std::vector<std::string> faults = checkFaults(report);
  CHECK(faults == std::vector<std::string>{
                      "host a reaches host c after 20.00 ms, the others take 0.10 ms",
                      "host b has 512.00 MiB of memory free, its 1 rank needs 1.00 GiB",
                      "the clock of host b is 7.2 s behind that of host a",
                      "host c has 1.00 KiB of disk for a checkpoint free, its 1 rank needs 1.00 MiB",
                      "rank 0 on host a: no device\\x1b",
                      "rank 1 has another plan than rank 0",
                      "rank 2 runs Tessera 0.9.0, rank 0 runs 1.0.0",
                      "rank 2 runs with oneDNN 3.2.0, rank 0 with oneDNN 2.6.3",
                  });
}

TEST_CASE("what there was no time to measure is not wrong") {
  CheckReport report = healthy(3);
  link(report, 0, 2).bytesPerSecond = 0;
  report.latency[0][2] = 0;
  report.longReduce = size_t(1) << 18;
  report.groups.push_back({"data", {0, 1, 2}, 1e-3, 2e-3});
  CHECK(checkFaults(report).empty());
  const std::string table = checkTable(report), json = checkJson(report);
  CHECK(table.find("  -  ") != std::string::npos);
  CHECK(table.find("of 256 KiB") != std::string::npos);
  CHECK(json.find("\"bytes_per_second\": null") != std::string::npos);
  CHECK(json.find("\"bytes\": 262144") != std::string::npos);
  CHECK(json.find("\"wrong\": []") != std::string::npos);
}

TEST_CASE("ranks measure each other") {
  std::mutex mutex;
  std::vector<Latencies> latencies(5);
  const Status status = runRanks(5, [&](World &world) -> Status {
    Result<std::unique_ptr<Communicator>> everyone = world.group({0, 1, 2, 3, 4});
    if (!everyone)
      return everyone.status();
    Result<Latencies> mine = measureLatencies(world, **everyone);
    if (!mine)
      return mine.status();
    Result<std::vector<double>> rates = measureBandwidths(world, **everyone, {0, 2, 4});
    if (!rates)
      return rates.status();
    std::lock_guard lock(mutex);
    latencies[size_t(world.rank())] = *mine;
    const bool player = world.rank() % 2 == 0;
    for (int p = 0; p < 3; ++p)
      if (((*rates)[size_t(p)] > 0) != (player && 2 * p != world.rank()))
        return Status::error("player " + std::to_string(p));
    return Status();
  });
  CHECK(status.message() == "");
  for (size_t a = 0; a < 5; ++a)
    for (size_t b = 0; b < 5; ++b)
      CHECK((latencies[a].seconds[b] > 0) == (a != b));
}
