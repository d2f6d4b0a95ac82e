#include "runtime/support/File.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

constexpr std::string_view kTemporary = ".tessera-tmp-", kRandomPart = "XXXXXX";

Status systemError(const std::string &path, const std::string &what) {
  return Status::error(path + ": " + what + ": " + std::strerror(errno));
}

/// Files that the kernel makes say that they have no size.
Result<std::string> readToEnd(const std::string &path, uint64_t limit) {
  std::ifstream file(path, std::ios::binary);
  std::string contents;
  for (char c; file.get(c);) {
    if (contents.size() == limit)
      return Status::error(path + ": is larger than the limit of " + std::to_string(limit) + " bytes");
    contents += c;
  }
  return contents;
}

} // namespace

Result<std::string> readFile(const std::string &path, uint64_t limit) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return file.status();
  if (file->size() > limit)
    return Status::error(path + ": is larger than the limit of " + std::to_string(limit) + " bytes");
  if (file->size() == 0)
    return readToEnd(path, limit);
  std::string contents(file->size(), '\0');
  TESSERA_RETURN_IF_ERROR(file->readAt(0, contents.data(), contents.size()));
  return contents;
}

Status writeFile(const std::string &path, std::string_view contents) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.status();
  TESSERA_RETURN_IF_ERROR(file->write(contents.data(), contents.size()));
  return file->commit();
}

Result<std::string> writeTarget(const std::string &path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return path; // nothing has this name, or the error will show when the file is written
  std::string target = path;
  if (S_ISLNK(info.st_mode)) {
    std::error_code error;
    target = std::filesystem::canonical(path, error).string();
    if (error)
      return Status::error(path + ": cannot be written: it is a link to " +
                           std::filesystem::read_symlink(path, error).string() + ", which is not there");
    if (::stat(path.c_str(), &info) != 0)
      return systemError(path, "cannot be examined");
  }
  if (S_ISREG(info.st_mode))
    return target;
  return Status::error(path + ": cannot be written: it is " +
                       (S_ISDIR(info.st_mode)    ? "a directory"
                        : S_ISFIFO(info.st_mode) ? "a pipe"
                        : S_ISSOCK(info.st_mode) ? "a socket"
                                                 : "a device") +
                       " and no regular file");
}

Status checkWritable(const std::string &path) { return AtomicFile::create(path).status(); }

Status makeDirectory(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path, error))
    return Status::error(path + ": cannot be made a directory" + (error ? ": " + error.message() : ""));
  return Status();
}

bool fileExists(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

Result<InputFile> InputFile::open(const std::string &path) {
  // Devices and pipes have no size to check and could block for ever.
  InputFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), 0);
  if (file.fd_ < 0)
    return systemError(path, "cannot be opened");
  struct stat info;
  if (::fstat(file.fd_, &info) != 0)
    return systemError(path, "cannot be examined");
  if (!S_ISREG(info.st_mode))
    return Status::error(path + ": is not a regular file");
  file.size_ = uint64_t(info.st_size);
  return file;
}

InputFile::~InputFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

Status InputFile::readAt(uint64_t offset, void *out, uint64_t bytes) const {
  char *to = static_cast<char *>(out);
  while (bytes > 0) {
    ssize_t n = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return systemError(path_, "cannot be read");
    if (n == 0)
      return Status::error(path_ + ": shrank while it was in use");
    to += n;
    offset += uint64_t(n);
    bytes -= uint64_t(n);
  }
  return Status();
}

Result<PlacedFile> PlacedFile::open(const std::string &path) {
  PlacedFile file(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (file.fd_ < 0)
    return systemError(path, "cannot be written");
  return file;
}

PlacedFile::~PlacedFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

Status PlacedFile::writeAt(uint64_t offset, const void *data, uint64_t bytes) {
  const char *p = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t n = ::pwrite(fd_, p, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return systemError(path_, "cannot be written");
    p += n;
    offset += uint64_t(n);
    bytes -= uint64_t(n);
  }
  return Status();
}

Status PlacedFile::resize(uint64_t bytes) {
  return ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0 ? Status() : systemError(path_, "cannot be given its size");
}

Status PlacedFile::sync() { return ::fsync(fd_) == 0 ? Status() : systemError(path_, "cannot be flushed to disk"); }

Status syncDirectory(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return systemError(path, "cannot be opened");
  // Some file systems cannot sync a folder and say so with one of these errors, which does not
  // count as a failure.
  bool failed = ::fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP;
  Status status = failed ? systemError(path, "cannot be flushed to disk") : Status();
  ::close(fd);
  return status;
}

/// A new file beside `target` that nobody takes for abandoned, opened and locked; -1 and errno if there is none.
static int makeTemporary(const std::string &target, std::string &temporary) {
  for (;;) {
    // mkostemp makes a name that nobody else has, in the same folder, so that rename is atomic.
    temporary = target + std::string(kTemporary) + std::string(kRandomPart);
    const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
    if (fd < 0 || ::flock(fd, LOCK_EX) != 0) // where there are no locks, nothing counts as abandoned
      return fd;
    struct stat info;
    if (::fstat(fd, &info) == 0 && info.st_nlink > 0)
      return fd;
    ::close(fd); // another has removed it before it had its lock
  }
}

/// Removes what processes that were killed have left of this target.
static void removeAbandoned(const std::string &target) {
  const std::filesystem::path path(target),
      parent = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const std::string start = path.filename().string() + std::string(kTemporary);
  std::error_code error;
  for (std::filesystem::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(start) || name.size() != start.size() + kRandomPart.size())
      continue;
    const int fd = ::open(it->path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info;
    if (fd >= 0 && ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && ::flock(fd, LOCK_EX | LOCK_NB) == 0)
      ::unlink(it->path().c_str());
    if (fd >= 0)
      ::close(fd);
  }
}

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  Result<std::string> target = writeTarget(path);
  if (!target)
    return target.status();
  removeAbandoned(*target);
  std::string temporary;
  const auto held = Unfinished::hold();
  int fd = makeTemporary(*target, temporary);
  if (fd < 0)
    return systemError(path, "cannot be written");
  mode_t mask = ::umask(0);
  ::umask(mask);
  AtomicFile file(PlacedFile(path, fd), temporary, *target);
  file.unfinished_ = std::make_unique<Unfinished>(temporary);
  if (::fchmod(fd, 0666 & ~mask) != 0)
    return systemError(path, "cannot be written");
  return file;
}

AtomicFile::~AtomicFile() {
  if (file_.fd_ >= 0)
    ::unlink(temporary_.c_str());
}

Status AtomicFile::write(const void *data, uint64_t bytes) {
  TESSERA_RETURN_IF_ERROR(file_.writeAt(written_, data, bytes));
  written_ += bytes;
  return Status();
}

Status AtomicFile::writeAt(uint64_t offset, const void *data, uint64_t bytes) {
  return file_.writeAt(offset, data, bytes);
}

Status AtomicFile::commit(bool durable) {
  if (durable)
    TESSERA_RETURN_IF_ERROR(file_.sync());
  const auto held = Unfinished::hold();
  // Renamed while it is open, and locked.
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    Status status = systemError(file_.path_, "cannot be given its name");
    ::unlink(temporary_.c_str());
    ::close(std::exchange(file_.fd_, -1));
    return status;
  }
  if (::close(std::exchange(file_.fd_, -1)) != 0)
    return systemError(file_.path_, "cannot be written");
  unfinished_.reset();
  return Status();
}

} // namespace tessera::rt
