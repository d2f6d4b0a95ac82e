#include "runtime/telemetry/RankLog.h"

#include "runtime/support/File.h"
#include "runtime/support/Printable.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <sched.h>
#include <unistd.h>

namespace tessera::rt {

RankLog::~RankLog() {
  if (file_)
    std::fclose(file_);
}

Status RankLog::open(const std::string &folder, int rank, bool append) {
  TESSERA_RETURN_IF_ERROR(makeDirectory(folder));
  const std::string path = folder + "/rank-" + std::to_string(rank) + ".log";
  path_ = path;
  file_ = std::fopen(path.c_str(), append ? "ae" : "we");
  return file_ ? Status() : Status::error(path + ": cannot be written: " + std::strerror(errno));
}

void RankLog::line(const std::string &text) {
  std::lock_guard lock(mutex_);
  if (!file_)
    return;
  char stamp[32] = "";
  const std::time_t seconds = std::time(nullptr);
  std::tm local = {};
  std::strftime(stamp, sizeof stamp, "%F %T ", localtime_r(&seconds, &local));
  // The line is written at once, so that a rank that is killed leaves its last words.
  if ((std::fputs((stamp + printable(text) + "\n").c_str(), file_) < 0 || std::fflush(file_) != 0) && status_)
    status_ = Status::error(path_ + ": cannot be written: " + std::strerror(errno));
}

Status RankLog::status() {
  std::lock_guard lock(mutex_);
  return status_;
}

std::string processText() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::string processors;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c) {
      if (!CPU_ISSET(c, &set))
        continue;
      int last = c;
      while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
        ++last;
      processors += (processors.empty() ? "" : ",") + std::to_string(c) + (last > c ? "-" + std::to_string(last) : "");
      c = last;
    }
  return "pid " + std::to_string(getpid()) + " on " + host + ", processors " + processors;
}

} // namespace tessera::rt
