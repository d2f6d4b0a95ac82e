#include "tools/cli/Completion.h"

#include "tools/cli/OptionTable.h"

namespace tessera {
namespace {

using CLI::detail::join;

std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  return CLI::detail::find_and_replace(std::move(text), from, to);
}

std::string functionName(const CLI::App &app) { return "_" + replaceAll(app.get_name(), "-", "_"); }

//===--- bash ---------------------------------------------------------------------------------------===//

/// One line of the script for each option with a value. `command` is the subcommand, or empty.
std::string bashValues(const std::vector<OptionRow> &rows, const std::string &command) {
  std::string text;
  for (const OptionRow &row : rows) {
    if (row.positional || row.value.empty())
      continue;
    std::string names;
    for (const std::string &name : row.names)
      names += (names.empty() ? "" : "|") + command + ":" + name;
    std::string offer;
    if (!row.words.empty())
      offer += " -W '" + join(row.words, " ") + "'";
    if (row.files)
      offer += " -f";
    else if (row.directories)
      offer += " -d";
    text += "  " + names + ") " + (offer.empty() ? "" : "_tessera_offer" + offer + "; ") + "return ;;\n";
  }
  return text;
}

std::string bashOptions(const std::vector<OptionRow> &rows, const std::string &command) {
  std::vector<std::string> names;
  for (const OptionRow &row : rows)
    if (!row.positional)
      names.insert(names.end(), row.names.begin(), row.names.end());
  return "  " + (command.empty() ? "''" : command) + ") options='" + join(names, " ") + "' ;;\n";
}

std::string bashScript(const CLI::App &app) {
  std::vector<std::string> commands;
  std::string values = bashValues(optionTable(app), ""), options = bashOptions(optionTable(app), "");
  for (const CLI::App *command : commandsOf(app)) {
    commands.push_back(command->get_name());
    values += bashValues(optionTable(*command), command->get_name());
    options += bashOptions(optionTable(*command), command->get_name());
  }
  std::string findCommand;
  if (!commands.empty())
    findCommand = R"(  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in )" +
                  join(commands, "|") + R"() command=$word; break ;; esac
  done
)";
  const std::string atFirst =
      commands.empty() ? "" : "  [[ -z $command ]] && _tessera_offer -W '" + join(commands, " ") + "' && return\n";
  return "# Completion of " + app.get_name() + " for bash, made of its option table.\n" + R"(_tessera_offer() {
  mapfile -t COMPREPLY < <(compgen "$@" -- "$current")
  [[ " $* " == *' -W '* ]] || compopt -o filenames 2>/dev/null
  return 0
}
)" + functionName(app) +
         R"(() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' options='' word
  # bash takes --name=value for three words.
  if [[ $current == '=' ]]; then current=''; elif [[ $previous == '=' ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi
  COMPREPLY=()
)" + findCommand +
         "  case $command:$previous in\n" + values + "  esac\n  case $command in\n" + options + R"(  esac
  if [[ $current == -* ]]; then _tessera_offer -W "$options"; return; fi
)" + atFirst +
         "  _tessera_offer -f\n}\ncomplete -F " + functionName(app) + " " + app.get_name();
}

//===--- zsh ----------------------------------------------------------------------------------------===//

/// Quotes text for use inside single quotes.
std::string zshQuoted(std::string text, const std::string &special) {
  text = replaceAll(text, "\\", "\\\\");
  for (char c : special)
    text = replaceAll(text, std::string(1, c), std::string("\\") + c);
  return replaceAll(text, "'", "'\\''");
}

std::string zshValue(const OptionRow &row) {
  const std::string title = ":" + zshQuoted(row.value, ":");
  if (row.words.empty())
    return title + (row.files ? ":_files" : row.directories ? ":_files -/" : ": ");
  const std::string words = "(" + zshQuoted(join(row.words, " "), ":()") + ")";
  return title + ":" +
         (row.files ? "{_alternative \"words\\:word\\:" + words + "\" \"files\\:file\\:_files\"}" : words);
}

/// The arguments of zsh's _arguments, one per line.
std::string zshArguments(const std::vector<OptionRow> &rows) {
  std::string text;
  for (const OptionRow &row : rows) {
    if (row.positional) {
      text += " \\\n  '" + zshValue(row) + "'";
      continue;
    }
    const std::string others = row.repeated ? "*" : row.names.size() > 1 ? "(" + join(row.names, " ") + ")" : "";
    const std::string what = "[" + zshQuoted(row.description, "[]:") + "]";
    for (const std::string &name : row.names) {
      const char *sign = row.value.empty() ? "" : name[1] == '-' ? "=" : "+";
      text += " \\\n  '" + others + name + sign + what + (row.value.empty() ? "" : zshValue(row)) + "'";
    }
  }
  return text;
}

std::string zshScript(const CLI::App &app) {
  const std::vector<const CLI::App *> commands = commandsOf(app);
  const std::string name = functionName(app);
  std::string text = "#compdef " + app.get_name() + "\n# Completion of " + app.get_name() +
                     " for zsh, made of its option table.\n" + name + "() {\n  local context state state_descr line\n" +
                     "  typeset -A opt_args\n  _arguments" + (commands.empty() ? "" : " -C") +
                     zshArguments(optionTable(app));
  if (!commands.empty()) {
    std::string described, each;
    for (const CLI::App *command : commands) {
      described += " " + command->get_name() + "\\:\"" + zshQuoted(command->get_description(), "\":()") + "\"";
      each += "  " + command->get_name() + ") _arguments" + zshArguments(optionTable(*command)) + " ;;\n";
    }
    text += " \\\n  '1:command:((" + described.substr(1) + "))' \\\n  '*::argument:->arguments'\n" +
            "  [[ $state == arguments ]] || return\n  case $words[1] in\n" + each + "  esac";
  }
  // If the file is read by `source`, it declares the function. If zsh autoloads it, it runs the function.
  return text + "\n}\nif [[ ${funcstack[1]} == " + name + " ]]; then\n  " + name + " \"$@\"\nelse\n  compdef " + name +
         " " + app.get_name() + "\nfi";
}

} // namespace

std::vector<std::string> completionShells() { return {"bash", "zsh"}; }

std::string completionScript(const CLI::App &app, const std::string &shell) {
  return shell == "zsh" ? zshScript(app) : bashScript(app);
}

} // namespace tessera
