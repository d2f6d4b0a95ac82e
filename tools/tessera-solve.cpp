//===- tessera-solve.cpp - solves a strategy graph from a file --------------------------------===//
//
//   tessera-solve B.json.gz --seconds 60 --threads 2 --output choice.json
//
//   tessera-solve --schedule TASKS.json --output starts.json
//   tessera-solve --pipeline PIPELINE.json --output order.csv
//   tessera-solve --stages PROBLEM.json --output stages.json
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
#include "strategies/pipeline/FindOrder.h"
#include "strategies/pipeline/NamedOrders.h"
#include "strategies/pipeline/PipelineIO.h"
#include "strategies/pipeline/stages/FindStages.h"
#include "strategies/pipeline/stages/StageProblemIO.h"
#include "strategies/search/Evaluate.h"
#include "strategies/search/Search.h"
#include "strategies/space/StrategyGraphIO.h"
#include "strategies/time/Schedule.h"
#include "strategies/time/Simulate.h"
#include "strategies/time/TaskGraphIO.h"
#include "tools/NumberRange.h"
#include "tools/cli/CommandLine.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>

using namespace tessera::strategies;

namespace {

/// Bytes of a task graph's or a pipeline's file.
constexpr uint64_t kLargestFile = uint64_t(1) << 30;

template <typename Numbers> tessera::rt::Status writeNumbers(const Numbers &numbers, const std::string &path) {
  std::string text = "[";
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? "," : "") + std::to_string(numbers[i]);
  text += "]\n";
  return tessera::rt::writeFile(path, text);
}

using Json = nlohmann::ordered_json;

/// Prints one object; what a file calls things may be no UTF-8.
void print(const Json &json) { printf("%s\n", json.dump(1, ' ', false, Json::error_handler_t::replace).c_str()); }

int fail(const std::string &message) {
  tessera::rt::printError("tessera-solve: error: " + message);
  return tessera::rt::kExitError;
}

/// Refuses a file that is read and also written.
tessera::rt::Status checkFiles(const std::string &path, const std::string &output) {
  tessera::rt::CommandFiles files;
  files.reads(path);
  files.writes("--output", output);
  return files.check();
}

/// The text of a file that is not also written.
tessera::rt::Result<std::string> readInput(const std::string &path, const std::string &output) {
  if (tessera::rt::Status status = checkFiles(path, output); !status)
    return status;
  return tessera::rt::readFile(path, kLargestFile);
}

int solve(const std::string &path, SearchOptions options, const std::string &output, bool json) {
  const auto start = std::chrono::steady_clock::now();
  if (tessera::rt::Status status = checkFiles(path, output); !status)
    return fail(status.message());
  const double budget = options.seconds;
  std::string error;
  std::optional<StrategyGraph> graph = readStrategyGraph(path, error);
  const std::chrono::duration<double> reading = std::chrono::steady_clock::now() - start;
  options.seconds = std::max(0.0, budget - reading.count());
  if (!graph)
    return fail(error);
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
  const bool limited = graph->memoryLimit != std::numeric_limits<int64_t>::max();
  if (json) {
    print({{"cost", judged.cost},
           {"lower_bound", solution.lowerBound},
           {"gap", gap / 100},
           {"optimal", solution.optimal},
           {"memory_peak", judged.memoryPeak},
           {"memory_limit", limited ? Json(graph->memoryLimit) : Json()},
           {"seconds", solution.seconds},
           {"choice", solution.choice}});
  } else {
    printf("cost         %" PRId64 "\n", judged.cost);
    printf("lower bound  %" PRId64 "\n", solution.lowerBound);
    printf("gap          %.4f %%%s\n", gap, solution.optimal ? " (optimal)" : "");
    printf("memory peak  %" PRId64, judged.memoryPeak);
    if (limited)
      printf(" of %" PRId64, graph->memoryLimit);
    printf("\ntime         %.3f s\n", solution.seconds);
  }
  if (!output.empty())
    if (tessera::rt::Status status = writeNumbers(solution.choice, output); !status)
      return fail(status.message());
  return 0;
}

void tellSchedule(const TaskGraph &graph, const Schedule &found, const Timeline &line, double gap, double seconds) {
  printf("makespan     %" PRId64 "\n", line.makespan);
  if (found.given >= 0)
    printf("file's order %" PRId64 "\n", found.given);
  printf("lower bound  %" PRId64 "\n", found.lowerBound);
  printf("gap          %.4f %%%s\n", gap, found.optimal() ? " (optimal)" : "");
  for (size_t r = 0; r < graph.resources.size(); ++r)
    printf("resource     %s: busy %.1f %%\n", tessera::rt::printable(graph.resources[r]).c_str(),
           line.makespan ? 100.0 * double(line.busy[r]) / double(line.makespan) : 0);
  for (size_t p = 0; p < graph.pools.size(); ++p) {
    printf("memory       %s: peak %" PRId64, tessera::rt::printable(graph.pools[p].name).c_str(), line.peak[p]);
    if (graph.pools[p].limit >= 0)
      printf(" of %" PRId64, graph.pools[p].limit);
    printf("\n");
  }
  printf("time         %.3f s\n", seconds);
}

Json scheduleJson(const TaskGraph &graph, const Schedule &found, const Timeline &line, double gap, double seconds) {
  Json resources = Json::array(), pools = Json::array();
  for (size_t r = 0; r < graph.resources.size(); ++r)
    resources.push_back({{"name", graph.resources[r]}, {"busy", line.busy[r]}});
  for (size_t p = 0; p < graph.pools.size(); ++p)
    pools.push_back({{"name", graph.pools[p].name},
                     {"peak", line.peak[p]},
                     {"limit", graph.pools[p].limit >= 0 ? Json(graph.pools[p].limit) : Json()}});
  return {{"makespan", line.makespan},
          {"given", found.given >= 0 ? Json(found.given) : Json()},
          {"lower_bound", found.lowerBound},
          {"gap", gap / 100},
          {"optimal", found.optimal()},
          {"resources", resources},
          {"pools", pools},
          {"seconds", seconds},
          {"start", found.start}};
}

/// A task graph's start times; the judge has the last word.
int solveSchedule(const std::string &path, ScheduleOptions options, const std::string &output, bool json) {
  tessera::rt::Result<std::string> text = readInput(path, output);
  if (!text)
    return fail(text.status().message());
  std::string error;
  std::optional<TaskGraph> graph = parseTaskGraph(*text, path, error);
  if (!graph)
    return fail(error);
  const auto begin = std::chrono::steady_clock::now();
  Schedule found = schedule(*graph, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (found.start.empty() && !graph->tasks.empty())
    return fail(path + ": found no order of the tasks that fits the memory");
  Timeline line = simulate(*graph, found.start);
  if (!line.error.empty())
    return fail(path + ": the schedule breaks a rule: " + line.error);
  const double gap = line.makespan ? 100.0 * double(line.makespan - found.lowerBound) / double(line.makespan) : 0;
  if (json)
    print(scheduleJson(*graph, found, line, gap, seconds.count()));
  else
    tellSchedule(*graph, found, line, gap, seconds.count());
  if (!output.empty())
    if (tessera::rt::Status status = writeNumbers(found.start, output); !status)
      return fail(status.message());
  return 0;
}

/// One line of the table of orders.
void printOrder(const char *name, const Pipeline &pipeline, const PipelineRun &run) {
  const int64_t most = mostWork(pipeline);
  printf("%-12s %12" PRId64 "  %6.2f %%  %12" PRId64 "  %6.2f %%  %12" PRId64 "%s\n", name, run.makespan,
         run.makespan ? 100 * double(run.makespan - most) / double(run.makespan) : 0, run.longestSpan,
         run.longestSpan ? 100 * double(run.longestSpan - most) / double(run.longestSpan) : 0,
         *std::max_element(run.peak.begin(), run.peak.end()), fits(pipeline, run) ? "" : "  above the limit");
}

Json orderJson(const char *name, const Pipeline &pipeline, const PipelineRun &run) {
  return {{"name", name},
          {"makespan", run.makespan},
          {"longest_span", run.longestSpan},
          {"least_work", mostWork(pipeline)},
          {"most_memory", *std::max_element(run.peak.begin(), run.peak.end())},
          {"fits", fits(pipeline, run)}};
}

/// The order of a pipeline's actions, beside those with names.
int solvePipeline(const std::string &path, bool span, const std::string &output, bool json) {
  tessera::rt::Result<std::string> text = readInput(path, output);
  if (!text)
    return fail(text.status().message());
  std::string error;
  std::optional<Pipeline> pipeline = parsePipeline(*text, path, error);
  if (!pipeline)
    return fail(error);
  const auto begin = std::chrono::steady_clock::now();
  const FoundOrder found = findOrder(*pipeline, span ? Goal::LongestSpan : Goal::Makespan);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (found.order.empty())
    return fail(path + ": found no order that fits the limits of memory");
  const Timeline line = simulate(pipelineTasks(*pipeline), found.run.start);
  if (!line.error.empty())
    return fail(path + ": the order breaks a rule: " + line.error);
  Json orders = Json::array();
  auto tell = [&](const char *name, const Pipeline &seen, const PipelineRun &run) {
    if (json)
      orders.push_back(orderJson(name, seen, run));
    else
      printOrder(name, seen, run);
  };
  if (!json)
    printf("order            makespan      idle  longest span      idle   most memory\n");
  for (const NamedOrder &named : namedOrders(*pipeline)) {
    const Pipeline seen = named.whole ? withWholeBackward(*pipeline) : *pipeline;
    tell(named.name, seen, runInOrder(seen, named.order));
  }
  tell("found", *pipeline, found.run);
  const int64_t value = span ? found.run.longestSpan : found.run.makespan;
  const double gap = value ? 100.0 * double(value - found.lowerBound) / double(value) : 0;
  const bool optimal = value == found.lowerBound;
  if (json) {
    print({{"orders", orders},
           {"lower_bound", found.lowerBound},
           {"of", span ? "longest_span" : "makespan"},
           {"gap", gap / 100},
           {"optimal", optimal},
           {"seconds", seconds.count()},
           {"order", toCsv(found.order)}});
  } else {
    printf("lower bound  %" PRId64 " of the %s; gap %.4f %%%s\n", found.lowerBound, span ? "longest span" : "makespan",
           gap, optimal ? " (optimal)" : "");
    printf("time         %.3f s\n", seconds.count());
  }
  if (!output.empty())
    if (tessera::rt::Status status = tessera::rt::writeFile(output, toCsv(found.order)); !status)
      return fail(status.message());
  return 0;
}

void tellStages(const FoundStages &found, const StageRating &rating, const char *goal, double gap, double seconds) {
  printf("stage  nodes  way  replicas       latency      interval   in flight        memory\n");
  for (size_t i = 0; i < found.plan.size(); ++i) {
    const Stage &stage = found.plan[i];
    const StageRate &rate = rating.stages[i];
    printf("%5zu  %5zu  %3d  %8d  %12" PRId64 "  %12" PRId64 "  %10" PRId64 "  %12" PRId64 "\n", i, stage.nodes.size(),
           stage.way, stage.replicas, rate.times.latency, rate.times.interval, rate.inFlight, rate.memory);
  }
  for (size_t p = 0; p < rating.places.size(); ++p)
    printf("place %zu      %" PRId64 " bytes of all its stages\n", p, rating.places[p]);
  printf("bottleneck   %" PRId64 "\nbatch        %" PRId64 "\n", rating.bottleneck, rating.batch);
  printf("lower bound  %" PRId64 " of the %s; gap %.4f %%%s\n", found.lowerBound, goal, gap,
         rating.value == found.lowerBound ? " (optimal)" : "");
  printf("downsets     %u of %d units%s\n", found.downsets, found.units, found.complete ? "" : ", not all there are");
  printf("time         %.3f s\n", seconds);
}

Json stagesJson(const FoundStages &found, const StageRating &rating, const char *goal, double gap, double seconds) {
  Json stages = Json::array();
  for (size_t i = 0; i < found.plan.size(); ++i) {
    const Stage &stage = found.plan[i];
    const StageRate &rate = rating.stages[i];
    stages.push_back({{"nodes", stage.nodes},
                      {"way", stage.way},
                      {"replicas", stage.replicas},
                      {"latency", rate.times.latency},
                      {"interval", rate.times.interval},
                      {"in_flight", rate.inFlight},
                      {"memory", rate.memory}});
  }
  return {{"stages", stages},
          {"places", rating.places},
          {"bottleneck", rating.bottleneck},
          {"batch", rating.batch},
          {"lower_bound", found.lowerBound},
          {"of", goal},
          {"gap", gap / 100},
          {"optimal", rating.value == found.lowerBound},
          {"downsets", found.downsets},
          {"units", found.units},
          {"complete", found.complete},
          {"seconds", seconds}};
}

/// Where a network is cut into stages; the judge has the last word.
int solveStages(const std::string &path, const StageOptions &options, const std::string &output, bool json) {
  tessera::rt::Result<std::string> text = readInput(path, output);
  if (!text)
    return fail(text.status().message());
  std::string error;
  std::optional<StageProblem> problem = parseStageProblem(*text, path, error);
  if (!problem)
    return fail(error);
  const auto begin = std::chrono::steady_clock::now();
  const FoundStages found = findStages(*problem, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (found.infeasible)
    return fail(path + ": no cuts fit the devices and their memory (proven)");
  if (found.plan.empty())
    return fail(path + ": found no cuts that fit the devices and their memory; try a larger --seconds");
  const StageRating rating = rateStages(*problem, found.plan);
  if (!rating.error.empty())
    return fail(path + ": the stages break a rule: " + rating.error);
  const char *goal = problem->goal == StageGoal::Batch ? "batch" : "bottleneck";
  const double gap = rating.value ? 100.0 * double(rating.value - found.lowerBound) / double(rating.value) : 0;
  if (json)
    print(stagesJson(found, rating, goal, gap, seconds.count()));
  else
    tellStages(found, rating, goal, gap, seconds.count());
  if (!output.empty())
    if (tessera::rt::Status status = tessera::rt::writeFile(output, toJson(found.plan)); !status)
      return fail(status.message());
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Chooses one option for every node of a strategy graph, start times for a task graph, the order of a "
               "pipeline's actions, or the stages of a network.",
               "tessera-solve");
  std::string path, output;
  SearchOptions options;
  bool isSchedule = false, isPipeline = false, isStages = false, span = false, json = false;
  app.add_option("FILE", path,
                 "strategy graph, JSON, plain or gzip; with --schedule a task graph, with --pipeline a "
                 "pipeline, with --stages nodes and devices, JSON")
      ->required();
  app.add_flag("--schedule", isSchedule, "FILE is a task graph: find when every task starts");
  CLI::Option *pipeline = app.add_flag("--pipeline", isPipeline, "FILE is a pipeline: find the order of its actions");
  pipeline->excludes("--schedule");
  CLI::Option *stages =
      app.add_flag("--stages", isStages, "FILE is a network as nodes with costs, and devices: find where it is cut");
  stages->excludes("--schedule")->excludes(pipeline);
  app.add_flag("--span", span,
               "with --pipeline: what counts is a device's time from its first action to its last, not the end of all")
      ->needs(pipeline);
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
  app.add_flag("--json", json, "print one JSON object, with the choice, instead of text");
  app.add_flag("--verbose", options.log, "tell on stderr what the searcher does, with seconds and work");
  app.add_option("--output", output,
                 "file for the choice: a JSON list of option indices, or of start times; of a pipeline "
                 "a table with a line for each device: 2F0 is the forward of micro-batch 0 in stage 2, "
                 "I the gradients of inputs, W of weights; of stages a JSON object");
  if (std::optional<int> exitCode = tessera::parseCommandLine(app, argc, argv))
    return *exitCode;
  options.stop = &tessera::rt::stopOnInterrupt("tessera-solve");
  ScheduleOptions times{.work = options.work > 0 ? options.work : options.seconds,
                        .seconds = options.seconds,
                        .seed = uint64_t(options.seed),
                        .stop = options.stop};
  const StageOptions cuts{.work = times.work, .stop = options.stop};
  const int code = isStages     ? solveStages(path, cuts, output, json)
                   : isPipeline ? solvePipeline(path, span, output, json)
                   : isSchedule ? solveSchedule(path, times, output, json)
                                : solve(path, options, output, json);
  const int interrupted = tessera::rt::interruptCode();
  if (interrupted && code == 0)
    fprintf(stderr, "tessera-solve: interrupted; this is the best answer so far\n");
  return interrupted ? interrupted : code;
}
