#include "tools/cli/CommandLine.h"

#include "runtime/support/ExitCodes.h"
#include "runtime/support/Printable.h"
#include "runtime/support/Version.h"
#include "tools/cli/Completion.h"
#include "tools/cli/ManPage.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace tessera {
namespace {

std::string memoryError; // printed where there is no memory left to make it
std::terminate_handler otherwise = nullptr;

/// What the C++ runtime calls for an exception that nobody catches, in place of abort().
[[noreturn]] void endWithoutMemory() {
  if (std::exception_ptr thrown = std::current_exception())
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc &) {
      [[maybe_unused]] const ssize_t told = write(STDERR_FILENO, memoryError.data(), memoryError.size());
      _exit(rt::kExitError);
    } catch (...) {
      otherwise(); // describes it
    }
  otherwise();
  std::abort();
}

} // namespace

std::optional<int> parseCommandLine(CLI::App &app, int argc, char **argv) {
  memoryError =
      app.get_name() + ": memory has run out; raise the limit on this process (ulimit -v, or the container's)\n";
  otherwise = std::set_terminate(endWithoutMemory);
  app.set_version_flag("--version", app.get_name() + " " TESSERA_VERSION, "Print the version and exit");
  // CLI11 prints the text of CallForVersion and exits with 0. It has no such exception under a more general name.
  app.add_option_function<std::string>(
         "--completion",
         [&app](const std::string &shell) { throw CLI::CallForVersion(completionScript(app, shell), 0); },
         "Print a completion script for this shell and exit")
      ->type_name("SHELL")
      ->check(CLI::IsMember(completionShells()));
  app.add_flag_callback(
      "--man", [&app] { throw CLI::CallForVersion(manPage(app), 0); }, "Print the manual page and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    rt::printError(app.get_name() + ": " + error.what());
    rt::printError("Run it with --help for its options.");
    return rt::kExitUsage;
  }
  return std::nullopt;
}

std::string finishOutput() {
  // A write that failed earlier has only left its mark in the stream.
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return "";
  return std::string("standard output cannot be written: ") + std::strerror(errno == 0 ? EIO : errno);
}

CLI::Validator suggest(const std::vector<std::string> &values, bool orFile) {
  return CLI::Validator([](const std::string &) { return std::string(); },
                        "{" + CLI::detail::join(values, ",") + "}" + (orFile ? "|FILE" : ""));
}

} // namespace tessera
