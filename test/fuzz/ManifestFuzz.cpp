// The manifest of a checkpoint: what is accepted holds together, and is written as it was read.
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/MappedTensors.h"
#include "runtime/plan/PlanInfo.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

using namespace tessera;

namespace {

/// Without a fitting checksum nothing but the checksum would be tested: where the text is JSON, it gets one.
std::string signedText(const std::string &text) {
  bool deep = false;
  auto shallow = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json &) {
    return depth <= 8 || !(deep = true);
  };
  nlohmann::json json = nlohmann::json::parse(text, shallow, /*allow_exceptions=*/false);
  if (json.is_discarded() || deep || !json.is_object())
    return text;
  json.erase("crc32");
  std::string plain = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  char sum[9];
  std::snprintf(sum, sizeof sum, "%08x", rt::crc32Of(plain.data(), plain.size()));
  json["crc32"] = sum;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  rt::Manifest m;
  m.model = "tiny.onnx";
  m.mesh = {{"data", 2}};
  m.position = {30, 1, 64, 16};
  m.data = {"npy:x.npy", 7, true, std::nullopt};
  m.files = {{"rank0.safetensors", {rt::kSumChunk + 1, {1, 2}}}, {"rank1.safetensors", {8, {3}}}};
  m.tensors["w"] = {rt::TensorRole::Parameter, plan::F32, {4, 3}, {2, 1}, {}};
  m.tensors["w"].pieces = {{0, {{0, 0}, {2, 3}}}, {1, {{2, 0}, {2, 3}}}};
  m.tensors["s"] = {rt::TensorRole::Optimizer, plan::I64, {}, {}, {{1, {{}, {}}}}};
  return {rt::formatManifest(m), R"({"a.*": "b.*", "c": null, "d": {"name": "e", "transpose": true}})"};
}

void mutate(std::string &input, Random &random) {
  // Digits are where offsets, shapes and sizes are.
  if (random() % 3 == 0 || input.empty())
    return mutateBytes(input, random);
  for (int tries = 0; tries < 50; ++tries) {
    const size_t at = random() % input.size();
    if (input[at] < '0' || input[at] > '9')
      continue;
    if (random() % 4 == 0)
      input.insert(at, std::to_string(random()));
    else
      input[at] = char('0' + random() % 10);
    return;
  }
}

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  if (rt::Result<rt::NameMap> map = rt::NameMap::parse(text); map.ok())
    (void)map->of("a.weight");
  rt::Result<rt::Manifest> manifest = rt::parseManifest(signedText(text));
  if (!manifest)
    return 0;
  for (const auto &[name, tensor] : manifest->tensors)
    for (const rt::Manifest::Piece &piece : tensor.pieces)
      if (piece.file >= manifest->files.size() || !rt::isInside(piece.block, tensor.shape))
        abort();
  for (size_t file = 0; file < manifest->files.size(); ++file)
    (void)manifest->layoutOf(file).ok();
  const std::string written = rt::formatManifest(*manifest);
  rt::Result<rt::Manifest> again = rt::parseManifest(written);
  if (!again || rt::formatManifest(*again) != written)
    abort();
  return 0;
}
