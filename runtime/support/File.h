//===- File.h - reading and writing files safely ----------------------------------------------===//
//
// Reads are bounded and mapped; writes are atomic: a file under its final name is always whole.
//
//   Result<AtomicFile> file = AtomicFile::create("out/weights.safetensors");
//   TESSERA_RETURN_IF_ERROR(file->write(bytes, n));
//   TESSERA_RETURN_IF_ERROR(file->commit());        // without it nothing is left behind
//
// Every message begins with the path.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_FILE_H
#define TESSERA_RUNTIME_SUPPORT_FILE_H

#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::rt {

/// The whole of a regular file; refuses one that is larger than `limit` bytes before reading it.
Result<std::string> readFile(const std::string &path, uint64_t limit);

/// Writes beside `path` and renames.
Status writeFile(const std::string &path, std::string_view contents);

/// Makes `path` and its missing parents.
Status makeDirectory(const std::string &path);

bool fileExists(const std::string &path);

/// A regular file mapped read-only.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);
  MappedFile(MappedFile &&other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile &operator=(MappedFile &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  const char *data() const { return data_; }
  uint64_t size() const { return size_; }

private:
  MappedFile(const char *data, uint64_t size) : data_(data), size_(size) {}
  const char *data_ = nullptr;
  uint64_t size_ = 0;
};

/// A file that appears under its name only when it is committed.
class AtomicFile {
public:
  static Result<AtomicFile> create(const std::string &path);
  AtomicFile(AtomicFile &&other) noexcept
      : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)),
        fd_(std::exchange(other.fd_, -1)) {}
  AtomicFile &operator=(AtomicFile &&other) noexcept {
    std::swap(path_, other.path_);
    std::swap(temporary_, other.temporary_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  ~AtomicFile(); // removes the temporary file if it was not committed

  Status write(const void *data, uint64_t bytes);
  /// Rewrites bytes that were written before, or leaves a hole.
  Status writeAt(uint64_t offset, const void *data, uint64_t bytes);
  Status commit();

private:
  AtomicFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  std::string path_, temporary_;
  int fd_ = -1;
};

} // namespace tessera::rt

#endif
