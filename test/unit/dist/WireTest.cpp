// In what numbers sums are sent: the text, what becomes of a sum, and where planners take it.
#include "dialects/dist/Text.h"
#include "dialects/dist/wire/WirePlanner.h"

#include <catch2/catch.hpp>

#include <limits>

using namespace tessera::dist;

namespace {

Wire wire(const char *text) { return llvm::cantFail(Wire::parse(text)); }

Sharding sharding(const Mesh &mesh, const char *text) { return llvm::cantFail(parseSharding(text, mesh)); }

} // namespace

TEST_CASE("a wire is read and written") {
  for (const char *text : {"bf16", "f16", "f16:always", "int8:block=64", "int8:block=64,always", "powersgd:rank=2",
                           "powersgd:rank=128,always"})
    CHECK(wire(text).str() == text);
  CHECK(wire("int8") == wire("int8:block=256"));
  CHECK(wire("int8:always").block == 256);
  CHECK(wire("powersgd") == wire("powersgd:rank=4"));
  CHECK(wire("powersgd:always").rank == 4);
  CHECK(wire("powersgd:rank=2").name() == "factors of rank 2");
  CHECK(!Wire());
  CHECK(Wire().str().empty());
  for (const char *text : {"", "bf8", "bf16:", "bf16:block=8", "int8:block=7", "int8:block=x", "int8:block=65537",
                           "int8:,", "f16:always,", "int8:rank=2", "powersgd:rank=0", "powersgd:rank=129",
                           "powersgd:rank=-1", "powersgd:rank=two", "powersgd:block=8", "powersgd:", "power"}) {
    INFO(text);
    llvm::Expected<Wire> read = Wire::parse(text);
    CHECK(!read);
    llvm::consumeError(read.takeError());
  }
}

TEST_CASE("a sum with a wire is sent in as few bytes as it says") {
  const Mesh mesh = llvm::cantFail(Mesh::parse("data=4"));
  Collective sum;
  sum.kind = CollectiveKind::AllReduce;
  sum.axes = {0};
  sum.reduction = Reduction::Sum;
  sum.localIn = sum.localOut = {64, 64};
  const double whole = bytesSent(mesh, sum, 4);
  for (auto [text, share] : {std::pair("bf16", 0.5), std::pair("f16", 0.5), std::pair("int8:block=64", 17.0 / 64)}) {
    sum.wire = wire(text);
    CHECK(bytesSent(mesh, sum, 4) == whole * share);
    double parts = 0;
    const std::vector<SentPart> sent = sentBy(mesh, sum, 4);
    CHECK(sent.size() == (sum.wire.scales() > 0 ? 4 : 2));
    for (const SentPart &part : sent)
      parts += bytesSent(mesh, part.collective, part.elementBytes);
    CHECK(parts == whole * share);
  }
  // A reduce-scatter sends no sum back.
  sum.kind = CollectiveKind::ReduceScatter;
  sum.dim = 0;
  sum.localOut = {16, 64};
  sum.wire = wire("bf16");
  const std::vector<SentPart> sent = sentBy(mesh, sum, 4);
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].collective.kind == CollectiveKind::AllToAll);
}

TEST_CASE("a sum of matrices is sent as two factors") {
  const Mesh mesh = llvm::cantFail(Mesh::parse("data=4"));
  Collective sum;
  sum.kind = CollectiveKind::AllReduce;
  sum.axes = {0};
  sum.reduction = Reduction::Sum;
  sum.localIn = sum.localOut = {64, 8, 4}; // a matrix [64, 32]
  sum.wire = wire("powersgd:rank=3");
  const double bytes = 2 * 3.0 / 4 * 4 * 3 * (64 + 32);
  for (CollectiveKind kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter}) { // a part needs all of both
    sum.kind = kind;
    CHECK(bytesSent(mesh, sum, 4) == bytes);
    const std::vector<SentPart> sent = sentBy(mesh, sum, 4);
    REQUIRE(sent.size() == 2);
    CHECK(sent[0].collective.localIn == Shape{64, 3});
    CHECK(sent[1].collective.localIn == Shape{32, 3});
    double parts = 0;
    for (const SentPart &part : sent)
      parts += bytesSent(mesh, part.collective, part.elementBytes);
    CHECK(parts == bytes);
  }
}

TEST_CASE("only matrices of which factors are smaller are sent so, whatever is asked for") {
  const Mesh mesh = llvm::cantFail(Mesh::parse("data=2"));
  WirePlanner planner(mesh, defaultCollectiveCost(mesh));
  auto sentSo = [&](llvm::ArrayRef<int64_t> shape, bool cut = false) {
    Sharding from = Sharding::replicated(int64_t(shape.size())), to = from;
    from.partial = {0};
    from.reduction = Reduction::Sum;
    if (cut)
      to.dims[0] = {0};
    const std::vector<Collective> plan = planner.plan(shape, 4, from, to, wire("powersgd:rank=4,always"));
    REQUIRE(!plan.empty());
    return bool(plan[0].wire);
  };
  CHECK(sentSo({64, 64}));
  CHECK(sentSo({9, 8})); // 4 (9 + 8) = 68 of 72
  CHECK(!sentSo({8, 8}));
  CHECK(!sentSo({4096}));
  CHECK(!sentSo({4096, 1}));
  CHECK(!sentSo({1, 4096}));
  CHECK(!sentSo({3, 4096}));
  CHECK(sentSo({8, 16, 16}));
  // A reduce-scatter sends half as much, so factors must be smaller than a half.
  CHECK(sentSo({64, 64}, true));
  CHECK(!sentSo({10, 10}, true));
}

TEST_CASE("only sums that pay have the wire, and prices are those of what is planned") {
  const Mesh mesh = llvm::cantFail(Mesh::parse("data=2,model=2"));
  const CollectiveCost cost = defaultCollectiveCost(mesh);
  const int64_t elements = 1024;
  WirePlanner planner(mesh, cost, {.narrows = [](const Collective &sum, int64_t bytes) {
                        return sum.wire.always || sum.localIn[0] * bytes > 4 * elements / 2;
                      }});
  const Sharding partial = sharding(mesh, "[-] sum(data)"), whole = sharding(mesh, "[-]"),
                 cut = sharding(mesh, "[data]");
  for (const Sharding &to : {whole, cut}) {
    const std::vector<Collective> plan = planner.plan({elements}, 4, partial, to, wire("bf16"));
    REQUIRE(plan.size() == 1);
    CHECK(plan[0].wire == wire("bf16"));
    CHECK(planner.cost({elements}, 4, partial, to, wire("bf16")) == cost(plan[0], 4));
    CHECK(planner.cost({elements}, 4, partial, to, wire("bf16")) < planner.cost({elements}, 4, partial, to));
    CHECK(!planner.plan({elements}, 4, partial, to)[0].wire);
    CHECK(!planner.plan({elements / 4}, 4, partial, to, wire("bf16"))[0].wire);
    CHECK(planner.plan({elements / 4}, 4, partial, to, wire("bf16:always"))[0].wire);
  }
  // Nothing but sums has one.
  CHECK(!planner.plan({elements}, 4, cut, whole, wire("bf16:always"))[0].wire);
  CHECK(!planner.plan({elements}, 4, sharding(mesh, "[-] max(data)"), whole, wire("bf16:always"))[0].wire);
}

TEST_CASE(
    "a sum or gather over several axes stays one collective unless several are faster as members of messages, too") {
  const Mesh mesh = llvm::cantFail(Mesh::parse("a=2,b=2,c=1"));
  // Small groups start up in less time.
  const CollectiveCost cost = [&](const Collective &c, int64_t bytes) {
    const auto ranks = double(mesh.size(c.axes));
    return 1e4 * ranks * ranks + bytesSent(mesh, c, bytes);
  };
  const CollectiveCost joined = [&](const Collective &c, int64_t bytes) { return bytesSent(mesh, c, bytes); };
  const CollectiveCost slow = [&](const Collective &c, int64_t bytes) {
    return double(mesh.size(c.axes)) * bytesSent(mesh, c, bytes);
  };
  const Shape shape = {64, 64};
  const Sharding whole = sharding(mesh, "[-, -]"), all = sharding(mesh, "[-, -] sum(a,b)"),
                 withSingle = sharding(mesh, "[-, -] sum(a,b,c)"), one = sharding(mesh, "[-, -] sum(a)"),
                 cut = sharding(mesh, "[a+b, -]");
  WirePlanner alone(mesh, cost), inMessages(mesh, cost, {.joined = joined}), slowTogether(mesh, cost, {.joined = slow});
  for (WirePlanner *planner : {&alone, &inMessages, &slowTogether}) {
    const size_t steps = planner == &inMessages ? 1 : 2;
    for (const Sharding &from : {all, withSingle}) {
      const std::vector<Collective> plan = planner->plan(shape, 4, from, whole);
      REQUIRE(plan.size() == steps);
      CHECK(plan[0].kind == CollectiveKind::AllReduce);
      CHECK(plan[0].axes.size() == 3 - steps);
      CHECK(plan.back().result == whole);
      double sum = 0;
      for (const Collective &c : plan)
        sum += cost(c, 4);
      CHECK(planner->cost(shape, 4, from, whole) == sum);
    }
    CHECK(planner->plan(shape, 4, all, one).size() == 1);
    for (auto [kind, from, to] : {std::tuple(CollectiveKind::ReduceScatter, all, cut),
                                  {CollectiveKind::ReduceScatter, all, sharding(mesh, "[-, b+a]")},
                                  {CollectiveKind::AllGather, cut, whole},
                                  {CollectiveKind::AllGather, sharding(mesh, "[-, b+a]"), whole}}) {
      INFO(from.str(mesh) << " " << to.str(mesh));
      const std::vector<Collective> plan = planner->plan(shape, 4, from, to);
      REQUIRE(plan.size() == steps);
      CHECK(plan[0].kind == kind);
      if (steps == 1) {
        CHECK(plan[0].axes == (kind == CollectiveKind::AllGather ? from : to).dims[size_t(plan[0].dim)].axes());
        CHECK(plan[0].result == to);
        CHECK(plan[0].localIn == from.localShape(mesh, shape));
        CHECK(plan[0].localOut == to.localShape(mesh, shape));
      }
    }
    // Padding is joined axis by axis, and what changes more is planned as ever.
    const Shape padded = {6, 64};
    CHECK(planner->plan(padded, 4, cut, whole).size() == alone.plan(padded, 4, cut, whole).size());
    CHECK(planner->plan(shape, 4, cut, sharding(mesh, "[-, a+b]")).size() ==
          alone.plan(shape, 4, cut, sharding(mesh, "[-, a+b]")).size());
  }
  // In leaf order a sum over all axes is none.
  WirePlanner ordered(mesh,
                      [&](const Collective &c, int64_t bytes) {
                        return c.axes.size() > 1 ? std::numeric_limits<double>::infinity() : cost(c, bytes);
                      },
                      {.joined = joined});
  CHECK(ordered.plan(shape, 4, all, whole).size() == 2);
}
