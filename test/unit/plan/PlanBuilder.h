//===- PlanBuilder.h - small plans by hand, for tests -------------------------------------------===//
//
//   PlanBuilder b(/*rank=*/1, /*ranks=*/2);
//   uint32_t x = b.buffer("x", {4, 3}), y = b.buffer("y", {4, 3});
//   b.bind(plan::INPUT, "x", x, {8, 3}, {4, 0});
//   b.kernel("/relu", "relu", {x}, {y});
//   b.plan                                            // the message
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_UNIT_PLAN_PLANBUILDER_H
#define TESSERA_TEST_UNIT_PLAN_PLANBUILDER_H

#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/plan.pb.h"

#include <cstring>
#include <string>
#include <vector>

namespace tessera::rt {

struct PlanBuilder {
  plan::Plan plan;

  PlanBuilder(uint32_t rank, uint32_t ranks, const std::string &program = "train") {
    plan.set_version(1);
    plan.set_producer("test");
    plan.set_plan_id("0");
    plan.set_rank(rank);
    if (ranks > 1) {
      plan::MeshAxis *axis = plan.add_mesh();
      axis->set_name("data");
      axis->set_size(ranks);
    }
    plan::Group *group = plan.add_groups();
    group->set_name("data");
    for (uint32_t r = 0; r < ranks; ++r)
      group->add_ranks(r);
    plan.add_programs()->set_name(program);
  }

  uint32_t buffer(const std::string &name, const std::vector<int64_t> &shape, plan::DType type = plan::F32,
                  bool persistent = false) {
    plan::Buffer *b = plan.add_buffers();
    b->set_name(name);
    b->set_dtype(type);
    for (int64_t size : shape)
      b->add_shape(size);
    b->set_offset(plan.arena_bytes());
    b->set_persistent(persistent);
    plan.set_arena_bytes(plan.arena_bytes() + (bytesOf(shape, type).value_or(0) + 63) / 64 * 64);
    return uint32_t(plan.buffers_size() - 1);
  }

  /// Adds a buffer at the place of another one, but not as its alias.
  uint32_t over(const std::string &name, const std::vector<int64_t> &shape, uint32_t other) {
    uint32_t b = buffer(name, shape);
    plan.mutable_buffers(int(b))->set_offset(plan.buffers(int(other)).offset());
    return b;
  }

  uint32_t alias(const std::string &name, const std::vector<int64_t> &shape, uint32_t of) {
    uint32_t b = over(name, shape, of);
    plan.mutable_buffers(int(b))->set_alias_of_plus_one(of + 1);
    return b;
  }

  uint32_t constant(const std::string &name, float value) {
    uint32_t b = buffer(name, {}, plan::F32, true);
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &value, 4);
    plan.mutable_buffers(int(b))->set_constant(bytes);
    return b;
  }

  plan::Binding *bind(plan::Role role, const std::string &name, uint32_t buffer, const std::vector<int64_t> &global,
                      const std::vector<int64_t> &offset, bool primary = true, uint32_t ordinal = 0) {
    plan::Binding *binding = plan.add_bindings();
    binding->set_role(role);
    binding->set_name(name);
    binding->set_buffer(buffer);
    binding->set_ordinal(ordinal);
    binding->set_primary(primary);
    for (int64_t size : global)
      binding->add_global_shape(size);
    for (int64_t start : offset)
      binding->add_offset(start);
    if (role == plan::PARAMETER)
      plan.set_weights_file("weights.safetensors");
    else if (role != plan::STATE)
      binding->set_program(plan.programs(plan.programs_size() - 1).name());
    return binding;
  }

  plan::Step *step(const std::string &name) {
    plan::Step *step = plan.mutable_programs(plan.programs_size() - 1)->add_steps();
    step->set_name(name);
    return step;
  }

  plan::Kernel *kernel(const std::string &name, const std::string &kernel, const std::vector<uint32_t> &inputs,
                       const std::vector<uint32_t> &outputs) {
    plan::Kernel *k = step(name)->mutable_kernel();
    k->set_name(kernel);
    for (uint32_t in : inputs)
      k->add_inputs(in);
    for (uint32_t out : outputs)
      k->add_outputs(out);
    return k;
  }

  static void set(plan::Kernel *kernel, const std::string &name, int64_t value) {
    plan::Attribute *attribute = kernel->add_attributes();
    attribute->set_name(name);
    attribute->set_i(value);
  }
  static void set(plan::Kernel *kernel, const std::string &name, const std::vector<int64_t> &values) {
    plan::Attribute *attribute = kernel->add_attributes();
    attribute->set_name(name);
    for (int64_t value : values)
      attribute->mutable_ints()->add_values(value);
    attribute->mutable_ints();
  }

  plan::Collective *collective(const std::string &name, plan::CollectiveKind kind, uint32_t in, uint32_t out,
                               plan::Reduction reduction = plan::NONE) {
    plan::Collective *c = step(name)->mutable_collective();
    c->set_kind(kind);
    c->set_input(in);
    c->set_output(out);
    c->set_reduction(reduction);
    return c;
  }
};

/// A message of an exchange.
inline plan::PeerBox peerBox(uint32_t peer, const std::vector<int64_t> &offset, const std::vector<int64_t> &shape) {
  plan::PeerBox box;
  box.set_peer(peer);
  box.mutable_offset()->Assign(offset.begin(), offset.end());
  box.mutable_shape()->Assign(shape.begin(), shape.end());
  return box;
}

} // namespace tessera::rt

#endif
