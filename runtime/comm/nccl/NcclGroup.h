//===- NcclGroup.h - what NcclWorld and its communicators share -------------------------------------===//
//
// The communicators of a device, and the one place that decides that something failed.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_NCCL_NCCLGROUP_H
#define TESSERA_RUNTIME_COMM_NCCL_NCCLGROUP_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/Device.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tessera::rt {

struct NcclGroups {
  NcclGroups(World &host, std::shared_ptr<Device> device) : host(host), device(std::move(device)) {}
  ~NcclGroups();
  NcclGroups(const NcclGroups &) = delete;
  NcclGroups &operator=(const NcclGroups &) = delete;

  /// Asks everybody; after a failure all communicators are gone and every call returns `failure`.
  Status check();
  /// Waits until `comm` has taken in what it was given last. `seconds` without progress are a failure.
  Status settle(TesseraComm *comm, double seconds, const std::string &what);
  Status fail(const std::string &why);

  World &host;
  std::shared_ptr<Device> device;
  std::map<std::vector<int>, TesseraComm *> comms; // by ranks
  std::set<std::pair<TesseraComm *, void *>> registered;
  std::string failure;
};

/// `channel`: the same group on the host.
std::unique_ptr<Communicator> createNcclCommunicator(std::shared_ptr<NcclGroups> groups, TesseraComm *comm,
                                                     std::vector<int> ranks, std::unique_ptr<Communicator> channel);

/// A box as rows of equal width: what device copies take. In elements.
struct RowCopy {
  int64_t offset = 0; // of the first row in the strided place
  int64_t pitch = 0, width = 0, rows = 1;
  int64_t packed = 0; // of the first row where rows lie one after the other
};
std::vector<RowCopy> rowsOf(const Box &box);

} // namespace tessera::rt

#endif
