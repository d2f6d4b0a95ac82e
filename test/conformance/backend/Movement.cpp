// Copies and indexing, all exact, on types of every size.
#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

TEST_CASE("transpositions large enough for squares and threads", "[conformance]") {
  Random random(42);
  for (const Shape &x : {Shape{300, 170}, Shape{3, 65, 250}, Shape{2, 40, 9, 70}})
    for (plan::DType type : {plan::F32, plan::F64, plan::I8}) {
      Case c;
      Shape perm, y;
      for (size_t d = 0; d < x.size(); ++d)
        perm.push_back(int64_t(x.size() - 1 - d));
      if (x.size() == 3)
        perm = {0, 2, 1};
      for (int64_t d : perm)
        y.push_back(x[size_t(d)]);
      c.what = "transpose " + str(x) + " to " + str(y);
      c.plan.kernel("transpose", {c.input(random, type, x)}, {c.output(type, y)}, {{"perm", perm}});
      check(c);
    }
}

/// A section that is called once per part: y[part] = the part's rows of x, for every type.
TEST_CASE("rows of the micro-batch of every call", "[conformance]") {
  Random random(43);
  const std::vector<plan::DType> types = {plan::F32, plan::F64, plan::F16, plan::BF16, plan::I64,
                                          plan::I32, plan::I8,  plan::U8,  plan::BOOL};
  for (plan::DType type : types)
    for (int64_t parts : {1, 2, 3, 8}) {
      const Shape row = random.pick<Shape>({{}, {1}, {5}, {3, 4}, {2, 3, 4, 7}});
      const int64_t rows = random.pick<int64_t>({1, 2, 17});
      Case c;
      Shape x = {rows * parts}, part = {rows}, flat = {1};
      x.insert(x.end(), row.begin(), row.end());
      part.insert(part.end(), row.begin(), row.end());
      flat.insert(flat.end(), part.begin(), part.end());
      const uint32_t in = c.plan.buffer(type, x);
      c.inputs[in] = random.integers(elementCount(x), 0, type == plan::BOOL ? 1 : 9);
      // Every call puts its rows behind those of the calls before: all = [all[1:], rows].
      const uint32_t taken = c.plan.buffer(type, part), view = c.plan.alias(taken, flat);
      Shape every = flat, longer = flat, starts(flat.size(), 0);
      every[0] = parts;
      longer[0] = parts + 1;
      starts[0] = 1;
      const uint32_t all = c.plan.buffer(type, every), joined = c.plan.buffer(type, longer);
      c.inputs[all] = Values(size_t(elementCount(every)), 0);
      c.plan.kernel("micro_rows", {in}, {taken}, {{"parts", parts}});
      c.plan.kernel("concat", {all, view}, {joined}, {{"dim", int64_t(0)}});
      c.plan.kernel("slice", {joined}, {all},
                    {{"starts", starts}, {"limits", longer}, {"strides", Shape(longer.size(), 1)}});
      plan::Program &program = *c.plan.plan().mutable_programs(0);
      program.add_section_ends(3);
      for (int64_t i = parts; i-- > 0;) // from the last to the first
        program.add_calls()->set_index(uint32_t(i));
      c.plan.plan().set_version(2);
      c.wanted = {all};
      c.what = "micro_rows of " + dtypeName(type) + str(x) + " in " + std::to_string(parts) + " parts";
      check(c);
    }
}

TEST_CASE("data movement of random shapes", "[conformance]") {
  Random random(41);
  for (int i = 0; i < 150; ++i) {
    plan::DType type = random.pick<plan::DType>({plan::F32, plan::F64, plan::BF16, plan::I8, plan::I64});
    Shape x;
    for (int64_t d = random.integer(1, 4); d > 0; --d)
      x.push_back(random.integer(1, 8));
    size_t rank = x.size();
    Case c;
    uint32_t in = c.input(random, type, x);
    Shape y;
    switch (random.integer(0, 5)) {
    case 0: {
      Shape perm;
      for (size_t d = 0; d < rank; ++d)
        perm.insert(perm.begin() + random.integer(0, int64_t(d)), int64_t(d));
      for (int64_t d : perm)
        y.push_back(x[size_t(d)]);
      c.plan.kernel("transpose", {in}, {c.output(type, y)}, {{"perm", perm}});
      break;
    }
    case 1: {
      Shape starts, limits, strides;
      for (int64_t n : x) {
        starts.push_back(random.integer(0, n - 1));
        limits.push_back(random.integer(starts.back() + 1, n));
        strides.push_back(random.integer(1, 3));
        y.push_back((limits.back() - starts.back() - 1) / strides.back() + 1);
      }
      c.plan.kernel("slice", {in}, {c.output(type, y)}, {{"starts", starts}, {"limits", limits}, {"strides", strides}});
      break;
    }
    case 2: {
      Shape lo, hi, inner;
      for (int64_t n : x) {
        lo.push_back(random.integer(0, 2));
        hi.push_back(random.integer(0, 2));
        inner.push_back(random.integer(0, 2));
        y.push_back(lo.back() + n + (n - 1) * inner.back() + hi.back());
      }
      c.plan.kernel("pad", {in}, {c.output(type, y)}, {{"lo", lo}, {"hi", hi}, {"inner", inner}, {"value", -2.0}});
      break;
    }
    case 3: {
      int64_t dim = random.integer(0, int64_t(rank) - 1);
      Shape other = x;
      other[size_t(dim)] = random.integer(1, 5);
      y = x;
      y[size_t(dim)] += other[size_t(dim)];
      uint32_t second = c.input(random, type, other);
      c.plan.kernel("concat", {in, second}, {c.output(type, y)}, {{"dim", dim}});
      break;
    }
    case 4: {
      int64_t axis = random.integer(0, int64_t(rank) - 1);
      uint32_t indices = c.plan.buffer(plan::I64, {3, 2});
      c.inputs[indices] = random.integers(6, 3, 12);
      y.assign(x.begin(), x.begin() + axis);
      y.insert(y.end(), {3, 2});
      y.insert(y.end(), x.begin() + axis + 1, x.end());
      c.plan.kernel("gather", {in, indices}, {c.output(type, y)}, {{"axis", axis}, {"start", int64_t(4)}});
      if (type == plan::BF16)
        break;
      // Here the dimensions before the axis are batches.
      Shape each(x.begin(), x.begin() + axis), batched = each;
      each.push_back(3);
      batched.push_back(3);
      batched.insert(batched.end(), x.begin() + axis + 1, x.end());
      uint32_t own = c.plan.buffer(plan::I64, each);
      c.inputs[own] = random.integers(elementCount(each), 3, 12);
      c.plan.kernel("gather", {in, own}, {c.output(type, batched)},
                    {{"axis", axis}, {"batch_dims", axis}, {"start", int64_t(4)}});
      uint32_t updates = c.input(random, type, y);
      c.plan.kernel("scatter_add", {indices, updates}, {c.output(type, x)},
                    {{"axis", axis}, {"size", x[size_t(axis)]}, {"start", int64_t(4)}});
      break;
    }
    case 5: {
      y = x;
      y.insert(y.begin(), 3);
      c.plan.kernel("broadcast", {in}, {c.output(type, y)});
      break;
    }
    }
    c.what = c.plan.plan().programs(0).steps(0).kernel().name() + " " + str(x) + " to " + str(y);
    check(c);
  }
}
