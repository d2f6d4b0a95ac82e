// The checksum covers the JSON text in UTF-8 with its members sorted, without white space and without the member
// "crc32". So a program that only reformats the manifest does not change it.
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/BlockTables.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace tessera::rt {
namespace {

using Json = nlohmann::json; // sorts members

constexpr int kVersion = 2;
constexpr int64_t kMaxCount = int64_t(1) << 53; // what every JSON reader keeps exact

std::string hex(uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

std::optional<uint32_t> parseHex(const Json &json) {
  if (!json.is_string() || json.get_ref<const std::string &>().size() != 8)
    return std::nullopt;
  uint32_t value = 0;
  for (char c : json.get_ref<const std::string &>()) {
    const char *digits = "0123456789abcdef", *at = std::char_traits<char>::find(digits, 16, c);
    if (!at)
      return std::nullopt;
    value = value << 4 | uint32_t(at - digits);
  }
  return value;
}

Json optionalBool(const std::optional<bool> &value) { return value ? Json(*value) : Json(); }

uint32_t sumOf(const Json &json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return crc32Of(text.data(), text.size());
}

/// Reads the members of an object. The first one that is missing or has the wrong kind is remembered as the error.
class Reader {
public:
  explicit Reader(const Json &json, std::string where = "") : json_(json), where_(std::move(where)) {}

  const Status &status() const { return status_; }
  void fail(const std::string &what) {
    if (status_)
      status_ = Status::error(where_ + what);
  }
  const Json *member(const char *key) {
    auto it = json_.is_object() ? json_.find(key) : json_.end();
    if (!json_.is_object() || it == json_.end()) {
      fail("has no member '" + std::string(key) + "'");
      return nullptr;
    }
    return &*it;
  }
  std::string text(const char *key) {
    const Json *json = member(key);
    if (json && json->is_string())
      return json->get<std::string>();
    fail("member '" + std::string(key) + "' is no text");
    return "";
  }
  int64_t count(const char *key) {
    const Json *json = member(key);
    return json ? number(*json, key) : 0;
  }
  int64_t number(const Json &json, const char *key) {
    if (json.is_number_unsigned() && json.get<uint64_t>() <= uint64_t(kMaxCount))
      return int64_t(json.get<uint64_t>());
    fail("member '" + std::string(key) + "' is no sensible number");
    return 0;
  }
  std::vector<int64_t> counts(const char *key) {
    std::vector<int64_t> values;
    if (const Json *json = list(key)) {
      if (json->size() > 32)
        fail("member '" + std::string(key) + "' is too long");
      for (const Json &element : *json)
        if (status_)
          values.push_back(number(element, key));
    }
    return values;
  }
  const Json *list(const char *key) {
    const Json *json = member(key);
    if (json && json->is_array())
      return json;
    fail("member '" + std::string(key) + "' is no list");
    return nullptr;
  }
  std::optional<bool> maybe(const char *key) {
    const Json *json = member(key);
    if (json && json->is_boolean())
      return json->get<bool>();
    if (json && !json->is_null())
      fail("member '" + std::string(key) + "' is neither true, false nor null");
    return std::nullopt;
  }

private:
  const Json &json_;
  std::string where_;
  Status status_;
};

/// Whether the name is that of a file in the folder, and leads nowhere else.
bool isPlainName(const std::string &name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) {
           return c == '/' || c < 32 || c == 127; // control characters would reach messages
         });
}

Status parseFiles(const Json &list, Manifest &manifest) {
  if (list.size() > kMaxCheckpointFiles)
    return Status::error("has " + std::to_string(list.size()) + " files, more than any plan has ranks");
  std::set<std::string> names;
  for (const Json &json : list) {
    Reader r(json, "a file ");
    Manifest::File file{r.text("name"), {}};
    file.sums.bytes = uint64_t(r.count("bytes"));
    const Json *sums = r.list("crc32");
    TESSERA_RETURN_IF_ERROR(r.status());
    if (!isPlainName(file.name) || !names.insert(file.name).second)
      return Status::error("a file has the name " + rt::quoted(file.name) +
                           ", which is no file name or that of another file");
    for (const Json &sum : *sums) {
      std::optional<uint32_t> value = parseHex(sum);
      if (!value)
        return Status::error("file " + rt::quoted(file.name) + " has a checksum that is not eight hexadecimal digits");
      file.sums.chunks.push_back(*value);
    }
    if (file.sums.chunks.size() != FileSums::count(file.sums.bytes))
      return Status::error("file " + rt::quoted(file.name) + " of " + std::to_string(file.sums.bytes) + " bytes has " +
                           std::to_string(file.sums.chunks.size()) + " checksums");
    manifest.files.push_back(std::move(file));
  }
  return Status();
}

/// The pieces of a tensor that tells each of them: version 1.
Status parseBlocks(const std::string &what, const Json &blocks, const Manifest &manifest, Manifest::Tensor &tensor) {
  std::vector<Block> all;
  std::set<size_t> used;
  for (const Json &entry : blocks) {
    Reader b(entry, what + "has a block that ");
    Manifest::Piece piece;
    piece.file = size_t(b.count("file"));
    piece.block.offset = b.counts("offset");
    piece.block.shape = b.counts("shape");
    TESSERA_RETURN_IF_ERROR(b.status());
    if (piece.file >= manifest.files.size() || !used.insert(piece.file).second || !isInside(piece.block, tensor.shape))
      return Status::error(what + "has a block that lies in no file, in one that has another, or "
                                  "outside the tensor");
    all.push_back(piece.block);
    tensor.pieces.push_back(std::move(piece));
  }
  if (Status status = checkTiling(all, tensor.shape); !status)
    return Status::error(what.substr(0, what.size() - 1) + ": " + status.message());
  return Status();
}

Status parseTensor(const std::string &name, const Json &json, const BlockTables &tables, size_t &total,
                   Manifest &manifest) {
  const std::string what = "tensor " + quoted(name) + " ";
  Reader r(json, what);
  Manifest::Tensor tensor;
  const std::string role = r.text("role");
  tensor.type = safetensorsType(r.text("dtype"));
  tensor.shape = r.counts("shape");
  tensor.split = r.counts("split");
  TESSERA_RETURN_IF_ERROR(r.status());
  if (role == "parameter")
    tensor.role = TensorRole::Parameter;
  else if (role == "state")
    tensor.role = TensorRole::State;
  else if (role == "optimizer")
    tensor.role = TensorRole::Optimizer;
  else
    return Status::error(what + "has the unknown role " + quoted(role));
  if (tensor.type == plan::DTYPE_INVALID || !bytesOf(tensor.shape, tensor.type))
    return Status::error(what + "has no sensible type and shape");
  if (tensor.split.size() != tensor.shape.size())
    return Status::error(what + "has a split of another number of dimensions");
  if (json.contains("blocks")) {
    const Json *blocks = r.list("blocks");
    TESSERA_RETURN_IF_ERROR(r.status());
    TESSERA_RETURN_IF_ERROR(parseBlocks(what, *blocks, manifest, tensor));
  } else {
    Result<std::vector<Manifest::Piece>> pieces = tables.read(json, tensor.shape, manifest.files.size());
    if (!pieces)
      return Status::error(what + pieces.status().message());
    tensor.pieces = std::move(*pieces);
  }
  if (total += tensor.pieces.size(); total > kMaxPieces)
    return Status::error("has more than " + std::to_string(kMaxPieces) + " blocks");
  manifest.tensors.emplace(name, std::move(tensor));
  return Status();
}

Result<Manifest> parseMembers(const Json &json) {
  Manifest manifest;
  Reader r(json);
  manifest.producer = r.text("producer");
  manifest.planId = r.text("plan");
  const Json *model = r.member("model"), *position = r.member("position"), *data = r.member("data"),
             *mesh = r.list("mesh"), *files = r.list("files"), *tensors = r.member("tensors");
  if (json.contains("leaves"))
    manifest.leaves = r.count("leaves");
  TESSERA_RETURN_IF_ERROR(r.status());
  Reader m(*model, "model ");
  manifest.model = m.text("name");
  manifest.modelHash = m.text("hash");
  TESSERA_RETURN_IF_ERROR(m.status());
  Reader p(*position, "position ");
  manifest.position = {p.count("step"), p.count("epoch"), p.count("sample"), p.count("batch")};
  TESSERA_RETURN_IF_ERROR(p.status());
  Reader d(*data, "data ");
  manifest.data.source = d.text("source");
  const Json *seed = d.member("seed");
  if (seed && seed->is_number_unsigned())
    manifest.data.seed = seed->get<uint64_t>();
  else
    d.fail("member 'seed' is no number");
  manifest.data.shuffle = d.maybe("shuffle");
  manifest.data.augment = d.maybe("augment");
  TESSERA_RETURN_IF_ERROR(d.status());
  for (const Json &axis : *mesh) {
    if (!axis.is_array() || axis.size() != 2 || !axis[0].is_string())
      return Status::error("its mesh is not a list of names and sizes");
    manifest.mesh.push_back({axis[0].get<std::string>(), r.number(axis[1], "mesh")});
  }
  TESSERA_RETURN_IF_ERROR(r.status());
  TESSERA_RETURN_IF_ERROR(parseFiles(*files, manifest));
  if (!tensors->is_object())
    return Status::error("member 'tensors' is no object");
  const Result<BlockTables> tables = BlockTables::of(json);
  if (!tables)
    return tables.status();
  size_t pieces = 0;
  for (const auto &[name, tensor] : tensors->items())
    TESSERA_RETURN_IF_ERROR(parseTensor(name, tensor, *tables, pieces, manifest));
  return manifest;
}

} // namespace

std::string roleName(TensorRole role) {
  return role == TensorRole::Parameter ? "parameter" : role == TensorRole::State ? "state" : "optimizer";
}

std::vector<NamedTensor> Manifest::tensorsOf(size_t file) const {
  std::vector<NamedTensor> held;
  for (const auto &[name, tensor] : tensors)
    for (const Piece &piece : tensor.pieces)
      if (piece.file == file)
        held.push_back({name, tensor.type, piece.block.shape});
  return held;
}

std::vector<std::vector<NamedTensor>> Manifest::tensorsByFile() const {
  std::vector<std::vector<NamedTensor>> held(files.size());
  for (const auto &[name, tensor] : tensors)
    for (const Piece &piece : tensor.pieces)
      held[piece.file].push_back({name, tensor.type, piece.block.shape});
  return held;
}

Result<SafetensorsLayout> Manifest::layoutOf(const std::vector<NamedTensor> &held) {
  // "format": what tells Hugging Face's loaders that these are PyTorch's names and shapes.
  return SafetensorsLayout::of(held, {{"format", "pt"}});
}

std::string formatManifest(const Manifest &manifest) {
  Json json = {{"format", "tessera-checkpoint"}, {"version", kVersion}, {"producer", manifest.producer}};
  json["model"] = {{"name", manifest.model}, {"hash", manifest.modelHash}};
  json["plan"] = manifest.planId;
  json["mesh"] = Json::array();
  for (const auto &[axis, size] : manifest.mesh)
    json["mesh"].push_back(Json::array({axis, size}));
  if (manifest.leaves > 0)
    json["leaves"] = manifest.leaves;
  const RunPosition &p = manifest.position;
  json["position"] = {{"step", p.step}, {"epoch", p.epoch}, {"sample", p.sample}, {"batch", p.batch}};
  json["data"] = {{"source", manifest.data.source},
                  {"seed", manifest.data.seed},
                  {"shuffle", optionalBool(manifest.data.shuffle)},
                  {"augment", optionalBool(manifest.data.augment)}};
  // Random numbers are a function of the plan's seed, the step and the element, so there is no other state to save.
  json["random"] = {{"generator", "philox4x32-10"}, {"counter", "element/4"}, {"step", p.step}};
  json["chunk_bytes"] = kSumChunk;
  json["files"] = Json::array();
  for (const Manifest::File &file : manifest.files) {
    Json sums = Json::array();
    for (uint32_t sum : file.sums.chunks)
      sums.push_back(hex(sum));
    json["files"].push_back({{"name", file.name}, {"bytes", file.sums.bytes}, {"crc32", std::move(sums)}});
  }
  BlockTables tables;
  Json tensors = Json::object();
  for (const auto &[name, tensor] : manifest.tensors) {
    Json entry = {{"role", roleName(tensor.role)},
                  {"dtype", safetensorsTypeName(tensor.type)},
                  {"shape", tensor.shape},
                  {"split", tensor.split}};
    if (!tables.write(tensor, entry)) {
      Json &blocks = entry["blocks"] = Json::array();
      for (const Manifest::Piece &piece : tensor.pieces)
        blocks.push_back({{"file", piece.file}, {"offset", piece.block.offset}, {"shape", piece.block.shape}});
    }
    tensors[name] = std::move(entry);
  }
  tables.writeTables(json);
  json["tensors"] = std::move(tensors);
  json["crc32"] = hex(sumOf(json));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::string> manifestText(const Manifest &manifest, uint64_t most) {
  size_t pieces = 0;
  for (const auto &[name, tensor] : manifest.tensors)
    pieces += tensor.pieces.size();
  if (pieces > kMaxPieces)
    return Status::error("the checkpoint would have " + std::to_string(pieces) + " blocks, of which readers take " +
                         std::to_string(kMaxPieces) + "; write the tensors whole (--integrated)");
  std::string text = formatManifest(manifest);
  if (text.size() <= most)
    return text;
  return Status::error("the manifest would have " + std::to_string(text.size()) + " bytes, of which readers take " +
                       std::to_string(most) + ": tensors lie in too many blocks; write them whole (--integrated)");
}

Result<Manifest> parseManifest(std::string_view text) {
  if (text.size() > kMaxManifestBytes)
    return Status::error("is larger than any manifest");
  bool deep = false;
  auto shallow = [&](int depth, Json::parse_event_t, Json &) { return depth <= 6 || !(deep = true); };
  Json json = Json::parse(text, shallow, /*allow_exceptions=*/false);
  if (json.is_discarded() || deep || !json.is_object())
    return Status::error("is no manifest, or is truncated or damaged: not a JSON object");
  if (auto format = json.find("format"); format == json.end() || *format != "tessera-checkpoint")
    return Status::error("is no manifest of a checkpoint");
  if (auto version = json.find("version"); version == json.end() || (*version != 1 && *version != kVersion))
    return Status::error("has another format version than 1 and " + std::to_string(kVersion));
  auto sum = json.find("crc32");
  std::optional<uint32_t> told = sum == json.end() ? std::nullopt : parseHex(*sum);
  json.erase("crc32");
  if (!told || *told != sumOf(json))
    return Status::error("is damaged: its contents do not match its checksum");
  if (auto chunk = json.find("chunk_bytes"); chunk == json.end() || *chunk != kSumChunk)
    return Status::error("has checksums of chunks of another size than " + std::to_string(kSumChunk));
  return parseMembers(json);
}

} // namespace tessera::rt
