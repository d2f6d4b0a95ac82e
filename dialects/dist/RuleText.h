//===- RuleText.h - the text form of sharding rules, taken apart -----------------------------===//
//
// Reads the grammar of ShardingRule.h without knowing shapes; RuleBinding.cpp binds the parts to shapes. Every part
// stores its column, so that an error can name the place.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_RULETEXT_H
#define TESSERA_DIALECTS_DIST_RULETEXT_H

#include "dialects/dist/ShardingRule.h"

#include <vector>

namespace tessera::dist {

/// The name of a factor, and in `size` the attribute that holds its extent, or nothing.
struct RuleName {
  llvm::StringRef name, size;
};

/// One entry of a tensor: a dimension of one or several factors, "..." or a run.
struct RuleDim {
  enum Kind { Factors, Ellipsis, Run } kind = Factors;
  llvm::SmallVector<RuleName, 2> names; // of Factors
  llvm::StringRef letters;              // of a Run
  /// What a Run's attribute does to the dimensions that it names: '/' they are not cut, '-' they are left out, '[' they
  /// are taken in this order; 0: there is no attribute.
  char selects = 0;
  llvm::StringRef attribute;
  size_t at = 0;
};

/// One word of a clause: "k", "d..", "d..[dims]", "...", "h:r", "0+1".
struct RuleWord {
  llvm::StringRef text;
  size_t at = 0;
};

/// "stat(max, sum) n ...": word, arguments, words.
struct RuleClause {
  llvm::StringRef word;
  llvm::SmallVector<llvm::StringRef, 2> arguments;
  std::vector<RuleWord> words;
  size_t at = 0;
};

struct RuleText {
  llvm::StringRef text; // of which all others are parts
  std::vector<std::vector<RuleDim>> operands, results;
  std::vector<RuleClause> clauses;
};

/// "sharding rule 'TEXT', column 4: WHY"
llvm::Error ruleError(llvm::StringRef text, size_t at, const llvm::Twine &why);

/// Chooses among "{test ? this : that}".
llvm::Expected<std::string> chooseAlternatives(llvm::StringRef text, RuleAttributes attributes);

/// Parses a text without alternatives. The parts point into it, so it must outlive them.
llvm::Expected<RuleText> readRule(llvm::StringRef text);

} // namespace tessera::dist

#endif
