//===- MachineRates.h - how fast this machine is where nothing holds it up -------------------------------===//
//
// The yardsticks of a profile, measured with a backend's own kernels: a product of two square matrices, which is as
// fast as the machine computes, and a loop over tensors that no cache holds, which is as fast as its memory.
//
//   Result<double> flops = measureProducts(backend, options, plan::F32);      // 3.1e11 operations a second
//   Result<double> bytes = measureBandwidth(backend, options);                // 1.9e10 bytes a second
//
// Both take well under a second. Ranks of one machine share it: they measure at once what each of them gets.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_MACHINERATES_H
#define TESSERA_RUNTIME_BACKEND_MACHINERATES_H

#include "runtime/backend/Backend.h"

#include <map>
#include <memory>

namespace tessera::rt {

struct MachineRates {
  std::map<plan::DType, double> products; // by operands' type: operations a second, two per multiplication and addition
  double bandwidth = 0;                   // bytes a second, read and written; 0: unknown
};

/// A product of two square matrices of zeros, to launch again and again.
class LoadedProduct {
public:
  static Result<LoadedProduct> load(Backend &backend, const LoadOptions &options, plan::DType type, int64_t size);
  /// Runs it once and waits for it.
  Status run();

private:
  std::unique_ptr<plan::Plan> plan_; // outlives what is loaded
  std::unique_ptr<LoadedPlan> loaded_;
};

/// `type`: in which operands are held, so F64 for F32 where `options` widen.
Result<double> measureProducts(Backend &backend, const LoadOptions &options, plan::DType type);
/// Of c = a + b over single precision.
Result<double> measureBandwidth(Backend &backend, const LoadOptions &options);

} // namespace tessera::rt

#endif
