// Elementwise chains and reductions as kernels of their own.
//
// Results without a reduction share one kernel, one thread per point of the domain. Results that reduce the
// same dimensions share another: a block of 256 threads is seen as TX results times TY points of the reduction
// each; every thread sums its share in F64, then a tree in shared memory adds the TY shares. Where that would
// leave the device idle, the reduction is cut into S parts, and the last block of the TX results to arrive adds the
// sums of the parts in their order. Blocks count themselves by an atomic operation, but no number is added by one: the
// result is the same on every run. Where results of several kinds fit the same rows, one kernel makes them all
// (RowChain.h).
#include "runtime/backend/cuda/bind/LoopTable.h"
#include "runtime/backend/cuda/bind/RowPieces.h"
#include "runtime/backend/cuda/text/Pointwise.h"
#include "runtime/backend/cuda/text/Source.h"

#include <algorithm>
#include <map>

namespace tessera::rt::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kFullDevice = 528; // blocks: four per multiprocessor of an H200
constexpr int64_t kFewPoints = 1024; // of a sum that one launch makes, although it leaves the device idle

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

  /// Whether a thread of a loop may do neighbouring points: what is no element for each of them is small, and so in a
  /// cache.
  bool mayDoNeighbours() const {
    constexpr int64_t kSmall = 16; // points for each element
    for (size_t i = 0; i < e_.inputs.size(); ++i)
      if (live_[i] && !liesAlong(i) && elementCount(e_.inputs[i].view) * kSmall > elementCount(e_.domain))
        return false;
    return true;
  }
  /// Whether element i of an input belongs to point i.
  bool liesAlong(size_t input) const {
    const Shape &strides = nest_.strides[slots_.at(input)];
    return !strides.empty() && strides == rowMajorStrides(nest_.sizes);
  }

  /// Computes every live value at the point i with the indices x0, x1, ... `along`: inputs that lie along are read at i.
  std::string body(bool along = false) const {
    std::string text;
    for (size_t v = 0; v < live_.size(); ++v) {
      if (!live_[v])
        continue;
      const bool input = v < e_.inputs.size();
      plan::DType type = e_.typeOf(uint32_t(v));
      std::string value =
          input ? loadCode(type, "in" + std::to_string(v) + "[" + (along && liesAlong(v) ? "i" : address(v)) + "]")
                : instruction(e_.code[v - e_.inputs.size()], v);
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

  std::string instruction(const Instr &instr, size_t v) const {
    std::array<std::string, 3> operands;
    for (uint32_t i = 0; i < instr.arity; ++i)
      operands[i] = "v" + std::to_string(instr.operands[i]);
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

/// Whether four neighbouring elements are one access.
bool isAccess(plan::DType type, const Place &place) {
  const auto bytes = uint64_t(bytesPerElement(type));
  return bytes <= 4 && place.value % (4 * bytes) == 0 && place.perIndex % (4 * bytes) == 0;
}

Launch elementwise(const ExpressionCode &e, const KernelCall &call, const std::vector<size_t> &rs,
                   const std::vector<Place> &outputs, bool apart) {
  PointCode code(e, rs);
  PointLoop loop;
  std::vector<Place> arguments;
  loop.parameters = code.parameters(call, arguments);
  loop.index = code.type();
  loop.apart = apart;
  const bool neighbours = code.mayDoNeighbours();
  for (size_t p = 0; p < loop.parameters.size(); ++p) {
    const auto input = size_t(std::stoul(loop.parameters[p].name.substr(2)));
    loop.parameters[p].together = neighbours && code.liesAlong(input) && isAccess(e.inputs[input].type, arguments[p]);
  }
  std::string stores;
  for (size_t i = 0; i < rs.size(); ++i) {
    const std::string name = "out" + std::to_string(i);
    loop.parameters.push_back({memoryType(code.result(i).type), name,
                               neighbours && code.isStoredAlong(i) && isAccess(code.result(i).type, outputs[rs[i]])});
    stores += name + "[" + code.placeOf(i) + "] = " + storeCode(code.result(i).type, code.valueOf(i)) + ";\n";
    arguments.push_back(outputs[rs[i]]);
  }
  loop.body = indexCode(code.nest().sizes, "i", loop.index) + code.body(/*along=*/true) + stores;
  return launchLoop(std::move(loop), elementCount(e.domain), std::move(arguments));
}

/// How a block and the grid share a reduction of K results over R points each.
struct Shares {
  int64_t tx = 1, ty = kThreads, parts = 1, blocks = 1;
};

Shares shareOut(int64_t results, int64_t points, bool innerReduced) {
  Shares s;
  const bool few = points <= kFewPoints && results < 32 * kFullDevice;
  if (innerReduced)
    s.tx = points <= 8 ? kThreads : points <= 64 ? 32 : points <= 512 ? 8 : 1;
  else
    s.tx = points <= 16 ? kThreads : few ? 8 : 32;
  s.ty = kThreads / s.tx;
  s.blocks = (results + s.tx - 1) / s.tx;
  if (s.blocks < kFullDevice && !few)
    s.parts =
        std::clamp<int64_t>(kFullDevice / std::max<int64_t>(s.blocks, 1), 1, std::max<int64_t>(1, points / (s.ty * 8)));
  return s;
}

/// The code that names the total of result `n` of a kernel and, where somebody reads it, stores it.
std::string totalCode(size_t n, plan::DType type, const std::string &sum, bool stored) {
  const std::string number = std::to_string(n), total = "total" + number;
  return std::string("const ") + sumType(valueClass(type)) + " " + total + " = " + sum + ";\n" +
         (stored ? "out" + number + "[i] = " + finished(type, total) + ";\n" : "");
}

void reduce(const ExpressionCode &e, const KernelCall &call, const std::vector<size_t> &rs,
            const std::vector<Place> &outputs, CudaKernel &kernel) {
  PointCode code(e, rs);
  const IndexType type = code.type();
  const std::string index = type.name();
  // Kept dimensions first in the numbering of results, reduced ones in that of points.
  Shape keptSizes, reducedSizes;
  std::string rename;
  const Shape &strides = code.resultStrides(), &sizes = code.nest().sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool kept = strides[d] != 0;
    Shape &list = kept ? keptSizes : reducedSizes;
    rename +=
        "const " + index + " x" + std::to_string(d) + " = " + (kept ? "k" : "r") + std::to_string(list.size()) + ";\n";
    list.push_back(sizes[d]);
  }
  const int64_t results = elementCount(e.results[rs[0]].view);
  if (results == 0)
    return;
  const int64_t points = elementCount(reducedSizes);
  const bool innerReduced = sizes.empty() || strides.back() == 0;
  const Shares s = shareOut(results, points, innerReduced);
  auto stored = [&](size_t i) { return rs[i] < outputs.size(); };

  Launch launch;
  SumEnd end;
  end.index = type;
  end.parameters = code.parameters(call, launch.arguments);
  std::string shared, start, step, keep, tree, places, parts, again, additions, totals;
  if (s.parts > 1) {
    end.parameters.push_back({"u64", "parts"});
    launch.arguments.push_back(kernel.reserve(rs.size() * uint64_t(s.parts * results) * 8));
  }
  for (size_t i = 0; i < rs.size(); ++i) {
    const ExpressionResult &r = code.result(i);
    const std::string n = std::to_string(i), sum = sumType(valueClass(r.type));
    if (stored(i)) {
      end.parameters.push_back({memoryType(r.type), "out" + n});
      launch.arguments.push_back(outputs[rs[i]]);
    }
    shared += "__shared__ " + sum + " s" + n + "[256];\n";
    start += sum + " a" + n + " = " + neutral(r.reduction, r.type) + ";\n";
    step += "a" + n + " = " + combined(r.reduction, "a" + n, "(" + sum + ")" + code.valueOf(i)) + ";\n";
    keep += "s" + n + "[t] = a" + n + ";\n";
    tree += "s" + n + "[t] = " + combined(r.reduction, "s" + n + "[t]", "s" + n + "[t + h * step]") + ";\n";
    // Volatile, because a multiprocessor's own cache may hold what stood there before.
    const std::string part = "part" + n;
    places += "volatile " + sum + " *" + part + " = (volatile " + sum + " *)parts + " +
              type.literal(int64_t(i) * s.parts * results) + " + i;\n";
    parts += part + "[blockIdx.y * " + type.literal(results) + "] = s" + n + "[t];\n";
    again += "a" + n + " = " + neutral(r.reduction, r.type) + ";\n";
    additions +=
        "a" + n + " = " + combined(r.reduction, "a" + n, part + "[part * " + type.literal(results) + "]") + ";\n";
    totals += totalCode(i, r.type, s.parts > 1 ? "a" + n : "s" + n + "[t]", stored(i));
  }
  auto literal = [](int64_t v) { return std::to_string(v) + "u"; };
  // Neighbouring threads take neighbouring elements: of the reduction if its dimension is innermost.
  const std::string lanes =
      innerReduced
          ? "const u32 ty = t % " + literal(s.ty) + ", tx = t / " + literal(s.ty) + ", step = 1u;\n"
          : "const u32 tx = t % " + literal(s.tx) + ", ty = t / " + literal(s.tx) + ", step = " + literal(s.tx) + ";\n";
  const std::string one = "if (ty == 0 && i < " + type.literal(results) + ") {\n";
  end.before = shared + "const u32 t = threadIdx.x;\n" + lanes + "const " + index + " i = blockIdx.x * (" + index +
               ")" + literal(s.tx) + " + tx;\n" + start + "if (i < " + type.literal(results) + ") {\n" +
               indexCode(keptSizes, "i", type, "k") + "#pragma unroll 4\nfor (" + index + " point = blockIdx.y * (" +
               index + ")" + literal(s.ty) + " + ty; point < " + type.literal(points) +
               "; point += " + type.literal(s.ty * s.parts) + ") {\n" + indexCode(reducedSizes, "point", type, "r") +
               rename + code.body() + step + "}\n}\n" + keep + "__syncthreads();\nfor (u32 h = " + literal(s.ty / 2) +
               "; h > 0; h >>= 1) {\nif (ty < h) {\n" + tree + "}\n__syncthreads();\n}\n";
  if (s.parts > 1) {
    launch.counters = uint32_t(s.blocks);
    end.counts = true;
    end.alone = s.blocks == 1;
    end.before +=
        places + one + parts + "}\n__threadfence();\n__syncthreads();\n__shared__ u32 arrived;\nif (t == 0u)\n" +
        "arrived = atomicAdd(counters + blockIdx.x, 1u) + 1u;\n__syncthreads();\nif (arrived != " + literal(s.parts) +
        ") return;\nif (t == 0u)\ncounters[blockIdx.x] = 0u;\n__threadfence();\n" + one + again +
        "for (u32 part = 0; part < " + literal(s.parts) + "; ++part) {\n" + additions + "}\n";
  } else {
    end.before += one;
  }
  end.before += totals;
  end.after = "}\n";
  launch.source = end.source();
  launch.grid = {uint32_t(s.blocks), uint32_t(s.parts), 1};
  launch.points = results;
  launch.end = std::make_shared<const SumEnd>(std::move(end));
  kernel.actions.emplace_back(std::move(launch));
}

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
  if (groups.size() + !plain.empty() > 1)
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
      reduce(e, call, {results.begin() + long(first), results.begin() + long(last)}, outputs, kernel);
    }
  if (!plain.empty() && elementCount(e.domain) > 0)
    kernel.actions.push_back(elementwise(e, call, plain, outputs, apart));
  for (const CopyBytes &copy : copies)
    kernel.actions.push_back(copy);
  kernel.description = groups.empty() ? "generated" : "generated reduction";
  return kernel;
}

} // namespace tessera::rt::cuda
