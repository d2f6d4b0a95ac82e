#include "runtime/data/Prefetch.h"
#include "test/unit/data/DataTesting.h"

#include <atomic>
#include <chrono>
#include <thread>

using namespace tessera::rt;
using Catch::Contains;

namespace {

/// Batch b is the number b, eight bytes; fails at the batch `bad` as long as that is set.
struct Counter : BatchProducer {
  std::atomic<int64_t> bad{-1};
  std::atomic<int> produced{0};
  int64_t batchesPerEpoch() const override { return 10; }
  Status produce(int64_t batch, const std::vector<void *> &buffers) override {
    ++produced;
    if (batch == bad)
      return Status::error("batch " + std::to_string(batch) + " is bad");
    std::memcpy(buffers[0], &batch, sizeof(batch));
    return Status();
  }
  std::string describe() const override { return "counter"; }
};

int64_t nextNumber(DataSource &source) {
  int64_t value = -1;
  const Status status = source.next({&value});
  INFO(status.message());
  REQUIRE(status.ok());
  return value;
}

} // namespace

TEST_CASE("batches come in order, whatever the depth, and after a seek", "[data]") {
  for (int depth : {0, 1, 2, 5}) {
    auto source = prefetch(std::make_unique<Counter>(), {8}, 4, depth);
    CHECK(source->samplesPerEpoch() == 40);
    for (int64_t i = 0; i < 50; ++i)
      REQUIRE(nextNumber(*source) == i);
    REQUIRE(source->seek(7).ok());
    CHECK(nextNumber(*source) == 7);
    CHECK(nextNumber(*source) == 8);
    REQUIRE(source->seek(9).ok()); // where it stands
    CHECK(nextNumber(*source) == 9);
    for (int64_t i = 0; i < 200; ++i) { // races with the thread
      REQUIRE(source->seek(i * 3).ok());
      REQUIRE(nextNumber(*source) == i * 3);
    }
  }
}

TEST_CASE("the thread works ahead, and no further than it may", "[data]") {
  auto owned = std::make_unique<Counter>();
  Counter &counter = *owned;
  auto source = prefetch(std::move(owned), {8}, 4, 3);
  CHECK(counter.produced == 0); // nothing before the first next()
  CHECK(nextNumber(*source) == 0);
  for (int i = 0; i < 500 && counter.produced < 4; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(counter.produced == 4);
}

TEST_CASE("an error comes at its batch and can be tried again", "[data]") {
  for (int depth : {0, 2}) {
    auto owned = std::make_unique<Counter>();
    Counter &counter = *owned;
    counter.bad = 2;
    auto source = prefetch(std::move(owned), {8}, 4, depth);
    int64_t value = 0;
    CHECK(nextNumber(*source) == 0);
    CHECK(nextNumber(*source) == 1);
    for (int i = 0; i < 3; ++i)
      CHECK_THAT(source->next({&value}).message(), Contains("batch 2 is bad"));
    counter.bad = -1;
    // What was prepared before may still be the error; after it, the batch itself.
    while (!source->next({&value}).ok()) {
    }
    CHECK(value == 2);
    CHECK(nextNumber(*source) == 3);
    CHECK_FALSE(source->next({}).ok());
  }
}
