#include "runtime/checkpoint/ConvertCheckpoint.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace tessera::rt {
namespace {

constexpr int64_t kSlab = 1 << 20; // elements in memory at a time

/// Reads a block in slabs and calls f(slab, its elements, packed and converted to `type`).
template <typename F>
Status forEachSlab(const TensorSource &source, const std::string &name, const Block &block, plan::DType type, F f) {
  std::vector<char> data;
  for (const Block &slab : slabsOf(block, kSlab)) {
    data.resize(bytesOf(slab.shape, type).value_or(0));
    TESSERA_RETURN_IF_ERROR(source.read(name, slab, type, data.data()));
    TESSERA_RETURN_IF_ERROR(f(slab, data));
  }
  return Status();
}

} // namespace

/// Writes all files of the checkpoint into `folder` and fills in their checksums.
static Status writeFiles(const TensorSource &source, Manifest &manifest, const std::string &folder) {
  CheckpointWriter writer(folder, manifest);
  for (size_t file = 0; file < manifest.files.size(); ++file)
    TESSERA_RETURN_IF_ERROR(writer.begin(file));
  for (const auto &[name, tensor] : manifest.tensors)
    for (const Manifest::Piece &piece : tensor.pieces)
      TESSERA_RETURN_IF_ERROR(
          forEachSlab(source, name, piece.block, tensor.type, [&](const Block &slab, const std::vector<char> &data) {
            return writer.write(name, slab, data.data());
          }));
  TESSERA_RETURN_IF_ERROR(writer.sync());
  for (Manifest::File &file : manifest.files) {
    Result<FileSums> sums = sumFile(folder + "/" + file.name);
    if (!sums)
      return sums.status();
    file.sums = std::move(*sums);
  }
  return Status();
}

Status rewrite(const TensorSource &source, Manifest manifest, const std::string &path) {
  if (fileExists(path))
    return Status::error(path + ": is there already");
  Result<std::string> partial = beginFolder(path);
  if (!partial)
    return partial.status();
  const Unfinished unfinished(*partial);
  Status status = writeFiles(source, manifest, *partial);
  if (status)
    status = commitFolder(*partial, path, manifest);
  if (!status)
    dropFolder(*partial);
  return status;
}

Status exportTensors(const TensorSource &source, const std::vector<std::string> &names, const std::string &file,
                     std::optional<plan::DType> type) {
  if (fileExists(file))
    return Status::error(file + ": is there already");
  std::vector<NamedTensor> tensors;
  for (const std::string &name : names) {
    std::optional<TensorType> found = source.typeOf(name);
    if (!found)
      return Status::error(source.path() + ": has no tensor " + quoted(name));
    tensors.push_back({name, type && isFloatType(found->type) ? *type : found->type, found->shape});
  }
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(file, tensors, {{"format", "pt"}});
  if (!writer)
    return writer.status();
  for (const NamedTensor &tensor : tensors)
    TESSERA_RETURN_IF_ERROR(forEachSlab(
        source, tensor.name, wholeBlock(tensor.shape), tensor.type,
        [&](const Block &, const std::vector<char> &data) { return writer->append(data.data(), data.size()); }));
  return writer->commit();
}

Result<std::vector<Difference>> compare(const TensorSource &a, const TensorSource &b) {
  std::vector<std::string> first = a.names(), second = b.names();
  std::set<std::string> all(first.begin(), first.end());
  all.insert(second.begin(), second.end());
  std::vector<Difference> differences;
  for (const std::string &name : all) {
    std::optional<TensorType> x = a.typeOf(name), y = b.typeOf(name);
    Difference d{name, {}};
    if (!x || !y)
      d.what = x ? "only in the first" : "only in the second";
    else if (x->shape != y->shape)
      d.what = "shapes " + shapeText(x->shape) + " and " + shapeText(y->shape);
    else if (isFloatType(x->type) != isFloatType(y->type) || (!isFloatType(x->type) && x->type != y->type))
      d.what = "types " + typeName(x->type) + " and " + typeName(y->type);
    if (!d.what.empty()) {
      differences.push_back(d);
      continue;
    }
    const bool floats = isFloatType(x->type);
    const plan::DType type = floats ? plan::F64 : x->type;
    double scale = 0;
    std::vector<char> other;
    TESSERA_RETURN_IF_ERROR(forEachSlab(a, name, wholeBlock(x->shape), type,
                                        [&](const Block &slab, const std::vector<char> &data) -> Status {
                                          other.resize(data.size());
                                          if (Status status = b.read(name, slab, type, other.data()); !status)
                                            return status;
                                          const size_t each = bytesPerElement(type);
                                          for (size_t at = 0; at < data.size(); at += each) {
                                            double p = 0, q = 0;
                                            if (floats) {
                                              std::memcpy(&p, &data[at], 8);
                                              std::memcpy(&q, &other[at], 8);
                                              if (std::isfinite(p))
                                                scale = std::max(scale, std::fabs(p));
                                            }
                                            if (std::memcmp(&data[at], &other[at], each) == 0)
                                              continue;
                                            ++d.elements;
                                            double apart = floats ? std::fabs(p - q) : 0;
                                            d.largest = std::max(d.largest, std::isnan(apart) ? HUGE_VAL : apart);
                                          }
                                          return Status();
                                        }));
    d.relative = d.largest == 0 ? 0 : d.largest / std::max(scale, 1e-300);
    if (d.elements > 0)
      differences.push_back(d);
  }
  return differences;
}

std::vector<std::string> damagesOf(const Checkpoint &checkpoint) {
  std::vector<std::string> damages;
  const Manifest &manifest = checkpoint.manifest();
  for (const Manifest::File &file : manifest.files) {
    const std::string path = checkpoint.path() + "/" + file.name;
    Result<CheckedFile> opened = CheckedFile::open(path, file.sums);
    if (!opened) {
      damages.push_back(opened.status().message());
      continue;
    }
    std::vector<char> chunk;
    for (uint64_t at = 0; at < file.sums.bytes; at += kSumChunk) {
      chunk.resize(std::min(kSumChunk, file.sums.bytes - at));
      if (Status status = opened->readAt(at, chunk.data(), chunk.size()); !status)
        damages.push_back(status.message());
    }
  }
  // The checksums may hold, and a file's header still contradict the manifest.
  for (const auto &[name, tensor] : manifest.tensors)
    for (const Manifest::Piece &piece : tensor.pieces)
      if (damages.empty())
        if (Status status = checkpoint.check(name, piece); !status)
          damages.push_back(status.message());
  return damages;
}

} // namespace tessera::rt
