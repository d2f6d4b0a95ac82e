#include "strategies/time/Decode.h"
#include "strategies/time/Schedule.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

namespace tessera::strategies {

namespace {

// Found on twenty pipelines of 12 to 180 tasks with proven optima (test/unit/time/pipelines.json).
constexpr int kRounds = 8;            // of heating and cooling
constexpr double kHot = 0.02;         // part of the makespan: the temperature at the begin of a round
constexpr double kCold = 0.0005;      // part of the makespan: the temperature at its end
constexpr double kCritical = 0.6;     // probability that a task of the critical chain moves, not any task
constexpr int kFarthest = 6;          // places by which a task moves, at most
constexpr double kEarlierEnds = 0.05; // weight of the mean end of the resources beside the makespan

constexpr int kStepsPerTask = 40; // elementary steps per task of one decoded order: measured, some 40 ns
constexpr int kPollSteps = 64;    // moves between two looks at the clock

} // namespace

void scheduleByAnnealing(const TaskGraph &graph, Decoder &decoder, const ScheduleOptions &options, double steps,
                         Schedule &best) {
  const auto begin = std::chrono::steady_clock::now();
  std::mt19937_64 random(options.seed);
  auto draw = [&](int n) { return int(random() % uint64_t(n)); };
  auto chance = [&] { return double(random() >> 11) * 0x1p-53; };
  const int64_t runs = int64_t(steps / double(kStepsPerTask * (graph.tasks.size() + 1)));
  auto costOf = [&] {
    // Of two orders with one makespan, the one whose resources end earlier is better.
    std::vector<int64_t> last(graph.resources.size());
    for (size_t t = 0; t < graph.tasks.size(); ++t)
      for (int r : graph.tasks[t].resources)
        last[r] = std::max(last[r], decoder.start()[t] + graph.tasks[t].duration);
    double sum = 0;
    for (int64_t end : last)
      sum += double(end);
    return double(decoder.makespan()) + kEarlierEnds * sum / double(last.size() + 1);
  };
  // Back from start times to orders.
  Orders bestOrders(graph.resources.size());
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    for (int r : graph.tasks[t].resources)
      bestOrders[r].push_back(int(t));
  for (auto &order : bestOrders)
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return best.start[a] < best.start[b]; });
  if (!decoder.run(bestOrders))
    return;
  std::vector<int> wide; // resources on which something can move
  for (size_t r = 0; r < bestOrders.size(); ++r)
    if (bestOrders[r].size() > 1)
      wide.push_back(int(r));
  if (wide.empty())
    return;
  for (int round = 0; round < kRounds; ++round) {
    Orders now = bestOrders;
    if (!decoder.run(now))
      return;
    now = decoder.orders();
    std::vector<int> chain = decoder.criticalChain();
    double cost = costOf();
    const int64_t most = runs / kRounds;
    for (int64_t i = 0; i < most; ++i) {
      if (best.makespan == best.lowerBound || (options.stop && *options.stop) ||
          (i % kPollSteps == 0 &&
           std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(options.seconds)))
        return;
      double heat = double(best.makespan) * kHot * std::pow(kCold / kHot, double(i) / double(most));
      int r = wide[draw(int(wide.size()))], from = draw(int(now[r].size())), to;
      if (chance() < kCritical) {
        int task = chain[draw(int(chain.size()))];
        const auto &resources = graph.tasks[task].resources;
        if (!resources.empty()) {
          r = resources[draw(int(resources.size()))];
          from = int(std::find(now[r].begin(), now[r].end(), task) - now[r].begin());
        }
      }
      to = std::clamp(from + (draw(2) ? 1 : -1) * (1 + draw(kFarthest)), 0, int(now[r].size()) - 1);
      if (to == from)
        continue;
      Orders next = now;
      int task = next[r][from];
      next[r].erase(next[r].begin() + from);
      next[r].insert(next[r].begin() + to, task);
      if (!decoder.run(next))
        continue;
      double changed = costOf();
      if (changed > cost && chance() >= std::exp((cost - changed) / heat))
        continue;
      cost = changed;
      now = decoder.orders();
      chain = decoder.criticalChain();
      if (decoder.makespan() < best.makespan) {
        keepBetter(decoder, best);
        bestOrders = now;
      }
    }
  }
}

} // namespace tessera::strategies
