// The bound on a reshard's bytes: counted element by element, and never more than what the planner's collectives send.
#include "dialects/dist/LeastBytes.h"
#include "dialects/dist/Reshard.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

using namespace tessera::dist;

namespace {

/// All shardings of a shape, partial over up to one axis.
std::vector<Sharding> shardings(const Mesh &mesh, llvm::ArrayRef<int64_t> shape) {
  std::vector<Sharding> found = {Sharding::replicated(int64_t(shape.size()))};
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    for (size_t i = 0, n = found.size(); i < n; ++i) {
      for (size_t d = 0; d < shape.size(); ++d) {
        Sharding cut = found[i];
        cut.dims[d].push_back(axis);
        if (Sharding::canCut(shape[d], mesh.size(cut.dims[d])))
          found.push_back(cut);
      }
      if (found[i].partial.empty()) {
        Sharding partial = found[i];
        partial.partial = {axis};
        partial.reduction = Reduction::Sum;
        found.push_back(partial);
      }
    }
  return found;
}

/// The elements of a matrix that a rank holds under a sharding.
std::set<std::pair<int64_t, int64_t>> elements(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &s,
                                               int64_t rank) {
  const auto at = s.offset(mesh, shape, rank), size = s.extent(mesh, shape, rank);
  std::set<std::pair<int64_t, int64_t>> held;
  for (int64_t i = at[0]; i < at[0] + size[0]; ++i)
    for (int64_t j = at[1]; j < at[1] + size[1]; ++j)
      held.emplace(i, j);
  return held;
}

/// The messages that the header counts, an element of one rank each.
double messages(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &from, const Sharding &to) {
  std::map<std::pair<int64_t, int64_t>, int64_t> wanted, missing;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    const auto held = elements(mesh, shape, from, rank);
    for (const auto &e : elements(mesh, shape, to, rank)) {
      ++wanted[e];
      missing[e] += !held.count(e);
    }
  }
  double sum = 0;
  for (const auto &[e, ranks] : wanted)
    sum += from.isPartial() ? double(mesh.size(from.partial) + ranks - 2) : double(missing[e]);
  return sum;
}

} // namespace

TEST_CASE("no reshard sends less than the bound, which counts the elements") {
  const std::vector<int64_t> shape = {8, 5};
  for (const char *text : {"a=2,b=2", "a=2,b=3", "a=4"}) {
    const Mesh mesh = llvm::cantFail(Mesh::parse(text));
    const std::vector<Sharding> all = shardings(mesh, shape);
    REQUIRE(all.size() > 3);
    int reached = 0;
    for (const Sharding &from : all)
      for (const Sharding &to : all) {
        INFO(text << ": " << from.str(mesh) << " to " << to.str(mesh));
        const std::optional<double> least = leastBytes(mesh, shape, 4, from, to);
        REQUIRE(least.has_value() == !to.isPartial());
        if (!least)
          continue;
        CHECK(*least == Approx(4 * messages(mesh, shape, from, to) / double(mesh.numRanks())));
        double sent = 0;
        for (const Collective &c : planReshard(mesh, shape, 4, from, to, defaultCollectiveCost(mesh)))
          sent += bytesSent(mesh, c, 4);
        CHECK(*least <= sent + 1e-9);
        reached += *least > 0 && *least == Approx(sent);
      }
    CHECK(reached > 0);
  }
}

TEST_CASE("single collectives need every byte that they send") {
  const Mesh mesh = llvm::cantFail(Mesh::parse("data=2,model=2"));
  const std::vector<int64_t> shape = {8, 6};
  auto cut = [&](AxisList rows, AxisList columns, AxisList partial = {}) {
    Sharding s = Sharding::replicated(2);
    s.dims[0] = rows;
    s.dims[1] = columns;
    s.partial = partial;
    s.reduction = partial.empty() ? Reduction::None : Reduction::Sum;
    return s;
  };
  auto least = [&](const Sharding &from, const Sharding &to) { return *leastBytes(mesh, shape, 4, from, to); };
  CHECK(least(cut({0}, {}), cut({}, {})) == 96);      // all-gather: the other half
  CHECK(least(cut({0}, {}), cut({}, {0})) == 48);     // all-to-all: the example of the header
  CHECK(least(cut({}, {}, {0}), cut({}, {})) == 192); // all-reduce of two: every element both ways
  CHECK(least(cut({}, {}, {0}), cut({0}, {})) == 48 * 2);
  CHECK(least(cut({}, {}), cut({0}, {1})) == 0);    // slices
  CHECK(least(cut({0}, {1}), cut({1}, {0})) == 24); // two of four ranks exchange their blocks of 12
}
