#include "runtime/support/CheckedFile.h"

#include <algorithm>
#include <cstring>
#include <zlib.h>

namespace tessera::rt {

uint32_t crc32Of(const void *data, uint64_t bytes) {
  return uint32_t(::crc32_z(0, static_cast<const Bytef *>(data), bytes));
}

Result<std::vector<uint32_t>> sumChunks(const InputFile &file, uint64_t first, uint64_t count) {
  std::vector<uint32_t> sums;
  std::vector<char> chunk(std::min(kSumChunk, file.size()));
  for (uint64_t i = first; i < first + count; ++i) {
    const uint64_t begin = i * kSumChunk;
    if (begin >= file.size())
      return Status::error(file.path() + ": shrank while it was in use");
    const uint64_t bytes = std::min(kSumChunk, file.size() - begin);
    TESSERA_RETURN_IF_ERROR(file.readAt(begin, chunk.data(), bytes));
    sums.push_back(crc32Of(chunk.data(), bytes));
  }
  return sums;
}

Result<FileSums> sumFile(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return file.status();
  Result<std::vector<uint32_t>> chunks = sumChunks(*file, 0, FileSums::count(file->size()));
  if (!chunks)
    return chunks.status();
  return FileSums{file->size(), std::move(*chunks)};
}

Result<CheckedFile> CheckedFile::open(const std::string &path, std::optional<FileSums> sums) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return file.status();
  if (sums && (file->size() != sums->bytes || sums->chunks.size() != FileSums::count(sums->bytes)))
    return Status::error(path + ": has " + std::to_string(file->size()) + " bytes instead of " +
                         std::to_string(sums->bytes) + ": it is truncated or was replaced");
  return CheckedFile(std::move(*file), std::move(sums));
}

Status CheckedFile::readChunk(uint64_t chunk, char *out, uint64_t bytes) const {
  TESSERA_RETURN_IF_ERROR(file_.readAt(chunk * kSumChunk, out, bytes));
  if (crc32Of(out, bytes) == sums_->chunks[chunk])
    return Status();
  return Status::error(path() + ": is damaged: bytes " + std::to_string(chunk * kSumChunk) + " to " +
                       std::to_string(chunk * kSumChunk + bytes - 1) + " do not match their checksum");
}

Status CheckedFile::readAt(uint64_t offset, void *out, uint64_t bytes) const {
  if (!sums_)
    return file_.readAt(offset, out, bytes);
  if (offset > size() || bytes > size() - offset)
    return Status::error(path() + ": ends before byte " + std::to_string(offset) + " + " + std::to_string(bytes));
  char *to = static_cast<char *>(out);
  while (bytes > 0) {
    const uint64_t chunk = offset / kSumChunk, begin = chunk * kSumChunk, whole = std::min(kSumChunk, size() - begin),
                   part = std::min(bytes, begin + whole - offset);
    if (part == whole && chunk != keptChunk_) {
      TESSERA_RETURN_IF_ERROR(readChunk(chunk, to, whole));
    } else {
      if (chunk != keptChunk_) {
        keptChunk_ = ~uint64_t(0);
        kept_.resize(whole);
        TESSERA_RETURN_IF_ERROR(readChunk(chunk, kept_.data(), whole));
        keptChunk_ = chunk;
      }
      std::memcpy(to, kept_.data() + (offset - begin), part);
    }
    to += part;
    offset += part;
    bytes -= part;
  }
  return Status();
}

} // namespace tessera::rt
