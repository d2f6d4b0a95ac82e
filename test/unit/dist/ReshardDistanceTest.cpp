//===- ReshardDistanceTest.cpp - reshards against the bytes that must be sent -------------------===//
//
// For every pair of shardings of a matrix on small meshes (axes in mesh order, something to send), the bytes that the
// planner's collectives send against a lower bound. The program prints the table.
//
// The bound for one element that d ranks want: without sums each of them that lacks it receives it. A sum of p terms
// takes p - 1 messages to one rank that holds a term and wants the sum, or p to one that only wants it, and d - 1 to
// the others. Some rank sends at least the mean of all that, and some rank receives at least what it lacks (a sum:
// all).
//
//===----------------------------------------------------------------------------------------------===//
#include "dialects/dist/exchange/Exchange.h"

#include "llvm/ADT/STLExtras.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <limits>

using namespace tessera::dist;

namespace {

/// Every sharding of a matrix whose axes cut dimensions in mesh order.
std::vector<Sharding> shardings(const Mesh &mesh) {
  std::vector<Sharding> all = {Sharding::replicated(2)};
  for (int axis = 0; axis < mesh.numAxes(); ++axis) {
    std::vector<Sharding> more;
    for (const Sharding &s : all) {
      more.push_back(s);
      for (int64_t d = 0; d < 2; ++d) {
        more.push_back(s);
        more.back().dims[size_t(d)].push_back(axis);
      }
      more.push_back(s);
      more.back().partial.push_back(axis);
      more.back().reduction = Reduction::Sum;
    }
    all = std::move(more);
  }
  return all;
}

struct Held {
  llvm::SmallVector<int64_t> offset, extent;
  bool has(int64_t row, int64_t column) const {
    return row >= offset[0] && row < offset[0] + extent[0] && column >= offset[1] && column < offset[1] + extent[1];
  }
};

std::vector<Held> holders(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &s) {
  std::vector<Held> held;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
    held.push_back({s.offset(mesh, shape, rank), s.extent(mesh, shape, rank)});
  return held;
}

/// The least elements that some rank must send or receive.
double leastElements(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &from, const Sharding &to) {
  const std::vector<Held> has = holders(mesh, shape, from), wants = holders(mesh, shape, to);
  const int64_t ranks = mesh.numRanks(), terms = mesh.size(from.partial) / mesh.size(to.partial);
  std::vector<int64_t> lacks(size_t(ranks), 0);
  int64_t messages = 0;
  for (int64_t row = 0; row < shape[0]; ++row)
    for (int64_t column = 0; column < shape[1]; ++column)
      // Ranks that hold a term of one sum that stays partial are apart from those that hold one of another.
      for (int64_t part = 0; part < mesh.size(to.partial); ++part) {
        int64_t want = 0, both = 0;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          if (!wants[size_t(rank)].has(row, column) || mesh.coordinate(rank, to.partial) != part)
            continue;
          const bool holds = has[size_t(rank)].has(row, column);
          ++want;
          both += holds;
          lacks[size_t(rank)] += terms > 1 || !holds;
        }
        messages += terms == 1 ? want - both : want - 1 + terms - (both > 0);
      }
  return std::max(double(*std::max_element(lacks.begin(), lacks.end())), double(messages) / double(ranks));
}

struct Distances {
  int64_t pairs = 0, above = 0, exchanges = 0;
  double sum = 0, worst = 0;
  double mean() const { return sum / double(pairs); }
};

Distances distances(const Mesh &mesh, bool withExchanges) {
  const Shape shape = {64, 64};
  const std::vector<Sharding> all = shardings(mesh);
  ReshardPlanner planner(mesh, [&, cost = defaultCollectiveCost(mesh)](const Collective &c, int64_t elementBytes) {
    if (c.kind == CollectiveKind::Exchange && !withExchanges)
      return std::numeric_limits<double>::infinity();
    return cost(c, elementBytes);
  });
  Distances result;
  for (const Sharding &from : all)
    for (const Sharding &to : all) {
      if (from == to || !canReshard(mesh, from, to))
        continue;
      const double least = 4 * leastElements(mesh, shape, from, to);
      double sent = 0;
      bool exchanges = false;
      for (const Collective &c : planner.plan(shape, 4, from, to)) {
        sent += bytesSent(mesh, c, 4);
        exchanges |= c.kind == CollectiveKind::Exchange;
      }
      if (least == 0) {
        CHECK(sent == 0);
        continue;
      }
      CHECK(sent >= least - 1e-9);
      const double distance = sent / least;
      ++result.pairs;
      result.above += distance > 1.001;
      result.exchanges += exchanges;
      result.sum += distance;
      result.worst = std::max(result.worst, distance);
    }
  return result;
}

} // namespace

TEST_CASE("reshards send little more than they must") {
  struct Row {
    const char *mesh;
    int64_t pairs;
    double mean, worst; // at most
  };
  std::printf(
      "| mesh | pairs | without exchanges: above the bound | mean | worst | with: above the bound | mean | worst "
      "| exchanged |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const Row &row : {Row{"a=2,b=2", 135, 1.05, 1.5}, Row{"a=2,b=4", 135, 1.05, 1.5}, Row{"a=4,b=2", 135, 1.05, 1.5},
                         Row{"a=4,b=4", 135, 1.05, 1.5}, Row{"a=2,b=2,c=2", 2013, 1.065, 1.5}}) {
    const Mesh mesh = llvm::cantFail(Mesh::parse(row.mesh));
    const Distances before = distances(mesh, false), d = distances(mesh, true);
    std::printf("| %s | %d | %d | %.3f | %.2f | %d | %.3f | %.2f | %d |\n", row.mesh, int(d.pairs), int(before.above),
                before.mean(), before.worst, int(d.above), d.mean(), d.worst, int(d.exchanges));
    INFO(row.mesh);
    CHECK(d.pairs == row.pairs);
    CHECK(d.mean() <= row.mean);
    CHECK(d.worst <= row.worst + 1e-9);
    CHECK(d.mean() < before.mean());
  }
}
