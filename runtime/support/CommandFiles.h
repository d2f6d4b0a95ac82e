//===- CommandFiles.h - what a command reads and what it writes -----------------------------------===//
//
// A program asks this before any work. A command never writes over what it reads, over what another of its options
// writes, or over what is no regular file (a folder, a device, a pipe, a socket).
//
//   CommandFiles files;
//   files.reads("model.onnx");
//   files.writes("--save-strategies", "model.onnx");
//   files.check();     // "--save-strategies model.onnx: is read by this command; give another name"
//
// Empty names stand for options that were not given.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_COMMANDFILES_H
#define TESSERA_RUNTIME_SUPPORT_COMMANDFILES_H

#include "runtime/support/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

class CommandFiles {
public:
  /// The command reads this file, or this folder with everything in it. It need not exist.
  void reads(const std::string &path);
  /// The option writes a file that replaces the old one once it is complete.
  void writes(const std::string &option, const std::string &path) { add(option, path, Kind::File); }
  /// The option writes a file while the command runs. It may be a pipe or a terminal.
  void streams(const std::string &option, const std::string &path) { add(option, path, Kind::Stream); }
  /// The option replaces a folder with everything in it.
  void replaces(const std::string &option, const std::string &path) { add(option, path, Kind::Folder); }

  Status check() const;

private:
  enum class Kind { File, Stream, Folder };
  struct Output {
    std::string option, path;
    Kind kind;
  };
  void add(const std::string &option, const std::string &path, Kind kind);

  std::vector<std::string> inputs_;
  std::vector<Output> outputs_;
};

} // namespace tessera::rt

#endif
