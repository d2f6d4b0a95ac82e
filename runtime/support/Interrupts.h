//===- Interrupts.h - how programs end on Ctrl-C and SIGTERM --------------------------------------===//
//
// For programs that have nothing to bring to an end, all but tessera-run:
//
//   endOnInterrupt("tessera-compile");       // at the start of main()
//   Unfinished out("plan.tmp4711");          // is removed, with all that is in it, where the program is interrupted
//   { auto held = Unfinished::hold(); rename(...); }      // which does not come between
//
// An interrupted program says so in one line and ends with 128 and the signal's number, as a shell would have it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_INTERRUPTS_H
#define TESSERA_RUNTIME_SUPPORT_INTERRUPTS_H

#include <atomic>
#include <mutex>
#include <string>

namespace tessera::rt {

/// From now on SIGINT and SIGTERM remove what is unfinished and end the process with exit code 130 or 143. A signal
/// that is ignored (a script's background job has it so) stays ignored.
void endOnInterrupt(const std::string &program);
/// The same for the second signal; the first sets what is returned, and the program ends by itself.
const std::atomic<bool> &stopOnInterrupt(const std::string &program);
/// 130 or 143 after an interrupt, else 0.
int interruptCode();
/// Does not return while an interrupt ends the process: what fails then has not failed by itself.
void yieldToInterrupt();

/// A file or folder that is worth nothing before it is complete.
class Unfinished {
public:
  explicit Unfinished(std::string path);
  Unfinished(const Unfinished &) = delete;
  Unfinished &operator=(const Unfinished &) = delete;
  /// Interrupts leave it alone from now on.
  ~Unfinished();
  /// No interrupt removes anything as long as this is held.
  static std::unique_lock<std::recursive_mutex> hold();

private:
  const std::string path_;
};

} // namespace tessera::rt

#endif
