#include "dialects/graph/flow/MessageRuns.h"

namespace tessera::graph {

namespace {

/// The most members of a message. Enough for the gradients of any network, few enough to try all runs of members.
constexpr size_t kMostMembers = 512;
/// The most different ends of the last message that are kept for each number of messages.
constexpr size_t kMostPoints = 32;
/// The earliest end of a step is found to this part.
constexpr double kPrecision = 1e-4;

/// Chooses runs of members of one layer.
class Runs {
public:
  Runs(std::vector<Member> members, double total, const MessageRule &rule)
      : members_(std::move(members)), total_(total), rule_(rule) {}

  /// The runs of two or more.
  std::vector<std::vector<int>> messages() {
    std::vector<std::vector<int>> found;
    size_t first = 0;
    for (int end : rule_.times.empty() ? filled() : timed()) {
      if (size_t(end) > first + 1) {
        std::vector<int> &message = found.emplace_back();
        for (size_t m = first; m < size_t(end); ++m)
          message.push_back(members_[m].sender->step);
      }
      first = size_t(end);
    }
    return found;
  }

private:
  /// Runs as long as `most` allows.
  std::vector<int> filled() const {
    std::vector<int> ends;
    int64_t bytes = 0;
    for (size_t j = 0; j < members_.size(); ++j) {
      if (bytes > 0 && bytes + members_[j].bytes > rule_.most) {
        ends.push_back(int(j));
        bytes = 0;
      }
      bytes += members_[j].bytes;
    }
    ends.push_back(int(members_.size()));
    return ends;
  }

  /// A run that may be a message, by its first member, for one last member.
  struct Run {
    size_t first;
    double cost, behind;
  };

  void findRuns() {
    std::vector<double> alone = {0}; // of all members before
    for (Member &member : members_) {
      member.alone = messageCost(member.sender, rule_.cost);
      alone.push_back(alone.back() + member.alone);
    }
    runs_.resize(members_.size());
    for (size_t j = 0; j < members_.size(); ++j) {
      int64_t bytes = 0;
      double behind = 0;
      const size_t first = j < kMostMembers ? 0 : j + 1 - kMostMembers;
      for (size_t i = j + 1; i-- > first;) {
        bytes += members_[i].bytes;
        behind = std::max(behind, members_[i].behind);
        if (i < j && bytes > rule_.most)
          break;
        const double cost = i == j ? members_[j].alone : sizedCost(bytes);
        if (cost <= alone[j + 1] - alone[i])
          runs_[j].push_back({i, cost, behind});
      }
    }
  }

  /// The time of a message of so many bytes.
  double sizedCost(int64_t bytes) {
    auto [it, fresh] = costs_.try_emplace(uint64_t(bytes), 0);
    if (fresh)
      it->second = messageCost(*members_.front().sender, bytes, rule_.cost);
    return it->second;
  }

  /// When the last message can end at the earliest, if the step ends at `limit`; negative: it cannot.
  double lastEnd(double limit) const {
    std::vector<double> end(members_.size() + 1, -1);
    end[0] = 0;
    for (size_t j = 0; j < members_.size(); ++j)
      for (const Run &run : runs_[j]) {
        if (end[run.first] < 0)
          continue;
        const double at = std::max(end[run.first], members_[j].ready) + run.cost;
        if (at + run.behind <= limit && (end[j + 1] < 0 || at < end[j + 1]))
          end[j + 1] = at;
      }
    return end.back();
  }

  std::vector<int> timed() {
    findRuns();
    double late = total_, end = 0; // without a join
    for (const Member &member : members_) {
      end = std::max(end, member.ready) + member.alone;
      late = std::max(late, end + member.behind);
    }
    double early = total_;
    if (lastEnd(early) >= 0)
      late = early;
    while (late - early > kPrecision * late) {
      const double middle = early + (late - early) / 2;
      (lastEnd(middle) >= 0 ? late : early) = middle;
    }
    return fewest(late);
  }

  /// The ends of the runs of a choice with the fewest messages under which the step ends by `limit`.
  std::vector<int> fewest(double limit) const {
    struct Point {
      int messages;
      double end;
      size_t before; // the run's first member
      size_t point;  // of `before`
    };
    // Per number of members the points of which none is both more messages and later.
    std::vector<std::vector<Point>> points(members_.size() + 1);
    points[0] = {{0, 0, 0, 0}};
    std::vector<Point> earliest(members_.size() + 1); // by number of messages; with 0 of them: there is none
    for (size_t j = 0; j < members_.size(); ++j) {
      size_t fewest = members_.size(), most = 0; // messages of the points here
      for (const Run &run : runs_[j])
        for (auto [p, point] : llvm::enumerate(points[run.first])) {
          const double at = std::max(point.end, members_[j].ready) + run.cost;
          const size_t messages = size_t(point.messages) + 1;
          Point &best = earliest[messages];
          if (at + run.behind > limit || (best.messages > 0 && at >= best.end))
            continue;
          best = {int(messages), at, run.first, p};
          fewest = std::min(fewest, messages);
          most = std::max(most, messages);
        }
      std::vector<Point> &kept = points[j + 1];
      for (size_t messages = fewest; messages <= most; ++messages) {
        const Point point = std::exchange(earliest[messages], {});
        if (point.messages > 0 && (kept.empty() || point.end < kept.back().end)) {
          if (kept.size() == kMostPoints)
            kept.pop_back(); // the earliest end is kept in any case
          kept.push_back(point);
        }
      }
    }
    std::vector<int> ends;
    size_t j = members_.size(), p = 0;
    while (j > 0) {
      ends.push_back(int(j));
      const Point &point = points[j][p];
      j = point.before;
      p = point.point;
    }
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

  std::vector<Member> members_;
  const double total_; // what all kernels take
  const MessageRule &rule_;
  std::vector<std::vector<Run>> runs_;     // by last member
  llvm::DenseMap<uint64_t, double> costs_; // by bytes; signed numbers hash badly: many bytes have low bits of 0
};

} // namespace

std::vector<std::vector<int>> runsOf(std::vector<Member> members, double total, const MessageRule &rule) {
  return Runs(std::move(members), total, rule).messages();
}

} // namespace tessera::graph
