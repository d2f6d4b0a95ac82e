// Collectives under every layout equal what plan.proto says of logical tensors: the oracle below works
// on indices of row-major tensors alone.
#include "runtime/executor/Collectives.h"
#include "runtime/launch/Launcher.h"
#include "test/unit/plan/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <mutex>
#include <numeric>

using namespace tessera::rt;
namespace plan = tessera::plan;
using RtStatus = tessera::rt::Status;

namespace {

using Values = std::vector<float>;

int64_t size(const std::vector<int64_t> &shape) { return *elementsOf(shape); }

/// Calls f(index) for all indices of a shape.
template <typename F> void forEach(const std::vector<int64_t> &shape, F f) {
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < size(shape); ++i) {
    f(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

size_t at(const std::vector<int64_t> &shape, const std::vector<int64_t> &index) {
  int64_t place = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    place = place * shape[d] + index[d];
  return size_t(place);
}

/// Where an element lies under a layout, from the definition in Backend.h.
size_t placeOf(const std::vector<int64_t> &shape, const Layout &layout, std::vector<int64_t> index) {
  std::vector<int64_t> sizes = physicalSizes(shape, layout);
  std::vector<int64_t> inner;
  for (size_t i = layout.inner.size(); i-- > 0;) {
    auto [d, block] = layout.inner[i];
    inner.insert(inner.begin(), index[size_t(d)] % block);
    index[size_t(d)] /= block;
  }
  index.insert(index.end(), inner.begin(), inner.end());
  return at(sizes, index);
}

/// A loaded plan that has memory and layouts and no kernels.
struct Memory : LoadedPlan {
  const plan::Plan &p;
  std::vector<Layout> layouts;
  std::vector<Values> data;
  Memory(const plan::Plan &p, std::vector<Layout> layouts) : p(p), layouts(std::move(layouts)) {
    for (const plan::Buffer &b : p.buffers())
      data.emplace_back(size_t(size(toVector(b.shape()))), -1.0f);
  }
  size_t arenaBytes() const override { return 0; }
  size_t scratchBytes() const override { return 0; }
  void *address(uint32_t b) override { return data[b].data(); }
  float *floats(uint32_t b) { return static_cast<float *>(address(b)); }
  Layout layout(uint32_t b) const override { return layouts[b]; }
  plan::DType dtype(uint32_t) const override { return plan::F32; }
  RtStatus upload(uint32_t b, const void *host) override {
    std::vector<int64_t> shape = toVector(p.buffers(int(b)).shape());
    forEach(shape, [&](const std::vector<int64_t> &i) {
      floats(b)[placeOf(shape, layouts[b], i)] = static_cast<const float *>(host)[at(shape, i)];
    });
    return {};
  }
  RtStatus download(uint32_t b, void *host) override {
    std::vector<int64_t> shape = toVector(p.buffers(int(b)).shape());
    forEach(shape, [&](const std::vector<int64_t> &i) {
      static_cast<float *>(host)[at(shape, i)] = floats(b)[placeOf(shape, layouts[b], i)];
    });
    return {};
  }
  RtStatus launch(uint32_t, uint32_t, uint32_t) override { return {}; }
  RtStatus synchronize() override { return {}; }
  std::string describe(uint32_t, uint32_t) const override { return ""; }
};

float input(size_t rank, size_t element) { return float(rank * 1000 + element); }

/// The element of the output of rank `me` at `index`, by plan.proto.
float expected(const plan::Collective &c, const std::vector<int64_t> &in, int n, int me, std::vector<int64_t> index) {
  auto value = [&](int rank, const std::vector<int64_t> &i) { return input(size_t(rank), at(in, i)); };
  auto reduced = [&](const std::vector<int64_t> &i) {
    float result = value(0, i);
    for (int rank = 1; rank < n; ++rank)
      result = c.reduction() == plan::SUM   ? result + value(rank, i)
               : c.reduction() == plan::MAX ? std::max(result, value(rank, i))
                                            : std::min(result, value(rank, i));
    return result;
  };
  size_t d = c.dim(), s = c.split_dim();
  switch (c.kind()) {
  case plan::ALL_REDUCE:
    return reduced(index);
  case plan::ALL_GATHER: {
    int from = int(index[d] / in[d]);
    index[d] %= in[d];
    return value(from, index);
  }
  case plan::REDUCE_SCATTER:
    index[d] += me * in[d] / n;
    return reduced(index);
  case plan::ALL_TO_ALL: {
    int64_t block = d == s ? in[d] / n : in[d]; // what one member sends, along dim
    int from = int(index[d] / block);
    index[d] %= block;
    index[s] += me * in[s] / n;
    return value(from, index);
  }
  case plan::PERMUTE:
    return value(int(c.sources(me)), index);
  case plan::BROADCAST:
    return value(int(c.root()), index);
  case plan::HALO: {
    int64_t global = me * in[d] + index[d] - c.halo_lo();
    if (global < 0 || global >= n * in[d])
      return float(c.fill());
    index[d] = global % in[d];
    return value(int(global / in[d]), index);
  }
  default:
    return 0;
  }
}

std::vector<int64_t> outputShape(const plan::Collective &c, std::vector<int64_t> shape, int n) {
  if (c.kind() == plan::ALL_GATHER)
    shape[c.dim()] *= n;
  if (c.kind() == plan::REDUCE_SCATTER)
    shape[c.dim()] /= n;
  if (c.kind() == plan::ALL_TO_ALL) {
    shape[c.split_dim()] /= n;
    shape[c.dim()] *= n;
  }
  if (c.kind() == plan::HALO)
    shape[c.dim()] += c.halo_lo() + c.halo_hi();
  return shape;
}

Result<std::unique_ptr<Communicator>> groupOfAll(World &world) {
  std::vector<int> everyone(size_t(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  return world.group(everyone);
}

/// Runs a collective on n ranks and compares every element; returns whether it was staged.
bool check(const plan::Collective &c, const std::vector<int64_t> &in, int n, const Layout &inLayout,
           const Layout &outLayout) {
  std::vector<int64_t> out = outputShape(c, in, n);
  std::mutex mutex;
  int wrong = 0;
  bool staged = false;
  RtStatus status = runRanks(n, [&](World &world) -> RtStatus {
    auto rank = uint32_t(world.rank());
    PlanBuilder b(rank, uint32_t(n));
    b.buffer("in", in);
    b.buffer("out", out);
    *b.step("c")->mutable_collective() = c;
    Memory memory(b.plan, {inLayout, outLayout});
    auto group = groupOfAll(world);
    if (!group)
      return group.status();
    CollectiveCall call(b.plan, b.plan.programs(0).steps(0).collective(), memory, **group);
    for (int round = 0; round < 2; ++round) { // prepared once, run again
      Values host(size_t(size(in)));
      for (size_t i = 0; i < host.size(); ++i)
        host[i] = input(rank, i);
      TESSERA_RETURN_IF_ERROR(memory.upload(0, host.data()));
      TESSERA_RETURN_IF_ERROR(call.run());
      Values result(size_t(size(out)));
      TESSERA_RETURN_IF_ERROR(memory.download(1, result.data()));
      std::lock_guard lock(mutex);
      staged |= call.staged();
      forEach(out,
              [&](const std::vector<int64_t> &i) { wrong += result[at(out, i)] != expected(c, in, n, int(rank), i); });
    }
    return {};
  });
  INFO(status.message());
  CHECK(status.ok());
  CHECK(wrong == 0);
  return staged;
}

plan::Collective collective(plan::CollectiveKind kind, uint32_t dim = 0, uint32_t split = 0) {
  plan::Collective c;
  c.set_kind(kind);
  c.set_input(0);
  c.set_output(1);
  c.set_dim(dim);
  c.set_split_dim(split);
  return c;
}

const Layout kPlain;
const Layout kChannels{{{1, 4}}};
const Layout kBoth{{{1, 2}, {0, 2}, {1, 2}}}; // like OIhw...i..o..i

} // namespace

TEST_CASE("physical sizes follow the layout") {
  CHECK(physicalSizes({8, 64, 32, 32}, Layout{{{1, 16}}}) == std::vector<int64_t>{8, 4, 32, 32, 16});
  CHECK(blockOf(kBoth, 1) == 4);
  CHECK(physicalSizes({8, 16, 3}, kBoth) == std::vector<int64_t>{4, 4, 3, 2, 2, 2});
}

TEST_CASE("collectives on every dimension, layout and rank count") {
  for (int n : {1, 2, 4})
    for (const Layout &layout : {kPlain, kChannels, kBoth}) {
      std::vector<int64_t> shape = {8, 32, 4};
      for (plan::Reduction reduction : {plan::SUM, plan::MAX, plan::MIN}) {
        plan::Collective c = collective(plan::ALL_REDUCE);
        c.set_reduction(reduction);
        CHECK_FALSE(check(c, shape, n, layout, layout));
      }
      for (uint32_t d : {0u, 1u, 2u}) {
        CHECK_FALSE(check(collective(plan::ALL_GATHER, d), shape, n, layout, layout));
        plan::Collective scatter = collective(plan::REDUCE_SCATTER, d);
        scatter.set_reduction(plan::SUM);
        CHECK_FALSE(check(scatter, shape, n, layout, layout));
        for (uint32_t s : {0u, 1u, 2u})
          CHECK_FALSE(check(collective(plan::ALL_TO_ALL, d, s), shape, n, layout, layout));
        plan::Collective halo = collective(plan::HALO, d);
        halo.set_fill(-7);
        for (auto [lo, hi] : {std::pair(1, 0), {0, 2}, {1, 1}, {4, 4}}) {
          halo.set_halo_lo(lo);
          halo.set_halo_hi(hi);
          // Layouts whose blocks divide the output too: the checker of a backend sees to that.
          std::vector<int64_t> out = outputShape(halo, shape, n);
          if (out[d] % blockOf(layout, d) == 0)
            check(halo, shape, n, layout, layout);
          check(halo, shape, n, layout, kPlain);
        }
      }
      plan::Collective permute = collective(plan::PERMUTE);
      for (int i = 0; i < n; ++i)
        permute.add_sources(uint32_t((i + n - 1) % n));
      CHECK_FALSE(check(permute, shape, n, layout, layout));
      plan::Collective broadcast = collective(plan::BROADCAST);
      broadcast.set_root(uint32_t(n - 1));
      CHECK_FALSE(check(broadcast, shape, n, layout, layout));
    }
}

TEST_CASE("an exchange moves boxes between ranks, whatever the layouts") {
  // [2, 4, 3] on each rank becomes [4, 2, 3] on each: row r of the whole goes to rank r % n, and the columns of its
  // first and last half are swapped there.
  const int64_t half = 2;
  for (int n : {1, 2, 4})
    for (const Layout &layout : {kPlain, Layout{{{1, 2}}}}) {
      std::mutex mutex;
      int wrong = 0, staged = 0;
      RtStatus status = runRanks(n, [&](World &world) -> RtStatus {
        const int64_t me = world.rank();
        PlanBuilder b{uint32_t(me), uint32_t(n)};
        b.buffer("in", {2, 4, 3});
        b.buffer("out", {4, 2, 3});
        plan::Collective *c = b.collective("c", plan::EXCHANGE, 0, 1);
        for (int64_t row = 0; row < 2; ++row)
          for (int64_t side = 0; side < 2; ++side)
            *c->add_sends() = peerBox(uint32_t((me * 2 + row) % n), {row, side * half, 0}, {1, half, 3});
        int64_t next[2] = {2, 0}; // the left halves come behind the right ones
        for (int64_t row = 0; row < 2 * n; ++row)
          for (int64_t side = 0; side < 2; ++side)
            if (row % n == me)
              *c->add_receives() = peerBox(uint32_t(row / 2), {next[side]++, 0, 0}, {1, half, 3});
        Memory memory(b.plan, {layout, layout});
        auto group = groupOfAll(world);
        if (!group)
          return group.status();
        CollectiveCall call(b.plan, *c, memory, **group);
        for (int round = 0; round < 2; ++round) {
          Values host(24), result(24);
          for (size_t i = 0; i < host.size(); ++i)
            host[i] = input(size_t(me), i);
          TESSERA_RETURN_IF_ERROR(memory.upload(0, host.data()));
          TESSERA_RETURN_IF_ERROR(call.run());
          TESSERA_RETURN_IF_ERROR(memory.download(1, result.data()));
          std::lock_guard lock(mutex);
          staged += call.staged();
          forEach({4, 2, 3}, [&](const std::vector<int64_t> &i) {
            const int64_t row = i[0] % 2 * n + me; // of the whole
            const std::vector<int64_t> from = {row % 2, i[1] + (i[0] < 2 ? half : 0), i[2]};
            wrong += result[at({4, 2, 3}, i)] != input(size_t(row / 2), at({2, 4, 3}, from));
          });
        }
        return {};
      });
      INFO(status.message());
      CHECK(status.ok());
      CHECK(wrong == 0);
      CHECK(staged == (layout == kPlain ? 0 : 2 * n));
    }
}

TEST_CASE("different layouts of input and output go through plain copies") {
  std::vector<int64_t> shape = {8, 32, 4};
  plan::Collective reduce = collective(plan::ALL_REDUCE);
  reduce.set_reduction(plan::SUM);
  CHECK(check(reduce, shape, 2, kChannels, kPlain));
  CHECK(check(collective(plan::ALL_GATHER, 1), shape, 2, kPlain, kChannels));
  CHECK(check(collective(plan::ALL_TO_ALL, 1, 0), shape, 4, kChannels, kBoth));
}

TEST_CASE("a scalar is reduced, broadcast and permuted") {
  plan::Collective reduce = collective(plan::ALL_REDUCE);
  reduce.set_reduction(plan::SUM);
  check(reduce, {}, 3, kPlain, kPlain);
  check(collective(plan::BROADCAST), {}, 3, kPlain, kPlain);
  plan::Collective permute = collective(plan::PERMUTE);
  for (uint32_t source : {2u, 0u, 1u})
    permute.add_sources(source);
  check(permute, {}, 3, kPlain, kPlain);
}

namespace {

/// Three all-reduces side by side, at multiples of 64 bytes, that are sent as one message if they are joined.
struct Neighbours : Memory {
  std::vector<std::byte> arena;
  Neighbours(const plan::Plan &p, std::vector<Layout> layouts)
      : Memory(p, std::move(layouts)), arena(p.arena_bytes()) {}
  void *address(uint32_t b) override { return arena.data() + p.buffers(int(b)).offset(); }
};

/// The sums of all ranks' tensors, as the bytes of rank 0; `joined` tells whether one message was sent.
Values neighbours(int n, bool join, bool inPlace, const Layout &outLayout, int &joined) {
  const std::vector<std::vector<int64_t>> shapes = {{3}, {8, 8, 700}, {5}};
  std::mutex mutex;
  Values all;
  joined = 0;
  RtStatus status = runRanks(n, [&](World &world) -> RtStatus {
    PlanBuilder b(uint32_t(world.rank()), uint32_t(n));
    for (const auto &shape : shapes)
      b.buffer("in", shape);
    for (uint32_t i = 0; i < 3; ++i)
      inPlace ? b.over("out", shapes[i], i) : b.buffer("out", shapes[i]);
    for (uint32_t i = 0; i < 3; ++i)
      b.collective("c", plan::ALL_REDUCE, i, 3 + i, plan::SUM);
    Neighbours memory(b.plan, {kPlain, kPlain, kPlain, kPlain, outLayout, kPlain});
    auto group = groupOfAll(world);
    if (!group)
      return group.status();
    std::vector<std::unique_ptr<CollectiveCall>> calls;
    for (const plan::Step &step : b.plan.programs(0).steps())
      calls.push_back(std::make_unique<CollectiveCall>(b.plan, step.collective(), memory, **group));
    const bool one = join && calls[0]->join({calls[1].get(), calls[2].get()});
    auto value = [&](uint32_t buffer, size_t i) { return 1.0f / float(1 + world.rank() + int(i) * 3 + int(buffer)); };
    for (uint32_t i = 0; i < 3; ++i)
      for (size_t e = 0; e < size_t(size(shapes[i])); ++e)
        static_cast<float *>(memory.address(i))[e] = value(i, e);
    for (const auto &call : calls)
      TESSERA_RETURN_IF_ERROR(call->run());
    std::lock_guard lock(mutex);
    joined += one;
    if (world.rank() == 0)
      for (uint32_t i = 0; i < 3; ++i) {
        Values result(size_t(size(shapes[i])));
        TESSERA_RETURN_IF_ERROR(memory.download(3 + i, result.data()));
        all.insert(all.end(), result.begin(), result.end());
      }
    return {};
  });
  INFO(status.message());
  CHECK(status.ok());
  return all;
}

} // namespace

TEST_CASE("what is sent as one message has the results of single collectives, to the bit") {
  for (int n : {2, 3, 4})
    for (bool inPlace : {false, true}) {
      int joined = 0;
      const Values alone = neighbours(n, false, inPlace, kPlain, joined);
      CHECK(joined == 0);
      CHECK(neighbours(n, true, inPlace, kPlain, joined) == alone);
      CHECK(joined == n);
    }
  // A tensor that goes through plain copies is sent alone, and so are its neighbours.
  int joined = 0;
  const Values alone = neighbours(2, false, false, kPlain, joined);
  CHECK(neighbours(2, true, false, kChannels, joined) == alone);
  CHECK(joined == 0);
}

namespace {

/// What all ranks have after three gathers or scatters, rank by rank; `joined` counts the ranks that sent one message.
std::vector<Values> list(int n, plan::CollectiveKind kind, bool join, const Layout &outLayout, int &joined) {
  const std::vector<std::vector<int64_t>> shapes = {{12}, {2, 24, 700}, {3, 5, 12}};
  const uint32_t dims[] = {0, 1, 2};
  std::mutex mutex;
  std::vector<Values> all(static_cast<size_t>(n));
  joined = 0;
  RtStatus status = runRanks(n, [&](World &world) -> RtStatus {
    PlanBuilder b(uint32_t(world.rank()), uint32_t(n));
    for (uint32_t i = 0; i < 3; ++i) {
      plan::Collective c = collective(kind, dims[i]);
      c.set_reduction(kind == plan::REDUCE_SCATTER ? plan::SUM : plan::NONE);
      b.buffer("in", shapes[i]);
      b.buffer("out", outputShape(c, shapes[i], n));
      c.set_input(2 * i);
      c.set_output(2 * i + 1);
      *b.step("c")->mutable_collective() = c;
    }
    Memory memory(b.plan, {kPlain, kPlain, kPlain, outLayout, kPlain, kPlain});
    auto group = groupOfAll(world);
    if (!group)
      return group.status();
    std::vector<std::unique_ptr<CollectiveCall>> calls;
    for (const plan::Step &step : b.plan.programs(0).steps())
      calls.push_back(std::make_unique<CollectiveCall>(b.plan, step.collective(), memory, **group));
    const bool one = join && calls[0]->join({calls[1].get(), calls[2].get()});
    for (uint32_t i = 0; i < 3; ++i)
      for (size_t e = 0; e < memory.data[size_t(2 * i)].size(); ++e)
        memory.data[size_t(2 * i)][e] = 1.0f / float(1 + world.rank() + int(e) * 3 + int(i));
    for (const auto &call : calls)
      TESSERA_RETURN_IF_ERROR(call->run());
    std::lock_guard lock(mutex);
    joined += one;
    for (uint32_t i = 0; i < 3; ++i) {
      Values result(memory.data[size_t(2 * i + 1)].size());
      TESSERA_RETURN_IF_ERROR(memory.download(2 * i + 1, result.data()));
      all[size_t(world.rank())].insert(all[size_t(world.rank())].end(), result.begin(), result.end());
    }
    return {};
  });
  INFO(status.message());
  CHECK(status.ok());
  return all;
}

} // namespace

TEST_CASE("a list of gathers or scatters has the results of single ones, to the bit") {
  for (plan::CollectiveKind kind : {plan::ALL_GATHER, plan::REDUCE_SCATTER})
    for (int n : {2, 3, 4}) {
      int joined = 0;
      const std::vector<Values> alone = list(n, kind, false, kPlain, joined);
      CHECK(joined == 0);
      CHECK(list(n, kind, true, kPlain, joined) == alone);
      CHECK(joined == n);
      // Through plain copies they are sent alone.
      CHECK(list(n, kind, true, Layout{{{0, 2}}}, joined) == alone);
      CHECK(joined == 0);
    }
}
