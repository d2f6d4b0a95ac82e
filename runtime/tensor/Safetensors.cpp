#include "runtime/tensor/Safetensors.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/tensor/ConvertElements.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace tessera::rt {
namespace {

using Json = nlohmann::json;

constexpr int64_t kPiece = 1 << 18; // elements that are read and converted at a time
constexpr uint64_t kMaxHeader = uint64_t(64) << 20;

const std::pair<plan::DType, const char *> kTypes[] = {{plan::F32, "F32"},   {plan::F64, "F64"}, {plan::F16, "F16"},
                                                       {plan::BF16, "BF16"}, {plan::I64, "I64"}, {plan::I32, "I32"},
                                                       {plan::I8, "I8"},     {plan::U8, "U8"},   {plan::BOOL, "BOOL"}};

/// A list of integers in [0, 2^62], or nothing.
std::optional<std::vector<int64_t>> integers(const Json &object, const char *key, size_t limit) {
  auto it = object.find(key);
  if (it == object.end() || !it->is_array() || it->size() > limit)
    return std::nullopt;
  std::vector<int64_t> values;
  for (const Json &element : *it) {
    if (!element.is_number_unsigned() || element.get<uint64_t>() > uint64_t(1) << 62)
      return std::nullopt;
    values.push_back(int64_t(element.get<uint64_t>()));
  }
  return values;
}

Status parseEntry(const Json &object, uint64_t contents, Safetensors::Entry &entry) {
  auto bad = [&](const std::string &what) { return Status::error("tensor '" + entry.name + "' " + what); };
  auto type = object.is_object() ? object.find("dtype") : object.end();
  if (!object.is_object() || type == object.end() || !type->is_string())
    return bad("has no dtype");
  entry.type = safetensorsType(type->get_ref<const std::string &>());
  if (entry.type == plan::DTYPE_INVALID)
    return bad("has the dtype '" + type->get<std::string>() + "', which is not supported");
  std::optional<std::vector<int64_t>> shape = integers(object, "shape", 32);
  std::optional<std::vector<int64_t>> range = integers(object, "data_offsets", 2);
  if (!shape)
    return bad("has no sensible shape");
  if (!range || range->size() != 2 || (*range)[0] > (*range)[1] || uint64_t((*range)[1]) > contents)
    return bad("has data_offsets outside the file's " + std::to_string(contents) + " bytes of contents");
  entry.shape = std::move(*shape);
  entry.begin = uint64_t((*range)[0]);
  entry.end = uint64_t((*range)[1]);
  // The format allows tensors without elements; this is the only use of a dimension of 0 here.
  bool empty = std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end();
  std::optional<uint64_t> bytes = empty ? 0 : bytesOf(entry.shape, entry.type);
  if (!bytes || *bytes != entry.end - entry.begin)
    return bad("of shape " + shapeText(entry.shape) + " and type " + typeName(entry.type) + " has " +
               std::to_string(entry.end - entry.begin) + " bytes of contents");
  return Status();
}

} // namespace

Result<Safetensors> Safetensors::open(const std::string &path, std::optional<FileSums> sums) {
  Result<CheckedFile> file = CheckedFile::open(path, std::move(sums));
  if (!file)
    return file.status();
  Safetensors result(std::move(*file));
  TESSERA_RETURN_IF_ERROR(result.parseHeader().context(path));
  return result;
}

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> names;
  for (const auto &[name, entry] : entries_)
    names.push_back(name);
  return names;
}

std::optional<TensorType> Safetensors::typeOf(const std::string &name) const {
  const Entry *entry = find(name);
  if (!entry)
    return std::nullopt;
  return TensorType{entry->type, entry->shape};
}

Status Safetensors::read(const std::string &name, const Block &block, plan::DType type, void *out) const {
  const Entry *entry = find(name);
  if (!entry)
    return Status::error(path() + ": has no tensor " + quoted(name));
  return readBox(*entry, block.offset, block.shape, type, out);
}

Status Safetensors::parseHeader() {
  if (file_.size() < 8)
    return Status::error("is not a safetensors file: it has only " + std::to_string(file_.size()) + " bytes");
  char prefix[8];
  TESSERA_RETURN_IF_ERROR(file_.readAt(0, prefix, sizeof prefix));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<unsigned char>(prefix[i]);
  if (length > kMaxHeader || length > file_.size() - 8)
    return Status::error("is not a safetensors file, or is truncated: its header would have " + std::to_string(length) +
                         " bytes, the file has " + std::to_string(file_.size()));
  std::string header(length, '\0');
  TESSERA_RETURN_IF_ERROR(file_.readAt(8, header.data(), length));
  contents_ = 8 + length;
  uint64_t contents = file_.size() - 8 - length;
  // The format nests at most three deep. The check keeps a hostile header from building a deep
  // tree.
  bool deep = false;
  auto shallow = [&](int depth, Json::parse_event_t, Json &) { return depth <= 4 || !(deep = true); };
  Json json = Json::parse(header, shallow, /*allow_exceptions=*/false);
  if (json.is_discarded() || deep || !json.is_object())
    return Status::error("its header is not a JSON object of tensors");
  std::vector<std::pair<uint64_t, const Entry *>> ranges;
  for (const auto &[name, object] : json.items()) {
    if (name == "__metadata__") {
      if (object.is_object())
        for (const auto &[key, value] : object.items())
          if (value.is_string())
            metadata_[key] = value.get<std::string>();
      continue;
    }
    Entry entry;
    entry.name = name;
    TESSERA_RETURN_IF_ERROR(parseEntry(object, contents, entry));
    ranges.push_back({entry.begin, &entries_.emplace(name, std::move(entry)).first->second});
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second->end)
      return Status::error("tensors '" + ranges[i - 1].second->name + "' and '" + ranges[i].second->name + "' overlap");
  return Status();
}

const Safetensors::Entry *Safetensors::find(const std::string &name) const {
  auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

Status Safetensors::readBox(const Entry &entry, const std::vector<int64_t> &offset, const std::vector<int64_t> &shape,
                            plan::DType type, void *out) const {
  auto bad = [&](const std::string &what) { return Status::error(path() + ": tensor '" + entry.name + "' " + what); };
  if (type != entry.type && !(isFloatType(type) && isFloatType(entry.type)))
    return bad("has the type " + typeName(entry.type) + "; the plan wants " + typeName(type));
  size_t rank = entry.shape.size();
  std::optional<int64_t> count = elementsOf(shape);
  bool inside = offset.size() == rank && shape.size() == rank && count.has_value();
  for (size_t d = 0; inside && d < rank; ++d)
    inside = offset[d] >= 0 && shape[d] <= entry.shape[d] && offset[d] <= entry.shape[d] - shape[d];
  if (!inside)
    return bad("has the shape " + shapeText(entry.shape) + ", which has no box " + shapeText(shape) + " at " +
               shapeText(offset));
  // Trailing whole dimensions make one contiguous run.
  std::vector<int64_t> strides(rank, 1);
  for (size_t d = rank; d-- > 1;)
    strides[d - 1] = strides[d] * entry.shape[d];
  size_t split = rank;
  int64_t run = 1;
  while (split > 0) {
    --split;
    run *= shape[split];
    if (shape[split] != entry.shape[split])
      break;
  }
  uint64_t from = bytesPerElement(entry.type), to = bytesPerElement(type);
  std::vector<char> stored(size_t(std::min<int64_t>(run, kPiece)) * from);
  char *target = static_cast<char *>(out);
  std::vector<int64_t> index(split, 0);
  for (int64_t done = 0; done < *count; done += run) {
    int64_t start = 0;
    for (size_t d = 0; d < rank; ++d)
      start += (offset[d] + (d < split ? index[d] : 0)) * strides[d];
    for (int64_t at = 0; at < run; at += kPiece) {
      const auto n = uint64_t(std::min(run - at, kPiece));
      TESSERA_RETURN_IF_ERROR(
          file_.readAt(contents_ + entry.begin + uint64_t(start + at) * from, stored.data(), n * from));
      convertElements(stored.data(), entry.type, target + uint64_t(done + at) * to, type, n);
    }
    for (size_t d = split; d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
  return Status();
}

std::string safetensorsTypeName(plan::DType type) {
  for (const auto &[value, name] : kTypes)
    if (value == type)
      return name;
  return "";
}

plan::DType safetensorsType(const std::string &name) {
  for (const auto &[value, known] : kTypes)
    if (name == known)
      return value;
  return plan::DTYPE_INVALID;
}

Result<SafetensorsLayout> SafetensorsLayout::of(const std::vector<NamedTensor> &tensors,
                                                const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  SafetensorsLayout layout;
  std::set<std::string> names = {"__metadata__"};
  for (const NamedTensor &tensor : tensors) {
    std::optional<uint64_t> bytes = bytesOf(tensor.shape, tensor.type);
    if (!bytes || !names.insert(tensor.name).second)
      return Status::error("tensor " + quoted(tensor.name) + " of shape " + shapeText(tensor.shape) +
                           " cannot be written" + (bytes ? ": its name is taken" : ""));
    header[tensor.name] = {{"dtype", safetensorsTypeName(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {layout.bytes, layout.bytes + *bytes}}};
    layout.begins.push_back(layout.bytes);
    layout.bytes += *bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' '); // so that the contents begin aligned
  for (int i = 0; i < 8; ++i)
    layout.header.push_back(char(text.size() >> (8 * i)));
  layout.header += text;
  for (uint64_t &begin : layout.begins)
    begin += layout.header.size();
  layout.bytes += layout.header.size();
  return layout;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string &path, std::vector<Tensor> tensors,
                                                    const std::map<std::string, std::string> &metadata) {
  Result<SafetensorsLayout> layout = SafetensorsLayout::of(tensors, metadata);
  if (!layout)
    return layout.status().context(path);
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.status();
  TESSERA_RETURN_IF_ERROR(file->write(layout->header.data(), layout->header.size()));
  return SafetensorsWriter(path, std::move(*file), std::move(tensors));
}

Status SafetensorsWriter::add(const void *data, uint64_t bytes) {
  if (next_ < tensors_.size() && bytesOf(tensors_[next_].shape, tensors_[next_].type) != bytes)
    return Status::error(path_ + ": tensor '" + tensors_[next_].name + "' was given " + std::to_string(bytes) +
                         " bytes");
  return append(data, bytes);
}

Status SafetensorsWriter::append(const void *data, uint64_t bytes) {
  if (next_ == tensors_.size())
    return Status::error(path_ + ": more tensors than announced");
  const Tensor &tensor = tensors_[next_];
  const uint64_t all = bytesOf(tensor.shape, tensor.type).value_or(0);
  if (bytes > all - written_)
    return Status::error(path_ + ": tensor '" + tensor.name + "' was given too many bytes");
  written_ += bytes;
  if (written_ == all) {
    ++next_;
    written_ = 0;
  }
  return file_.write(data, bytes);
}

Status SafetensorsWriter::commit() {
  if (next_ != tensors_.size())
    return Status::error(path_ + ": tensor '" + tensors_[next_].name + "' was not written");
  return file_.commit();
}

} // namespace tessera::rt
