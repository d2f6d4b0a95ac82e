// Parameters for which the plan has only a rule.
#include "runtime/checkpoint/InitialTensors.h"
#include "test/unit/checkpoint/TensorsInMemory.h"
#include "test/unit/plan/PlanBuilder.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

void add(PlanBuilder &b, const std::string &name, const std::vector<int64_t> &shape, plan::Initial::Kind kind,
         double value, uint64_t seed) {
  plan::Binding *binding = b.bind(plan::PARAMETER, name, b.buffer(name, shape, plan::F32, true), shape,
                                  std::vector<int64_t>(shape.size(), 0));
  binding->mutable_initial()->set_kind(kind);
  binding->mutable_initial()->set_value(value);
  binding->mutable_initial()->set_seed(seed);
}

InitialTensors tensorsOf(const plan::Plan &plan) {
  auto file = std::make_unique<TensorsInMemory>();
  file->add("stored", {2}, 7);
  return InitialTensors(std::move(file), plan);
}

template <typename T>
std::vector<T> read(const TensorSource &source, const std::string &name, const Block &block, plan::DType type) {
  std::vector<T> values(size_t(*elementsOf(block.shape)));
  Status status = source.read(name, block, type, values.data());
  INFO(status.message());
  REQUIRE(status.ok());
  return values;
}

} // namespace

TEST_CASE("a rank makes the block it holds, and every rank the same numbers") {
  PlanBuilder b(0, 1);
  add(b, "w", {5, 4, 3}, plan::Initial::NORMAL, 0.5, 3);
  const InitialTensors tensors = tensorsOf(b.plan);
  const std::vector<float> whole = read<float>(tensors, "w", wholeBlock({5, 4, 3}), plan::F32);
  for (const Block &block : {Block{{1, 2, 1}, {3, 2, 2}}, Block{{4, 0, 0}, {1, 4, 3}}}) {
    std::vector<float> part(size_t(*elementsOf(block.shape)));
    copyBlock(whole.data(), wholeBlock({5, 4, 3}), part.data(), block, 4);
    CHECK(read<float>(tensors, "w", block, plan::F32) == part);
  }
  // A run in double precision starts from the same numbers, not from ones with more digits.
  const std::vector<double> wide = read<double>(tensors, "w", wholeBlock({5, 4, 3}), plan::F64);
  CHECK(std::equal(wide.begin(), wide.end(), whole.begin()));
  std::vector<float> out(60);
  CHECK_FALSE(tensors.read("w", {{1, 0, 0}, {5, 4, 3}}, plan::F32, out.data()).ok());
  CHECK_FALSE(tensors.read("w", {{0}, {5}}, plan::F32, out.data()).ok());
  CHECK_FALSE(tensors.read("w", wholeBlock({5, 4, 3}), plan::I32, out.data()).ok());
}

TEST_CASE("a tensor of several threads' ranges is the same as its rows one by one") {
  PlanBuilder b(0, 1);
  add(b, "w", {5, 200'000}, plan::Initial::NORMAL, 0.5, 3);
  const InitialTensors tensors = tensorsOf(b.plan);
  const std::vector<float> whole = read<float>(tensors, "w", wholeBlock({5, 200'000}), plan::F32);
  for (int64_t row = 0; row < 5; ++row) {
    const std::vector<float> one = read<float>(tensors, "w", {{row, 0}, {1, 200'000}}, plan::F32);
    CHECK(std::equal(one.begin(), one.end(), whole.begin() + row * 200'000));
  }
}

TEST_CASE("rules fill tensors as they say") {
  PlanBuilder b(0, 1);
  const std::vector<int64_t> shape = {100000}; // more than is made at a time
  add(b, "normal", shape, plan::Initial::NORMAL, 2, 1);
  add(b, "other", shape, plan::Initial::NORMAL, 2, 1);
  add(b, "seeded", shape, plan::Initial::NORMAL, 2, 2);
  add(b, "uniform", shape, plan::Initial::UNIFORM, 3, 1);
  add(b, "one", {}, plan::Initial::CONSTANT, 1, 0);
  const InitialTensors tensors = tensorsOf(b.plan);
  auto moment = [&](const char *name, int power) {
    double sum = 0;
    for (double x : read<double>(tensors, name, wholeBlock(shape), plan::F64))
      sum += std::pow(x, power) / 100000;
    return sum;
  };
  CHECK(std::abs(moment("normal", 1)) < 4 * 2 / std::sqrt(1e5)); // four standard errors
  CHECK(moment("normal", 2) == Approx(4).epsilon(0.02));
  CHECK(moment("normal", 4) == Approx(3 * 16).epsilon(0.05));
  CHECK(std::abs(moment("uniform", 1)) < 4 * 3 / std::sqrt(3e5));
  CHECK(moment("uniform", 2) == Approx(3).epsilon(0.02));
  CHECK(moment("other", 1) != moment("normal", 1));
  CHECK(moment("seeded", 1) != moment("normal", 1));
  CHECK(read<float>(tensors, "one", {{}, {}}, plan::F32) == std::vector<float>{1});
  CHECK(read<float>(tensors, "stored", {{0}, {2}}, plan::F32) == std::vector<float>{7, 8});
  CHECK(tensors.names() == std::vector<std::string>{"normal", "one", "other", "seeded", "stored", "uniform"});
  CHECK_FALSE(tensors.typeOf("none").has_value());
}
