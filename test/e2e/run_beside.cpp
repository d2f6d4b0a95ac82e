// run_beside IN OUT: writes a plan directory again, with every collective beside kernels that may run there.
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/lanes/RunBeside.h"

#include <cstdio>
#include <filesystem>

using namespace tessera;

static rt::Status run(const std::string &from, const std::string &to) {
  rt::Result<rt::PlanDirectory> read = rt::readPlanDirectory(from);
  if (!read)
    return read.status();
  std::vector<rt::PlanContents> ranks;
  for (plan::Plan &plan : read->ranks) {
    rt::runBeside(plan, [](const plan::Program &, int) { return true; });
    ranks.emplace_back(plan);
  }
  std::filesystem::create_directories(to);
  if (!read->weights.empty())
    std::filesystem::copy(read->weights, to);
  std::optional<rt::PlanContents> alone;
  if (read->sequential)
    alone.emplace(*read->sequential);
  return rt::writePlanDirectory(to, ranks, alone);
}

int main(int argc, char **argv) {
  const rt::Status status = argc == 3 ? run(argv[1], argv[2]) : rt::Status::error("usage: run_beside IN OUT");
  if (!status.ok())
    std::fprintf(stderr, "run_beside: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
