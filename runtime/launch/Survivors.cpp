#include "runtime/launch/Survivors.h"

#include "runtime/comm/tcp/Socket.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/File.h"
#include "runtime/support/Nesting.h"

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tessera::rt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uint64_t kMostBytes = uint64_t(4) << 20;
/// How long the machine that decides may take, since it also compiles.
constexpr double kDecisionSeconds = 600;
constexpr double kReportSeconds = 0.5;

/// A file name for an address, which may contain colons.
std::string fileName(const std::string &address) {
  std::string name;
  for (char c : address)
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '.' ? c : '_';
  return name;
}

Result<std::set<int>> ranksOf(const Json &json) {
  std::set<int> ranks;
  if (!json.is_array())
    return Status::error("has no list of ranks");
  for (const Json &rank : json)
    if (!rank.is_number_integer() || rank.get<int64_t>() < 0 || rank.get<int64_t>() >= int64_t(kMaxRanks) ||
        !ranks.insert(rank.get<int>()).second)
      return Status::error("has a list of ranks with " + rank.dump());
  return ranks;
}

Result<Json> readJson(const std::string &path) {
  Result<std::string> text = readFile(path, kMostBytes);
  if (!text)
    return text.status();
  Json json = nestsDeeper(*text, 8) ? Json() : Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object())
    return Status::error(path + ": is no JSON object");
  return json;
}

std::string member(const Json &object, const char *name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

} // namespace

Survivors::Survivors(const std::string &folder, std::string address, double waitSeconds)
    : folder_(folder + "/.elastic"), address_(std::move(address)), waitSeconds_(waitSeconds) {}

std::string Survivors::reportPath(int attempt, const std::string &address) const {
  return folder_ + "/" + std::to_string(attempt) + "-" + fileName(address);
}

void Survivors::begin(bool first) const {
  std::error_code error;
  if (first)
    fs::remove_all(folder_, error);
  // If another machine removes the folder meanwhile, nothing old is left in it either, and
  // isFresh() treats it so.
  if (makeDirectory(folder_))
    (void)writeFile(folder_ + "/began-" + fileName(address_), "").ok();
}

void Survivors::end() const {
  std::error_code error;
  fs::remove_all(folder_, error);
}

bool Survivors::isFresh(const std::string &path) const {
  // Both times are those of the file server, so that clocks of machines do not matter.
  std::error_code error;
  const auto began = fs::last_write_time(folder_ + "/began-" + fileName(address_), error);
  if (error)
    return fileExists(path); // the machine with rank 0 started later and removed the file
  const auto written = fs::last_write_time(path, error);
  return !error && written >= began;
}

Result<Survivors::Decision> Survivors::readDecision(const std::string &path) const {
  Result<Json> json = readJson(path);
  if (!json)
    return json.status();
  if (const std::string why = member(*json, "error"); !why.empty())
    return Status::error(why);
  Decision decision{{}, member(*json, "plan"), member(*json, "text")};
  Result<std::set<int>> ranks = ranksOf(json->value("ranks", Json()));
  if (!ranks || ranks->empty())
    return Status::error(path + ": " + (ranks ? "names no rank" : ranks.status().message()));
  decision.ranks.assign(ranks->begin(), ranks->end());
  return decision;
}

/// Publishes under a name that can be given only once: making the link fails where the name exists.
Status Survivors::publish(const std::string &path, const std::string &text) const {
  const std::string own = path + "-" + fileName(address_);
  TESSERA_RETURN_IF_ERROR(writeFile(own, text));
  if (fileExists(path) && !isFresh(path))
    unlink(path.c_str());
  if (link(own.c_str(), path.c_str()) != 0 && errno != EEXIST)
    return Status::error(path + ": cannot be written: " + std::strerror(errno));
  return Status();
}

Result<Survivors::Decision> Survivors::agree(int attempt, const std::set<int> &left,
                                             const std::set<std::string> &machines, const Decide &decide) const {
  const std::string path = folder_ + "/" + std::to_string(attempt) + "-decided";
  const auto report = [&] {
    TESSERA_RETURN_IF_ERROR(makeDirectory(folder_));
    return writeFile(reportPath(attempt, address_), Json{{"ranks", left}}.dump());
  };
  TESSERA_RETURN_IF_ERROR(report());
  const double begin = monotonicSeconds();
  double reported = 0;
  while (!isFresh(path)) {
    const double waited = monotonicSeconds() - begin;
    if (waited > waitSeconds_ + kDecisionSeconds)
      return Status::error(folder_ + ": no machine has decided which ranks are left");
    std::set<std::string> present;
    for (const std::string &machine : machines)
      if (isFresh(reportPath(attempt, machine)))
        present.insert(machine);
    const bool complete = present.size() == machines.size() || waited > waitSeconds_;
    if (!complete || *present.begin() != address_) {
      sigset_t pending;
      sigpending(&pending);
      if (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM))
        return Status::error("interrupted");
      // The report is renewed, since a machine that starts only now takes older files for an
      // earlier run's.
      if (waited > reported + kReportSeconds && report())
        reported = waited;
      usleep(100'000);
      continue;
    }
    std::set<int> all;
    for (const std::string &machine : present) {
      Result<Json> json = readJson(reportPath(attempt, machine));
      Result<std::set<int>> ranks = json ? ranksOf(json->value("ranks", Json())) : json.status();
      if (!ranks)
        return ranks.status().context(reportPath(attempt, machine));
      all.insert(ranks->begin(), ranks->end());
    }
    Result<Decision> decision = decide(all);
    const Json text = decision ? Json{{"ranks", decision->ranks}, {"plan", decision->plan}, {"text", decision->text}}
                               : Json{{"error", decision.status().message()}};
    TESSERA_RETURN_IF_ERROR(publish(path, text.dump(-1, ' ', false, Json::error_handler_t::replace)));
    break; // another machine may have published first
  }
  return readDecision(path);
}

} // namespace tessera::rt
