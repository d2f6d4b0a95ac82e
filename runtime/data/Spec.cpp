#include "runtime/data/Spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tessera::rt {
namespace {

const std::vector<std::string> kCommonOptions = {"shuffle", "augment", "seed"};

bool isName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// Whether the text can be an input's name. A path with '=' in it is written ./a=b, so that a name
/// has no '/'.
bool isInputName(std::string_view text) { return !text.empty() && text.find('/') == std::string_view::npos; }

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (true) {
    const size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string::npos)
      return parts;
    at = end + 1;
  }
}

bool parseNumber(const std::string &text, double &value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

/// 50000 rather than 50000.000000.
std::string numberText(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, error == std::errc() ? end : text);
}

} // namespace

Result<Spec> parseSpec(const std::string &text) {
  Spec spec;
  spec.text = text;
  const size_t colon = text.find(':');
  spec.kind = text.substr(0, colon);
  if (colon == std::string::npos)
    return spec;
  if (colon + 1 == text.size())
    return Status::error("data source '" + text + "' ends after its kind; drop the ':' or go on");
  for (const std::string &part : split(text.substr(colon + 1), ',')) {
    const size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    if (part.empty())
      return Status::error("data source '" + text + "' has an empty part between two commas");
    const bool common = std::count(kCommonOptions.begin(), kCommonOptions.end(), name) > 0;
    if (equals != std::string::npos && spec.namesFiles() && !common && isInputName(name)) {
      for (const auto &[other, path] : spec.named)
        if (other == name)
          return Status::error("data source '" + text + "' gives '" + name + "' two files");
      spec.named.emplace_back(name, part.substr(equals + 1));
      continue;
    }
    if (equals == std::string::npos || !isName(name)) {
      spec.paths.push_back(part);
      continue;
    }
    if (!spec.options.emplace(name, part.substr(equals + 1)).second)
      return Status::error("data source '" + text + "' gives the option '" + name + "' twice");
  }
  return spec;
}

Status Spec::knows(const std::vector<std::string> &names) const {
  for (const auto &[name, value] : options) {
    if (std::count(names.begin(), names.end(), name) || std::count(kCommonOptions.begin(), kCommonOptions.end(), name))
      continue;
    std::string list;
    for (const std::vector<std::string> *known : {&names, &kCommonOptions})
      for (const std::string &option : *known)
        list += (list.empty() ? "" : ", ") + option;
    return Status::error("data source '" + text + "': " + kind + " has no option '" + name + "'; it has " + list +
                         " (a path with '=' in it is written ./" + name + "=" + value + ")");
  }
  return Status();
}

Result<int64_t> Spec::integer(const std::string &name, int64_t otherwise, int64_t least, int64_t most) const {
  const auto option = options.find(name);
  if (option == options.end())
    return otherwise;
  const std::string &value = option->second;
  int64_t parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || parsed < least || parsed > most)
    return Status::error("data source '" + text + "': " + name + "=" + value + " is not a whole number from " +
                         std::to_string(least) + " to " + std::to_string(most));
  return parsed;
}

Result<double> Spec::number(const std::string &name, double otherwise, double least, double most) const {
  const auto option = options.find(name);
  if (option == options.end())
    return otherwise;
  double parsed = 0;
  if (!parseNumber(option->second, parsed) || parsed < least || parsed > most)
    return Status::error("data source '" + text + "': " + name + "=" + option->second + " is not a number from " +
                         numberText(least) + " to " + numberText(most));
  return parsed;
}

Result<std::vector<double>> Spec::numbers(const std::string &name, const std::vector<double> &otherwise) const {
  const auto option = options.find(name);
  if (option == options.end())
    return otherwise;
  std::vector<double> values;
  bool good = true;
  for (const std::string &part : split(option->second, ':')) {
    values.emplace_back();
    good &= parseNumber(part, values.back());
  }
  if (!good || values.size() != otherwise.size())
    return Status::error("data source '" + text + "': " + name + "=" + option->second + " is not " +
                         std::to_string(otherwise.size()) + " numbers separated by ':'");
  return values;
}

} // namespace tessera::rt
