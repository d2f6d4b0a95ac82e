//===- Threads.h - threads that the system refuses ------------------------------------------------===//
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

/// Success if so many more threads can be had at once. None is left running.
Status probeThreads(int count);

/// What to say of an exception of std::thread, or of any other system call.
Status systemFailure(const std::system_error &error);

} // namespace tessera::rt

#endif
