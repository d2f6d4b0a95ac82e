// ShardingRule::parse: a rule's text bound to shapes.
#include "dialects/dist/RuleText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace tessera::dist {
namespace {

class Binder {
public:
  Binder(const RuleText &text, ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes, RuleAttributes attributes)
      : text_(text), operandShapes_(operandShapes), resultShapes_(resultShapes), attributes_(attributes) {}

  Expected<ShardingRule> bind() {
    if (text_.operands.size() != operandShapes_.size() || text_.results.size() != resultShapes_.size())
      return error(0, "it speaks of " + Twine(text_.operands.size()) + " operands and " + Twine(text_.results.size()) +
                          " results; the operator has " + Twine(operandShapes_.size()) + " and " +
                          Twine(resultShapes_.size()));
    if (Error e = countRuns())
      return e;
    if (Error e = bindEllipsis())
      return e;
    if (Error e = eachTensor([&](ArrayRef<RuleDim> dims, const Shape &shape, bool isResult) -> Error {
          auto &tensors = isResult ? rule_.results : rule_.operands;
          return bindTensor(dims, shape, tensors.emplace_back());
        }))
      return e;
    if (Error e = resolveSizes())
      return e;
    for (const RuleClause &clause : text_.clauses)
      if (Error e = bindClause(clause))
        return e;
    return std::move(rule_);
  }

private:
  const RuleText &text_;
  ArrayRef<Shape> operandShapes_, resultShapes_;
  RuleAttributes attributes_;
  ShardingRule rule_;
  StringMap<int64_t> runs_; // letters -> number of dimensions
  int64_t ellipsisRank_ = 0;
  SmallVector<int> ellipsisAt_;                // position -> factor or -1 (extent 1)
  SmallVector<std::pair<int, int64_t>> sizes_; // factors whose size an attribute holds

  Error error(size_t at, const Twine &why) const { return ruleError(text_.text, at, why); }

  /// visit(dims, shape, isResult) for operands, then results.
  template <typename Visit> Error eachTensor(Visit visit) {
    for (size_t t = 0; t < text_.operands.size(); ++t)
      if (Error e = visit(text_.operands[t], operandShapes_[t], false))
        return e;
    for (size_t t = 0; t < text_.results.size(); ++t)
      if (Error e = visit(text_.results[t], resultShapes_[t], true))
        return e;
    return Error::success();
  }

  Expected<SmallVector<int64_t>> attribute(StringRef name, size_t at) const {
    if (std::optional<SmallVector<int64_t>> values = attributes_(name))
      return std::move(*values);
    return error(at, "the operator has no attribute '" + name + "'");
  }

  //===--------------------------------------------------------------------------------------------===//
  // Runs
  //===--------------------------------------------------------------------------------------------===//

  /// d.. is d0 d1 ...; hwz.. is h w z, as many as there are.
  static std::string runName(StringRef letters, int64_t i) {
    return letters.size() == 1 ? letters.str() + std::to_string(i) : letters.substr(i, 1).str();
  }

  /// The attribute's dimensions of a run, in the attribute's order.
  Expected<SmallVector<int64_t>> selected(StringRef name, StringRef letters, size_t at) const {
    Expected<SmallVector<int64_t>> dims = attribute(name, at);
    if (dims)
      for (int64_t d : *dims)
        if (d < 0 || d >= runs_.lookup(letters))
          return error(at, "'" + name + "' names dimension " + Twine(d) + " of " + Twine(runs_.lookup(letters)));
    return dims;
  }

  /// Counts the dimensions of every run. The count follows from the rank of any tensor that has the whole run.
  Error countRuns() {
    if (Error e = eachTensor([&](ArrayRef<RuleDim> dims, const Shape &shape, bool) -> Error {
          const RuleDim *run = nullptr;
          for (const RuleDim &dim : dims) {
            if (dim.kind == RuleDim::Factors)
              continue;
            if (run)
              return error(dim.at, "only one part of a tensor may stand for several dimensions");
            run = &dim;
          }
          if (!run || run->kind != RuleDim::Run || run->selects == '-' || runs_.count(run->letters))
            return Error::success();
          int64_t n = int64_t(shape.size()) - (int64_t(dims.size()) - 1);
          if (n < 0)
            return error(run->at, "a tensor of rank " + Twine(shape.size()) + " is too small");
          if (run->letters.size() > 1 && n > int64_t(run->letters.size()))
            return error(run->at,
                         Twine(n) + " dimensions where '" + run->letters + "..' names " + Twine(run->letters.size()));
          runs_[run->letters] = n;
          return Error::success();
        }))
      return e;
    return eachTensor([&](ArrayRef<RuleDim> dims, const Shape &, bool) -> Error {
      for (const RuleDim &dim : dims)
        if (dim.kind == RuleDim::Run && !runs_.count(dim.letters))
          return error(dim.at, "no tensor tells how many dimensions '" + dim.letters + "..' has");
      return Error::success();
    });
  }

  //===--------------------------------------------------------------------------------------------===//
  // Tensors
  //===--------------------------------------------------------------------------------------------===//

  /// Calls visit(dim, how many dimensions "..." stands for here, index of the first of them).
  template <typename Visit> Error eachEllipsis(Visit visit) {
    return eachTensor([&](ArrayRef<RuleDim> dims, const Shape &shape, bool) -> Error {
      for (size_t d = 0; d < dims.size(); ++d)
        if (dims[d].kind == RuleDim::Ellipsis)
          if (Error e = visit(dims[d], shape, int64_t(shape.size()) - (int64_t(dims.size()) - 1), d))
            return e;
      return Error::success();
    });
  }

  Error bindEllipsis() {
    if (Error e = eachEllipsis([&](const RuleDim &dim, const Shape &shape, int64_t n, size_t) -> Error {
          ellipsisRank_ = std::max(ellipsisRank_, n);
          return n < 0 ? error(dim.at, "a tensor of rank " + Twine(shape.size()) + " is too small") : Error::success();
        }))
      return e;
    SmallVector<int64_t> extents(ellipsisRank_, 1);
    if (Error e = eachEllipsis([&](const RuleDim &dim, const Shape &shape, int64_t n, size_t first) -> Error {
          for (int64_t i = 0; i < n; ++i) {
            int64_t &extent = extents[ellipsisRank_ - n + i];
            int64_t mine = shape[first + i];
            if (mine != 1 && extent != 1 && mine != extent)
              return error(dim.at, "extents " + Twine(extent) + " and " + Twine(mine) + " do not broadcast");
            extent = std::max(extent, mine);
          }
          return Error::success();
        }))
      return e;
    for (int64_t i = 0; i < ellipsisRank_; ++i)
      ellipsisAt_.push_back(extents[i] == 1 ? -1 : rule_.addFactor("b" + std::to_string(i), extents[i]));
    return Error::success();
  }

  int factor(StringRef name) {
    int f = rule_.findFactor(name);
    return f >= 0 ? f : rule_.addFactor(name, 0);
  }

  Error bindTensor(ArrayRef<RuleDim> dims, const Shape &shape, ShardingRule::TensorFactors &out) {
    for (const RuleDim &dim : dims) {
      if (dim.kind == RuleDim::Run) {
        if (Error e = bindRun(dim, out))
          return e;
        continue;
      }
      if (dim.kind == RuleDim::Ellipsis) {
        int64_t n = int64_t(shape.size()) - (int64_t(dims.size()) - 1);
        for (int64_t i = 0; i < n; ++i) {
          int f = ellipsisAt_[ellipsisRank_ - n + i];
          out.emplace_back();
          // A dimension of extent 1 that is broadcast has no factor, so nothing cuts it.
          if (f >= 0 && shape[out.size() - 1] == rule_.factors[f].size)
            out.back().push_back(f);
        }
        continue;
      }
      out.emplace_back();
      for (const RuleName &name : dim.names) {
        out.back().push_back(factor(name.name));
        if (name.size.empty())
          continue;
        Expected<SmallVector<int64_t>> size = attribute(name.size, dim.at);
        if (!size)
          return size.takeError();
        if (size->size() != 1)
          return error(dim.at, "'" + name.size + "' is not one number");
        sizes_.push_back({out.back().back(), size->front()});
      }
    }
    if (out.size() != shape.size())
      return error(dims.empty() ? 0 : dims[0].at, "a tensor of rank " + Twine(shape.size()) + " where the rule has " +
                                                      Twine(out.size()) + " dimensions");
    return Error::success();
  }

  Error bindRun(const RuleDim &dim, ShardingRule::TensorFactors &out) {
    int64_t n = runs_.lookup(dim.letters);
    SmallVector<int64_t> chosen;
    if (dim.selects) {
      Expected<SmallVector<int64_t>> dims = selected(dim.attribute, dim.letters, dim.at);
      if (!dims)
        return dims.takeError();
      chosen = std::move(*dims);
    }
    if (dim.selects == '[') {
      for (int64_t d : chosen)
        out.push_back({factor(runName(dim.letters, d))});
      return Error::success();
    }
    for (int64_t d = 0; d < n; ++d) {
      if (!is_contained(chosen, d))
        out.push_back({factor(runName(dim.letters, d))});
      else if (dim.selects == '/')
        out.emplace_back();
    }
    return Error::success();
  }

  Error resolveSizes() {
    for (auto [f, size] : sizes_)
      rule_.factors[f].size = size;
    // Results come last, because a window factor has the extent of the results.
    auto visit = [&](bool compound) {
      for (const auto &[tensors, shapes] :
           {std::pair(&rule_.operands, operandShapes_), std::pair(&rule_.results, resultShapes_)})
        for (size_t t = 0; t < tensors->size(); ++t)
          for (size_t d = 0; d < (*tensors)[t].size(); ++d) {
            const auto &dim = (*tensors)[t][d];
            if (!compound && dim.size() == 1)
              rule_.factors[dim[0]].size = shapes[t][d];
            if (compound && dim.size() > 1) {
              int unknown = -1;
              int64_t known = 1;
              for (int f : dim)
                if (rule_.factors[f].size == 0)
                  unknown = f;
                else
                  known *= rule_.factors[f].size;
              if (unknown >= 0 && known > 0)
                rule_.factors[unknown].size = shapes[t][d] / known;
            }
          }
    };
    visit(false);
    visit(true);
    for (const Factor &f : rule_.factors)
      if (f.size <= 0)
        return error(0, "the size of factor '" + f.name + "' does not follow from the shapes");
    return Error::success();
  }

  //===--------------------------------------------------------------------------------------------===//
  // Clauses
  //===--------------------------------------------------------------------------------------------===//

  Error bindClause(const RuleClause &clause) {
    if (clause.word == "linear")
      return bindLinear(clause);
    if (clause.word == "window")
      return bindWindows(clause);
    FactorKind kind = FactorKind::Reduce;
    SmallVector<Reduction, 2> statistics;
    std::optional<Reduction> reduction = parseReduction(clause.word);
    if (clause.word == "whole") {
      kind = FactorKind::Whole;
    } else if (clause.word == "stat") {
      kind = FactorKind::Stat;
      for (StringRef word : clause.arguments) {
        std::optional<Reduction> r = parseReduction(word);
        if (!r || *r == Reduction::None)
          return error(clause.at, "unknown statistic '" + word + "'");
        statistics.push_back(*r);
      }
    } else if (!reduction || *reduction == Reduction::None) {
      return error(clause.at, "unknown clause '" + clause.word + "'");
    }
    for (const RuleWord &word : clause.words) {
      Expected<SmallVector<int>> factors = factorsOf(word.text, word.at);
      if (!factors)
        return factors.takeError();
      for (int f : *factors) {
        rule_.factors[f].kind = kind;
        rule_.factors[f].reduction = kind == FactorKind::Reduce ? *reduction : Reduction::None;
        rule_.factors[f].statistics = statistics;
      }
    }
    return Error::success();
  }

  /// The factors that one word of a clause means: "k", "d..", "d..[dims]" or "...".
  Expected<SmallVector<int>> factorsOf(StringRef word, size_t at) {
    SmallVector<int> factors;
    if (word == "...") {
      copy_if(ellipsisAt_, std::back_inserter(factors), [](int f) { return f >= 0; });
      return factors;
    }
    auto [letters, rest] = word.split("..");
    if (!word.contains("..")) {
      factors.push_back(rule_.findFactor(word));
    } else if (!runs_.count(letters)) {
      return error(at, "no tensor has '" + letters + "..'");
    } else if (rest.empty()) {
      for (int64_t d = 0; d < runs_.lookup(letters); ++d)
        factors.push_back(rule_.findFactor(runName(letters, d)));
    } else {
      if (!rest.consume_front("[") || !rest.consume_back("]"))
        return error(at, "unexpected '" + rest + "'");
      Expected<SmallVector<int64_t>> dims = selected(rest, letters, at);
      if (!dims)
        return dims.takeError();
      for (int64_t d : *dims)
        factors.push_back(rule_.findFactor(runName(letters, d)));
    }
    if (is_contained(factors, -1))
      return error(at, "unknown factor '" + word + "'");
    return factors;
  }

  Error bindLinear(const RuleClause &clause) {
    for (const RuleWord &word : clause.words) {
      rule_.linear.emplace_back();
      SmallVector<StringRef, 4> members;
      word.text.split(members, '+');
      for (StringRef member : members) {
        int index = -1;
        if (member.getAsInteger(10, index) || index < 0 || index >= int(rule_.operands.size()))
          return error(word.at, "'" + member + "' is no operand");
        rule_.linear.back().push_back(index);
      }
    }
    return Error::success();
  }

  Error bindWindows(const RuleClause &clause) {
    Window common;
    for (StringRef word : clause.arguments) {
      if (word == "transposed")
        common.transposed = true;
      else if (word.getAsDouble(common.fill))
        return error(clause.at, "unknown word '" + word + "' of a window");
    }
    for (const RuleWord &word : clause.words) {
      auto [slides, over] = word.text.split(':');
      Expected<SmallVector<int>> factors = factorsOf(slides, word.at);
      if (!factors)
        return factors.takeError();
      SmallVector<int> kernels;
      if (over.contains("..") || rule_.findFactor(over) >= 0) {
        Expected<SmallVector<int>> sizes = factorsOf(over, word.at);
        if (!sizes)
          return sizes.takeError();
        if (sizes->size() != factors->size())
          return error(word.at, Twine(sizes->size()) + " kernel factors for " + Twine(factors->size()) + " dimensions");
        kernels = std::move(*sizes);
      } else if (!attributes_(over)) {
        return error(word.at, "'" + over + "' is neither a factor nor an attribute");
      }
      for (auto [i, f] : enumerate(*factors)) {
        Window window = common;
        window.factor = f;
        bindWindow(window);
        window.kernel = kernels.empty() ? ofDimension(over, window, 1) : rule_.factors[kernels[i]].size;
        rule_.windows.push_back(window);
      }
    }
    return Error::success();
  }

  /// The window slides over the first operand that has the factor. Another operand with the factor, or else a result,
  /// is the tensor that is cut with it.
  void bindWindow(Window &window) {
    window.operand = -1;
    for (size_t t = 0; t < rule_.operands.size(); ++t)
      for (size_t d = 0; d < rule_.operands[t].size(); ++d)
        if (is_contained(rule_.operands[t][d], window.factor)) {
          if (window.operand < 0) {
            window.operand = int(t);
            window.dim = int(d);
            window.extent = operandShapes_[t][d];
          } else {
            window.outer = operandShapes_[t][d];
          }
        }
    for (size_t t = 0; t < rule_.results.size(); ++t)
      for (size_t d = 0; d < rule_.results[t].size(); ++d)
        if (is_contained(rule_.results[t][d], window.factor) && window.outer == 0)
          window.outer = resultShapes_[t][d];
    window.stride = ofDimension("strides", window, 1);
    window.dilation = ofDimension("dilations", window, 1);
    window.padLo = ofDimension("pads", window, 0, 2);
    window.padHi = ofDimension("pads", window, 0, 2, 1);
  }

  /// The attribute's number for the window's dimension; `otherwise` without one. A list has one number for each of the
  /// operand's last dimensions, or `parts` such lists one after the other.
  int64_t ofDimension(StringRef name, const Window &window, int64_t otherwise, int64_t parts = 1,
                      int64_t part = 0) const {
    std::optional<SmallVector<int64_t>> values = attributes_(name);
    if (!values || window.operand < 0)
      return otherwise;
    int64_t n = int64_t(values->size()) / parts;
    int64_t i = window.dim - (int64_t(operandShapes_[window.operand].size()) - n);
    return i >= 0 && i < n ? (*values)[part * n + i] : otherwise;
  }
};

} // namespace

Expected<ShardingRule> ShardingRule::parse(StringRef text, ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes,
                                           RuleAttributes attributes) {
  Expected<std::string> chosen = chooseAlternatives(text, attributes);
  if (!chosen)
    return chosen.takeError();
  Expected<RuleText> read = readRule(*chosen);
  if (!read)
    return read.takeError();
  return Binder(*read, operandShapes, resultShapes, attributes).bind();
}

} // namespace tessera::dist
