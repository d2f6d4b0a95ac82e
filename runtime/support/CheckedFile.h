//===- CheckedFile.h - a file that is read against checksums -----------------------------------===//
//
// A file has one checksum per chunk of 1 MiB, so that a reader that needs a few bytes verifies a
// few chunks and not the whole file. The checksum is CRC-32 with zlib's polynomial.
//
//   Result<FileSums> sums = sumFile(path);                    // sums->chunks[i] is that of chunk i
//   Result<CheckedFile> file = CheckedFile::open(path, *sums);
//   TESSERA_RETURN_IF_ERROR(file->readAt(17, out, 4));        // reads chunk 0, compares, copies
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_CHECKEDFILE_H
#define TESSERA_RUNTIME_SUPPORT_CHECKEDFILE_H

#include "runtime/support/File.h"

#include <optional>
#include <vector>

namespace tessera::rt {

constexpr uint64_t kSumChunk = uint64_t(1) << 20;

struct FileSums {
  uint64_t bytes = 0;
  std::vector<uint32_t> chunks;

  static uint64_t count(uint64_t bytes) { return bytes / kSumChunk + (bytes % kSumChunk != 0); }
};

uint32_t crc32Of(const void *data, uint64_t bytes);

/// The checksums of `count` chunks from chunk `first` on.
Result<std::vector<uint32_t>> sumChunks(const InputFile &file, uint64_t first, uint64_t count);
Result<FileSums> sumFile(const std::string &path);

/// May be used by one thread at a time, since it keeps the chunk that it read last.
class CheckedFile {
public:
  /// Without sums nothing is verified. With sums, the file must have the size that they were made
  /// for.
  static Result<CheckedFile> open(const std::string &path, std::optional<FileSums> sums = std::nullopt);

  const std::string &path() const { return file_.path(); }
  uint64_t size() const { return file_.size(); }
  /// Reads all bytes of [offset, offset + bytes). An error if the file ends before, or if a chunk
  /// does not match its checksum.
  Status readAt(uint64_t offset, void *out, uint64_t bytes) const;

private:
  CheckedFile(InputFile file, std::optional<FileSums> sums) : file_(std::move(file)), sums_(std::move(sums)) {}
  Status readChunk(uint64_t chunk, char *out, uint64_t bytes) const;

  InputFile file_;
  std::optional<FileSums> sums_;
  mutable std::vector<char> kept_;
  mutable uint64_t keptChunk_ = ~uint64_t(0);
};

} // namespace tessera::rt

#endif
