// The plan reader, the checker, and the loader of the reference backend. A plan that passes is also run
// if it is small: what the checker accepts must be safe to execute.
#include "runtime/backend/Backend.h"
#include "runtime/comm/threads/ThreadWorld.h"
#include "runtime/executor/Executor.h"
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/TimeOrder.h"
#include "test/fuzz/Fuzz.h"
#include "test/unit/plan/LoopPlan.h"
#include "test/unit/plan/StagePlan.h"
#include "test/unit/plan/TrainingPlan.h"

#include <google/protobuf/reflection.h>
#include <google/protobuf/stubs/logging.h>

using namespace tessera;
namespace pb = google::protobuf;

namespace {

/// Whether executing the plan takes a blink at most: every product of operand sizes is small.
bool small(const plan::Plan &p) {
  if (p.arena_bytes() > (1 << 20))
    return false;
  for (const plan::Program &program : p.programs()) {
    if (rt::TimeOrder(program).size() > 10000)
      return false;
    for (const plan::Step &step : program.steps()) {
      double work = 1;
      for (int i = 0; i < step.kernel().inputs_size(); ++i)
        work *= double(*rt::elementsOf(rt::toVector(p.buffers(int(step.kernel().inputs(i))).shape())));
      for (uint32_t out : step.kernel().outputs())
        work *= double(*rt::elementsOf(rt::toVector(p.buffers(int(out)).shape())));
      for (int64_t size : step.kernel().expression().domain())
        work *= double(size);
      for (const plan::Attribute &attribute : step.kernel().attributes())
        for (int64_t value : attribute.ints().values())
          work *= value > 64 || value < -64 ? 1e12 : 1;
      if (work > 1e7)
        return false;
    }
  }
  return true;
}

/// A random message below `message`, itself included.
pb::Message *pickMessage(pb::Message *message, fuzz::Random &random) {
  while (random() % 8) {
    const pb::Reflection *reflection = message->GetReflection();
    std::vector<const pb::FieldDescriptor *> set, messages;
    reflection->ListFields(*message, &set);
    for (const pb::FieldDescriptor *field : set)
      if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE)
        messages.push_back(field);
    if (messages.empty())
      return message;
    const pb::FieldDescriptor *field = messages[random() % messages.size()];
    message = field->is_repeated()
                  ? reflection->MutableRepeatedMessage(message, field,
                                                       int(random() % uint64_t(reflection->FieldSize(*message, field))))
                  : reflection->MutableMessage(message, field);
  }
  return message;
}

/// Changes one field of a message by reflection: other than random bytes, the result parses.
void mutateField(pb::Message *message, fuzz::Random &random) {
  const pb::Descriptor *type = message->GetDescriptor();
  const pb::Reflection *r = message->GetReflection();
  if (type->field_count() == 0)
    return;
  const pb::FieldDescriptor *f = type->field(int(random() % uint64_t(type->field_count())));
  if (f->is_repeated()) {
    int size = r->FieldSize(*message, f);
    int at = size ? int(random() % uint64_t(size)) : 0;
    uint64_t what = random() % 3;
    if (what == 0 && size > 0) {
      r->RemoveLast(message, f);
    } else if (what == 1 && size > 1) {
      r->SwapElements(message, f, at, size - 1);
    } else if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      pb::Message *added = r->AddMessage(message, f);
      if (size > 0)
        added->CopyFrom(r->GetRepeatedMessage(*message, f, at));
    } else if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_INT64) {
      int64_t value = fuzz::interesting(size ? r->GetRepeatedInt64(*message, f, at) : 0, random);
      if (size > 0)
        r->SetRepeatedInt64(message, f, at, value);
      else
        r->AddInt64(message, f, value);
    } else if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_UINT32) {
      auto value = uint32_t(fuzz::interesting(size ? r->GetRepeatedUInt32(*message, f, at) : 0, random));
      if (size > 0)
        r->SetRepeatedUInt32(message, f, at, value);
      else
        r->AddUInt32(message, f, value);
    }
    return;
  }
  switch (f->cpp_type()) {
  case pb::FieldDescriptor::CPPTYPE_INT64:
    return r->SetInt64(message, f, fuzz::interesting(r->GetInt64(*message, f), random));
  case pb::FieldDescriptor::CPPTYPE_UINT64:
    return r->SetUInt64(
        message, f, uint64_t(fuzz::interesting(int64_t(r->GetUInt64(*message, f)), random)) * (random() % 2 ? 64 : 1));
  case pb::FieldDescriptor::CPPTYPE_UINT32:
    return r->SetUInt32(message, f, uint32_t(fuzz::interesting(r->GetUInt32(*message, f), random)));
  case pb::FieldDescriptor::CPPTYPE_ENUM:
    return r->SetEnumValue(message, f, int(random() % 11));
  case pb::FieldDescriptor::CPPTYPE_BOOL:
    return r->SetBool(message, f, random() % 2);
  case pb::FieldDescriptor::CPPTYPE_DOUBLE:
    return r->SetDouble(message, f, double(fuzz::interesting(0, random)));
  case pb::FieldDescriptor::CPPTYPE_STRING: {
    static const char *const names[] = {"",           "train",   "fused",     "matmul",      "conv",      "gather",
                                        "relu",       "softmax", "pad",       "slice",       "concat",    "reshape",
                                        "dim",        "perm",    "random",    "iota",        "select",    "argmax",
                                        "max_pool",   "starts",  "kernel",    "scatter_add", "transpose", "broadcast",
                                        "reduce_sum", "parts",   "micro_rows"};
    return r->SetString(message, f, names[random() % std::size(names)]);
  }
  default:
    if (random() % 4)
      r->MutableMessage(message, f);
    else
      r->ClearField(message, f);
  }
}

/// One plan with every kind of collective over a group of one.
plan::Plan collectives() {
  rt::PlanBuilder b(0, 1);
  uint32_t in = b.buffer("in", {4, 6});
  b.bind(plan::INPUT, "in", in, {4, 6}, {0, 0});
  auto add = [&](plan::CollectiveKind kind, std::vector<int64_t> shape) {
    uint32_t out = b.buffer("out", shape);
    return b.collective("c", kind, in, out);
  };
  add(plan::ALL_REDUCE, {4, 6})->set_reduction(plan::SUM);
  add(plan::ALL_GATHER, {4, 6})->set_dim(1);
  add(plan::REDUCE_SCATTER, {4, 6})->set_reduction(plan::MAX);
  add(plan::ALL_TO_ALL, {4, 6})->set_split_dim(1);
  add(plan::PERMUTE, {4, 6})->add_sources(0);
  add(plan::BROADCAST, {4, 6});
  plan::Collective *halo = add(plan::HALO, {4, 9});
  halo->set_dim(1);
  halo->set_halo_lo(1);
  halo->set_halo_hi(2);
  plan::Collective *exchange = add(plan::EXCHANGE, {4, 4});
  for (int64_t row : {0, 1}) { // the last rows, swapped, and the first columns
    *exchange->add_sends() = rt::peerBox(0, {3 - row, 0}, {1, 4});
    *exchange->add_receives() = rt::peerBox(0, {row, 0}, {1, 4});
  }
  *exchange->add_sends() = rt::peerBox(0, {0, 2}, {2, 4});
  *exchange->add_receives() = rt::peerBox(0, {2, 0}, {2, 4});
  b.plan.set_version(rt::neededVersion(b.plan));
  return b.plan;
}

} // namespace

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  return {rt::serialize(rt::trainingPlan(0, 1)),
          rt::serialize(rt::trainingPlan(1, 2)),
          rt::serialize(collectives()),
          rt::serialize(rt::LoopPlan::make(0, 1, 3, true)),
          rt::serialize(rt::LoopPlan::make(1, 2, 2, true)),
          rt::serialize(rt::StagePlan().plans()[0]),
          rt::serialize(rt::StagePlan{2, 4, true, 1}.plans()[0])};
}

void mutate(std::string &input, Random &random) {
  plan::Plan plan;
  google::protobuf::LogSilencer silence;
  if (random() % 8 == 0 || !plan.ParseFromString(input))
    return mutateBytes(input, random);
  mutateField(pickMessage(&plan, random), random);
  input = rt::serialize(plan);
}

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  rt::Result<plan::Plan> plan = rt::parsePlan(std::string_view(reinterpret_cast<const char *>(data), size), "input");
  if (!plan || !rt::checkPlan(*plan))
    return 0;
  if (static const plan::Plan second = rt::StagePlan().plans()[1]; plan->stages() == 2) {
    (void)rt::checkPlans({*plan, second}).ok(); // a stage is not run alone
    return 0;
  }
  if (!rt::checkPlans({*plan}) || !small(*plan))
    return 0;
  rt::Result<std::unique_ptr<rt::Backend>> backend = rt::createBackend("reference");
  std::vector<std::unique_ptr<rt::World>> world = rt::createThreadWorlds(1);
  rt::Result<std::unique_ptr<rt::Executor>> executor = rt::Executor::create(*plan, **backend, *world[0], {});
  if (!executor)
    return 0;
  for (int p = 0; p < plan->programs_size(); ++p)
    (void)(*executor)->run(p).ok();
  return 0;
}
