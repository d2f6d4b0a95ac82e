//===- DeviceSums.h - sums of several members as a tree, in a device's memory -------------------------------===//
//
// The tree of Reduce.h, on the communication stream: NCCL adds in an order of its own, which depends on the number of
// members. The arithmetic is that of reduceTo, so that the bits are those of the other transports.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_NCCL_DEVICESUMS_H
#define TESSERA_RUNTIME_COMM_NCCL_DEVICESUMS_H

#include "runtime/comm/nccl/DeviceKernels.h"
#include "runtime/plan/plan.pb.h"

namespace tessera::rt {

class DeviceSums {
public:
  explicit DeviceSums(std::shared_ptr<Device> device) : kernels_(std::move(device), "add_tree") {}

  /// to[i] = from[i] + from[apart + i] + ... for i below `count`, of so many members. The type is a floating-point one.
  /// `to` does not overlap `from`.
  Status add(const void *from, int members, size_t apart, void *to, size_t count, plan::DType dtype);

private:
  DeviceKernels kernels_;
};

/// The source of the kernel.
std::string treeSumSource(plan::DType dtype, int members);

} // namespace tessera::rt

#endif
