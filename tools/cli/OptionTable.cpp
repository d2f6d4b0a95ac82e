#include "tools/cli/OptionTable.h"

namespace tessera {
namespace {

bool contains(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

/// Parses the type that CLI11 writes, with the texts of validators after colons: "TEXT:{a,b}", "FILE|DIR", "INT:INT in
/// [1 - 9]".
void readType(const std::string &type, OptionRow &row) {
  const size_t open = type.find('{'), close = type.find('}', open);
  row.value = type.substr(0, type.find(':'));
  std::string names = row.value;
  if (close != std::string::npos) {
    row.words = CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
    names += type.substr(close + 1);
    row.value = type.substr(open);
  }
  row.files = contains(names, "FILE");
  row.directories = contains(names, "DIR");
}

OptionRow rowOf(const CLI::Option &option) {
  OptionRow row;
  row.positional = option.get_positional();
  if (row.positional)
    row.names.push_back(option.get_name(true));
  for (const std::string &name : option.get_snames())
    row.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    row.names.push_back("--" + name);
  if (option.get_items_expected_max() != 0)
    readType(option.get_type_name(), row);
  if (row.positional) {
    row.value = row.names[0];
    row.files = row.words.empty(); // programs here take models, plans and checkpoints as positional arguments
  }
  row.description = option.get_description();
  row.standard = option.get_default_str();
  row.required = option.get_required();
  row.repeated = option.get_items_expected_max() > 1;
  return row;
}

std::vector<const CLI::App *> subcommands(const CLI::App &app, bool named) {
  return app.get_subcommands([named](const CLI::App *sub) { return sub->get_name().empty() != named; });
}

} // namespace

std::vector<OptionGroup> optionGroups(const CLI::App &app) {
  OptionGroup own{"Options", "", {}};
  for (const CLI::Option *option : app.get_options())
    if (!option->get_group().empty())
      own.rows.push_back(rowOf(*option));
  std::vector<OptionGroup> groups = {std::move(own)};
  for (const CLI::App *sub : subcommands(app, /*named=*/false)) { // CLI11's option groups
    OptionGroup group{sub->get_group(), sub->get_description(), {}};
    for (const CLI::Option *option : sub->get_options())
      if (option != sub->get_help_ptr() && !option->get_group().empty()) // --help is inherited
        group.rows.push_back(rowOf(*option));
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<OptionRow> optionTable(const CLI::App &app) {
  std::vector<OptionRow> rows;
  for (const OptionGroup &group : optionGroups(app))
    rows.insert(rows.end(), group.rows.begin(), group.rows.end());
  return rows;
}

std::vector<const CLI::App *> commandsOf(const CLI::App &app) { return subcommands(app, /*named=*/true); }

} // namespace tessera
