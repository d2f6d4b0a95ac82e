#include "tools/page/Traffic.h"

#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"
#include "runtime/plan/stages/Stages.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera {

namespace {

struct Sum {
  uint64_t count = 0;
  double bytes = 0, cost = 0, latency = 0;
};
using Sums = std::map<std::pair<std::string, std::string>, Sum>; // by kind and axes

void addAll(Sums &sums, const Json &collectives) {
  for (const Json &c : collectives) {
    Sum &sum = sums[{text(c, "kind"), text(c, "axes")}];
    sum.count += timesOf(c);
    sum.bytes += number(c, "bytes_sent");
    sum.cost += number(c, "cost_ns");
    sum.latency += number(c, "latency_ns");
  }
}

/// The longest first.
std::vector<Sums::const_iterator> sorted(const Sums &sums) {
  std::vector<Sums::const_iterator> order;
  for (auto it = sums.begin(); it != sums.end(); ++it)
    order.push_back(it);
  std::stable_sort(order.begin(), order.end(), [](auto a, auto b) {
    return std::pair(a->second.cost, a->second.bytes) > std::pair(b->second.cost, b->second.bytes);
  });
  return order;
}

/// Adds what this rank sends in the collective, `bytes` in all, to the receivers' bytes.
void share(const plan::Plan &plan, const plan::Collective &c, double bytes, std::vector<double> &row) {
  const plan::Group &group = plan.groups(int(c.group()));
  const int n = group.ranks_size();
  const int me = int(std::find(group.ranks().begin(), group.ranks().end(), plan.rank()) - group.ranks().begin());
  if (bytes == 0 || n < 2)
    return;
  std::vector<std::pair<int, double>> to; // member of the group, weight
  if (c.kind() == plan::PERMUTE) {
    for (int i = 0; i < c.sources_size(); ++i)
      if (int(c.sources(i)) == me && i != me)
        to.emplace_back(i, 1);
  } else if (c.kind() == plan::EXCHANGE) {
    for (const plan::PeerBox &box : c.sends())
      if (int(box.peer()) != me)
        to.emplace_back(int(box.peer()), double(rt::elementsOf(rt::toVector(box.shape())).value_or(0)));
  } else if (c.kind() == plan::HALO) {
    if (me + 1 < n)
      to.emplace_back(me + 1, double(c.halo_lo()));
    if (me > 0)
      to.emplace_back(me - 1, double(c.halo_hi()));
  } else {
    for (int i = 0; i < n; ++i)
      if (i != me)
        to.emplace_back(i, 1);
  }
  double weights = 0;
  for (const auto &[member, weight] : to)
    weights += weight;
  for (const auto &[member, weight] : to)
    if (weights > 0)
      row[group.ranks(member)] += bytes * weight / weights;
}

} // namespace

RankTraffic trafficOf(const plan::Plan &plan, size_t ranks) {
  RankTraffic traffic;
  traffic.to.resize(ranks <= kMatrixRanks ? ranks : 0);
  if (plan.programs_size() == 0)
    return traffic;
  const plan::Program &program = plan.programs(0);
  const rt::TimeOrder order(program);
  for (int s = 0; s < program.steps_size(); ++s) {
    const plan::Step &step = program.steps(s);
    const uint64_t times = order.timesOf(uint32_t(s));
    if (step.has_send()) {
      const plan::Buffer &buffer = plan.buffers(int(step.send().input()));
      const uint64_t bytes = times * rt::peerBytes(plan, step);
      traffic.sent += bytes;
      if (!traffic.to.empty())
        for (const rt::PeerMessage &message : rt::peerMessages(plan, step))
          traffic.to[message.peer] += double(times * rt::bytesOf(message.box.shape, buffer.dtype()).value_or(0));
      auto &[count, sum] = traffic.kinds[{"send", "stage"}];
      count += times;
      sum += double(bytes);
    }
    if (!step.has_collective())
      continue;
    const plan::Collective &c = step.collective();
    const uint64_t bytes = rt::bytesSent(plan, c) * times;
    traffic.sent += bytes;
    if (!traffic.to.empty())
      share(plan, c, double(bytes), traffic.to);
    auto &[count, sum] = traffic.kinds[{rt::collectiveName(c.kind()), plan.groups(int(c.group())).name()}];
    count += times;
    sum += double(bytes);
  }
  return traffic;
}

Json trafficJson(const Json &function, const std::vector<RankTraffic> &ranks) {
  Sums predicted, planned;
  for (const Json &op : list(function, "operators"))
    addAll(predicted, list(op, "collectives"));
  addAll(predicted, list(function, "boundary"));
  Json kinds = Json::array(), inPlan = Json::array();
  for (auto it : sorted(predicted))
    if (it->second.bytes > 0)
      kinds.push_back({{"kind", it->first.first},
                       {"axes", it->first.second},
                       {"count", it->second.count},
                       {"bytes_sent", it->second.bytes},
                       {"cost_ns", it->second.cost},
                       {"latency_ns", it->second.latency}});
  for (const auto &[kind, sum] : ranks.front().kinds)
    planned[kind] = {.count = sum.first, .bytes = sum.second};
  Json rankBytes = Json::array(), matrix = ranks.size() <= kMatrixRanks ? Json::array() : Json();
  for (const RankTraffic &rank : ranks) {
    rankBytes.push_back(rank.sent);
    if (!matrix.is_array())
      continue;
    Json whole = Json::array();
    for (double bytes : rank.to)
      whole.push_back(int64_t(std::llround(bytes)));
    matrix.push_back(std::move(whole));
  }
  for (auto it : sorted(planned))
    inPlan.push_back({{"kind", it->first.first},
                      {"axes", it->first.second},
                      {"count", it->second.count},
                      {"bytes_sent", it->second.bytes}});
  return {{"kinds", std::move(kinds)},
          {"planned", std::move(inPlan)},
          {"rank_bytes", std::move(rankBytes)},
          {"matrix", std::move(matrix)}};
}

} // namespace tessera
