//===- RankTable.h - which rank runs where --------------------------------------------------------===//
//
// A JSON file of servers, their devices and ranks, as Ascend's tools write it (hccl_*.json) and MindSpore's tutorials
// use it:
//
//   {"version": "1.0", "server_count": "1", "status": "completed",
//    "server_list": [{"server_id": "10.0.0.1", "host_nic_ip": "reserve",
//                     "device": [{"device_id": "0", "device_ip": "192.1.27.6", "rank_id": "0"}]}]}
//
//   Result<RankTable> table = RankTable::parse(text);
//   const RankTable::Server *here = table->find(ownAddresses());
//
// Tables from before there were versions are taken, too:
//
//   {"status": "completed", "group_list": [{"instance_list": [
//      {"devices": [{"device_id": "0", "device_ip": "192.1.27.6"}], "rank_id": "0", "server_id": "10.0.0.1"}]}]}
//
// Ranks are reached at their server's `host_nic_ip`, or where that is "reserve" or absent at its `server_id`; the
// devices' own addresses are not used. Numbers may be text.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_LAUNCH_RANKTABLE_H
#define TESSERA_RUNTIME_LAUNCH_RANKTABLE_H

#include "runtime/support/Status.h"

#include <string>
#include <vector>

namespace tessera::rt {

struct RankTable {
  struct Device {
    int device = 0, rank = 0;
  };
  struct Server {
    std::string address;
    std::vector<Device> devices;
  };
  std::vector<Server> servers;

  static Result<RankTable> parse(const std::string &text);

  int ranks() const;
  /// The server of a rank. The table must have the rank.
  const Server &serverOf(int rank) const;
  /// The server whose address is in `own`, or is a name of an address in it; null if there is none.
  const Server *find(const std::vector<std::string> &own) const;
};

/// The addresses of this machine's network interfaces, and its name.
std::vector<std::string> ownAddresses();

} // namespace tessera::rt

#endif
