//===- DeviceBoxes.h - copies between boxes in a device's memory ---------------------------------------===//
//
// What copyBox (BoxCopy.h) does in host memory, on the communication stream. Every copy is one piece of work, whatever
// its boxes are: a copy of bytes, or of rows that are wide, or else a kernel that takes the loops from a table in
// device memory (DeviceKernels.h).
//
//   // the left edge of every row of [64, 56, 56] images: one kernel instead of 3,584 copies of an element
//   boxes.copy(x, {0, {64, 56}, {3136, 56}}, packed, {0, {3584}, {1}}, 4);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_NCCL_DEVICEBOXES_H
#define TESSERA_RUNTIME_COMM_NCCL_DEVICEBOXES_H

#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/nccl/DeviceKernels.h"

#include <memory>
#include <string>
#include <vector>

namespace tessera::rt {

class DeviceBoxes {
public:
  explicit DeviceBoxes(std::shared_ptr<Device> device) : device_(device), kernels_(std::move(device), "copy_boxes") {}

  /// As copyBox. One of the boxes is a single run, or both have the same counts. A stride of 0 repeats an element.
  Status copy(const void *from, const Box &fromBox, void *to, const Box &toBox, size_t elementSize);

private:
  Status launch(const char *from, char *to, const std::vector<BoxLoop> &loops, size_t unit);

  std::shared_ptr<Device> device_;
  DeviceKernels kernels_;
};

/// The source of the kernel: it moves units of so many bytes, and counts more than 2^31 of them if it is `large`.
std::string boxCopySource(size_t unit, bool isLarge);

/// Whether the box is one run of memory.
bool isRun(const Box &box);

} // namespace tessera::rt

#endif
