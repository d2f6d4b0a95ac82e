#include "dialects/dist/RuleText.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tessera::dist {

Error ruleError(StringRef text, size_t at, const Twine &why) {
  return createStringError("sharding rule '" + text + "', column " + Twine(at + 1) + ": " + why);
}

//===----------------------------------------------------------------------------------------------===//
// Alternatives
//===----------------------------------------------------------------------------------------------===//

namespace {

/// "flag" is true if the attribute is not 0, "pads=0" if each of its numbers is 0.
Expected<bool> holds(StringRef text, size_t at, StringRef test, RuleAttributes attributes) {
  auto [name, number] = test.split('=');
  std::optional<SmallVector<int64_t>> values = attributes(name.trim());
  if (!values)
    return ruleError(text, at, "the operator has no attribute '" + name.trim() + "'");
  int64_t wanted = 0;
  if (!test.contains('='))
    return llvm::any_of(*values, [](int64_t value) { return value != 0; });
  if (number.trim().getAsInteger(10, wanted))
    return ruleError(text, at, "'" + number.trim() + "' is no number");
  return llvm::all_of(*values, [&](int64_t value) { return value == wanted; });
}

} // namespace

Expected<std::string> chooseAlternatives(StringRef rule, RuleAttributes attributes) {
  std::string text = rule.str();
  while (true) {
    size_t open = text.rfind('{'); // the last one has none inside
    if (open == std::string::npos)
      break;
    size_t close = text.find('}', open);
    StringRef body = StringRef(text).slice(open + 1, close);
    if (close == std::string::npos)
      return ruleError(text, open, "'{' without '}'");
    if (!body.contains('?'))
      return ruleError(text, open, "alternatives without '?'");
    auto [tests, choices] = body.split('?');
    size_t colon = choices.find(" : ");
    bool chosen = false;
    SmallVector<StringRef, 2> words;
    tests.split(words, " or ");
    for (StringRef test : words) {
      Expected<bool> one = holds(text, open, test, attributes);
      if (!one)
        return one.takeError();
      chosen |= *one;
    }
    StringRef choice = chosen                     ? choices.take_front(colon)
                       : colon == StringRef::npos ? StringRef()
                                                  : choices.drop_front(colon + 3);
    text = (StringRef(text).take_front(open) + choice.trim() + StringRef(text).drop_front(close + 1)).str();
  }
  if (size_t close = text.find('}'); close != std::string::npos)
    return ruleError(text, close, "'}' without '{'");
  return text;
}

//===----------------------------------------------------------------------------------------------===//
// Tensors and clauses
//===----------------------------------------------------------------------------------------------===//

namespace {

class Reader {
public:
  explicit Reader(StringRef text) : text_(text) { rule_.text = text; }

  Expected<RuleText> read() {
    if (!text_.contains("->"))
      return error("no '->'");
    if (Error e = readSide(rule_.operands))
      return e;
    if (!take("->"))
      return error("expected '->'");
    if (Error e = readSide(rule_.results))
      return e;
    while (take("|"))
      if (Error e = readClause())
        return e;
    if (!atEnd())
      return error("unexpected '" + text_.substr(at_) + "'");
    return std::move(rule_);
  }

private:
  StringRef text_;
  size_t at_ = 0;
  RuleText rule_;

  Error error(const Twine &why) const { return ruleError(text_, at_, why); }
  void skipSpace() { at_ = std::min(text_.find_first_not_of(' ', at_), text_.size()); }
  bool atEnd() {
    skipSpace();
    return at_ == text_.size();
  }
  bool sees(StringRef what) {
    skipSpace();
    return text_.substr(at_).starts_with(what);
  }
  bool take(StringRef what) {
    if (!sees(what))
      return false;
    at_ += what.size();
    return true;
  }
  /// Directly here, without a space before.
  bool takeHere(StringRef what) { return text_.substr(at_).starts_with(what) && take(what); }
  StringRef name() {
    StringRef word = text_.substr(at_).take_while([](char c) { return isAlnum(c) || c == '_'; });
    at_ += word.size();
    return word;
  }

  /// Tensors up to "->", "|" or the end.
  Error readSide(std::vector<std::vector<RuleDim>> &tensors) {
    if (sees("->") || sees("|") || atEnd())
      return Error::success();
    do {
      tensors.emplace_back();
      if (take("()"))
        continue;
      while (!sees(",") && !sees("->") && !sees("|") && !atEnd()) {
        RuleDim dim;
        if (Error e = readDim(dim))
          return e;
        tensors.back().push_back(std::move(dim));
      }
    } while (take(","));
    return Error::success();
  }

  Error readName(RuleDim &dim) {
    skipSpace();
    RuleName factor{name(), ""};
    if (factor.name.empty())
      return error("unexpected '" + text_.substr(at_) + "'");
    if (takeHere("=")) {
      factor.size = name();
      if (factor.size.empty())
        return error("expected the attribute that holds the size of '" + factor.name + "'");
    }
    dim.names.push_back(factor);
    return Error::success();
  }

  Error readDim(RuleDim &dim) {
    skipSpace();
    dim.at = at_;
    if (take("...")) {
      dim.kind = RuleDim::Ellipsis;
      return Error::success();
    }
    if (take("(")) {
      while (!take(")")) {
        if (atEnd())
          return ruleError(text_, dim.at, "'(' without ')'");
        if (Error e = readName(dim))
          return e;
      }
      return Error::success();
    }
    if (Error e = readName(dim))
      return e;
    if (!takeHere(".."))
      return Error::success();
    dim.kind = RuleDim::Run;
    dim.letters = dim.names[0].name;
    if (at_ < text_.size() && StringRef("/-[").contains(text_[at_]) && !text_.substr(at_).starts_with("->")) {
      dim.selects = text_[at_++];
      dim.attribute = name();
      if (dim.attribute.empty())
        return error("expected an attribute that names dimensions of '" + dim.letters + "..'");
      if (dim.selects == '[' && !takeHere("]"))
        return error("expected ']'");
    }
    return Error::success();
  }

  Error readClause() {
    RuleClause clause;
    skipSpace();
    clause.at = at_;
    clause.word = name();
    if (takeHere("(")) {
      size_t close = text_.find(')', at_);
      if (close == StringRef::npos)
        return ruleError(text_, clause.at, "'(' without ')'");
      text_.slice(at_, close).split(clause.arguments, ',');
      for (StringRef &argument : clause.arguments)
        argument = argument.trim();
      at_ = close + 1;
    }
    while (!sees("|") && !atEnd()) {
      size_t end = std::min(text_.find_first_of(" |", at_), text_.size());
      clause.words.push_back({text_.slice(at_, end), at_});
      at_ = end;
    }
    if (clause.word.empty() && clause.words.empty())
      return Error::success(); // an alternative without clause
    rule_.clauses.push_back(std::move(clause));
    return Error::success();
  }
};

} // namespace

Expected<RuleText> readRule(StringRef text) { return Reader(text).read(); }

} // namespace tessera::dist
