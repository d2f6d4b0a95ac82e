#include "tools/page/Measured.h"

#include "runtime/support/Nesting.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <unordered_map>

namespace tessera {

namespace {

constexpr std::streamoff kMaxBytes = std::streamoff(512) << 20;
constexpr size_t kMaxTracedRanks = 8, kMaxLogged = 2000;

rt::Result<std::string> readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    return rt::Status::error(path + ": cannot be read");
  if (file.tellg() > kMaxBytes)
    return rt::Status::error(path + ": larger than 512 MiB");
  file.seekg(0);
  std::stringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

/// A whole number of a file that is not trusted.
int64_t whole(const Json &object, const char *field) { return int64_t(std::clamp(number(object, field), -1e15, 1e15)); }

class TraceReader {
public:
  explicit TraceReader(const Json &trace) : events_(list(trace, "traceEvents")) {}

  /// The last step that every rank of the trace has.
  bool findStep() {
    std::map<int64_t, std::map<int64_t, const Json *>> steps; // by number, by rank
    for (const Json &e : events_)
      if (text(e, "cat") == "step" && e.contains("args")) {
        steps[whole(e["args"], "step")][whole(e, "pid")] = &e;
        if (whole(e, "pid") == 0)
          seconds_.push_back(number(e, "dur") / 1e6);
      }
    for (const auto &[n, ranks] : steps)
      if (steps_.size() <= ranks.size()) {
        step_ = n;
        steps_ = ranks;
      }
    return !steps_.empty();
  }

  Json read() {
    std::map<int64_t, Json> ranks;
    std::map<std::pair<std::string, std::string>, std::array<double, 3>> kinds; // count, bytes, us
    double origin = 1e300;
    for (const auto &[rank, step] : steps_) {
      origin = std::min(origin, number(*step, "ts"));
      if (ranks.size() < kMaxTracedRanks)
        ranks[rank] = {{"rank", rank}, {"compute_us", 0.0}, {"communication_us", 0.0}, {"events", Json::array()}};
    }
    for (const Json &e : events_) {
      auto rank = ranks.find(whole(e, "pid"));
      const int64_t track = whole(e, "tid");
      if (text(e, "ph") != "X" || rank == ranks.end() || track < 0 || track > 2)
        continue;
      const Json &step = *steps_[rank->first];
      const double begin = number(e, "ts"), length = number(e, "dur"), from = number(step, "ts");
      if (begin < from || begin + length > from + number(step, "dur") + 1)
        continue;
      auto rounded = [](double us) { return std::round(us * 1000) / 1000; };
      rank->second["events"].push_back(
          Json::array({track, nameIndex(text(e, "name")), rounded(begin - origin), rounded(length)}));
      if (track == 0)
        continue;
      Json &sum = rank->second[track == 1 ? "compute_us" : "communication_us"];
      sum = sum.get<double>() + length;
      if (track == 2 && rank == ranks.begin() && e.contains("args")) {
        auto &kind = kinds[{text(e["args"], "kind"), text(e["args"], "group")}];
        kind[0] += 1;
        kind[1] += number(e["args"], "bytes_sent");
        kind[2] += length;
      }
    }
    Json all = Json::array(), sums = Json::array();
    for (auto &[rank, events] : ranks)
      all.push_back(std::move(events));
    for (const auto &[kind, sum] : kinds)
      sums.push_back(
          {{"kind", kind.first}, {"axes", kind.second}, {"count", sum[0]}, {"bytes_sent", sum[1]}, {"us", sum[2]}});
    return {{"step", step_},   {"steps", seconds_},       {"num_ranks", steps_.size()},
            {"names", names_}, {"ranks", std::move(all)}, {"kinds", std::move(sums)}};
  }

private:
  size_t nameIndex(const std::string &name) {
    auto [it, fresh] = index_.try_emplace(name, names_.size());
    if (fresh)
      names_.push_back(name);
    return it->second;
  }

  const Json &events_;
  int64_t step_ = 0;
  std::map<int64_t, const Json *> steps_; // by rank
  std::vector<double> seconds_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> index_;
};

/// Columns of equally many values, by name.
class Columns {
public:
  void add(const Json &row) {
    for (const auto &[name, value] : row.items())
      if (value.is_number() && columns_.size() < 64)
        columns_.try_emplace(name, Json::array());
    for (auto &[name, column] : columns_) {
      while (column.size() < rows_)
        column.push_back(nullptr);
      column.push_back(row.contains(name) && row[name].is_number() ? row[name] : Json());
    }
    ++rows_;
  }
  Json json() const {
    const size_t every = rows_ / kMaxLogged + 1;
    Json out = Json::object();
    for (const auto &[name, column] : columns_) {
      Json &kept = out[name] = Json::array();
      for (size_t i = 0; i < column.size(); ++i)
        if (i % every == 0 || i + 1 == column.size())
          kept.push_back(column[i]);
    }
    return out;
  }

private:
  std::map<std::string, Json> columns_;
  size_t rows_ = 0;
};

} // namespace

rt::Result<Json> readTrace(const std::string &path, const std::string &planId) {
  rt::Result<std::string> bytes = readText(path);
  if (!bytes)
    return bytes.status();
  if (rt::nestsDeeper(*bytes, 64))
    return rt::Status::error(path + ": not a trace (nested too deep)");
  const Json trace = Json::parse(*bytes, nullptr, /*allow_exceptions=*/false);
  if (trace.is_discarded() || !trace.is_object() || !trace.contains("traceEvents"))
    return rt::Status::error(path + ": not a trace of tessera-run --trace");
  const std::string plan = trace.contains("otherData") ? text(trace["otherData"], "plan") : "";
  if (plan != planId)
    return rt::Status::error(path + ": the trace is of another plan: trace this one with tessera-run --trace");
  TraceReader reader(trace);
  if (!reader.findStep())
    return rt::Status::error(path + ": the trace has no training step");
  Json read = {{"file", path}};
  read.update(reader.read());
  return read;
}

rt::Result<Json> readLog(const std::string &path) {
  rt::Result<std::string> bytes = readText(path);
  if (!bytes)
    return bytes.status();
  Columns train, eval;
  size_t line = 0;
  for (size_t begin = 0; begin < bytes->size();) {
    const size_t end = bytes->find('\n', begin);
    if (end == std::string::npos)
      break; // what a killed run left
    const std::string row = bytes->substr(begin, end - begin);
    begin = end + 1;
    ++line;
    const Json parsed = rt::nestsDeeper(row, 8) ? Json() : Json::parse(row, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object())
      return rt::Status::error(path + ": line " + std::to_string(line) + " is not of a log of tessera-run --log");
    (parsed.contains("eval") ? eval : train).add(parsed);
  }
  if (line == 0)
    return rt::Status::error(path + ": the log has no lines");
  return Json{{"file", path}, {"train", train.json()}, {"eval", eval.json()}};
}

} // namespace tessera
