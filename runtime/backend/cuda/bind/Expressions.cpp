// Elementwise chains and reductions as kernels of their own.
//
// Results without a reduction share one kernel, one thread per point of the domain. Results that reduce the
// same dimensions share another: a block of 256 threads is seen as TX results times TY points of the reduction
// each; every thread sums its share in F64, then a tree in shared memory adds the TY shares. Where that would
// leave the device idle, the reduction is cut into S parts, and the last block of the TX results to arrive adds the
// sums of the parts in their order. Blocks count themselves by an atomic operation, but no number is added by one: the
// result is the same on every run. Where results of several kinds fit the same rows, one kernel makes them all
// (RowChain.h). Sums of reproducible plans have another kernel (OrderedSums.h).
#include "runtime/backend/cuda/bind/LoopTable.h"
#include "runtime/backend/cuda/bind/OrderedSums.h"
#include "runtime/backend/cuda/bind/PointCode.h"
#include "runtime/backend/cuda/bind/RowPieces.h"
#include "runtime/backend/cuda/text/Pointwise.h"
#include "runtime/backend/cuda/text/Source.h"

#include <algorithm>
#include <functional>
#include <map>

namespace tessera::rt::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kFullDevice = 528;          // blocks: four per multiprocessor of an H200
constexpr int64_t kEveryProcessorTwice = 264; // blocks of threads that have many loads on their way
constexpr int64_t kFewPoints = 1024;          // of a sum that one launch makes, although it leaves the device idle
constexpr int64_t kAccessBytes = 16;          // the most that a thread moves at once
constexpr int64_t kLineBytes = 128;           // of memory, which neighbouring threads move together
constexpr int64_t kMostSumsOfThread = 32;
constexpr int64_t kMostWordsAtOnce = 32; // registers for loads that are on their way

/// Whether `each` neighbouring elements are one access, of at most 16 bytes.
bool isAccess(plan::DType type, const Place &place, int64_t each) {
  const uint64_t bytes = uint64_t(bytesPerElement(type)) * uint64_t(each);
  return bytes <= uint64_t(kAccessBytes) && place.value % bytes == 0 && place.perIndex % bytes == 0;
}

Launch elementwise(const ExpressionCode &e, const KernelCall &call, const std::vector<size_t> &rs,
                   const std::vector<Place> &outputs, bool apart) {
  PointCode code(e, rs);
  PointLoop loop;
  std::vector<Place> arguments;
  loop.parameters = code.parameters(call, arguments);
  loop.index = code.type();
  loop.apart = apart;
  // Eight points for a thread where that makes no access smaller than four points would.
  const std::vector<size_t> inputs = code.inputs();
  std::vector<bool> together(e.inputs.size(), false);
  auto mark = [&](int64_t each) {
    bool all = true;
    for (size_t p = 0; p < inputs.size(); ++p) {
      together[inputs[p]] = code.liesBeside(inputs[p], each) && isAccess(code.typeOf(inputs[p]), arguments[p], each);
      all = all && (together[inputs[p]] || !code.liesBeside(inputs[p], 4));
    }
    for (size_t i = 0; i < rs.size(); ++i)
      all = all && (!code.isStoredAlong(i) || isAccess(code.result(i).type, outputs[rs[i]], each));
    return all;
  };
  for (const int64_t each : {8, 4})
    if (loop.each = each; mark(each))
      break;
  const bool neighbours = code.mayDoNeighbours(together);
  if (!neighbours)
    loop.each = 4;
  for (size_t p = 0; p < inputs.size(); ++p) {
    loop.parameters[p].together = neighbours && together[inputs[p]];
    if (!loop.parameters[p].together || code.liesAlong(inputs[p]))
      continue;
    loop.parameters[p].place = code.place(inputs[p], "x");
    loop.parameters[p].firstPlace = code.place(inputs[p], "f");
    loop.firstIndices = code.firstIndices();
  }
  std::string stores;
  for (size_t i = 0; i < rs.size(); ++i) {
    const std::string name = "out" + std::to_string(i);
    loop.parameters.push_back(
        {memoryType(code.result(i).type), name,
         neighbours && code.isStoredAlong(i) && isAccess(code.result(i).type, outputs[rs[i]], loop.each)});
    stores += name + "[" + code.placeOf(i) + "] = " + storeCode(code.result(i).type, code.valueOf(i)) + ";\n";
    arguments.push_back(outputs[rs[i]]);
  }
  const bool byFour = code.drawsByFour();
  auto element = [&](size_t input) {
    return code.liesAlong(input) ? "in" + std::to_string(input) + "[i]" : code.element(input);
  };
  loop.body = code.indices(byFour) + code.body(element, byFour) + stores;
  return launchLoop(std::move(loop), elementCount(e.domain), std::move(arguments));
}

/// How the inputs of a reduction are read.
struct SumReads {
  int64_t side = 1;                   // neighbouring results of a thread
  std::vector<size_t> beside, others; // read at each point: for all of these results by one access, and by one each
  std::vector<size_t> still;          // the same at each point
  int64_t words = 0;                  // registers that the elements of a point take
};

SumReads readsOf(const PointCode &code, const std::vector<Place> &arguments) {
  SumReads reads;
  const Shape &sizes = code.nest().sizes, &results = code.resultStrides();
  const std::vector<size_t> inputs = code.inputs();
  auto isStill = [&](size_t input) {
    for (size_t d = 0; d < sizes.size(); ++d)
      if (results[d] == 0 && code.strides(input)[d] != 0)
        return false;
    return true;
  };
  auto isBeside = [&](size_t i, int64_t side) {
    const Shape &strides = code.strides(inputs[i]);
    const uint64_t bytes = bytesPerElement(code.typeOf(inputs[i])) * uint64_t(side);
    return !isStill(inputs[i]) && strides.back() == 1 && bytes <= kAccessBytes && arguments[i].value % bytes == 0 &&
           arguments[i].perIndex % bytes == 0 &&
           std::all_of(strides.begin(), strides.end() - 1, [&](int64_t stride) { return stride % side == 0; });
  };
  auto fits = [&](int64_t side) {
    bool any = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      any = any || isBeside(i, side);
      if (!isBeside(i, side) && !isStill(inputs[i]) && code.strides(inputs[i]).back() != 0)
        return false;
    }
    return any && sizes.back() % side == 0 && side * int64_t(code.results().size()) <= kMostSumsOfThread;
  };
  if (!sizes.empty() && results.back() != 0)
    for (const int64_t side : {8, 4, 2})
      if (reads.side == 1 && fits(side))
        reads.side = side;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool beside = reads.side > 1 && isBeside(i, reads.side);
    const int64_t bytes = int64_t(bytesPerElement(code.typeOf(inputs[i]))) * (beside ? reads.side : 1);
    (isStill(inputs[i]) ? reads.still : beside ? reads.beside : reads.others).push_back(inputs[i]);
    if (!isStill(inputs[i]))
      reads.words += (bytes + 3) / 4;
  }
  return reads;
}

/// How a block and the grid share a reduction of K results over R points each.
struct Shares {
  int64_t tx = 1, ty = kThreads, parts = 1, blocks = 1;
  int64_t atOnce = 4; // points of a thread whose loads are on their way together
};

Shares shareOut(int64_t results, int64_t points, bool innerReduced, const SumReads &reads) {
  Shares s;
  const bool few = points <= kFewPoints && results < 32 * kFullDevice;
  if (innerReduced)
    s.tx = points <= 8 ? kThreads : points <= 64 ? 32 : points <= 512 ? 8 : 1;
  else if (reads.side > 1)
    s.tx = points <= 64 ? 32 : kLineBytes / kAccessBytes;
  else
    s.tx = points <= 16 ? kThreads : few ? 8 : 32;
  s.ty = kThreads / s.tx;
  while (s.atOnce > 1 && s.atOnce * reads.words > kMostWordsAtOnce)
    s.atOnce /= 2;
  s.blocks = (results + s.tx * reads.side - 1) / (s.tx * reads.side);
  const int64_t full = reads.side > 1 ? kEveryProcessorTwice : kFullDevice;
  if (s.blocks < full && !few) {
    s.parts = std::clamp<int64_t>(full / std::max<int64_t>(s.blocks, 1), 1, std::max<int64_t>(1, points / (s.ty * 8)));
    // As few as leave the longest of them as long as it is.
    const int64_t steps = (points + s.ty * s.atOnce - 1) / (s.ty * s.atOnce), longest = (steps + s.parts - 1) / s.parts;
    s.parts = (steps + longest - 1) / longest;
  }
  return s;
}

/// Writes the kernel that makes sums, and what follows from them in the thread that has them.
class SumCode {
public:
  SumCode(const ExpressionCode &e, const KernelCall &call, const std::vector<size_t> &rs,
          const std::vector<Place> &outputs)
      : code_(e, rs), rs_(rs), outputs_(outputs), type_(code_.type()), index_(type_.name()) {
    // Kept dimensions first in the numbering of results, reduced ones in that of points.
    const Shape &strides = code_.resultStrides(), &sizes = code_.nest().sizes;
    for (size_t d = 0; d < sizes.size(); ++d)
      (strides[d] != 0 ? kept_ : reduced_).push_back(sizes[d]);
    results_ = elementCount(e.results[rs[0]].view);
    points_ = elementCount(reduced_);
    innerReduced_ = sizes.empty() || strides.back() == 0;
    end_.index = type_;
    end_.parameters = code_.parameters(call, launch_.arguments);
    reads_ = readsOf(code_, launch_.arguments);
    s_ = shareOut(results_, points_, innerReduced_, reads_);
  }

  void addTo(CudaKernel &kernel) {
    if (results_ == 0)
      return;
    if (s_.parts > 1) {
      end_.parameters.push_back({"u64", "parts"});
      launch_.arguments.push_back(kernel.reserve(rs_.size() * uint64_t(s_.parts * results_) * 8));
    }
    for (size_t n = 0; n < rs_.size(); ++n)
      if (isStored(n)) {
        end_.parameters.push_back({memoryType(code_.result(n).type), "out" + std::to_string(n)});
        launch_.arguments.push_back(outputs_[rs_[n]]);
      }
    end_.resident = reads_.side > 1 ? 2 : 1;
    if (reads_.side > 1)
      end_.declarations = "template <typename T, int N> struct alignas(N * sizeof(T)) Side { T e[N]; };\n";
    end_.before = sharesOfThreads() + totalsOfBlock();
    if (s_.parts > 1) {
      launch_.counters = uint32_t(s_.blocks);
      end_.counts = true;
      end_.alone = s_.blocks == 1;
      end_.before += totalsOfParts();
    } else {
      end_.before += one();
    }
    for (size_t n = 0; n < rs_.size(); ++n)
      end_.before += total(n);
    end_.after = "}\n";
    launch_.source = end_.source();
    launch_.grid = {uint32_t(s_.blocks), uint32_t(s_.parts), 1};
    launch_.points = results_;
    launch_.end = std::make_shared<const SumEnd>(std::move(end_));
    kernel.actions.emplace_back(std::move(launch_));
  }

private:
  static std::string literal(int64_t v) { return std::to_string(v) + "u"; }
  std::string sum(size_t n) const { return sumType(valueClass(code_.result(n).type)); }
  std::string none(size_t n) const { return neutral(code_.result(n).reduction, code_.result(n).type); }
  std::string added(size_t n, const std::string &a, const std::string &b) const {
    return a + " = " + combined(code_.result(n).reduction, a, b) + ";\n";
  }
  bool isStored(size_t n) const { return rs_[n] < outputs_.size(); }
  std::string eachSide() const { return "#pragma unroll\nfor (u32 e = 0; e < " + literal(reads_.side) + "; ++e) "; }
  std::string width() const { return literal(s_.tx * reads_.side); } // results of a block
  std::string one() const { return "if (t < " + width() + " && i < " + type_.literal(results_) + ") {\n"; }

  /// The indices x0, x1, ... of result k0, k1, ... at a point.
  std::string indices(const std::string &point, bool besides) const {
    std::string text = indexCode(reduced_, point, type_, "r");
    size_t kept = 0, reduced = 0;
    const Shape &strides = code_.resultStrides();
    for (size_t d = 0; d < strides.size(); ++d) {
      const std::string from = strides[d] != 0 ? "k" + std::to_string(kept++) : "r" + std::to_string(reduced++);
      text += "const " + index_ + " x" + std::to_string(d) + " = " + from +
              (besides && reads_.side > 1 && d + 1 == strides.size() ? " + e" : "") + ";\n";
    }
    return text;
  }
  std::string typeAtOnce(size_t input) const {
    const std::string element = memoryType(code_.typeOf(input));
    return isBeside(input) ? "Side<" + element + ", " + std::to_string(reads_.side) + ">" : element;
  }
  bool isBeside(size_t input) const { return std::ranges::find(reads_.beside, input) != reads_.beside.end(); }

  /// Reads so many points of a thread, from `point` on, and adds them: first all loads, with no condition between them.
  std::string steps(int64_t points) const {
    std::string arrays, loads, sums;
    const std::string each = "#pragma unroll\nfor (u32 u = 0; u < " + literal(points) + "; ++u) {\n",
                      at = "(point + u * " + literal(s_.ty) + ")";
    for (const std::vector<size_t> *inputs : {&reads_.beside, &reads_.others})
      for (const size_t input : *inputs) {
        const std::string l = "l" + std::to_string(input), as = typeAtOnce(input);
        arrays += as + " " + l + "[" + std::to_string(points) + "];\n";
        loads += l +
                 "[u] = " + (isBeside(input) ? "*(const " + as + " *)&" + code_.element(input) : code_.element(input)) +
                 ";\n";
      }
    for (size_t n = 0; n < rs_.size(); ++n)
      sums += added(n, "a" + std::to_string(n) + "[e]", "(" + sum(n) + ")" + code_.valueOf(n));
    const std::string body = code_.body([&](size_t input) {
      const std::string number = std::to_string(input);
      return std::ranges::find(reads_.still, input) != reads_.still.end()
                 ? "h" + number + "[e]"
                 : "l" + number + "[u]" + (isBeside(input) ? ".e[e]" : "");
    });
    return arrays + (loads.empty() ? "" : each + indices(at, false) + loads + "}\n") + each + eachSide() + "{\n" +
           indices(at, true) + body + sums + "}\n}\n";
  }

  /// Every thread sums its share of the points of its results.
  std::string sharesOfThreads() const {
    std::string start, still;
    for (size_t n = 0; n < rs_.size(); ++n) {
      const std::string a = "a" + std::to_string(n) + "[";
      start += sum(n) + " " + a + std::to_string(reads_.side) + "];\n" + eachSide() + a + "e] = " + none(n) + ";\n";
    }
    for (const size_t input : reads_.still) {
      const std::string h = "h" + std::to_string(input) + "[";
      start += std::string(memoryType(code_.typeOf(input))) + " " + h + std::to_string(reads_.side) + "];\n";
      still += h + "e] = " + code_.element(input) + ";\n";
    }
    if (!still.empty())
      still = eachSide() + "{\n" + indices("0", true) + still + "}\n";
    // Neighbouring threads take neighbouring elements: of the reduction if its dimension is innermost.
    const std::string tx = innerReduced_ ? "t / " + literal(s_.ty) : "t % " + literal(s_.tx),
                      ty = innerReduced_ ? "t % " + literal(s_.ty) : "t / " + literal(s_.tx),
                      points = type_.literal(points_), most = literal((s_.atOnce - 1) * s_.ty);
    return "const u32 t = threadIdx.x, tx = " + tx + ", ty = " + ty + ";\nconst " + index_ +
           " first = (blockIdx.x * (" + index_ + ")" + literal(s_.tx) + " + tx) * " + literal(reads_.side) + ";\n" +
           start + "if (first < " + type_.literal(results_) + ") {\n" + indexCode(kept_, "first", type_, "k") + still +
           index_ + " point = blockIdx.y * (" + index_ + ")" + literal(s_.ty * s_.atOnce) + " + ty;\nfor (; point + " +
           most + " < " + points + "; point += " + type_.literal(s_.ty * s_.atOnce * s_.parts) + ") {\n" +
           steps(s_.atOnce) + "}\n" +
           (s_.atOnce > 1 ? "#pragma unroll 1\nfor (; point < " + points + "; point += " + literal(s_.ty) + ") {\n" +
                                steps(1) + "}\n"
                          : "") +
           "}\n";
  }

  /// Thread t < tx * side gets the sums s0, s1, ... of result number i of the block. Threads of a result are added as a
  /// tree, first those within a warp.
  std::string totalsOfBlock() const {
    const int64_t apart = innerReduced_ ? 1 : s_.tx; // lanes between neighbouring threads of a result
    const int64_t within = apart >= 32 ? 1 : std::min<int64_t>(32 / apart, s_.ty), groups = s_.ty / within;
    std::string text = "const " + index_ + " i = blockIdx.x * (" + index_ + ")" + width() + " + t;\n", declared;
    for (const char *type : {"double", "i64"})
      for (size_t n = 0; n < rs_.size(); ++n)
        if (sum(n) == type && declared.find(type) == std::string::npos)
          declared += "__shared__ " + sum(n) + " shared_" + type + "[" +
                      std::to_string(std::max(groups * s_.tx * reads_.side, kThreads)) + "];\n";
    for (size_t n = 0; n < rs_.size(); ++n) {
      const std::string number = std::to_string(n), shared = "shared_" + sum(n), s = "s" + number;
      text += eachSide() + "{\n" + sum(n) + " a = a" + number + "[e];\n";
      if (within > 1)
        text += "#pragma unroll\nfor (u32 h = " + literal(apart) + "; h < " + literal(apart * within) +
                "; h <<= 1) {\nconst " + sum(n) + " other = __shfl_xor_sync(0xffffffffu, a, (int)h);\na = t & h ? " +
                combined(code_.result(n).reduction, "other", "a") + " : " +
                combined(code_.result(n).reduction, "a", "other") + ";\n}\n";
      text += "if (ty % " + literal(within) + " == 0)\n" + shared + "[ty / " + literal(within) + " * " + width() +
              " + tx * " + literal(reads_.side) + " + e] = a;\n}\n__syncthreads();\n" + sum(n) + " " + s + " = " +
              none(n) + ";\nif (t < " + width() + ") {\n" + s + " = " + shared +
              "[t];\n#pragma unroll 8\nfor (u32 g = 1; g < " + literal(groups) + "; ++g)\n" +
              added(n, s, shared + "[g * " + width() + " + t]") + "}\n__syncthreads();\n";
    }
    return declared + text;
  }

  /// The last block to arrive adds what the parts have, in their order: runs of neighbouring parts by a thread each, and
  /// then the runs.
  std::string totalsOfParts() const {
    const int64_t width = s_.tx * reads_.side, slices = std::min(kThreads / width, s_.parts),
                  run = (s_.parts + slices - 1) / slices;
    std::string text, keep, additions, starts;
    for (size_t n = 0; n < rs_.size(); ++n) {
      const std::string number = std::to_string(n), part = "part" + number;
      // Volatile, because a multiprocessor's own cache may hold what stood there before.
      text += "volatile " + sum(n) + " *" + part + " = (volatile " + sum(n) + " *)parts + " +
              type_.literal(int64_t(n) * s_.parts * results_) + ";\n";
      keep += part + "[blockIdx.y * " + type_.literal(results_) + " + i] = s" + number + ";\n";
      starts += "s" + number + " = " + none(n) + ";\n";
      additions += added(n, "s" + number, part + "[p * " + type_.literal(results_) + " + mine]");
    }
    text +=
        one() + keep + "}\n__threadfence();\n__syncthreads();\n__shared__ u32 arrived;\nif (t == 0u)\n" +
        "arrived = atomicAdd(counters + blockIdx.x, 1u) + 1u;\n__syncthreads();\nif (arrived != " + literal(s_.parts) +
        ") return;\nif (t == 0u)\ncounters[blockIdx.x] = 0u;\n__threadfence();\n" + starts + "const " + index_ +
        " mine = blockIdx.x * (" + index_ + ")" + this->width() + " + t % " + this->width() + ";\nif (t < " +
        literal(slices * width) + " && mine < " + type_.literal(results_) + ") {\nconst u32 begin = t / " +
        this->width() + " * " + literal(run) + ";\n#pragma unroll 8\nfor (u32 p = begin; p < begin + " + literal(run) +
        " && p < " + literal(s_.parts) + "; ++p) {\n" + additions + "}\n}\n";
    for (size_t n = 0; slices > 1 && n < rs_.size(); ++n) {
      const std::string s = "s" + std::to_string(n), shared = "shared_" + sum(n);
      text += (n ? "__syncthreads();\n" : "") + shared + "[t] = " + s + ";\n__syncthreads();\n" + "if (t < " +
              this->width() + ")\n#pragma unroll\nfor (u32 slice = 1; slice < " + literal(slices) + "; ++slice)\n" +
              added(n, s, shared + "[slice * " + this->width() + " + t]");
    }
    return text + one();
  }

  /// Names the total of result `n`, and stores it where somebody reads it.
  std::string total(size_t n) const {
    const std::string number = std::to_string(n), total = "total" + number;
    return "const " + sum(n) + " " + total + " = s" + number + ";\n" +
           (isStored(n) ? "out" + number + "[i] = " + finished(code_.result(n).type, total) + ";\n" : "");
  }

  const PointCode code_;
  const std::vector<size_t> rs_;
  const std::vector<Place> &outputs_;
  const IndexType type_;
  const std::string index_;
  Shape kept_, reduced_;
  int64_t results_ = 0, points_ = 0;
  bool innerReduced_ = false;
  Launch launch_;
  SumEnd end_;
  SumReads reads_;
  Shares s_;
};

} // namespace

CudaKernel bindExpression(const ExpressionCode &e, const KernelCall &call) {
  CudaKernel kernel;
  // Results are grouped by the dimensions that they reduce. Those that reduce nothing come last, since they may
  // overwrite an input.
  std::vector<size_t> plain;
  std::map<Shape, std::vector<size_t>> groups;
  for (size_t r = 0; r < e.results.size(); ++r) {
    if (e.results[r].reduction == plan::NONE)
      plain.push_back(r);
    else
      groups[e.results[r].view].push_back(r);
  }
  // Otherwise every group would be a kernel that reads everything again.
  if (groups.size() + !plain.empty() > 1 && !call.exact)
    if (std::optional<CudaKernel> once = bindPieces({rowPiece(e)}, call))
      return *once;
  std::vector<Place> outputs;
  std::vector<CopyBytes> copies;
  bool apart = true;
  for (size_t r = 0; r < call.outputs.size(); ++r) {
    const TensorView &y = call.outputs[r];
    outputs.push_back(at(y.data));
    bool shares = false;
    for (const TensorView &x : call.inputs)
      shares = shares || overlap(x, y);
    if (!shares)
      continue;
    if (e.results[r].reduction == plan::NONE) {
      apart = false; // an element is read and written by the same thread, point by point
    } else {
      // Other blocks may still read the input when a reduction is written. So it is written to scratch and copied at
      // the end.
      outputs[r] = kernel.reserve(y.bytes());
      copies.push_back({at(y.data), outputs[r], y.bytes()});
    }
  }
  for (const auto &[view, results] : groups)
    for (size_t first = 0; first < results.size(); first += kMostSums) {
      const size_t last = std::min(results.size(), first + kMostSums);
      const std::vector<size_t> sums(results.begin() + long(first), results.begin() + long(last));
      if (!call.exact)
        SumCode(e, call, sums, outputs).addTo(kernel);
      else if (elementCount(e.results[sums[0]].view) > 0)
        kernel.actions.emplace_back(orderedSums(e, call, sums, outputs));
    }
  if (!plain.empty() && elementCount(e.domain) > 0)
    kernel.actions.push_back(elementwise(e, call, plain, outputs, apart));
  for (const CopyBytes &copy : copies)
    kernel.actions.push_back(copy);
  kernel.description = groups.empty() ? "generated" : "generated reduction";
  return kernel;
}

} // namespace tessera::rt::cuda
