//===- NamePatterns.h - names that a user gives by patterns -----------------------------------===//
//
// The options --init, --parameters, --constants, --freeze and --freeze-batchnorm share this matcher. A pattern is a
// name, or a glob over the whole name: `*` any text (dots and slashes too), `?` one character, `[ab]` one of these
// characters, `{a,b}` one of these texts. A pattern always matches the name that equals it, even if the name has such
// characters.
//
//   auto patterns = NamePatterns::create("--freeze", {"encoder.*", "head.weight"});
//   patterns->match("encoder.0.weight")     0, the pattern's index
//   patterns->match("decoder.0.weight")     none
//   patterns->checkAll("parameter", names)  "--freeze head.weight: no parameter has a name like this"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_NAMEPATTERNS_H
#define TESSERA_COMPILER_IMPORT_NAMEPATTERNS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::compiler {

class NamePatterns {
public:
  /// Messages show `option`, and behind each pattern its text of `suffixes` ("=zeros"), if there are any. Fails if a
  /// pattern is not a valid glob.
  static llvm::Expected<NamePatterns> create(llvm::StringRef option, llvm::ArrayRef<std::string> patterns,
                                             llvm::ArrayRef<std::string> suffixes = {});

  bool empty() const { return patterns_.empty(); }
  /// The index of the last pattern that matches. All patterns that match count as used.
  std::optional<size_t> match(llvm::StringRef name);
  /// As the user wrote it: "--freeze encoder.*".
  std::string text(size_t pattern) const;

  /// Fails for the first pattern that has matched nothing. `what` says in the message what the pattern should have
  /// matched. `names` are all names of that kind; the message shows the nearest of them. `others` are names of other
  /// kinds, each with its kind in words ("inv_freq", "a constant").
  llvm::Error checkAll(llvm::StringRef what, llvm::ArrayRef<std::string> names,
                       llvm::ArrayRef<std::pair<std::string, std::string>> others = {}) const;

private:
  struct Pattern {
    std::string text, suffix;
    llvm::GlobPattern glob; // refers to `text`
    bool used = false;

    bool matches(llvm::StringRef name) const { return name == text || glob.match(name); }
  };

  std::string option_;
  std::vector<std::unique_ptr<Pattern>> patterns_; // each stays where it is
};

/// Up to `count` of the names that a mistyped pattern may have meant, the nearest first.
std::vector<std::string> nearestNames(llvm::StringRef pattern, llvm::ArrayRef<std::string> names, size_t count = 3);

} // namespace tessera::compiler

#endif
