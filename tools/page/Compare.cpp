#include "tools/page/Compare.h"

#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <unordered_map>

namespace tessera {

namespace {

constexpr size_t kRows = 200;
constexpr double kSameTime = 1e-9; // relative: rounding of sums

double total(const Json &parts) {
  double sum = 0;
  for (const Json &part : parts)
    sum += part.get<double>();
  return sum;
}

/// The first of a class' lists, or null.
Json firstOf(const Json &cls, const char *field) {
  const Json &all = list(cls, field);
  return all.empty() ? Json() : all[0];
}

std::string key(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// What a page's node is in a row.
Json nodeJson(const Json &page, const Json &node) {
  const Json &cls = page["classes"][page["operators"][node[1].get<size_t>()][1].get<size_t>()];
  return {{"strategy", text(cls, "strategy")},
          {"sharding", firstOf(cls, "results")},
          {"global", firstOf(cls, "global_results")},
          {"local", firstOf(cls, "local_results")},
          {"compute_ns", total(node[3])},
          {"communication_ns", total(node[4])}};
}

double timeOf(const Json &node) {
  return node.is_null() ? 0 : node["compute_ns"].get<double>() + node["communication_ns"].get<double>();
}

bool cutAlike(const Json &a, const Json &b) {
  for (const char *field : {"strategy", "sharding", "local"})
    if (a[field] != b[field])
      return false;
  return true;
}

bool sameTimes(const Json &a, const Json &b) {
  for (const char *field : {"compute_ns", "communication_ns"}) {
    const double x = a[field].get<double>(), y = b[field].get<double>();
    if (std::abs(x - y) > kSameTime * std::max(x, y))
      return false;
  }
  return true;
}

class Comparison {
public:
  Comparison(const Json &first, const Json &second) : first_(first), second_(second) {}

  void addOperators() {
    std::unordered_map<std::string, size_t> inSecond;
    for (size_t n = 0; n < second_["nodes"].size(); ++n)
      inSecond.try_emplace(second_["nodes"][n][0].get<std::string>(), n);
    for (size_t n = 0; n < first_["nodes"].size(); ++n) {
      const Json &node = first_["nodes"][n];
      auto it = inSecond.find(node[0].get<std::string>());
      if (it == inSecond.end()) {
        ++only_[0];
        add(node, int64_t(n), true, nodeJson(first_, node), Json());
        continue;
      }
      Json a = nodeJson(first_, node), b = nodeJson(second_, second_["nodes"][it->second]);
      inSecond.erase(it);
      ++matched_;
      const bool cut = !cutAlike(a, b);
      cut_ += cut;
      if (!cut && sameTimes(a, b))
        ++same_;
      else
        add(node, int64_t(n), cut, std::move(a), std::move(b));
    }
    for (size_t n = 0; n < second_["nodes"].size(); ++n) {
      const Json &node = second_["nodes"][n];
      if (auto it = inSecond.find(node[0].get<std::string>()); it != inSecond.end() && it->second == n) {
        ++only_[1];
        add(node, -1, true, Json(), nodeJson(second_, node));
      }
    }
  }

  bool anyMatch() const { return matched_ > 0; }

  Json json() && {
    std::stable_sort(rows_.begin(), rows_.end(), [](const Json &a, const Json &b) {
      return std::abs(a["more_ns"].get<double>()) > std::abs(b["more_ns"].get<double>());
    });
    const size_t all = rows_.size();
    rows_.resize(std::min(all, kRows));
    Json plans = Json::array();
    for (const Json *page : {&first_, &second_}) {
      Json plan = Json::object();
      for (const char *field :
           {"model", "mesh", "mode", "topology", "recompute", "plan_id", "num_ranks", "global_batch", "head"})
        plan[field] = (*page)[field];
      plan["head"].erase("costs");
      plans.push_back(std::move(plan));
    }
    return {{"plans", std::move(plans)}, {"num_same", same_}, {"num_cut", cut_},          {"num_only", only_},
            {"num_rows", all},           {"rows", rows_},     {"collectives", traffic()}, {"memory", memory()}};
  }

private:
  /// Adds an operator, or counts it to the row of those that are alike in both plans.
  void add(const Json &node, int64_t index, bool cut, Json a, Json b) {
    const double more = timeOf(b) - timeOf(a);
    auto [it, fresh] = known_.try_emplace(key(a) + key(b), rows_.size());
    if (!fresh) {
      Json &row = rows_[it->second];
      row["alike"] = row["alike"].get<size_t>() + 1;
      row["more_ns"] = row["more_ns"].get<double>() + more;
      return;
    }
    rows_.push_back({{"name", node[0]},
                     {"node", index},
                     {"alike", 1},
                     {"cut", cut},
                     {"plans", Json::array({std::move(a), std::move(b)})},
                     {"more_ns", more}});
  }

  Json traffic() const {
    std::vector<Json> rows;
    std::map<std::pair<std::string, std::string>, size_t> known;
    for (size_t p : {0, 1})
      for (const Json &kind : (p ? second_ : first_)["traffic"]["kinds"]) {
        auto [it, fresh] = known.try_emplace({text(kind, "kind"), text(kind, "axes")}, rows.size());
        if (fresh)
          rows.push_back(Json::array({kind["kind"], kind["axes"], {0, 0, 0}, {0, 0, 0}}));
        rows[it->second][2 + p] = {kind["count"], kind["bytes_sent"], kind["cost_ns"]};
      }
    return rows;
  }

  Json memory() const {
    Json rows = Json::array();
    for (const auto &[kind, bytes] : first_["arena"]["at_peak"].items())
      rows.push_back(Json::array({kind, bytes, second_["arena"]["at_peak"][kind]}));
    return rows;
  }

  const Json &first_, &second_;
  std::vector<Json> rows_;
  std::unordered_map<std::string, size_t> known_; // of rows
  size_t same_ = 0, cut_ = 0, matched_ = 0;
  std::array<size_t, 2> only_{};
};

} // namespace

rt::Result<Json> comparePages(const Json &first, const std::string &firstName, const Json &second,
                              const std::string &secondName) {
  Comparison comparison(first, second);
  comparison.addOperators();
  if (!comparison.anyMatch())
    return rt::Status::error(secondName + ": has no operator of " + firstName + ": they are plans of " +
                             rt::quoted(text(second, "model")) + " and " + rt::quoted(text(first, "model")));
  Json compared = {{"names", Json::array({firstName, secondName})}};
  compared.update(std::move(comparison).json());
  return compared;
}

} // namespace tessera
