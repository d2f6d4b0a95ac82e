//===- Report.h - what an assignment costs, per operator and in total ----------------------------===//
//
// Computed from the strategies alone, whatever mode chose them. The same numbers go to the summary of
// tessera-compile, to report.json in the plan's folder and so to tessera-dump.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_REPORT_REPORT_H
#define TESSERA_STRATEGIES_REPORT_REPORT_H

#include "strategies/cost/ProgramCost.h"

#include <nlohmann/json_fwd.hpp>

namespace tessera::strategies {

/// Another option of an operator: by how much the program would change, its neighbours answering.
struct Alternative {
  std::string strategy;
  Cost compute = 0, communication = 0; // ns more
  Cost growing = 0;                    // the part of the two that grows with the batch
  int64_t memory = 0;                  // bytes more for parameters and states
};

struct SearchReport {
  std::string searcher; // empty: nothing was searched
  Cost cost = 0, lowerBound = 0;
  bool optimal = false;
  /// Where collectives may run beside kernels: a step takes at least as long, in ns, whatever is hidden; else 0.
  Cost besideBound = 0;
  double buildSeconds = 0, solveSeconds = 0; // to state the problem, to solve it
  int64_t nodes = 0, edges = 0, options = 0;
  int64_t partly = 0;      // operators of which not every strategy was an option (mostStrategies)
  int64_t counted = 0;     // bytes that the search takes its answer to need; 0: it counts none
  double work = 0;         // that the search did, in 1e9 steps
  bool limited = false;    // with a larger budget it might have found something else
  bool stopped = false;    // someone ended it before its budget
  bool doesNotFit = false; // nothing was found within the memory limit
  /// Split groups have a better answer, which the search took to fit, and which needs more than that.
  bool heldTooMuch = false;
  /// By index of the operator, the cheapest first (Explain.h).
  std::map<int, std::vector<Alternative>> alternatives;
  /// (cost - lower bound) / cost.
  double gap() const;
};

struct CollectiveReport {
  std::string where; // "operand 0", "statistic 0", "result 1" or "handed to 'fc2'"
  std::string kind;  // "all-reduce"
  std::string axes;  // "data,model"
  Shape localIn, localOut;
  int64_t elementBytes = 4;
  dist::Wire wire;                 // of a sum: in what its terms are sent
  int64_t parts = 1;               // as how many collectives it is sent
  int64_t times = 1;               // how often it is sent in a step; the next are of all
  double bytesSent = 0;            // per rank
  double wholeBytes = 0;           // of a sum with a wire: what it would send without
  Cost cost = 0;                   // of a joined message: its part
  Cost latency = 0;                // of the cost, what is left where links are infinitely fast
  std::optional<int> message = {}; // of the joined ones, the one that it is sent in; nothing: it is sent alone
  /// Of the reshard that begins with this collective: the fewest bytes that a rank sends in any way (dist/LeastBytes.h).
  std::optional<double> leastBytes = {};

  /// Of a message that is joined of several collectives: this one's part of its cost.
  void setCost(Cost part) {
    cost = part;
    latency = std::min(latency, part);
  }
  /// Of one that is sent once: that it is sent so often.
  void repeat(int64_t number) {
    times = number;
    bytesSent *= double(number);
    wholeBytes *= double(number);
    cost = repeated(cost, number);
    latency = repeated(latency, number);
  }
};

struct OperatorReport {
  std::string name, kind, strategy, rule;
  std::string gradientOf, updateOf;           // of which operator, of which parameter; empty: of none
  std::vector<std::string> inputs;            // what makes the operands: operators and arguments, by name
  std::vector<std::string> operands, results; // shardings
  std::vector<Shape> globalOperands, globalResults, localOperands, localResults;
  std::optional<int> stage = {}; // of a pipeline; nothing: it has none, or every stage computes it for itself
  int64_t times = 1;             // how often it runs in a step: once for each micro-batch; the next are of all
  double flops = 0;              // local
  int64_t bytes = 0;             // local operands and results
  Cost compute = 0;
  std::vector<CollectiveReport> collectives;
  Cost communication() const;
};

struct FunctionReport {
  std::string name;
  std::vector<OperatorReport> operators;
  /// Reshards of arguments and at the function's results.
  std::vector<CollectiveReport> boundary;
  Cost compute = 0, communication = 0;
  double bytesSent = 0; // per rank and step
  int64_t numCollectives = 0;
  int64_t numMessages = 0; // as which they are sent
  /// Sums whose terms are sent in fewer bits, and what a rank sends for them in a step, then and if they were sent whole.
  struct Compressed {
    int64_t sums = 0;
    double bytesSent = 0, wholeBytes = 0;
  } compressed;
  std::optional<BesideCost> beside; // what the program takes as some of them run beside kernels; nothing: in line
  /// The time that these kernels and collectives take in any schedule (LeastTime.h); 0: none was looked for.
  Cost leastTime = 0;
  int64_t persistentBytes = 0; // parameters and states on one rank
  int64_t peakBytes = 0;       // estimate: persistent plus the largest live set
  SearchReport search;
  std::optional<Cost> pipelined; // of a pipeline: the time of a step in the order of its stages
  /// The work in line: of a pipeline of all stages, which run beside each other.
  Cost total() const { return compute + communication; }
  /// The time of a step. Whoever tells one, tells this.
  Cost predicted() const { return pipelined ? *pipelined : beside ? beside->predicted : total(); }
  /// What communication takes of it that no kernel hides; of a pipeline the communication of all stages.
  Cost exposed() const { return beside ? beside->exposed : communication; }
  /// Whether leastTime says something of the step.
  bool hasScheduleBound() const { return leastTime > 0 && numCollectives > 0 && !pipelined; }
  /// How far the step is from leastTime, in parts of it.
  double scheduleGap() const;
  /// Whether search.besideBound says something. It is in the search's prices, in which every kernel starts by itself.
  /// Where joined kernels save so many starts that the step is below it, it does not.
  bool hasBesideBound() const { return search.besideBound > 0 && search.besideBound <= predicted(); }
  /// How far the step is from search.besideBound, in parts of it.
  double besideGap() const;
};

struct AssignReport {
  std::string mode, mesh, topology;
  int64_t memoryLimit = 0;
  bool doesNotFit = false; // assignment failed because nothing was found that fits
  std::vector<FunctionReport> functions;
  const FunctionReport *find(llvm::StringRef function) const;
  /// The function whose time is searched for: the first, "train" or "infer". Null if there is none.
  const FunctionReport *step() const { return functions.empty() ? nullptr : &functions.front(); }
  /// Its costs, or 0. With stages `predicted` is the time of a step, and `total` the work of all stages, as the search
  /// counts.
  Cost predicted() const { return functions.empty() ? Cost(0) : functions.front().predicted(); }
  Cost total() const { return functions.empty() ? Cost(0) : functions.front().total(); }
};

/// CollectiveReport::where of a collective in FunctionReport::boundary.
std::string whereOfResult(mlir::func::FuncOp func, unsigned result);

/// Sets what the collectives of operators and boundary send, and as how many messages. A message of several stages is
/// one in each of them.
void countCollectives(FunctionReport &report);

/// Prices one annotated function.
llvm::Expected<FunctionReport> priceFunction(mlir::func::FuncOp func, const CostModel &model,
                                             const JoinOptions &join = {});

/// The same of a function whose costs are known.
FunctionReport reportFunction(const ChosenProgram &chosen, const ProgramCost &cost, const CostModel &model);

/// Prices one function of a program that is one rank's (phase 5, before fusion): every operator on the shapes that it
/// has, every dist.collective. `differs` says in a word along which axes a value differs between ranks.
llvm::Expected<FunctionReport> priceLocalFunction(mlir::func::FuncOp func, const CostModel &model,
                                                  llvm::function_ref<std::string(mlir::Value)> differs,
                                                  const JoinOptions &join = {});

/// By operand, the name of the operator or argument that it is a result of.
std::vector<std::string> inputNames(mlir::Operation *op);

/// One collective for the report.
CollectiveReport describe(const CostModel &model, const dist::Collective &collective, int64_t elementBytes,
                          std::string where);

nlohmann::ordered_json toJson(const AssignReport &report);

} // namespace tessera::strategies

#endif
