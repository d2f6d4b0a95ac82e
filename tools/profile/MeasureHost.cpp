// Describes the cores of this machine: rates of products, attention and loops, and of an all-reduce among threads.
#include "tools/profile/Measure.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"
#include "runtime/support/Threads.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unistd.h>

using namespace mlir;

namespace tessera {

namespace {

/// A product of square matrices of this size is at the rate that large products reach. Products of f64 are plain loops,
/// which are as slow in small matrices.
constexpr int64_t kWide = 1024, kWideF64 = 256;
/// Rounds of a measurement, of which the fastest counts.
constexpr int kRounds = 3;
/// The elements of loops on all cores together, each of which reads and writes three tensors: 384 MiB, more than caches
/// hold.
constexpr int64_t kLong = int64_t(1) << 25;
/// The same without work: what a kernel takes to start.
constexpr int64_t kShort = 16;
/// The elements of a loop on one core that stay in its cache, so that it is arithmetic that takes the time.
constexpr int64_t kCached = 65536;
/// Sizes of all-reduces whose difference is the bandwidth.
constexpr double kSmall = 1024, kLarge = double(int64_t(4) << 20);

/// The time of an operator, how many operations it is, and the kind of its kernel (graph::rateKind).
struct Timed {
  double seconds = 0, operations = 0;
  std::string kind = "";
  double rate() const { return operations / seconds; }
};

std::string tensor(llvm::ArrayRef<int64_t> shape, llvm::StringRef type) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + type.str() + ">";
}

/// Times operators alone, on all cores at once.
class Kernels {
public:
  Kernels(MLIRContext &context, const MeasureOptions &options) : context_(context), options_(options) {}

  /// An operator with attributes as text, of operands and results of these types.
  llvm::Expected<Timed> time(llvm::StringRef op, llvm::ArrayRef<std::string> operands,
                             llvm::ArrayRef<std::string> results, llvm::StringRef attributes = "") {
    std::string arguments, names, returned;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string comma = i ? ", " : "", name = "%a" + std::to_string(i);
      arguments += comma + name + ": " + operands[i];
      names += comma + name;
    }
    for (size_t i = 0; i < results.size(); ++i)
      returned += (i ? ", %r#" : "%r#") + std::to_string(i);
    const std::string in = llvm::join(operands, ", "), out = llvm::join(results, ", ");
    const std::string text = "func.func @infer(" + arguments + ") -> (" + out +
                             ") {\n  %r:" + std::to_string(results.size()) + " = \"" + op.str() + "\"(" + names +
                             ") {" + attributes.str() + "} : (" + in + ") -> (" + out + ")\n  return " + returned +
                             " : " + out + "\n}\n";
    auto module = parseSourceString<ModuleOp>(text, ParserConfig(&context_));
    auto func = *module->getOps<func::FuncOp>().begin();
    return time(&func.getBody().front().front());
  }
  /// An element-wise operator of so many vectors.
  llvm::Expected<Timed> loop(llvm::StringRef op, size_t operands, int64_t length) {
    return time(op, std::vector<std::string>(operands, tensor({length}, "f32")), {tensor({length}, "f32")});
  }

private:
  /// On a busy machine a round takes longer, so the fastest counts.
  llvm::Expected<Timed> time(Operation *op) {
    llvm::SmallVector<dist::Shape> operands, results;
    for (Value operand : op->getOperands())
      operands.emplace_back(cast<RankedTensorType>(operand.getType()).getShape());
    for (Value result : op->getResults())
      results.emplace_back(cast<RankedTensorType>(result.getType()).getShape());
    Timed fastest{0, cast<dist::ShardingRuleOpInterface>(op).getFlops(operands, results),
                  graph::rateKind(op, operands, results).str()};
    for (int round = 0; round < kRounds; ++round) {
      auto seconds = timeOperator(op, options_);
      if (!seconds)
        return seconds.takeError();
      if (round == 0 || *seconds < fastest.seconds)
        fastest.seconds = *seconds;
    }
    return fastest;
  }

  MLIRContext &context_;
  const MeasureOptions &options_;
};

llvm::Error timeProducts(Kernels &kernels, strategies::Topology &topology, const Progress &progress) {
  for (auto [bits, type, size] : {std::tuple(64, "f64", kWideF64), {32, "f32", kWide}, {16, "bf16", kWide}}) {
    const std::string matrix = tensor({size, size}, type);
    auto product = kernels.time("graph.matmul", {matrix, matrix}, {matrix});
    if (!product)
      return product.takeError();
    topology.flops[bits] = product->rate();
    progress(llvm::formatv("{0,12:F1} GFLOP/s of a core in {1}", product->rate() * 1e-9, type).str());
  }
  return llvm::Error::success();
}

/// Attention is products of small matrices with exponentials between them, and reaches no product's rate.
llvm::Error timeAttention(Kernels &kernels, strategies::Topology &topology, const Progress &progress) {
  constexpr int64_t kBatch = 8, kRows = 128, kHeads = 4, kDepth = 64;
  const std::string rows = tensor({kBatch, kHeads, kRows, kDepth}, "f32"),
                    statistics = tensor({kBatch, kHeads, kRows}, "f32");
  const std::string forward = "graph.attention", gradient = "graph.attention_grad", scale = "scale = 0.125 : f64";
  for (const std::string &op : {forward, gradient}) {
    auto timed = op == forward
                     ? kernels.time(op, {rows, rows, rows}, {rows, statistics}, scale + ", keeps_statistics")
                     : kernels.time(op, {rows, rows, rows, rows, rows, statistics}, {rows, rows, rows}, scale);
    if (!timed)
      return timed.takeError();
    topology.operators[op] = timed->rate();
    progress(llvm::formatv("{0,12:F1} GFLOP/s of a core in {1}", timed->rate() * 1e-9, op).str());
  }
  return llvm::Error::success();
}

/// Convolutions as a residual network has them: with windows of one point, with windows that halve height and width,
/// which are slower, their gradients above all, and with windows of 3 x 3 that keep them, which have a rate of their
/// own. The rate of the others is that of both together.
llvm::Error timeConvolutions(Kernels &kernels, strategies::Topology &topology, const Progress &progress) {
  constexpr int64_t kBatch = 8, kChannels = 64, kSize = 32;
  const std::string x = tensor({kBatch, kChannels, kSize, kSize}, "f32");
  std::map<std::string, Timed> sums;
  for (const auto &[window, stride] : {std::pair<int64_t, int64_t>{1, 1}, {3, 2}, {3, 1}}) {
    const int64_t features = stride * kChannels, size = kSize / stride;
    const std::string w = tensor({features, kChannels, window, window}, "f32"),
                      y = tensor({kBatch, features, size, size}, "f32");
    const std::string how = llvm::formatv("strides = array<i64: {0}, {0}>, pads = array<i64: {1}, {1}, {1}, {1}>, "
                                          "dilations = array<i64: 1, 1>, groups = 1 : i64",
                                          stride, window / 2);
    for (auto &[op, operands, result, sizes] :
         {std::tuple<std::string, std::vector<std::string>, std::string, std::string>{"graph.conv", {x, w}, y, ""},
          {"graph.conv_input_grad", {y, w}, x, llvm::formatv(", input_sizes = array<i64: {0}, {0}>", kSize)},
          {"graph.conv_weight_grad", {x, y}, w, llvm::formatv(", kernel_sizes = array<i64: {0}, {0}>", window)}}) {
      Timed one;
      if (llvm::Error e = kernels.time(op, operands, {result}, how + sizes).moveInto(one))
        return e;
      Timed &sum = sums[one.kind.empty() ? op : op + " " + one.kind];
      sum.seconds += one.seconds;
      sum.operations += one.operations;
    }
  }
  for (const auto &[op, sum] : sums) {
    topology.operators[op] = sum.rate();
    progress(llvm::formatv("{0,12:F1} GFLOP/s of a core in {1}", sum.rate() * 1e-9, op).str());
  }
  return llvm::Error::success();
}

/// Loops through memory, loops that compute, and loops without work.
llvm::Error timeLoops(Kernels &kernels, strategies::Topology &topology, const Progress &progress) {
  const int64_t length = std::max(kShort, kLong / topology.devices);
  Timed through, start;
  if (llvm::Error e = kernels.loop("graph.add", 2, length).moveInto(through))
    return e;
  if (llvm::Error e = kernels.loop("graph.add", 2, kShort).moveInto(start))
    return e;
  // The same memory with much arithmetic and with little.
  Timed busy, idle;
  for (const char *op : {"graph.tanh", "graph.erf", "graph.rsqrt"})
    for (auto [name, sum] : {std::pair(op, &busy), {"graph.relu", &idle}}) {
      Timed loop;
      if (llvm::Error e = kernels.loop(name, 1, kCached).moveInto(loop))
        return e;
      sum->seconds += loop.seconds;
      sum->operations += loop.operations;
    }
  topology.launch = start.seconds;
  topology.memoryBandwidth = 3 * 4 * double(length) / std::max(through.seconds - start.seconds, 1e-9);
  // On a busy machine the loops with little arithmetic may have taken longer. No loop computes faster than a product.
  topology.loopFlops = std::min(topology.flops.at(32),
                                (busy.operations - idle.operations) / std::max(busy.seconds - idle.seconds, 1e-9));
  progress(
      llvm::formatv("{0,12:F1} GB/s of a core through memory, {1:F1} GFLOP/s in loops, a kernel starts in {2:F2} us",
                    topology.memoryBandwidth * 1e-9, topology.loopFlops * 1e-9, topology.launch * 1e6)
          .str());
  return llvm::Error::success();
}

/// The link between the cores, as in the fastest round, and what collectives beside kernels cost. That is a difference,
/// so the round in the middle counts.
llvm::Error timeLink(const MeasureOptions &options, strategies::Topology &topology, const Progress &progress) {
  double small = std::numeric_limits<double>::infinity(), large = small;
  std::vector<double> handOver, perByte;
  for (int round = 0; round < kRounds; ++round) {
    strategies::ProfileTable table;
    if (llvm::Error e = measureCollectives(options, table, [](const std::string &) {}))
      return e;
    if (llvm::Error e = measureBeside(options, table, [](const std::string &) {}))
      return e;
    small = std::min(small, *table.collective("all-reduce", topology.devices, kSmall));
    large = std::min(large, *table.collective("all-reduce", topology.devices, kLarge));
    handOver.push_back(table.beside()->handOver);
    perByte.push_back(table.beside()->perByte);
  }
  auto median = [](std::vector<double> &of) {
    llvm::sort(of);
    return of[of.size() / 2];
  };
  // What threads send passes through memory.
  topology.links = {
      strategies::linkOfRing(topology.devices, {kSmall, small}, {kLarge, large}, topology.memoryBandwidth)};
  topology.beside.handOver = median(handOver);
  topology.beside.perByte = median(perByte);
  progress(llvm::formatv("{0,12:F1} GB/s between cores, {1:F2} us for each step of a collective",
                         topology.links.front().bandwidth * 1e-9, topology.links.front().latency * 1e6)
               .str());
  return llvm::Error::success();
}

} // namespace

llvm::Expected<strategies::Topology> measureHost(const MeasureOptions &asked, const Progress &progress) {
  auto topology = strategies::Topology::load("cpu"); // its network stays, which no single machine shows
  if (!topology)
    return topology.takeError();
  const int64_t cores = rt::availableCores();
  MeasureOptions options = asked;
  options.mesh = llvm::cantFail(dist::Mesh::parse("core=" + std::to_string(cores)));
  options.ranksHere = int(cores);
  options.maxBytes = int64_t(kLarge);
  topology->name = "measured";
  topology->devices = cores;
  topology->memory = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / cores;
  topology->links.front().devices = cores;

  MLIRContext context(measuredDialects());
  context.loadAllAvailableDialects();
  Kernels kernels(context, options);
  for (auto *measure : {timeProducts, timeAttention, timeConvolutions, timeLoops})
    if (llvm::Error e = measure(kernels, *topology, progress))
      return e;
  if (cores > 1)
    if (llvm::Error e = timeLink(options, *topology, progress))
      return e;
  return topology;
}

} // namespace tessera
