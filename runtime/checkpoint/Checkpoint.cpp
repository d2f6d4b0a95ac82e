#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/plan/PlanInfo.h"

namespace tessera::rt {
namespace {

std::string pathIn(const std::string &folder, const Manifest &manifest, size_t file) {
  return folder + "/" + manifest.files[file].name;
}

} // namespace

Result<Checkpoint> Checkpoint::open(const std::string &folder) {
  const std::string path = folder + "/" + kManifestName;
  Result<std::string> text = readFile(path, kMaxManifestBytes);
  if (!text)
    return text.status();
  Result<Manifest> manifest = parseManifest(*text);
  if (!manifest)
    return manifest.status().context(path);
  for (const Manifest::File &file : manifest->files)
    if (auto opened = CheckedFile::open(folder + "/" + file.name, file.sums); !opened)
      return opened.status();
  return Checkpoint(folder, std::move(*manifest));
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto &[name, tensor] : manifest_.tensors)
    names.push_back(name);
  return names;
}

std::optional<TensorType> Checkpoint::typeOf(const std::string &name) const {
  auto it = manifest_.tensors.find(name);
  if (it == manifest_.tensors.end())
    return std::nullopt;
  return TensorType{it->second.type, it->second.shape};
}

Result<const Safetensors *> Checkpoint::file(size_t index) const {
  auto it = open_.find(index);
  if (it == open_.end()) {
    if (open_.size() >= mostOpen_)
      open_.erase(open_.begin());
    Result<Safetensors> file = Safetensors::open(pathIn(folder_, manifest_, index), manifest_.files[index].sums);
    if (!file)
      return file.status();
    it = open_.emplace(index, std::make_unique<Safetensors>(std::move(*file))).first;
  }
  return it->second.get();
}

Status Checkpoint::check(const std::string &name, const Manifest::Piece &piece) const {
  Result<const Safetensors *> held = file(piece.file);
  if (!held)
    return held.status();
  std::optional<TensorType> found = (*held)->typeOf(name);
  if (found && found->type == manifest_.tensors.at(name).type && found->shape == piece.block.shape)
    return Status();
  return Status::error((*held)->path() + ": does not hold tensor " + quoted(name) +
                       " in the type and shape that the manifest says");
}

Status Checkpoint::read(const std::string &name, const Block &block, plan::DType type, void *out) const {
  auto it = manifest_.tensors.find(name);
  if (it == manifest_.tensors.end())
    return Status::error(folder_ + ": has no tensor " + quoted(name));
  const Manifest::Tensor &tensor = it->second;
  if (!isInside(block, tensor.shape))
    return Status::error(folder_ + ": tensor " + quoted(name) + " of shape " + shapeText(tensor.shape) +
                         " has no block " + shapeText(block.shape) + " at " + shapeText(block.offset));
  std::vector<char> part;
  for (const Manifest::Piece &piece : tensor.pieces) {
    std::optional<Block> common = intersect(piece.block, block);
    if (!common)
      continue;
    TESSERA_RETURN_IF_ERROR(check(name, piece));
    Result<const Safetensors *> held = file(piece.file);
    if (!held)
      return held.status();
    Block local = *common;
    for (size_t d = 0; d < local.offset.size(); ++d)
      local.offset[d] -= piece.block.offset[d];
    if (*common == block) // one file holds the whole block: read it directly
      return (*held)->read(name, local, type, out);
    std::optional<uint64_t> bytes = bytesOf(common->shape, type);
    if (!bytes)
      return Status::error(folder_ + ": tensor " + quoted(name) + " is too large");
    part.resize(*bytes);
    TESSERA_RETURN_IF_ERROR((*held)->read(name, local, type, part.data()));
    copyBlock(part.data(), *common, out, block, bytesPerElement(type));
  }
  return Status();
}

Result<CheckpointWriter::Open *> CheckpointWriter::open(size_t index) {
  auto it = open_.find(index);
  if (it != open_.end())
    return &it->second;
  const std::string path = pathIn(folder_, manifest_, index);
  std::vector<NamedTensor> held = manifest_.tensorsOf(index);
  Result<SafetensorsLayout> layout = Manifest::layoutOf(held);
  if (!layout)
    return layout.status().context(path);
  Result<PlacedFile> file = PlacedFile::open(path);
  if (!file)
    return file.status();
  std::map<std::string, uint64_t> begins;
  for (size_t i = 0; i < held.size(); ++i)
    begins[held[i].name] = layout->begins[i];
  return &open_.emplace(index, Open{std::move(*file), std::move(*layout), std::move(begins)}).first->second;
}

Status CheckpointWriter::begin(size_t file) {
  Result<Open *> to = open(file);
  if (!to)
    return to.status();
  const SafetensorsLayout &layout = (*to)->layout;
  TESSERA_RETURN_IF_ERROR((*to)->file.resize(layout.bytes));
  return (*to)->file.writeAt(0, layout.header.data(), layout.header.size());
}

Status CheckpointWriter::write(const std::string &name, const Block &block, const void *data) {
  const Manifest::Tensor &tensor = manifest_.tensors.at(name);
  const uint64_t each = bytesPerElement(tensor.type);
  for (const Manifest::Piece &piece : tensor.pieces) {
    std::optional<Block> common = intersect(piece.block, block);
    if (!common)
      continue;
    Result<Open *> to = open(piece.file);
    if (!to)
      return to.status();
    // The runs that are contiguous in the file: whole trailing dimensions of the piece.
    size_t split = common->shape.size();
    int64_t run = 1;
    while (split > 0) {
      run *= common->shape[--split];
      if (common->shape[split] != piece.block.shape[split])
        break;
    }
    std::vector<char> packed;
    const char *from = static_cast<const char *>(data);
    if (*common != block) {
      packed.resize(bytesOf(common->shape, tensor.type).value_or(0));
      copyBlock(data, block, packed.data(), *common, each);
      from = packed.data();
    }
    const uint64_t bytes = uint64_t(run) * each;
    const uint64_t begin = (*to)->begins.at(name);
    for (const Block &slab : slabsOf(*common, run)) {
      uint64_t at = 0;
      for (size_t d = 0; d < slab.shape.size(); ++d)
        at = at * uint64_t(piece.block.shape[d]) + uint64_t(slab.offset[d] - piece.block.offset[d]);
      TESSERA_RETURN_IF_ERROR((*to)->file.writeAt(begin + at * each, from, bytes));
      from += bytes;
    }
  }
  return Status();
}

Status CheckpointWriter::sync() {
  for (auto &[index, open] : open_)
    TESSERA_RETURN_IF_ERROR(open.file.sync());
  return Status();
}

} // namespace tessera::rt
