//===- tessera-solve.cpp - solves a strategy graph from a file --------------------------------===//
//
//   tessera-solve B.json.gz --seconds 60 --threads 2 --output choice.json
//
// Prints cost, lower bound, gap, memory peak and the search's time; writes the option index of every node as a
// JSON list. Where nothing fits (proven), or nothing that fits was found in the budget,
// that is an error; the message says which.
//
//===----------------------------------------------------------------------------------------------===//
#include "runtime/support/CommandFiles.h"
#include "runtime/support/ExitCodes.h"
#include "runtime/support/File.h"
#include "runtime/support/Interrupts.h"
#include "runtime/support/Printable.h"
#include "strategies/search/Evaluate.h"
#include "strategies/search/Search.h"
#include "strategies/space/StrategyGraphIO.h"
#include "tools/NumberRange.h"
#include "tools/cli/CommandLine.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>

using namespace tessera::strategies;

namespace {

tessera::rt::Status writeChoice(const Choice &choice, const std::string &path) {
  std::string text = "[";
  for (size_t i = 0; i < choice.size(); ++i)
    text += (i ? "," : "") + std::to_string(choice[i]);
  text += "]\n";
  return tessera::rt::writeFile(path, text);
}

int solve(const std::string &path, SearchOptions options, const std::string &output) {
  const auto start = std::chrono::steady_clock::now();
  tessera::rt::CommandFiles files;
  files.reads(path);
  files.writes("--output", output);
  if (tessera::rt::Status status = files.check(); !status) {
    tessera::rt::printError("tessera-solve: error: " + status.message());
    return tessera::rt::kExitError;
  }
  const double budget = options.seconds;
  std::string error;
  std::optional<StrategyGraph> graph = readStrategyGraph(path, error);
  const std::chrono::duration<double> reading = std::chrono::steady_clock::now() - start;
  options.seconds = std::max(0.0, budget - reading.count());
  if (!graph) {
    tessera::rt::printError("tessera-solve: error: " + error);
    return tessera::rt::kExitError;
  }
  if (options.searcher == "data" && graph->dataParallel.empty() && !graph->nodes.empty()) {
    fprintf(stderr,
            "tessera-solve: error: %s: does not say which options are data parallel (\"data_parallel\"), which the "
            "searcher 'data' needs; tessera-compile --dump-strategy-graph writes it\n",
            path.c_str());
    return tessera::rt::kExitError;
  }
  Solution solution = search(*graph, options);
  if (solution.infeasible) {
    fprintf(stderr, "tessera-solve: error: %s: no choice fits the memory limit and the forbidden costs (proven)\n",
            path.c_str());
    return tessera::rt::kExitError;
  }
  if (solution.choice.empty() && !graph->nodes.empty() && options.searcher == "data") {
    fprintf(stderr, "tessera-solve: error: %s: data parallelism does not fit: %s\n", path.c_str(),
            evaluate(*graph, graph->dataParallel).reason.c_str());
    return tessera::rt::kExitError;
  }
  if (solution.choice.empty() && !graph->nodes.empty() && *options.stop) {
    fprintf(stderr, "tessera-solve: interrupted before a choice that fits was found\n");
    return tessera::rt::kExitError;
  }
  if (solution.choice.empty() && !graph->nodes.empty()) {
    fprintf(stderr, "tessera-solve: error: %s: found no choice that fits in %g seconds; try a larger --seconds\n",
            path.c_str(), budget);
    return tessera::rt::kExitError;
  }
  Evaluation judged = evaluate(*graph, solution.choice);
  double gap = solution.cost > 0 ? 100.0 * double(solution.cost - solution.lowerBound) / double(solution.cost) : 0;
  printf("cost         %" PRId64 "\n", judged.cost);
  printf("lower bound  %" PRId64 "\n", solution.lowerBound);
  printf("gap          %.4f %%%s\n", gap, solution.optimal ? " (optimal)" : "");
  printf("memory peak  %" PRId64, judged.memoryPeak);
  if (graph->memoryLimit != std::numeric_limits<int64_t>::max())
    printf(" of %" PRId64, graph->memoryLimit);
  printf("\ntime         %.3f s\n", solution.seconds);
  if (!output.empty())
    if (tessera::rt::Status status = writeChoice(solution.choice, output); !status) {
      tessera::rt::printError("tessera-solve: error: " + status.message());
      return tessera::rt::kExitError;
    }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Chooses one option for every node of a strategy graph.", "tessera-solve");
  std::string path, output;
  SearchOptions options;
  app.add_option("FILE", path, "strategy graph, JSON, plain or gzip")->required();
  app.add_option("--seconds", options.seconds, "time budget, reading included")
      ->check(tessera::between(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--work", options.work, "reproducible budget in 1e9 elementary steps, roughly seconds; 0: none")
      ->check(tessera::between(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the randomized phases")
      ->check(tessera::notNegative())
      ->capture_default_str();
  app.add_option("--gap", options.gap, "stop at this relative distance to the lower bound")
      ->check(tessera::between(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--searcher", options.searcher, "which searcher")
      ->check(CLI::IsMember(searcherNames()))
      ->capture_default_str();
  app.add_flag("--verbose", options.log, "tell on stderr what the searcher does, with seconds and work");
  app.add_option("--output", output, "file for the choice: a JSON list of option indices");
  if (std::optional<int> exitCode = tessera::parseCommandLine(app, argc, argv))
    return *exitCode;
  options.stop = &tessera::rt::stopOnInterrupt("tessera-solve");
  const int code = solve(path, options, output);
  const int interrupted = tessera::rt::interruptCode();
  if (interrupted && code == 0)
    fprintf(stderr, "tessera-solve: interrupted; this is the best answer so far\n");
  return interrupted ? interrupted : code;
}
