#include "tools/dump/PlanFacts.h"

#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/stages/Stages.h"
#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"

#include <algorithm>
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

uint64_t ProgramFacts::bytesSent() const {
  uint64_t sum = total().bytesSent;
  for (const auto &[name, c] : stages)
    sum += c.bytesSent;
  return sum;
}

static RankFacts factsOf(const plan::Plan &p) {
  RankFacts facts;
  facts.rank = p.rank();
  facts.arenaBytes = p.arena_bytes();
  const rt::Stages stages = rt::stagesOf(p);
  if (stages.count() > 1)
    facts.stage = "stage " + std::to_string(stages.of(p.rank())) + " of " + std::to_string(stages.count());
  for (const plan::Frame &frame : p.frames())
    facts.frames +=
        (facts.frames.empty() ? "" : " + ") + std::to_string(frame.slots()) + " x " + bytesText(double(frame.bytes()));
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
      if (step.has_send() || step.has_receive()) {
        const plan::DType type = p.buffers(int(rt::peerBuffer(step))).dtype();
        for (const rt::PeerMessage &message : rt::peerMessages(p, step)) {
          const std::string stage = "stage " + std::to_string(stages.of(message.peer));
          CollectiveCount &count = f.stages[(step.has_send() ? "send to " : "receive from ") + stage];
          count.count += times;
          if (step.has_send())
            count.bytesSent += times * rt::bytesOf(message.box.shape, type).value_or(0);
        }
        continue;
      }
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

void PlanFacts::add(const plan::Plan &plan) {
  model = plan.model();
  producer = plan.producer();
  planId = plan.plan_id();
  ranks.push_back(factsOf(plan));
}

static bool alike(const RankFacts &a, const RankFacts &b) {
  if (a.arenaBytes != b.arenaBytes || a.parameterBytes != b.parameterBytes || a.stateBytes != b.stateBytes ||
      a.constantBytes != b.constantBytes || a.stage != b.stage || a.frames != b.frames ||
      a.programs.size() != b.programs.size())
    return false;
  for (size_t i = 0; i < a.programs.size(); ++i)
    if (a.programs[i].kernels != b.programs[i].kernels || a.programs[i].total().count != b.programs[i].total().count ||
        a.programs[i].bytesSent() != b.programs[i].bytesSent())
      return false;
  return true;
}

// On one screen:
static constexpr size_t kKinds = 10, kLargest = 8; // kinds of collectives: all, or so many of more
static constexpr size_t kRankKinds = 4;            // ranks that differ

/// "rank 0", "ranks 0 to 3, 7, each".
static std::string namesOf(const std::vector<const RankFacts *> &ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t j = i + 1;
    while (j < ranks.size() && ranks[j]->rank == ranks[j - 1]->rank + 1)
      ++j;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]->rank);
    if (j > i + 1)
      text += (j == i + 2 ? ", " : " to ") + std::to_string(ranks[j - 1]->rank);
    i = j;
  }
  return ranks.size() == 1 ? "rank " + text : "ranks " + text + ", each";
}

static std::string collectiveLines(const std::map<std::string, CollectiveCount> &collectives, bool all) {
  std::vector<std::pair<std::string, CollectiveCount>> list(collectives.begin(), collectives.end());
  CollectiveCount rest;
  size_t more = 0;
  if (!all && list.size() > kKinds) {
    std::stable_sort(list.begin(), list.end(),
                     [](const auto &a, const auto &b) { return a.second.bytesSent > b.second.bytesSent; });
    for (more = list.size() - kLargest; list.size() > kLargest; list.pop_back()) {
      rest.count += list.back().second.count;
      rest.bytesSent += list.back().second.bytesSent;
    }
  }
  std::string out;
  for (const auto &[name, c] : list)
    out += "      " + std::to_string(c.count) + " " + name + ", " + bytesText(double(c.bytesSent)) + "\n";
  if (more > 0)
    out += "      and " + std::to_string(rest.count) + " of " + std::to_string(more) + " other kinds, " +
           bytesText(double(rest.bytesSent)) + "\n";
  return out;
}

static std::string stageLines(const std::map<std::string, CollectiveCount> &stages) {
  std::string out;
  for (const auto &[name, c] : stages)
    out += "      " + std::to_string(c.count) + " " + name +
           (c.bytesSent > 0 ? ", " + bytesText(double(c.bytesSent)) : "") + "\n";
  return out;
}

static std::string programLine(const ProgramFacts &p) {
  const CollectiveCount total = p.total();
  return "    " + p.name + ": " + std::to_string(p.kernels) + " kernels, " + std::to_string(total.count) +
         " collectives" + (p.messages < total.count ? " in " + std::to_string(p.messages) + " messages, " : ", ") +
         bytesText(double(p.bytesSent())) + " sent per step" + (p.repeats.empty() ? "" : " (" + p.repeats + ")") + "\n";
}

/// What a rank's program does otherwise than the first rank's: its line, and the collectives that differ.
static std::string otherwise(const ProgramFacts &p, const ProgramFacts &first) {
  std::map<std::string, CollectiveCount> differ;
  for (const auto &[name, c] : p.collectives)
    if (const auto it = first.collectives.find(name);
        it == first.collectives.end() || it->second.count != c.count || it->second.bytesSent != c.bytesSent)
      differ[name] = c;
  for (const auto &[name, c] : first.collectives)
    if (!p.collectives.count(name))
      differ[name] = {};
  if (differ.empty() && p.kernels == first.kernels)
    return "";
  return programLine(p) + collectiveLines(differ, /*all=*/false);
}

std::string toText(const PlanFacts &facts, bool all) {
  std::vector<std::vector<const RankFacts *>> kinds;
  for (const RankFacts &r : facts.ranks) {
    auto same = std::find_if(kinds.begin(), kinds.end(), [&](const auto &kind) { return alike(*kind.front(), r); });
    if (same == kinds.end())
      same = kinds.emplace(kinds.end());
    same->push_back(&r);
  }
  std::string out = "\nranks\n";
  for (size_t k = 0; k < kinds.size(); ++k) {
    if (!all && k == kRankKinds) {
      size_t ranks = 0;
      for (size_t rest = k; rest < kinds.size(); ++rest)
        ranks += kinds[rest].size();
      out += "  and " + std::to_string(ranks) + " ranks of " + std::to_string(kinds.size() - k) + " other kinds\n";
      break;
    }
    const RankFacts &r = *kinds[k].front(), &first = *kinds.front().front();
    out += "  " + namesOf(kinds[k]) + (r.stage.empty() ? "" : " (" + r.stage + ")") + ": arena " +
           bytesText(double(r.arenaBytes)) + " (the peak): parameters " + bytesText(double(r.parameterBytes)) +
           ", states " + bytesText(double(r.stateBytes)) + ", constants " + bytesText(double(r.constantBytes)) +
           (r.frames.empty() ? "" : ", micro-batches under way " + r.frames) + "\n";
    const bool whole = all || k == 0 || r.stage != first.stage || r.programs.size() != first.programs.size();
    std::string differs; // in the first program that does
    for (size_t p = 0; p < r.programs.size(); ++p) {
      const ProgramFacts &program = r.programs[p];
      if (!whole) {
        if (differs.empty())
          out += differs = otherwise(program, first.programs[p]);
        continue;
      }
      out += programLine(program);
      if (all || p == 0)
        out += collectiveLines(program.collectives, all) + stageLines(program.stages);
    }
  }
  double arena = 0;
  std::map<std::string, double> sent;
  for (const RankFacts &r : facts.ranks) {
    arena += double(r.arenaBytes);
    for (const ProgramFacts &p : r.programs)
      sent[p.name] += double(p.bytesSent());
  }
  out += "total over " + std::to_string(facts.ranks.size()) + " rank" + (facts.ranks.size() == 1 ? "" : "s") + ": " +
         bytesText(arena) + " of memory";
  for (const auto &[name, bytes] : sent)
    out += ", " + bytesText(bytes) + " sent per step of " + name;
  return out + "\n";
}

} // namespace tessera
