#include "runtime/launch/RankTable.h"

#include "runtime/comm/tcp/Socket.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/Nesting.h"

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

/// A number from 0 to `most`, written as a number or as text.
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
  return value < 0 || value > most ? std::nullopt : std::optional(int(value));
}

std::string text(const Json &object, const char *member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

using Server = RankTable::Server;

Result<Server> serverAt(const std::string &address) {
  if (address.empty() || address.size() > 255)
    return Status::error("has a server without a server_id");
  return Server{address, {}};
}

/// Adds the device with the rank_id of `rank`. In some formats `rank` is the device itself.
Status addDevice(Server &server, const Json &device, const Json &rank) {
  const auto none = std::optional<int>();
  const auto id = device.is_object() ? number(device, "device_id", 1 << 20) : none;
  const auto place = rank.is_object() ? number(rank, "rank_id", kMaxRanks - 1) : none;
  if (!id || !place)
    return Status::error("server " + rt::quoted(server.address) + " has a device without a device_id and rank_id");
  server.devices.push_back({*id, *place});
  return Status();
}

/// Version 1.0: servers and their devices.
Result<std::vector<Server>> parseServers(const Json &json) {
  const auto list = json.find("server_list");
  if (list == json.end() || !list->is_array() || list->empty())
    return Status::error("has no server_list");
  if (json.contains("server_count") && number(json, "server_count", kMaxRanks) != int(list->size()))
    return Status::error("has " + std::to_string(list->size()) + " servers, but another server_count");
  std::vector<Server> servers;
  for (const Json &entry : *list) {
    std::string address = entry.is_object() ? text(entry, "host_nic_ip") : "";
    if (address.empty() || address == "reserve")
      address = entry.is_object() ? text(entry, "server_id") : "";
    Result<Server> server = serverAt(address);
    if (!server)
      return server.status();
    const auto devices = entry.find("device");
    if (devices == entry.end() || !devices->is_array())
      return Status::error("server " + rt::quoted(address) + " has no list of devices");
    for (const Json &device : *devices)
      TESSERA_RETURN_IF_ERROR(addDevice(*server, device, device));
    servers.push_back(std::move(*server));
  }
  return servers;
}

/// The format before versions: groups of instances, where each instance is a rank on one device of
/// a server.
Result<std::vector<Server>> parseGroups(const Json &groups) {
  std::vector<Server> servers;
  if (!groups.is_array())
    return Status::error("has no list of groups");
  for (const Json &group : groups) {
    const auto list = group.is_object() ? group.find("instance_list") : group.end();
    if (!group.is_object() || list == group.end() || !list->is_array())
      return Status::error("has a group without an instance_list");
    for (const Json &instance : *list) {
      Result<Server> made = serverAt(instance.is_object() ? text(instance, "server_id") : "");
      if (!made)
        return made.status();
      const auto devices = instance.find("devices");
      if (devices == instance.end() || !devices->is_array() || devices->size() != 1)
        return Status::error("server " + rt::quoted(made->address) + " has an instance without exactly one device");
      auto server =
          std::find_if(servers.begin(), servers.end(), [&](const Server &s) { return s.address == made->address; });
      if (server == servers.end())
        server = servers.insert(servers.end(), std::move(*made));
      TESSERA_RETURN_IF_ERROR(addDevice(*server, devices->front(), instance));
    }
  }
  return servers;
}

} // namespace

Result<RankTable> RankTable::parse(const std::string &source) {
  if (nestsDeeper(source, 16))
    return Status::error("is no rank table: nested more than 16 deep");
  const Json json = Json::parse(source, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object())
    return Status::error("is no JSON object");
  const auto groups = json.find("group_list");
  const bool old = groups != json.end() && !json.contains("version");
  if (const std::string version = text(json, "version"); !old && version != "1.0")
    return Status::error("has the version " + rt::quoted(version) + "; \"1.0\" is known");
  if (const std::string status = text(json, "status"); !status.empty() && status != "completed")
    return Status::error("has the status " + rt::quoted(status) + ", not \"completed\"");
  Result<std::vector<Server>> servers = old ? parseGroups(*groups) : parseServers(json);
  if (!servers)
    return servers.status();
  std::set<int> ranks;
  std::set<std::string> addresses;
  for (const Server &server : *servers) {
    if (!addresses.insert(server.address).second)
      return Status::error("names server " + rt::quoted(server.address) + " twice");
    for (const Device &device : server.devices)
      if (!ranks.insert(device.rank).second)
        return Status::error("names rank " + std::to_string(device.rank) + " twice");
  }
  if (ranks.empty())
    return Status::error("names no rank");
  if (*ranks.rbegin() != int(ranks.size()) - 1)
    return Status::error("names " + std::to_string(ranks.size()) + " ranks, the last of them " +
                         std::to_string(*ranks.rbegin()) + ": ranks are counted from 0 without gaps");
  return RankTable{std::move(*servers)};
}

int RankTable::ranks() const {
  size_t count = 0;
  for (const Server &server : servers)
    count += server.devices.size();
  return int(count);
}

const RankTable::Server &RankTable::serverOf(int rank) const {
  return *std::find_if(servers.begin(), servers.end(), [&](const Server &server) {
    return std::any_of(server.devices.begin(), server.devices.end(),
                       [&](const Device &device) { return device.rank == rank; });
  });
}

const RankTable::Server *RankTable::find(const std::vector<std::string> &own) const {
  auto isOwn = [&](const std::string &address) { return std::count(own.begin(), own.end(), address) > 0; };
  for (const Server &server : servers)
    if (isOwn(server.address))
      return &server;
  for (const Server &server : servers) {
    std::vector<std::string> meant = numericAddresses(server.address);
    if (std::any_of(meant.begin(), meant.end(), isOwn))
      return &server;
  }
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
