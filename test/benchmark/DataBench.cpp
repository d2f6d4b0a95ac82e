// Measures how many samples a data source gives per second.
//
//   data_bench SPEC BATCHxCxHxW BATCHES [THREADS [eval FILE.npy]]     # the last: the first batch, to compare with
#include "runtime/data/DataSource.h"
#include "runtime/data/NpyFile.h"
#include "runtime/plan/PlanInfo.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

Status run(int argc, char **argv) {
  std::vector<int64_t> shape;
  std::istringstream sizes(argv[2]);
  for (std::string size; std::getline(sizes, size, 'x');)
    shape.push_back(std::atoll(size.c_str()));
  const std::vector<int64_t> zeros(shape.size(), 0);
  const std::vector<BatchRequest> requests = {{shape, zeros, shape, plan::F32, false},
                                              {{shape[0]}, {0}, {shape[0]}, plan::I64, true}};
  DataOptions options;
  options.threads = argc > 4 ? std::atoi(argv[4]) : 1;
  options.train = argc <= 5;
  Result<std::unique_ptr<DataSource>> source = openDataSource(argv[1], requests, options);
  if (!source)
    return source.status();
  std::vector<char> images(bytesOf(shape, plan::F32).value_or(0));
  std::vector<int64_t> labels(static_cast<size_t>(shape[0]));
  const int64_t batches = std::atoll(argv[3]);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (int64_t i = 0; i < batches; ++i) {
    TESSERA_RETURN_IF_ERROR((*source)->next({images.data(), labels.data()}));
    if (i == 0 && argc > 6)
      TESSERA_RETURN_IF_ERROR(writeNpy(argv[6], plan::F32, shape, images.data()));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("%.1f samples/s\n", double(batches * shape[0]) / seconds);
  return Status();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: data_bench SPEC BATCHxCxHxW BATCHES [THREADS [eval FILE.npy]]\n");
    return 2;
  }
  Status status = run(argc, argv);
  if (!status)
    std::fprintf(stderr, "data_bench: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
