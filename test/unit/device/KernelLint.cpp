// Compiles all kernels that a device would run of some plans, for each architecture, and says what would make them slow
// or fail. NVRTC needs no device.
//
// usage: kernel_lint PLAN...
//
//   registers in memory       a kernel that spills moves bytes that no count knows
//   static shared memory      a block has 48 KiB
//   F64 multiplied in loops   sums are F64, but a loop multiplies, divides or takes roots of few F64 numbers: many
//                             devices have 64 times as many F32 units
//
// Prints a line for each finding and one for each plan. Exit code 1: something was found.
#include "runtime/backend/cuda/count/BoundProgram.h"
#include "runtime/plan/PlanFile.h"

#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::cuda;

namespace {

constexpr int kArchitectures[] = {80, 90, 100};
constexpr long kSharedBytes = 48 << 10;
/// F64 multiplications for each element that a loop reads or writes: one for a square, and a mean and a scale beside
/// it. An exponential takes twenty.
constexpr double kMostMultiplications = 3;

struct Compiled {
  std::string problem; // empty: none
  long spilled = 0, shared = 0;
  std::string ptx;
};

/// The number before the words `what` in the assembler's report; 0 where there is none.
long numberBefore(const std::string &log, const std::string &what) {
  const size_t at = log.find(what);
  if (at == std::string::npos)
    return 0;
  size_t begin = at;
  while (begin > 0 && (std::isdigit(static_cast<unsigned char>(log[begin - 1])) || log[begin - 1] == ' '))
    --begin;
  return std::atol(log.c_str() + begin);
}

/// With the options of runtime/device/cuda/Code.cpp, and the assembler's report.
Compiled compile(const std::string &source, int architecture) {
  Compiled result;
  nvrtcProgram program = nullptr;
  if (nvrtcCreateProgram(&program, source.c_str(), "tessera.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS)
    return Compiled{"NVRTC does not start", 0, 0, ""};
  const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
  const char *options[] = {target.c_str(), "--std=c++17", "--no-source-include", "-default-device",
                           "--ptxas-options=-v"};
  const nvrtcResult code = nvrtcCompileProgram(program, int(std::size(options)), options);
  size_t size = 0;
  std::string log;
  if (nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 0) {
    log.resize(size);
    nvrtcGetProgramLog(program, log.data());
  }
  if (code != NVRTC_SUCCESS)
    result.problem = "does not compile: " + log.substr(0, 400);
  else if (log.find("spill stores") == std::string::npos)
    result.problem = "the assembler reports nothing: " + log.substr(0, 400);
  result.spilled = numberBefore(log, "bytes spill stores") + numberBefore(log, "bytes spill loads");
  result.shared = numberBefore(log, "bytes smem");
  if (nvrtcGetPTXSize(program, &size) == NVRTC_SUCCESS && size > 0) {
    result.ptx.resize(size);
    nvrtcGetPTX(program, result.ptx.data());
  }
  nvrtcDestroyProgram(&program);
  return result;
}

/// How many elements an instruction moves from or to global memory.
int elementsMoved(const std::string &line) {
  if (line.find("ld.global") == std::string::npos && line.find("st.global") == std::string::npos &&
      line.find("ld.volatile.global") == std::string::npos)
    return 0;
  return line.find(".v4") != std::string::npos ? 4 : line.find(".v2") != std::string::npos ? 2 : 1;
}

bool multipliesF64(const std::string &line) {
  for (const char *op : {"fma.rn.f64", "mul.f64", "mul.rn.f64", "div.rn.f64", "sqrt.rn.f64", "rcp.rn.f64",
                         "rcp.approx.ftz.f64", "rsqrt.approx.f64"})
    if (line.find(op) != std::string::npos)
      return true;
  return false;
}

/// The most F64 multiplications for an element that is moved, of the loops in `ptx`. Loops are found by their branches
/// back. One without any access, such as one over a block's own numbers, counts with the loop around it.
double multiplicationsPerElement(const std::string &ptx) {
  std::vector<std::string> lines;
  std::map<std::string, size_t> labels;
  std::istringstream text(ptx);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("$") && line.ends_with(":"))
      labels[line.substr(0, line.size() - 1)] = lines.size();
    lines.push_back(line);
  }
  double most = 0;
  for (size_t end = 0; end < lines.size(); ++end) {
    const size_t branch = lines[end].find("bra"), name = lines[end].find('$', branch == std::string::npos ? 0 : branch);
    if (branch == std::string::npos || name == std::string::npos)
      continue;
    const auto found = labels.find(lines[end].substr(name, lines[end].find(';') - name));
    if (found == labels.end() || found->second >= end)
      continue;
    int multiplications = 0, elements = 0;
    for (size_t l = found->second; l < end; ++l) {
      multiplications += multipliesF64(lines[l]);
      elements += elementsMoved(lines[l]);
    }
    if (elements > 0)
      most = std::max(most, double(multiplications) / elements);
  }
  return most;
}

int lint(const std::string &folder) {
  plan::Plan plan;
  if (Status status = visitPlanDirectory(folder,
                                         [&](const plan::Plan &rank) {
                                           if (rank.rank() == 0)
                                             plan = rank;
                                         });
      !status) {
    std::printf("%s: %s\n", folder.c_str(), status.message().c_str());
    return 1;
  }
  std::map<std::string, std::string> kernels; // by source: a step that runs it
  LoadOptions options;
  for (const bool tiled : {false, true}) // what runs where a library refuses attention, too
    for (int p = 0; p < plan.programs_size(); ++p) {
      options.device.tiledAttention = tiled;
      const Result<BoundProgram> bound = bindProgram(plan, p, options);
      if (!bound) {
        std::printf("%s: %s\n", folder.c_str(), bound.status().message().c_str());
        return 1;
      }
      for (const BoundStep &step : bound->kernels)
        for (const Action &action : step.kernel.actions)
          if (const auto *launch = std::get_if<Launch>(&action))
            kernels.try_emplace(launch->source, plan.programs(p).name() + ": " + step.kind + " " + step.name);
    }
  int findings = 0;
  auto say = [&](const std::string &step, int architecture, const std::string &what) {
    std::printf("%s (sm_%d): %s\n", step.c_str(), architecture, what.c_str());
    ++findings;
  };
  for (const auto &[source, step] : kernels)
    for (const int architecture : kArchitectures) {
      const Compiled c = compile(source, architecture);
      if (!c.problem.empty())
        say(step, architecture, c.problem);
      if (c.spilled > 0)
        say(step, architecture, std::to_string(c.spilled) + " bytes of registers are stored and loaded again");
      if (c.shared > kSharedBytes)
        say(step, architecture, std::to_string(c.shared) + " bytes of shared memory");
      char text[100];
      const double each = multiplicationsPerElement(c.ptx);
      std::snprintf(text, sizeof text, "a loop multiplies %.1f F64 numbers for an element", each);
      if (each > kMostMultiplications)
        say(step, architecture, text);
    }
  std::printf("%s: %zu kernels, %d findings\n", folder.c_str(), kernels.size(), findings);
  return findings > 0;
}

} // namespace

int main(int argc, char **argv) {
  int failed = argc < 2;
  for (int i = 1; i < argc; ++i)
    failed |= lint(argv[i]);
  return failed;
}
