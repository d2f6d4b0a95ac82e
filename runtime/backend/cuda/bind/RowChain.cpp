// Members become one list of values; levels, phases and registers follow from it.
#include "runtime/backend/cuda/bind/RowChain.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tessera::rt::cuda {
namespace {

constexpr size_t kPointers = 32;         // the most pointers of a kernel
constexpr int64_t kMostThreads = 1024;   // of a block
constexpr int64_t kThreadsAgain = 512;   // where a row is computed anew: with more, its code would not fit in registers
constexpr int64_t kEveryProcessor = 132; // rows of which a block does one at a time
constexpr int64_t kAccessBytes = 16;     // the most that a thread moves at once
constexpr int64_t kLanesOfSlice = 64;    // threads of a block for the same part of a row: whole lines of memory
/// Registers for what a thread of a block of kMostThreads reads at once: of its 64 the rest is for what it computes.
constexpr int64_t kMostRead = 24;
/// Registers that a thread may hold across a reduction, or for sums over the rows.
int64_t mostWords(int64_t threads) { return threads == kMostThreads ? 16 : 32; }
/// The same where there are sums of columns, each of two words: enough for four columns of a layer normalisation's
/// gradient.
int64_t mostWordsOfSums(int64_t threads) { return threads == 256 ? 40 : mostWords(threads); }

bool same(const Nest &a, const Nest &b) { return a.sizes == b.sizes && a.strides == b.strides; }
bool same(const RowAccess &a, const RowAccess &b) { return same(a.row, b.row) && same(a.column, b.column); }

/// n elements that are `stride` apart.
Nest line(int64_t n, int64_t stride) { return collapse(Nest{Shape{n}, {Shape{stride}}}); }
bool still(const Nest &nest) {
  return std::all_of(nest.strides[0].begin(), nest.strides[0].end(), [](int64_t s) { return s == 0; });
}

struct Accesses {
  explicit Accesses(const Rows &n)
      : full{line(n.rows, n.columns), line(n.columns, 1)}, perRow{line(n.rows, 1), line(n.columns, 0)},
        perColumn{line(n.rows, 0), line(n.columns, 1)} {}
  RowAccess full, perRow, perColumn;
};

/// The dimension at which a domain is split into rows and columns. A domain with one point per row has only rows.
struct Fit {
  size_t split = 0;
  bool wide = false;
};
std::optional<Fit> fit(const Shape &domain, const Rows &n) {
  int64_t before = 1;
  const int64_t points = elementCount(domain);
  if (points == n.rows)
    return Fit{domain.size(), false};
  if (points != n.rows * n.columns)
    return std::nullopt;
  for (size_t d = 0; d <= domain.size(); ++d) {
    if (before == n.rows)
      return Fit{d, true};
    if (d < domain.size())
      before *= domain[d];
  }
  return std::nullopt;
}

RowAccess part(const Shape &domain, const Shape &strides, const Fit &f, int64_t columns) {
  const auto at = static_cast<std::ptrdiff_t>(f.split);
  RowAccess a;
  a.row = collapse({{domain.begin(), domain.begin() + at}, {Shape(strides.begin(), strides.begin() + at)}});
  a.column = f.wide ? collapse({{domain.begin() + at, domain.end()}, {Shape(strides.begin() + at, strides.end())}})
                    : line(columns, 0);
  return a;
}

bool overlap(const void *a, size_t aBytes, const void *b, size_t bBytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return aBytes && bBytes && x < y + bBytes && y < x + aBytes;
}

class Merger {
public:
  Merger(const std::vector<RowMember> &members, const Rows &size, const std::vector<FreeMemory> &free)
      : members_(members), accesses_(size), free_(free) {
    chain_.size = size;
  }

  std::optional<RowChain> merge() {
    for (size_t m = 0; m < members_.size(); ++m)
      if (!add(m))
        return std::nullopt;
    markLive();
    if (chain_.pointers.size() > kPointers)
      return std::nullopt;
    schedule();
    chain_.separate = separate();
    if (!allot())
      return std::nullopt;
    return std::move(chain_);
  }

private:
  /// An output of a member, as later members read it.
  struct Made {
    std::optional<uint32_t> value; // none: a reduction over the rows, which is computed last
    bool wide = false;
  };

  uint32_t push(RowValue v) {
    chain_.values.push_back(std::move(v));
    return uint32_t(chain_.values.size() - 1);
  }
  size_t pointer(const TensorView &view, bool output) {
    size_t p = 0;
    while (p < chain_.pointers.size() && (chain_.pointers[p].data != view.data ||
                                          chain_.pointers[p].type != view.dtype || chain_.pointers[p].output != output))
      ++p;
    if (p == chain_.pointers.size()) {
      chain_.pointers.push_back({view.data, view.dtype, output});
      bytes_.push_back(0);
    }
    chain_.pointers[p].pitch = view.layout.pitch;
    bytes_[p] = std::max(bytes_[p], view.bytes());
    largest_.push_back(int64_t(view.bytes() / bytesPerElement(view.dtype)));
    return p;
  }

  std::optional<uint32_t> input(const RowMember &member, size_t i, const RowAccess &access) {
    if (const std::optional<RowMember::Source> &from = member.from[i]) {
      const Made &made = made_[from->member][from->output];
      if (!made.value || !same(access, made.wide ? accesses_.full : accesses_.perRow))
        return std::nullopt;
      return made.value;
    }
    const TensorView &view = member.inputs[i];
    const size_t p = pointer(view, false);
    for (uint32_t v = 0; v < chain_.values.size(); ++v) // the same element is loaded only once
      if (chain_.values[v].kind == RowValue::Kind::Load && chain_.values[v].pointer == p &&
          same(chain_.values[v].access, access))
        return v;
    RowValue load;
    load.type = view.dtype;
    load.access = access;
    load.pointer = p;
    load.wide = !still(access.column);
    return push(load);
  }

  uint32_t compute(const Instr &instr, const std::vector<uint32_t> &ids, const Shape &domain, const Fit &f) {
    RowValue v;
    v.kind = RowValue::Kind::Compute;
    v.type = instr.type;
    v.instr = instr;
    for (uint32_t o = 0; o < instr.arity; ++o) {
      v.instr.operands[o] = ids[instr.operands[o]];
      const RowValue &from = chain_.values[v.instr.operands[o]];
      v.wide = v.wide || from.wide;
      v.level = std::max(v.level, from.level);
    }
    if (instr.op == Op::Iota || instr.op == Op::Random) {
      Shape strides = instr.globalStrides;
      if (instr.op == Op::Iota) {
        strides.assign(domain.size(), 0);
        strides[instr.dim] = 1;
      }
      v.access = part(domain, strides, f, chain_.size.columns);
      v.wide = v.wide || !still(v.access.column);
      int64_t last = 1;
      for (size_t d = 0; d < domain.size(); ++d)
        last += (domain[d] - 1) * strides[d];
      largest_.push_back(last);
    }
    return push(v);
  }

  /// The value after it was stored in memory of type `type` and read again.
  uint32_t rounded(uint32_t value, plan::DType type) {
    const plan::DType held = chain_.values[value].type;
    const bool exact = type == plan::F32 || type == plan::F64 || type == plan::I64;
    if (exact && valueClass(held) == valueClass(type))
      return value;
    RowValue v;
    v.kind = RowValue::Kind::Round;
    v.type = type;
    v.operand = value;
    v.wide = chain_.values[value].wide;
    v.level = chain_.values[value].level;
    return push(v);
  }

  bool add(size_t m) {
    const RowMember &member = members_[m];
    const ExpressionCode &code = *member.code;
    const std::optional<Fit> f = fit(code.domain, chain_.size);
    if (!f)
      return false;
    const size_t rank = code.domain.size();
    auto access = [&](const Shape &view, int64_t pitch) {
      return part(code.domain, broadcastStrides(view, rank, pitch), *f, chain_.size.columns);
    };
    std::vector<uint32_t> ids;
    for (size_t i = 0; i < code.inputs.size(); ++i) {
      std::optional<uint32_t> id =
          input(member, i, access(code.inputs[i].view, member.from[i] ? 0 : code.inputs[i].pitch));
      if (!id)
        return false;
      ids.push_back(*id);
    }
    for (const Instr &instr : code.code)
      ids.push_back(compute(instr, ids, code.domain, *f));
    made_.emplace_back();
    for (size_t r = 0; r < code.results.size(); ++r) {
      const ExpressionResult &result = code.results[r];
      const RowAccess to = access(result.view, 0);
      uint32_t value = ids[result.value];
      if (result.reduction == plan::NONE) {
        made_.back().push_back({rounded(value, result.type), f->wide});
      } else if (f->wide && same(to, accesses_.perRow)) {
        RowValue v;
        v.kind = RowValue::Kind::Reduce;
        v.type = result.type;
        v.operand = value;
        v.reduction = result.reduction;
        v.level = chain_.values[value].level + 1;
        value = push(v);
        chain_.phases = std::max(chain_.phases, v.level + 1);
        made_.back().push_back({rounded(value, result.type), false});
      } else if ((f->wide && same(to, accesses_.perColumn)) || (still(to.row) && still(to.column))) {
        made_.back().push_back({std::nullopt, false});
        if (member.stored[r])
          chain_.sums.push_back({!f->wide                        ? RowSum::Of::PerRow
                                 : same(to, accesses_.perColumn) ? RowSum::Of::Column
                                                                 : RowSum::Of::All,
                                 value, result.reduction, member.outputs[r], chain_.values[value].level});
        continue;
      } else {
        return false;
      }
      // Rows that are stored further apart must be those of the chain.
      if (member.stored[r] && result.pitch && (!f->wide || result.view.back() != chain_.size.columns))
        return false;
      if (member.stored[r])
        chain_.stores.push_back({value, result.type, made_.back().back().wide, pointer(member.outputs[r], true),
                                 chain_.values[value].level});
    }
    return true;
  }

  void markLive() {
    std::vector<RowValue> &values = chain_.values;
    for (const RowStore &s : chain_.stores)
      values[s.value].live = true;
    for (const RowSum &c : chain_.sums)
      values[c.value].live = true;
    for (size_t v = values.size(); v-- > 0;) {
      if (!values[v].live)
        continue;
      if (values[v].kind == RowValue::Kind::Compute)
        for (uint32_t o = 0; o < values[v].instr.arity; ++o)
          values[values[v].instr.operands[o]].live = true;
      else if (values[v].kind != RowValue::Kind::Load)
        values[values[v].operand].live = true;
    }
  }

  /// Whether writes spoil no reads. In a row, only the element that a thread itself reads may be overwritten, and by
  /// the same thread, which has read it before.
  bool separate() {
    std::vector<RowValue> &values = chain_.values;
    std::vector<RowPointer> &pointers = chain_.pointers;
    auto meets = [&](size_t a, size_t b) { return overlap(pointers[a].data, bytes_[a], pointers[b].data, bytes_[b]); };
    for (size_t s = 0; s < chain_.stores.size(); ++s) {
      RowStore &store = chain_.stores[s];
      for (size_t other = 0; other < s; ++other)
        if (meets(store.pointer, chain_.stores[other].pointer))
          return false;
      for (const RowSum &c : chain_.sums)
        if (overlap(pointers[store.pointer].data, bytes_[store.pointer], c.to.data, c.to.bytes()))
          return false;
      for (const RowValue &v : values) {
        if (v.kind != RowValue::Kind::Load || !v.live || !meets(store.pointer, v.pointer))
          continue;
        if (!store.wide) {
          pointers[store.pointer].aside = true;
          pointers[store.pointer].bytes = uint64_t(chain_.size.rows) * bytesPerElement(store.type);
          continue;
        }
        if (pointers[store.pointer].aside)
          continue;
        if (!same(v.access, accesses_.full) || pointers[v.pointer].data != pointers[store.pointer].data ||
            bytes_[v.pointer] != bytes_[store.pointer]) {
          if (!putAside(store.pointer))
            return false;
          continue;
        }
        store.phase = std::max(store.phase, v.phase);
        values[store.value].lastPhase = std::max(values[store.value].lastPhase, store.phase);
        pointers[v.pointer].apart = pointers[store.pointer].apart = false;
      }
    }
    return true;
  }

  /// Finds free memory for the rows that are written through a pointer, if that is worth a copy: what is not stored is at
  /// least half as much again. Otherwise steps apart are as good.
  bool putAside(size_t p) {
    RowPointer &pointer = chain_.pointers[p];
    uint64_t saved = 0, copied = bytes_[p];
    for (const FreeMemory &place : free_)
      saved += place.bytes;
    for (const RowPointer &other : chain_.pointers)
      copied += other.elsewhere ? other.bytes : 0;
    if (2 * saved < 3 * copied)
      return false;
    for (const FreeMemory &place : free_) {
      bool good = place.bytes >= bytes_[p];
      for (size_t other = 0; good && other < chain_.pointers.size(); ++other)
        good = !overlap(place.data, bytes_[p], chain_.pointers[other].data, bytes_[other]) &&
               !overlap(place.data, bytes_[p], chain_.pointers[other].elsewhere, chain_.pointers[other].bytes);
      for (size_t c = 0; good && c < chain_.sums.size(); ++c)
        good = !overlap(place.data, bytes_[p], chain_.sums[c].to.data, chain_.sums[c].to.bytes());
      if (!good)
        continue;
      pointer.aside = true;
      pointer.elsewhere = place.data;
      pointer.bytes = bytes_[p];
      return true;
    }
    return false;
  }

  /// Computes a value of a whole row as late as possible, so that it need not be held.
  void schedule() {
    std::vector<RowValue> &values = chain_.values;
    for (RowValue &v : values) {
      v.phase = chain_.phases;
      v.lastPhase = -1;
    }
    auto use = [&](uint32_t v, int phase) {
      values[v].phase = std::min(values[v].phase, phase);
      values[v].lastPhase = std::max(values[v].lastPhase, phase);
    };
    for (const RowStore &s : chain_.stores)
      use(s.value, s.phase);
    for (const RowSum &c : chain_.sums)
      use(c.value, c.phase);
    for (size_t v = values.size(); v-- > 0;) {
      const RowValue &user = values[v];
      if (!user.live)
        continue;
      if (user.kind == RowValue::Kind::Reduce)
        use(user.operand, user.level - 1);
      else if (user.kind == RowValue::Kind::Round)
        use(user.operand, user.wide ? user.phase : user.level);
      else if (user.kind == RowValue::Kind::Compute)
        for (uint32_t o = 0; o < user.instr.arity; ++o)
          use(user.instr.operands[o], user.wide ? user.phase : user.level);
    }
  }

  /// Whether the values of a row can be computed anew wherever they are needed: there are rows for all multiprocessors,
  /// and no sum over the rows needs a register for each column.
  bool canRepeat(int64_t once) const {
    return chain_.size.rows >= kEveryProcessor && once <= mostWords(kMostThreads) &&
           std::none_of(chain_.sums.begin(), chain_.sums.end(),
                        [](const RowSum &sum) { return sum.of == RowSum::Of::Column; });
  }
  /// Whether what is read again is still there. If not, another member may help, without which it is not stored.
  bool staysReadable() const {
    for (int phase = 1; phase < chain_.phases; ++phase) {
      const std::vector<bool> needed = neededIn(chain_, phase);
      for (uint32_t v = 0; v < needed.size(); ++v)
        if (const RowValue &value = chain_.values[v]; needed[v] && value.kind == RowValue::Kind::Load)
          for (const RowStore &store : chain_.stores)
            if (store.wide && store.phase < phase && !chain_.pointers[store.pointer].aside &&
                overlap(chain_.pointers[store.pointer].data, bytes_[store.pointer], chain_.pointers[value.pointer].data,
                        bytes_[value.pointer]))
              return false;
    }
    return true;
  }

  /// Whether parts of the rows can be made without each other: only a sum over the rows is made, and its results, which
  /// are stored while other parts still read, lie apart from all else. What follows from several sums often takes the
  /// memory of what was read, and must wait for all blocks.
  bool canSlice() const {
    if (chain_.again || chain_.phases > 1 || chain_.sums.size() != 1 || chain_.side == 1)
      return false;
    const RowSum &sum = chain_.sums.front();
    bool apart = sum.of == RowSum::Of::Column;
    for (size_t p = 0; p < chain_.pointers.size(); ++p)
      apart = apart && !overlap(chain_.pointers[p].data, bytes_[p], sum.to.data, sum.to.bytes());
    return apart;
  }

  /// Sets the number of threads per row; false if the values that a thread must hold do not fit.
  bool allot() {
    std::vector<int64_t> held(size_t(chain_.phases), 0); // after each phase
    std::vector<int64_t> read(size_t(chain_.phases), 0); // in each phase, of all columns at once
    auto words = [](plan::DType type) { return valueClass(type) == ValueClass::F32 ? 1 : 2; };
    for (const RowValue &v : chain_.values)
      if (v.live && v.wide) {
        for (int p = v.phase; p < v.lastPhase; ++p)
          held[size_t(p)] += words(v.type);
        if (v.kind == RowValue::Kind::Load)
          read[size_t(v.phase)] += words(v.type);
      }
    int64_t most = *std::max_element(held.begin(), held.end()), once = 0, ofColumns = 0;
    for (const RowSum &sum : chain_.sums)
      (sum.of == RowSum::Of::Column ? ofColumns : once) += 2;
    most += ofColumns;
    auto wordsFor = [&](int64_t n) { return ofColumns > 0 ? mostWordsOfSums(n) : mostWords(n); };
    // Eight columns for a thread, where it has registers for them.
    int64_t threads = 1;
    while (threads < kMostThreads && threads * (threads < 32 ? 1 : 8) < chain_.size.columns)
      threads *= 2;
    auto each = [&] { return (chain_.size.columns + threads - 1) / threads; };
    while (threads < kMostThreads && each() > 1 && each() * most + once > wordsFor(threads))
      threads *= 2;
    chain_.again = each() * std::max<int64_t>(most, 1) + once > wordsFor(threads) ||
                   (threads == kMostThreads && each() * *std::max_element(read.begin(), read.end()) > kMostRead);
    if (chain_.again && !canRepeat(once))
      return false;
    if (chain_.again) {
      threads = std::min(threads, kThreadsAgain);
      chain_.separate = chain_.separate && staysReadable();
    }
    // Columns side by side may leave threads without any, but not half of them. Those of the last warps are left out.
    const int64_t fit = most > 0 ? (wordsFor(threads) - once) / most : INT64_MAX;
    chooseSide(threads, std::min(fit, 2 * each() - 1));
    const int64_t groups = (chain_.size.columns + chain_.side - 1) / chain_.side,
                  groupsEach = (groups + threads - 1) / threads;
    if (threads > 32 && !chain_.again)
      threads = ((groups + groupsEach - 1) / groupsEach + 31) / 32 * 32;
    chain_.threads = threads;
    chain_.perThread = groupsEach * chain_.side;
    if (canSlice() && groups * chain_.side == chain_.size.columns && groups % kLanesOfSlice == 0) {
      chain_.threads = groups;
      chain_.perThread = chain_.side;
      chain_.slices = groups / kLanesOfSlice;
    }
    chain_.words = (chain_.again ? 0 : chain_.perThread * most) + once;
    chain_.index = indexTypeFor(chain_.size.rows * chain_.size.columns, largest_);
    return true;
  }

  /// Chooses the neighbouring columns of a thread so that most bytes are moved by wide accesses. `most`: columns of a
  /// thread that holds values of them.
  void chooseSide(int64_t threads, int64_t most) {
    int64_t best = 0;
    const int64_t columns = chain_.size.columns;
    for (int64_t side : {8, 4, 2})
      for (int64_t shift : {int64_t(0), columns % side}) {
        if (!chain_.again && (columns % side != 0 || (columns / side + threads - 1) / threads * side > most))
          continue;
        int64_t widest = 0, moved = 0; // bytes of an element
        auto count = [&](plan::DType type) {
          widest = std::max(widest, int64_t(bytesPerElement(type)));
          moved += int64_t(bytesPerElement(type));
        };
        for (const RowValue &v : chain_.values)
          if (v.live && v.wide && v.kind == RowValue::Kind::Load &&
              liesSideBySide(v.access, chain_.pointers[v.pointer].data, v.type, side, shift))
            count(v.type);
        for (const RowStore &store : chain_.stores)
          if (store.wide && isStoredSideBySide(chain_.pointers[store.pointer], columns, side, shift))
            count(store.type);
        if (moved <= best || widest * side > kAccessBytes)
          continue;
        best = moved;
        chain_.side = side;
        chain_.shift = shift;
      }
  }

  const std::vector<RowMember> &members_;
  const Accesses accesses_;
  const std::vector<FreeMemory> &free_;
  RowChain chain_;
  std::vector<std::vector<Made>> made_;
  std::vector<size_t> bytes_;    // by pointer
  std::vector<int64_t> largest_; // numbers of elements
};

} // namespace

static bool isAccess(const void *data, plan::DType type, int64_t side) {
  return reinterpret_cast<uint64_t>(data) % (bytesPerElement(type) * uint64_t(side)) == 0;
}

bool liesSideBySide(const RowAccess &access, const void *data, plan::DType type, int64_t side, int64_t shift) {
  const Nest &row = access.row, &column = access.column;
  // With several strides, or none, rows do not begin further and further behind a multiple.
  return column.sizes.size() == 1 && column.strides[0][0] == 1 && (shift == 0 || row.sizes.size() == 1) &&
         std::ranges::all_of(row.strides[0], [&](int64_t stride) { return stride % side == shift; }) &&
         isAccess(data, type, side);
}

bool isStoredSideBySide(const RowPointer &pointer, int64_t columns, int64_t side, int64_t shift) {
  return (pointer.pitch ? pointer.pitch : columns) % side == shift && isAccess(pointer.data, pointer.type, side) &&
         isAccess(pointer.elsewhere, pointer.type, side);
}

std::vector<bool> neededIn(const RowChain &chain, int phase) {
  const std::vector<RowValue> &values = chain.values;
  std::vector<bool> needed(values.size(), false);
  for (const RowStore &s : chain.stores)
    if (s.wide && s.phase == phase)
      needed[s.value] = true;
  for (const RowSum &s : chain.sums)
    if (s.of != RowSum::Of::PerRow && s.phase == phase)
      needed[s.value] = true;
  for (const RowValue &v : values)
    if (v.live && v.kind == RowValue::Kind::Reduce && v.level - 1 == phase)
      needed[v.operand] = true;
  for (size_t v = values.size(); v-- > 0;) {
    needed[v] = needed[v] && values[v].wide;
    if (needed[v] && values[v].kind == RowValue::Kind::Compute)
      for (uint32_t o = 0; o < values[v].instr.arity; ++o)
        needed[values[v].instr.operands[o]] = true;
    else if (needed[v] && values[v].kind == RowValue::Kind::Round)
      needed[values[v].operand] = true;
  }
  return needed;
}

std::vector<Rows> rowsOf(const ExpressionCode &code) {
  std::vector<Rows> found;
  auto add = [&](size_t split) {
    const auto at = code.domain.begin() + static_cast<std::ptrdiff_t>(split);
    const Rows n{elementCount({code.domain.begin(), at}), elementCount({at, code.domain.end()})};
    if (n.rows > 0 && n.columns > 1 &&
        std::none_of(found.begin(), found.end(), [&](const Rows &f) { return f.columns == n.columns; }))
      found.push_back(n);
  };
  // Only candidates are named here. Whether a reduction fits a split shows when the steps are merged.
  std::vector<size_t> last, first;
  for (const ExpressionResult &r : code.results) {
    if (r.reduction == plan::NONE)
      continue;
    size_t end = r.view.size(), begin = 0;
    while (end > 0 && r.view[end - 1] == 1)
      --end;
    while (begin < r.view.size() && r.view[begin] == 1)
      ++begin;
    last.push_back(end);
    first.push_back(begin);
  }
  for (size_t split : last)
    add(split);
  for (size_t split : first)
    add(split);
  // A sum of everything fits any rows.
  for (size_t d = code.domain.size(); d-- > 0 && !last.empty();)
    if (code.domain[d] > 1) {
      add(d);
      break;
    }
  return found;
}

std::optional<RowChain> mergeRows(const std::vector<RowMember> &members, const Rows &size,
                                  const std::vector<FreeMemory> &free) {
  return Merger(members, size, free).merge();
}

} // namespace tessera::rt::cuda
