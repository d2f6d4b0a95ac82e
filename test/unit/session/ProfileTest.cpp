// What a profile says of steps, against figures worked out by hand.
#include "runtime/session/Profile.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;

namespace {

const MachineRates kMachine = {{{plan::F32, 1e11}, {plan::BF16, 4e11}}, 1e10};

/// Seconds, operations, bytes.
StepCost step(const std::string &kind, const std::string &by, double seconds, double flops, double bytes,
              plan::DType type = plan::F32, uint64_t calls = 1) {
  return {kind, by, type, calls, seconds, flops, bytes};
}

const std::vector<StepCost> kSteps = {
    step("conv f32", "cpu: conv a", 0.02, 1e9, 1e7),                // limits 10 ms by arithmetic, 1 ms by memory
    step("conv f32", "cpu: conv b", 0.08, 1e9, 4e8, plan::F32, 3),  // 10 ms, 40 ms
    step("fused f32", "cpu: fused", 0.05, 0, 5e8),                  // 50 ms by memory: at its limit
    step("matmul bf16", "cpu: matmul", 0.01, 1e9, 1e6, plan::BF16), // 2.5 ms
    step("all-reduce", "collective: all-reduce", 0.006, 0, 1e7),    // 1 ms
    step("gather i64", "cpu: gather", 0.001, 1e9, 3e7, plan::I64),  // 3 ms by memory: in a cache
};

} // namespace

TEST_CASE("a step's limit is the longer of its operations' and its bytes' time") {
  const std::vector<CostSum> kinds = sumByKind(kSteps, kMachine);
  REQUIRE(kinds.size() == 5);
  CHECK(kinds[0].name == "conv f32");
  CHECK(kinds[0].calls == 4);
  CHECK(kinds[0].seconds == Approx(0.1));
  CHECK(kinds[0].computing == Approx(0.02));
  CHECK(kinds[0].moving == Approx(0.041));
  CHECK(kinds[0].limit == Approx(0.05)); // step by step, not of the sums
  CHECK(kinds[0].lost() == Approx(0.05));
  CHECK(kinds[1].lost() == 0);
  CHECK(kinds[2].name == "matmul bf16");
  CHECK(kinds[2].limit == Approx(0.0025));
  CHECK(kinds[4].computing == 0); // no rate is known for its type
  CHECK(kinds[4].lost() == 0);    // faster than memory
}

TEST_CASE("the largest losses are told by implementation") {
  const std::vector<CostSum> losses = largestLosses(kSteps, kMachine, 3);
  REQUIRE(losses.size() == 3);
  CHECK(losses[0].name == "conv f32, cpu: conv b");
  CHECK(losses[0].lost() == Approx(0.04));
  CHECK(losses[1].name == "conv f32, cpu: conv a");
  CHECK(losses[1].lost() == Approx(0.01));
  CHECK(losses[2].name == "matmul bf16, cpu: matmul");
  CHECK(largestLosses(kSteps, kMachine, 10).size() == 4); // two lose nothing
  CHECK(largestLosses({}, kMachine, 3).empty());
}

TEST_CASE("a profile says how far from the limits a run is") {
  const std::vector<std::string> lines = limitsText(kSteps, kMachine);
  REQUIRE(lines.size() == 3 + 5 + 1 + 3);
  CHECK(lines[0] ==
        "this machine's limits, measured now: products 100 GFLOP/s in f32, 400 GFLOP/s in bf16; memory 10 GB/s");
  CHECK(lines[1] == "at them a run takes 106.5 ms, 64 % of 167 ms:");
  CHECK(lines[3] == "    100.000     60 %      50 %        20     20 %       4.1     41 %        4  conv f32");
  CHECK(lines[4] == "     50.000     30 %     100 %         -        -        10    100 %        1  fused f32");
  CHECK(lines[8] == "largest losses, in time beyond the limit:");
  CHECK(lines[9] == "     40.000 ms  conv f32, cpu: conv b: 3 calls at 50 % of the limit by memory");
  CHECK(lines[10] == "     10.000 ms  conv f32, cpu: conv a: 1 call at 50 % of the limit by arithmetic");
  // Where nothing could be measured, times stand alone.
  CHECK(limitsText(kSteps, {})[1] == "at them a run takes 0 ms, 0 % of 167 ms:");
}

TEST_CASE("a machine computes and moves at some rate, by any backend and in any type") {
  for (const char *name : {"reference", "cpu"}) {
    Result<std::unique_ptr<Backend>> backend = createBackend(name);
    REQUIRE(backend.ok());
    LoadOptions options;
    for (const plan::DType type : {plan::F32, plan::BF16, plan::F64}) {
      Result<double> rate = measureProducts(**backend, options, type);
      INFO(name << " " << int(type) << " " << rate.status().message());
      REQUIRE(rate.ok());
      CHECK(*rate > 1e6);
      CHECK(*rate < 1e15);
    }
    Result<double> bandwidth = measureBandwidth(**backend, options);
    REQUIRE(bandwidth.ok());
    CHECK(*bandwidth > 1e6);
    CHECK(*bandwidth < 1e13);
    options.widen = true;
    CHECK(measureProducts(**backend, options, plan::F64).ok());
  }
}
