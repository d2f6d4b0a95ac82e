//===- NcclGroup.h - what NcclWorld and its communicators share -------------------------------------===//
//
// NcclGroups holds the communicators of a device and is the only place that detects their failures.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_NCCL_NCCLGROUP_H
#define TESSERA_RUNTIME_COMM_NCCL_NCCLGROUP_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/nccl/DeviceBoxes.h"
#include "runtime/comm/nccl/DeviceSums.h"
#include "runtime/device/Device.h"

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tessera::rt {

struct NcclGroups {
  NcclGroups(World &host, std::shared_ptr<Device> device)
      : host(host), device(std::move(device)), boxes(this->device), sums(this->device) {}
  ~NcclGroups();
  NcclGroups(const NcclGroups &) = delete;
  NcclGroups &operator=(const NcclGroups &) = delete;

  /// Asks all communicators and the host's world for errors. After a failure all communicators are revoked and every
  /// call returns `failure`. If the device does not come to rest then, ends the process.
  Status check();
  /// Waits until `comm` has accepted its last operation. More than `seconds` without progress are a failure.
  Status settle(TesseraComm *comm, double seconds, const std::string &what);
  Status fail(const std::string &why);
  /// Gives up all work of all communicators: `why` is the failure. They are destroyed later (release), since recorded
  /// graphs hold them.
  void revoke(const std::string &why);
  /// Destroys the communicators. No graph has their work any more.
  void release();

  World &host;
  std::shared_ptr<Device> device;
  DeviceBoxes boxes;
  DeviceSums sums;
  std::map<std::vector<int>, TesseraComm *> comms; // by ranks
  std::set<std::pair<TesseraComm *, void *>> registered;
  std::string failure;
  std::chrono::steady_clock::time_point failed; // when
};

/// `channel` is a communicator of the same group on the host.
std::unique_ptr<Communicator> createNcclCommunicator(std::shared_ptr<NcclGroups> groups, TesseraComm *comm,
                                                     std::vector<int> ranks, std::unique_ptr<Communicator> channel);

} // namespace tessera::rt

#endif
