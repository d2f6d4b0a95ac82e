//===- Interrupts.h - how programs end on Ctrl-C and SIGTERM --------------------------------------===//
//
// Most programs end at once and only remove what is unfinished:
//
//   endOnInterrupt("tessera-compile");       // at the start of main()
//   Unfinished out("plan.tmp4711");          // an interrupt removes it with everything in it
//   { auto held = Unfinished::hold(); rename(...); }      // an interrupt waits until this is done
//
// An interrupted program says so in one line and ends with 128 plus the signal's number, as shells expect it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_INTERRUPTS_H
#define TESSERA_RUNTIME_SUPPORT_INTERRUPTS_H

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace tessera::rt {

/// From now on SIGINT and SIGTERM remove what is unfinished and end the process with exit code 130 or 143. A signal
/// that is ignored (a script's background job has it so) stays ignored.
void endOnInterrupt(const std::string &program);
/// Like endOnInterrupt, but only the second signal ends the process. The first one sets the flag that is returned, and
/// the program ends by itself. Where `may` is given, the first signal ends the process, too, unless `may` returns true;
/// another thread asks it.
const std::atomic<bool> &stopOnInterrupt(const std::string &program, const std::function<bool()> &may = nullptr);
/// Called before an interrupted program says so, by another thread: to remove what stands on the terminal.
void beforeInterruptedIsSaid(std::function<void()> act);
/// 130 or 143 after an interrupt, else 0.
int interruptCode();
/// Does not return while an interrupt is ending the process. A caller that is about to report an error calls this
/// first, since the error may only be a consequence of the interrupt.
void yieldToInterrupt();

/// A file or folder that is useless until it is complete. An interrupt removes it.
class Unfinished {
public:
  explicit Unfinished(std::string path);
  Unfinished(const Unfinished &) = delete;
  Unfinished &operator=(const Unfinished &) = delete;
  /// From now on interrupts leave the file or folder alone.
  ~Unfinished();
  /// An interrupt waits before it removes anything, for as long as the caller keeps the result.
  static std::unique_lock<std::recursive_mutex> hold();

private:
  const std::string path_;
};

} // namespace tessera::rt

#endif
