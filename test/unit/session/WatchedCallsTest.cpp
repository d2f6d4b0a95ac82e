// What traces and --check-numerics say of a section that runs once per micro-batch.
#include "runtime/launch/Launcher.h"
#include "runtime/session/Numerics.h"
#include "runtime/support/File.h"
#include "runtime/telemetry/Trace.h"
#include "test/unit/plan/LoopPlan.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

using namespace tessera::rt;
namespace plan = tessera::plan;
namespace fs = std::filesystem;
using RtStatus = tessera::rt::Status;
using P = LoopPlan;

namespace {

constexpr int kMicroBatches = 3;

/// Runs `body` with an executor of the plan, which has been fed with `x`.
RtStatus withLoop(std::vector<float> x, const std::function<RtStatus(Executor &)> &body) {
  const plan::Plan plan = P::make(0, 1, kMicroBatches, true);
  return runRanks(1, [&](World &world) -> RtStatus {
    auto backend = createBackend("reference");
    auto executor = Executor::create(plan, **backend, world, {});
    if (!executor)
      return executor.status();
    TESSERA_RETURN_IF_ERROR((*executor)->loadWeights(nullptr, false));
    TESSERA_RETURN_IF_ERROR((*executor)->feed(0, x.data()));
    return body(**executor);
  });
}

} // namespace

TEST_CASE("a trace has an event for every call, named with its micro-batch") {
  std::string path = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
  REQUIRE(mkdtemp(path.data()));
  const std::string file = path + "/trace.json";
  RtStatus status = withLoop(std::vector<float>(P::kRows * kMicroBatches * 2, 1), [&](Executor &executor) {
    Trace trace(executor, {1, 1}, file);
    trace.begin(1);
    TESSERA_RETURN_IF_ERROR(executor.run(0));
    return trace.end();
  });
  INFO(status.message());
  REQUIRE(status.ok());
  std::map<std::string, std::vector<int>> names; // the micro-batches of a name
  const nlohmann::json trace = nlohmann::json::parse(*readFile(file, 1 << 20));
  for (const auto &event : trace["traceEvents"])
    if (event.value("cat", "") == "kernel" || event.value("cat", "") == "collective")
      names[event["name"]].push_back(event["args"].value("micro_batch", 0));
  fs::remove_all(path);
  std::map<std::string, std::vector<int>> expected;
  for (const char *once : {"s", "acc.zero", "out"})
    expected[once] = {0};
  for (const char *each : {"xi", "ki", "y", "z", "y.sum", "z.sum", "scale", "acc.add", "m.carry"})
    for (int i = 1; i <= kMicroBatches; ++i)
      expected[std::string(each) + "/micro-batch " + std::to_string(i) + " of 3"] = {i};
  CHECK(names == expected);
}

TEST_CASE("the first number that is not finite is found in its micro-batch") {
  std::vector<float> x(P::kRows * kMicroBatches * 2, 1);
  x[2] = x[3] = 3e38f; // row 1 is the first one of micro-batch 2: the product with ones overflows
  std::string why;
  RtStatus status = withLoop(x, [&](Executor &executor) -> RtStatus {
    Numerics numerics(executor, "train", 1);
    TESSERA_RETURN_IF_ERROR(numerics.keep());
    Result<std::string> found = numerics.explain();
    if (found)
      why = *found;
    return found.status();
  });
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(why == "the operator 'y' (matmul) makes an infinity of finite operands in micro-batch 2 of 3 on rank 0");
}
