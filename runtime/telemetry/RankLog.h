//===- RankLog.h - one text file per rank ---------------------------------------------------------===//
//
//   RankLog log;
//   TESSERA_RETURN_IF_ERROR(log.open("logs", 3, /*append=*/false));   // logs/rank-3.log
//   log.line("step 20: ...");                                         // "2026-05-01 12:00:00 step 20: ..."
//
// A log that was not opened drops its lines. All functions are safe from any thread.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_RANKLOG_H
#define TESSERA_RUNTIME_TELEMETRY_RANKLOG_H

#include "runtime/support/Status.h"

#include <cstdio>
#include <mutex>
#include <string>

namespace tessera::rt {

class RankLog {
public:
  RankLog() = default;
  RankLog(const RankLog &) = delete;
  RankLog &operator=(const RankLog &) = delete;
  ~RankLog();

  Status open(const std::string &folder, int rank, bool append);
  void line(const std::string &text);
  /// The error of the first line that could not be written, or success.
  Status status();

private:
  std::mutex mutex_;
  std::FILE *file_ = nullptr;
  std::string path_;
  Status status_;
};

/// "pid 712 on hosta, processors 0-3,8".
std::string processText();

} // namespace tessera::rt

#endif
