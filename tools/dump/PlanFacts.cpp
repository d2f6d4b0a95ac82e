#include "tools/dump/PlanFacts.h"

#include "runtime/plan/PlanInfo.h"
#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"

#include <cstdio>

namespace tessera {

CollectiveCount ProgramFacts::total() const {
  CollectiveCount sum;
  for (const auto &[name, c] : collectives) {
    sum.count += c.count;
    sum.bytesSent += c.bytesSent;
  }
  return sum;
}

static RankFacts factsOf(const plan::Plan &p) {
  RankFacts facts;
  facts.rank = p.rank();
  facts.arenaBytes = p.arena_bytes();
  auto bytes = [&](uint32_t buffer) {
    const plan::Buffer &b = p.buffers(int(buffer));
    return rt::bytesOf(rt::toVector(b.shape()), b.dtype()).value_or(0);
  };
  for (const plan::Binding &b : p.bindings()) {
    if (b.role() == plan::PARAMETER)
      facts.parameterBytes += bytes(b.buffer());
    else if (b.role() == plan::STATE)
      facts.stateBytes += bytes(b.buffer());
  }
  for (const plan::Buffer &b : p.buffers())
    facts.constantBytes += b.constant().size();
  for (const plan::Program &program : p.programs()) {
    ProgramFacts f;
    f.name = rt::printable(program.name());
    const std::vector<int> messages = rt::messagesOf(program);
    const rt::TimeOrder order(program);
    f.sections = order.sections();
    if (order.repeats())
      f.repeats = order.text();
    for (int s = 0; s < program.steps_size(); ++s) {
      const plan::Step &step = program.steps(s);
      const uint64_t times = order.timesOf(uint32_t(s));
      f.messages += messages[size_t(s)] == s ? times : 0;
      if (!step.has_collective()) {
        f.kernels += times;
        continue;
      }
      const plan::Collective &c = step.collective();
      std::string key = rt::collectiveName(c.kind());
      const std::string group = rt::printable(p.groups(int(c.group())).name());
      if (!group.empty())
        key += " over " + group;
      CollectiveCount &count = f.collectives[key];
      count.count += times;
      count.bytesSent += times * rt::bytesSent(p, c);
    }
    facts.programs.push_back(std::move(f));
  }
  return facts;
}

PlanFacts factsOf(const rt::PlanDirectory &plans) {
  PlanFacts facts;
  for (const plan::Plan &p : plans.ranks) {
    facts.model = p.model();
    facts.producer = p.producer();
    facts.planId = p.plan_id();
    facts.ranks.push_back(factsOf(p));
  }
  return facts;
}

static bool alike(const RankFacts &a, const RankFacts &b) {
  if (a.arenaBytes != b.arenaBytes || a.parameterBytes != b.parameterBytes || a.stateBytes != b.stateBytes ||
      a.constantBytes != b.constantBytes || a.programs.size() != b.programs.size())
    return false;
  for (size_t i = 0; i < a.programs.size(); ++i)
    if (a.programs[i].kernels != b.programs[i].kernels || a.programs[i].total().count != b.programs[i].total().count ||
        a.programs[i].total().bytesSent != b.programs[i].total().bytesSent)
      return false;
  return true;
}

std::string toText(const PlanFacts &facts, bool all) {
  std::string out = "\nranks\n";
  for (size_t i = 0; i < facts.ranks.size();) {
    size_t j = i + 1;
    while (j < facts.ranks.size() && alike(facts.ranks[i], facts.ranks[j]))
      ++j;
    const RankFacts &r = facts.ranks[i];
    std::string who = "rank " + std::to_string(r.rank);
    if (j > i + 1)
      who = "ranks " + std::to_string(r.rank) + " to " + std::to_string(facts.ranks[j - 1].rank) + ", each";
    out += "  " + who + ": arena " + bytesText(double(r.arenaBytes)) + " (the peak): parameters " +
           bytesText(double(r.parameterBytes)) + ", states " + bytesText(double(r.stateBytes)) + ", constants " +
           bytesText(double(r.constantBytes)) + "\n";
    for (const ProgramFacts &p : r.programs) {
      CollectiveCount total = p.total();
      out += "    " + p.name + ": " + std::to_string(p.kernels) + " kernels, " + std::to_string(total.count) +
             " collectives" + (p.messages < total.count ? " in " + std::to_string(p.messages) + " messages, " : ", ") +
             bytesText(double(total.bytesSent)) + " sent per step" + (p.repeats.empty() ? "" : " (" + p.repeats + ")") +
             "\n";
      if (all || &p == &r.programs.front())
        for (const auto &[name, c] : p.collectives)
          out += "      " + std::to_string(c.count) + " " + name + ", " + bytesText(double(c.bytesSent)) + "\n";
    }
    i = j;
  }
  double arena = 0;
  std::map<std::string, double> sent;
  for (const RankFacts &r : facts.ranks) {
    arena += double(r.arenaBytes);
    for (const ProgramFacts &p : r.programs)
      sent[p.name] += double(p.total().bytesSent);
  }
  out += "total over " + std::to_string(facts.ranks.size()) + " rank" + (facts.ranks.size() == 1 ? "" : "s") + ": " +
         bytesText(arena) + " of memory";
  for (const auto &[name, bytes] : sent)
    out += ", " + bytesText(bytes) + " sent per step of " + name;
  return out + "\n";
}

} // namespace tessera
