//===- DeviceKernels.h - generated kernels of the communication stream --------------------------------------===//
//
// A kernel has the parameters (to, from, table): where it writes, where it reads, and numbers in device memory. It is
// compiled when it is first launched, and a table is written when its numbers are first seen. No program is recorded in
// its first run, so neither becomes part of a graph.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_NCCL_DEVICEKERNELS_H
#define TESSERA_RUNTIME_COMM_NCCL_DEVICEKERNELS_H

#include "runtime/device/Device.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tessera::rt {

class DeviceKernels {
public:
  /// `function`: what all of their sources call the kernel.
  DeviceKernels(std::shared_ptr<Device> device, std::string function)
      : device_(std::move(device)), function_(std::move(function)) {}
  ~DeviceKernels();
  DeviceKernels(const DeviceKernels &) = delete;
  DeviceKernels &operator=(const DeviceKernels &) = delete;

  /// Launches threads for so many points, in blocks of 256, or fewer that then do several.
  Status launch(const std::string &source, void *to, const void *from, const std::vector<int64_t> &table,
                int64_t points);

private:
  Result<TesseraCode *> codeFor(const std::string &source);
  Result<void *> tableFor(const std::vector<int64_t> &words);

  std::shared_ptr<Device> device_;
  const std::string function_;
  std::map<std::string, TesseraCode *> codes_; // by source
  std::map<std::vector<int64_t>, DeviceMemory> tables_;
};

} // namespace tessera::rt

#endif
