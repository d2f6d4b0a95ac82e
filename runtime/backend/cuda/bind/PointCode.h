//===- PointCode.h - the values of an expression, as the code of one kernel -------------------------------===//
//
// What the kernels of a loop share: which values some of its results need, how a nest that is as flat as their strides
// allow steps through the operands, and the text that computes the values at a point. Kernels that make elements
// (Expressions.cpp) and kernels that make sums (Expressions.cpp, OrderedSums.cpp) are written around it.
//
//   PointCode code(e, {0});                // of x * 2 + b
//   code.body(...)                         // "const float v0 = in0[x0]; const float v1 = in1[x1]; ..."
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_POINTCODE_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_POINTCODE_H

#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/text/Pointwise.h"
#include "runtime/backend/cuda/text/Source.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tessera::rt::cuda {

/// Writes the code of one kernel: the values that its results need, in a loop nest that is as flat as their strides
/// allow.
class PointCode {
public:
  PointCode(const ExpressionCode &e, std::vector<size_t> results)
      : e_(e), results_(std::move(results)), live_(e.valueCount(), false) {
    for (size_t r : results_)
      live_[e.results[r].value] = true;
    for (size_t c = e.code.size(); c-- > 0;)
      if (live_[e.inputs.size() + c])
        for (uint32_t i = 0; i < e.code[c].arity; ++i)
          live_[e.code[c].operands[i]] = true;
    Nest nest;
    nest.sizes = e.domain;
    std::vector<int64_t> elements;
    auto add = [&](const Shape &strides, int64_t count) {
      nest.strides.push_back(strides);
      elements.push_back(count);
      return nest.strides.size() - 1;
    };
    const size_t rank = e.domain.size();
    for (size_t i = 0; i < e.inputs.size(); ++i)
      if (live_[i])
        slots_[i] = add(broadcastStrides(e.inputs[i].view, rank, e.inputs[i].pitch),
                        extent(e.inputs[i].view, e.inputs[i].pitch));
    for (size_t c = 0; c < e.code.size(); ++c) {
      const Instr &instr = e.code[c];
      if (!live_[e.inputs.size() + c])
        continue;
      if (instr.op == Op::Iota) { // the index along the dimension is computed like an address
        Shape unit(rank, 0);
        unit[instr.dim] = 1;
        slots_[e.inputs.size() + c] = add(unit, 0);
      } else if (instr.op == Op::Random) {
        slots_[e.inputs.size() + c] = add(instr.globalStrides, 0);
        int64_t last = 0;
        for (size_t d = 0; d < rank; ++d)
          last += (e.domain[d] - 1) * instr.globalStrides[d];
        elements.back() = last;
      }
    }
    for (size_t r : results_)
      if (const ExpressionResult &result = e.results[r]; result.pitch)
        resultSlots_[r] = add(broadcastStrides(result.view, rank, result.pitch), extent(result.view, result.pitch));
    resultSlot_ = add(broadcastStrides(e.results[results_[0]].view, rank), 0);
    nest_ = collapse(nest);
    type_ = indexTypeFor(elementCount(e.domain), elements);
  }

  IndexType type() const { return type_; }
  const Nest &nest() const { return nest_; }
  const Shape &resultStrides() const { return nest_.strides[resultSlot_]; }
  const std::vector<size_t> &results() const { return results_; }
  const ExpressionResult &result(size_t i) const { return e_.results[results_[i]]; }

  /// Parameters in0, in1, ... for the inputs that are needed, and the addresses that go with them.
  std::vector<PointLoop::Parameter> parameters(const KernelCall &call, std::vector<Place> &arguments) const {
    std::vector<PointLoop::Parameter> list;
    for (size_t i = 0; i < e_.inputs.size(); ++i)
      if (live_[i]) {
        list.push_back({std::string("const ") + memoryType(e_.inputs[i].type), "in" + std::to_string(i)});
        arguments.push_back(at(call.inputs[i].data));
      }
    return list;
  }

  /// Whether a thread of a loop may do neighbouring points: what is not read for all of them by one access is small, and
  /// so in a cache.
  bool mayDoNeighbours(const std::vector<bool> &together) const {
    constexpr int64_t kSmall = 16; // points for each element
    for (size_t i = 0; i < e_.inputs.size(); ++i)
      if (live_[i] && !liesAlong(i) && !together[i] &&
          elementCount(e_.inputs[i].view) * kSmall > elementCount(e_.domain))
        return false;
    return true;
  }
  /// Whether the elements of an input that belong to `each` points, from a multiple of it on, lie side by side.
  bool liesBeside(size_t input, int64_t each) const {
    const Shape &strides = nest_.strides[slots_.at(input)];
    return liesAlong(input) ||
           (!strides.empty() && strides.back() == 1 && nest_.sizes.back() % each == 0 &&
            std::all_of(strides.begin(), strides.end() - 1, [&](int64_t stride) { return stride % each == 0; }));
  }
  /// Whether element i of an input belongs to point i.
  bool liesAlong(size_t input) const {
    const Shape &strides = nest_.strides[slots_.at(input)];
    return !strides.empty() && strides == rowMajorStrides(nest_.sizes);
  }

  /// The live inputs, and how each is stepped through: by the dimensions of the nest.
  std::vector<size_t> inputs() const {
    std::vector<size_t> list;
    for (size_t i = 0; i < e_.inputs.size(); ++i)
      if (live_[i])
        list.push_back(i);
    return list;
  }
  const Shape &strides(size_t input) const { return nest_.strides[slots_.at(input)]; }
  plan::DType typeOf(size_t input) const { return e_.inputs[input].type; }
  /// The element of an input at the indices x0, x1, ..., or f0, f1, ...
  std::string element(size_t input) const { return "in" + std::to_string(input) + "[" + address(input) + "]"; }
  std::string place(size_t input, const std::string &prefix) const {
    return addressCode(nest_.strides[slots_.at(input)], type_, prefix);
  }
  /// The code that splits `first` into f0, f1, ...
  std::string firstIndices() const { return indexCode(nest_.sizes, "first", type_, "f"); }

  /// Whether four neighbouring points, from a multiple of four on, have random numbers of one counter each.
  bool drawsByFour() const {
    bool any = false;
    for (size_t c = 0; c < e_.code.size(); ++c)
      if (const size_t v = e_.inputs.size() + c; e_.code[c].op == Op::Random && live_[v]) {
        const Shape &strides = nest_.strides[slots_.at(v)];
        any = true;
        if (strides.empty() || strides.back() != 1 || nest_.sizes.back() % 4 != 0 || e_.code[c].globalOffset % 4 != 0 ||
            std::any_of(strides.begin(), strides.end() - 1, [](int64_t stride) { return stride % 4 != 0; }))
          return false;
      }
    return any;
  }
  /// The code that splits i into x0, x1, ..., and where that draws by four a quarter of it into q0, q1, ...
  std::string indices(bool byFour) const {
    std::string text = indexCode(nest_.sizes, "i", type_);
    if (byFour) {
      Shape quarters = nest_.sizes;
      quarters.back() /= 4;
      text += indexCode(quarters, "(i >> 2)", type_, "q");
    }
    return text;
  }

  /// Computes every live value at the indices x0, x1, ... from the elements of the inputs.
  std::string body(const std::function<std::string(size_t)> &element, bool byFour = false) const {
    std::string text;
    for (size_t v = 0; v < live_.size(); ++v) {
      if (!live_[v])
        continue;
      const bool input = v < e_.inputs.size();
      plan::DType type = e_.typeOf(uint32_t(v));
      std::string value = input ? loadCode(type, element(v)) : instruction(e_.code[v - e_.inputs.size()], v, byFour);
      text += std::string("const ") + valueType(valueClass(type)) + " v" + std::to_string(v) + " = " + value + ";\n";
    }
    return text;
  }
  std::string valueOf(size_t i) const { return "v" + std::to_string(result(i).value); }
  /// Whether element i of a result belongs to point i.
  bool isStoredAlong(size_t i) const { return !resultSlots_.contains(results_[i]); }
  /// Where a result without a reduction is stored.
  std::string placeOf(size_t i) const {
    return isStoredAlong(i) ? "i" : addressCode(nest_.strides[resultSlots_.at(results_[i])], type_);
  }

private:
  /// From the first element of memory to the last.
  static int64_t extent(const Shape &view, int64_t pitch) {
    return pitch ? elementCount(view) / view.back() * pitch : elementCount(view);
  }
  std::string address(size_t value) const { return addressCode(nest_.strides[slots_.at(value)], type_); }

  std::string instruction(const Instr &instr, size_t v, bool byFour) const {
    std::array<std::string, 3> operands;
    for (uint32_t i = 0; i < instr.arity; ++i)
      operands[i] = "v" + std::to_string(instr.operands[i]);
    if (byFour && instr.op == Op::Random) {
      Shape strides = nest_.strides[slots_.at(v)];
      for (size_t d = 0; d + 1 < strides.size(); ++d)
        strides[d] /= 4;
      return randomCode(instr, operands[0], addressCode(strides, type_, "q"), "(u32)i & 3u");
    }
    const bool indexed = instr.op == Op::Iota || instr.op == Op::Random;
    return instructionCode(instr, instr.arity ? e_.typeOf(instr.operands[0]) : instr.type, operands,
                           indexed ? address(v) : "");
  }

  const ExpressionCode &e_;
  std::vector<size_t> results_;
  std::vector<bool> live_;
  std::map<size_t, size_t> slots_;       // value -> array of the nest
  std::map<size_t, size_t> resultSlots_; // result whose rows are further apart -> array of the nest
  size_t resultSlot_ = 0;
  Nest nest_;
  IndexType type_;
};

} // namespace tessera::rt::cuda

#endif
