#include "tools/cli/StatusLine.h"

#include "runtime/support/Interrupts.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>

namespace tessera {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(150);
constexpr size_t kColumns = 80; // of a terminal that does not tell

bool drawsOn(std::FILE *out) {
  const char *term = std::getenv("TERM");
  return isatty(fileno(out)) && !(term && std::strcmp(term, "dumb") == 0);
}

bool colours() {
  const char *no = std::getenv("NO_COLOR");
  return !no || !*no;
}

size_t columnsOf(std::FILE *out) {
  winsize size = {};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kColumns;
}

} // namespace

StatusLine::StatusLine(std::FILE *out, std::function<Text()> text) : out_(out), text_(std::move(text)) {
  if (!drawsOn(out))
    return;
  rt::beforeInterruptedIsSaid([this] {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    erase();
  });
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error &) {
    return; // without a thread there is no line
  }
}

StatusLine::~StatusLine() { end(); }

void StatusLine::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kEvery, [this] { return ended_; })) {
    const Text text = text_();
    erase();
    if (text.what.empty())
      continue;
    std::fputs(drawn(text, columnsOf(out_), colours()).c_str(), out_);
    std::fflush(out_);
    shown_ = true;
  }
}

void StatusLine::erase() {
  if (!shown_)
    return;
  std::fputs("\r\033[K", out_);
  std::fflush(out_);
  shown_ = false;
}

void StatusLine::pause(const std::function<void()> &act) {
  const std::lock_guard lock(mutex_);
  erase();
  act();
}

void StatusLine::print(const std::string &line) {
  pause([&] {
    std::fputs((line + "\n").c_str(), out_);
    std::fflush(out_);
  });
}

void StatusLine::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    erase();
  }
  wake_.notify_all();
  if (!thread_.joinable())
    return;
  thread_.join();
  rt::beforeInterruptedIsSaid(nullptr);
}

std::string StatusLine::drawn(const Text &text, size_t columns, bool colours) {
  // The last column stays free: some terminals wrap there.
  const size_t room = columns > 1 ? columns - 1 : 0;
  const std::string what = text.what.substr(0, room);
  const size_t left = room - what.size();
  const std::string details = text.details.empty() || left < 3 ? "" : ("  " + text.details).substr(0, left);
  return (colours ? "\033[1m" + what + "\033[0m" : what) + details;
}

} // namespace tessera
