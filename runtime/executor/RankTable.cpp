#include "runtime/executor/RankTable.h"

#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <charconv>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unistd.h>

namespace tessera::rt {
namespace {

using Json = nlohmann::json;

/// A number from 0 to `most`, as such or as text.
std::optional<int> number(const Json &object, const char *member, int most) {
  const auto found = object.find(member);
  if (found == object.end())
    return std::nullopt;
  int64_t value = -1;
  if (found->is_number_integer()) {
    value = found->get<int64_t>();
  } else if (found->is_string()) {
    const auto &text = found->get_ref<const std::string &>();
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
      return std::nullopt;
  }
  return value < 0 || value > most ? std::nullopt : std::optional(static_cast<int>(value));
}

std::string text(const Json &object, const char *member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

} // namespace

Result<RankTable> RankTable::parse(const std::string &source) {
  const Json json = Json::parse(source, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object())
    return Status::error("is no JSON object");
  if (const std::string version = text(json, "version"); version != "1.0")
    return Status::error("has the version " + rt::quoted(version) + "; \"1.0\" is known");
  if (const std::string status = text(json, "status"); !status.empty() && status != "completed")
    return Status::error("has the status " + rt::quoted(status) + ", not \"completed\"");
  const auto list = json.find("server_list");
  if (list == json.end() || !list->is_array() || list->empty())
    return Status::error("has no server_list");
  if (json.contains("server_count") &&
      number(json, "server_count", kMaxRanks) != static_cast<int>(list->size()))
    return Status::error("has " + std::to_string(list->size()) +
                         " servers, but another server_count");
  RankTable table;
  std::set<int> ranks;
  for (const Json &entry : *list) {
    Server server;
    if (entry.is_object())
      server.address = text(entry, "host_nic_ip");
    if (server.address.empty() || server.address == "reserve")
      server.address = entry.is_object() ? text(entry, "server_id") : "";
    if (server.address.empty() || server.address.size() > 255)
      return Status::error("has a server without a server_id");
    const std::string where = "server " + rt::quoted(server.address);
    const auto devices = entry.find("device");
    if (devices == entry.end() || !devices->is_array())
      return Status::error(where + " has no list of devices");
    for (const Json &device : *devices) {
      const auto none = std::optional<int>();
      const auto id = device.is_object() ? number(device, "device_id", 1 << 20) : none;
      const auto rank = device.is_object() ? number(device, "rank_id", kMaxRanks - 1) : none;
      if (!id || !rank)
        return Status::error(where + " has a device without a device_id and rank_id");
      if (!ranks.insert(*rank).second)
        return Status::error("names rank " + std::to_string(*rank) + " twice");
      server.devices.push_back({*id, *rank});
    }
    table.servers.push_back(std::move(server));
  }
  if (ranks.empty())
    return Status::error("names no rank");
  if (*ranks.rbegin() != static_cast<int>(ranks.size()) - 1)
    return Status::error("names " + std::to_string(ranks.size()) + " ranks, the last of them " +
                         std::to_string(*ranks.rbegin()) +
                         ": ranks are counted from 0 without gaps");
  return table;
}

int RankTable::ranks() const {
  size_t count = 0;
  for (const Server &server : servers)
    count += server.devices.size();
  return static_cast<int>(count);
}

const RankTable::Server &RankTable::serverOf(int rank) const {
  return *std::find_if(servers.begin(), servers.end(), [&](const Server &server) {
    return std::any_of(server.devices.begin(), server.devices.end(),
                       [&](const Device &device) { return device.rank == rank; });
  });
}

const RankTable::Server *RankTable::find(const std::vector<std::string> &own) const {
  for (const Server &server : servers)
    if (std::count(own.begin(), own.end(), server.address))
      return &server;
  return nullptr;
}

std::vector<std::string> ownAddresses() {
  std::vector<std::string> found;
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) == 0)
    found.push_back(name);
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return found;
  for (const ifaddrs *i = list; i; i = i->ifa_next) {
    const int family = i->ifa_addr ? i->ifa_addr->sa_family : 0;
    if (family != AF_INET && family != AF_INET6)
      continue;
    char host[NI_MAXHOST] = "";
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(i->ifa_addr, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0)
      found.push_back(host);
  }
  freeifaddrs(list);
  return found;
}

} // namespace tessera::rt
