#include "strategies/cost/ProfileTable.h"

#include "dialects/dist/Reshard.h"

#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tessera::strategies {

static constexpr size_t kMaxFile = size_t(64) << 20;

llvm::Expected<ProfileTable> ProfileTable::load(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::createStringError("profile %s: %s", path.str().c_str(), file.getError().message().c_str());
  return parse((*file)->getBuffer(), path);
}

llvm::Expected<ProfileTable> ProfileTable::parse(llvm::StringRef text, llvm::StringRef origin) {
  auto fail = [&](const std::string &what) {
    return llvm::createStringError("profile %s: %s", origin.str().c_str(), what.c_str());
  };
  if (text.size() > kMaxFile)
    return fail("larger than 64 MiB");
  auto json = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object() || !json.contains("kernels") || !json["kernels"].is_object())
    return fail("expected a JSON object with a field 'kernels'");
  auto isTime = [](const nlohmann::json &v) { return v.is_number() && v.get<double>() >= 0 && v.get<double>() < 1e6; };
  auto isPoint = [&](const nlohmann::json &v) {
    return v.is_array() && v.size() == 2 && isTime(v[1]) && v[0].is_number() && v[0].get<double>() >= 1 &&
           v[0].get<double>() < 1e18;
  };
  ProfileTable table;
  for (const auto &item : json["kernels"].items()) {
    if (!isTime(item.value()))
      return fail("the time of '" + item.key() + "' must be a number of seconds");
    table.seconds_[item.key()] = item.value().get<double>();
  }
  if (json.contains("loops")) {
    if (!json["loops"].is_array())
      return fail("field 'loops' must be a list of [bytes, seconds]");
    for (const auto &point : json["loops"]) {
      if (!isPoint(point))
        return fail("field 'loops' must be a list of [bytes, seconds]");
      table.addLoop(point[0].get<double>(), point[1].get<double>());
    }
  }
  if (json.contains("loop_operation")) {
    if (!isTime(json["loop_operation"]))
      return fail("field 'loop_operation' must be a number of seconds");
    table.setLoopOperation(json["loop_operation"].get<double>());
  }
  if (json.contains("beside")) {
    const auto &beside = json["beside"];
    for (const char *field : {"hand_over", "per_byte"})
      if (!beside.is_object() || beside.size() != 2 || !beside.contains(field) || !isTime(beside[field]))
        return fail("field 'beside' must be an object with 'hand_over' and 'per_byte' in seconds");
    table.beside_ = MeasuredBeside{beside["hand_over"].get<double>(), beside["per_byte"].get<double>()};
  }
  if (!json.contains("collectives"))
    return table;
  if (!json["collectives"].is_object())
    return fail("field 'collectives' must be an object");
  for (const auto &item : json["collectives"].items()) {
    auto [kind, count] = llvm::StringRef(item.key()).split(' ');
    int64_t ranks = 0;
    if (!dist::parseCollectiveKind(kind) || count.getAsInteger(10, ranks) || ranks < 2)
      return fail("'" + item.key() + "' is no collective and a number of ranks such as 'all-reduce 4'");
    if (!item.value().is_array() || item.value().empty())
      return fail("'" + item.key() + "' must be a list of [bytes, seconds]");
    for (const auto &point : item.value()) {
      if (!isPoint(point))
        return fail("'" + item.key() + "' must be a list of [bytes, seconds]");
      table.addCollective(kind, ranks, point[0].get<double>(), point[1].get<double>());
    }
  }
  return table;
}

std::string ProfileTable::toJson() const {
  nlohmann::json kernels = nlohmann::json::object(), collectives = nlohmann::json::object();
  for (const auto &[key, s] : seconds_)
    kernels[key] = s;
  for (const auto &[key, points] : collectives_)
    for (auto [bytes, s] : points)
      collectives[key].push_back({bytes, s});
  nlohmann::json all = {{"kernels", kernels}, {"collectives", collectives}};
  for (auto [bytes, s] : loops_)
    all["loops"].push_back({bytes, s});
  if (loopOperation_ > 0)
    all["loop_operation"] = loopOperation_;
  if (beside_)
    all["beside"] = {{"hand_over", beside_->handOver}, {"per_byte", beside_->perByte}};
  return all.dump(1) + "\n";
}

static std::string collectiveKey(llvm::StringRef kind, int64_t ranks) {
  return kind.str() + " " + std::to_string(ranks);
}

void ProfileTable::add(Sizes &sizes, double bytes, double seconds) {
  auto above = sizes.lower_bound(bytes);
  if (above != sizes.begin())
    seconds = std::max(seconds, std::prev(above)->second);
  sizes[bytes] = seconds;
  for (auto it = sizes.upper_bound(bytes); it != sizes.end(); ++it)
    it->second = std::max(it->second, seconds);
}

double ProfileTable::at(const Sizes &sizes, double bytes) {
  auto above = sizes.lower_bound(bytes);
  if (above == sizes.begin())
    return above->second; // latency
  auto below = std::prev(above);
  if (above == sizes.end())
    return below->second * bytes / below->first;
  double part = (bytes - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

void ProfileTable::addCollective(llvm::StringRef kind, int64_t ranks, double bytes, double seconds) {
  add(collectives_[collectiveKey(kind, ranks)], bytes, seconds);
}

std::optional<double> ProfileTable::loop(double bytes, double operations) const {
  return loops_.empty() ? std::nullopt : std::optional<double>(at(loops_, bytes) + operations * loopOperation_);
}

std::optional<double> ProfileTable::collective(llvm::StringRef kind, int64_t ranks, double bytes) const {
  if (collectives_.empty())
    return std::nullopt;
  auto found = collectives_.find(collectiveKey(kind, ranks));
  return found == collectives_.end() ? std::nullopt : std::optional<double>(at(found->second, bytes));
}

std::optional<double> ProfileTable::leastPerByte(llvm::StringRef kind, int64_t ranks) const {
  auto found = collectives_.find(collectiveKey(kind, ranks));
  if (found == collectives_.end())
    return std::nullopt;
  // Between two sizes the time is a line, so the least is at one of its ends; beyond the last one it stays.
  std::optional<double> least;
  for (auto [bytes, seconds] : found->second)
    least = std::min(least.value_or(seconds / bytes), seconds / bytes);
  return least;
}

std::string ProfileTable::kernelKey(llvm::StringRef kernel, llvm::ArrayRef<dist::Shape> operands,
                                    llvm::ArrayRef<dist::Shape> results, int elementBits) {
  auto list = [](llvm::ArrayRef<dist::Shape> shapes) {
    std::string text;
    for (size_t i = 0; i < shapes.size(); ++i) {
      text += i ? "," : "";
      for (size_t d = 0; d < shapes[i].size(); ++d)
        text += (d ? "x" : "") + std::to_string(shapes[i][d]);
    }
    return text;
  };
  return kernel.str() + " " + list(operands) + "->" + list(results) + " f" + std::to_string(elementBits);
}

std::optional<double> ProfileTable::seconds(const std::string &key) const {
  auto it = seconds_.find(key);
  return it == seconds_.end() ? std::nullopt : std::optional<double>(it->second);
}

} // namespace tessera::strategies
