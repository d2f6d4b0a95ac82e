#include "runtime/backend/cpu/fused/Tape.h"
#include "runtime/backend/Half.h"
#include "runtime/backend/Philox.h"
#include "runtime/backend/cpu/fused/CountsAsFloats.h"
#include "runtime/backend/cpu/fused/LoopNest.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt {
namespace {

bool isInt(plan::DType t) { return t != plan::BOOL && valueClass(t) == ValueClass::I64; }
/// Whether values of this type are held as F32.
bool isSingle(plan::DType t) { return t == plan::F32 || t == plan::BF16 || t == plan::F16; }
/// Whether a tile can hold values of this type: as F32 (also BF16, F16 and BOOL) or as I64 (also narrower integers).
bool isValueType(plan::DType t) { return isSingle(t) || t == plan::BOOL || isInt(t); }

/// The vector operation of an instruction on operands of type `from`; nothing where the engine has none.
std::optional<VectorOp> vectorOp(const Instr &instr, plan::DType from) {
  plan::DType to = instr.type;
  if (instr.op == Op::Cast) {
    if (isInt(from))
      return isSingle(to)       ? std::optional(VectorOp::IntToFloat)
             : to == plan::BOOL ? std::optional(VectorOp::IntToBool)
             : to == plan::I64  ? std::optional(VectorOp::CopyInt)
                                : std::nullopt;
    if (isInt(to))
      return from == plan::BOOL ? VectorOp::BoolToInt : VectorOp::FloatToInt;
    return to == plan::BOOL && from != plan::BOOL ? VectorOp::NotZero : VectorOp::Copy;
  }
  if (instr.op == Op::Select)
    return isInt(to) ? VectorOp::SelectInt : VectorOp::Select;
  if (isInt(from)) {
    switch (instr.op) {
    case Op::Eq:
      return VectorOp::EqInt;
    case Op::Lt:
      return VectorOp::LtInt;
    case Op::Le:
      return VectorOp::LeInt;
    default:
      break;
    }
    if (to != plan::I64) // narrower ones would have to wrap
      return std::nullopt;
    switch (instr.op) {
    case Op::Neg:
      return VectorOp::NegInt;
    case Op::Add:
      return VectorOp::AddInt;
    case Op::Sub:
      return VectorOp::SubInt;
    case Op::Mul:
      return VectorOp::MulInt;
    case Op::Max:
      return VectorOp::MaxInt;
    case Op::Min:
      return VectorOp::MinInt;
    default:
      return std::nullopt;
    }
  }
  switch (instr.op) { // these would have to wrap on BOOL
  case Op::Neg:
  case Op::Add:
  case Op::Sub:
  case Op::Mul:
  case Op::Div:
  case Op::Mod:
  case Op::Pow:
    if (to == plan::BOOL)
      return std::nullopt;
    break;
  default:
    break;
  }
  switch (instr.op) {
#define TESSERA_ELEMENTWISE(NAME, ...)                                                                                 \
  case Op::NAME:                                                                                                       \
    return VectorOp::NAME;
#include "runtime/support/Elementwise.def"
  default:
    return std::nullopt;
  }
}

std::optional<VectorOp> loadOp(plan::DType type) {
  switch (type) {
  case plan::BOOL:
    return VectorOp::LoadBool;
  case plan::I32:
    return VectorOp::LoadI32;
  case plan::I8:
    return VectorOp::LoadI8;
  case plan::U8:
    return VectorOp::LoadU8;
  case plan::BF16:
    return VectorOp::LoadBf16;
  case plan::F16:
    return VectorOp::LoadF16;
  default:
    return std::nullopt; // F32 and I64 are used where they lie
  }
}
std::optional<VectorOp> storeOp(plan::DType type) {
  switch (type) {
  case plan::BOOL:
    return VectorOp::StoreBool;
  case plan::I32:
    return VectorOp::StoreI32;
  case plan::I8:
    return VectorOp::StoreI8;
  case plan::I64:
    return VectorOp::CopyInt;
  case plan::F32:
    return VectorOp::Copy;
  case plan::BF16:
    return VectorOp::StoreBf16;
  case plan::F16:
    return VectorOp::StoreF16;
  default:
    return std::nullopt;
  }
}
std::optional<VectorOp> roundOp(plan::DType type) {
  return type == plan::BF16  ? std::optional(VectorOp::RoundBf16)
         : type == plan::F16 ? std::optional(VectorOp::RoundF16)
                             : std::nullopt;
}
/// The value that memory of this type would hold.
double rounded(double value, plan::DType type) {
  return type == plan::BF16  ? double(toFloat(toBfloat16(float(value))))
         : type == plan::F16 ? double(toFloat(toHalf(float(value))))
                             : value;
}

bool supported(const ExpressionCode &e) {
  for (const ExpressionInput &in : e.inputs)
    if (!isValueType(in.type))
      return false;
  for (const Instr &instr : e.code) {
    if (!isValueType(instr.type))
      return false;
    if (instr.op == Op::Constant) {
      if (isInt(instr.type) && instr.type != plan::I64 &&
          !(instr.type == plan::I32 && std::abs(instr.immediate) < 0x1p31))
        return false;
    } else if (instr.op == Op::Iota) {
      if (!isSingle(instr.type) && instr.type != plan::I64)
        return false;
    } else if (instr.op == Op::Random) {
      uint32_t step = instr.operands[0];
      if (instr.type != plan::F32 || step >= e.inputs.size() || e.inputs[step].type != plan::I64 ||
          elementCount(e.inputs[step].view) != 1)
        return false;
    } else {
      // All operands of the computation must be in one class: floats or integers.
      uint32_t first = instr.op == Op::Select ? 1 : 0;
      if (!vectorOp(instr, e.typeOf(instr.operands[first])) ||
          (instr.op == Op::Select && e.typeOf(instr.operands[0]) != plan::BOOL))
        return false;
      for (uint32_t i = first; i < instr.arity; ++i)
        if (isInt(e.typeOf(instr.operands[i])) != isInt(e.typeOf(instr.operands[first])))
          return false;
    }
  }
  for (const ExpressionResult &r : e.results)
    if (r.type != e.typeOf(r.value) || !storeOp(r.type) || (r.reduction != plan::NONE && r.type != plan::F32))
      return false;
  return elementCount(e.domain) > 0;
}

class TapeBuilder {
public:
  TapeBuilder(const ExpressionCode &code, const KernelCall &call, const LoopNest &nest)
      : e_(code), call_(call), nest_(nest) {}

  std::optional<Tape> build() {
    tape_.outer = nest_.outer;
    tape_.m = nest_.m;
    tape_.p = nest_.p;
    tape_.pointers = e_.valueCount();
    findUses();
    classify();
    foldMultiplications();
    if (isOrdered(e_, call_)) {
      tape_.ordered = true;
      for (const ExpressionResult &result : e_.results)
        if (result.reduction != plan::NONE && (result.reduction != plan::SUM || !full_[result.value]))
          return std::nullopt; // the reference kernel does it
    }
    findDots();
    if (!placeResults())
      return std::nullopt;
    placeInputs();
    for (size_t c = 0; c < e_.code.size(); ++c)
      emit(c);
    storeResults();
    assignSlots();
    return std::move(tape_);
  }

private:
  uint32_t inputCount() const { return uint32_t(e_.inputs.size()); }
  uint32_t valueOf(size_t c) const { return inputCount() + uint32_t(c); }

  /// Finds the values that reach a result, and how often each is read.
  void findUses() {
    uses_.assign(e_.valueCount(), 0);
    for (const ExpressionResult &r : e_.results)
      ++uses_[r.value];
    for (size_t c = e_.code.size(); c-- > 0;)
      if (uses_[valueOf(c)])
        for (uint32_t i = 0; i < e_.code[c].arity; ++i)
          ++uses_[e_.code[c].operands[i]];
  }

  void classify() {
    for (const TapeOperand &in : nest_.inputs) {
      full_.push_back(in.full);
      periodic_.push_back(tape_.inPeriod(in));
    }
    for (size_t c = 0; c < e_.code.size(); ++c) {
      const Instr &instr = e_.code[c];
      // Random numbers are made for a whole row at a time, even where one point would do.
      bool full =
          instr.op == Op::Random || (instr.op == Op::Iota && (nest_.indices[c].strideM || nest_.indices[c].strideP));
      bool periodic = false;
      for (uint32_t i = 0; i < instr.arity; ++i) {
        full = full || full_[instr.operands[i]];
        periodic = periodic || periodic_[instr.operands[i]];
      }
      full_.push_back(full);
      periodic_.push_back(periodic && !full);
    }
  }

  /// Decides which values are computed straight into the memory of their result.
  bool placeResults() {
    direct_.assign(e_.valueCount(), -1);
    for (size_t r = 0; r < e_.results.size(); ++r) {
      const ExpressionResult &result = e_.results[r];
      if (result.reduction != plan::NONE)
        continue;
      uint32_t v = result.value;
      bool mayBeDirect = v >= inputCount() && full_[v] && result.type == plan::F32 && direct_[v] < 0;
      for (uint32_t i = 0; i < inputCount(); ++i) {
        if (!uses_[i] || call_.inputs[i].data != call_.outputs[r].data)
          continue;
        // In place, the old value must not be needed after the new one is written.
        for (size_t s = 0; s < e_.results.size(); ++s)
          if (e_.results[s].value == i) {
            if (s != r && e_.results[s].reduction == plan::NONE)
              return false; // a swap of buffers, which the reference kernel does
            mayBeDirect = false;
          }
        for (size_t c = 0; c < e_.code.size(); ++c)
          for (uint32_t k = 0; k < e_.code[c].arity; ++k)
            if (e_.code[c].operands[k] == i && valueOf(runsAt_[c]) > v)
              mayBeDirect = false;
      }
      if (mayBeDirect)
        direct_[v] = int(r);
    }
    return true;
  }

  void placeInputs() {
    for (uint32_t i = 0; i < inputCount(); ++i) {
      TapeInput in;
      in.place = nest_.inputs[i];
      in.view = &call_.inputs[i];
      in.pointer = i;
      in.used = uses_[i] > 0;
      if (in.used && !in.place.full)
        allot(i);
      if (std::optional<VectorOp> load = loadOp(e_.inputs[i].type); in.used && in.place.full && load) {
        in.pointer = tape_.pointers++;
        tape_.tileOps.emplace_back(*load, 0, i, in.pointer);
        slotted_.push_back(i);
      }
      tape_.inputs.push_back(std::move(in));
    }
  }

  /// A product a * b is folded into the addition or subtraction that reads it, if only one does. It is not if that
  /// would move the product from the lanes to the tile. In a reproducible plan it is rounded, since it is rounded where
  /// it is stored; to F32, which is what the pass for both rounds to.
  void foldMultiplications() {
    folded_.assign(e_.code.size(), false);
    foldAt_.assign(e_.code.size(), -1);
    for (size_t c = 0; c < e_.code.size(); ++c)
      runsAt_.push_back(c);
    for (size_t c = 0; c < e_.code.size(); ++c) {
      const Instr &instr = e_.code[c];
      if ((instr.op != Op::Add && instr.op != Op::Sub) || !isSingle(instr.type) || !uses_[valueOf(c)] ||
          (call_.exact && instr.type != plan::F32))
        continue;
      for (uint32_t i : {0u, 1u}) {
        uint32_t v = instr.operands[i];
        if (v < inputCount() || uses_[v] != 1 || full_[v] != full_[valueOf(c)] ||
            periodic_[v] != periodic_[valueOf(c)] || e_.code[v - inputCount()].op != Op::Mul ||
            folded_[v - inputCount()])
          continue;
        folded_[v - inputCount()] = true;
        runsAt_[v - inputCount()] = c;
        foldAt_[c] = int(i);
        break;
      }
    }
  }

  /// Whether result `r` is the sum of a product that nothing else reads. The product is then not stored. In a sum whose
  /// order is free, products along a row are not rounded.
  bool isDot(size_t r) const {
    const ExpressionResult &result = e_.results[r];
    uint32_t v = result.value;
    if (result.reduction != plan::SUM || v < inputCount() || uses_[v] != 1 ||
        (nest_.results[r].full && !tape_.ordered) || tape_.inPeriod(nest_.results[r]))
      return false;
    const Instr &instr = e_.code[v - inputCount()];
    return instr.op == Op::Mul && full_[instr.operands[0]] && full_[instr.operands[1]];
  }

  void findDots() {
    dots_.assign(e_.valueCount(), false);
    for (size_t r = 0; r < e_.results.size(); ++r)
      if (isDot(r)) {
        dots_[e_.results[r].value] = true;
        runsAt_[e_.results[r].value - inputCount()] = e_.code.size(); // sums come last
      }
  }

  unsigned laneMask(std::initializer_list<uint32_t> operands) const {
    unsigned mask = 0, bit = 1;
    for (uint32_t v : operands) {
      mask |= isLanes(v) ? bit : 0;
      bit <<= 1;
    }
    return mask;
  }

  bool isLanes(uint32_t v) const { return !full_[v] && !periodic_[v]; }

  /// Storage for a value that is not full.
  void allot(uint32_t v) {
    if (periodic_[v])
      tape_.periods.push_back({v, isInt(e_.typeOf(v)) ? 8 : 4});
    else
      tape_.lanePointers.push_back(v);
  }

  void emit(size_t c) {
    const Instr &instr = e_.code[c];
    uint32_t y = valueOf(c);
    if (!uses_[y] || folded_[c] || dots_[y])
      return;
    if (!full_[y])
      allot(y);
    else if (direct_[y] < 0)
      slotted_.push_back(y);
    if (instr.op == Op::Constant) {
      tape_.constants.push_back({y, instr.type, call_.exact ? rounded(instr.immediate, instr.type) : instr.immediate});
      return;
    }
    if (instr.op == Op::Random || instr.op == Op::Iota) {
      TapeSource source;
      source.op = instr.op;
      source.type = instr.type;
      source.y = y;
      source.outer = nest_.indices[c].outer;
      source.strideM = nest_.indices[c].strideM;
      source.strideP = nest_.indices[c].strideP;
      source.full = full_[y];
      source.before = full_[y] ? tape_.tileOps.size() : tape_.laneOps.size();
      source.first = uint64_t(instr.start);
      if (instr.op == Op::Random) {
        source.step = instr.operands[0];
        source.key = philoxKey(instr.seed, instr.stream);
        source.first = uint64_t(instr.globalOffset);
      }
      tape_.sources.push_back(std::move(source));
      round(y, instr.type);
      return;
    }
    uint32_t a, b, d;
    VectorOp kind;
    if (foldAt_[c] >= 0) {
      const Instr &mul = e_.code[instr.operands[size_t(foldAt_[c])] - inputCount()];
      a = mul.operands[0];
      b = mul.operands[1];
      d = instr.operands[1 - size_t(foldAt_[c])];
      kind = instr.op == Op::Add ? (call_.exact ? VectorOp::MulAdd : VectorOp::Fma)
             : foldAt_[c] == 0   ? (call_.exact ? VectorOp::MulSub : VectorOp::Fms)
                                 : (call_.exact ? VectorOp::SubMul : VectorOp::Fnma);
    } else {
      a = instr.operands[0];
      b = instr.arity > 1 ? instr.operands[1] : a;
      d = instr.arity > 2 ? instr.operands[2] : a;
      kind = *vectorOp(instr, e_.typeOf(instr.op == Op::Select ? b : a));
    }
    // For an operation on lanes, all operands are vectors of 16 elements.
    add(TapeOp(kind, isLanes(y) ? 0 : laneMask({a, b, d}), y, a, b, d));
    round(y, instr.type, instr.rounds);
  }

  /// In a reproducible plan, and where an instruction rounds, a value that stays in a loop is what memory would hold.
  void round(uint32_t y, plan::DType type, bool rounds = false) {
    if (std::optional<VectorOp> op = roundOp(type); op && (call_.exact || rounds))
      add(TapeOp(*op, 0, y, y));
  }

  void add(TapeOp op) {
    op.period = periodic_[op.y];
    (full_[op.y] ? tape_.tileOps : tape_.laneOps).push_back(op);
  }

  void storeResults() {
    for (size_t r = 0; r < e_.results.size(); ++r) {
      const ExpressionResult &result = e_.results[r];
      uint32_t v = result.value;
      if (result.reduction != plan::NONE) {
        TapeReduction reduction{nest_.results[r],
                                result.reduction,
                                r,
                                v,
                                isLanes(v),
                                elementCount(result.view),
                                false,
                                0,
                                tape_.ordered ? nest_.terms[r] : Shape()};
        if (isDot(r)) {
          reduction.dot = true;
          reduction.source = e_.code[v - inputCount()].operands[0];
          reduction.factor = e_.code[v - inputCount()].operands[1];
        }
        tape_.reductions.push_back(std::move(reduction));
        continue;
      }
      TapeStore store;
      store.place = nest_.results[r];
      store.output = r;
      if (direct_[v] == int(r)) {
        store.pointer = v;
      } else {
        store.pointer = tape_.pointers++;
        tape_.copyOps.emplace_back(*storeOp(result.type), laneMask({v}), store.pointer, v);
      }
      tape_.stores.push_back(std::move(store));
    }
    // Next to the operations that make what they copy, they may share registers with them (TileCode.h).
    if (std::none_of(tape_.reductions.begin(), tape_.reductions.end(),
                     [&](const TapeReduction &r) { return isMemory(r.source) || (r.dot && isMemory(r.factor)); })) {
      tape_.tileOps.insert(tape_.tileOps.end(), tape_.copyOps.begin(), tape_.copyOps.end());
      tape_.copyOps.clear();
    }
  }
  /// Whether this is an input that is read where it lies.
  bool isMemory(uint32_t v) const { return v < inputCount() && full_[v] && !loadOp(e_.inputs[v].type); }

  /// A tile buffer is reused as soon as its value is not needed any more, so that few buffers fit in the first-level
  /// cache.
  void assignSlots() {
    std::vector<size_t> last(tape_.pointers, 0);
    for (size_t i = 0; i < tape_.tileOps.size(); ++i)
      for (uint32_t v : {tape_.tileOps[i].a, tape_.tileOps[i].b, tape_.tileOps[i].c})
        last[v] = i;
    for (const TapeReduction &r : tape_.reductions)
      last[r.source] = last[r.dot ? r.factor : r.source] = tape_.tileOps.size();
    for (const TapeOp &op : tape_.copyOps)
      last[op.a] = tape_.tileOps.size();
    std::vector<bool> slotted(tape_.pointers, false);
    for (uint32_t v : slotted_)
      slotted[v] = true;
    std::vector<std::pair<size_t, uint32_t>> busy; // (last use, slot)
    auto take = [&](uint32_t v, size_t at) {
      uint32_t slot = 0;
      for (size_t b = 0; b < busy.size();)
        if (busy[b].first < at)
          busy.erase(busy.begin() + long(b));
        else
          ++b;
      auto used = [&](uint32_t s) {
        return std::any_of(busy.begin(), busy.end(), [&](auto &x) { return x.second == s; });
      };
      while (used(slot))
        ++slot;
      busy.push_back({std::max(last[v], at), slot});
      tape_.slotPointers.push_back({v, slot});
      tape_.wide = tape_.wide || isInt(e_.typeOf(v));
      tape_.slots = std::max(tape_.slots, slot + 1);
    };
    size_t source = 0;
    for (size_t i = 0; i <= tape_.tileOps.size(); ++i) {
      for (; source < tape_.sources.size() && (!tape_.sources[source].full || tape_.sources[source].before == i);
           ++source)
        if (slotted[tape_.sources[source].y])
          take(tape_.sources[source].y, i);
      if (i < tape_.tileOps.size() && slotted[tape_.tileOps[i].y])
        take(tape_.tileOps[i].y, i);
    }
  }

  const ExpressionCode &e_;
  const KernelCall &call_;
  const LoopNest &nest_;
  Tape tape_;
  std::vector<uint32_t> uses_;
  std::vector<bool> full_, periodic_, folded_, dots_; // neither full nor periodic: lanes
  std::vector<int> foldAt_, direct_;
  std::vector<size_t> runsAt_;    // instruction whose place each one takes
  std::vector<uint32_t> slotted_; // values in tile buffers
};

} // namespace

std::optional<Tape> buildTape(const ExpressionCode &given, const KernelCall &call) {
  const ExpressionCode code = withCountsAsFloats(given);
  if (!supported(code))
    return std::nullopt;
  std::optional<LoopNest> nest = buildLoopNest(code, call);
  if (!nest)
    return std::nullopt;
  return TapeBuilder(code, call, *nest).build();
}

} // namespace tessera::rt
