#include "runtime/checkpoint/Manifest.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
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
  m.leaves = 8;
  m.position = {30, 1, 64, 16};
  m.data = {"npy:x.npy", 18446744073709551615u, true, std::nullopt};
  m.files = {{"rank0.safetensors", {kSumChunk + 1, {0x0badcafe, 0xffffffff}}}, {"rank1.safetensors", {0, {}}}};
  m.tensors["w"] = {TensorRole::Parameter, plan::F32, {4, 3}, {2, 1}, {}};
  m.tensors["w"].pieces = {{0, {{0, 0}, {2, 3}}}, {1, {{2, 0}, {2, 3}}}};
  m.tensors["momentum/w"] = {TensorRole::Optimizer, plan::BF16, {}, {}, {{1, {{}, {}}}}};
  return m;
}

/// The text after a change, with a checksum that fits. Only a wrong writer or an adversary makes it.
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

/// The manifest of version 1, which has every block by itself.
void asVersion1(Json &json) {
  const Manifest manifest = sample();
  json["version"] = 1;
  json.erase("cuts");
  json.erase("places");
  for (auto &[name, tensor] : json["tensors"].items()) {
    tensor.erase("cuts");
    tensor.erase("places");
    for (const Manifest::Piece &piece : manifest.tensors.at(name).pieces)
      tensor["blocks"].push_back({{"file", piece.file}, {"offset", piece.block.offset}, {"shape", piece.block.shape}});
  }
}

std::function<void(Json &)> inVersion1(const std::function<void(Json &)> &change) {
  return [change](Json &json) {
    asVersion1(json);
    change(json);
  };
}

/// A manifest as transformers on many ranks have it: all ranks cut every tensor, in one of a few ways.
Manifest large(int64_t ranks, int tensors) {
  Manifest m = sample();
  m.files.clear();
  m.tensors.clear();
  for (int64_t rank = 0; rank < ranks; ++rank)
    m.files.push_back({"rank" + std::to_string(rank) + ".safetensors", {kSumChunk, {uint32_t(rank)}}});
  for (int t = 0; t < tensors; ++t) {
    const int64_t rows = 768 + 16 * (t % 40), columns = ranks * 3 - 1; // the last block is narrower
    Manifest::Tensor tensor = {
        t % 3 == 0 ? TensorRole::Parameter : TensorRole::Optimizer, plan::F32, {rows, columns}, {1, ranks}, {}};
    for (int64_t rank = 0; rank < ranks; ++rank)
      tensor.pieces.push_back({size_t((rank + t % 5) % ranks), {{0, 3 * rank}, {rows, rank + 1 < ranks ? 3 : 2}}});
    m.tensors["model.layers." + std::to_string(t) + ".weight"] = std::move(tensor);
  }
  return m;
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
  CHECK(again->leaves == m.leaves);
  CHECK(again->position.step == 30);
  CHECK(again->data.seed == m.data.seed);
  CHECK(again->data.shuffle == true);
  CHECK_FALSE(again->data.augment.has_value());
  CHECK(again->files[0].sums.chunks == m.files[0].sums.chunks);
  CHECK(again->tensors["w"].pieces[1].block == m.tensors["w"].pieces[1].block);
  CHECK(again->tensors["momentum/w"].role == TensorRole::Optimizer);
  CHECK(parseManifest(changed([](Json &) {})).ok()); // another layout of the same
}

TEST_CASE("a manifest of version 1 is read") {
  Result<Manifest> old = parseManifest(changed(asVersion1));
  INFO(old.status().message());
  REQUIRE(old.ok());
  CHECK(formatManifest(*old) == formatManifest(sample()));
}

TEST_CASE("the manifest of hundreds of ranks fits, and is read in time") {
  const Manifest m = large(512, 3000);
  const auto start = std::chrono::steady_clock::now();
  Result<std::string> text = manifestText(m);
  REQUIRE(text.ok());
  CHECK(text->size() < kMaxManifestBytes / 16);
  Result<Manifest> again = parseManifest(*text);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  WARN("512 ranks, 3000 tensors: " << text->size() << " bytes, " << seconds << " s");
  REQUIRE(again.ok());
  for (const auto &[name, tensor] : m.tensors) {
    const Manifest::Tensor &found = again->tensors.at(name);
    REQUIRE(found.pieces.size() == tensor.pieces.size());
    for (size_t i = 0; i < tensor.pieces.size(); ++i)
      if (found.pieces[i].file != tensor.pieces[i].file || found.pieces[i].block != tensor.pieces[i].block)
        FAIL(name << ", block " << i);
  }
  CHECK(formatManifest(*again) == *text);
}

TEST_CASE("a small text cannot ask for more blocks than memory holds") {
  std::string text = changed([](Json &j) {
    j = Json::parse(formatManifest(large(4096, 1)));
    const Json tensor = j["tensors"].begin().value();
    for (int i = 0; i < 1100; ++i)
      j["tensors"]["t" + std::to_string(i)] = tensor;
  });
  CHECK(text.size() < (1 << 20));
  Result<Manifest> found = parseManifest(text);
  CHECK_THAT(found.status().message(), Catch::Contains("more than 4194304 blocks"));
  CHECK_THAT(manifestText(large(4096, 1025)).status().message(), Catch::Contains("--integrated"));
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
      {"version", [](Json &j) { j["version"] = 3; }, "version"},
      {"chunks", [](Json &j) { j["chunk_bytes"] = 1; }, "chunks of another size"},
      {"no member", [](Json &j) { j.erase("position"); }, "'position'"},
      {"step", [](Json &j) { j["position"]["step"] = -1; }, "'step'"},
      {"huge", [](Json &j) { j["position"]["step"] = uint64_t(1) << 60; }, "'step'"},
      {"seed", [](Json &j) { j["data"]["seed"] = "x"; }, "'seed'"},
      {"mesh", [](Json &j) { j["mesh"] = Json::array({1}); }, "mesh"},
      {"way out", [](Json &j) { j["files"][0]["name"] = "../x"; }, "no file name"},
      {"hidden", [](Json &j) { j["files"][0]["name"] = ".x"; }, "no file name"},
      {"same file", [](Json &j) { j["files"][0]["name"] = "rank1.safetensors"; }, "that of another file"},
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
      {"file", inVersion1([](Json &j) { j["tensors"]["w"]["blocks"][0]["file"] = 7; }), "lies in no file"},
      {"twice", inVersion1([](Json &j) { j["tensors"]["w"]["blocks"][0]["file"] = 1; }), "lies in no file"},
      {"outside", inVersion1([](Json &j) {
         j["tensors"]["w"]["blocks"][0]["offset"] = {3, 0};
       }),
       "outside"},
      {"overlap", inVersion1([](Json &j) {
         j["tensors"]["w"]["blocks"][0]["offset"] = {1, 0};
       }),
       "overlap"},
      {"hole", inVersion1([](Json &j) { j["tensors"]["w"]["blocks"].erase(0); }), "hold 6 elements"},
      {"tables", [](Json &j) { j.erase("places"); }, "tables of blocks"},
      {"no table", [](Json &j) { j["cuts"] = 1; }, "tables of blocks"},
      {"cut", [](Json &j) { j["cuts"][1][0] = {0}; }, "tables of blocks"},
      {"place",
       [](Json &j) {
         j["places"][1] = {-1, 0};
       },
       "tables of blocks"},
      {"place twice",
       [](Json &j) {
         j["places"][1] = {1, 1};
       },
       "tables of blocks"},
      {"no cuts", [](Json &j) { j["tensors"]["w"].erase("cuts"); }, "has no blocks"},
      {"which cuts", [](Json &j) { j["tensors"]["w"]["cuts"] = 2; }, "has no blocks"},
      {"other cuts", [](Json &j) { j["tensors"]["w"]["cuts"] = 0; }, "do not fit its shape"},
      {"cuts back",
       [](Json &j) {
         j["cuts"][1][0] = {0, 3, 2, 4};
       },
       "do not fit its shape"},
      {"cuts late",
       [](Json &j) {
         j["cuts"][1][0] = {1, 2, 4};
       },
       "do not fit its shape"},
      {"cuts short",
       [](Json &j) {
         j["cuts"][1][0] = {0, 2, 3};
       },
       "do not fit its shape"},
      {"cuts many",
       [](Json &j) {
         j["cuts"][1][0] = {0, 1, 2, 4};
       },
       "another number of files"},
      {"place far",
       [](Json &j) {
         j["places"][1] = {0, 7};
       },
       "lies in no file"},
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
