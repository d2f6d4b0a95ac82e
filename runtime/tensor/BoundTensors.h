//===- BoundTensors.h - what the ranks of a plan bind together -------------------------------------===//
//
// The ranks of one stage bind the same tensors in the same order; every stage of a pipeline has its own. A tensor is
// the same on all of them by role, program and name. Here all of them stand in one list: those of rank 0 in its order,
// and behind them those that only later stages have. So without a pipeline a tensor's number is its binding's.
//
//   BoundTensors tensors(plans);
//   for (int t : tensors.of(plan::OUTPUT, "infer"))
//     tensors.binding(t).global_shape(), tensors.on(rank, t)          // -1: this rank does not bind it
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TENSOR_BOUNDTENSORS_H
#define TESSERA_RUNTIME_TENSOR_BOUNDTENSORS_H

#include "runtime/plan/stages/Stages.h"

#include <span>
#include <string>
#include <vector>

namespace tessera::rt {

/// The bindings of a role in order of ordinals, as indices; `program` does not matter for PARAMETER and STATE.
std::vector<int> bindingsOf(const plan::Plan &plan, plan::Role role, const std::string &program);

class BoundTensors {
public:
  /// The plans of all ranks, which fit together and outlive this object.
  explicit BoundTensors(std::span<const plan::Plan> plans);

  /// A plan without programs that binds all tensors, each as the first rank that has it does. Its bindings are the
  /// tensors.
  const plan::Plan &plan() const { return joint_; }
  const plan::Binding &binding(int tensor) const { return joint_.bindings(tensor); }
  plan::DType type(int tensor) const { return joint_.buffers(int(binding(tensor).buffer())).dtype(); }
  std::vector<int> of(plan::Role role, const std::string &program) const { return bindingsOf(joint_, role, program); }
  /// A rank's binding of a tensor; -1 if it has none.
  int on(size_t rank, int tensor) const { return onStage_[stages_.of(uint32_t(rank))][size_t(tensor)]; }
  std::span<const plan::Plan> plans() const { return plans_; }

private:
  const std::span<const plan::Plan> plans_;
  const Stages stages_;
  plan::Plan joint_;
  std::vector<std::vector<int>> onStage_; // by stage, tensor
};

} // namespace tessera::rt

#endif
