//===- main.cpp - a program that uses Tessera as a library ------------------------------------------===//
//
//   consumer MODEL.onnx PLAN     compiles a training step of the model for two ranks, then runs three steps of it
//
//===------------------------------------------------------------------------------------------------===//
#include "compiler/driver/Driver.h"
#include "runtime/launch/Launcher.h"
#include "runtime/session/Session.h"
#include "runtime/support/Version.h"

#include <cmath>
#include <cstdio>

using namespace tessera;

namespace {

llvm::Error compileModel(const std::string &model, const std::string &plan) {
  CompileOptions options;
  options.model = model;
  options.output = plan;
  options.import.dims["batch"] = 8;
  options.assign.mesh = "data=2";
  options.assign.mode = "auto";
  options.train = true;
  options.training.optimizer = "sgd:lr=0.1";
  llvm::Expected<CompileResult> result = compile(options, [](const std::string &line) { std::puts(line.c_str()); });
  if (!result)
    return result.takeError();
  std::fputs(summary(options, *result).c_str(), stdout);
  return llvm::Error::success();
}

rt::Status trainPlan(const std::string &path, rt::RunResult &result) {
  rt::Result<rt::PlanDirectory> plan = rt::readPlanDirectory(path);
  if (!plan)
    return plan.status();
  rt::RunOptions options;
  options.data = "synthetic";
  options.steps = 3;
  rt::Console console(stdout);
  return rt::runRanks(int(plan->ranks.size()),
                      [&](rt::World &world) { return rt::runPlan(*plan, options, world, console, result); });
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  if (llvm::Error error = compileModel(argv[1], argv[2])) {
    std::fprintf(stderr, "consumer: %s\n", llvm::toString(std::move(error)).c_str());
    return 1;
  }
  rt::RunResult result;
  if (rt::Status status = trainPlan(argv[2], result); !status) {
    std::fprintf(stderr, "consumer: %s\n", status.message().c_str());
    return 1;
  }
  std::printf("Tessera %s: %lld steps, loss %.4f\n", TESSERA_VERSION, static_cast<long long>(result.steps),
              result.loss);
  return result.steps == 3 && std::isfinite(result.loss) ? 0 : 1;
}
