// The text forms of Sharding and Strategy: what attributes hold, files keep and tools print.
#include "dialects/dist/Text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tessera::dist {

namespace {

std::string axesText(ArrayRef<int> axes, const Mesh &mesh, StringRef separator) {
  std::string s;
  for (int axis : axes)
    s += (s.empty() ? "" : separator.str()) + mesh.axisName(axis).str();
  return s;
}

Expected<AxisList> parseAxes(StringRef text, const Mesh &mesh, char separator) {
  AxisList axes;
  SmallVector<StringRef, 4> names;
  text.split(names, separator);
  for (StringRef name : names) {
    int axis = mesh.findAxis(name.trim());
    if (axis < 0)
      return createStringError("'" + name.trim() + "' is no axis of the mesh " + mesh.str());
    axes.push_back(axis);
  }
  return axes;
}

std::string cutText(const Cut &cut, const Mesh &mesh) {
  return axesText(cut, mesh, "+") + (cut.unit > 1 ? "/" + std::to_string(cut.unit) : "");
}

/// "model+x" or "model+x/64".
Expected<Cut> parseCut(StringRef text, const Mesh &mesh) {
  auto [names, unit] = text.split('/');
  Expected<AxisList> axes = parseAxes(names, mesh, '+');
  if (!axes)
    return axes.takeError();
  Cut cut(*axes);
  if (text.contains('/') && (unit.trim().getAsInteger(10, cut.unit) || cut.unit < 1))
    return createStringError("'" + unit.trim() + "' is no number of elements: expected axes and a unit as in '" +
                             axesText(*axes, mesh, "+") + "/64'");
  return cut;
}

/// Reads one sharding from the front of `text` and removes it.
Expected<Sharding> consumeSharding(StringRef &text, const Mesh &mesh) {
  text = text.ltrim();
  if (!text.consume_front("["))
    return createStringError("expected '[' at '" + text + "'");
  auto [inside, rest] = text.split(']');
  if (inside.size() == text.size())
    return createStringError("missing ']' after '" + text + "'");
  Sharding sharding;
  if (!inside.trim().empty()) {
    SmallVector<StringRef, 4> dims;
    inside.split(dims, ',');
    for (StringRef dim : dims) {
      dim = dim.trim();
      if (dim == "-") {
        sharding.dims.emplace_back();
        continue;
      }
      Expected<Cut> cut = parseCut(dim, mesh);
      if (!cut)
        return cut.takeError();
      sharding.dims.push_back(*cut);
    }
  }
  text = rest.ltrim();
  StringRef word = text.take_while([](char c) { return isAlpha(c); });
  if (!word.empty()) {
    std::optional<Reduction> reduction = parseReduction(word);
    text = text.drop_front(word.size()).ltrim();
    if (!reduction || !text.consume_front("("))
      return createStringError("expected sum(...), max(...) or min(...) at '" + word + text + "'");
    auto [axesText, after] = text.split(')');
    Expected<AxisList> axes = parseAxes(axesText, mesh, ',');
    if (!axes)
      return axes.takeError();
    sharding.partial = *axes;
    llvm::sort(sharding.partial);
    sharding.reduction = *reduction;
    text = after.ltrim();
  }
  return sharding;
}

} // namespace

std::string Sharding::str(const Mesh &mesh) const {
  std::string s = "[";
  for (size_t d = 0; d < dims.size(); ++d)
    s += (d ? ", " : "") + (dims[d].empty() ? std::string("-") : cutText(dims[d], mesh));
  s += "]";
  if (!partial.empty())
    s += " " + stringify(reduction).str() + "(" + axesText(partial, mesh, ",") + ")";
  return s;
}

Expected<Sharding> parseSharding(StringRef text, const Mesh &mesh) {
  StringRef rest = text;
  Expected<Sharding> sharding = consumeSharding(rest, mesh);
  if (sharding && !rest.empty())
    return createStringError("sharding '" + text + "': unexpected '" + rest + "' at the end");
  if (!sharding)
    return createStringError("sharding '" + text + "': " + toString(sharding.takeError()));
  return sharding;
}

std::string strategyText(const Strategy &strategy, const ShardingRule &rule, const Mesh &mesh) {
  std::string s;
  for (size_t f = 0; f < strategy.factors.size(); ++f)
    if (!strategy.factors[f].empty())
      s += (s.empty() ? "" : ", ") + rule.factors[f].name + "=" + cutText(strategy.factors[f], mesh);
  if (strategy.linear >= 0)
    s += (s.empty() ? "" : " ") + std::string("| partial ") + std::to_string(strategy.linear) + "(" +
         axesText(strategy.partial, mesh, ",") + ")";
  if (!strategy.results.empty()) {
    s += s.empty() ? "-> " : " -> ";
    for (size_t i = 0; i < strategy.results.size(); ++i)
      s += (i ? ", " : "") + strategy.results[i].str(mesh);
  }
  return s;
}

Expected<Strategy> parseStrategy(StringRef text, const ShardingRule &rule, const Mesh &mesh) {
  auto bad = [&](const Twine &why) { return createStringError("strategy '" + text + "': " + why); };
  Strategy strategy;
  strategy.factors.resize(rule.factors.size());
  auto [left, right] = text.split("->");
  bool hasResults = text.contains("->");
  auto [factors, partial] = left.split('|');
  SmallVector<StringRef, 4> parts;
  factors.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    part = part.trim();
    if (part.empty())
      continue;
    auto [name, axes] = part.split('=');
    int factor = rule.findFactor(name.trim());
    if (factor < 0)
      return bad("the operator has no factor '" + name.trim() + "'; its rule is " + rule.str());
    Expected<Cut> cut = parseCut(axes, mesh);
    if (!cut)
      return bad(toString(cut.takeError()));
    strategy.factors[factor] = *cut;
  }
  partial = partial.trim();
  if (!partial.empty()) {
    int group = -1;
    if (!partial.consume_front("partial") || partial.ltrim().split('(').first.trim().getAsInteger(10, group) ||
        group < 0 || group >= int(rule.linear.size()))
      return bad("expected 'partial GROUP(axes)' with a group of the operator's linear clause");
    Expected<AxisList> list = parseAxes(partial.split('(').second.split(')').first, mesh, ',');
    if (!list)
      return bad(toString(list.takeError()));
    strategy.linear = group;
    strategy.partial = *list;
    llvm::sort(strategy.partial);
  }
  if (hasResults) {
    StringRef rest = right.trim();
    while (!rest.empty()) {
      Expected<Sharding> sharding = consumeSharding(rest, mesh);
      if (!sharding)
        return bad(toString(sharding.takeError()));
      strategy.results.push_back(*sharding);
      rest = rest.ltrim();
      if (!rest.empty() && !rest.consume_front(","))
        return bad("unexpected '" + rest + "'");
    }
    if (strategy.results.size() != rule.results.size())
      return bad("the operator has " + Twine(rule.results.size()) + " results");
  }
  return strategy;
}

} // namespace tessera::dist
