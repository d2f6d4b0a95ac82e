// checkBindings: how buffers meet the outside world.
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanInfo.h"

#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace tessera::rt {
namespace {

bool perProgram(plan::Role role) { return role != plan::PARAMETER && role != plan::STATE; }

bool isScalar(plan::Role role) {
  return role == plan::STEP || role == plan::LOSS || role == plan::CORRECT || role == plan::PREDICTIONS ||
         role == plan::LEARNING_RATE || role == plan::GRADIENT_NORM;
}

Status checkBox(const plan::Plan &plan, const plan::Binding &binding, const BufferRange &range) {
  std::vector<int64_t> global = toVector(binding.global_shape()), offset = toVector(binding.offset());
  auto what = [&] { return bufferText(plan, binding.buffer()) + " of shape " + shapeText(range.shape); };
  if (global.size() != range.shape.size() || offset.size() != range.shape.size())
    return Status::error(what() + " has another number of dimensions than the global shape " + shapeText(global) +
                         " or the offset " + shapeText(offset));
  if (!elementsOf(global))
    return Status::error("the global shape " + shapeText(global) + " is not possible");
  const std::vector<int64_t> extent = extentOf(plan, binding);
  if (extent.size() != range.shape.size())
    return Status::error(what() + " has another number of dimensions than the extent " + shapeText(extent));
  for (size_t d = 0; d < global.size(); ++d)
    if (extent[d] < 0 || extent[d] > range.shape[d])
      return Status::error(what() + " cannot hold the extent " + shapeText(extent));
  for (size_t d = 0; d < global.size(); ++d)
    if (offset[d] < 0 || range.shape[d] > global[d] || offset[d] > global[d] - extent[d])
      return Status::error(what() + " at offset " + shapeText(offset) + " lies outside the global shape " +
                           shapeText(global));
  return Status();
}

Status checkBinding(const plan::Plan &plan, const plan::Binding &binding, const std::vector<BufferRange> &ranges) {
  if (!plan::Role_IsValid(binding.role()) || binding.role() == plan::ROLE_INVALID)
    return Status::error("has no valid role");
  if (binding.buffer() >= ranges.size())
    return Status::error("names buffer " + std::to_string(binding.buffer()) + ", which does not exist");
  const BufferRange &range = ranges[binding.buffer()];
  const plan::Buffer &buffer = plan.buffers(int(binding.buffer()));
  const plan::Buffer &root = plan.buffers(int(range.root));
  if (!range.same(ranges[range.root]))
    return Status::error(bufferText(plan, binding.buffer()) + " is a part of " + bufferText(plan, range.root));
  TESSERA_RETURN_IF_ERROR(checkBox(plan, binding, range));
  if (perProgram(binding.role()) && findProgram(plan, binding.program()) < 0)
    return Status::error("belongs to program " + quoted(binding.program()) + ", which does not exist");
  if (!perProgram(binding.role()) && !root.persistent())
    return Status::error(bufferText(plan, binding.buffer()) + " is not persistent");
  bool input = binding.role() == plan::INPUT || binding.role() == plan::TARGET || binding.role() == plan::STEP ||
               !perProgram(binding.role());
  if (input && !root.constant().empty())
    return Status::error(bufferText(plan, binding.buffer()) + " is a constant");
  if (isScalar(binding.role()) && elementsOf(range.shape) != 1)
    return Status::error(bufferText(plan, binding.buffer()) + " of shape " + shapeText(range.shape) +
                         " is not a scalar");
  if (binding.role() == plan::STEP ? buffer.dtype() != plan::I64
                                   : isScalar(binding.role()) && !isFloatType(buffer.dtype()))
    return Status::error(bufferText(plan, binding.buffer()) + " has the type " + typeName(buffer.dtype()));
  const bool fed = binding.role() == plan::INPUT || binding.role() == plan::TARGET;
  if (binding.id_limit() < 0 || (binding.id_limit() > 0 && (!fed || isFloatType(buffer.dtype()))))
    return Status::error("has the limit " + std::to_string(binding.id_limit()) +
                         " of its values, which only inputs and targets of integers have");
  if (!binding.log_as().empty() && (binding.role() != plan::STATE || elementsOf(range.shape) != 1))
    return Status::error("is logged as " + quoted(binding.log_as()) + ", which only states that are scalars are");
  if (binding.has_initial()) {
    const plan::Initial &initial = binding.initial();
    if (perProgram(binding.role()))
      return Status::error("has initial values, which only parameters and states have");
    if (!plan::Initial::Kind_IsValid(initial.kind()) || !std::isfinite(initial.value()))
      return Status::error("has no valid rule for its initial values");
    if (initial.kind() != plan::Initial::CONSTANT && !isFloatType(buffer.dtype()))
      return Status::error(bufferText(plan, binding.buffer()) + " of the type " + typeName(buffer.dtype()) +
                           " cannot have random initial values");
  } else if (binding.role() == plan::PARAMETER && plan.weights_file().empty())
    return Status::error("the plan has no weight file to read it from");
  return Status();
}

} // namespace

Status checkBindings(const plan::Plan &plan, const std::vector<BufferRange> &ranges) {
  std::set<std::tuple<int, std::string, std::string>> names;
  std::map<std::pair<int, std::string>, std::set<uint32_t>> ordinals;
  std::map<uint32_t, int> owners; // of the buffers that live across programs
  for (int i = 0; i < plan.bindings_size(); ++i) {
    const plan::Binding &binding = plan.bindings(i);
    auto what = [&] {
      return "binding " + std::to_string(i) + " (" + roleName(binding.role()) + " " + quoted(binding.name()) + ")";
    };
    if (Status status = checkBinding(plan, binding, ranges); !status.ok())
      return status.context(what());
    std::string program = perProgram(binding.role()) ? binding.program() : "";
    if (!names.insert({binding.role(), program, binding.name()}).second)
      return Status::error(what() + ": the name is bound twice");
    auto &taken = ordinals[{binding.role(), program}];
    if (perProgram(binding.role())) {
      if (!taken.insert(binding.ordinal()).second)
        return Status::error(what() + ": ordinal " + std::to_string(binding.ordinal()) + " is taken twice");
      if (!taken.empty() && binding.role() != plan::INPUT && binding.role() != plan::OUTPUT && taken.size() > 1)
        return Status::error(what() + ": program " + quoted(program) + " has two of these");
    } else if (auto [it, fresh] = owners.emplace(ranges[binding.buffer()].root, i); !fresh) {
      return Status::error(what() + ": " + bufferText(plan, binding.buffer()) + " already belongs to binding " +
                           std::to_string(it->second));
    }
  }
  for (const auto &[key, taken] : ordinals) // of a pipeline's stages only all together: checkPlans
    if (plan.stages() < 2 && !taken.empty() && (key.first == plan::INPUT || key.first == plan::OUTPUT) &&
        *taken.rbegin() + 1 != taken.size())
      return Status::error("the ordinals of the " + roleName(static_cast<plan::Role>(key.first)) + "s of program " +
                           quoted(key.second) + " are not 0 to " + std::to_string(taken.size() - 1));
  return Status();
}

} // namespace tessera::rt
