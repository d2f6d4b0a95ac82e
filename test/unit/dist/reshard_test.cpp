//===- reshard_test.cpp - every pair of shardings on small meshes, by simulation -------------===//
//
// Ranks are simulated on integers. The simulation executes each collective as its definition says
// (by groups and local blocks); it knows nothing of shardings. Only the first and the last picture
// are computed from the shardings.
//
//===----------------------------------------------------------------------------------------------===//
#include "dialects/dist/exchange/Exchange.h"
#include "dialects/dist/wire/WirePlanner.h"

#include "llvm/ADT/STLExtras.h"

#include <catch2/catch.hpp>

#include <set>

using namespace tessera::dist;

namespace {

struct Tensor {
  Shape shape;
  std::vector<int64_t> data;
};

int64_t product(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

/// Rows [start, start + size) of dimension dim.
Tensor rows(const Tensor &t, int64_t dim, int64_t start, int64_t size) {
  int64_t outer = product(llvm::ArrayRef(t.shape).take_front(dim));
  int64_t inner = product(llvm::ArrayRef(t.shape).drop_front(dim + 1));
  Tensor r{t.shape, {}};
  r.shape[dim] = size;
  for (int64_t o = 0; o < outer; ++o) {
    auto first = t.data.begin() + (o * t.shape[dim] + start) * inner;
    r.data.insert(r.data.end(), first, first + size * inner);
  }
  return r;
}

Tensor block(const Tensor &t, int64_t dim, int64_t n, int64_t i) {
  REQUIRE(t.shape[dim] % n == 0);
  int64_t size = t.shape[dim] / n;
  return rows(t, dim, i * size, size);
}

/// The block with padding behind it. No collective may use the padding as contents.
Tensor grown(const Tensor &t, int64_t dim, int64_t size);

Tensor concat(const std::vector<Tensor> &parts, int64_t dim) {
  Tensor r{parts[0].shape, {}};
  r.shape[dim] *= int64_t(parts.size());
  int64_t outer = product(llvm::ArrayRef(r.shape).take_front(dim));
  for (int64_t o = 0; o < outer; ++o)
    for (const Tensor &p : parts) {
      int64_t run = int64_t(p.data.size()) / outer;
      r.data.insert(r.data.end(), p.data.begin() + o * run, p.data.begin() + (o + 1) * run);
    }
  return r;
}

constexpr int64_t kPadding = -777'777;

Tensor grown(const Tensor &t, int64_t dim, int64_t size) {
  if (t.shape[dim] == size)
    return t;
  Tensor more{t.shape, {}};
  more.shape[dim] = size - t.shape[dim];
  more.data.assign(size_t(product(more.shape)), kPadding);
  // concat needs equal parts, so it works row by row.
  std::vector<Tensor> parts;
  for (const Tensor *half : {&t, static_cast<const Tensor *>(&more)})
    for (int64_t i = 0; i < half->shape[dim]; ++i)
      parts.push_back(rows(*half, dim, i, 1));
  return concat(parts, dim);
}

int64_t combine(Reduction reduction, int64_t a, int64_t b) {
  switch (reduction) {
  case Reduction::Max:
    return std::max(a, b);
  case Reduction::Min:
    return std::min(a, b);
  default:
    return a + b;
  }
}

Tensor reduce(const std::vector<Tensor> &parts, Reduction reduction) {
  Tensor r = parts[0];
  for (size_t p = 1; p < parts.size(); ++p)
    for (size_t i = 0; i < r.data.size(); ++i)
      r.data[i] = combine(reduction, r.data[i], parts[p].data[i]);
  return r;
}

constexpr int64_t kNothing = -888'888;

/// What a rank receives in an exchange. Every element comes once, and from a rank of its group.
Tensor received(const Collective &c, int64_t rank, const std::vector<Tensor> &in) {
  Tensor out{c.localOut, std::vector<int64_t>(size_t(product(c.localOut)), kNothing)};
  auto place = [](llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> begin, llvm::ArrayRef<int64_t> index) {
    int64_t at = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      at = at * shape[d] + begin[d] + index[d];
    return size_t(at);
  };
  forEachBox(c, [&](const ExchangeBox &box) {
    if (box.to != rank)
      return;
    Shape index(box.shape.size(), 0);
    for (int64_t i = 0; i < box.elements(); ++i) {
      int64_t &element = out.data[place(c.localOut, box.target, index)];
      if (element != kNothing)
        FAIL("an element is received twice");
      element = in[size_t(box.from)].data[place(c.localIn, box.source, index)];
      for (size_t d = index.size(); d-- > 0 && ++index[d] == box.shape[d];)
        index[d] = 0;
    }
  });
  if (llvm::is_contained(out.data, kNothing))
    FAIL("an element is not received");
  return out;
}

std::vector<Tensor> execute(const Mesh &mesh, const Collective &c, const std::vector<Tensor> &in) {
  std::vector<Tensor> out;
  int64_t n = mesh.size(c.axes);
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    int64_t me = mesh.coordinate(rank, c.axes);
    std::vector<Tensor> group;
    for (int64_t member : mesh.group(rank, c.axes))
      group.push_back(in[member]);
    switch (c.kind) {
    case CollectiveKind::Slice:
      out.push_back(block(in[rank], c.dim, n, me));
      break;
    case CollectiveKind::AllGather:
      out.push_back(concat(group, c.dim));
      break;
    case CollectiveKind::AllReduce:
      out.push_back(reduce(group, c.reduction));
      break;
    case CollectiveKind::ReduceScatter:
      out.push_back(block(reduce(group, c.reduction), c.dim, n, me));
      break;
    case CollectiveKind::AllToAll: {
      std::vector<Tensor> received;
      for (const Tensor &t : group)
        received.push_back(block(t, c.splitDim, n, me));
      out.push_back(concat(received, c.dim));
      break;
    }
    case CollectiveKind::Permute:
      out.push_back(in[c.sources[rank]]);
      break;
    case CollectiveKind::Fit: {
      Tensor t = rows(in[rank], c.dim, 0, std::min(c.localIn[c.dim], c.localOut[c.dim]));
      if (c.localOut[c.dim] > c.localIn[c.dim])
        t = grown(t, c.dim, c.localOut[c.dim]);
      out.push_back(t);
      break;
    }
    case CollectiveKind::Exchange:
      out.push_back(received(c, rank, in));
      break;
    case CollectiveKind::Fold: {
      std::vector<Tensor> terms;
      for (int64_t i = 0, count = c.localIn[c.dim] / c.localOut[c.dim]; i < count; ++i)
        terms.push_back(block(in[rank], c.dim, count, i));
      out.push_back(reduce(terms, c.reduction));
      break;
    }
    case CollectiveKind::Halo:
    case CollectiveKind::Broadcast:
      FAIL("a reshard has no such collective");
    }
    CHECK(c.localIn == in[rank].shape);
    CHECK(c.localOut == out.back().shape);
  }
  if (c.kind == CollectiveKind::Permute)
    CHECK(std::set<int64_t>(c.sources.begin(), c.sources.end()).size() == size_t(mesh.numRanks()));
  return out;
}

int64_t hash(int64_t a, int64_t b) {
  return int64_t((uint64_t(a) * 0x9E3779B97F4A7C15u ^ uint64_t(b) * 0xC2B2AE3D27D4EB4Fu) >> 48);
}

/// The data of every rank: its block, or its term of a partial tensor.
std::vector<Tensor> initial(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &s) {
  Tensor global{Shape(shape), {}};
  for (int64_t i = 0; i < product(shape); ++i)
    global.data.push_back(1000 + i);
  int64_t shares = mesh.size(s.partial);
  std::vector<Tensor> ranks;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    int64_t share = mesh.coordinate(rank, s.partial);
    Tensor t = global;
    if (shares > 1)
      for (int64_t i = 0; i < int64_t(t.data.size()); ++i) {
        if (s.reduction == Reduction::Sum) {
          int64_t others = 0;
          for (int64_t p = 1; p < shares; ++p)
            others += hash(p, i);
          t.data[i] = share ? hash(share, i) : t.data[i] - others;
        } else if (share != i % shares) {
          t.data[i] += (s.reduction == Reduction::Max ? -1 : 1) * (1 + hash(share, i));
        }
      }
    llvm::SmallVector<int64_t> offset = s.offset(mesh, shape, rank), held = s.extent(mesh, shape, rank),
                               local = s.localShape(mesh, shape);
    for (size_t d = 0; d < shape.size(); ++d)
      t = grown(rows(t, d, offset[d], held[d]), d, local[d]);
    ranks.push_back(t);
  }
  return ranks;
}

bool holds(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &s, const std::vector<Tensor> &ranks) {
  Sharding whole = s.withoutPartial();
  std::vector<Tensor> expected = initial(mesh, shape, whole);
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    std::vector<Tensor> group;
    for (int64_t member : mesh.group(rank, s.partial))
      group.push_back(ranks[member]);
    Tensor sum = reduce(group, s.reduction);
    if (sum.shape != expected[rank].shape)
      return false;
    for (size_t i = 0; i < sum.data.size(); ++i)
      if (expected[rank].data[i] != kPadding && sum.data[i] != expected[rank].data[i])
        return false;
  }
  return true;
}

bool isEven(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &s) {
  for (int64_t d = 0; d < s.rank(); ++d)
    if (s.isPadded(mesh, shape, d))
      return false;
  return true;
}

/// The same with every dimension that is cut in each of the units that divide it.
void inUnits(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, Sharding s, size_t dim, std::set<Sharding> &found) {
  if (dim == shape.size()) {
    if (llvm::Error e = s.verify(mesh, shape))
      llvm::consumeError(std::move(e));
    else
      found.insert(s);
    return;
  }
  inUnits(mesh, shape, s, dim + 1, found);
  for (int64_t unit = 2; unit < shape[dim] && !s.dims[dim].empty(); ++unit) {
    s.dims[dim].unit = unit;
    inUnits(mesh, shape, s, dim + 1, found);
  }
}

/// Every sharding that the shape allows, partial ones with the given reduction.
std::vector<Sharding> allShardings(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, Reduction reduction,
                                   bool units = false) {
  std::set<Sharding> found;
  std::vector<int> order(mesh.numAxes());
  for (int i = 0; i < mesh.numAxes(); ++i)
    order[i] = i;
  int64_t places = int64_t(shape.size()) + 2; // dimensions, partial, unused
  do {
    int64_t cases = 1;
    for (int i = 0; i < mesh.numAxes(); ++i)
      cases *= places;
    for (int64_t code = 0; code < cases; ++code) {
      Sharding s = Sharding::replicated(shape.size());
      int64_t rest = code;
      for (int axis : order) {
        int64_t place = rest % places;
        rest /= places;
        if (place < int64_t(shape.size()))
          s.dims[place].push_back(axis);
        else if (place == int64_t(shape.size()))
          s.partial.push_back(axis);
      }
      llvm::sort(s.partial);
      if (!s.partial.empty())
        s.reduction = reduction;
      if (units)
        inUnits(mesh, shape, s, 0, found);
      else if (llvm::Error e = s.verify(mesh, shape))
        llvm::consumeError(std::move(e));
      else
        found.insert(s);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return {found.begin(), found.end()};
}

/// The least bytes that some rank must receive: the elements of its target block that it does not
/// hold, or all of them while the sum is partial.
double mustReceive(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &from, const Sharding &to,
                   int64_t elementBytes) {
  double most = 0;
  bool reduces = mesh.size(from.partial) > mesh.size(to.partial);
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    llvm::SmallVector<int64_t> has = from.extent(mesh, shape, rank), needs = to.extent(mesh, shape, rank);
    llvm::SmallVector<int64_t> a = from.offset(mesh, shape, rank), b = to.offset(mesh, shape, rank);
    int64_t common = reduces ? 0 : 1;
    for (size_t d = 0; d < shape.size(); ++d)
      common *= std::max<int64_t>(0, std::min(a[d] + has[d], b[d] + needs[d]) - std::max(a[d], b[d]));
    most = std::max(most, double((product(needs) - common) * elementBytes));
  }
  return most;
}

struct Case {
  const char *mesh;
  Shape shape;
  bool units = false; // also in units
};

bool same(const Collective &a, const Collective &b) {
  return a.kind == b.kind && a.axes == b.axes && a.dim == b.dim && a.splitDim == b.splitDim &&
         a.reduction == b.reduction && a.sources == b.sources && a.boxes == b.boxes && a.result == b.result;
}

} // namespace

TEST_CASE("every reshard on a small mesh gives every rank its block") {
  std::vector<Case> cases = {{"2", {4}},
                             {"2", {4, 3}},
                             {"2", {2, 4, 3}},
                             {"4", {8}},
                             {"4", {4, 8}},
                             {"4", {4, 2, 8}},
                             {"a=2,b=2", {8}},
                             {"a=2,b=2", {4, 2}},
                             {"a=2,b=2", {4, 6, 4}},
                             {"a=2,b=3", {12}},
                             {"a=2,b=3", {6, 2}},
                             {"a=2,b=3", {6, 2, 3}},
                             {"a=2,b=2,c=2", {8}},
                             {"a=2,b=2,c=2", {8, 4}},
                             {"a=2,b=2,c=2", {4, 2, 8}},
                             {"a=2,b=1,c=3", {6, 4}},
                             // Padded blocks.
                             {"2", {3}},
                             {"2", {5, 3}},
                             {"4", {5, 4}},
                             {"4", {7, 10}},
                             {"a=2,b=2", {5}},
                             {"a=2,b=2", {9}},
                             {"a=2,b=2", {5, 6}},
                             {"a=2,b=2", {3, 4, 5}},
                             {"a=2,b=3", {7}},
                             {"a=2,b=3", {13, 5}},
                             {"a=3,b=4", {14, 6}},
                             {"a=2,b=2,c=2", {11}},
                             {"a=2,b=2,c=2", {9, 5}},
                             // Whole units: 3 heads of 2 and 4 on 2 ranks, 6 heads of 2 on 4, 12 heads of 2 on 8.
                             {"2", {6}, true},
                             {"2", {12, 4}, true},
                             {"4", {12}, true},
                             {"4", {12, 6}, true},
                             {"8", {24}, true},
                             {"a=2,b=2", {12}, true},
                             {"a=2,b=2", {20}, true},
                             {"a=2,b=2", {12, 6}, true},
                             {"a=2,b=3", {16}, true},
                             {"a=2,b=4", {24}, true},
                             {"a=2,b=2,c=2", {24}, true}};
  for (const Case &c : cases)
    for (Reduction reduction : {Reduction::Sum, Reduction::Max, Reduction::Min}) {
      Mesh mesh = llvm::cantFail(Mesh::parse(c.mesh));
      if (reduction != Reduction::Sum && (mesh.numRanks() > 6 || c.shape.size() > 2))
        continue;
      std::vector<Sharding> shardings = allShardings(mesh, c.shape, reduction, c.units);
      ReshardPlanner planner(mesh, defaultCollectiveCost(mesh)), second(mesh, defaultCollectiveCost(mesh));
      WirePlanner inMessages(mesh, defaultCollectiveCost(mesh),
                             {.joined = [](const Collective &, int64_t) { return 0.0; }});
      auto check = [&](auto &planner, const Sharding &from, const Sharding &to, const std::vector<Tensor> &start) {
        std::vector<Tensor> ranks = start;
        double sent = 0, cost = 0;
        auto plan = planner.plan(c.shape, 4, from, to);
        for (const Collective &step : plan) {
          ranks = execute(mesh, step, ranks);
          sent += bytesSent(mesh, step, 4);
          cost += defaultCollectiveCost(mesh)(step, 4);
        }
        if (!holds(mesh, c.shape, to, ranks)) // cheaper than CHECK on half a million pairs
          FAIL("wrong contents");
        if (!plan.empty() && !(plan.back().result == to))
          FAIL("wrong last sharding");
        if (sent < mustReceive(mesh, c.shape, from, to, 4) - 1e-9)
          FAIL("fewer bytes than must arrive: " << sent);
        if (std::abs(cost - planner.cost(c.shape, 4, from, to)) > 1e-9 * (1 + cost))
          FAIL("the plan's cost is not the cost quoted");
      };
      for (const Sharding &from : shardings) {
        std::vector<Tensor> start = initial(mesh, c.shape, from);
        REQUIRE(holds(mesh, c.shape, from, start));
        for (const Sharding &to : shardings) {
          if (!canReshard(mesh, from, to))
            continue;
          INFO(mesh.str() << ": " << from.str(mesh) << " to " << to.str(mesh));
          check(planner, from, to, start);
          if (mesh.numAxes() > 1)
            check(inMessages, from, to, start);
        }
      }
      // The planner gives the same plans when it is asked in another order.
      for (auto from = shardings.rbegin(); from != shardings.rend(); ++from)
        for (auto to = shardings.rbegin(); to != shardings.rend(); ++to) {
          if (!canReshard(mesh, *from, *to))
            continue;
          auto a = planner.plan(c.shape, 4, *from, *to), b = second.plan(c.shape, 4, *from, *to);
          double costA = planner.cost(c.shape, 4, *from, *to), costB = second.cost(c.shape, 4, *from, *to);
          if (costA != costB)
            FAIL("cost depends on the order of questions");
        }
    }
}

TEST_CASE("a fresh planner gives the same plan every time") {
  Mesh mesh = llvm::cantFail(Mesh::parse("a=2,b=2"));
  Shape shape = {8, 4};
  CollectiveCost cost = defaultCollectiveCost(mesh);
  std::vector<Sharding> shardings = allShardings(mesh, shape, Reduction::Sum);
  for (const Sharding &from : shardings)
    for (const Sharding &to : shardings) {
      if (!canReshard(mesh, from, to))
        continue;
      auto a = planReshard(mesh, shape, 4, from, to, cost), b = planReshard(mesh, shape, 4, from, to, cost);
      REQUIRE(a.size() == b.size());
      for (size_t i = 0; i < a.size(); ++i)
        REQUIRE(same(a[i], b[i]));
    }
}

TEST_CASE("a planner that knows other shapes gives every shape the plan that it has alone") {
  for (const char *text : {"a=2,b=3", "a=2,b=2,c=2", "a=1,b=4,c=2"}) {
    Mesh mesh = llvm::cantFail(Mesh::parse(text));
    CollectiveCost cost = defaultCollectiveCost(mesh);
    ReshardPlanner planner(mesh, cost);
    // Of as many bytes: some are cut alike, some cannot be cut by all axes, and some only into padded blocks.
    for (Shape shape : {Shape{24, 48}, Shape{48, 24}, Shape{1, 1152}, Shape{144, 8}, Shape{4, 288}, Shape{9, 128}}) {
      ReshardPlanner alone(mesh, cost);
      std::vector<Sharding> shardings = allShardings(mesh, shape, Reduction::Sum);
      int differ = 0;
      for (const Sharding &from : shardings)
        for (const Sharding &to : shardings) {
          if (!canReshard(mesh, from, to))
            continue;
          auto a = planner.plan(shape, 4, from, to), b = alone.plan(shape, 4, from, to);
          bool alike = a.size() == b.size() && planner.cost(shape, 4, from, to) == alone.cost(shape, 4, from, to);
          for (size_t i = 0; alike && i < a.size(); ++i)
            alike = same(a[i], b[i]) && a[i].localIn == b[i].localIn && a[i].localOut == b[i].localOut;
          differ += !alike;
        }
      INFO(text << " " << shape[0] << "x" << shape[1]);
      CHECK(differ == 0);
    }
  }
}

TEST_CASE("going through a third sharding is never cheaper") {
  for (const char *text : {"a=2,b=2", "a=2,b=3", "a=2,b=2,c=2"}) {
    Mesh mesh = llvm::cantFail(Mesh::parse(text));
    Shape shape = {12, 8};
    // The way from one sharding to another leads over padded blocks only if one of the two has them.
    std::vector<Sharding> shardings = allShardings(mesh, shape, Reduction::Sum);
    llvm::erase_if(shardings, [&](const Sharding &s) { return !isEven(mesh, shape, s); });
    ReshardPlanner planner(mesh, defaultCollectiveCost(mesh));
    size_t n = shardings.size();
    std::vector<double> cost(n * n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        cost[i * n + j] = planner.cost(shape, 4, shardings[i], shardings[j]);
    size_t worse = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        for (size_t k = 0; k < n; ++k)
          worse += cost[i * n + k] > cost[i * n + j] + cost[j * n + k] + 1e-9;
    CHECK(worse == 0);
  }
}

TEST_CASE("some reshards have known plans") {
  Mesh mesh = llvm::cantFail(Mesh::parse("data=2,model=2"));
  Shape shape = {8, 8};
  CollectiveCost cost = defaultCollectiveCost(mesh);
  auto text = [&](Sharding from, Sharding to) {
    std::string s;
    for (const Collective &c : planReshard(mesh, shape, 4, from, to, cost))
      s += (s.empty() ? "" : ", ") + stringify(c.kind).str() + " " + c.result.str(mesh);
    return s;
  };
  auto sharding = [](std::initializer_list<Cut> dims, AxisList partial = {}) {
    Sharding s;
    s.dims.assign(dims);
    s.partial = partial;
    s.reduction = partial.empty() ? Reduction::None : Reduction::Sum;
    return s;
  };
  CHECK(text(sharding({{0}, {1}}), sharding({{0}, {1}})) == "");
  CHECK(text(sharding({{0}, {1}}), sharding({{0, 1}, {}})) == "all-to-all [data+model, -]");
  CHECK(text(sharding({{0}, {}}), sharding({{1}, {}})) == "permute [model, -]");
  CHECK(text(sharding({{}, {}}), sharding({{0, 1}, {}})) == "slice [data+model, -]");
  CHECK(text(sharding({{0, 1}, {}}), sharding({{}, {}})) == "all-gather [-, -]");
  CHECK(text(sharding({{}, {}}, {0}), sharding({{}, {}})) == "all-reduce [-, -]");
  CHECK(text(sharding({{}, {}}, {0}), sharding({{0}, {}})) == "reduce-scatter [data, -]");
  // Six units of 2: in two halves they lie as plain blocks do, in four not.
  shape = {12, 8};
  CHECK(text(sharding({{}, {}}), sharding({Cut({0, 1}, 2), {}})) ==
        "slice [data, -], fit [data, -], slice [data+model/2, -]");
  CHECK(text(sharding({Cut({0, 1}, 2), {}}), sharding({{0, 1}, {}})) ==
        "all-to-all [data, model], fit [data, model], all-to-all [data+model, -]");
  CHECK(text(sharding({{0}, {}}, {1}), sharding({{0}, {}})) == "all-reduce [data, -]");
}

TEST_CASE("meshes of many axes are planned without a search") {
  Mesh mesh = llvm::cantFail(Mesh::parse("a=2,b=2,c=2,d=2,e=2,f=2"));
  Shape shape = {8, 8};
  Sharding from = Sharding::replicated(2), to = from;
  from.dims = {{0, 1}, {2}};
  from.partial = {5};
  from.reduction = Reduction::Sum;
  to.dims = {{0, 4}, {3, 2}};
  ReshardPlanner planner(mesh, defaultCollectiveCost(mesh));
  std::vector<Tensor> ranks = initial(mesh, shape, from);
  for (const Collective &step : planner.plan(shape, 4, from, to))
    ranks = execute(mesh, step, ranks);
  CHECK(holds(mesh, shape, to, ranks));
  CHECK(planner.cost(shape, 4, from, to) > 0);
}

TEST_CASE("meshes of many axes are planned without a search in units, too") {
  Mesh mesh = llvm::cantFail(Mesh::parse("a=2,b=2,c=2,d=2,e=2,f=2"));
  Shape shape = {24, 40};
  Sharding from = Sharding::replicated(2), to = from;
  from.dims = {Cut({0, 1, 3}, 2), Cut({2, 4}, 4)};
  from.partial = {5};
  from.reduction = Reduction::Sum;
  to.dims = {Cut({0, 1, 4}), Cut({3, 2}, 8)};
  ReshardPlanner planner(mesh, defaultCollectiveCost(mesh));
  for (const Sharding &s : {from, to})
    CHECK(llvm::toString(s.verify(mesh, shape)).empty());
  std::vector<Tensor> ranks = initial(mesh, shape, from);
  for (const Collective &step : planner.plan(shape, 4, from, to))
    ranks = execute(mesh, step, ranks);
  CHECK(holds(mesh, shape, to, ranks));
}

TEST_CASE("no reshard makes a tensor partial") {
  Mesh mesh = llvm::cantFail(Mesh::parse("2"));
  Sharding whole = Sharding::replicated(1), partial = whole;
  partial.partial = {0};
  partial.reduction = Reduction::Sum;
  CHECK_FALSE(canReshard(mesh, whole, partial));
  CHECK(canReshard(mesh, partial, whole));
  ReshardPlanner planner(mesh, defaultCollectiveCost(mesh));
  CHECK(planner.cost({4}, 4, whole, partial) == std::numeric_limits<double>::infinity());
}
