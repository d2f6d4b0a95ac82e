//===- CommandLine.h - what the command lines of all programs share ---------------------------------===//
//
// A program describes its options to CLI11 and hands the description over. The description is the one home of the
// options: `--help`, the manual page and the completion scripts are made of it.
//
//   CLI::App app("Shows a plan", "tessera-dump");
//   app.add_option("PLAN", plan, "Plan directory")->required();
//   if (std::optional<int> exitCode = tessera::parseCommandLine(app, argc, argv))
//     return *exitCode;
//
// Adds --version, --completion SHELL and --man. Each of them, like --help, prints something and ends the program.
// From then on memory that runs out where nobody expects it ends the program with an error, not with a signal.
//
//===------------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_CLI_COMMANDLINE_H
#define TESSERA_TOOLS_CLI_COMMANDLINE_H

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Parses the arguments. Returns an exit code if the program is to end: 0 after --help and the like, or rt::kExitUsage
/// after an error. The error has been printed after the program's name.
std::optional<int> parseCommandLine(CLI::App &app, int argc, char **argv);

/// Flushes standard output. Returns an empty text, or an error if not everything could be written.
std::string finishOutput();

/// Values that --help and completion name. Other values are accepted too, and checked where the option is read. With
/// `orFile` the value may also be the name of a file.
CLI::Validator suggest(const std::vector<std::string> &values, bool orFile = false);

} // namespace tessera

#endif
