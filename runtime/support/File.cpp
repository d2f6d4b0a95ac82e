#include "runtime/support/File.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

Status systemError(const std::string &path, const std::string &what) {
  return Status::error(path + ": " + what + ": " + std::strerror(errno));
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

/// Opens a regular file. Devices and pipes have no size to check and could block for ever.
Result<uint64_t> openRegular(const std::string &path, Descriptor &descriptor) {
  descriptor.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor.fd < 0)
    return systemError(path, "cannot be opened");
  struct stat info;
  if (::fstat(descriptor.fd, &info) != 0)
    return systemError(path, "cannot be examined");
  if (!S_ISREG(info.st_mode))
    return Status::error(path + ": is not a regular file");
  return static_cast<uint64_t>(info.st_size);
}

} // namespace

Result<std::string> readFile(const std::string &path, uint64_t limit) {
  Descriptor file;
  Result<uint64_t> size = openRegular(path, file);
  if (!size)
    return size.status();
  if (*size > limit)
    return Status::error(path + ": is larger than the limit of " + std::to_string(limit) +
                         " bytes");
  std::string contents(*size, '\0');
  uint64_t done = 0;
  while (done < *size) {
    ssize_t n = ::read(file.fd, contents.data() + done, *size - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return systemError(path, "cannot be read");
    if (n == 0)
      return Status::error(path + ": shrank while it was read");
    done += static_cast<uint64_t>(n);
  }
  return contents;
}

Status writeFile(const std::string &path, std::string_view contents) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.status();
  TESSERA_RETURN_IF_ERROR(file->write(contents.data(), contents.size()));
  return file->commit();
}

Status makeDirectory(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path, error))
    return Status::error(path + ": cannot be made a directory" +
                         (error ? ": " + error.message() : ""));
  return Status();
}

bool fileExists(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  Descriptor file;
  Result<uint64_t> size = openRegular(path, file);
  if (!size)
    return size.status();
  if (*size == 0) // an empty range cannot be mapped
    return MappedFile(nullptr, 0);
  void *data = ::mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED)
    return systemError(path, "cannot be mapped");
  return MappedFile(static_cast<const char *>(data), *size);
}

MappedFile::~MappedFile() {
  if (data_)
    ::munmap(const_cast<char *>(data_), size_);
}

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  // mkostemp makes a name that nobody else has, in the same folder, so that rename is atomic.
  std::string temporary = path + ".XXXXXX";
  int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0)
    return systemError(path, "cannot be written");
  mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd, 0666 & ~mask) != 0) {
    Status status = systemError(path, "cannot be written");
    ::close(fd);
    ::unlink(temporary.c_str());
    return status;
  }
  return AtomicFile(path, temporary, fd);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0)
    return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::write(const void *data, uint64_t bytes) {
  const char *p = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t n = ::write(fd_, p, bytes);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return systemError(path_, "cannot be written");
    p += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return Status();
}

Status AtomicFile::writeAt(uint64_t offset, const void *data, uint64_t bytes) {
  const char *p = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t n = ::pwrite(fd_, p, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return systemError(path_, "cannot be written");
    p += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
  return Status();
}

Status AtomicFile::commit() {
  if (::fsync(fd_) != 0)
    return systemError(path_, "cannot be flushed to disk");
  if (::close(std::exchange(fd_, -1)) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    Status status = systemError(path_, "cannot be given its name");
    ::unlink(temporary_.c_str());
    return status;
  }
  return Status();
}

} // namespace tessera::rt
