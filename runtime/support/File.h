//===- File.h - reading and writing files safely ----------------------------------------------===//
//
// Reads are bounded; writes are atomic: a file under its final name is always whole.
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

#include "runtime/support/Interrupts.h"
#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::rt {

/// Reads a whole regular file. Refuses one that is larger than `limit` bytes before reading it.
Result<std::string> readFile(const std::string &path, uint64_t limit);

/// Writes beside `path` and renames.
Status writeFile(const std::string &path, std::string_view contents);

/// The file that writing to `path` replaces: `path` itself, or what it links to. An error if that exists and is no
/// regular file, since only regular files are ever replaced.
Result<std::string> writeTarget(const std::string &path);

/// An error if a file of this name could not be written. Writes nothing.
Status checkWritable(const std::string &path);

/// Makes `path` and its missing parents.
Status makeDirectory(const std::string &path);

bool fileExists(const std::string &path);

/// A regular file that is read piece by piece, from any thread. It is not mapped: a mapped file that
/// another program cuts short while it is read kills the process, where a read can fail.
class InputFile {
public:
  static Result<InputFile> open(const std::string &path);
  InputFile(InputFile &&other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  InputFile &operator=(InputFile &&other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    std::swap(size_, other.size_);
    return *this;
  }
  InputFile(const InputFile &) = delete;
  InputFile &operator=(const InputFile &) = delete;
  ~InputFile();

  const std::string &path() const { return path_; }
  /// The size when the file was opened, in bytes.
  uint64_t size() const { return size_; }
  /// Reads all bytes of [offset, offset + bytes). An error if the file ends before.
  Status readAt(uint64_t offset, void *out, uint64_t bytes) const;

private:
  InputFile(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// A file that is written in place, at any offset, by several processes if need be.
class PlacedFile {
public:
  /// Creates the file where there is none. Its contents stay.
  static Result<PlacedFile> open(const std::string &path);
  PlacedFile(PlacedFile &&other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  PlacedFile &operator=(PlacedFile &&other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  PlacedFile(const PlacedFile &) = delete;
  PlacedFile &operator=(const PlacedFile &) = delete;
  ~PlacedFile();

  Status writeAt(uint64_t offset, const void *data, uint64_t bytes);
  Status resize(uint64_t bytes);
  /// Returns once everything that was written would survive a loss of power.
  Status sync();

private:
  friend class AtomicFile;
  PlacedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
};

/// Returns once the names in a directory would survive a loss of power.
Status syncDirectory(const std::string &path);

/// A file that appears under its name only when it is committed, in the place of a regular file or of none
/// (writeTarget). Until then it is NAME.tessera-tmp-XXXXXX, locked (flock) as long as its process lives: what a killed
/// one has left is removed by the next that writes a file of this name.
class AtomicFile {
public:
  static Result<AtomicFile> create(const std::string &path);
  AtomicFile(AtomicFile &&) noexcept = default;
  AtomicFile &operator=(AtomicFile &&other) noexcept {
    std::swap(file_, other.file_);
    std::swap(temporary_, other.temporary_);
    std::swap(target_, other.target_);
    std::swap(unfinished_, other.unfinished_);
    std::swap(written_, other.written_);
    return *this;
  }
  ~AtomicFile(); // removes the temporary file if it was not committed; so does an interrupt (Interrupts.h)

  Status write(const void *data, uint64_t bytes);
  /// Rewrites bytes that were written before, or leaves a hole. The next write() goes on where the last write() ended.
  Status writeAt(uint64_t offset, const void *data, uint64_t bytes);
  /// `durable`: it has its name only when it would survive a loss of power.
  Status commit(bool durable = true);

private:
  AtomicFile(PlacedFile file, std::string temporary, std::string target)
      : file_(std::move(file)), temporary_(std::move(temporary)), target_(std::move(target)) {}
  PlacedFile file_; // has the temporary name; its messages have the final one
  std::string temporary_, target_;
  std::unique_ptr<Unfinished> unfinished_;
  uint64_t written_ = 0;
};

} // namespace tessera::rt

#endif
