#include "tools/cli/ManPage.h"

#include "runtime/support/Version.h"
#include "tools/cli/OptionTable.h"

#include <algorithm>
#include <cctype>

namespace tessera {
namespace {

/// Escapes text for roff, where a backslash is an escape, "-" alone is a hyphen, and a line that begins with "." is a
/// command.
std::string roff(const std::string &text) {
  std::string out;
  bool lineBegins = true;
  for (char c : text) {
    if (lineBegins && (c == '.' || c == '\''))
      out += "\\&";
    lineBegins = c == '\n';
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string bold(const std::string &text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string &text) { return "\\fI" + roff(text) + "\\fR"; }

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string withoutFullStop(std::string text) {
  if (!text.empty() && text.back() == '.')
    text.pop_back();
  return text;
}

std::string paragraph(const OptionRow &row) {
  std::string names;
  for (const std::string &name : row.names)
    names += (names.empty() ? "" : ", ") + (row.positional ? italic(name) : bold(name));
  if (!row.positional && !row.value.empty())
    names += " " + italic(row.value);
  std::string text = ".TP\n" + names + "\n" + roff(row.description);
  if (!row.standard.empty())
    text += " (default: " + roff(row.standard) + ")";
  return text + "\n";
}

std::string sections(const CLI::App &app) {
  std::string text;
  for (const OptionGroup &group : optionGroups(app)) {
    text += ".SH " + roff(upper(group.title)) + "\n";
    if (!group.description.empty())
      text += roff(group.description) + "\n";
    for (const OptionRow &row : group.rows)
      text += paragraph(row);
  }
  return text;
}

std::string synopsis(const CLI::App &app, const std::string &name) {
  std::string text = ".B " + roff(name) + "\n[" + italic("OPTIONS") + "]";
  for (const OptionRow &row : optionTable(app))
    if (row.positional)
      text += " " + (row.required ? italic(row.names[0]) : "[" + italic(row.names[0]) + "]");
  if (!commandsOf(app).empty())
    text += " " + italic("COMMAND") + " ...";
  return text + "\n";
}

} // namespace

std::string manPage(const CLI::App &app) {
  const std::string &name = app.get_name();
  std::string text = ".TH " + roff(upper(name)) + " 1 \"\" \"Tessera " TESSERA_VERSION "\" \"Tessera\"\n" +
                     ".SH NAME\n" + roff(name) + " \\- " + roff(withoutFullStop(app.get_description())) +
                     "\n.SH SYNOPSIS\n" + synopsis(app, name) + sections(app);
  const std::vector<const CLI::App *> commands = commandsOf(app);
  if (!commands.empty())
    text += ".SH COMMANDS\n";
  for (const CLI::App *command : commands) {
    text += ".SS " + roff(command->get_name()) + "\n" + roff(command->get_description()) + ".\n.PP\n" +
            synopsis(*command, name + " " + command->get_name());
    for (const OptionRow &row : optionTable(*command))
      text += paragraph(row);
  }
  // A footer in CLI11 is a line that ends with a colon, and examples as they are typed.
  if (const std::string footer = app.get_footer(); footer.size() > 1) {
    const size_t line = footer.find('\n');
    text += ".SH EXAMPLES\n.nf\n" + roff(line == std::string::npos ? footer : footer.substr(line + 1)) + "\n.fi\n";
  }
  return text;
}

} // namespace tessera
