//===- StatusLine.h - one line on a terminal that tells what a program is doing ------------------------===//
//
//   StatusLine status(stdout, [] { return StatusLine::Text{"strategies", "cost 12.3 ms, bound 12.1 ms"}; });
//   status.print("import          0.12 s");        // above it
//   status.end();                                  // it is gone
//
// A thread rewrites it some times a second. Nothing is drawn where the file is no terminal, or one that cannot move its
// cursor (TERM=dumb). Its first word is bold, but not where NO_COLOR is set (https://no-color.org). It takes one row:
// what does not fit is cut.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_CLI_STATUSLINE_H
#define TESSERA_TOOLS_CLI_STATUSLINE_H

#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tessera {

class StatusLine {
public:
  /// Of printable characters, one column each.
  struct Text {
    std::string what, details;
  };

  /// `text` is called by the line's thread. An empty `what`: nothing is shown.
  StatusLine(std::FILE *out, std::function<Text()> text);
  ~StatusLine();
  StatusLine(const StatusLine &) = delete;
  StatusLine &operator=(const StatusLine &) = delete;

  /// Prints a line above it.
  void print(const std::string &line);
  /// It is not there while `act` writes.
  void pause(const std::function<void()> &act);
  /// Removes it. From now on print() only prints.
  void end();

  /// The line as it is drawn, without moving the cursor: cut to `columns`, bold if `colours`.
  static std::string drawn(const Text &text, size_t columns, bool colours);

private:
  void run();
  void erase(); // mutex_ is held

  std::FILE *const out_;
  const std::function<Text()> text_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false, shown_ = false;
  std::thread thread_; // not started where nothing is drawn
};

} // namespace tessera

#endif
