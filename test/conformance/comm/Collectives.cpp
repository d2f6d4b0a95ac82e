#include "test/conformance/comm/Model.h"
#include "test/conformance/comm/Suite.h"

#include <algorithm>
#include <numeric>

namespace tessera::rt::conformance {
namespace {

// Around the limits of the small-message paths and of the work sharing: empty, fewer elements than
// members, one below and above a power of two, and large enough for every blocked path.
const std::vector<size_t> kCounts = {0, 1, 7, 64, 1000, 1025, 4097, 9001};
const std::vector<plan::Reduction> kReductions = {plan::SUM, plan::MAX, plan::MIN};

std::string label(const char *what, plan::DType dtype, size_t count) {
  return std::string(what) + " of " + std::to_string(count) + " " + plan::DType_Name(dtype);
}

std::vector<Bytes> allInputs(plan::DType dtype, size_t count, int members, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (int m = 0; m < members; ++m)
    inputs.push_back(values(dtype, count, m, seed));
  return inputs;
}

Bytes inOrder(const std::vector<Bytes> &inputs, plan::DType dtype, Reducer reducer, int run = 1) {
  if (reducer.tree)
    return reduceAsTree(inputs, dtype, reducer.reduction);
  if (run == 1)
    return reduce(inputs, dtype, reducer.reduction);
  std::vector<Bytes> sums;
  for (size_t first = 0; first < inputs.size(); first += size_t(run))
    sums.push_back(reduce(std::span(inputs).subspan(first, size_t(run)), dtype, reducer.reduction));
  return reduce(sums, dtype, reducer.reduction);
}

std::string orderText(Reducer reducer) {
  return " " + plan::Reduction_Name(reducer.reduction) + (reducer.tree ? " as a tree" : "");
}

void checkAllReduce(Communicator &comm, Check &check, size_t count, plan::DType dtype, Reducer reducer, bool inPlace,
                    int run = 1) {
  const std::vector<Bytes> inputs = allInputs(dtype, count, comm.size(), count + reducer.reduction);
  Bytes in = inputs[comm.rank()], out(in.size(), 0xee);
  const std::string what = label("allReduce", dtype, count) + orderText(reducer);
  check.ok(comm.allReduce(inPlace ? out.data() : in.data(), out.data(), 0, dtype, reducer), what);
  if (inPlace)
    out = in;
  check.ok(comm.allReduce(inPlace ? out.data() : in.data(), out.data(), count, dtype, reducer), what);
  check.that(out == inOrder(inputs, dtype, reducer, run), what + ": wrong result");
  check.that(in == inputs[comm.rank()], what + ": input changed");
}

void allReduce(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  for (plan::DType dtype : kAllTypes)
    for (plan::Reduction reduction : kReductions)
      for (size_t count : kCounts)
        for (bool tree : {false, true})
          checkAllReduce(*comm, check, count, dtype, {reduction, tree}, (count + reduction) % 2);
}

/// Several segments of every blocked path, the last one short.
void largeAllReduce(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  for (bool tree : {false, true}) {
    for (size_t count : {200003u, 700001u})
      checkAllReduce(*comm, check, count, plan::F32, {plan::SUM, tree}, count == 200003u);
    checkAllReduce(*comm, check, 150001, plan::BF16, {plan::SUM, tree}, true);
  }
}

void checkAllGather(Communicator &comm, Check &check, size_t outer, size_t inner, plan::DType dtype) {
  const size_t n = comm.size(), row = inner * elementSize(dtype);
  const std::vector<Bytes> inputs = allInputs(dtype, outer * inner, comm.size(), 3);
  Bytes expected(outer * n * row), out(outer * n * row, 0xee);
  for (size_t o = 0; o < outer; ++o)
    for (size_t r = 0; r < n; ++r)
      std::copy_n(inputs[r].begin() + o * row, row, expected.begin() + (o * n + r) * row);
  const std::string what = label("allGather", dtype, outer * inner);
  check.ok(comm.allGather(inputs[comm.rank()].data(), out.data(), outer, inner, dtype), what);
  check.that(out == expected, what + ": wrong result");
}

void allGather(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  for (plan::DType dtype : kAllTypes)
    for (auto [outer, inner] : {std::pair<size_t, size_t>{1, 5}, {3, 1}, {4, 700}, {513, 3}, {1, 9001}, {0, 4}, {4, 0}})
      checkAllGather(*comm, check, outer, inner, dtype);
  checkAllGather(*comm, check, 2, 40001, plan::F64);
  checkAllGather(*comm, check, 1000, 77, plan::F64);
}

void checkReduceScatter(Communicator &comm, Check &check, size_t outer, size_t inner, plan::DType dtype,
                        Reducer reducer, int run = 1) {
  const size_t n = comm.size(), row = inner * elementSize(dtype);
  const std::vector<Bytes> inputs = allInputs(dtype, outer * n * inner, comm.size(), 5);
  const Bytes whole = inOrder(inputs, dtype, reducer, run);
  Bytes expected(outer * row), out(outer * row, 0xee);
  for (size_t o = 0; o < outer; ++o)
    std::copy_n(whole.begin() + (o * n + comm.rank()) * row, row, expected.begin() + o * row);
  const std::string what = label("reduceScatter", dtype, outer * n * inner) + orderText(reducer);
  check.ok(comm.reduceScatter(inputs[comm.rank()].data(), out.data(), outer, inner, dtype, reducer), what);
  check.that(out == expected, what + ": wrong result");
}

void reduceScatter(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  for (plan::DType dtype : kAllTypes)
    for (plan::Reduction reduction : kReductions)
      for (auto [outer, inner] : {std::pair<size_t, size_t>{1, 5}, {3, 1}, {4, 700}, {513, 3}, {0, 4}})
        for (bool tree : {false, true})
          checkReduceScatter(*comm, check, outer, inner, dtype, {reduction, tree});
  for (bool tree : {false, true}) {
    checkReduceScatter(*comm, check, 2, 40001, plan::F64, {plan::SUM, tree});
    checkReduceScatter(*comm, check, 1000, 77, plan::F64, {plan::SUM, tree});
  }
}

/// Lists around the limits of small messages and of rounds: tensors without elements, shorter and longer than a round
/// of 512 KiB, with remainders that share one.
const std::vector<std::vector<std::pair<size_t, size_t>>> kLists = {
    {},
    {{1, 5}, {3, 1}},
    {{0, 4}, {2, 3}, {4, 0}, {1, 7}},
    {{513, 3}, {1, 9001}, {4, 700}},
    {{1, 5}, {2, 80001}, {3, 11}, {1, 200003}, {40, 40001 / 100}},
    {{1000, 77}, {1, 65536}, {1, 65536}, {1, 1}},
};

void checkLists(Communicator &comm, Check &check, const std::vector<std::pair<size_t, size_t>> &list, plan::DType dtype,
                int run = 1) {
  const size_t n = comm.size(), size = elementSize(dtype);
  std::vector<Bytes> gathered, scattered, expectedGathers, expectedScatters;
  std::vector<std::vector<Bytes>> parts, wholes; // by tensor and member
  std::vector<Rows> gathers, scatters;
  const Reducer sum(plan::SUM);
  for (auto [outer, inner] : list) {
    parts.push_back(allInputs(dtype, outer * inner, comm.size(), 7 + parts.size()));
    wholes.push_back(allInputs(dtype, outer * n * inner, comm.size(), 70 + parts.size()));
    const size_t row = inner * size;
    Bytes &gather = expectedGathers.emplace_back(outer * n * row),
          &scatter = expectedScatters.emplace_back(outer * row);
    const Bytes whole = inOrder(wholes.back(), dtype, sum, run);
    for (size_t o = 0; o < outer; ++o) {
      for (size_t r = 0; r < n; ++r)
        std::copy_n(parts.back()[r].begin() + o * row, row, gather.begin() + (o * n + r) * row);
      std::copy_n(whole.begin() + (o * n + comm.rank()) * row, row, scatter.begin() + o * row);
    }
    gathered.emplace_back(outer * n * row, 0xee);
    scattered.emplace_back(outer * row, 0xee);
  }
  for (size_t t = 0; t < list.size(); ++t) {
    gathers.push_back({parts[t][comm.rank()].data(), gathered[t].data(), list[t].first, list[t].second});
    scatters.push_back({wholes[t][comm.rank()].data(), scattered[t].data(), list[t].first, list[t].second});
  }
  const std::string what = std::to_string(list.size()) + " tensors of " + plan::DType_Name(dtype);
  check.ok(comm.allGather(gathers, dtype), "allGather of " + what);
  check.ok(comm.reduceScatter(scatters, dtype, sum), "reduceScatter of " + what);
  check.that(gathered == expectedGathers, "allGather of " + what + ": wrong result");
  check.that(scattered == expectedScatters, "reduceScatter of " + what + ": wrong result");
}

void lists(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  for (plan::DType dtype : {plan::F32, plan::BF16, plan::F64})
    for (const auto &list : kLists)
      checkLists(*comm, check, list, dtype);
}

/// Every way to put the members in runs of neighbours. A tree of runs that are no power of two is the same tree.
void runs(World &world, Check &check) {
  std::vector<int> ranks(size_t(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (int run = 1; run <= world.size(); ++run) {
    Result<std::unique_ptr<Communicator>> comm = world.group(ranks, run);
    if (world.size() % run != 0) {
      check.fails(comm.status(), {"runs of " + std::to_string(run) + " members", "do not divide"}, "runs");
      continue;
    }
    check.ok(comm.status(), "runs of " + std::to_string(run));
    if (!comm)
      return;
    for (plan::DType dtype : {plan::F32, plan::BF16})
      for (bool tree : {false, true}) {
        for (size_t count : {7u, 9001u, 70001u})
          checkAllReduce(**comm, check, count, dtype, {plan::SUM, tree}, count % 3 == 1, run);
        for (auto [outer, inner] : {std::pair<size_t, size_t>{1, 5}, {513, 3}, {1, 9001}})
          checkReduceScatter(**comm, check, outer, inner, dtype, {plan::SUM, tree}, run);
      }
    for (bool tree : {false, true}) { // several segments and rounds, the last ones short
      checkAllReduce(**comm, check, 700001, plan::F32, {plan::SUM, tree}, tree, run);
      checkReduceScatter(**comm, check, 2, 140001, plan::F32, {plan::SUM, tree}, run);
    }
    checkAllReduce(**comm, check, 9001, plan::F32, {plan::MAX, false}, true, run);
    for (auto [outer, inner] : {std::pair<size_t, size_t>{1, 5}, {513, 3}, {2, 140001}})
      checkAllGather(**comm, check, outer, inner, plan::F32);
    checkLists(**comm, check, kLists.back(), plan::F32, run);
  }
}

void broadcast(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  for (plan::DType dtype : kAllTypes)
    for (size_t count : kCounts)
      for (int root = 0; root < comm->size(); ++root) {
        const std::vector<Bytes> inputs = allInputs(dtype, count, comm->size(), count + root);
        Bytes in = inputs[comm->rank()], out(in.size(), 0xee);
        const bool inPlace = (count + root) % 2;
        const std::string what = label("broadcast", dtype, count);
        check.ok(comm->broadcast(in.data(), inPlace ? in.data() : out.data(), count, dtype, root), what);
        check.that((inPlace ? in : out) == inputs[root], what + ": wrong result");
      }
}

/// Groups of `width` ranks in falling order, so that they are numbered otherwise than the world.
void subgroups(World &world, Check &check) {
  for (int width = 1; width <= world.size(); ++width) {
    const int first = world.rank() / width * width;
    std::vector<int> ranks;
    for (int r = std::min(first + width, world.size()) - 1; r >= first; --r)
      ranks.push_back(r);
    Result<std::unique_ptr<Communicator>> comm = world.group(ranks);
    check.ok(comm.status(), "sub-group");
    if (!comm)
      return;
    check.that((*comm)->size() == int(ranks.size()), "size of a sub-group");
    check.that(ranks[(*comm)->rank()] == world.rank(), "rank in a sub-group");
    // Different groups run different numbers of operations at once.
    for (int i = 0; i <= first; ++i)
      for (size_t count : {3u, 5000u})
        for (bool tree : {false, true})
          checkAllReduce(**comm, check, count, plan::F32, {plan::SUM, tree}, i % 2);
  }
}

/// Two groups that cross, used in turn, as a mesh's axes are.
void crossingGroups(World &world, Check &check) {
  const int columns = world.size() % 2 == 0 ? 2 : 1;
  std::vector<int> row, column;
  for (int r = 0; r < world.size(); ++r) {
    if (r / columns == world.rank() / columns)
      row.push_back(r);
    if (r % columns == world.rank() % columns)
      column.push_back(r);
  }
  Result<std::unique_ptr<Communicator>> a = world.group(row), b = world.group(column);
  check.ok(a.status(), "row group");
  check.ok(b.status(), "column group");
  if (!a || !b)
    return;
  for (int i = 0; i < 50; ++i) {
    int64_t mine = world.rank() + i, rowSum = 0, total = 0;
    check.ok((*a)->allReduce(&mine, &rowSum, 1, plan::I64, plan::SUM), "row sum");
    check.ok((*b)->allReduce(&rowSum, &total, 1, plan::I64, plan::SUM), "column sum");
    const int64_t n = world.size();
    check.that(total == n * (n - 1) / 2 + n * i, "sum over both axes");
  }
}

/// Short messages back to back, as gradients of small layers are: slots must not be reused too
/// early.
void manySmall(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  for (int i = 0; i < 500; ++i) {
    int32_t in[4] = {i, comm->rank(), 1, i * comm->rank()}, out[4];
    check.ok(comm->allReduce(in, out, 4, plan::I32, plan::SUM), "small allReduce");
    const int n = comm->size(), sum = n * (n - 1) / 2;
    check.that(out[0] == n * i && out[1] == sum && out[2] == n && out[3] == i * sum, "small allReduce: wrong result");
    if (i % 7 == 0)
      check.ok(comm->barrier(), "barrier");
  }
}

} // namespace

std::vector<Case> collectiveCases() {
  return {{"allReduce", allReduce},
          {"largeAllReduce", largeAllReduce},
          {"allGather", allGather},
          {"reduceScatter", reduceScatter},
          {"lists", lists},
          {"runs", runs},
          {"broadcast", broadcast},
          {"subgroups", subgroups},
          {"crossingGroups", crossingGroups},
          {"manySmall", manySmall}};
}

std::unique_ptr<Communicator> everyone(World &world, Check &check) {
  std::vector<int> ranks(world.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  Result<std::unique_ptr<Communicator>> comm = world.group(ranks);
  check.ok(comm.status(), "group of all");
  return comm ? std::move(*comm) : nullptr;
}

} // namespace tessera::rt::conformance
