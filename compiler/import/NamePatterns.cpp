//===- NamePatterns.cpp - matching and near matches -------------------------------------------===//

#include "compiler/import/NamePatterns.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace tessera::compiler {

Expected<NamePatterns> NamePatterns::create(StringRef option, ArrayRef<std::string> patterns,
                                            ArrayRef<std::string> suffixes) {
  NamePatterns result;
  result.option_ = option.str();
  for (auto [i, text] : enumerate(patterns)) {
    std::string suffix = suffixes.empty() ? "" : suffixes[i];
    auto pattern = std::make_unique<Pattern>();
    pattern->text = text;
    pattern->suffix = suffix;
    if (Error error = GlobPattern::create(pattern->text).moveInto(pattern->glob))
      return createStringError("%s %s%s: %s", result.option_.c_str(), text.c_str(), suffix.c_str(),
                               toString(std::move(error)).c_str());
    result.patterns_.push_back(std::move(pattern));
  }
  return result;
}

std::optional<size_t> NamePatterns::match(StringRef name) {
  std::optional<size_t> last;
  for (auto [i, pattern] : enumerate(patterns_))
    if (pattern->matches(name)) {
      pattern->used = true;
      last = i;
    }
  return last;
}

std::string NamePatterns::text(size_t pattern) const {
  return option_ + " " + patterns_[pattern]->text + patterns_[pattern]->suffix;
}

std::vector<std::string> nearestNames(StringRef pattern, ArrayRef<std::string> names, size_t count) {
  // Compares only the letters of a glob. The characters that its wildcards may stand for do not count as differences.
  std::string letters;
  for (char c : pattern)
    if (!StringRef("*?[]{},").contains(c))
      letters += char(tolower(c));
  const bool open = pattern.find_first_of("*?[{") != StringRef::npos;
  const unsigned limit = unsigned(std::max<size_t>(2, letters.size() / 4));
  std::vector<std::pair<unsigned, std::string>> found;
  for (const std::string &name : names) {
    const std::string lower = StringRef(name).lower();
    const size_t longer = lower.size() > letters.size() ? lower.size() - letters.size() : 0;
    const unsigned free = open ? unsigned(longer) : 0; // letters that a star may have stood for
    unsigned distance = StringRef(letters).edit_distance(lower, true, limit + free + 1);
    if (!open && letters.size() >= 3 && StringRef(lower).contains(letters))
      distance = 0; // the pattern is a part of the name
    distance -= std::min(distance, free);
    if (distance <= limit)
      found.push_back({distance, name});
  }
  stable_sort(found, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min(count, found.size()); ++i)
    nearest.push_back(found[i].second);
  return nearest;
}

Error NamePatterns::checkAll(StringRef what, ArrayRef<std::string> names,
                             ArrayRef<std::pair<std::string, std::string>> others) const {
  for (auto [i, pattern] : enumerate(patterns_)) {
    if (pattern->used)
      continue;
    std::string hint;
    for (const auto &[name, kind] : others)
      if (pattern->matches(name)) {
        hint = "; '" + name + "' is " + kind;
        break;
      }
    if (hint.empty())
      for (const std::string &name : nearestNames(pattern->text, names))
        hint += (hint.empty() ? "; near it: '" : ", '") + name + "'";
    if (hint.empty())
      hint = "; tessera-compile MODEL --list-parameters shows all names";
    return createStringError("%s: no %s has a name like this%s", text(i).c_str(), what.str().c_str(), hint.c_str());
  }
  return Error::success();
}

} // namespace tessera::compiler
