#include "compiler/driver/OutputDirectory.h"

#include "runtime/support/File.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace fs = llvm::sys::fs;

namespace tessera {

static constexpr llvm::StringLiteral kTemporary = ".tmp";

static llvm::Error failed(const std::string &path, const std::string &what) {
  return llvm::createStringError("%s: %s", path.c_str(), what.c_str());
}

llvm::Error writeFile(const std::string &path, llvm::StringRef text) {
  const rt::Status status = rt::writeFile(path, std::string_view(text.data(), text.size()));
  return status ? llvm::Error::success() : llvm::createStringError(status.message());
}

/// Whether the process that made the directory is dead. A live process holds a lock on its directory. The lock also
/// works between machines and containers, where process numbers mean nothing.
static bool isAbandoned(const std::string &directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  const bool free = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
  if (fd >= 0)
    close(fd);
  return free;
}

/// Removes temporary directories that killed processes left beside the target.
static void removeAbandoned(const std::string &target) {
  llvm::StringRef parent = llvm::sys::path::parent_path(target);
  std::error_code error;
  std::vector<std::string> abandoned;
  for (fs::directory_iterator it(parent.empty() ? "." : parent, error), end; !error && it != end; it.increment(error)) {
    llvm::StringRef name = llvm::sys::path::filename(it->path());
    uint64_t owner = 0;
    if (name.consume_front(llvm::sys::path::filename(target)) && name.consume_front(kTemporary) &&
        !name.getAsInteger(10, owner) && isAbandoned(it->path()))
      abandoned.push_back(it->path());
  }
  for (const std::string &directory : abandoned)
    (void)fs::remove_directories(directory);
}

OutputDirectory::OutputDirectory(std::string target) : target_(std::move(target)) {
  while (target_.size() > 1 && target_.back() == '/')
    target_.pop_back();
}

OutputDirectory::~OutputDirectory() {
  if (!temporary_.empty())
    (void)fs::remove_directories(temporary_);
  if (lock_ >= 0)
    close(lock_);
}

llvm::Error OutputDirectory::begin() {
  if (target_.empty())
    return llvm::createStringError("the output directory has no name");
  if (fs::is_symlink_file(target_)) {
    llvm::SmallString<128> real;
    if (fs::real_path(target_, real))
      return failed(target_, "is a link whose target does not exist; choose another -o");
    target_ = real.str().str();
  }
  if (fs::exists(target_)) {
    if (!fs::is_directory(target_))
      return failed(target_, "exists and is no directory; choose another -o");
    std::error_code error;
    bool empty = fs::directory_iterator(target_, error) == fs::directory_iterator();
    if (error)
      return failed(target_, error.message());
    // Replaces nothing but a plan.
    if (!empty && !fs::exists(target_ + "/rank0.plan"))
      return failed(target_, "exists and is no plan; choose another -o or remove it");
  }
  std::string parent = llvm::sys::path::parent_path(target_).str();
  if (!parent.empty())
    if (std::error_code error = fs::create_directories(parent))
      return failed(parent, error.message());
  removeAbandoned(target_);
  const std::string process = std::to_string(getpid()), temporary = target_ + kTemporary.str() + process;
  const auto held = rt::Unfinished::hold();
  temporary_ = target_ + ".new" + process; // under this name nobody removes it as abandoned before it is locked
  if (std::error_code error = fs::create_directory(temporary_, /*IgnoreExisting=*/false)) {
    temporary_.clear();
    return failed(target_, "cannot be written: " + error.message());
  }
  lock_ = open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0)
    static_cast<void>(flock(lock_, LOCK_EX | LOCK_NB)); // on a file system without locks nothing counts as abandoned
  if (std::error_code error = fs::rename(temporary_, temporary))
    return failed(target_, "cannot be written: " + error.message());
  temporary_ = temporary;
  unfinished_ = std::make_unique<rt::Unfinished>(temporary_);
  return llvm::Error::success();
}

llvm::Error OutputDirectory::commit() {
  const auto held = rt::Unfinished::hold();
  if (!fs::exists(target_)) {
    if (std::error_code error = fs::rename(temporary_, target_))
      return failed(target_, error.message());
    temporary_.clear();
  } else if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    // The file system cannot exchange two names, so two renames follow each other.
    const std::string old = target_ + ".old" + std::to_string(getpid());
    if (std::error_code error = fs::rename(target_, old))
      return failed(target_, error.message());
    if (std::error_code error = fs::rename(temporary_, target_)) {
      (void)fs::rename(old, target_); // as it was
      return failed(target_, error.message());
    }
    temporary_ = old;
  }
  if (!temporary_.empty())
    (void)fs::remove_directories(temporary_); // what was there before
  temporary_.clear();
  unfinished_.reset();
  return llvm::Error::success();
}

} // namespace tessera
