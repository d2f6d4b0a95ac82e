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

/// The manual page in roff, for section 1. It has no date, so that the same options give the same bytes.
std::string manPage(const CLI::App &app);

} // namespace tessera

#endif
