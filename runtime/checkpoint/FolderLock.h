//===- FolderLock.h - one run at a time writes into a folder ------------------------------------===//
//
// Two runs that write checkpoints into one folder would take each other's files away. The one rank that gives
// checkpoints their names holds a lock on `DIR/.lock` as long as the run lasts. The kernel gives it back when the
// process ends in any way; the file stays.
//
//   Result<FolderLock> lock = FolderLock::take("run", /*waitSeconds=*/2);
//   // "run: is used by process 4711 on hosta; ..."
//
// Where a file system knows no locks (some network file systems), the folder is used without one.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_FOLDERLOCK_H
#define TESSERA_RUNTIME_CHECKPOINT_FOLDERLOCK_H

#include "runtime/support/Status.h"

#include <string>
#include <utility>

namespace tessera::rt {

class FolderLock {
public:
  /// Makes the folder where there is none. Waits up to `waitSeconds` for another holder to give the lock back: a
  /// process that was killed may not have ended yet, and a file server may free the lock of a lost machine only after a
  /// while.
  static Result<FolderLock> take(const std::string &folder, double waitSeconds);

  FolderLock(FolderLock &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock &operator=(FolderLock &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  ~FolderLock();

private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

} // namespace tessera::rt

#endif
