//===- Completion.h - completion scripts for shells -------------------------------------------------===//
//
//   source <(tessera-compile --completion bash)
//
// A script offers a program's options, and for an option its values, file names or directory names. It needs no other
// package of the shell and starts no program.
//
//===------------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_CLI_COMPLETION_H
#define TESSERA_TOOLS_CLI_COMPLETION_H

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tessera {

/// The shells for which there are scripts: bash and zsh.
std::vector<std::string> completionShells();

/// The script for `shell`, which is one of completionShells().
std::string completionScript(const CLI::App &app, const std::string &shell);

} // namespace tessera

#endif
