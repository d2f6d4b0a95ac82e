#include "test/unit/data/DataTesting.h"

#include <cmath>
#include <map>

using namespace tessera::rt;
using namespace tessera::rt::testing;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

std::vector<BatchRequest> images(int64_t batch) {
  return {wholeRequest({batch, 3, 16, 16}, plan::F32), wholeRequest({batch}, plan::I64, true)};
}

template <typename T> std::vector<T> valuesOf(const std::string &buffer) {
  std::vector<T> values(buffer.size() / sizeof(T));
  std::memcpy(values.data(), buffer.data(), buffer.size());
  return values;
}

/// Labels of the nearest class means of another split's first `train` samples: how often right?
double nearestMean(const std::string &spec, const std::vector<BatchRequest> &want) {
  DataOptions options;
  auto train = openOrFail(spec, want, options);
  options.train = false;
  auto eval = openOrFail(spec, want, options);
  const int64_t batch = want[0].shape[0];
  std::map<int64_t, std::vector<double>> sums;
  std::map<int64_t, int> counts;
  for (int i = 0; i < 8; ++i) {
    const Buffers got = nextBatch(*train, want);
    const auto x = valuesOf<float>(got[0]);
    const auto y = valuesOf<int64_t>(got[1]);
    const size_t width = x.size() / batch;
    for (int64_t n = 0; n < batch; ++n) {
      sums[y[n]].resize(width);
      ++counts[y[n]];
      for (size_t e = 0; e < width; ++e)
        sums[y[n]][e] += x[n * width + e];
    }
  }
  const Buffers got = nextBatch(*eval, want);
  const auto x = valuesOf<float>(got[0]);
  const auto y = valuesOf<int64_t>(got[1]);
  const size_t width = x.size() / batch;
  int right = 0;
  for (int64_t n = 0; n < batch; ++n) {
    double best = 1e300;
    int64_t guess = -1;
    for (const auto &[cls, sum] : sums) {
      double distance = 0;
      for (size_t e = 0; e < width; ++e)
        distance += std::pow(sum[e] / counts[cls] - x[n * width + e], 2);
      if (distance < best)
        best = distance, guess = cls;
    }
    right += guess == y[n];
  }
  return double(right) / double(batch);
}

} // namespace

TEST_CASE("synthetic slices assemble to the same batch for any sharding", "[data]") {
  for (plan::DType dtype : {plan::F32, plan::F64, plan::F16, plan::BF16}) {
    std::vector<BatchRequest> want = images(8);
    want[0].dtype = dtype;
    for (const std::vector<std::vector<int64_t>> &cuts : {std::vector<std::vector<int64_t>>{{4, 1, 1, 1}, {4}},
                                                          {{1, 3, 1, 1}, {1}},
                                                          {{1, 1, 2, 2}, {1}},
                                                          {{2, 1, 4, 1}, {8}}})
      checkSharding("synthetic:samples=21", want, cuts, {}, 3, 1);
  }
  // Vectors, tokens with the next token as target, token classes, masks, regression.
  checkSharding("synthetic", {wholeRequest({8, 12}, plan::F32), wholeRequest({8, 4}, plan::F32, true)},
                {{2, 2}, {4, 1}}, {}, 2);
  checkSharding("synthetic", {wholeRequest({4, 10}, plan::I64), wholeRequest({4, 10}, plan::I64, true)},
                {{2, 2}, {2, 2}}, {}, 2);
  checkSharding(
      "synthetic",
      {wholeRequest({4, 2, 10}, plan::I32), wholeRequest({4, 10}, plan::BOOL), wholeRequest({4}, plan::I32, true)},
      {{2, 2, 2}, {4, 2}, {2}}, {}, 2);
  checkSharding("synthetic", {wholeRequest({4, 3, 4, 6, 8}, plan::F32)}, {{2, 1, 2, 3, 2}}, {}, 2);
}

TEST_CASE("the synthetic set depends on its seed and split, the order on the run's", "[data]") {
  const auto want = images(16);
  auto first = [&](const std::string &spec, uint64_t seed, bool train, bool shuffle) {
    DataOptions options;
    options.seed = seed;
    options.train = train;
    options.shuffle = shuffle;
    return nextBatch(*openOrFail(spec, want, options), want);
  };
  const Buffers base = first("synthetic", 0, true, false);
  CHECK(base == first("synthetic", 1, true, false));
  CHECK(base == first("synthetic:seed=1", 1, true, false));
  CHECK(base != first("synthetic:seed=2", 0, true, false));
  CHECK(base != first("synthetic", 0, false, false));
  CHECK(base != first("synthetic", 0, true, true));
  CHECK(first("synthetic", 1, true, true) != first("synthetic", 2, true, true));
  CHECK(base == first("synthetic:shuffle=0", 3, true, true)); // the specification's word goes
}

TEST_CASE("synthetic images are scaled, classes even, and the set can be learned", "[data]") {
  const auto want = images(512);
  auto source = openOrFail("synthetic", want);
  const Buffers got = nextBatch(*source, want);
  double mean = 0, square = 0;
  const auto x = valuesOf<float>(got[0]);
  for (float v : x) {
    mean += v / double(x.size());
    square += v * v / double(x.size());
  }
  CHECK(std::fabs(mean) < 0.3);
  CHECK(square > 0.4);
  CHECK(square < 2.0);
  std::map<int64_t, int> classes;
  for (int64_t label : valuesOf<int64_t>(got[1]))
    ++classes[label];
  CHECK(classes.size() == 10);
  for (auto [label, count] : classes) {
    CHECK(label >= 0);
    CHECK(label < 10);
    CHECK(count > 20);
  }
  CHECK(nearestMean("synthetic", want) > 0.95);
  CHECK(nearestMean("synthetic:classes=5,seed=9",
                    {wholeRequest({256, 20}, plan::F32), wholeRequest({256}, plan::I64, true)}) > 0.95);
  // Noise hides the classes.
  CHECK(nearestMean("synthetic:noise=100", want) < 0.5);
}

TEST_CASE("synthetic tokens follow the chain, and the target is the next one", "[data]") {
  const std::vector<BatchRequest> want = {wholeRequest({32, 40}, plan::I64), wholeRequest({32, 40}, plan::I64, true)};
  auto source = openOrFail("synthetic:vocab=50,noise=0.1", want);
  const Buffers got = nextBatch(*source, want);
  const auto x = valuesOf<int64_t>(got[0]), y = valuesOf<int64_t>(got[1]);
  std::map<int64_t, std::map<int64_t, int>> next;
  for (size_t i = 0; i < x.size(); ++i) {
    REQUIRE(x[i] >= 0);
    REQUIRE(x[i] < 50);
    if (i % 40 != 39)
      REQUIRE(y[i] == x[i + 1]);
    ++next[x[i]][y[i]];
  }
  int followed = 0;
  for (const auto &[token, counts] : next) {
    int most = 0;
    for (auto [to, count] : counts)
      most = std::max(most, count);
    followed += most;
  }
  CHECK(followed > int(x.size() * 85 / 100));
}

TEST_CASE("bad synthetic options are refused", "[data]") {
  auto error = [](const std::string &spec, const std::vector<BatchRequest> &want) {
    Result<std::unique_ptr<DataSource>> source = openDataSource(spec, want, {});
    REQUIRE_FALSE(source.ok());
    return source.status().message();
  };
  CHECK_THAT(error("synthetic:classes=0", images(4)), Contains("classes=0"));
  CHECK_THAT(error("synthetic:colour=1", images(4)), Contains("colour"));
  CHECK_THAT(error("synthetic:10", images(4)), Contains("'10'"));
  CHECK_THAT(error("synthetic:samples=3", images(4)), Contains("3 samples"));
  CHECK_THAT(error("synthetic:vocab=300", {wholeRequest({4, 5}, plan::U8)}), Contains("299"));
}
