// Options, environment and rank tables say which ranks a process runs. Some of them are refused.
#include "runtime/launch/LaunchContext.h"
#include "runtime/launch/RankTable.h"
#include "runtime/support/File.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>

using namespace tessera::rt;
using Catch::Matchers::Contains;

namespace {

using Variables = std::map<std::string, std::string>;

const Variables kTorch = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};

Result<LaunchContext> place(const Variables &variables, const LaunchOptions &options = {}, int ranks = 4) {
  return decideLaunch(options, ranks, [&](const char *name) -> const char * {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

std::string refused(Variables variables, const std::string &name, const std::string &value) {
  variables[name] = value;
  return place(variables).status().message();
}

std::string without(const std::string &name) {
  Variables variables = kTorch;
  variables.erase(name);
  return place(variables).status().message();
}

const char *const kTable =
    R"({"version": "1.0", "server_count": "2", "status": "completed", "server_list": [
     {"server_id": "10.0.0.1", "host_nic_ip": "reserve", "device": [
       {"device_id": "0", "device_ip": "192.1.27.6", "rank_id": "0"},
       {"device_id": "1", "device_ip": "192.2.27.6", "rank_id": "1"}]},
     {"server_id": "10.0.0.2", "host_nic_ip": "10.1.0.2", "device": [
       {"device_id": "4", "device_ip": "192.1.27.7", "rank_id": "2"}]}]})";

// A table of the first releases of MindSpore, from its tutorial on distributed training.
const char *const kOldTable =
    R"({"board_id": "0x0000", "chip_info": "910", "deploy_mode": "lab", "group_count": "1",
     "group_list": [{"device_num": "3", "server_num": "2", "group_name": "", "instance_count": "3", "instance_list": [
       {"devices": [{"device_id": "0", "device_ip": "192.1.27.6"}], "rank_id": "0", "server_id": "10.0.0.1"},
       {"devices": [{"device_id": "4", "device_ip": "192.1.27.7"}], "rank_id": "2", "server_id": "10.0.0.2"},
       {"devices": [{"device_id": "1", "device_ip": "192.2.27.6"}], "rank_id": "1", "server_id": "10.0.0.1"}]}],
     "para_plane_nic_location": "device", "para_plane_nic_name": ["eth0", "eth1", "eth2"],
     "para_plane_nic_num": "3", "status": "completed"})";

std::string tableError(const std::string &from, const std::string &what, const std::string &with) {
  std::string text = from;
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return RankTable::parse(text.replace(at, what.size(), with)).status().message();
}

} // namespace

TEST_CASE("torchrun's variables make one rank") {
  Result<LaunchContext> p = place(kTorch);
  REQUIRE(p.ok());
  CHECK(p->transport == Transport::Tcp);
  CHECK(p->tcp.rank == 1);
  CHECK(p->tcp.address == "10.0.0.1");
  CHECK(p->tcp.port == 29500);
  CHECK(p->children.empty());
  // The agent of torchrun has the port that it names.
  Variables agent = kTorch;
  agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(place(agent)->tcp.port == 29501);
  CHECK(place({})->transport == Transport::Threads);
}

TEST_CASE("ranks with a device each are processes unless threads are asked for") {
  LaunchOptions devices;
  devices.ownDevices = true;
  Result<LaunchContext> p = place({}, devices);
  REQUIRE(p.ok());
  CHECK((p->children.size() == 4 && p->ownListener && p->children[3].rank == 3));
  CHECK(place({}, devices, 1)->children.empty());
  CHECK(place(kTorch, devices)->children.empty());
  devices.processes = false;
  CHECK(place({}, devices)->children.empty());
  CHECK(place({}, devices)->transport == Transport::Threads);
}

TEST_CASE("a variable that is missing or is no number is named") {
  CHECK_THAT(without("MASTER_ADDR"), Contains("MASTER_ADDR is not set"));
  CHECK_THAT(without("MASTER_PORT"), Contains("MASTER_PORT is not set"));
  // The machines must not each run all ranks as threads.
  CHECK_THAT(without("WORLD_SIZE"), Contains("WORLD_SIZE is not set") && Contains("RANK is"));
  CHECK_THAT(without("RANK"), Contains("RANK is not set") && Contains("WORLD_SIZE is"));
  for (const char *bad : {"", "x", "-1", "1.5", " 1", "1 ", "0x1", "99999999999999999999"})
    for (const char *name : {"RANK", "WORLD_SIZE", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
      CHECK_THAT(refused(kTorch, name, bad), Contains(std::string(name) + "=" + bad));
  CHECK_THAT(refused(kTorch, "RANK", "4"), Contains("RANK is 4"));
  CHECK_THAT(refused(kTorch, "WORLD_SIZE", "8"), Contains("WORLD_SIZE is 8"));
  CHECK_THAT(refused(kTorch, "MASTER_PORT", "0"), Contains("MASTER_PORT=0"));
  CHECK_THAT(refused(kTorch, "MASTER_PORT", "65536"), Contains("MASTER_PORT=65536"));
  Variables agent = kTorch;
  agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK_THAT(refused(agent, "MASTER_PORT", "65535"), Contains("the one after it"));
  CHECK_THAT(refused(kTorch, "MASTER_ADDR", ""), Contains("MASTER_ADDR"));
}

TEST_CASE("rank tables of both kinds say the same") {
  for (const char *text : {kTable, kOldTable}) {
    Result<RankTable> table = RankTable::parse(text);
    INFO(table.status().message());
    REQUIRE(table.ok());
    REQUIRE(table->ranks() == 3);
    CHECK(table->servers.size() == 2);
    CHECK(table->serverOf(0).address == "10.0.0.1");
    CHECK(&table->serverOf(1) == &table->serverOf(0));
    CHECK(table->serverOf(2).devices[0].device == 4);
    CHECK(table->serverOf(2).address == (text == kTable ? "10.1.0.2" : "10.0.0.2"));
  }
}

TEST_CASE("rank tables that do not hold together are refused") {
  CHECK_THAT(tableError(kTable, "\"1.0\"", "\"2.0\""), Contains("version"));
  CHECK_THAT(tableError(kTable, "\"version\": \"1.0\", ", ""), Contains("version"));
  CHECK_THAT(tableError(kTable, "10.1.0.2", "10.0.0.1"), Contains("'10.0.0.1' twice"));
  CHECK_THAT(tableError(kTable, "\"rank_id\": \"2\"", "\"rank_id\": \"1\""), Contains("rank 1 twice"));
  CHECK_THAT(tableError(kTable, "\"rank_id\": \"2\"", "\"rank_id\": 18446744073709551615"), Contains("rank_id"));
  CHECK_THAT(tableError(kOldTable, "\"rank_id\": \"2\"", "\"rank_id\": \"3\""), Contains("gaps"));
  CHECK_THAT(tableError(kOldTable, "\"rank_id\": \"2\", ", ""), Contains("rank_id"));
  CHECK_THAT(tableError(kOldTable, "{\"device_id\": \"4\", \"device_ip\": \"192.1.27.7\"}", ""),
             Contains("exactly one device"));
  CHECK_THAT(tableError(kOldTable, "\"server_id\": \"10.0.0.2\"", "\"server_id\": 5"), Contains("server_id"));
  CHECK_THAT(tableError(kOldTable, "completed", "initializing"), Contains("status"));
  CHECK_THAT(tableError(kOldTable, "instance_list", "list"), Contains("instance_list"));
  for (const char *groups :
       {"5", "[]", "[5]", "{}", "[{\"instance_list\": []}]", "[{\"instance_list\": [5]}]", "[{\"instance_list\": 5}]"})
    CHECK_FALSE(RankTable::parse("{\"group_list\": " + std::string(groups) + "}").ok());
  CHECK_FALSE(RankTable::parse(std::string(4 << 20, '[')).ok()); // at once
}

TEST_CASE("this machine's server is found by address or by a name that leads there") {
  RankTable table;
  table.servers = {{"no.such.host.invalid", {{0, 0}}}, {"localhost", {{0, 1}}}};
  CHECK(table.find({"10.0.0.7"}) == nullptr);
  CHECK(table.find({"10.0.0.7", "127.0.0.1", "::1"}) == &table.servers[1]);
  table.servers[0].address = "0:0:0:0:0:0:0:1"; // another spelling
  CHECK(table.find({"::1"}) == &table.servers[0]);
}
