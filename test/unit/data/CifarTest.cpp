#include "runtime/data/Random.h"
#include "test/unit/data/DataTesting.h"

#include <cmath>
#include <filesystem>
#include <set>

using namespace tessera::rt;
using namespace tessera::rt::testing;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

constexpr int64_t kPixels = 3072;

int labelOf(int64_t sample) { return int(hash(1, sample) % 10); }
uint8_t pixelOf(int64_t sample, int64_t i) { return uint8_t(hash(2, sample, i)); }

/// Five training files of 8 records each and a test file of 12, numbered on.
void writeSet(const std::string &dir) {
  int64_t sample = 0;
  for (int f = 1; f <= 6; ++f) {
    std::string bytes;
    for (int i = 0; i < (f == 6 ? 12 : 8); ++i, ++sample) {
      bytes += char(labelOf(sample));
      for (int64_t p = 0; p < kPixels; ++p)
        bytes += char(pixelOf(sample, p));
    }
    writeBytes(dir + (f == 6 ? "/test_batch.bin" : "/data_batch_" + std::to_string(f) + ".bin"), bytes);
  }
}

const double kMean[] = {0.4914, 0.4822, 0.4465}, kStd[] = {0.2470, 0.2435, 0.2616};

std::vector<BatchRequest> requests(int64_t batch, int64_t side = 32) {
  return {wholeRequest({batch, 3, side, side}, plan::F32), wholeRequest({batch}, plan::I64, true)};
}

template <typename T> T element(const std::string &buffer, int64_t i) {
  T value;
  std::memcpy(&value, buffer.data() + i * sizeof(T), sizeof(T));
  return value;
}

} // namespace

TEST_CASE("cifar10 evaluation data are the file's, normalised, in file order", "[data]") {
  TemporaryDirectory dir;
  writeSet(dir.path());
  DataOptions options;
  options.train = false;
  const auto want = requests(5);
  auto source = openOrFail("cifar10:" + dir.path(), want, options);
  CHECK(source->batchesPerEpoch() == 2); // 12 samples: two are left out
  CHECK(source->samplesPerEpoch() == 10);
  for (int batch = 0; batch < 4; ++batch) { // two epochs
    const Buffers got = nextBatch(*source, want);
    double worst = 0;
    for (int64_t n = 0; n < 5; ++n) {
      const int64_t sample = 40 + batch % 2 * 5 + n;
      CHECK(element<int64_t>(got[1], n) == labelOf(sample));
      for (int64_t p = 0; p < kPixels; ++p) {
        const int64_t c = p / 1024;
        const double expected = (pixelOf(sample, p) / 255.0 - kMean[c]) / kStd[c];
        worst = std::max(worst, std::fabs(element<float>(got[0], n * kPixels + p) - expected));
      }
    }
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("cifar10 training covers each sample once an epoch, cropped and flipped", "[data]") {
  TemporaryDirectory dir;
  writeSet(dir.path());
  const auto want = requests(8);
  auto source = openOrFail("cifar10:" + dir.path() + ",mean=0:0:0,std=1:1:1", want);
  REQUIRE(source->batchesPerEpoch() == 5);
  std::vector<std::vector<int64_t>> orders;
  std::set<std::string> variants; // of sample 0 over the epochs
  for (int epoch = 0; epoch < 6; ++epoch) {
    std::vector<int64_t> order;
    for (int batch = 0; batch < 5; ++batch) {
      const Buffers got = nextBatch(*source, want);
      for (int64_t n = 0; n < 8; ++n) {
        const float *image = reinterpret_cast<const float *>(got[0].data()) + n * kPixels;
        // Which sample, shift and flip explain the image? Try them all on one channel.
        int64_t found = -1;
        for (int64_t s = 0; s < 40 && found < 0; ++s)
          for (int64_t way = 0; way < 9 * 9 * 2 && found < 0; ++way) {
            const int64_t down = way % 9 - 4, right = way / 9 % 9 - 4, flip = way / 81;
            bool same = true;
            for (int64_t y = 0; y < 32 && same; ++y)
              for (int64_t x = 0; x < 32 && same; ++x) {
                const int64_t fy = y + down, fx = (flip ? 31 - x : x) + right;
                const bool inside = fy >= 0 && fy < 32 && fx >= 0 && fx < 32;
                const double pixel = inside ? pixelOf(s, fy * 32 + fx) / 255.0 : 0;
                same = std::fabs(image[y * 32 + x] - pixel) < 1e-6;
              }
            if (same)
              found = s;
          }
        REQUIRE(found >= 0);
        CHECK(element<int64_t>(got[1], n) == labelOf(found));
        order.push_back(found);
        if (found == 0)
          variants.insert(std::string(got[0], n * kPixels * 4, 4096));
      }
    }
    CHECK(std::set<int64_t>(order.begin(), order.end()).size() == 40);
    orders.push_back(order);
  }
  CHECK(orders[0] != orders[1]);
  CHECK(variants.size() >= 5); // six epochs, 162 ways
}

TEST_CASE("cifar10 slices assemble to the same batch for any sharding", "[data]") {
  TemporaryDirectory dir;
  writeSet(dir.path());
  DataOptions options;
  options.seed = 3;
  for (int64_t side : {32, 48, 20})
    for (const std::vector<std::vector<int64_t>> &cuts : {std::vector<std::vector<int64_t>>{{4, 1, 1, 1}, {4}},
                                                          {{2, 1, 2, 1}, {2}},
                                                          {{1, 3, 1, 1}, {1}},
                                                          {{1, 1, 2, 2}, {1}},
                                                          {{2, 1, 1, 4}, {8}}})
      checkSharding("cifar10:" + dir.path(), requests(8, side), cuts, options, 6);
}

TEST_CASE("cifar10 images are resized bilinearly", "[data]") {
  TemporaryDirectory dir;
  writeSet(dir.path());
  DataOptions options;
  options.train = false;
  for (int64_t side : {64, 16, 45}) {
    const std::vector<BatchRequest> want = {wholeRequest({2, 3, side, side}, plan::F64)};
    auto source = openOrFail("cifar10:" + dir.path() + ",mean=0:0:0,std=1:1:1", want, options);
    const Buffers got = nextBatch(*source, want);
    double worst = 0;
    for (int64_t y = 0; y < side; ++y)
      for (int64_t x = 0; x < side; ++x) {
        auto place = [&](int64_t i) { return std::clamp((double(i) + 0.5) * 32 / double(side) - 0.5, 0.0, 31.0); };
        const double fy = place(y), fx = place(x);
        double expected = 0; // the tent over all stored pixels
        for (int64_t sy = 0; sy < 32; ++sy)
          for (int64_t sx = 0; sx < 32; ++sx)
            expected += std::max(0.0, 1 - std::fabs(fy - double(sy))) * std::max(0.0, 1 - std::fabs(fx - double(sx))) *
                        pixelOf(41, 2048 + sy * 32 + sx) / 255.0;
        const int64_t at = ((3 + 2) * side + y) * side + x; // sample 1, channel 2
        worst = std::max(worst, std::fabs(element<double>(got[0], at) - expected));
      }
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("a cifar10 file that shrinks while it is used is one clear error", "[data]") {
  TemporaryDirectory dir;
  writeSet(dir.path());
  DataOptions options;
  options.train = false;
  const auto want = requests(2);
  auto source = openOrFail("cifar10:" + dir.path(), want, options);
  std::filesystem::resize_file(dir / "test_batch.bin", 3073 * 4);
  Status status;
  Buffers got = {std::string(2 * kPixels * 4, 0), std::string(16, 0)};
  for (int batch = 0; batch < 6 && status; ++batch) // some may have been read ahead
    status = source->next({got[0].data(), got[1].data()});
  CHECK_THAT(status.message(), Contains("test_batch.bin: shrank while it was in use"));
}

TEST_CASE("bad cifar10 directories give one clear error", "[data]") {
  TemporaryDirectory dir;
  auto error = [&](const std::string &spec, const std::vector<BatchRequest> &want, bool train = true) {
    DataOptions options;
    options.train = train;
    Result<std::unique_ptr<DataSource>> source = openDataSource(spec, want, options);
    REQUIRE_FALSE(source.ok());
    return source.status().message();
  };
  const std::string spec = "cifar10:" + dir.path();
  CHECK_THAT(error(spec, requests(4)), Contains("data_batch_1.bin") && Contains("No such file"));
  writeSet(dir.path());
  CHECK_THAT(error(spec, requests(41)), Contains("40 samples") && Contains("41"));
  CHECK_THAT(error(spec + ",zoom=2", requests(4)), Contains("zoom") && Contains("crop"));
  CHECK_THAT(error(spec + ",std=0:1:1", requests(4)), Contains("std"));
  CHECK_THAT(error(spec, {wholeRequest({4, 1, 28, 28}, plan::F32)}), Contains("[4, 1, 28, 28]"));
  CHECK_THAT(error(spec, {wholeRequest({4, 3, 32, 32}, plan::I64)}), Contains("float input"));
  CHECK_THAT(error(spec, {wholeRequest({4, 3, 32, 32}, plan::F32), wholeRequest({4, 10}, plan::F32, true)}),
             Contains("class id") && Contains("[4, 10]"));
  writeBytes(dir / "data_batch_3.bin", std::string(3072, '\1'));
  CHECK_THAT(error(spec, requests(4)), Contains("data_batch_3.bin") && Contains("3072 bytes"));
  std::filesystem::remove(dir / "data_batch_3.bin");
  CHECK_THAT(error(spec, requests(4)), Contains("data_batch_3.bin"));

  // A bad label shows when its sample is read; the source stays where it was.
  std::string bytes(3073 * 4, '\0');
  bytes[3073 * 2] = 12;
  writeBytes(dir / "test_batch.bin", bytes);
  DataOptions options;
  options.train = false;
  for (int prefetch : {0, 2}) {
    options.prefetch = prefetch;
    auto source = openOrFail(spec, requests(4), options);
    std::string images(4 * kPixels * 4, '\0'), labels(32, '\0');
    for (int attempt = 0; attempt < 2; ++attempt)
      CHECK_THAT(source->next({images.data(), labels.data()}).message(),
                 Contains("test_batch.bin") && Contains("record 2") && Contains("12"));
  }
}
