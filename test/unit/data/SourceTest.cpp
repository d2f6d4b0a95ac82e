#include "runtime/data/NpyFile.h"
#include "test/unit/data/DataTesting.h"

#include <numeric>
#include <set>

using namespace tessera::rt;
using namespace tessera::rt::testing;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

/// x.npy: f32 [samples, 4, 6], element = its index; y.npy: i64 [samples], element = 1000 + sample.
void writeArrays(const TemporaryDirectory &dir, int64_t samples) {
  std::vector<float> x(samples * 24);
  std::iota(x.begin(), x.end(), 0.0f);
  std::vector<int64_t> y(samples);
  std::iota(y.begin(), y.end(), 1000);
  REQUIRE(writeNpy(dir / "x.npy", plan::F32, {samples, 4, 6}, x.data()).ok());
  REQUIRE(writeNpy(dir / "y.npy", plan::I64, {samples}, y.data()).ok());
}

std::vector<BatchRequest> requests(int64_t batch) {
  return {wholeRequest({batch, 4, 6}, plan::F32), wholeRequest({batch}, plan::I64, true)};
}

std::string spec(const TemporaryDirectory &dir) { return "npy:" + dir / "x.npy" + "," + dir / "y.npy"; }

std::vector<int64_t> labels(const Buffers &batch) {
  std::vector<int64_t> values(batch[1].size() / 8);
  std::memcpy(values.data(), batch[1].data(), batch[1].size());
  return values;
}

std::string openError(const std::string &text, const std::vector<BatchRequest> &want) {
  Result<std::unique_ptr<DataSource>> source = openDataSource(text, want, {});
  REQUIRE_FALSE(source.ok());
  return source.status().message();
}

} // namespace

TEST_CASE("an npy file as large as the batch is repeated", "[data]") {
  TemporaryDirectory dir;
  writeArrays(dir, 6);
  const auto want = requests(6);
  for (const char *option : {"", ",shuffle=1"}) {
    auto source = openOrFail(spec(dir) + option, want);
    CHECK(source->batchesPerEpoch() == 1);
    for (int i = 0; i < 3; ++i) {
      const Buffers got = nextBatch(*source, want);
      CHECK(labels(got) == std::vector<int64_t>{1000, 1001, 1002, 1003, 1004, 1005});
      CHECK(reinterpret_cast<const float *>(got[0].data())[143] == 143.0f);
    }
  }
}

TEST_CASE("a larger npy file gives consecutive batches and drops the remainder", "[data]") {
  TemporaryDirectory dir;
  writeArrays(dir, 11);
  const auto want = requests(4);
  auto source = openOrFail(spec(dir), want);
  CHECK(source->batchesPerEpoch() == 2);
  for (int i = 0; i < 5; ++i) {
    const int64_t first = 1000 + i % 2 * 4;
    CHECK(labels(nextBatch(*source, want)) == std::vector<int64_t>{first, first + 1, first + 2, first + 3});
  }
  REQUIRE(source->seek(1).ok());
  CHECK(labels(nextBatch(*source, want))[0] == 1004);
  CHECK_FALSE(source->seek(-1).ok());
}

TEST_CASE("a shuffled npy epoch is a permutation, inputs and targets stay together", "[data]") {
  TemporaryDirectory dir;
  writeArrays(dir, 12);
  const auto want = requests(4);
  auto source = openOrFail(spec(dir) + ",shuffle=1,seed=5", want);
  std::vector<std::vector<int64_t>> epochs(3);
  for (auto &epoch : epochs) {
    for (int i = 0; i < 3; ++i) {
      const Buffers got = nextBatch(*source, want);
      const std::vector<int64_t> y = labels(got);
      epoch.insert(epoch.end(), y.begin(), y.end());
      for (int n = 0; n < 4; ++n)
        CHECK(reinterpret_cast<const float *>(got[0].data())[n * 24] == float((y[n] - 1000) * 24));
    }
    CHECK(std::set<int64_t>(epoch.begin(), epoch.end()).size() == 12);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
  // The same seed gives the same order, and another seed another order.
  auto again = openOrFail(spec(dir) + ",shuffle=1,seed=5", want);
  CHECK(labels(nextBatch(*again, want)) == std::vector<int64_t>(epochs[0].begin(), epochs[0].begin() + 4));
  DataOptions options;
  options.seed = 6;
  options.shuffle = true;
  auto other = openOrFail(spec(dir), want, options);
  std::vector<int64_t> order;
  for (int i = 0; i < 3; ++i) {
    const std::vector<int64_t> y = labels(nextBatch(*other, want));
    order.insert(order.end(), y.begin(), y.end());
  }
  CHECK(order != epochs[0]);
}

TEST_CASE("npy slices assemble to the same batch for any sharding", "[data]") {
  TemporaryDirectory dir;
  writeArrays(dir, 19);
  for (const char *option : {"", ",shuffle=1"})
    for (const std::vector<std::vector<int64_t>> &cuts :
         {std::vector<std::vector<int64_t>>{{4, 1, 1}, {4}}, {{1, 2, 2}, {1}}, {{2, 1, 3}, {2}}, {{8, 1, 1}, {1}}})
      checkSharding(spec(dir) + option, requests(8), cuts, {}, 5);
}

TEST_CASE("npy inputs without a batch dimension are the same in every batch", "[data]") {
  TemporaryDirectory dir;
  writeArrays(dir, 8);
  std::vector<float> places(5 * 3), scale = {7};
  std::iota(places.begin(), places.end(), 100.0f);
  REQUIRE(writeNpy(dir / "places.npy", plan::F32, {5, 3}, places.data()).ok());
  REQUIRE(writeNpy(dir / "scale.npy", plan::F32, {}, scale.data()).ok());
  const std::string text =
      "npy:" + dir / "places.npy" + "," + dir / "x.npy" + "," + dir / "scale.npy" + "," + dir / "y.npy";
  std::vector<BatchRequest> want = {wholeRequest({5, 3}, plan::F32), wholeRequest({2, 4, 6}, plan::F32),
                                    wholeRequest({}, plan::F32), wholeRequest({2}, plan::I64, true)};
  for (const char *option : {"", ",shuffle=1"}) {
    auto source = openOrFail(text + option, want);
    CHECK(source->batchesPerEpoch() == 4);
    for (int i = 0; i < 6; ++i) {
      const Buffers got = nextBatch(*source, want);
      CHECK(std::memcmp(got[0].data(), places.data(), got[0].size()) == 0);
      CHECK(*reinterpret_cast<const float *>(got[2].data()) == 7.0f);
      const auto *labels = reinterpret_cast<const int64_t *>(got[3].data());
      CHECK(reinterpret_cast<const float *>(got[1].data())[24] == float((labels[1] - 1000) * 24));
    }
    checkSharding(text + option, want, {{1, 3}, {2, 1, 1}, {}, {1}}, {}, 5);
  }
  want[0] = wholeRequest({5, 4}, plan::F32);
  CHECK_THAT(openError(text, want), Contains("holds f32 [5, 3], but model input 0 needs f32 [5, 4]"));
  want[0] = wholeRequest({5, 3}, plan::F32);
  want[3] = wholeRequest({9}, plan::I64, true); // the target says what the batch is
  CHECK_THAT(openError(text, want), Contains("x.npy: holds f32 [8, 4, 6], but model input 1 needs f32 [2, 4, 6]"));
}

TEST_CASE("npy files are given by the names of their inputs", "[data]") {
  TemporaryDirectory dir;
  writeArrays(dir, 4);
  const std::vector<float> other(4 * 24, 5.0f);
  REQUIRE(writeNpy(dir / "other.npy", plan::F32, {4, 4, 6}, other.data()).ok());
  std::vector<BatchRequest> want = {requests(4)[0], requests(4)[0], requests(4)[1]};
  want[0].name = "x";
  want[1].name = "Model.other";
  auto source =
      openOrFail("npy:target=" + dir / "y.npy" + ",Model.other=" + dir / "other.npy" + ",x=" + dir / "x.npy", want);
  const Buffers got = nextBatch(*source, want);
  CHECK(reinterpret_cast<const float *>(got[0].data())[1] == 1.0f);
  CHECK(reinterpret_cast<const float *>(got[1].data())[1] == 5.0f);
  CHECK(source->takeNotices().empty());
  CHECK(dataPaths("npy:x=a.npy,target=b.npy") == std::vector<std::string>{"a.npy", "b.npy"});

  const std::string x = "x=" + dir / "x.npy", all = "npy:" + x + ",Model.other=" + dir / "other.npy";
  CHECK_THAT(openError(all, want), Contains("has no file for 'target'"));
  CHECK_THAT(openError(all + ",mask=a.npy", want),
             Contains("has no input 'mask'; it reads 'x', 'Model.other', 'target'"));
  CHECK_THAT(openError(all + ",a.npy", want), Contains("name all or none"));
  CHECK_THAT(openError(all + "," + x, want), Contains("gives 'x' two files"));
  openOrFail(all + ",target=" + dir / "none.npy", {want[0], want[1]}); // there is no target to read
}

TEST_CASE("npy files that stand at another input's place are told", "[data]") {
  TemporaryDirectory dir;
  writeArrays(dir, 4);
  const std::vector<float> mask(4 * 24);
  REQUIRE(writeNpy(dir / "mask.npy", plan::F32, {4, 4, 6}, mask.data()).ok());
  std::vector<BatchRequest> want = {requests(4)[0], requests(4)[0]};
  want[0].name = "x";
  want[1].name = "mask";
  const std::string x = dir / "x.npy", m = dir / "mask.npy";
  CHECK(openOrFail("npy:" + x + "," + m, want)->takeNotices().empty());
  auto source = openOrFail("npy:" + m + "," + x, want);
  const std::vector<std::string> notices = source->takeNotices();
  REQUIRE(notices.size() == 2);
  CHECK_THAT(notices[0], Contains("mask.npy is read as 'x', though there is an input 'mask'"));
  CHECK(source->takeNotices().empty());
  DataOptions follower;
  follower.leader = false;
  CHECK(openOrFail("npy:" + m + "," + x, want, follower)->takeNotices().empty());
}

TEST_CASE("npy files that do not fit are refused with what was expected and found", "[data]") {
  TemporaryDirectory dir;
  writeArrays(dir, 6);
  CHECK_THAT(openError(spec(dir), requests(7)), Contains("x.npy") && Contains("6 samples"));
  CHECK_THAT(openError("npy:" + dir / "x.npy", requests(6)), Contains("1 files") && Contains("target"));
  CHECK_THAT(openError("npy:" + dir / "y.npy" + "," + dir / "x.npy", requests(6)),
             Contains("y.npy") && Contains("i64 [6]") && Contains("f32 [samples, 4, 6]"));
  std::vector<BatchRequest> wrongType = requests(6);
  wrongType[1].dtype = plan::I32;
  CHECK_THAT(openError(spec(dir), wrongType), Contains("y.npy") && Contains("the target needs i32 [samples]"));
  // Without a target in the program, its file may be there.
  openOrFail(spec(dir), {requests(6)[0]});
  const std::vector<float> few(3 * 24);
  REQUIRE(writeNpy(dir / "x.npy", plan::F32, {3, 4, 6}, few.data()).ok());
  CHECK_THAT(openError(spec(dir), requests(2)), Contains("y.npy") && Contains("x.npy has 3"));
  CHECK_THAT(openError("npy:" + dir / "x.npy" + ",crop=1", {requests(2)[0]}), Contains("crop"));
}

TEST_CASE("impossible requests are refused", "[data]") {
  auto error = [](BatchRequest request) { return openError("synthetic", {std::move(request)}); };
  CHECK_THAT(openError("synthetic", {}), Contains("neither inputs nor a target"));
  CHECK_THAT(error({{}, {}, {}, plan::F32, false}), Contains("no batch dimension"));
  CHECK_THAT(error({{}, {}, {}, plan::F32, true}), Contains("the target is a scalar"));
  CHECK_THAT(openError("npy:a.npy", {wholeRequest({}, plan::F32)}), Contains("all are scalars"));
  CHECK_THAT(error({{4, 2}, {0, 1}, {4, 2}, plan::F32, false}), Contains("not inside"));
  CHECK_THAT(error({{4, 2}, {0}, {4}, plan::F32, false}), Contains("not inside"));
  CHECK_THAT(error({{4, 2}, {-1, 0}, {4, 2}, plan::F32, false}), Contains("not inside"));
  CHECK_THAT(error({{4, INT64_MAX}, {0, 0}, {4, INT64_MAX}, plan::F32, false}), Contains("not inside"));
  CHECK_THAT(error({{4, 2}, {0, 0}, {4, 2}, plan::DTYPE_INVALID, false}), Contains("not inside"));
  CHECK_THAT(openError("synthetic", {wholeRequest({4}, plan::F32), wholeRequest({5}, plan::F32)}),
             Contains("input 1 of shape [5] has no batch dimension of 4 samples; synthetic cannot fill it"));
  CHECK_THAT(openError("imagenet:dir", {wholeRequest({4}, plan::F32)}), Contains("'imagenet'") && Contains("cifar10"));
}
