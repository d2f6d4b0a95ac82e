#include "runtime/backend/cpu/fused/TileCode.h"
#include "runtime/backend/cpu/InstructionSet.h"
#include "runtime/backend/cpu/fused/VectorMathNumbers.h"

#ifdef TESSERA_XBYAK
#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>
#endif

#include <algorithm>
#include <map>
#include <set>

namespace tessera::rt {

#ifdef TESSERA_XBYAK
namespace {

/// How many operands an operation has that there are instructions for; else 0.
int operandsOf(VectorOp op) {
  switch (op) {
  case VectorOp::Copy:
  case VectorOp::Neg:
  case VectorOp::Abs:
  case VectorOp::Relu:
  case VectorOp::Sqrt:
  case VectorOp::Rsqrt:
  case VectorOp::Reciprocal:
  case VectorOp::Exp:
  case VectorOp::Sigmoid:
  case VectorOp::Erf:
  case VectorOp::Not:
  case VectorOp::NotZero:
  case VectorOp::LoadBool:
  case VectorOp::StoreBool:
  case VectorOp::LoadBf16:
  case VectorOp::StoreBf16:
  case VectorOp::RoundBf16:
  case VectorOp::LoadF16:
  case VectorOp::StoreF16:
  case VectorOp::RoundF16:
    return 1;
  case VectorOp::Add:
  case VectorOp::Sub:
  case VectorOp::Mul:
  case VectorOp::Div:
  case VectorOp::Max:
  case VectorOp::Min:
  case VectorOp::Eq:
  case VectorOp::Lt:
  case VectorOp::Le:
  case VectorOp::And:
  case VectorOp::Or:
  case VectorOp::Xor:
    return 2;
  case VectorOp::Fma:
  case VectorOp::Fms:
  case VectorOp::Fnma:
  case VectorOp::MulAdd:
  case VectorOp::MulSub:
  case VectorOp::SubMul:
  case VectorOp::Select:
    return 3;
  default:
    return 0;
  }
}

bool loads(VectorOp op) { return op == VectorOp::LoadBool || op == VectorOp::LoadBf16 || op == VectorOp::LoadF16; }
bool stores(VectorOp op) { return op == VectorOp::StoreBool || op == VectorOp::StoreBf16 || op == VectorOp::StoreF16; }

/// What is done to a vector: of registers `y`, `a`, `b`, `c`; a load and a store also of the memory at `pointer`.
struct Step {
  enum Kind { Load, Compute, Store } kind;
  VectorOp op; // Copy: of F32
  int y = 0, a = 0, b = 0, c = 0;
  uint32_t pointer = 0;
};

struct Lanes {
  uint32_t pointer;
  int reg;
};

/// Registers for the operations [first, last) of a tape.
class Allocation {
public:
  static constexpr int kVectors = 26, kPointers = 10; // the code needs the other registers itself

  /// Returns `last`, or the first operation for which there are too few registers.
  size_t make(const Tape &tape, size_t first, size_t last, const std::set<uint32_t> &outputs) {
    const std::vector<TapeOp> &ops = tape.tileOps;
    std::map<uint32_t, size_t> lastRead, lastWrite;
    for (size_t i = first; i < last; ++i) {
      forOperands(ops[i], [&](uint32_t v, bool) { lastRead[v] = i; });
      lastWrite[ops[i].y] = i;
    }
    for (size_t i = first; i < last; ++i) {
      const TapeOp &op = ops[i];
      int operands[3] = {}, count = 0;
      if (loads(op.op)) {
        if (!point(op.a))
          return i;
      } else {
        bool found = true;
        forOperands(op, [&](uint32_t v, bool lanes) {
          const int reg = lanes ? laneRegister(v) : valueRegister(v);
          found = found && reg >= 0;
          operands[count++] = reg;
        });
        if (!found)
          return i;
        forOperands(op, [&](uint32_t v, bool lanes) {
          if (!lanes && lastRead[v] == i)
            release(v);
        });
      }
      if (stores(op.op)) {
        if (!point(op.y))
          return i;
        steps.push_back({Step::Store, op.op, 0, operands[0], 0, 0, op.y});
        continue;
      }
      release(op.y); // what an operation rounds in place
      const int y = take();
      if (y < 0)
        return i;
      values_[op.y] = y;
      steps.push_back(
          {loads(op.op) ? Step::Load : Step::Compute, op.op, y, operands[0], operands[1], operands[2], op.a});
      if (lastWrite[op.y] == i && (outputs.count(op.y) || isReadLater(tape, op.y, last))) {
        if (!point(op.y))
          return i;
        steps.push_back({Step::Store, VectorOp::Copy, 0, y, 0, 0, op.y});
      }
      if (lastRead.count(op.y) == 0 || lastRead[op.y] <= i)
        release(op.y);
    }
    return last;
  }

  std::vector<Step> steps;
  std::vector<Lanes> lanes;       // loaded once
  std::vector<uint32_t> pointers; // of memory: each takes a register

private:
  template <typename F> static void forOperands(const TapeOp &op, const F &f) {
    const uint32_t operands[3] = {op.a, op.b, op.c};
    for (int k = 0; k < operandsOf(op.op); ++k)
      f(operands[k], (op.lanes >> k & 1) != 0);
  }

  static bool isReadLater(const Tape &tape, uint32_t v, size_t from) {
    for (size_t i = from; i < tape.tileOps.size(); ++i)
      for (uint32_t read : {tape.tileOps[i].a, tape.tileOps[i].b, tape.tileOps[i].c})
        if (read == v)
          return true;
    for (const TapeOp &op : tape.copyOps)
      if (op.a == v)
        return true;
    return std::any_of(tape.reductions.begin(), tape.reductions.end(),
                       [&](const TapeReduction &r) { return r.source == v || (r.dot && r.factor == v); });
  }

  bool point(uint32_t pointer) {
    if (std::find(pointers.begin(), pointers.end(), pointer) == pointers.end())
      pointers.push_back(pointer);
    return pointers.size() <= size_t(kPointers);
  }

  int take() {
    for (int reg = 0; reg < kVectors; ++reg)
      if (!busy_[reg]) {
        busy_[reg] = true;
        return reg;
      }
    return -1;
  }

  void release(uint32_t v) {
    if (auto at = values_.find(v); at != values_.end()) {
      busy_[at->second] = false;
      values_.erase(at);
    }
  }

  int laneRegister(uint32_t v) {
    for (const Lanes &known : lanes)
      if (known.pointer == v)
        return known.reg;
    // Not one that a value had before: lanes are loaded before the first operation.
    for (int reg = kVectors - 1; reg >= 0 && !used(reg); --reg)
      if (!busy_[reg]) {
        busy_[reg] = true;
        lanes.push_back({v, reg});
        return reg;
      }
    return -1;
  }
  bool used(int reg) const {
    return std::any_of(steps.begin(), steps.end(), [&](const Step &s) { return s.kind != Step::Store && s.y == reg; });
  }

  int valueRegister(uint32_t v) {
    if (auto at = values_.find(v); at != values_.end())
      return at->second;
    const int reg = point(v) ? take() : -1;
    if (reg >= 0) {
      values_[v] = reg;
      steps.push_back({Step::Load, VectorOp::Copy, reg, 0, 0, 0, v});
    }
    return reg;
  }

  std::map<uint32_t, int> values_;
  bool busy_[kVectors] = {};
};

class Code final : public TileCode, private Xbyak::CodeGenerator {
public:
  /// The numbers that the code reads stand before it: sanitizers read what is before a function that is called.
  explicit Code(size_t bytes) : CodeGenerator(bytes, Xbyak::DontSetProtectRWE) {
    using E = ExpNumbers;
    using F = ErfNumbers;
    for (uint32_t bits : {1u, kHalf, kQuiet, kUpper, kSign, kMagnitude})
      place(bits);
    for (float x : {1.0f, E::kLeast, E::kMost, E::kPerLn2, E::kLn2[0], E::kLn2[1], F::kMost, F::kOne, F::kIntervals,
                    F::kInterval, F::kMiddle})
      place(bitsOf(x));
    for (float x : E::kPolynomial)
      place(bitsOf(x));
  }

  void add(size_t first, size_t last, const Allocation &allocation) {
    align(16);
    const uint8_t *start = getCurr();
    emit(allocation);
    runs.push_back(
        {first, last, reinterpret_cast<void (*)(void *const *, int64_t)>(reinterpret_cast<uintptr_t>(start))});
  }

  /// False if the code did not fit, or may not be run.
  bool finish() { return Xbyak::GetError() == Xbyak::ERR_NONE && setProtectModeRE(false); }

private:
  using Zmm = Xbyak::Zmm;
  enum Compare : uint8_t {
    Equal = 0,
    Unordered = 3,
    NotEqual = 4,
    Less = 17,
    LessOrEqual = 18,
    NotLessOrEqual = 22,
    GreaterOrEqual = 29
  };
  static constexpr uint8_t kNearest = 0; // how vcvtps2ph rounds
  static constexpr uint32_t kHalf = 0x7fff, kQuiet = 0x400000, kUpper = 0xffff0000, kSign = 1u << 31,
                            kMagnitude = 0x7fffffff;

  static uint32_t bitsOf(float x) { return __builtin_bit_cast(uint32_t, x); }
  void place(uint32_t bits) {
    L(numbers_[bits]);
    dd(bits);
  }
  /// In all lanes.
  Xbyak::Address all(uint32_t bits) { return ptr_b[rip + numbers_.at(bits)]; }
  Xbyak::Address all(float x) { return all(bitsOf(x)); }
  void fill(const Zmm &y, float x) { vbroadcastss(y, ptr[rip + numbers_.at(bitsOf(x))]); }

  Zmm z(int reg) const { return Zmm(reg); }
  const Zmm one_{28}, zero_{29}, t_{30}, u_{31}, v_{27}, w_{26}; // the last four hold nothing between two steps

  void emit(const Allocation &allocation) {
    const Xbyak::Reg64 registers[Allocation::kPointers] = {rdx, r8, r9, r10, r11, rbx, r12, r13, r14, r15};
    const Xbyak::Reg64 kept[] = {rbx, rbp, r12, r13, r14, r15};
    for (const Xbyak::Reg64 &reg : kept)
      push(reg);
    for (const Lanes &lane : allocation.lanes) {
      mov(rax, ptr[rdi + lane.pointer * 8]);
      vmovups(z(lane.reg), zword[rax]);
    }
    pointers_.clear();
    for (size_t k = 0; k < allocation.pointers.size(); ++k) {
      pointers_.emplace(allocation.pointers[k], registers[k]);
      mov(registers[k], ptr[rdi + allocation.pointers[k] * 8]);
    }
    vpxord(zero_, zero_, zero_);
    fill(one_, 1);
    if (std::any_of(allocation.steps.begin(), allocation.steps.end(),
                    [](const Step &step) { return step.kind == Step::Compute && step.op == VectorOp::Erf; }))
      mov(table_, reinterpret_cast<uintptr_t>(&kErf));
    xor_(eax, eax);
    lea(rcx, ptr[rsi - kLanes]);
    Xbyak::Label loop, last, end;
    cmp(rax, rcx);
    jg(last, T_NEAR);
    align(16);
    L(loop);
    for (const Step &step : allocation.steps)
      emit(step, false);
    advance(rax, kLanes);
    cmp(rax, rcx);
    jle(loop, T_NEAR);
    L(last);
    mov(rcx, rsi);
    sub(rcx, rax);
    jle(end, T_NEAR);
    mov(edi, 1);
    shl(edi, cl);
    sub(edi, 1);
    kmovw(k1, edi);
    for (const Step &step : allocation.steps)
      emit(step, true);
    L(end);
    for (size_t k = std::size(kept); k-- > 0;)
      pop(kept[k]);
    vzeroupper();
    ret();
  }
  const Xbyak::Reg64 table_ = rbp; // of erf
  void advance(const Xbyak::Reg64 &reg, uint32_t value) { CodeGenerator::add(reg, value); }

  void emit(const Step &step, bool part) {
    if (step.kind == Step::Compute)
      compute(step);
    else if (step.kind == Step::Load)
      load(step, part);
    else
      store(step, part);
  }

  void load(const Step &step, bool part) {
    const Xbyak::Reg64 &from = pointers_.at(step.pointer);
    const Zmm y = z(step.y), into = part ? y | k1 | T_z : y;
    switch (step.op) {
    case VectorOp::LoadBf16:
      vpmovzxwd(into, ptr[from + rax * 2]);
      vpslld(y, y, 16);
      break;
    case VectorOp::LoadF16:
      vcvtph2ps(into, ptr[from + rax * 2]);
      break;
    case VectorOp::LoadBool:
      vpmovzxbd(into, ptr[from + rax]);
      vptestmd(k2, y, y);
      vmovaps(y | k2 | T_z, one_);
      break;
    default:
      vmovups(into, ptr[from + rax * 4]);
    }
  }

  void store(const Step &step, bool part) {
    const Xbyak::Reg64 &to = pointers_.at(step.pointer);
    const Zmm x = z(step.a);
    switch (step.op) {
    case VectorOp::StoreBf16:
      roundToBf16(x);
      vpsrld(t_, t_, 16);
      if (part) {
        vpmovdw(ptr[to + rax * 2] | k1, t_);
      } else {
        vpmovdw(Xbyak::Ymm(u_.getIdx()), t_);
        vmovdqu64(ptr[to + rax * 2], Xbyak::Ymm(u_.getIdx()));
      }
      break;
    case VectorOp::StoreF16:
      vcvtps2ph(Xbyak::Ymm(u_.getIdx()), x, kNearest);
      if (part)
        vmovdqu16(ptr[to + rax * 2] | k1, Xbyak::Ymm(u_.getIdx()));
      else
        vmovdqu64(ptr[to + rax * 2], Xbyak::Ymm(u_.getIdx()));
      break;
    case VectorOp::StoreBool:
      vcmpps(k2, x, zero_, NotEqual);
      vpbroadcastd(t_ | k2 | T_z, ptr[rip + numbers_.at(1)]);
      if (part) {
        vpmovdb(ptr[to + rax] | k1, t_);
      } else {
        vpmovdb(Xbyak::Xmm(u_.getIdx()), t_);
        vmovdqu32(ptr[to + rax], Xbyak::Xmm(u_.getIdx()));
      }
      break;
    default:
      if (part)
        vmovups(ptr[to + rax * 4] | k1, x);
      else
        vmovups(ptr[to + rax * 4], x);
    }
  }

  /// The upper halves of t_ are floatToBfloat(x).
  void roundToBf16(const Zmm &x) {
    vpsrld(t_, x, 16);
    vpandd(t_, t_, all(1u));
    vpaddd(t_, t_, all(kHalf));
    vpaddd(t_, t_, x);
    vcmpps(k2, x, x, Unordered);
    vpord(t_ | k2, x, all(kQuiet));
  }

  void move(const Zmm &y, const Zmm &a) {
    if (y.getIdx() != a.getIdx())
      vmovaps(y, a);
  }
  void truth(const Zmm &y, const Zmm &a, const Zmm &b, Compare how) {
    vcmpps(k2, a, b, how);
    vmovaps(y | k2 | T_z, one_);
  }

  /// As vectorExp (VectorMathAvx512.h).
  void exp(const Zmm &y, const Zmm &x) {
    using N = ExpNumbers;
    fill(t_, N::kLeast);
    vmaxps(t_, t_, x); // a NaN is the second operand, which stays
    fill(u_, N::kMost);
    vminps(t_, u_, t_);
    vmulps(u_, t_, all(N::kPerLn2));
    vrndscaleps(u_, u_, 8);
    for (float part : N::kLn2)
      vfnmadd231ps(t_, u_, all(part));
    fill(v_, N::kPolynomial[0]);
    for (int i = 1; i < 5; ++i)
      vfmadd213ps(v_, t_, all(N::kPolynomial[i]));
    vmulps(w_, t_, t_);
    vfmadd213ps(v_, w_, t_);
    vaddps(v_, v_, one_);
    vscalefps(y, v_, u_);
  }

  /// As vectorErf.
  void erf(const Zmm &y, const Zmm &x) {
    using N = ErfNumbers;
    vpandd(t_, x, all(kMagnitude));
    fill(u_, N::kMost);
    vminps(t_, u_, t_);
    vmulps(u_, t_, all(N::kIntervals));
    vcvttps2dq(u_, u_);
    vcvtdq2ps(v_, u_);
    fill(w_, N::kInterval);
    vfmadd213ps(v_, w_, all(N::kMiddle));
    vsubps(t_, t_, v_);
    const auto coefficient = [&](const Zmm &into, int row) {
      vmovaps(into, ptr[table_ + row * int(sizeof kErf[0])]);
      vpermt2ps(into, u_, ptr[table_ + row * int(sizeof kErf[0]) + 64]);
    };
    coefficient(v_, 4);
    for (int row = 3; row >= 0; --row) {
      coefficient(w_, row);
      vfmadd213ps(v_, t_, w_);
    }
    vpandd(w_, x, all(kMagnitude));
    vcmpps(k2, w_, all(N::kOne), GreaterOrEqual);
    vpandd(w_, x, all(kSign));
    vmulps(y, x, v_);
    vpord(y | k2, w_, one_);
  }

  /// y may be one of the operands.
  void compute(const Step &step) {
    const Zmm y = z(step.y), a = z(step.a), b = z(step.b), c = z(step.c);
    switch (step.op) {
    case VectorOp::Copy:
      move(y, a);
      break;
    case VectorOp::Neg:
      vpxord(y, a, all(kSign));
      break;
    case VectorOp::Abs:
      vpandd(y, a, all(kMagnitude));
      break;
    case VectorOp::Relu:
      vcmpps(k2, a, zero_, NotLessOrEqual);
      vmovaps(y | k2 | T_z, a);
      break;
    case VectorOp::Sqrt:
      vsqrtps(y, a);
      break;
    case VectorOp::Rsqrt:
      vsqrtps(y, a);
      vdivps(y, one_, y);
      break;
    case VectorOp::Reciprocal:
      vdivps(y, one_, a);
      break;
    case VectorOp::Exp:
      exp(y, a);
      break;
    case VectorOp::Sigmoid:
      vpxord(y, a, all(kSign));
      exp(y, y);
      vaddps(y, y, one_);
      vdivps(y, one_, y);
      break;
    case VectorOp::Erf:
      erf(y, a);
      break;
    case VectorOp::Not:
      truth(y, a, zero_, Equal);
      break;
    case VectorOp::NotZero:
      truth(y, a, zero_, NotEqual);
      break;
    case VectorOp::RoundBf16:
      roundToBf16(a);
      vpandd(y, t_, all(kUpper));
      break;
    case VectorOp::RoundF16:
      vcvtps2ph(Xbyak::Ymm(u_.getIdx()), a, kNearest);
      vcvtph2ps(y, Xbyak::Ymm(u_.getIdx()));
      break;
    case VectorOp::Add:
      vaddps(y, a, b);
      break;
    case VectorOp::Sub:
      vsubps(y, a, b);
      break;
    case VectorOp::Mul:
    case VectorOp::And:
      vmulps(y, a, b);
      break;
    case VectorOp::Div:
      vdivps(y, a, b);
      break;
    case VectorOp::Or:
      vmaxps(y, a, b);
      break;
    case VectorOp::Max: // the instruction gives b if one is a NaN
    case VectorOp::Min:
      vcmpps(k2, a, a, Unordered);
      step.op == VectorOp::Max ? vmaxps(t_, a, b) : vminps(t_, a, b);
      vblendmps(y | k2, t_, a);
      break;
    case VectorOp::Eq:
      truth(y, a, b, Equal);
      break;
    case VectorOp::Lt:
      truth(y, a, b, Less);
      break;
    case VectorOp::Le:
      truth(y, a, b, LessOrEqual);
      break;
    case VectorOp::Xor:
      truth(y, a, b, NotEqual);
      break;
    case VectorOp::Fma:
    case VectorOp::Fms:
    case VectorOp::Fnma: {
      const Zmm sum = step.y == step.a || step.y == step.b ? t_ : y;
      move(sum, c);
      step.op == VectorOp::Fma   ? vfmadd231ps(sum, a, b)
      : step.op == VectorOp::Fms ? vfmsub231ps(sum, a, b)
                                 : vfnmadd231ps(sum, a, b);
      move(y, sum);
      break;
    }
    case VectorOp::MulAdd:
      vmulps(t_, a, b);
      vaddps(y, t_, c);
      break;
    case VectorOp::MulSub:
      vmulps(t_, a, b);
      vsubps(y, t_, c);
      break;
    case VectorOp::SubMul:
      vmulps(t_, a, b);
      vsubps(y, c, t_);
      break;
    case VectorOp::Select:
      vcmpps(k2, a, zero_, NotEqual);
      vblendmps(y | k2, c, b);
      break;
    default:
      break;
    }
  }

  std::map<uint32_t, Xbyak::Reg64> pointers_;
  std::map<uint32_t, Xbyak::Label> numbers_; // by their bits
};

} // namespace

std::unique_ptr<TileCode> compileTile(const Tape &tape) {
  if (instructionSet() < InstructionSet::Avx512)
    return nullptr;
  std::set<uint32_t> outputs;
  for (const TapeStore &store : tape.stores)
    outputs.insert(store.pointer);
  // A value made from the index is made before the operation that it stands at.
  std::set<size_t> begins;
  for (const TapeSource &source : tape.sources)
    if (source.full)
      begins.insert(source.before);
  struct Part {
    size_t first, last;
    Allocation allocation;
  };
  std::vector<Part> parts;
  size_t steps = 0;
  for (size_t first = 0, last; first < tape.tileOps.size(); first = last) {
    last = first;
    while (last < tape.tileOps.size() && operandsOf(tape.tileOps[last].op) > 0 &&
           (last == first || !begins.count(last)))
      ++last;
    Part best{first, last, {}};
    // Mostly all of them fit. Those before the one that does not, may need more registers to store what it reads.
    for (size_t end; (end = best.allocation.make(tape, first, best.last, outputs)) < best.last;)
      best = {first, end, {}};
    last = std::max(best.last, first + 1);
    if (best.last - best.first < 2) // one operation alone gains nothing
      continue;
    steps += best.allocation.steps.size() + best.allocation.lanes.size();
    parts.push_back(std::move(best));
  }
  if (parts.empty())
    return nullptr;
  // A step has at most seven instructions of at most 11 bytes, and is there twice.
  Xbyak::ClearError();
  auto code = std::make_unique<Code>(steps * 2 * 77 + parts.size() * 512 + 64);
  for (const Part &part : parts)
    code->add(part.first, part.last, part.allocation);
  return code->finish() ? std::move(code) : nullptr;
}

#else
std::unique_ptr<TileCode> compileTile(const Tape &) { return nullptr; }
#endif

} // namespace tessera::rt
