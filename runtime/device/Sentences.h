//===- Sentences.h - what a device's module says when it cannot work ----------------------------------===//
//
// Every function returns one sentence that says what is wrong and what to do. The CUDA module and the tests' emulator
// share them, so that the tests see the same words.
//
//   driverTooOld(12040, 13000)
//       => "the NVIDIA driver is too old: it supports CUDA 12.4, this build needs 13.0; update the driver"
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DEVICE_SENTENCES_H
#define TESSERA_RUNTIME_DEVICE_SENTENCES_H

#include <cstddef>
#include <string>

namespace tessera::device {

constexpr int kLeastMajor = 8; // compute capability 8.0: bfloat16 and TF32 on tensor cores

inline std::string noDriver() {
  return "there is no NVIDIA driver on this machine (libcuda.so.1 is missing); install one, or use "
         "--device cpu";
}

/// CUDA numbers its versions so: 13010 is 13.1.
inline std::string cudaVersion(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

inline std::string driverTooOld(int supported, int needed) {
  return "the NVIDIA driver is too old: it supports CUDA " + cudaVersion(supported) + ", this build needs " +
         cudaVersion(needed) + "; update the driver";
}

inline std::string noDevice() {
  return "there is no CUDA device on this machine, or CUDA_VISIBLE_DEVICES hides it; use --device "
         "cpu";
}

inline std::string deviceTooOld(int ordinal, const std::string &name, int major, int minor) {
  return "CUDA device " + std::to_string(ordinal) + " (" + name + ") has compute capability " + std::to_string(major) +
         "." + std::to_string(minor) + "; " + std::to_string(kLeastMajor) + ".0 or later is needed";
}

inline std::string outOfMemory(int ordinal, size_t needed, size_t free, size_t total) {
  auto mebibytes = [](size_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); };
  return "CUDA device " + std::to_string(ordinal) + " is out of memory: " + mebibytes(needed) + " MiB are needed, " +
         std::to_string(free >> 20) + " of " + mebibytes(total) +
         " MiB are free; compile for more ranks, or with --memory";
}

} // namespace tessera::device

#endif
