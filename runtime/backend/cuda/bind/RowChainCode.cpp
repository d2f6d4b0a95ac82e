// The text of a chain:
//
//   for every row of this group of threads:
//     numbers per row that need no reduction
//     phase 0, over the thread's columns: values, sums of them, stores
//     totals of the sums over the group · numbers per row that need them
//     phase 1 ...
//
// Values that are needed again after a reduction stand in arrays whose indices are constants once the loops are
// unrolled, and so in registers. Where a row is too long for that, every phase computes what it needs from memory. All
// threads of a block go through the same totals, those beyond the last row or column with nothing to add.
#include "runtime/backend/cuda/bind/RowChain.h"
#include "runtime/backend/cuda/text/Pointwise.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kFullDevice = 528;     // blocks: four per multiprocessor of an H200
constexpr int64_t kEveryProcessor = 132; // one
constexpr int64_t kMostBlocks = 1 << 16; // further rows are done by the same blocks
constexpr int64_t kRowsPerSum = 8;       // where sums over the rows are kept, and all multiprocessors have some
constexpr int64_t kColumnsAhead = 16;    // that a thread reads at once, where a row is computed again in each phase
constexpr int64_t kThreadsEnough = 768;  // of a multiprocessor, with 85 registers each
constexpr int64_t kBlocksAhead = 8;      // whose sums a thread reads at once

/// Threads of a multiprocessor that have registers for `held` words each, and for what they compute; 0: not known.
int64_t residentFor(int64_t held) { return held <= 32 ? 1280 : held <= 56 ? 1024 : held <= 76 ? 768 : 0; }

std::string name(const char *what, size_t i) { return what + std::to_string(i); }

class Writer {
public:
  explicit Writer(const RowChain &chain)
      : chain_(chain), lanes_(chain.threads / chain.slices), block_(std::max<int64_t>(kThreads / lanes_, 1) * lanes_),
        together_(block_ / lanes_), type_(chain.index) {
    groups_ = (chain.size.rows + together_ - 1) / together_;
    blocks_ = std::min(groups_, kMostBlocks);
    if (const int64_t threads = residentFor(registers()))
      resident_ = std::max<int64_t>((chain.slices > 1 ? threads : std::min<int64_t>(threads, 1024)) / block_, 1);
    // With sums over the rows no more blocks than run at a time: each has sums that are added up at the end.
    const int64_t atOnce = resident_ ? resident_ * kEveryProcessor : kFullDevice;
    auto share = [&](int64_t blocks) { return std::max<int64_t>(blocks / chain.slices, 1); };
    if (!chain.sums.empty())
      blocks_ = std::min({groups_, share(chain.slices > 1 ? atOnce : std::min(atOnce, kFullDevice)),
                          std::max(groups_ / kRowsPerSum, share(kEveryProcessor))});
  }

  CudaKernel kernel() {
    CudaKernel kernel;
    kernel.description = "generated rows";
    Launch launch;
    launch.grid[0] = uint32_t(blocks_ * chain_.slices);
    launch.block = uint32_t(block_);
    SumEnd end;
    end.index = type_;
    end.block = block_;
    end.resident = std::max<int64_t>(resident_, 1);
    std::vector<CopyBytes> copies;
    for (size_t p = 0; p < chain_.pointers.size(); ++p) {
      const RowPointer &pointer = chain_.pointers[p];
      end.parameters.push_back({std::string(pointer.output ? "" : "const ") + memoryType(pointer.type), name("p", p)});
      if (!pointer.apart)
        end.meeting.push_back(name("p", p));
      Place place = at(pointer.data);
      if (pointer.aside) {
        place = pointer.elsewhere ? at(pointer.elsewhere) : kernel.reserve(pointer.bytes);
        copies.push_back({at(pointer.data), place, pointer.bytes});
      }
      launch.arguments.push_back(place);
    }
    std::string declared, sums; // sums over the rows: declared, and written at the end
    std::vector<Total> ofThreads;
    for (size_t c = 0; c < chain_.sums.size(); ++c) {
      const RowSum &sum = chain_.sums[c];
      const bool column = sum.of == RowSum::Of::Column;
      const std::string type = typeOf(sum);
      end.parameters.push_back({type, name("q", c)});
      launch.arguments.push_back(kernel.reserve(uint64_t(blocks_ * numbersOf(sum)) * 8));
      end.parameters.push_back({memoryType(sum.to.dtype), name("out", c)});
      launch.arguments.push_back(at(sum.to.data));
      declared += type + " " + name("c", c) + (column ? each() : "") + ";\n" + (column ? loop() : "") + sumOf(c) +
                  " = " + neutral(sum.reduction, sum.to.dtype) + ";\n";
      sums += sumOfBlock(c);
      if (sum.of == RowSum::Of::All)
        ofThreads.push_back({sumOf(c), sum.reduction, type});
    }
    const std::string index = type_.name(), group = part() + " * (" + index + ")" + std::to_string(together_) + "u";
    std::string rows = rowsCode();
    if (exchanges_ == 1) // its memory is written again for the next row
      rows += "__syncthreads();\n";
    const std::string totals = total(ofThreads) + sums;
    if (chain_.side > 1)
      end.declarations = "template <typename T, int N> struct alignas(N * sizeof(T)) Side { T e[N]; };\n";
    const std::string slice =
        chain_.slices > 1 ? " + blockIdx.x % " + std::to_string(chain_.slices) + "u * " + lanes() : "";
    end.before = shared_ + "const u32 t = threadIdx.x, lane = t % " + lanes() + slice + ";\n" + declared + "for (" +
                 index + " base = " + group + "; base < " + type_.literal(chain_.size.rows) +
                 "; base += " + type_.literal(blocks_ * together_) + ") {\n" + rowCode() + rows + "}\n" + totals;
    if (!chain_.sums.empty())
      endSums(end, launch);
    launch.source = end.source();
    // Loops can follow where all results have as many numbers.
    if (launch.points > 0)
      launch.end = std::make_shared<const SumEnd>(std::move(end));
    kernel.actions.push_back(std::move(launch));
    for (const CopyBytes &copy : copies)
      kernel.actions.push_back(copy);
    return kernel;
  }

private:
  /// A variable of which every thread of a row holds a part.
  struct Total {
    std::string variable;
    plan::Reduction reduction;
    std::string type;
  };

  /// About as many as a thread needs: what it holds, addresses, and what it has read or not yet written.
  int64_t registers() const {
    int64_t bytes = 0;
    for (const RowValue &v : chain_.values)
      if (isSideBySide(v))
        bytes += chain_.side * int64_t(bytesPerElement(v.type));
    for (const RowStore &s : chain_.stores)
      if (isSideBySide(s))
        bytes += chain_.side * int64_t(bytesPerElement(s.type));
    return chain_.words + int64_t(chain_.pointers.size()) + bytes / 4;
  }

  std::string lanes() const { return std::to_string(lanes_) + "u"; }
  /// Which of the blocks that share the rows this one is.
  std::string part() const {
    return chain_.slices > 1 ? "(blockIdx.x / " + std::to_string(chain_.slices) + "u)" : "blockIdx.x";
  }
  std::string each() const { return "[" + std::to_string(chain_.perThread) + "]"; }
  std::string loop() const {
    return "#pragma unroll\nfor (u32 k = 0; k < " + std::to_string(chain_.perThread) + "u; ++k) ";
  }
  bool lastIsPart() const { return chain_.size.rows % together_ != 0; }

  std::string rowCode() const {
    const std::string index = type_.name(), last = type_.literal(chain_.size.rows - 1);
    const std::string mine = together_ == 1 ? "base" : "base + t / " + lanes();
    if (!lastIsPart())
      return "const " + index + " row = " + mine + ";\n";
    return "const bool inside = " + mine + " <= " + last + ";\nconst " + index + " row = inside ? " + mine + " : " +
           last + ";\n";
  }
  /// The code that finds the k-th column of this thread, and opens the block for columns that exist.
  std::string columnCode() const {
    const std::string side = std::to_string(chain_.side) + "u";
    return "const " + type_.name() + " column = " +
           (chain_.side == 1 ? "lane + k * " + lanes()
                             : "(lane + k / " + side + " * " + lanes() + ") * " + side + " + k % " + side) +
           ";\n" + opened("column", false);
  }
  std::string opened(const std::string &column, bool rows) const {
    std::string condition;
    if (rows && lastIsPart())
      condition = "inside";
    if (chain_.threads * chain_.perThread != chain_.size.columns)
      condition += (condition.empty() ? "" : " && ") + column + " < " + type_.literal(chain_.size.columns);
    return condition.empty() ? "{\n" : "if (" + condition + ") {\n";
  }
  /// Code for columns: `before` and `after` stand around what is done for each of those that are side by side, the first
  /// of which is called `first`.
  struct Columns {
    std::string before, each, after;
  };
  std::string ofSide(const Columns &code) const {
    return code.before + "#pragma unroll\nfor (u32 e = 0; e < " + std::to_string(chain_.side) + "u; ++e) {\n" +
           (chain_.again ? "" : "const u32 k = group * " + std::to_string(chain_.side) + "u + e;\n") + "const " +
           type_.name() + " column = first " + (chain_.shift ? "+" : "|") + " e;\n" + code.each + "}\n" + code.after;
  }
  /// For all columns of this thread, which are the same in each phase.
  std::string columns(const Columns &code) const {
    if (chain_.side == 1)
      return loop() + "{\nconst " + type_.name() + " column = lane + k * " + lanes() + ";\n" + opened("column", true) +
             code.each + "}\n}\n";
    const std::string side = std::to_string(chain_.side) + "u";
    return "#pragma unroll\nfor (u32 group = 0; group < " + std::to_string(chain_.perThread / chain_.side) +
           "u; ++group) {\nconst " + type_.name() + " first = (lane + group * " + lanes() + ") * " + side + ";\n" +
           opened("first", true) + ofSide(code) + "}\n}\n";
  }
  /// For all columns of a row that is computed again in each phase: `code` for those that are side by side, `single` for
  /// those that are left at the row's begin and end. Every other phase goes from the end to the begin, since what was
  /// read last is still in a cache.
  std::string columnsAgain(int phase, const Columns &code, const std::string &single) const {
    const std::string unroll = std::to_string(std::max<int64_t>(kColumnsAhead / chain_.side, 1)), index = type_.name();
    std::string text = "#pragma unroll " + unroll + "\nfor (" + index +
                       " group = lane; group < groups; group += " + lanes() + ") {\nconst " + index +
                       " first = head + " + (phase % 2 ? "(groups - 1u - group)" : "group") + " * " +
                       std::to_string(chain_.side) + "u;\n" + ofSide(code) + "}\n";
    if (hasEdges())
      text += "if (lane < edges) {\nconst " + index +
              " column = lane < head ? lane : " + type_.literal(chain_.size.columns) + " - edges + lane;\n" + single +
              "}\n";
    return text;
  }
  bool hasEdges() const { return chain_.shift != 0 || chain_.size.columns % chain_.side != 0; }
  /// The code that finds the columns of a row that are side by side.
  std::string groupsCode() const {
    const std::string index = type_.name(), columns = type_.literal(chain_.size.columns),
                      side = std::to_string(chain_.side) + "u";
    return "const " + index +
           " head = " + (chain_.shift ? "(0u - row * " + type_.literal(chain_.shift) + ") % " + side : "0") +
           ", groups = (" + columns + " - head) / " + side + ", edges = " + columns + " - groups * " + side + ";\n";
  }
  bool isSideBySide(const RowValue &v) const {
    return !single_ && chain_.side > 1 && v.live && v.kind == RowValue::Kind::Load && v.wide &&
           liesSideBySide(v.access, chain_.pointers[v.pointer].data, v.type, chain_.side, chain_.shift);
  }
  bool isSideBySide(const RowStore &s) const {
    return !single_ && chain_.side > 1 && s.wide &&
           isStoredSideBySide(chain_.pointers[s.pointer], chain_.size.columns, chain_.side, chain_.shift);
  }
  std::string sideType(plan::DType type) const {
    return std::string("Side<") + memoryType(type) + ", " + std::to_string(chain_.side) + ">";
  }

  std::string half(const Nest &nest, const std::string &index) const {
    std::string text;
    int64_t step = 1;
    for (size_t d = nest.sizes.size(); d-- > 0; step *= nest.sizes[d]) {
      if (nest.strides[0][d] == 0)
        continue;
      std::string x = index;
      if (step > 1)
        x += " / " + type_.literal(step);
      if (d > 0)
        x = (step > 1 ? "(" + x + ")" : x) + " % " + type_.literal(nest.sizes[d]);
      if (nest.strides[0][d] != 1)
        x = (x == index ? x : "(" + x + ")") + " * " + type_.literal(nest.strides[0][d]);
      text += (text.empty() ? "" : " + ") + x;
    }
    return text;
  }
  std::string address(const RowAccess &access, const std::string &at = "column") const {
    const std::string row = half(access.row, "row"), column = half(access.column, at);
    return row.empty() && column.empty() ? type_.literal(0)
           : row.empty()                 ? column
           : column.empty()              ? row
                                         : row + " + " + column;
  }

  /// Whether columns 4 n to 4 n + 3 have random numbers of one counter.
  bool drawsByFour(const RowValue &v) const {
    const Nest &column = v.access.column;
    return column.sizes.size() == 1 && column.strides[0][0] == 1 && v.instr.globalOffset % 4 == 0 &&
           std::ranges::all_of(v.access.row.strides[0], [](int64_t stride) { return stride % 4 == 0; });
  }
  /// The same for a quarter of the column.
  static RowAccess quarters(RowAccess access) {
    for (int64_t &stride : access.row.strides[0])
      stride /= 4;
    return access;
  }

  std::string sumOf(size_t c) const { return name("c", c) + (chain_.sums[c].of == RowSum::Of::Column ? "[k]" : ""); }
  /// The code that adds to the sums over the rows in this phase: either those of columns, or those of numbers per row.
  std::string addToSums(int phase, bool perRow) const {
    std::string text;
    for (size_t c = 0; c < chain_.sums.size(); ++c)
      if (const RowSum &sum = chain_.sums[c]; sum.phase == phase && (sum.of == RowSum::Of::PerRow) == perRow)
        text += sumOf(c) + " = " +
                combined(sum.reduction, sumOf(c),
                         std::string("(") + sumType(valueClass(sum.to.dtype)) + ")" + use(sum.value)) +
                ";\n";
    return text;
  }

  /// The code that adds a sum over the rows over the groups of threads of the block, and writes it.
  std::string sumOfBlock(size_t c) {
    const RowSum &sum = chain_.sums[c];
    const bool column = sum.of == RowSum::Of::Column;
    std::string value = sumOf(c), text;
    if (together_ > 1) {
      const std::string type = typeOf(sum), s = type == "i64" ? "s_whole" : "s_sums";
      if (shared_.find(" " + s + "[") == std::string::npos)
        shared_ += "__shared__ " + type + " " + s + "[" + std::to_string(block_) + "];\n";
      text = "__syncthreads();\n" + s + "[t] = " + value +
             ";\n__syncthreads();\nfor (u32 h = " + std::to_string(together_ / 2) +
             "u; h > 0; h >>= 1) {\nif (t < h * " + lanes() + ")\n" + s +
             "[t] = " + combined(sum.reduction, s + "[t]", s + "[t + h * " + lanes() + "]") +
             ";\n__syncthreads();\n}\n";
      value = s + "[t]";
    }
    if (!column)
      return text + "if (t == 0)\n" + name("q", c) + "[" + part() + "] = " + value + ";\n";
    return loop() + "{\n" + text + columnCode() + "if (t < " + lanes() + ")\n" + name("q", c) + "[" + part() + " * " +
           type_.literal(chain_.size.columns) + " + column] = " + value + ";\n}\n}\n";
  }

  bool held(const RowValue &v) const { return !chain_.again && v.wide && v.lastPhase > v.phase; }
  std::string use(uint32_t v) const { return name("v", v) + (held(chain_.values[v]) ? "[k]" : ""); }

  std::string expression(uint32_t i) const {
    const RowValue &v = chain_.values[i];
    switch (v.kind) {
    case RowValue::Kind::Load:
      if (isSideBySide(v))
        return loadCode(v.type, name("l", i) + ".e[e]");
      return loadCode(v.type, name("p", v.pointer) + "[" + address(v.access) + "]");
    case RowValue::Kind::Reduce:
      return std::string("(") + valueType(valueClass(v.type)) + ")" + name("a", i);
    case RowValue::Kind::Round:
      return loadCode(v.type, "(" + storeCode(v.type, use(v.operand)) + ")");
    case RowValue::Kind::Compute:
      break;
    }
    std::array<std::string, 3> operands;
    for (uint32_t o = 0; o < v.instr.arity; ++o)
      operands[o] = use(v.instr.operands[o]);
    if (v.instr.op == Op::Random && drawsByFour(v))
      return randomCode(v.instr, operands[0], address(quarters(v.access), "(column >> 2)"), "(u32)column & 3u");
    const bool indexed = v.instr.op == Op::Iota || v.instr.op == Op::Random;
    return instructionCode(v.instr, v.instr.arity ? chain_.values[v.instr.operands[0]].type : v.type, operands,
                           indexed ? address(v.access) : "");
  }
  std::string define(uint32_t i) const {
    const RowValue &v = chain_.values[i];
    return held(v) ? name("v", i) + "[k] = " + expression(i) + ";\n"
                   : std::string("const ") + valueType(valueClass(v.type)) + " " + name("v", i) + " = " +
                         expression(i) + ";\n";
  }

  std::string rowsCode() {
    std::string text = chain_.again ? groupsCode() : "";
    for (uint32_t i = 0; i < chain_.values.size(); ++i)
      if (const RowValue &v = chain_.values[i]; v.live && held(v))
        text += std::string(valueType(valueClass(v.type))) + " " + name("v", i) + each() + ";\n";
    for (int phase = 0; phase < chain_.phases; ++phase)
      text += perRow(phase) + wide(phase) + totals(phase);
    return text;
  }

  /// The code for numbers per row that follow from the reductions before this phase.
  std::string perRow(int phase) const {
    std::string text, stores;
    for (uint32_t i = 0; i < chain_.values.size(); ++i)
      if (const RowValue &v = chain_.values[i]; v.live && !v.wide && v.level == phase)
        text += define(i);
    for (const RowStore &s : chain_.stores)
      if (!s.wide && s.phase == phase)
        stores += name("p", s.pointer) + "[row] = " + storeCode(s.type, use(s.value)) + ";\n";
    if (!stores.empty())
      text += std::string("if (lane == 0u") + (lastIsPart() ? " && inside" : "") + ") {\n" + stores + "}\n";
    if (const std::string sums = addToSums(phase, true); !sums.empty())
      text += lastIsPart() ? "if (inside) {\n" + sums + "}\n" : sums;
    return text;
  }

  std::string wide(int phase) {
    std::string sums;
    for (uint32_t i : reductions(phase)) {
      const RowValue &v = chain_.values[i];
      sums += accumulator(v) + " " + name("a", i) + " = " + neutral(v.reduction, v.type) + ";\n";
    }
    const Columns code = columnsOf(phase);
    if (code.each.empty())
      return sums;
    if (!chain_.again)
      return sums + columns(code);
    single_ = true;
    const Columns alone = columnsOf(phase);
    single_ = false;
    return sums + columnsAgain(phase, code, alone.each);
  }
  Columns columnsOf(int phase) const {
    Columns code;
    const std::vector<bool> again = chain_.again ? neededIn(chain_, phase) : std::vector<bool>();
    for (uint32_t i = 0; i < chain_.values.size(); ++i)
      if (const RowValue &v = chain_.values[i]; v.live && v.wide && (chain_.again ? again[i] : v.phase == phase)) {
        code.each += define(i);
        if (isSideBySide(v))
          code.before += "const " + sideType(v.type) + " " + name("l", i) + " = *(const " + sideType(v.type) + " *)(" +
                         name("p", v.pointer) + " + " + address(v.access, "first") + ");\n";
      }
    for (uint32_t i : reductions(phase)) {
      const RowValue &v = chain_.values[i];
      const std::string a = name("a", i);
      code.each += a + " = " + combined(v.reduction, a, "(" + accumulator(v) + ")" + use(v.operand)) + ";\n";
    }
    code.each += addToSums(phase, false);
    for (size_t n = 0; n < chain_.stores.size(); ++n) {
      const RowStore &s = chain_.stores[n];
      if (!s.wide || s.phase != phase)
        continue;
      const int64_t pitch = chain_.pointers[s.pointer].pitch;
      const std::string to = name("p", s.pointer), value = storeCode(s.type, use(s.value)),
                        row = "row * " + type_.literal(pitch ? pitch : chain_.size.columns) + " + ";
      if (!isSideBySide(s)) {
        code.each += to + "[" + row + "column] = " + value + ";\n";
        continue;
      }
      code.before += sideType(s.type) + " " + name("w", n) + ";\n";
      code.each += name("w", n) + ".e[e] = " + value + ";\n";
      code.after += "*(" + sideType(s.type) + " *)(" + to + " + " + row + "first) = " + name("w", n) + ";\n";
    }
    return code;
  }

  std::vector<uint32_t> reductions(int phase) const {
    std::vector<uint32_t> found;
    for (uint32_t i = 0; i < chain_.values.size(); ++i)
      if (const RowValue &v = chain_.values[i]; v.live && v.kind == RowValue::Kind::Reduce && v.level - 1 == phase)
        found.push_back(i);
    return found;
  }

  static std::string accumulator(const RowValue &v) { return reducedType(v.reduction, valueClass(v.type)); }

  std::string totals(int phase) {
    std::vector<Total> list;
    for (uint32_t i : reductions(phase))
      list.push_back({name("a", i), chain_.values[i].reduction, accumulator(chain_.values[i])});
    if (!list.empty() && chain_.threads > 32)
      ++exchanges_;
    return total(list);
  }

  /// Every thread of a row gets the same bits: neighbours are added in the order of their lanes, first within a warp,
  /// then warp by warp.
  std::string total(const std::vector<Total> &list) {
    if (list.empty())
      return "";
    const int64_t warp = std::min<int64_t>(32, chain_.threads), warps = chain_.threads / 32;
    const std::string first = "t / " + lanes() + " * " + std::to_string(warps) + "u";
    std::string within, keep, across;
    for (const auto &[a, reduction, sum] : list) {
      const std::string s = "s_" + a, mine = combined(reduction, a, "other");
      // Both lanes of a pair make the same sum. Which of two zeros is the larger depends on the order.
      within += "{ const " + sum + " other = __shfl_xor_sync(0xffffffffu, " + a + ", (int)h);\n" + a + " = " +
                (reduction == plan::SUM ? mine : "lane & h ? " + combined(reduction, "other", a) + " : " + mine) +
                "; }\n";
      if (warps <= 1)
        continue;
      shared_ += "__shared__ " + sum + " " + s + "[" + std::to_string(block_ / 32) + "];\n";
      keep += s + "[t / 32u] = " + a + ";\n";
      across += a + " = " + s + "[" + first + "];\n#pragma unroll\nfor (u32 w = 1; w < " + std::to_string(warps) +
                "u; ++w) " + a + " = " + combined(reduction, a, s + "[" + first + " + w]") + ";\n";
    }
    return "#pragma unroll\nfor (u32 h = 1; h < " + std::to_string(warp) + "u; h <<= 1) {\n" + within + "}\n" +
           (warps > 1 ? "if (t % 32u == 0) {\n" + keep + "}\n__syncthreads();\n" + across : "");
  }

  static std::string typeOf(const RowSum &sum) { return sumType(valueClass(sum.to.dtype)); }
  int64_t numbersOf(const RowSum &sum) const { return sum.of == RowSum::Of::Column ? chain_.size.columns : 1; }

  bool fewRegisters() const { return resident_ * block_ > kThreadsEnough; }

  /// The blocks whose sums one block adds: by what arrivals and reads take one after the other, in bytes that a
  /// multiprocessor reads meanwhile. The compiler holds what each level needs from the begin, so that threads with few
  /// registers have two levels at most.
  int64_t fanIn() const {
    constexpr double kArrival = 100e3, kLeast = 2e3;
    const int levelsAtMost = fewRegisters() ? 2 : 4;
    double bytes = 0, best = 0;
    for (const RowSum &sum : chain_.sums)
      bytes += std::max(kLeast, double(numbersOf(sum)) / double(chain_.slices) * 8);
    int64_t found = blocks_;
    for (int levels = 1; levels <= levelsAtMost; ++levels) {
      const auto fan = int64_t(std::ceil(std::pow(double(blocks_), 1.0 / levels) - 1e-9));
      const double cost = levels * (kArrival + double(fan) * bytes);
      if (levels > 1 && cost >= best)
        continue;
      best = cost;
      found = std::max<int64_t>(fan, 2);
    }
    return found;
  }

  /// The sums of all blocks, added in the order of the blocks. The last block of a group to arrive adds those of its
  /// group and leaves them in the place of the group's first block. So do groups of groups, and the last group to arrive
  /// adds those of the groups.
  void endSums(SumEnd &end, Launch &launch) const {
    auto literal = [](int64_t v) { return std::to_string(v) + "u"; };
    const int64_t fan = fanIn();
    int64_t counters = 1;
    for (int64_t nodes = blocks_; nodes > fan; counters += nodes)
      nodes = (nodes + fan - 1) / fan;
    launch.counters = uint32_t(counters * chain_.slices);
    end.counts = true;
    end.alone = chain_.slices == 1;
    const std::string slice =
        chain_.slices > 1 ? "blockIdx.x % " + literal(chain_.slices) + " * " + literal(counters) + " + " : "";
    end.before += "__shared__ u32 arrived;\n";
    int64_t stride = 1, nodes = blocks_, counter = 0; // stride: of the blocks that hold what is added
    for (int level = 0; nodes > fan; ++level) {
      const int64_t groups = (nodes + fan - 1) / fan, rest = nodes - (groups - 1) * fan;
      const std::string group = name("group", size_t(level)), first = group + " * " + literal(stride * fan),
                        size = rest == fan ? literal(fan)
                                           : "(" + group + " == " + literal(groups - 1) + " ? " + literal(rest) +
                                                 " : " + literal(fan) + ")";
      end.before += "const u32 " + group + " = " + part() + " / " + literal(stride * fan) + ";\n" +
                    arrival(slice + literal(counter) + " + " + group, size) + addAll({first, size, fan, stride}, false);
      counter += groups;
      stride *= fan;
      nodes = groups;
    }
    end.before +=
        arrival(slice + literal(counter), literal(nodes)) + addAll({literal(0), literal(nodes), nodes, stride}, true);
    end.after = "}\n";
    const int64_t numbers = numbersOf(chain_.sums.front());
    const bool alike = std::ranges::all_of(chain_.sums, [&](const RowSum &sum) { return numbersOf(sum) == numbers; });
    launch.points = alike ? numbers : 0;
  }

  /// Blocks whose sums are added: the first, how many there are and may be, and by how many they are apart.
  struct Blocks {
    std::string first, count;
    int64_t most, stride;
  };
  /// The code that adds the sums of some blocks. `last`: and stores the results, without the end of its last loop.
  /// Otherwise they are left in the place of the first block.
  std::string addAll(const Blocks &blocks, bool last) const {
    std::string text;
    for (const bool columns : {true, false}) {
      std::string added, stored;
      int64_t numbers = 0;
      for (size_t c = 0; c < chain_.sums.size(); ++c) {
        const RowSum &sum = chain_.sums[c];
        if ((sum.of == RowSum::Of::Column) != columns)
          continue;
        const std::string total = name("total", c);
        numbers = numbersOf(sum);
        added += addedOf(c, total, blocks);
        stored += last ? name("out", c) + "[i] = " + finished(sum.to.dtype, total) + ";\n"
                       : "((volatile " + typeOf(sum) + " *)" + name("q", c) + ")[" + blocks.first + " * " +
                             std::to_string(numbers) + "u + i] = " + total + ";\n";
      }
      if (numbers > 0)
        text += (text.empty() ? "" : "}\n") + eachNumber(numbers) + added + stored;
    }
    return text + (last ? "" : "}\n");
  }

  /// Opens a loop over the numbers of a sum.
  std::string eachNumber(int64_t numbers) const {
    const std::string index = type_.name(), step = std::to_string(block_) + "u) {\n";
    if (chain_.slices == 1)
      return "for (" + index + " i = t; i < " + type_.literal(numbers) + "; i += " + step;
    const std::string begin =
        "blockIdx.x % " + std::to_string(chain_.slices) + "u * " + type_.literal(numbers / chain_.slices);
    return "for (" + index + " i = " + begin + " + t; i < " + begin + " + " + type_.literal(numbers / chain_.slices) +
           "; i += " + step;
  }

  /// Only the last block of `blocks` goes on, and sees what the others have written.
  static std::string arrival(const std::string &counter, const std::string &blocks) {
    return "__threadfence();\n__syncthreads();\nif (t == 0u)\narrived = atomicAdd(counters + " + counter +
           ", 1u) + 1u;\n__syncthreads();\nif (arrived != " + blocks + ") return;\nif (t == 0u)\ncounters[" + counter +
           "] = 0u;\n__threadfence();\n";
  }

  /// Number i of sum `c` of some blocks as a variable.
  std::string addedOf(size_t c, const std::string &variable, const Blocks &blocks) const {
    const RowSum &sum = chain_.sums[c];
    const std::string type = typeOf(sum), numbers = std::to_string(numbersOf(sum)) + "u", parts = name("parts", c);
    // The loads of all sums are on their way together.
    const int64_t most =
        fewRegisters() ? std::max<int64_t>(kBlocksAhead / int64_t(chain_.sums.size()), 1) : kBlocksAhead;
    const bool once = blocks.most <= most;
    const std::string none = neutral(sum.reduction, sum.to.dtype),
                      ahead = std::to_string(once ? blocks.most : most) + "u";
    const std::string each = "#pragma unroll\nfor (u32 b = 0; b < " + ahead + "; ++b)\n",
                      block = once ? "b" : "(block + b)";
    // Volatile, because a multiprocessor's own cache may hold what stood there before.
    const std::string add = type + " " + parts + "[" + ahead + "];\n" + each + parts + "[b] = " + block + " < " +
                            blocks.count + " ? ((const volatile " + type + " *)" + name("q", c) + ")[(" + blocks.first +
                            " + " + block + " * " + std::to_string(blocks.stride) + "u) * " + numbers +
                            " + i] : " + none + ";\n" + each + variable + " = " +
                            combined(sum.reduction, variable, parts + "[b]") + ";\n";
    return type + " " + variable + " = " + none + ";\n" +
           (once ? add : "for (u32 block = 0; block < " + blocks.count + "; block += " + ahead + ") {\n" + add + "}\n");
  }

  const RowChain &chain_;
  const int64_t lanes_;            // threads of a block that do the same row
  const int64_t block_, together_; // threads, and rows at a time
  const IndexType type_;
  int64_t resident_ = 0;            // blocks of a multiprocessor; 0: not known
  int64_t groups_ = 1, blocks_ = 1; // blocks: that share the rows, of each slice
  std::string shared_;
  bool single_ = false; // the code is for one column, also where others are side by side
  int exchanges_ = 0;   // of totals through shared memory, for each row
};

} // namespace

CudaKernel bindRows(const RowChain &chain) { return Writer(chain).kernel(); }

} // namespace tessera::rt::cuda
