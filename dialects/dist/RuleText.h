//===- RuleText.h - the text form of sharding rules, taken apart -----------------------------===//
//
// Reads the grammar of ShardingRule.h. Nothing is known of shapes here; RuleBinding.cpp binds what is read to them.
// Every part knows its column, so that an error can name the spot.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_RULETEXT_H
#define TESSERA_DIALECTS_DIST_RULETEXT_H

#include "dialects/dist/ShardingRule.h"

#include <vector>

namespace tessera::dist {

/// A factor's name; `size`: the attribute that holds its extent, or empty.
struct RuleName {
  llvm::StringRef name, size;
};

/// One entry of a tensor: a dimension of one or several factors, "..." or a run.
struct RuleDim {
  enum Kind { Factors, Ellipsis, Run } kind = Factors;
  llvm::SmallVector<RuleName, 2> names; // of Factors
  llvm::StringRef letters;              // of a Run
  /// Of a Run, what the attribute's dimensions are: '/' cut by nothing, '-' left out, '[' the order; 0: no attribute.
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

/// Takes a text without alternatives apart; the parts point into it.
llvm::Expected<RuleText> readRule(llvm::StringRef text);

} // namespace tessera::dist

#endif
