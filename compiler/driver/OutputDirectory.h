//===- OutputDirectory.h - files that appear whole or not at all ---------------------------------===//
//
//   OutputDirectory out("plan");            // plan, or what was there before, stays as it is
//   if (Error e = out.begin()) ...          // refuses a directory that is no plan
//   write files under out.file(NAME) ...
//   if (Error e = out.commit()) ...         // now plan has the new files; without commit nothing is left behind
//
// The files are written to `plan.tmpPID`, which then changes names with the old directory in one step. An interrupt
// removes them (runtime/support/Interrupts.h). The next process with the same target removes the files of a process
// that was killed.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_OUTPUTDIRECTORY_H
#define TESSERA_COMPILER_DRIVER_OUTPUTDIRECTORY_H

#include "runtime/support/Interrupts.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace tessera {

/// Writes a temporary file beside `path` and renames it (rt::writeFile).
llvm::Error writeFile(const std::string &path, llvm::StringRef text);

class OutputDirectory {
public:
  explicit OutputDirectory(std::string target);
  ~OutputDirectory(); // removes what was not committed

  llvm::Error begin();
  llvm::Error commit();

  const std::string &path() const { return temporary_; } // where to write
  std::string file(llvm::StringRef name) const { return temporary_ + "/" + name.str(); }

private:
  std::string target_, temporary_;
  std::unique_ptr<rt::Unfinished> unfinished_;
  int lock_ = -1; // on the temporary directory, as long as this process lives
};

} // namespace tessera

#endif
