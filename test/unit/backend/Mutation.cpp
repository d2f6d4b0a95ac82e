// A plan with one number changed at random is refused, or it runs: it never crashes a backend.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

/// A number somewhere in a message.
struct Place {
  Message *message;
  const FieldDescriptor *field;
  int index; // -1: not repeated
};

void collect(Message &message, std::vector<Place> &places) {
  const auto *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    bool isMessage = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    bool isNumber = !isMessage && field->cpp_type() != FieldDescriptor::CPPTYPE_STRING;
    int n = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < n; ++i)
      if (isMessage)
        collect(field->is_repeated() ? *reflection->MutableRepeatedMessage(&message, field, i)
                                     : *reflection->MutableMessage(&message, field),
                places);
      else if (isNumber)
        places.push_back({&message, field, field->is_repeated() ? i : -1});
  }
}

void set(const Place &p, int64_t value) {
  const auto *r = p.message->GetReflection();
  auto assign = [&](auto single, auto repeated, auto v) {
    if (p.index < 0)
      (r->*single)(p.message, p.field, v);
    else
      (r->*repeated)(p.message, p.field, p.index, v);
  };
  using R = google::protobuf::Reflection;
  switch (p.field->cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT64:
    return assign(&R::SetInt64, &R::SetRepeatedInt64, value);
  case FieldDescriptor::CPPTYPE_UINT64:
    return assign(&R::SetUInt64, &R::SetRepeatedUInt64, uint64_t(value));
  case FieldDescriptor::CPPTYPE_UINT32:
    return assign(&R::SetUInt32, &R::SetRepeatedUInt32, uint32_t(value));
  case FieldDescriptor::CPPTYPE_ENUM:
    return assign(&R::SetEnumValue, &R::SetRepeatedEnumValue, int(value));
  case FieldDescriptor::CPPTYPE_DOUBLE:
    return assign(&R::SetDouble, &R::SetRepeatedDouble, double(value));
  case FieldDescriptor::CPPTYPE_BOOL:
    return assign(&R::SetBool, &R::SetRepeatedBool, value != 0);
  default:
    return;
  }
}

/// A plan with most kernels, each on tensors of its own.
plan::Plan manyKernels() {
  PlanBuilder p;
  auto f = [&](const Shape &s) { return p.buffer(plan::F32, s); };
  Attributes conv = {
      {"strides", Shape{2, 1}}, {"pads", Shape{1, 1, 1, 1}}, {"dilations", Shape{1, 2}}, {"groups", int64_t(2)}};
  Attributes in = conv, weight = conv;
  in["input_sizes"] = Shape{5, 6};
  weight["kernel_sizes"] = Shape{3, 2};
  uint32_t x = f({2, 4, 5, 6}), w = f({6, 2, 3, 2}), y = f({2, 6, 3, 6});
  p.kernel("conv", {x, w}, {y}, conv);
  p.kernel("conv_input_grad", {y, w}, {f({2, 4, 5, 6})}, in);
  p.kernel("conv_weight_grad", {x, y}, {f({6, 2, 3, 2})}, weight);
  Attributes pool = {
      {"kernel", Shape{2, 2}}, {"strides", Shape{2, 1}}, {"pads", Shape{0, 1, 1, 0}}, {"dilations", Shape{1, 1}}};
  uint32_t pooled = f({2, 4, 3, 6});
  p.kernel("max_pool", {x}, {pooled}, pool);
  p.kernel("max_pool_grad", {x, pooled}, {f({2, 4, 5, 6})}, pool);
  pool.erase("dilations");
  pool["include_pad"] = int64_t(1);
  p.kernel("avg_pool", {x}, {pooled}, pool);
  p.kernel("matmul", {f({3, 4, 5}), f({6, 5})}, {f({3, 4, 6})}, {{"transpose_b", int64_t(1)}});
  p.kernel("softmax", {f({3, 4})}, {f({3, 4})}, {{"dim", int64_t(1)}});
  uint32_t q = f({2, 4, 3, 4}), k = f({2, 2, 5, 4}), v = f({2, 2, 5, 6}), mixed = f({2, 4, 3, 6});
  Attributes scores = {{"scale", 0.5}, {"causal", int64_t(1)}, {"outside", -3.0}, {"start", int64_t(1)}};
  p.kernel("attention", {q, k, v, f({2, 1, 1, 5})}, {mixed}, scores);
  scores["rows_first"] = int64_t(0);
  p.kernel("attention_grad", {mixed, q, k, v}, {f({2, 4, 3, 4}), f({2, 2, 5, 4}), f({2, 2, 5, 6})}, scores);
  const uint32_t statistics = f({2, 4, 3});
  p.kernel("attention", {q, k, v}, {mixed, statistics}, scores);
  p.kernel("attention_grad", {mixed, q, k, v, mixed, statistics, f({2, 1, 1, 5})},
           {f({2, 4, 3, 4}), f({2, 2, 5, 4}), f({2, 2, 5, 6})}, scores);
  scores["keep_scale"] = 1.25;
  const uint32_t keep = p.buffer(plan::BOOL, {2, 4, 3, 5});
  p.kernel("attention", {q, k, v, f({2, 1, 1, 5}), keep}, {mixed, statistics}, scores);
  p.kernel("attention_grad", {mixed, q, k, v, mixed, statistics, keep},
           {f({2, 4, 3, 4}), f({2, 2, 5, 4}), f({2, 2, 5, 6})}, scores);
  p.kernel("transpose", {f({2, 3, 4})}, {f({4, 2, 3})}, {{"perm", Shape{2, 0, 1}}});
  p.kernel("slice", {f({5, 6})}, {f({2, 3})},
           {{"starts", Shape{1, 0}}, {"limits", Shape{4, 6}}, {"strides", Shape{2, 2}}});
  p.kernel("pad", {f({2, 3})}, {f({5, 4})},
           {{"lo", Shape{1, 0}}, {"hi", Shape{1, 1}}, {"inner", Shape{1, 0}}, {"value", 0.5}});
  p.kernel("concat", {f({2, 3}), f({2, 4})}, {f({2, 7})}, {{"dim", int64_t(1)}});
  uint32_t indices = p.buffer(plan::I64, {4}), picked = f({2, 4});
  p.kernel("gather", {f({2, 9}), indices}, {picked}, {{"axis", int64_t(1)}, {"start", int64_t(0)}});
  p.kernel("scatter_add", {indices, picked}, {f({2, 9})},
           {{"axis", int64_t(1)}, {"size", int64_t(9)}, {"start", int64_t(0)}});
  p.kernel("reduce_sum", {f({3, 4, 5})}, {f({3, 5})}, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}});
  p.kernel("argmax", {f({3, 4})}, {p.buffer(plan::I64, {3})}, {{"dim", int64_t(1)}, {"keepdims", int64_t(0)}});
  p.kernel("orthonormalize", {f({2, 4, 3})}, {f({2, 4, 3})});
  p.kernel("topk", {f({3, 4})}, {p.buffer(plan::I64, {3, 2})},
           {{"dim", int64_t(1)}, {"k", int64_t(2)}, {"smallest", int64_t(0)}});
  p.kernel("random", {p.buffer(plan::I64, {})}, {f({3, 4})},
           {{"seed", int64_t(5)}, {"stream", int64_t(1)}, {"global_shape", Shape{6, 4}}, {"offset", Shape{3, 0}}});
  p.kernel("iota", {}, {p.buffer(plan::I32, {3, 4})}, {{"dim", int64_t(1)}, {"start", int64_t(2)}});
  p.kernel("cast", {f({3, 4})}, {p.buffer(plan::I8, {3, 4})});
  plan::Kernel &fused = p.kernel("fused", {f({3, 16, 4}), f({16})}, {f({3, 16, 4}), f({16})});
  plan::Expression &e = *fused.mutable_expression();
  auto fill = [](auto *to, const Shape &shape) {
    for (int64_t d : shape)
      to->Add(d);
  };
  fill(e.mutable_domain(), {3, 16, 4});
  fill(e.add_input_views()->mutable_shape(), {3, 16, 4});
  fill(e.add_input_views()->mutable_shape(), {1, 16, 1});
  for (const char *op : {"mul", "add"}) {
    plan::Instruction *i = e.add_code();
    i->set_op(op);
    i->add_operands(op[0] == 'm' ? 0 : 2);
    i->add_operands(1);
    i->set_type(plan::F32);
  }
  for (int r = 0; r < 2; ++r) {
    plan::Result *result = e.add_results();
    result->set_value(3);
    result->set_reduction(r ? plan::SUM : plan::NONE);
    fill(result->mutable_shape(), r ? Shape{1, 16, 1} : Shape{3, 16, 4});
  }
  return p.plan();
}

} // namespace

TEST_CASE("a plan with one changed number is refused or runs") {
  const plan::Plan good = manyKernels();
  std::mt19937_64 random(7);
  const std::vector<int64_t> values = {-1,
                                       0,
                                       1,
                                       2,
                                       3,
                                       5,
                                       7,
                                       9,
                                       64,
                                       1 << 20,
                                       int64_t(1) << 31,
                                       int64_t(1) << 40,
                                       std::numeric_limits<int64_t>::max(),
                                       std::numeric_limits<int64_t>::min()};
  int refused = 0, ran = 0;
  for (int i = 0; i < 1500; ++i) {
    plan::Plan plan = good;
    std::vector<Place> places;
    collect(plan, places);
    set(places[random() % places.size()], values[random() % values.size()]);
    for (const char *name : {"null", "reference", "cpu"}) {
      if (plan.arena_bytes() > (1 << 24))
        break; // would only be slow
      auto backend = createBackend(name);
      auto loaded = (*backend)->load(plan, LoadOptions());
      if (!loaded.ok()) {
        CHECK(!loaded.status().message().empty());
        ++refused;
        break; // what null refuses no other needs to see
      }
      for (int s = 0; s < plan.programs(0).steps_size(); ++s)
        CHECK((*loaded)->launch(0, uint32_t(s)).ok());
      ++ran;
    }
  }
  CHECK(refused > 500);
  CHECK(ran > 100);
}
