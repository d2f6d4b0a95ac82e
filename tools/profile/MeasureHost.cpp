// Describes the cores of this machine: rates of a product and of a loop, and of an all-reduce among threads.
#include "tools/profile/Measure.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "runtime/launch/Launcher.h"

#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <unistd.h>

using namespace mlir;

namespace tessera {

namespace {

/// A product of square matrices of this size is at the rate that large products and convolutions reach.
constexpr int64_t kWide = 1024;
/// The elements of loops on all cores together, each of which reads and writes three tensors: 768 MiB, more than caches
/// hold.
constexpr int64_t kLong = int64_t(1) << 26;
/// The same without work: what a kernel takes to start.
constexpr int64_t kShort = 16;
/// Sizes of all-reduces whose difference is the bandwidth.
constexpr double kSmall = 1024, kLarge = double(int64_t(4) << 20);

/// Times operators alone, on all cores at once.
class Kernels {
public:
  Kernels(MLIRContext &context, const MeasureOptions &options) : context_(context), options_(options) {}

  /// `op` of two tensors of this type.
  llvm::Expected<double> seconds(llvm::StringRef op, const std::string &shape, llvm::StringRef type) {
    const std::string tensor = "tensor<" + shape + type.str() + ">";
    const std::string text = "func.func @infer(%a: " + tensor + ", %b: " + tensor + ") -> " + tensor +
                             " {\n  %0 = " + op.str() + " %a, %b : (" + tensor + ", " + tensor + ") -> " + tensor +
                             "\n  return %0 : " + tensor + "\n}\n";
    auto module = parseSourceString<ModuleOp>(text, ParserConfig(&context_));
    auto func = *module->getOps<func::FuncOp>().begin();
    return timeOperator(&func.getBody().front().front(), options_);
  }
  /// Operations per second of a product.
  llvm::Expected<double> rate(llvm::StringRef type) {
    const std::string wide = std::to_string(kWide);
    auto time = seconds("graph.matmul", wide + "x" + wide + "x", type);
    if (!time)
      return time.takeError();
    return 2.0 * kWide * kWide * kWide / *time;
  }

private:
  MLIRContext &context_;
  const MeasureOptions &options_;
};

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

  MLIRContext context(measuredDialects());
  context.loadAllAvailableDialects();
  Kernels kernels(context, options);
  char text[160];
  for (auto [bits, type] : {std::pair(64, "f64"), {32, "f32"}, {16, "bf16"}}) {
    auto rate = kernels.rate(type);
    if (!rate)
      return rate.takeError();
    topology->flops[bits] = *rate;
    std::snprintf(text, sizeof text, "%12.1f GFLOP/s of a core in %s", *rate * 1e-9, type);
    progress(text);
  }
  const int64_t length = std::max(kShort, kLong / cores);
  auto loop = kernels.seconds("graph.add", std::to_string(length) + "x", "f32");
  if (!loop)
    return loop.takeError();
  auto start = kernels.seconds("graph.add", std::to_string(kShort) + "x", "f32");
  if (!start)
    return start.takeError();
  topology->name = "measured";
  topology->devices = cores;
  topology->launch = *start;
  topology->memoryBandwidth = 3 * 4 * double(length) / std::max(*loop - *start, 1e-9);
  topology->memory = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / cores;
  std::snprintf(text, sizeof text, "%12.1f GB/s of a core through memory, a kernel starts in %.2f us",
                topology->memoryBandwidth * 1e-9, topology->launch * 1e6);
  progress(text);
  if (cores == 1) {
    topology->links.front().devices = 1;
    return topology;
  }
  strategies::ProfileTable table;
  if (llvm::Error e = measureCollectives(options, table, [](const std::string &) {}))
    return e;
  if (llvm::Error e = measureBeside(options, table, [](const std::string &) {}))
    return e;
  // What threads send passes through memory.
  topology->links = {strategies::linkOfRing(cores, {kSmall, *table.collective("all-reduce", cores, kSmall)},
                                            {kLarge, *table.collective("all-reduce", cores, kLarge)},
                                            topology->memoryBandwidth)};
  std::snprintf(text, sizeof text, "%12.1f GB/s between cores, %.2f us for each step of a collective",
                topology->links.front().bandwidth * 1e-9, topology->links.front().latency * 1e6);
  progress(text);
  if (table.beside()) {
    topology->beside.handOver = table.beside()->handOver;
    topology->beside.perByte = table.beside()->perByte;
  }
  return topology;
}

} // namespace tessera
