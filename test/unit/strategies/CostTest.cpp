#include "Programs.h"
#include "dialects/dist/exchange/Exchange.h"
#include "dialects/dist/leaves/Leaves.h"
#include "strategies/cost/CostModel.h"
#include "strategies/cost/LocalCost.h"

#include "llvm/Support/FormatVariadic.h"

using namespace tessera::strategies;
namespace dist = tessera::dist;
namespace graph = tessera::graph;

static Topology simple() {
  return llvm::cantFail(Topology::parse(R"({"devices": 4, "flops": {"f32": 1e9}, "memory_bandwidth": 1e9,
    "memory": 1000, "links": [{"devices": 4, "latency": 1e-6, "bandwidth": 1e9}]})",
                                        "simple"));
}

static Sharding sharding(std::initializer_list<AxisList> dims) {
  Sharding s;
  s.dims.assign(dims.begin(), dims.end());
  return s;
}

TEST_CASE("collectives cost latency per step and time per byte") {
  CostModel model(llvm::cantFail(Mesh::parse("data=4")), simple());
  Sharding cut = sharding({{0}, {}}), whole = sharding({{}, {}});
  // all-gather: 3 steps of 1 us, 3 * 1024 bytes at 1 byte per ns.
  CHECK(model.reshard({4, 256}, 4, cut, whole) == 3000 + 3 * 1024);
  CHECK(model.reshard({4, 256}, 4, cut, cut) == 0);
  // slice: read and write 1024 bytes.
  CHECK(model.reshard({4, 256}, 4, whole, cut) == 2048);
  // ring all-reduce of 64 KiB: 6 steps, 1.5 times the data; a tree (4 steps, 4 times the data) for
  // 4 bytes.
  Sharding partial = whole;
  partial.partial = {0};
  partial.reduction = dist::Reduction::Sum;
  CHECK(model.reshard({64, 256}, 4, partial, whole) == 6000 + 98304);
  CHECK(model.reshard({1, 1}, 4, partial, whole) == 4000 + 16);
}

TEST_CASE("cost grows with size and shrinks with shards") {
  CostModel model(llvm::cantFail(Mesh::parse("a=2,b=2")), simple());
  std::vector<Sharding> all = {sharding({{}, {}}),   sharding({{0}, {}}),    sharding({{}, {1}}),
                               sharding({{0}, {1}}), sharding({{0, 1}, {}}), sharding({{1}, {0}})};
  for (const Sharding &from : all)
    for (const Sharding &to : all) {
      Cost last = -1;
      for (int64_t n : {4, 16, 64, 256}) {
        Cost c = model.reshard({n, n}, 4, from, to);
        CHECK(c >= last);
        CHECK((c == 0) == (from == to));
        last = c;
        // The cost model prices the collectives that the planner lists.
        Cost sum = 0;
        for (const dist::Collective &step : model.planReshard({n, n}, 4, from, to))
          sum += model.collective(step, 4);
        CHECK(sum == c);
      }
    }

  Module m(kMlp);
  Program program = llvm::cantFail(Program::analyse(m.func("train")));
  const OperatorInfo *fc1 = nullptr;
  for (const OperatorInfo &info : program.operators)
    if (info.name == "fc1")
      fc1 = &info;
  REQUIRE(fc1);
  Strategy whole, half, quarter;
  whole.factors.resize(3);
  half = quarter = whole;
  half.factors[0] = {0};
  quarter.factors[0] = {0, 1};
  CHECK(model.compute(*fc1->cls, whole) > model.compute(*fc1->cls, half));
  CHECK(model.compute(*fc1->cls, half) > model.compute(*fc1->cls, quarter));
  // Roofline: 2 * 16 * 8 * 12 flops against (16*8 + 8*12 + 16*12) * 4 bytes, both at 1 per ns.
  CHECK(model.compute(*fc1->cls, whole) == std::max(2 * 16 * 8 * 12, (128 + 96 + 192) * 4));
}

TEST_CASE("no reshard is longer than a way round") {
  Topology racks = llvm::cantFail(Topology::parse(
      R"({"devices": 4, "flops": {"f32": 1e9}, "memory_bandwidth": 1e10, "memory": 1000,
    "links": [{"devices": 2, "latency": 1e-6, "bandwidth": 1e9}, {"devices": 4, "latency": 1e-5, "bandwidth": 1e8}]})",
      "racks"));
  std::vector<Sharding> all;
  for (const AxisList &rows : {AxisList{}, {0}, {1}, {0, 1}, {1, 0}})
    for (const AxisList &columns : {AxisList{}, {0}, {1}, {0, 1}, {1, 0}})
      for (const AxisList &partial : {AxisList{}, {0}, {1}, {0, 1}}) {
        std::vector<int> uses(2);
        for (const AxisList *axes : {&rows, &columns, &partial})
          for (int axis : *axes)
            ++uses[axis];
        if (uses[0] > 1 || uses[1] > 1)
          continue;
        all.push_back(sharding({rows, columns}));
        all.back().partial = partial;
        all.back().reduction = partial.empty() ? dist::Reduction::None : dist::Reduction::Sum;
      }
  auto addsPartial = [](const Sharding &to, const Sharding &from) {
    return !llvm::all_of(to.partial, [&](int axis) { return llvm::is_contained(from.partial, axis); });
  };
  for (const Topology &topology : {simple(), racks})
    for (Shape shape : {Shape{4, 4}, Shape{512, 256}, Shape{7, 1030}}) { // 7 and 1030 leave padding
      CostModel model(llvm::cantFail(Mesh::parse("a=2,b=2")), topology);
      for (const Sharding &from : all)
        for (const Sharding &via : all)
          for (const Sharding &to : all) {
            if (addsPartial(via, from) || addsPartial(to, via)) // what is reduced stays reduced
              continue;
            INFO(topology.name << " " << from.str(model.mesh()) << " " << via.str(model.mesh()) << " "
                               << to.str(model.mesh()) << " " << shape[0] << "x" << shape[1]);
            // A sum or gather over both axes is one collective for what it takes as a member of a message.
            const std::vector<dist::Collective> plan = model.planReshard(shape, 4, from, to);
            const bool isMember = plan.size() == 1 && plan[0].axes.size() == 2 &&
                                  graph::membershipOf(plan[0].kind) != graph::Membership::None;
            auto time = [&](const Sharding &from, const Sharding &to) {
              Cost sum = 0;
              for (const dist::Collective &c : model.planReshard(shape, 4, from, to))
                sum += isMember ? model.leastCollective(c, 4) : model.collective(c, 4);
              return sum;
            };
            // A nanosecond for each rounding of the parts.
            REQUIRE(time(from, to) <= time(from, via) + time(via, to) + 8);
          }
    }
}

TEST_CASE("small sums over several axes are of the group of large ones") {
  CostModel model(llvm::cantFail(Mesh::parse("a=8,b=8")), llvm::cantFail(Topology::load("8x8xh100")));
  for (const Shape &shape : {Shape{16, 64}, Shape{4096, 1024}}) {
    const Sharding whole = sharding({{}, {}});
    Sharding all = whole, one = whole;
    all.partial = {0, 1};
    one.partial = {0};
    all.reduction = one.reduction = dist::Reduction::Sum;
    const std::vector<dist::Collective> plan = model.planReshard(shape, 4, all, whole);
    REQUIRE(plan.size() == 1);
    CHECK(plan[0].kind == dist::CollectiveKind::AllReduce);
    CHECK(plan[0].axes == AxisList{0, 1});
    CHECK(model.reshard(shape, 4, all, whole) == model.collective(plan[0], 4));
    // Alone the small one would be faster axis by axis.
    if (shape.front() == 16) {
      CHECK(model.reshard(shape, 4, all, one) + model.reshard(shape, 4, one, whole) <
            model.reshard(shape, 4, all, whole));
      const CostModel alone(model.mesh(), model.topology(), {}, false, /*joins=*/false);
      CHECK(alone.planReshard(shape, 4, all, whole).size() == 2);
    }
  }
}

TEST_CASE("a measured kernel replaces the estimate") {
  ProfileTable table = llvm::cantFail(
      ProfileTable::parse(R"({"kernels": {"graph.matmul 16x8,8x12->16x12 f32": 5e-6}})", "profile.json"));
  CostModel model(Mesh(), simple(), table);
  Module m(kMlp);
  Program program = llvm::cantFail(Program::analyse(m.func("train")));
  Strategy whole;
  whole.factors.resize(3);
  for (const OperatorInfo &info : program.operators)
    if (info.name == "fc1")
      CHECK(model.compute(*info.cls, whole) == 5000);
  auto bad = ProfileTable::parse(R"({"kernels": {"x": -1}})", "profile.json");
  CHECK(!bad);
  llvm::consumeError(bad.takeError());
}

TEST_CASE("loops and operators compute at their own rates") {
  Topology machine = simple();
  machine.loopFlops = 1e8;
  CHECK(CostModel(Mesh(), machine).loopKernel(1000, 32, 0) == 10000);
  CHECK(CostModel(Mesh(), simple()).loopKernel(1000, 32, 0) == 1000);
  Module m(kMlp);
  Program program = llvm::cantFail(Program::analyse(m.func("train")));
  Strategy whole;
  whole.factors.resize(3);
  for (const OperatorInfo &info : program.operators)
    if (info.name == "fc1") {
      const Cost before = CostModel(Mesh(), machine).compute(*info.cls, whole);
      machine.operators["graph.matmul"] = machine.rate(32) / 4;
      CHECK(CostModel(Mesh(), machine).compute(*info.cls, whole) == 4 * before);
    }
}

TEST_CASE("measured loops replace the memory's bandwidth") {
  ProfileTable table = llvm::cantFail(
      ProfileTable::parse(R"({"kernels": {}, "loops": [[1000, 2e-6], [3000, 4e-6], [6000, 3e-6]]})", "profile.json"));
  CHECK(*table.loop(10, 0) == 2e-6);
  CHECK(*table.loop(2000, 0) == Approx(3e-6));
  CHECK(*table.loop(2000, 5e6) == Approx(3e-6)); // nothing is known of operations
  CHECK(*table.loop(6000, 0) == 4e-6);           // not 3e-6
  CHECK(*table.loop(12000, 0) == Approx(8e-6));
  CHECK(!ProfileTable().loop(1000, 0));
  CHECK(!table.empty());
  CHECK(llvm::cantFail(ProfileTable::parse(table.toJson(), "again")).toJson() == table.toJson());
  const Topology machine = simple();
  const CostModel model(Mesh(), machine, table);
  CHECK(model.loopKernel(0, 32, 2000) == 3000); // with its launch
  for (const char *bad : {R"({"kernels": {}, "loops": 3})", R"({"kernels": {}, "loops": [[0, 1e-6]]})",
                          R"({"kernels": {}, "loops": [[100, -1]]})"}) {
    auto refused = ProfileTable::parse(bad, "profile.json");
    REQUIRE(!refused);
    CHECK(llvm::toString(refused.takeError()) ==
          "profile profile.json: field 'loops' must be a list of [bytes, seconds]");
  }
}

TEST_CASE("a core computes what a loop computes, a device does so while it waits for memory") {
  Topology machine = simple();
  const double seconds = 1e-5, operations = seconds * machine.rate(32);
  for (bool shared : {false, true}) {
    machine.shared = shared;
    const CostModel model(Mesh(), machine);
    // On a shared machine the one rank has all four cores.
    const Cost memory = model.loopKernel(0, 32, 2000), computing = model.loopKernel(operations, 32, 0);
    CHECK(model.loopKernel(operations, 32, 2000) ==
          (shared ? memory + computing - model.launch() : std::max(memory, computing)));
  }
}

TEST_CASE("operations of measured loops take their time, those of other kernels do not") {
  const ProfileTable table = llvm::cantFail(ProfileTable::parse(
      R"({"kernels": {}, "loops": [[1000, 2e-6], [3000, 4e-6]], "loop_operation": 3e-9})", "profile.json"));
  CHECK(*table.loop(2000, 1000) == Approx(6e-6));
  CHECK(llvm::cantFail(ProfileTable::parse(table.toJson(), "again")).toJson() == table.toJson());
  CHECK(CostModel(Mesh(), simple(), table).loopKernel(1000, 32, 2000) == 6000);
  auto refused = ProfileTable::parse(R"({"kernels": {}, "loop_operation": -1})", "profile.json");
  REQUIRE(!refused);
  CHECK(llvm::toString(refused.takeError()) ==
        "profile profile.json: field 'loop_operation' must be a number of seconds");
  // An exponential counts more than a change of sign, and a product that was not measured is no loop.
  Module m(R"(func.func @infer(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>)
      -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x4xf32>) {
      %n = graph.neg %x {graph.name = "n"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %e = graph.exp %x {graph.name = "e"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %p = graph.matmul %x, %w {graph.name = "p", transpose_a = false, transpose_b = false}
          : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
      return %n, %e, %p : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x4xf32>
    })");
  Program program = llvm::cantFail(Program::analyse(m.func("infer")));
  const CostModel with(Mesh(), simple(), table);
  std::map<std::string, Cost> cost;
  for (const OperatorInfo &info : program.operators) {
    dist::Strategy whole;
    whole.factors.resize(info.cls->rule.factors.size());
    cost[info.name] = with.compute(*info.cls, whole);
  }
  CHECK(cost.at("e") - cost.at("n") == Cost(15 * 8 * 16 * 3));
  CHECK(cost.at("p") < 6000);
}

TEST_CASE("a loop costs what it computes again") {
  auto kernel = [](llvm::StringRef erf) {
    Module m(llvm::formatv(R"(func.func @infer(%x: tensor<8x16xf32>, %g: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %e = graph.erf %x {{graph.name = "e"{0}} : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %y = graph.mul %e, %g {{graph.name = "y"} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
      return %y : tensor<8x16xf32>
    })",
                           erf)
                 .str());
    const LocalCost cost = llvm::cantFail(LocalCost::of(m.func("infer"), CostModel(Mesh(), simple())));
    Cost sum = 0;
    for (Cost of : cost.kernels)
      sum += of;
    return sum;
  };
  // The same loop either way: its arithmetic takes longer than its memory.
  CHECK(kernel("") == Cost(17 * 8 * 16));
  CHECK(kernel(", graph.repeats") == kernel(""));
}

TEST_CASE("attention in 16 bits is priced as that, with statistics and masks in float32") {
  Module m(R"(func.func @train(%q: tensor<2x3x5x4xbf16>, %e: tensor<2x3x5x4xbf16>, %s: tensor<2x3x5xf32>,
                               %b: tensor<5x5xf32>)
      -> (tensor<2x3x5x4xbf16>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) {
    %y = graph.attention %q, %q, %q, %b {graph.name = "forward", scale = 0.5 : f64}
      : (tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<5x5xf32>) -> tensor<2x3x5x4xbf16>
    %dq, %dk, %dv = graph.attention_grad %e, %q, %q, %q, %y, %s, %b {graph.name = "gradient", scale = 0.5 : f64, wide}
      : (tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>,
         tensor<2x3x5xf32>, tensor<5x5xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>)
    return %y, %dq, %dk, %dv : tensor<2x3x5x4xbf16>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>
  })");
  Program program = llvm::cantFail(Program::analyse(m.func("train")));
  for (const OperatorInfo &info : program.operators)
    CHECK(info.cls->elementBits == 16);
}

TEST_CASE("an operator with leaves costs its leaves, the copies that they read, and the loop that adds") {
  Module m(R"(func.func @train(%i: tensor<16xi32>, %dy: tensor<3x16x4xf32>, %x: tensor<16x8xf32>,
                               %v: tensor<8x12xf32>) -> (tensor<3x5x4xf32>, tensor<16x12xf32>) {
    %dt = graph.scatter_add %i, %dy {graph.name = "table", axis = 1 : i64, size = 5 : i64}
      : (tensor<16xi32>, tensor<3x16x4xf32>) -> tensor<3x5x4xf32>
    %y = graph.matmul %x, %v {graph.name = "product"} : (tensor<16x8xf32>, tensor<8x12xf32>) -> tensor<16x12xf32>
    return %dt, %y : tensor<3x5x4xf32>, tensor<16x12xf32>
  })");
  dist::setLeaves(*m.module, 4);
  Program program = llvm::cantFail(Program::analyse(m.func("train")));
  CostModel model(Mesh(), simple());
  auto cost = [&](llvm::StringRef name) {
    const auto info = llvm::find_if(program.operators, [&](const OperatorInfo &i) { return i.name == name; });
    REQUIRE(info != program.operators.end());
    Strategy whole;
    whole.factors.resize(info->cls->rule.factors.size());
    return model.compute(*info->cls, whole);
  };
  // 4 leaves of 4 of the 16 indices. Each reads its indices where they lie and a copy of its part of dy, which is read
  // and written, and writes a result, at one byte a ns. The loop reads 4 results and writes one.
  const Cost indices = 4 * 4, part = 3 * 4 * 4 * 4, result = 3 * 5 * 4 * 4;
  CHECK(cost("table") == 4 * (indices + part + result) + 4 * 2 * part + (4 + 1) * result);
  // A product adds its leaves itself.
  CHECK(cost("product") == 2 * 16 * 8 * 12);
}

TEST_CASE("collectives over two kinds of links use the fast one first") {
  Topology t = llvm::cantFail(Topology::parse(
      R"({"devices": 8, "flops": {"f32": 1e9}, "memory_bandwidth": 1e9, "memory": 1000,
    "links": [{"devices": 4, "latency": 0, "bandwidth": 1e9}, {"devices": 8, "latency": 0, "bandwidth": 1e8}]})",
      "two"));
  CostModel model(llvm::cantFail(Mesh::parse("node=2,data=4")), t);
  Sharding whole = sharding({{}, {}}), cut = sharding({{0, 1}, {}}), partial = whole;
  partial.partial = {0, 1};
  partial.reduction = dist::Reduction::Sum;
  // 4096 bytes: inside 2 * 3/4 * 4096 at 1 ns a byte, between 2 * 1/2 * 1024 at 10 ns a byte.
  CHECK(model.reshard({8, 128}, 4, partial, whole) == 6144 + 10240);
  // An all-gather takes 512 bytes from the other machine and then 3 * 1024 inside.
  CHECK(model.reshard({8, 128}, 4, cut, whole) == 5120 + 3072);
  // It costs less than a ring over the slow link, 2 * 7/8 * 4096 at 10 ns.
  CHECK(model.reshard({8, 128}, 4, partial, whole) < 71680);
}

TEST_CASE("an exchange costs what its fullest rank sends or receives, message by message") {
  Topology pairs = llvm::cantFail(Topology::parse(R"({"devices": 4, "flops": {"f32": 1e9}, "memory_bandwidth": 1e9,
    "memory": 1000, "links": [{"devices": 2, "latency": 1e-6, "bandwidth": 4e9},
                              {"devices": 4, "latency": 1e-5, "bandwidth": 1e9}]})",
                                                  "pairs"));
  CostModel model(llvm::cantFail(Mesh::parse("a=2,b=2")), pairs);
  auto above = [](int64_t ns) { return (ns * 257 + 255) / 256; };
  auto cost = [&](const Sharding &from, const Sharding &to) {
    return model.collective(dist::makeExchange(model.mesh(), {8, 8}, from, to), 4);
  };
  // Ranks 1 and 2 swap their two rows of 8 numbers over the slow link; the others keep theirs.
  CHECK(cost(sharding({{0, 1}, {}}), sharding({{1, 0}, {}})) == above(10000 + 64));
  // Inside a pair: half of 4 rows of 8 numbers.
  CHECK(cost(sharding({{1}, {}}), sharding({{}, {1}})) == above(1000 + 64 / 4));
  // One message of 2 x 2 numbers inside the pair, and two over the slow link.
  CHECK(cost(sharding({{0, 1}, {}}), sharding({{}, {0, 1}})) == above(1000 + 16 / 4 + 2 * (10000 + 16)));
  // A sum over a, paid into quarters of the rows: the other term of two rows comes from the other pair.
  Sharding sum = sharding({{}, {}});
  sum.partial = {0};
  sum.reduction = dist::Reduction::Sum;
  CHECK(cost(sum, sharding({{0, 1}, {}})) == above(10000 + 64));
}

TEST_CASE("collectives delay kernels beside them by what the machine says, or by what was measured") {
  Mesh mesh = llvm::cantFail(Mesh::parse("data=8"));
  Topology device = simple();
  device.devices = 8;
  device.beside.slowdown = 0.3;
  CHECK(CostModel(mesh, device).workBeside(1e6, 5000) == 0.3);

  Topology host = simple(); // 8 ranks share 4 cores
  host.shared = true;
  // 20 us, and 8 passes of 1 byte per ns, with half a core.
  CHECK(CostModel(mesh, host).workBeside(1000, 1e6) == Approx(2 * (20e3 + 8 * 1000) / 1e6));
  CHECK(CostModel(mesh, host).workBeside(1e6, 1e6) == 1); // never more than the collective takes
  CHECK(CostModel(mesh, host).workBeside(0, 0) == 1);
  host.beside.handOver = 5e-6;
  host.beside.perByte = 3e-9;
  CHECK(CostModel(mesh, host).workBeside(1000, 1e6) == Approx(2 * (5e3 + 3 * 1000) / 1e6));
  ProfileTable measured =
      llvm::cantFail(ProfileTable::parse(R"({"kernels": {}, "beside": {"hand_over": 1e-6, "per_byte": 1e-9}})", "p"));
  CHECK(CostModel(mesh, host, measured).workBeside(1000, 1e6) == Approx(2 * (1e3 + 1000) / 1e6));
  CHECK(CostModel(mesh, device, measured).workBeside(1000, 1e6) == 0.3); // what was measured is of cores
  ProfileTable again = llvm::cantFail(ProfileTable::parse(measured.toJson(), "p"));
  REQUIRE(again.beside());
  CHECK(again.beside()->handOver == 1e-6);
  CHECK(again.beside()->perByte == 1e-9);
}

TEST_CASE("a sum of factors costs its two messages and what makes them, and pays over slow links") {
  auto model = [](const char *bandwidth) {
    const std::string text = std::string(R"({"devices": 4, "flops": {"f32": 1e9}, "memory_bandwidth": 1e9,
      "memory": 1000, "links": [{"devices": 4, "latency": 1e-6, "bandwidth": )") +
                             bandwidth + "}]}";
    return CostModel(llvm::cantFail(Mesh::parse("data=4")), llvm::cantFail(Topology::parse(text, "linked")));
  };
  const CostModel slow = model("1e7"), fast = model("1e9");
  dist::Collective sum;
  sum.kind = dist::CollectiveKind::AllReduce;
  sum.axes = {0};
  sum.reduction = dist::Reduction::Sum;
  sum.localIn = sum.localOut = {512, 16, 32};
  sum.wire = llvm::cantFail(dist::Wire::parse("powersgd:rank=2"));
  for (const CostModel *m : {&slow, &fast}) {
    Cost messages = 0;
    for (const dist::SentPart &part : dist::sentBy(m->mesh(), sum, 4))
      messages += m->collective(part.collective, part.elementBytes);
    CHECK(m->collective(sum, 4) > messages + 10 * 4 * 512 * 512); // that many bytes pass through memory at least
    CHECK(m->leastCollective(sum, 4) <= messages);
  }
  CHECK(slow.narrows(sum, 4));
  CHECK(!fast.narrows(sum, 4));
  sum.wire.always = true;
  CHECK(fast.narrows(sum, 4));
}

TEST_CASE("a measured collective replaces the formula and never costs less for more") {
  ProfileTable table = llvm::cantFail(ProfileTable::parse(
      R"({"kernels": {}, "collectives": {"all-reduce 4": [[1000, 1e-6], [3000, 5e-6], [2000, 3e-6], [4000, 4e-6]]}})",
      "profile.json"));
  CHECK(*table.collective("all-reduce", 4, 10) == 1e-6);
  CHECK(*table.collective("all-reduce", 4, 1500) == Approx(2e-6));
  CHECK(*table.collective("all-reduce", 4, 4000) == 5e-6); // not 4e-6
  CHECK(*table.collective("all-reduce", 4, 8000) == 10e-6);
  CHECK(!table.collective("all-reduce", 2, 1000));
  CHECK(!table.collective("all-gather", 4, 1000));
  // A profile that is written is read as it was.
  ProfileTable again = llvm::cantFail(ProfileTable::parse(table.toJson(), "again"));
  CHECK(again.toJson() == table.toJson());
  CostModel model(llvm::cantFail(Mesh::parse("data=4")), simple(), table);
  Sharding whole = sharding({{}}), partial = whole;
  partial.partial = {0};
  partial.reduction = dist::Reduction::Sum;
  CHECK(model.reshard({500}, 4, partial, whole) == 3000);
}

TEST_CASE("no message takes less than what remains of its members") {
  const Mesh mesh = llvm::cantFail(Mesh::parse("data=4,model=4"));
  ProfileTable measured;
  for (auto [bytes, seconds] : {std::pair(4096.0, 20e-6), {65536.0, 50e-6}, {1048576.0, 600e-6}})
    measured.addCollective("all-reduce", 4, bytes, seconds);
  mlir::MLIRContext context;
  const mlir::Type f32 = mlir::Builder(&context).getF32Type();
  for (const char *name : {"8xh100", "2x8xv100", "cpu", "4xcpu"})
    for (const ProfileTable &profile : {ProfileTable(), measured}) {
      const CostModel model(mesh, llvm::cantFail(Topology::load(name)), profile);
      for (dist::CollectiveKind kind :
           {dist::CollectiveKind::AllReduce, dist::CollectiveKind::AllGather, dist::CollectiveKind::ReduceScatter})
        for (int64_t first : {8, 1024, 1 << 20})
          for (int64_t number : {1, 3, 40}) {
            std::vector<graph::Sender> senders;
            Cost least = 0;
            for (int64_t i = 0; i < number; ++i) {
              graph::Sender sender{int(i), {}, f32};
              sender.collective.kind = kind;
              sender.collective.axes = {0};
              const int64_t whole = first * (1 + i % 5) * 4, part = whole / 4;
              sender.collective.localIn = {kind == dist::CollectiveKind::AllGather ? part : whole};
              sender.collective.localOut = {kind == dist::CollectiveKind::ReduceScatter ? part : whole};
              const Cost own = model.leastCollective(sender.collective, 4);
              CHECK(own <= model.collective(sender.collective, 4));
              least += own;
              senders.push_back(sender);
            }
            std::vector<const graph::Sender *> members;
            for (const graph::Sender &sender : senders)
              members.push_back(&sender);
            INFO(name << ", " << number << " " << dist::stringify(kind).str() << " of " << first);
            CHECK(double(least) <= graph::messageCost(members, model.messageCost()) + 1);
          }
      // What is sent alone costs all that it costs, and what sends nothing takes no link.
      dist::Collective other;
      other.kind = dist::CollectiveKind::AllToAll;
      other.axes = {0};
      other.localIn = other.localOut = {4096};
      CHECK(model.leastCollective(other, 4) == model.collective(other, 4));
      other.kind = dist::CollectiveKind::Slice;
      CHECK(model.leastCollective(other, 4) == 0);
    }
  CHECK(CostModel(llvm::cantFail(Mesh::parse("a=4,b=2")), llvm::cantFail(Topology::load("8xh100"))).hasOneLink());
  CHECK_FALSE(CostModel(mesh, llvm::cantFail(Topology::load("2x8xh100"))).hasOneLink());
}
