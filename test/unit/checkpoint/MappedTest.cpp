#include "runtime/checkpoint/MappedTensors.h"
#include "runtime/checkpoint/Weights.h"
#include "test/unit/checkpoint/TensorsInMemory.h"
#include "test/unit/plan/PlanBuilder.h"

#include <catch2/catch.hpp>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

NameMap parse(const std::string &text) {
  Result<NameMap> map = NameMap::parse(text);
  INFO(map.status().message());
  REQUIRE(map.ok());
  return std::move(*map);
}

plan::Plan planOf(const std::vector<std::pair<std::string, std::vector<int64_t>>> &parameters) {
  PlanBuilder b(0, 1);
  for (const auto &[name, shape] : parameters)
    b.bind(plan::PARAMETER, name, b.buffer(name, shape, plan::F32, true), shape, std::vector<int64_t>(shape.size(), 0));
  return b.plan;
}

} // namespace

TEST_CASE("names are mapped one by one, by patterns, or not at all") {
  NameMap map = parse(R"({"enc.*": "bert.encoder.*", "enc.0.w": "first", "*.bias": "b/*/b",
                          "enc.1.*": "never.*", "head.*": null, "k": {"name": "K", "transpose": true}})");
  CHECK(*map.of("enc.0.w").name == "first");
  CHECK(*map.of("enc.1.w").name == "bert.encoder.1.w");
  CHECK(*map.of("x.y.bias").name == "b/x.y/b");
  CHECK_FALSE(map.of("head.w").name.has_value());
  CHECK(*map.of("k").name == "K");
  CHECK(map.of("k").transpose);
  CHECK(*map.of("other").name == "other");
  CHECK(*map.of("enc.").name == "bert.encoder.");
  for (const char *bad :
       {"[]", "{", R"({"a": 1})", R"({"a*": "b"})", R"({"a": "b*"})", R"({"**": "*"})", R"({"a": {"transpose": true}})",
        R"({"a": {"name": "b", "x": 1}})", R"({"a": {"name": "b", "transpose": 3}})",
        R"({"a": {"name": {"name": "b"}}})", R"({"a": "b", "a": "c"})"})
    CHECK_FALSE(NameMap::parse(bad).ok());
  CHECK_FALSE(NameMap::parse(std::string(100000, '[')).ok());
}

TEST_CASE("mapped tensors are read under the plan's names, transposed where told, or the plan's own") {
  auto from = std::make_unique<TensorsInMemory>(), own = std::make_unique<TensorsInMemory>();
  from->add("kernel", {2, 3}, 0);
  from->add("stray", {1}, 0);
  own->add("w", {3, 2}, 100);
  own->add("head", {4}, 200);
  plan::Plan plan = planOf({{"w", {3, 2}}, {"head", {4}}});
  MappedTensors tensors(std::move(from), std::move(own),
                        parse(R"({"w": {"name": "kernel", "transpose": true}, "head": null})"), plan);
  CHECK(checkWeights(plan, &tensors, false).ok());
  CHECK(unusedWeights(plan, tensors) == std::vector<std::string>{"'stray'"});
  std::vector<float> w(6), part(2), head(4);
  REQUIRE(tensors.read("w", {{0, 0}, {3, 2}}, plan::F32, w.data()).ok());
  CHECK(w == std::vector<float>{0, 3, 1, 4, 2, 5});
  REQUIRE(tensors.read("w", {{1, 1}, {2, 1}}, plan::F32, part.data()).ok());
  CHECK(part == std::vector<float>{4, 5});
  REQUIRE(tensors.read("head", {{0}, {4}}, plan::F32, head.data()).ok());
  CHECK(head == std::vector<float>{200, 201, 202, 203});
}

TEST_CASE("an entry that matches nothing and a transpose of a tensor that is no matrix are refused") {
  const plan::Plan plan = planOf({{"fc.w", {3, 2}}, {"fc.b", {3}}, {"conv.w", {4, 3, 3, 3}}});
  auto error = [&](const std::string &text) { return parse(text).check(plan).message(); };
  CHECK(error(R"({"fc.*": "x.*", "conv.w": null, "*": {"name": "y.*"}})") == "");
  CHECK(error(R"({"fc.*": {"name": "x.*", "transpose": true}})") == ""); // the vector stays what it is
  CHECK(error(R"({"fc.v": null})") == "entry 'fc.v' is for no tensor of the plan");
  CHECK(error(R"({"head.*": null})") == "entry 'head.*' is for no tensor of the plan");
  CHECK(error(R"({"fc.b": {"name": "b", "transpose": true}})") ==
        "entry 'fc.b' transposes 'fc.b' of shape [3], which is no matrix");
  CHECK(error(R"({"*.w": {"name": "*.k", "transpose": true}})") ==
        "entry '*.w' transposes 'conv.w' of shape [4, 3, 3, 3], which is no matrix");
}

TEST_CASE("missing, wrong-shaped and extra tensors are listed together") {
  TensorsInMemory tensors;
  tensors.add("a", {2, 2}, 0);
  tensors.add("extra", {1}, 0);
  plan::Plan plan = planOf({{"a", {2, 3}}, {"b", {1}}, {"c", {1}}});
  const std::string message = checkWeights(plan, &tensors, false).message();
  CHECK(message == "memory: parameter 'b', parameter 'c' are missing; tensor 'a' has the shape [2, 2]; the "
                   "plan wants [2, 3]; the plan has no use for 'extra'");
}
