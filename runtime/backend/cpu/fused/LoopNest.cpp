#include "runtime/backend/cpu/fused/LoopNest.h"

#include <algorithm>

namespace tessera::rt {
namespace {

/// The domain cut at the blocks of a layout, in the physical order of a full operand.
struct Pieces {
  Shape extent;
  std::vector<size_t> dim;
  Shape unit; // logical indices per step
};

Pieces cut(const Shape &domain, const Layout &layout) {
  Pieces pieces;
  Shape units(domain.size(), 1);
  std::vector<std::pair<size_t, int64_t>> blocks;
  for (auto [d, block] : layout.inner)
    blocks.push_back({size_t(d), block});
  Shape blockUnits(blocks.size());
  for (size_t i = blocks.size(); i-- > 0;) {
    blockUnits[i] = units[blocks[i].first];
    units[blocks[i].first] *= blocks[i].second;
  }
  for (size_t d = 0; d < domain.size(); ++d) {
    pieces.extent.push_back(domain[d] / units[d]);
    pieces.dim.push_back(d);
    pieces.unit.push_back(units[d]);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    pieces.extent.push_back(blocks[i].second);
    pieces.dim.push_back(blocks[i].first);
    pieces.unit.push_back(blockUnits[i]);
  }
  return pieces;
}

/// The layout of a full operand in the dimensions of the domain, which may cut those of the buffer in several; nothing
/// where it cuts one that has blocks.
///   [8, 64, 7, 7] with blocks of 16 in dimension 1, domain [4, 2, 64, 7, 7] -> blocks of 16 in dimension 2
std::optional<Layout> layoutIn(const Shape &domain, const TensorView &buffer) {
  if (buffer.layout.plain() || buffer.shape == domain)
    return buffer.layout;
  std::vector<size_t> first, end; // by dimension of the buffer: those of the domain
  size_t d = 0;
  for (int64_t size : buffer.shape) {
    while (size > 1 && d < domain.size() && domain[d] == 1)
      ++d;
    first.push_back(d);
    int64_t covered = 1;
    while (d < domain.size() && covered < size)
      covered *= domain[d++];
    if (covered != size)
      return std::nullopt;
    end.push_back(d);
  }
  Layout layout;
  for (auto [dim, block] : buffer.layout.inner) {
    const size_t at = first[size_t(dim)];
    if (end[size_t(dim)] != at + 1 || domain[at] != buffer.shape[size_t(dim)])
      return std::nullopt;
    layout.inner.push_back({int(at), block});
  }
  return layout;
}

/// The layout that all full operands share; nothing where they differ or a partial one is not plain.
std::optional<Layout> commonLayout(const ExpressionCode &code, const KernelCall &call, bool &flatten) {
  std::optional<Layout> common, inDomain;
  const Shape *shape = nullptr;
  bool onlyScalars = true, placed = true;
  auto visit = [&](const TensorView &buffer, const Shape &view) {
    if (view != code.domain) {
      onlyScalars = onlyScalars && buffer.elements() == 1;
      return buffer.layout.plain();
    }
    if (common && !(*common == buffer.layout))
      return false;
    common = buffer.layout;
    shape = &buffer.shape;
    const std::optional<Layout> here = layoutIn(code.domain, buffer);
    placed = placed && here && (!inDomain || *inDomain == *here);
    inDomain = here;
    return true;
  };
  for (size_t i = 0; i < code.inputs.size(); ++i)
    if (!visit(call.inputs[i], code.inputs[i].view))
      return std::nullopt;
  for (size_t r = 0; r < code.results.size(); ++r)
    if (!visit(call.outputs[r], code.results[r].view))
      return std::nullopt;
  if (!common || common->plain())
    return Layout();
  if (placed)
    return inDomain;
  // The domain has another shape than the blocked buffers. If only single points and sums over
  // everything matter, any common order of the elements will do.
  for (const Instr &instr : code.code)
    if (instr.op == Op::Random || instr.op == Op::Iota)
      return std::nullopt;
  for (const auto *list : {&call.inputs, &call.outputs})
    for (const TensorView &t : *list)
      if (t.elements() != 1 && t.shape != *shape)
        return std::nullopt;
  if (!onlyScalars)
    return std::nullopt;
  flatten = true;
  return Layout();
}

/// Drops loops of one step and merges adjacent loops whose strides allow it in every operand.
void merge(Shape &extent, std::vector<Shape> &strides) {
  size_t out = 0;
  for (size_t d = 0; d < extent.size(); ++d) {
    if (extent[d] == 1)
      continue;
    bool linear = out > 0;
    for (const Shape &s : strides)
      linear = linear && s[out - 1] == s[d] * extent[d];
    if (linear) {
      extent[out - 1] *= extent[d];
      for (Shape &s : strides)
        s[out - 1] = s[d];
      continue;
    }
    extent[out] = extent[d];
    for (Shape &s : strides)
      s[out] = s[d];
    ++out;
  }
  extent.resize(out);
  for (Shape &s : strides)
    s.resize(out);
}

/// Whether loops with these strides meet numbers in ascending order.
bool ascends(const Shape &strides) {
  int64_t last = 0;
  for (int64_t s : strides)
    if (s != 0) {
      if (last != 0 && s >= last)
        return false;
      last = s;
    }
  return true;
}

/// Whether the terms of a sum that is classified as `result` have ascending numbers without a gap along a row.
bool hasNoGap(const Shape &term, size_t outer, int64_t p, const TapeOperand &result) {
  const int64_t strideM = outer < term.size() ? term[outer] : 0,
                strideP = outer + 1 < term.size() ? term[outer + 1] : 0;
  if (result.full)
    return strideM == 0 && strideP == 0;
  return result.laneStride != 0 || p == 1 ? strideM == 1 && strideP == 0 : strideM == p && strideP == 1;
}

/// Classifies an operand along a row of m * p elements; false if it is neither full nor lanes.
bool classify(const Shape &strides, size_t outer, int64_t m, int64_t p, TapeOperand &operand) {
  operand.outer.assign(strides.begin(), strides.begin() + long(outer));
  size_t rest = strides.size() - outer;
  int64_t strideM = rest == 0 ? 0 : strides[outer];
  int64_t strideP = rest == 2 ? strides[outer + 1] : 0;
  if (rest == 2) {
    operand.full = strideM == p && strideP == 1;
    operand.laneStride = strideP;
    return operand.full || strideM == 0;
  }
  operand.full = strideM == 1 && m > 1;
  return operand.full || strideM == 0 || m == 1;
}

/// Whether the two innermost loops may form rows of lanes, or of periods where these are whole vectors. Periods of few
/// numbers cost a vector's share of a loop, long ones leave the first-level cache. Ordered sums know lanes only.
bool formRows(const Shape &extent, bool ordered) {
  constexpr int64_t kLongestPeriod = 4096;
  if (extent.size() < 2)
    return false;
  const int64_t p = extent.back();
  return isPeriod(p) ? !ordered && p % kLanes == 0 && p <= kLongestPeriod : kLanes % p == 0;
}

/// Makes one row of those of the innermost outer loop, where sums along the row have a result for each of them: a
/// row costs some hundred cycles whatever its length. Longer rows than these gain nothing.
void joinRows(LoopNest &nest, const ExpressionCode &code) {
  constexpr int64_t kLongest = 4096;
  if (nest.p != 1 || nest.outer.empty() || nest.m * nest.outer.back() > kLongest)
    return;
  const int64_t m = nest.m;
  const auto goesOn = [m](const TapeOperand &operand) { return operand.outer.back() == (operand.full ? m : 0); };
  for (const TapeOperand &in : nest.inputs)
    if (!goesOn(in))
      return;
  for (const LoopNest::Index &index : nest.indices)
    if (!index.outer.empty() && index.outer.back() != m * index.strideM)
      return;
  for (size_t r = 0; r < nest.results.size(); ++r) {
    const TapeOperand &result = nest.results[r];
    const bool along = code.results[r].reduction != plan::NONE && !result.full;
    if (along ? nest.terms[r].back() != (result.outer.back() == 0 ? m : 0) : !goesOn(result))
      return;
  }
  for (size_t r = 0; r < nest.results.size(); ++r) {
    TapeOperand &result = nest.results[r];
    if (!result.full && result.outer.back() != 0) {
      result.segment = m;
      result.segmentStride = result.outer.back();
    }
    nest.terms[r].pop_back();
  }
  for (auto *operands : {&nest.inputs, &nest.results})
    for (TapeOperand &operand : *operands)
      operand.outer.pop_back();
  for (LoopNest::Index &index : nest.indices)
    if (!index.outer.empty())
      index.outer.pop_back();
  nest.m *= nest.outer.back();
  nest.outer.pop_back();
}

} // namespace

bool isOrdered(const ExpressionCode &code, const KernelCall &call) {
  return call.exact && std::any_of(code.results.begin(), code.results.end(),
                                   [](const ExpressionResult &r) { return r.reduction == plan::SUM; });
}

std::optional<LoopNest> buildLoopNest(const ExpressionCode &code, const KernelCall &call) {
  bool flatten = false;
  std::optional<Layout> layout = commonLayout(code, call, flatten);
  const bool ordered = isOrdered(code, call);
  if (!layout || (flatten && ordered))
    return std::nullopt;
  Shape domain = flatten ? Shape{elementCount(code.domain)} : code.domain;
  Pieces pieces = cut(domain, *layout);
  Shape physical = rowMajorStrides(pieces.extent);

  std::vector<Shape> strides;
  auto add = [&](const Shape &view) {
    if (view == code.domain) {
      strides.push_back(physical);
      return;
    }
    Shape logical = flatten ? Shape{0} : broadcastStrides(view, view.size());
    Shape s;
    for (size_t i = 0; i < pieces.dim.size(); ++i)
      s.push_back(logical[pieces.dim[i]] * pieces.unit[i]);
    strides.push_back(std::move(s));
  };
  for (const ExpressionInput &in : code.inputs)
    add(in.view);
  for (const ExpressionResult &r : code.results)
    add(r.view);
  for (const Instr &instr : code.code)
    if (instr.op == Op::Random || instr.op == Op::Iota) {
      Shape s;
      for (size_t i = 0; i < pieces.dim.size(); ++i) {
        int64_t step =
            instr.op == Op::Random ? instr.globalStrides[pieces.dim[i]] : int64_t(pieces.dim[i] == instr.dim);
        s.push_back(step * pieces.unit[i]);
      }
      strides.push_back(std::move(s));
    }
  const size_t indexed = strides.size();
  if (ordered)
    for (const ExpressionResult &r : code.results) {
      const Shape logical = termStrides(code.domain, r.view);
      Shape s;
      for (size_t i = 0; i < pieces.dim.size(); ++i)
        s.push_back(logical[pieces.dim[i]] * pieces.unit[i]);
      strides.push_back(std::move(s));
    }
  Shape extent = pieces.extent;
  merge(extent, strides);
  for (size_t t = indexed; t < strides.size(); ++t)
    if (!ascends(strides[t]))
      return std::nullopt;

  // The two innermost loops form the row if the innermost is a block of lanes or a period. Otherwise the innermost loop
  // is the row.
  size_t inputs = code.inputs.size(), operands = inputs + code.results.size();
  for (size_t inner : {size_t(2), size_t(1)}) {
    LoopNest nest;
    if (inner == 2 && !formRows(extent, ordered))
      continue;
    inner = std::min(inner, extent.size());
    size_t outer = extent.size() - inner;
    nest.outer.assign(extent.begin(), extent.begin() + long(outer));
    nest.m = inner == 0 ? 1 : extent[outer];
    nest.p = inner == 2 ? extent[outer + 1] : 1;
    bool good = true;
    for (size_t i = 0; i < operands && good; ++i) {
      TapeOperand operand;
      good = classify(strides[i], outer, nest.m, nest.p, operand);
      (i < inputs ? nest.inputs : nest.results).push_back(std::move(operand));
    }
    for (size_t t = indexed; t < strides.size() && good; ++t) {
      good = code.results[t - indexed].reduction == plan::NONE ||
             hasNoGap(strides[t], outer, nest.p, nest.results[t - indexed]);
      nest.terms.emplace_back(strides[t].begin(), strides[t].begin() + long(outer));
    }
    if (!good)
      continue;
    size_t next = operands;
    for (const Instr &instr : code.code) {
      LoopNest::Index index;
      if (instr.op == Op::Random || instr.op == Op::Iota) {
        const Shape &s = strides[next++];
        index.outer.assign(s.begin(), s.begin() + long(outer));
        index.strideM = inner > 0 ? s[outer] : 0;
        index.strideP = inner == 2 ? s[outer + 1] : 0;
      }
      nest.indices.push_back(std::move(index));
    }
    if (ordered)
      joinRows(nest, code);
    return nest;
  }
  return std::nullopt;
}

} // namespace tessera::rt
