#include "runtime/data/NpyFile.h"

#include "runtime/data/Elements.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>

namespace tessera::rt {
namespace {

Status outside(const std::string &path, const std::vector<int64_t> &whole, const std::vector<int64_t> &offset,
               const std::vector<int64_t> &shape) {
  return Status::error(path + ": the box at " + shapeText(offset) + " of shape " + shapeText(shape) +
                       " is not inside the array of shape " + shapeText(whole));
}

} // namespace

Result<NpyHeader> readNpyHeader(const InputFile &file, bool ids) {
  std::string beginning(std::min(file.size(), kMostNpyHeader), '\0');
  TESSERA_RETURN_IF_ERROR(file.readAt(0, beginning.data(), beginning.size()));
  Result<NpyHeader> header = parseNpyHeader(beginning.data(), beginning.size(), ids);
  if (!header)
    return header.status().context(file.path());
  const uint64_t present = file.size() - header->dataOffset;
  if (present != header->dataBytes)
    return Status::error(file.path() + ": holds " + std::to_string(present) +
                         " bytes of data, but its array of shape " + shapeText(header->shape) + " with elements of " +
                         std::to_string(header->elementBytes) + " bytes has " + std::to_string(header->dataBytes) +
                         "; the file is " + (present < header->dataBytes ? "truncated" : "too long"));
  return header;
}

Result<NpyFile> NpyFile::open(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return file.status();
  Result<NpyHeader> header = readNpyHeader(*file);
  if (!header)
    return header.status();
  return NpyFile(path, std::move(*file), std::move(*header));
}

Status NpyFile::readBox(const std::vector<int64_t> &offset, const std::vector<int64_t> &shape, void *out) const {
  if (!boxInside(header_.shape, offset, shape))
    return outside(path_, header_.shape, offset, shape);
  const uint64_t size = bytesPerElement(header_.dtype);
  char *to = static_cast<char *>(out);
  return forEachRun(header_.shape, offset, shape, [&](int64_t at, int64_t count) {
    const uint64_t bytes = uint64_t(count) * size;
    Status status = file_.readAt(header_.dataOffset + uint64_t(at) * size, to, bytes);
    to += bytes;
    return status;
  });
}

Result<NpyWriter> NpyWriter::create(const std::string &path, plan::DType dtype, const std::vector<int64_t> &shape) {
  const uint64_t size = bytesPerElement(dtype);
  uint64_t bytes = size;
  bool bad = size == 0;
  for (int64_t extent : shape)
    bad |= extent < 0 || __builtin_mul_overflow(bytes, uint64_t(extent), &bytes);
  if (bad || bytes > (uint64_t{1} << 62))
    return Status::error(path + ": cannot hold a " + typeName(dtype) + " array of shape " + shapeText(shape));
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.status();
  const std::string header = formatNpyHeader(dtype, shape);
  TESSERA_RETURN_IF_ERROR(file->write(header.data(), header.size()));
  if (bytes > 0) // writing the last byte gives the file its size
    TESSERA_RETURN_IF_ERROR(file->writeAt(header.size() + bytes - 1, "", 1));
  return NpyWriter(path, std::move(*file), shape, size, header.size());
}

Status NpyWriter::writeBox(const std::vector<int64_t> &offset, const std::vector<int64_t> &shape, const void *data) {
  if (!boxInside(shape_, offset, shape))
    return outside(path_, shape_, offset, shape);
  const char *from = static_cast<const char *>(data);
  return forEachRun(shape_, offset, shape, [&](int64_t at, int64_t count) {
    const uint64_t bytes = uint64_t(count) * elementSize_;
    Status status = file_.writeAt(dataOffset_ + uint64_t(at) * elementSize_, from, bytes);
    from += bytes;
    return status;
  });
}

Status writeNpy(const std::string &path, plan::DType dtype, const std::vector<int64_t> &shape, const void *data) {
  Result<NpyWriter> writer = NpyWriter::create(path, dtype, shape);
  if (!writer)
    return writer.status();
  TESSERA_RETURN_IF_ERROR(writer->writeBox(std::vector<int64_t>(shape.size(), 0), shape, data));
  return writer->commit();
}

} // namespace tessera::rt
