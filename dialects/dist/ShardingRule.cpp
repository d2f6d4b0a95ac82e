#include "dialects/dist/ShardingRule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tessera::dist {

int ShardingRule::findFactor(StringRef name) const {
  for (size_t i = 0; i < factors.size(); ++i)
    if (factors[i].name == name)
      return int(i);
  return -1;
}

int ShardingRule::addFactor(StringRef name, int64_t size, FactorKind kind, Reduction reduction) {
  factors.push_back({name.str(), size, kind, reduction, {}});
  return int(factors.size() - 1);
}

std::string ShardingRule::str() const {
  auto side = [&](const SmallVector<TensorFactors> &tensors) {
    std::string s;
    for (size_t t = 0; t < tensors.size(); ++t) {
      s += t ? ", " : "";
      if (tensors[t].empty())
        s += "()";
      for (size_t d = 0; d < tensors[t].size(); ++d) {
        const auto &dim = tensors[t][d];
        std::string text;
        for (int f : dim)
          text += (text.empty() ? "" : " ") + factors[f].name;
        s += (d ? " " : "") + (dim.empty() ? std::string("1") : dim.size() == 1 ? text : "(" + text + ")");
      }
    }
    return s;
  };
  std::string s = side(operands) + (operands.empty() ? "-> " : " -> ") + side(results);
  for (const Factor &f : factors) {
    if (f.kind == FactorKind::Reduce)
      s += " | " + stringify(f.reduction).str() + " " + f.name;
    if (f.kind == FactorKind::Stat) {
      s += " | stat(";
      for (size_t i = 0; i < f.statistics.size(); ++i)
        s += (i ? ", " : "") + stringify(f.statistics[i]).str();
      s += ") " + f.name;
    }
    if (f.kind == FactorKind::Whole)
      s += " | whole " + f.name;
  }
  s += " {";
  for (size_t i = 0; i < factors.size(); ++i)
    s += (i ? ", " : "") + factors[i].name + "=" + std::to_string(factors[i].size);
  return s + "}";
}

namespace {

/// The text form taken apart, before shapes are known.
struct ParsedDim {
  SmallVector<StringRef, 2> names;
  bool ellipsis = false;
};
using ParsedTensor = SmallVector<ParsedDim, 4>;

Expected<ParsedTensor> parseTensor(StringRef text) {
  ParsedTensor tensor;
  text = text.trim();
  if (text == "()")
    return tensor;
  while (!text.empty()) {
    ParsedDim dim;
    if (text.consume_front("...")) {
      dim.ellipsis = true;
    } else if (text.consume_front("(")) {
      size_t close = text.find(')');
      if (close == StringRef::npos)
        return createStringError("missing ')' in rule");
      text.take_front(close).split(dim.names, ' ', -1, false);
      text = text.drop_front(close + 1);
    } else {
      StringRef name = text.take_while([](char c) { return isAlnum(c) || c == '_'; });
      if (name.empty())
        return createStringError("unexpected '" + text + "' in rule");
      dim.names.push_back(name);
      text = text.drop_front(name.size());
    }
    tensor.push_back(std::move(dim));
    text = text.ltrim();
  }
  return tensor;
}

Expected<SmallVector<ParsedTensor>> parseSide(StringRef text) {
  SmallVector<ParsedTensor> tensors;
  if (text.trim().empty())
    return tensors;
  SmallVector<StringRef, 4> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    Expected<ParsedTensor> tensor = parseTensor(part);
    if (!tensor)
      return tensor.takeError();
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

/// Binds a parsed rule to shapes: expands "...", finds the factors' sizes.
class Binder {
public:
  Binder(ShardingRule &rule, const std::map<std::string, int64_t> &sizes) : rule(rule), sizes(sizes) {}

  SmallVector<ParsedTensor> operands, results;
  ArrayRef<Shape> operandShapes, resultShapes;

  Error bind() {
    if (operands.size() != operandShapes.size() || results.size() != resultShapes.size())
      return createStringError("the rule speaks of " + Twine(operands.size()) + " operands and " +
                               Twine(results.size()) + " results");
    if (Error e = bindEllipsis())
      return e;
    for (const auto &[tensors, shapes, out] :
         {std::tuple(&operands, operandShapes, &rule.operands), std::tuple(&results, resultShapes, &rule.results)})
      for (size_t t = 0; t < tensors->size(); ++t) {
        ShardingRule::TensorFactors factors;
        if (Error e = bindTensor((*tensors)[t], shapes[t], factors))
          return e;
        out->push_back(std::move(factors));
      }
    return resolveSizes();
  }

  SmallVector<int> ellipsisFactors; // those that exist

private:
  ShardingRule &rule;
  const std::map<std::string, int64_t> &sizes;
  int64_t ellipsisRank = 0;
  SmallVector<int> ellipsisAt; // position -> factor or -1 (extent 1)

  int64_t count(const ParsedTensor &tensor, const Shape &shape) const {
    return int64_t(shape.size()) - (int64_t(tensor.size()) - 1);
  }

  Error bindEllipsis() {
    auto each = [&](auto &&visit) -> Error {
      for (const auto &[tensors, shapes] : {std::pair(&operands, operandShapes), std::pair(&results, resultShapes)})
        for (size_t t = 0; t < tensors->size(); ++t)
          for (size_t d = 0; d < (*tensors)[t].size(); ++d)
            if ((*tensors)[t][d].ellipsis)
              if (Error e = visit((*tensors)[t], shapes[t], d))
                return e;
      return Error::success();
    };
    if (Error e = each([&](const ParsedTensor &tensor, const Shape &shape, size_t) -> Error {
          if (count(tensor, shape) < 0)
            return createStringError("a tensor of rank " + Twine(shape.size()) + " is too small for its rule");
          ellipsisRank = std::max(ellipsisRank, count(tensor, shape));
          return Error::success();
        }))
      return e;
    SmallVector<int64_t> extents(ellipsisRank, 1);
    if (Error e = each([&](const ParsedTensor &tensor, const Shape &shape, size_t at) -> Error {
          int64_t n = count(tensor, shape);
          for (int64_t i = 0; i < n; ++i) {
            int64_t &extent = extents[ellipsisRank - n + i];
            int64_t mine = shape[at + i];
            if (mine != 1 && extent != 1 && mine != extent)
              return createStringError("extents " + Twine(extent) + " and " + Twine(mine) + " do not broadcast");
            extent = std::max(extent, mine);
          }
          return Error::success();
        }))
      return e;
    for (int64_t i = 0; i < ellipsisRank; ++i) {
      ellipsisAt.push_back(extents[i] == 1 ? -1 : rule.addFactor("b" + std::to_string(i), extents[i]));
      if (ellipsisAt.back() >= 0)
        ellipsisFactors.push_back(ellipsisAt.back());
    }
    return Error::success();
  }

  Error bindTensor(const ParsedTensor &tensor, const Shape &shape, ShardingRule::TensorFactors &out) {
    for (const ParsedDim &dim : tensor) {
      if (dim.ellipsis) {
        int64_t n = count(tensor, shape);
        for (int64_t i = 0; i < n; ++i) {
          int factor = ellipsisAt[ellipsisRank - n + i];
          out.emplace_back();
          // An extent of 1 that others stretch is not cut with them.
          if (factor >= 0 && shape[out.size() - 1] == rule.factors[factor].size)
            out.back().push_back(factor);
        }
        continue;
      }
      out.emplace_back();
      for (StringRef name : dim.names) {
        int factor = rule.findFactor(name);
        if (factor < 0)
          factor = rule.addFactor(name, 0);
        out.back().push_back(factor);
      }
    }
    if (out.size() != shape.size())
      return createStringError("a tensor of rank " + Twine(shape.size()) + " where the rule has " + Twine(out.size()) +
                               " dimensions");
    return Error::success();
  }

  Error resolveSizes() {
    for (const auto &[name, size] : sizes)
      if (int f = rule.findFactor(name); f >= 0)
        rule.factors[f].size = size;
    // Results last: a window factor takes the results' extent.
    auto visit = [&](bool compound) {
      for (const auto &[tensors, shapes] :
           {std::pair(&rule.operands, operandShapes), std::pair(&rule.results, resultShapes)})
        for (size_t t = 0; t < tensors->size(); ++t)
          for (size_t d = 0; d < (*tensors)[t].size(); ++d) {
            const auto &dim = (*tensors)[t][d];
            if (!compound && dim.size() == 1)
              rule.factors[dim[0]].size = shapes[t][d];
            if (compound && dim.size() > 1) {
              int unknown = -1;
              int64_t known = 1;
              for (int f : dim)
                if (rule.factors[f].size == 0)
                  unknown = f;
                else
                  known *= rule.factors[f].size;
              if (unknown >= 0 && known > 0)
                rule.factors[unknown].size = shapes[t][d] / known;
            }
          }
    };
    visit(false);
    visit(true);
    for (const Factor &f : rule.factors)
      if (f.size <= 0)
        return createStringError("the size of factor '" + f.name + "' does not follow from the shapes");
    return Error::success();
  }
};

} // namespace

Expected<ShardingRule> ShardingRule::parse(StringRef text, ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes,
                                           const std::map<std::string, int64_t> &sizes) {
  ShardingRule rule;
  auto bad = [&](const Twine &why) { return createStringError("sharding rule '" + text + "': " + why); };
  SmallVector<StringRef, 4> clauses;
  text.split(clauses, '|');
  auto [left, right] = clauses[0].split("->");
  if (!clauses[0].contains("->"))
    return bad("no '->'");

  Binder binder(rule, sizes);
  for (auto [side, out] : {std::pair(left, &binder.operands), std::pair(right, &binder.results)}) {
    Expected<SmallVector<ParsedTensor>> tensors = parseSide(side);
    if (!tensors)
      return bad(toString(tensors.takeError()));
    *out = std::move(*tensors);
  }
  binder.operandShapes = operandShapes;
  binder.resultShapes = resultShapes;
  if (Error e = binder.bind())
    return bad(toString(std::move(e)));

  for (StringRef clause : ArrayRef<StringRef>(clauses).drop_front()) {
    clause = clause.trim();
    FactorKind kind = FactorKind::PassThrough;
    Reduction reduction = Reduction::None;
    SmallVector<Reduction, 2> statistics;
    StringRef rest;
    if (clause.consume_front("stat(")) {
      kind = FactorKind::Stat;
      SmallVector<StringRef, 2> words;
      clause.split(')').first.split(words, ',');
      for (StringRef word : words) {
        std::optional<Reduction> r = parseReduction(word.trim());
        if (!r || *r == Reduction::None)
          return bad("unknown statistic '" + word.trim() + "'");
        statistics.push_back(*r);
      }
      rest = clause.split(')').second;
    } else {
      StringRef word;
      std::tie(word, rest) = clause.split(' ');
      if (word == "whole") {
        kind = FactorKind::Whole;
      } else if (std::optional<Reduction> r = parseReduction(word)) {
        kind = FactorKind::Reduce;
        reduction = *r;
      } else if (word != "window" && word != "linear") {
        return bad("unknown clause '" + word + "'");
      }
    }
    SmallVector<StringRef, 4> words;
    rest.split(words, ' ', -1, false);
    for (StringRef word : words) {
      if (clause.starts_with("linear")) {
        rule.linear.emplace_back();
        SmallVector<StringRef, 4> members;
        word.split(members, '+');
        for (StringRef member : members) {
          int index = -1;
          if (member.getAsInteger(10, index) || index < 0 || index >= int(rule.operands.size()))
            return bad("linear names operand '" + member + "'");
          rule.linear.back().push_back(index);
        }
        continue;
      }
      if (clause.starts_with("window")) {
        int h = rule.findFactor(word.split(':').first);
        if (h < 0)
          return bad("unknown factor '" + word + "'");
        Window window;
        window.factor = h;
        window.operand = -1;
        // The first operand that has the factor slides; the other tensor with it is cut alike.
        for (size_t t = 0; t < rule.operands.size(); ++t)
          for (size_t d = 0; d < rule.operands[t].size(); ++d)
            if (is_contained(rule.operands[t][d], h)) {
              if (window.operand < 0) {
                window.operand = int(t);
                window.dim = int(d);
                window.extent = operandShapes[t][d];
              } else {
                window.outer = operandShapes[t][d];
              }
            }
        for (size_t t = 0; t < rule.results.size(); ++t)
          for (size_t d = 0; d < rule.results[t].size(); ++d)
            if (is_contained(rule.results[t][d], h) && window.outer == 0)
              window.outer = resultShapes[t][d];
        rule.windows.push_back(window);
        continue;
      }
      SmallVector<int> targets;
      if (word == "...")
        targets = binder.ellipsisFactors;
      else if (int f = rule.findFactor(word); f >= 0)
        targets.push_back(f);
      else
        return bad("unknown factor '" + word + "'");
      for (int f : targets) {
        rule.factors[f].kind = kind;
        rule.factors[f].reduction = reduction;
        rule.factors[f].statistics = statistics;
      }
    }
  }
  return rule;
}

namespace {
int64_t floorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
} // namespace

std::optional<Window::Halo> Window::halo(int64_t shards) const {
  if (shards == 1)
    return Halo{};
  // The side that the window reads (extent) and the side it writes (outer); transposed: the other
  // way round.
  int64_t in = transposed ? outer : extent, out = transposed ? extent : outer;
  if (in % shards != 0 || out % shards != 0 || in != out * stride)
    return std::nullopt;
  int64_t reach = (kernel - 1) * dilation;
  Halo halo;
  if (!transposed) {
    halo.lo = padLo;
    halo.hi = reach + 1 - stride - padLo;
    if (halo.hi <= -stride)
      return std::nullopt; // whole outputs would read nothing but padding
  } else {
    halo.lo = floorDiv(reach - padLo, stride);
    halo.hi = floorDiv(padLo - 1, stride) + 1;
  }
  halo.lo = std::max<int64_t>(halo.lo, 0);
  halo.hi = std::max<int64_t>(halo.hi, 0);
  int64_t block = extent / shards;
  if (halo.lo > block || halo.hi > block)
    return std::nullopt;
  return halo;
}

} // namespace tessera::dist
