//===- OptionTable.h - a command line's description as a table --------------------------------------===//
//
// Extracts from CLI11's description of a program what completion and the manual page need:
//
//   --mode TEXT:{data,auto}=data   ->  names {"--mode"}, value "{data,auto}", words {"data", "auto"}
//   -o,--output DIR                ->  names {"-o", "--output"}, value "DIR", directories
//
//===------------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_CLI_OPTIONTABLE_H
#define TESSERA_TOOLS_CLI_OPTIONTABLE_H

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tessera {

struct OptionRow {
  std::vector<std::string> names;    // with their dashes; a positional argument has one name without
  std::string value;                 // the placeholder of the value; empty: the option is a flag
  std::vector<std::string> words;    // values to offer
  bool files = false;                // file names are values
  bool directories = false;          // directory names are values
  std::string description, standard; // standard: the default value, if --help shows it
  bool positional = false, required = false, repeated = false;
};

/// Options under one heading of --help.
struct OptionGroup {
  std::string title, description;
  std::vector<OptionRow> rows;
};

/// The groups in the order of their declaration, without options that are hidden from --help.
std::vector<OptionGroup> optionGroups(const CLI::App &app);

/// The rows of all groups.
std::vector<OptionRow> optionTable(const CLI::App &app);

/// Subcommands in the order of the declaration.
std::vector<const CLI::App *> commandsOf(const CLI::App &app);

} // namespace tessera

#endif
