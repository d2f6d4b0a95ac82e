#include "tools/host/HostTopology.h"

#include "runtime/support/KeyedCache.h"
#include "runtime/support/Threads.h"
#include "runtime/support/Version.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstdlib>
#include <fstream>

namespace tessera {

namespace {

constexpr char kKind[] = "host topology";
constexpr char kCpu[] = "cpu"; // the preset that stands in
/// More runnable threads than this for each core take from what is measured.
constexpr double kBusy = 0.5;
/// Grows when the same machine would be measured otherwise.
constexpr int kRevision = 3;

/// The first processor of /proc/cpuinfo, without what changes from one moment to the next.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string text;
  for (std::string line; std::getline(file, line) && !line.empty();)
    for (const char *field : {"vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features"})
      if (llvm::StringRef(line).starts_with(field)) {
        text += line + "\n";
        break;
      }
  return text;
}

std::string key() {
  const char *isa = std::getenv("ONEDNN_MAX_CPU_ISA"); // kernels heed it
  return "version " TESSERA_VERSION ", revision " + std::to_string(kRevision) + ", " +
         std::to_string(rt::availableCores()) + " cores\n" + processor() + (isa ? isa : "");
}

std::optional<strategies::Topology> measuredHost() {
  const std::string text = rt::readCached(kKind, key());
  if (text.empty())
    return std::nullopt;
  llvm::Expected<strategies::Topology> topology = strategies::Topology::parse(text, kHostTopology);
  if (topology)
    return std::move(*topology);
  llvm::consumeError(topology.takeError());
  return std::nullopt;
}

/// Lets the program beside this one measure. Returns what is wrong, or nothing.
std::string measure() {
  static int here = 0; // any symbol of this program
  llvm::SmallString<128> program(llvm::sys::path::parent_path(llvm::sys::fs::getMainExecutable(nullptr, &here)));
  llvm::sys::path::append(program, "tessera-profile");
  if (!llvm::sys::fs::can_execute(program))
    return (program + " is needed to measure it, but does not exist").str();
  const llvm::StringRef arguments[] = {program, "--host", "--quiet"};
  std::string error;
  const int code = llvm::sys::ExecuteAndWait(program, arguments, std::nullopt, {}, 0, 0, &error);
  return code == 0 ? "" : error.empty() ? "tessera-profile --host failed" : "tessera-profile --host: " + error;
}

} // namespace

llvm::Error checkHostFolder() {
  if (rt::cacheFolder().empty())
    return llvm::createStringError("there is no cache folder to keep what --host measures: set TESSERA_CACHE_DIR");
  return llvm::Error::success();
}

llvm::Error keepHostTopology(strategies::Topology measured) {
  measured.name = kHostTopology;
  rt::writeCached(kKind, key(), measured.toJson());
  if (!measuredHost())
    return llvm::createStringError(
        "what was measured of this machine cannot be kept: set TESSERA_CACHE_DIR to a folder "
        "that can be written, or take --write-topology FILE");
  return llvm::Error::success();
}

std::string resolveTopology(const std::string &name, const std::function<void(const std::string &)> &tell,
                            const std::function<void(const std::string &)> &warn) {
  auto [count, machine] = llvm::StringRef(name).split('x');
  int64_t nodes = 1;
  if (name != kHostTopology && (machine != kHostTopology || count.getAsInteger(10, nodes)))
    return name;
  std::optional<strategies::Topology> host = measuredHost();
  std::string wrong;
  if (const std::string folder = rt::cacheFolder(); !host && folder.empty()) {
    wrong = "there is no cache folder to keep it in: set TESSERA_CACHE_DIR";
  } else if (!host) {
    tell("measures this machine's cores for topology 'host', once, in some ten seconds; kept in " + folder);
    if (double load = 0; getloadavg(&load, 1) == 1 && load > kBusy * rt::availableCores())
      warn("other programs keep this machine busy: tessera-profile --host measures again when they have ended");
    wrong = measure();
    host = measuredHost();
  }
  if (host) {
    if (llvm::Expected<strategies::Topology> all = host->withNodes(nodes))
      return all->toJson();
    else
      llvm::consumeError(all.takeError()); // the preset is refused for the same reason
  } else {
    warn("this machine is not measured, so topology 'cpu' stands in for 'host': " + wrong);
  }
  return name == kHostTopology ? kCpu : count.str() + "x" + kCpu;
}

} // namespace tessera
