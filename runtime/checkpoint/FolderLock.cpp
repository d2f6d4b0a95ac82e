#include "runtime/checkpoint/FolderLock.h"

#include "runtime/support/File.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace tessera::rt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(50);
constexpr size_t kMostText = 256;

/// The process that holds the lock, as it wrote itself into the file: "process 4711 on hosta".
std::string holderOf(int fd) {
  char text[kMostText + 1] = "";
  const ssize_t got = pread(fd, text, kMostText, 0);
  const std::string holder(text, size_t(std::max<ssize_t>(got, 0)));
  return holder.starts_with("process ") && holder.ends_with("\n") ? holder.substr(0, holder.size() - 1)
                                                                  : "another process";
}

/// Writes this process into the file, for the message of the next one. The lock does not depend on
/// it.
void sign(int fd) {
  char host[kMostText / 2] = "";
  gethostname(host, sizeof host - 1);
  const std::string text = "process " + std::to_string(getpid()) + " on " + host + "\n";
  if (ftruncate(fd, 0) == 0)
    static_cast<void>(!pwrite(fd, text.data(), text.size(), 0));
}

} // namespace

FolderLock::~FolderLock() {
  if (fd_ >= 0)
    close(fd_);
}

Result<FolderLock> FolderLock::take(const std::string &folder, double waitSeconds) {
  TESSERA_RETURN_IF_ERROR(makeDirectory(folder));
  const std::string path = folder + "/.lock";
  FolderLock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (lock.fd_ < 0)
    return Status::error(path + ": cannot be written: " + std::strerror(errno));
  const auto end = Clock::now() + std::chrono::duration<double>(waitSeconds);
  while (flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR)
      continue;
    if (errno != EWOULDBLOCK)
      return lock; // the file system has no locks
    if (Clock::now() >= end)
      return Status::error(folder + ": is used by " + holderOf(lock.fd_) +
                           "; let it end first, or give another folder to --checkpoint-dir");
    std::this_thread::sleep_for(kPause);
  }
  sign(lock.fd_);
  return lock;
}

} // namespace tessera::rt
