//===- Threads.h - cores, and threads that the system refuses ------------------------------------------===//
//
// A container's limit on processes, or ulimit -u, counts threads. Libraries end the process where they get none, so
// whoever lets them start some asks here first:
//
//   TESSERA_RETURN_IF_ERROR(probeThreads(options.threads - 1));
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_THREADS_H
#define TESSERA_RUNTIME_SUPPORT_THREADS_H

#include "runtime/support/Status.h"

#include <system_error>

namespace tessera::rt {

/// How many cores this process may use (its affinity mask, not the machine's size).
int availableCores();

/// Success if so many more threads can be had at once. None is left running.
Status probeThreads(int count);

/// While one lives, exit() ends the process at once with its exit code. Neither functions of atexit() run nor
/// destructors of static objects, which other threads may still use. A library that calls exit() on an error thus ends
/// the program with its message and not with a signal. Only what was registered after the newest of them still runs,
/// so make one right before the call that may exit.
///
///   const ThreadsAtWork atWork;
///   runThreadsThatUseLibraries();
class ThreadsAtWork {
public:
  ThreadsAtWork();
  ThreadsAtWork(const ThreadsAtWork &) = delete;
  ThreadsAtWork &operator=(const ThreadsAtWork &) = delete;
  ~ThreadsAtWork();
};

/// What to say of an exception of std::thread, or of any other system call.
Status systemFailure(const std::system_error &error);

} // namespace tessera::rt

#endif
