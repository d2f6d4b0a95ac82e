//===- ManPage.h - a program's manual page ----------------------------------------------------------===//
//
//   tessera-compile --man | man -l -
//
//===------------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_CLI_MANPAGE_H
#define TESSERA_TOOLS_CLI_MANPAGE_H

#include <CLI/CLI.hpp>

#include <string>

namespace tessera {

/// In roff, for section 1. The same options give the same bytes: there is no date in it.
std::string manPage(const CLI::App &app);

} // namespace tessera

#endif
