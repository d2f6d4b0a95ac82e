//===- Check.h - what a run needs, before its first step ---------------------------------------------===//
//
// tessera-run --check: hosts and ranks reach each other, how fast, in both directions and in the plan's groups; clocks,
// versions, memory, the disk of the checkpoint folder, devices. Every rank makes one call:
//
//   Result<CheckReport> report = checkRanks(*plan, options, world);
//   console.line(checkTable(*report));
//   for (const std::string &fault : checkFaults(*report))     // "host b reaches host c at 94 Mbit/s, a tenth of ..."
//     ...
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECK_CHECK_H
#define TESSERA_RUNTIME_CHECK_CHECK_H

#include "runtime/check/RankFacts.h"
#include "runtime/comm/Communicator.h"
#include "runtime/plan/PlanFile.h"

#include <string>
#include <vector>

namespace tessera::rt {

struct CheckOptions {
  std::string checkpointDir;  // empty: none is asked for
  bool devices = false;       // the run will be on devices,
  bool shareDevices = false;  // which ranks may share
  bool threads = false;       // ranks are threads of one process, which need no links
  int localRank = 0;          // on this machine
  std::string libraries = {}; // that the run uses without devices: "oneDNN 2.6.3, Open MPI v4.1.4"
};

/// One direction between two hosts, measured by their first ranks; what is slow several times, and the best counts.
struct HostLink {
  int from = 0, to = 0;      // hosts
  double bytesPerSecond = 0; // 0: not measured
};

struct GroupTime {
  std::string name;
  std::vector<int> ranks;
  double shortSeconds = 0, longSeconds = 0; // of an all-reduce of kShortReduce and of CheckReport::longReduce bytes
};

/// A direction is slow if the others are so many times as fast. Set by hand: what busy machines do is below it, what is
/// broken is above.
constexpr double kSlowLink = 3;

constexpr size_t kShortReduce = 4, kLongReduce = size_t(1) << 20;

struct CheckReport {
  std::vector<RankFacts> ranks;
  std::vector<std::string> hosts;           // by the first of their ranks
  std::vector<int> hostOf;                  // by rank
  std::vector<std::vector<double>> latency; // by rank and rank, seconds one way; 0: not measured
  std::vector<double> clockAhead;           // by rank: of rank 0's clock, seconds
  std::vector<HostLink> links;
  std::vector<GroupTime> groups;
  size_t longReduce = kLongReduce; // bytes; fewer where a link is so slow that they would take long
  double seconds = 0;              // that the check took
  bool checkpoints = false, devices = false;
};

/// Called by all ranks; all get the same, but for `seconds`. An error names the rank that is not reached.
Result<CheckReport> checkRanks(const PlanDirectory &plan, const CheckOptions &options, World &world);

/// The links that are slow, the slowest first: indices into CheckReport::links.
std::vector<size_t> slowLinks(const CheckReport &report);

/// Hosts, links, groups: lines for people.
std::string checkTable(const CheckReport &report);

/// The table, what is wrong, and how long the check took: what a person reads.
std::string checkText(const CheckReport &report);
/// The first of what is wrong, and how much more, as an error.
Status checkFault(const CheckReport &report);

/// All of it as one JSON object, with what is wrong as "wrong". Bytes, seconds; what was not measured is null.
std::string checkJson(const CheckReport &report);

/// What is wrong, a sentence each; empty: nothing.
std::vector<std::string> checkFaults(const CheckReport &report);

} // namespace tessera::rt

#endif
