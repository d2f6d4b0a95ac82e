//===- PlanFacts.h - what the ranks' plans say of memory and communication -----------------------===//
#ifndef TESSERA_TOOLS_DUMP_PLANFACTS_H
#define TESSERA_TOOLS_DUMP_PLANFACTS_H

#include "runtime/plan/TimeOrder.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera {

struct CollectiveCount {
  uint64_t count = 0, bytesSent = 0;
};

/// Of one run: what a section does counts as often as the section is called.
struct ProgramFacts {
  std::string name;
  std::vector<rt::Section> sections;
  std::string repeats;                // "3 + 20 x 16 + 8 steps", where a section is called more than once; else empty
  uint64_t kernels = 0, messages = 0; // messages: as which the collectives are sent
  std::map<std::string, CollectiveCount> collectives; // "all-reduce over data" -> how many
  std::map<std::string, CollectiveCount> stages;      // "send to stage 1", "receive from stage 0"
  CollectiveCount total() const;
  uint64_t bytesSent() const; // by collectives and to other stages
};

struct RankFacts {
  uint64_t rank = 0, arenaBytes = 0, parameterBytes = 0, stateBytes = 0, constantBytes = 0;
  std::string stage;  // "stage 1 of 4"; empty: no pipeline
  std::string frames; // "3 x 1.5 MiB", by frame; empty: none
  std::vector<ProgramFacts> programs;
};

struct PlanFacts {
  std::string model, producer, planId;
  std::vector<RankFacts> ranks;
  /// Takes the next rank's plan.
  void add(const plan::Plan &plan);
};

/// Memory and communication per rank, and the sum over ranks. Ranks with equal numbers are told once; of others what
/// they do otherwise than the first. Collectives are listed by kind: of the first program the largest, or with `all`
/// every one of every program and rank.
std::string toText(const PlanFacts &facts, bool all);

} // namespace tessera

#endif
