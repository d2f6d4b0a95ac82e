#include "runtime/tensor/BoundTensors.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tessera::rt {
namespace {

bool hasProgram(plan::Role role) { return role != plan::PARAMETER && role != plan::STATE; }

} // namespace

std::vector<int> bindingsOf(const plan::Plan &plan, plan::Role role, const std::string &program) {
  std::vector<int> found;
  for (int i = 0; i < plan.bindings_size(); ++i)
    if (plan.bindings(i).role() == role && (!hasProgram(role) || plan.bindings(i).program() == program))
      found.push_back(i);
  if (hasProgram(role))
    std::ranges::stable_sort(found, {}, [&](int i) { return plan.bindings(i).ordinal(); });
  return found;
}

BoundTensors::BoundTensors(std::span<const plan::Plan> plans) : plans_(plans), stages_(stagesOf(plans[0])) {
  joint_.set_version(plans[0].version());
  joint_.set_producer(plans[0].producer());
  joint_.set_plan_id(plans[0].plan_id());
  joint_.set_model(plans[0].model());
  *joint_.mutable_mesh() = plans[0].mesh();
  if (hasOwnMeshes(plans[0])) { // no one mesh: all ranks in a row
    joint_.clear_mesh();
    plan::MeshAxis *axis = joint_.add_mesh();
    axis->set_name("rank");
    axis->set_size(stages_.ranks());
  }
  joint_.set_weights_file(plans[0].weights_file());
  joint_.set_global_batch(plans[0].global_batch());
  joint_.set_leaves(plans[0].leaves());
  std::map<std::tuple<int, std::string, std::string>, int> numbers; // by role, program, name
  for (uint32_t stage = 0; stage < stages_.count(); ++stage) {
    const size_t rank = stages_.firstOf(stage);
    std::vector<int> &on = onStage_.emplace_back(size_t(joint_.bindings_size()), -1);
    for (int b = 0; b < plans[rank].bindings_size(); ++b) {
      const plan::Binding &binding = plans[rank].bindings(b);
      auto [it, fresh] =
          numbers.try_emplace({binding.role(), binding.program(), binding.name()}, joint_.bindings_size());
      if (fresh) {
        const plan::Buffer &held = plans[rank].buffers(int(binding.buffer()));
        plan::Binding *mine = joint_.add_bindings();
        *mine = binding;
        mine->set_buffer(uint32_t(joint_.buffers_size()));
        plan::Buffer *buffer = joint_.add_buffers();
        buffer->set_name(held.name());
        buffer->set_dtype(held.dtype());
        *buffer->mutable_shape() = held.shape();
        on.push_back(-1);
      }
      on[size_t(it->second)] = b;
    }
  }
  for (std::vector<int> &on : onStage_)
    on.resize(size_t(joint_.bindings_size()), -1);
}

} // namespace tessera::rt
