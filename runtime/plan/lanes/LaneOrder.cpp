#include "runtime/plan/lanes/LaneOrder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace tessera::rt {
namespace {

/// Who used some bytes last. Steps of one lane take turns, so its last reader stands for those before it.
struct Users {
  static constexpr int64_t kNone = -1;
  int64_t writer = kNone;
  std::array<int64_t, kMostLanes> readers; // by lane: since the last writer
  Users() { readers.fill(kNone); }
};

/// The arena, cut where ranges begin and end.
class Arena {
public:
  Arena() { pieces_.emplace(0, Users()); }
  /// Calls `use` with every piece of the range. It returns whether to go on.
  template <typename Use> bool forEach(LaneBytes bytes, Use &&use) {
    cut(bytes.end);
    for (auto it = cut(bytes.begin); it != pieces_.end() && it->first < bytes.end; ++it)
      if (!use(it->second))
        return false;
    return true;
  }
  /// The range has one user now.
  void write(LaneBytes bytes, int64_t step) {
    auto begin = cut(bytes.begin), end = cut(bytes.end);
    begin->second = Users();
    begin->second.writer = step;
    pieces_.erase(std::next(begin), end);
  }

private:
  using Pieces = std::map<uint64_t, Users>; // by first byte; a piece ends where the next one begins
  Pieces::iterator cut(uint64_t at) {
    auto it = std::prev(pieces_.upper_bound(at));
    return it->first == at ? it : pieces_.emplace_hint(std::next(it), at, it->second);
  }
  Pieces pieces_;
};

/// What steps know of each other, step by step.
class Clocks {
public:
  explicit Clocks(const std::vector<LaneStep> &steps) : steps_(steps), clocks_(steps.size()) { last_.fill(-1); }

  /// The next step: it knows what the one before it in its lane knew, and that this one has ended.
  void begin(size_t step) {
    const uint32_t lane = steps_[step].lane;
    LaneClock &mine = clocks_[step];
    mine.fill(0);
    if (last_[lane] >= 0) {
      mine = clocks_[size_t(last_[lane])];
      ++mine[lane];
    }
    last_[lane] = int64_t(step);
  }
  void wait(size_t step, uint32_t other) {
    LaneClock &mine = clocks_[step];
    for (uint32_t lane = 0; lane < kMostLanes; ++lane)
      mine[lane] = std::max(mine[lane], clocks_[other][lane]);
    const uint32_t lane = steps_[other].lane;
    mine[lane] = std::max(mine[lane], clocks_[other][lane] + 1);
  }
  /// Whether `other`, an earlier step, has surely ended. A step knows how many of its own lane ran before it, so that is
  /// the place of `other` in its lane.
  bool after(size_t step, size_t other) const {
    const uint32_t lane = steps_[other].lane;
    return clocks_[step][lane] > clocks_[other][lane];
  }

private:
  const std::vector<LaneStep> &steps_;
  std::vector<LaneClock> clocks_;
  std::array<int64_t, kMostLanes> last_; // by lane
};

/// Walks over steps and tells of earlier ones with which a step must take turns: enough of them that the others follow.
class Turns {
public:
  /// Calls `take(other, why)` until it returns false. The steps come one after the other.
  template <typename Take> bool forEach(const LaneStep &step, size_t number, Take &&take) {
    const auto me = int64_t(number);
    auto earlier = [&](int64_t other, Unordered::Why why) {
      return other < 0 || other == me || take(uint32_t(other), why);
    };
    if (step.group >= 0) {
      auto [last, first] = ofGroup_.try_emplace(step.group, me);
      if (!first && !earlier(std::exchange(last->second, me), Unordered::Group))
        return false;
    }
    for (const LaneBytes &bytes : step.reads)
      if (!arena_.forEach(bytes, [&](Users &users) {
            users.readers[step.lane] = me;
            return earlier(users.writer, Unordered::Read);
          }))
        return false;
    for (const LaneBytes &bytes : step.writes) {
      if (!arena_.forEach(bytes, [&](const Users &users) {
            return earlier(users.writer, Unordered::Overwritten) &&
                   std::ranges::all_of(users.readers,
                                       [&](int64_t reader) { return earlier(reader, Unordered::Overwritten); });
          }))
        return false;
      arena_.write(bytes, me);
    }
    return true;
  }

private:
  Arena arena_;
  std::map<int64_t, int64_t> ofGroup_; // the last collective of each
};

} // namespace

std::optional<Unordered> firstUnordered(const std::vector<LaneStep> &steps) {
  Clocks clocks(steps);
  Turns turns;
  std::optional<Unordered> found;
  for (size_t s = 0; s < steps.size(); ++s) {
    clocks.begin(s);
    for (const uint32_t other : steps[s].waits)
      clocks.wait(s, other);
    if (!turns.forEach(steps[s], s, [&](uint32_t other, Unordered::Why why) {
          if (!clocks.after(s, other))
            found = {why, other, uint32_t(s)};
          return !found;
        }))
      return found;
  }
  return std::nullopt;
}

void addWaits(std::vector<LaneStep> &steps) {
  Clocks clocks(steps);
  Turns turns;
  for (size_t s = 0; s < steps.size(); ++s) {
    std::array<int64_t, kMostLanes> latest; // by lane: that the step must wait for
    latest.fill(-1);
    clocks.begin(s);
    turns.forEach(steps[s], s, [&](uint32_t other, Unordered::Why) {
      int64_t &last = latest[steps[other].lane];
      last = std::max(last, int64_t(other));
      return true;
    });
    // The latest first, since it may know of the others.
    std::ranges::sort(latest, std::greater<>());
    for (const int64_t other : latest)
      if (other >= 0 && !clocks.after(s, size_t(other))) {
        steps[s].waits.push_back(uint32_t(other));
        clocks.wait(s, uint32_t(other));
      }
    std::ranges::sort(steps[s].waits);
  }
}

} // namespace tessera::rt
