#include "runtime/checkpoint/Manifest.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace tessera::rt;
namespace plan = tessera::plan;
using Json = nlohmann::json;

namespace {

Manifest sample() {
  Manifest m;
  m.producer = "test";
  m.model = "tiny.onnx";
  m.modelHash = "0123";
  m.planId = "abc";
  m.mesh = {{"data", 2}, {"model", 2}};
  m.position = {30, 1, 64, 16};
  m.data = {"npy:x.npy", 18446744073709551615u, true, std::nullopt};
  m.files = {{"rank0.safetensors", {kSumChunk + 1, {0x0badcafe, 0xffffffff}}}, {"rank1.safetensors", {0, {}}}};
  m.tensors["w"] = {TensorRole::Parameter, plan::F32, {4, 3}, {2, 1}, {}};
  m.tensors["w"].pieces = {{0, {{0, 0}, {2, 3}}}, {1, {{2, 0}, {2, 3}}}};
  m.tensors["momentum/w"] = {TensorRole::Optimizer, plan::BF16, {}, {}, {{1, {{}, {}}}}};
  return m;
}

/// The text after a change, with a checksum that fits: what only a wrong writer or an adversary makes.
std::string changed(const std::function<void(Json &)> &change) {
  Json json = Json::parse(formatManifest(sample()));
  change(json);
  json.erase("crc32");
  std::string text = json.dump();
  char sum[9];
  std::snprintf(sum, sizeof sum, "%08x", crc32Of(text.data(), text.size()));
  json["crc32"] = sum;
  return json.dump(2);
}

} // namespace

TEST_CASE("a manifest is read as it was written") {
  Manifest m = sample();
  std::string text = formatManifest(m);
  Result<Manifest> again = parseManifest(text);
  INFO(again.status().message());
  REQUIRE(again.ok());
  CHECK(formatManifest(*again) == text);
  CHECK(again->mesh == m.mesh);
  CHECK(again->position.step == 30);
  CHECK(again->data.seed == m.data.seed);
  CHECK(again->data.shuffle == true);
  CHECK_FALSE(again->data.augment.has_value());
  CHECK(again->files[0].sums.chunks == m.files[0].sums.chunks);
  CHECK(again->tensors["w"].pieces[1].block == m.tensors["w"].pieces[1].block);
  CHECK(again->tensors["momentum/w"].role == TensorRole::Optimizer);
  CHECK(parseManifest(changed([](Json &) {})).ok()); // another layout of the same
}

TEST_CASE("every change of a byte of a manifest is seen") {
  const std::string text = formatManifest(sample());
  for (size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = text;
      bad[i] = char(bad[i] ^ (1 << bit));
      Result<Manifest> found = parseManifest(bad);
      if (found.ok()) // white space only
        CHECK(formatManifest(*found) == text);
    }
  for (size_t i = 0; i < text.size() - 1; ++i)
    CHECK_FALSE(parseManifest(text.substr(0, i)).ok());
}

TEST_CASE("a manifest that does not hold together is refused") {
  struct Case {
    const char *name;
    std::function<void(Json &)> change;
    const char *message;
  };
  const std::vector<Case> cases = {
      {"format", [](Json &j) { j["format"] = "other"; }, "no manifest of a checkpoint"},
      {"version", [](Json &j) { j["version"] = 2; }, "version"},
      {"chunks", [](Json &j) { j["chunk_bytes"] = 1; }, "chunks of another size"},
      {"no member", [](Json &j) { j.erase("position"); }, "'position'"},
      {"step", [](Json &j) { j["position"]["step"] = -1; }, "'step'"},
      {"huge", [](Json &j) { j["position"]["step"] = uint64_t(1) << 60; }, "'step'"},
      {"seed", [](Json &j) { j["data"]["seed"] = "x"; }, "'seed'"},
      {"mesh", [](Json &j) { j["mesh"] = Json::array({1}); }, "mesh"},
      {"way out", [](Json &j) { j["files"][0]["name"] = "../x"; }, "no file name"},
      {"hidden", [](Json &j) { j["files"][0]["name"] = ".x"; }, "no file name"},
      {"same file", [](Json &j) { j["files"][0]["name"] = "rank1.safetensors"; }, "taken"},
      {"sums", [](Json &j) { j["files"][0]["bytes"] = 5; }, "2 checksums"},
      {"sum", [](Json &j) { j["files"][0]["crc32"][0] = "0BADCAFE"; }, "checksum"},
      {"role", [](Json &j) { j["tensors"]["w"]["role"] = "x"; }, "role"},
      {"type", [](Json &j) { j["tensors"]["w"]["dtype"] = "F31"; }, "type and shape"},
      {"shape",
       [](Json &j) {
         j["tensors"]["w"]["shape"] = {0, 3};
       },
       "type and shape"},
      {"product",
       [](Json &j) {
         j["tensors"]["w"]["shape"] = {int64_t(1) << 40, int64_t(1) << 40};
       },
       "type and shape"},
      {"dimensions", [](Json &j) { j["tensors"]["w"]["shape"] = Json(40, 1); }, "too long"},
      {"split", [](Json &j) { j["tensors"]["w"]["split"] = {1}; }, "split"},
      {"file", [](Json &j) { j["tensors"]["w"]["blocks"][0]["file"] = 7; }, "lies in no file"},
      {"twice", [](Json &j) { j["tensors"]["w"]["blocks"][0]["file"] = 1; }, "lies in no file"},
      {"outside",
       [](Json &j) {
         j["tensors"]["w"]["blocks"][0]["offset"] = {3, 0};
       },
       "outside"},
      {"overlap",
       [](Json &j) {
         j["tensors"]["w"]["blocks"][0]["offset"] = {1, 0};
       },
       "overlap"},
      {"hole", [](Json &j) { j["tensors"]["w"]["blocks"].erase(0); }, "hold 6 elements"},
      {"tensors", [](Json &j) { j["tensors"] = 3; }, "tensors"},
  };
  for (const Case &c : cases) {
    Result<Manifest> found = parseManifest(changed(c.change));
    INFO(c.name << ": " << found.status().message());
    CHECK_FALSE(found.ok());
    CHECK(found.status().message().find(c.message) != std::string::npos);
  }
  CHECK_FALSE(parseManifest(std::string(100000, '[')).ok());
  CHECK_FALSE(parseManifest("").ok());
}
