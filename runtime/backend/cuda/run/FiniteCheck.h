//===- FiniteCheck.h - whether device memory has a NaN or an infinity ---------------------------------===//
//
// What FiniteWatch is on a device: after a program, one kernel looks at all that is watched, and one word comes
// back to pinned memory, behind the program and without anybody waiting for it.
//
//   FiniteCheck check(device, found);
//   check.add(parameter);              // of any type; only floating-point numbers are looked at
//   check.enqueue();                   // behind what is on the compute stream
//   device->finish();
//   check.collect();                   // *found is set if there was one; otherwise it stays what it is
//
// The kernel reads a table of pieces of memory: a word of 64 bits holds one, two or four numbers, and a number is not
// finite if all bits of its exponent are set. So one loop does for every type, and at the speed of memory.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_RUN_FINITECHECK_H
#define TESSERA_RUNTIME_BACKEND_CUDA_RUN_FINITECHECK_H

#include "runtime/backend/Tensor.h"
#include "runtime/device/Device.h"

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace tessera::rt::cuda {

/// The source of function "k" with the arguments (pieces, found). Every block looks at one piece.
const std::string &finiteCheckSource();

class FiniteCheck {
public:
  FiniteCheck(std::shared_ptr<Device> device, std::shared_ptr<std::atomic<bool>> found)
      : device_(std::move(device)), found_(std::move(found)) {}
  FiniteCheck(const FiniteCheck &) = delete;
  FiniteCheck &operator=(const FiniteCheck &) = delete;
  ~FiniteCheck();

  const std::shared_ptr<std::atomic<bool>> &found() const { return found_; }
  void add(const TensorView &view);
  Status enqueue();
  void collect();

private:
  /// The fields of a piece as the kernel reads them: address, bytes, the exponents' bits, all bits but the signs.
  using Piece = std::array<uint64_t, 4>;
  Status prepare();

  std::shared_ptr<Device> device_;
  std::shared_ptr<std::atomic<bool>> found_;
  std::vector<Piece> pieces_;
  DeviceMemory table_, flag_, answer_;
  TesseraCode *code_ = nullptr;
  bool prepared_ = false, asked_ = false;
};

} // namespace tessera::rt::cuda

#endif
