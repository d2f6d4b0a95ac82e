//===- InitialTensors.h - a plan's own weights ------------------------------------------------===//
//
// The parameters and states that a plan starts from if no other weights are given: the tensors of its weight file, and
// those that the plan has only a rule for. Every rank makes its own blocks of the latter.
//
//   Result<std::unique_ptr<TensorSource>> own = InitialTensors::open(directory);
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_INITIALTENSORS_H
#define TESSERA_RUNTIME_CHECKPOINT_INITIALTENSORS_H

#include "runtime/plan/PlanFile.h"
#include "runtime/tensor/TensorSource.h"

#include <map>
#include <memory>

namespace tessera::rt {

class InitialTensors : public TensorSource {
public:
  /// The tensors of a plan's weight file and of its rules; null if the plan has no weight file.
  static Result<std::unique_ptr<TensorSource>> open(const PlanDirectory &directory);
  /// The tensors of `file`, and those that the checked plan, or a plan of all stages' bindings, has a rule for.
  InitialTensors(std::unique_ptr<TensorSource> file, const plan::Plan &plan);

  const std::string &path() const override { return file_->path(); }
  std::vector<std::string> names() const override;
  std::optional<TensorType> typeOf(const std::string &name) const override;
  Status read(const std::string &name, const Block &block, plan::DType type, void *out) const override;

private:
  struct Made {
    TensorType type;
    plan::Initial rule;
  };
  std::unique_ptr<TensorSource> file_;
  std::map<std::string, Made> made_;
};

} // namespace tessera::rt

#endif
