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
int64_t floorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
} // namespace

std::optional<Window::Halo> Window::halo(int64_t shards) const {
  if (shards == 1)
    return Halo{};
  // A window reads `extent` and writes `outer`; a transposed one (an adjoint) corresponds to the reverse.
  int64_t in = transposed ? outer : extent, out = transposed ? extent : outer;
  if (in % shards != 0 || out % shards != 0 || in != out * stride)
    return std::nullopt;
  int64_t reach = (kernel - 1) * dilation;
  Halo halo;
  if (!transposed) {
    halo.lo = padLo;
    halo.hi = reach + 1 - stride - padLo;
    if (halo.hi <= -stride)
      return std::nullopt; // some output elements would read padding only
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
