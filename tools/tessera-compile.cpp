//===- tessera-compile.cpp - a model file becomes one plan per rank ------------------------------===//
//
// Parses the command line, runs the phases (compile/Pipeline.h), prints a summary. Exit codes: 1 for a failure,
// 2 for a wrong command line. A failure is one line on stderr and leaves no output behind.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/driver/Driver.h"
#include "runtime/plan/Recipe.h"
#include "strategies/search/Search.h"
#include "tools/NumberRange.h"
#include "tools/cli/CommandLine.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>

using namespace tessera;

namespace {

struct CommandLine {
  std::string mesh = "1", mode = "data", strategy, topology = "cpu", profile, memory;
  std::vector<std::string> dims;
  std::string whatIf, exportWeights, hybridOptions, gradientReduction = "mean";
  std::vector<int64_t> nodes; // of whatIf
  bool train = false, quiet = false, noFuse = false, noFuseAttention = false, searchOnly = false;
  std::string loss = "cross_entropy", optimizer = "sgd:lr=0.01", schedule = "constant", aux, lossScale;
  int64_t accumulate = 1;
  double clipNorm = 0, searchBudget = 2;
  int searchThreads = 1;
  CompileOptions compile;
};

void declare(CLI::App &app, CommandLine &c) {
  CompileOptions &o = c.compile;
  app.add_option("MODEL", o.model, "ONNX model file")->required();
  auto *output = app.add_option("-o,--output", o.output, "Plan directory to write")->type_name("DIR");
  app.add_option("--what-if", c.whatIf,
                 "Write nothing; print step time, efficiency and memory on clusters of so many "
                 "machines of the "
                 "topology's kind, --mesh on each: nodes=1,2,4,8")
      ->excludes(output)
      ->type_name("nodes=N,...");
  app.add_flag("--search-only", c.searchOnly,
               "Write nothing; choose strategies and print what the search found and how long it took")
      ->excludes(output)
      ->excludes("--what-if");
  app.add_option("--export-weights", c.exportWeights,
                 "Write nothing but the tensors that the file stores, by name, as safetensors: for "
                 "tessera-run --weights with another file's model")
      ->excludes(output)
      ->excludes("--what-if")
      ->excludes("--search-only")
      ->type_name("FILE");

  app.add_option("--mesh", c.mesh,
                 "Named axes, major to minor: data=2,model=2; or a number of ranks (mode auto then chooses "
                 "how they are arranged)")
      ->capture_default_str();
  std::vector<std::string> modes = strategies::modeNames();
  modes.push_back("hybrid");
  app.add_option("--mode", c.mode,
                 "How strategies are chosen; hybrid: the file is one rank's program, with its own collectives")
      ->check(suggest(modes))
      ->capture_default_str();
  app.add_option("--hybrid-options", c.hybridOptions,
                 "JSON file for mode hybrid: how batch, inputs, outputs and parameters are cut")
      ->type_name("FILE");
  app.add_option("--strategy", c.strategy,
                 "JSON file with strategies for some operators, or a file of --save-strategies")
      ->type_name("FILE");
  app.add_option("--save-strategies", o.saveStrategies, "Write the strategy of every operator")->type_name("FILE");
  app.add_option("--topology", c.topology, "Machine: a preset, several of one (16x8xh100), or a JSON file")
      ->check(suggest(strategies::Topology::presetNames(), /*orFile=*/true))
      ->capture_default_str();
  app.add_option("--profile", c.profile, "Measured kernel times (JSON)")->type_name("FILE");
  app.add_option("--memory", c.memory, "Memory per rank, such as 16GiB (default: the topology's)");
  app.add_option("--search-budget", c.searchBudget,
                 "Effort of the search of mode auto, in 1e9 steps: roughly seconds, but the same "
                 "result each time")
      ->check(tessera::between(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--search-gap", o.assign.searchGap,
                 "The search of mode auto also ends at this relative distance to its proven bound")
      ->check(tessera::between(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--searcher", o.assign.searcher, "Which searcher mode auto uses")
      ->check(CLI::IsMember(strategies::searcherNames()));
  app.add_option("--dump-strategy-graph", o.assign.dumpGraph,
                 "Write the search problem of mode auto (of the training step, if there is one) for "
                 "tessera-solve; gzip if the name ends in .gz")
      ->type_name("FILE");
  app.add_option("--search-threads", c.searchThreads, "Threads of the search")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();

  app.add_option("--dim", c.dims, "Value of a symbolic dimension: batch=256 (repeat for several)")->type_name("NAME=N");
  app.add_option_function<std::vector<std::string>>(
         "--init",
         [&o](const std::vector<std::string> &values) {
           for (llvm::StringRef value : values) {
             auto [pattern, rule] = value.rsplit('=');
             if (rule.empty())
               o.import.initRule = value.str();
             else
               o.import.initRules.push_back({pattern.str(), rule.str()});
           }
         },
         "Rule for parameters that the file has no values of: kaiming (the default), "
         "kaiming_uniform, xavier, xavier_normal, torch, normal:STD, zeros, ones; or PATTERN=RULE "
         "for those whose name matches (repeat for several): '*.bn3.weight=zeros'")
      ->type_name("RULE")
      ->allow_extra_args(false);
  app.add_flag("--force-init", o.import.forceInit, "Initialise parameters by rule even where the file has values");
  app.add_flag("--init-at-start", o.initAtStart,
               "Store no values of parameters that are initialised by rule: every rank makes its own "
               "when a run starts (above 1 GiB of them it always does)");
  app.add_option("--seed", o.import.seed, "Of initialisation and dropout")->capture_default_str();
  app.add_option("--inputs", o.import.inputs, "Exactly these graph inputs are model inputs, the others parameters")
      ->delimiter(',');
  app.add_option("--parameters", o.import.parameters, "Initializers that are parameters")->delimiter(',');
  app.add_option("--constants", o.import.constants, "Initializers that are constants")->delimiter(',');

  auto *train = app.add_flag("--train", c.train, "Compile a training step (default: inference)");
  app.add_option("--loss", c.loss, "cross_entropy[:label_smoothing=X], nll, mse, bce_with_logits, output")
      ->needs(train)
      ->capture_default_str();
  app.add_option("--optimizer", c.optimizer, "sgd:lr=X[,momentum=X,nesterov,weight_decay=X], adam:..., adamw:...")
      ->needs(train)
      ->capture_default_str();
  app.add_option("--schedule", c.schedule,
                 "constant, step:every=N,gamma=X, cosine:steps=N, linear:steps=N; each with warmup=N")
      ->needs(train)
      ->capture_default_str();
  app.add_option("--gradient-reduction", c.gradientReduction,
                 "Modes data and hybrid: gradients are the mean, or the sum, of those of the batch's "
                 "slices; the loss that is told is the mean")
      ->needs(train)
      ->check(CLI::IsMember({"mean", "sum"}))
      ->capture_default_str();
  app.add_flag("--broadcast-parameters", o.broadcastParameters,
               "Modes data and hybrid: before the first step, what several ranks hold of parameters "
               "and states is sent from the first of them to the others");
  app.add_option("--clip-norm", c.clipNorm, "Clip gradients to this global norm")
      ->needs(train)
      ->check(CLI::PositiveNumber);
  app.add_option("--accumulate", c.accumulate, "Process the batch in N micro-batches, one update for all of them")
      ->needs(train)
      ->check(CLI::Range(1, 4096));
  app.add_option("--precision", o.precision,
                 "bf16: matrix products and convolutions take bfloat16 operands; parameters, sums, "
                 "statistics, losses and the optimizer stay in float32. f16: the same in float16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  app.add_option("--loss-scale", c.lossScale,
                 "Of the gradients, so that float16 holds them: none, static:scale=X, "
                 "dynamic[:initial=X,growth=X,backoff=X,interval=N] (default: dynamic with "
                 "--precision f16, else none)")
      ->needs(train);
  app.add_option("--recompute", o.recompute,
                 "none: keep activations for the backward pass; cheap: but not what elementwise "
                 "operators make; full: keep little and compute the others again; full:0,2: in these "
                 "segments of the forward half; auto: what fits in --memory and is predicted to take "
                 "least")
      ->needs(train)
      ->capture_default_str();
  app.add_option("--aux-outputs", c.aux, "Outputs to add to the loss: 1=0.01,2=0.5")->needs(train);

  app.add_option("--dump-phases", o.dumpPhases, "Write the module after every phase as DIR/N-NAME.mlir")
      ->type_name("DIR");
  app.add_flag("--no-fuse", c.noFuse, "Do not fuse elementwise operators");
  app.add_flag("--no-fuse-attention", c.noFuseAttention, "Leave attention as products with a softmax between");
  app.add_flag("-q,--quiet", c.quiet, "Print nothing but errors");
  app.footer(R"(Examples:
  tessera-compile resnet18.onnx --mesh data=4 --dim batch=64 --train --optimizer sgd:lr=0.1,momentum=0.9 -o plan
  tessera-compile resnet18.onnx --mesh data=2,model=2 --mode auto --train --optimizer adamw:lr=1e-3 -o plan
  tessera-compile mlp.onnx --mesh 2 --mode semi-auto --strategy mlp.json -o plan
      with mlp.json = [{"op": "/fc1/Gemm", "in": [[1, 1], [2, 1]]}]
  tessera-compile resnet50.onnx --mesh 8 --mode auto --topology 8xh100 --memory 40GiB --train -o plan)");
}

template <typename T, typename U> llvm::Error assignTo(llvm::Expected<T> from, U &to) {
  if (!from)
    return from.takeError();
  to = std::move(*from);
  return llvm::Error::success();
}

llvm::Error parseWhatIf(CommandLine &c) {
  if (c.whatIf.empty())
    return c.compile.output.empty() && !c.searchOnly
               ? llvm::createStringError("-o DIR, --search-only or --what-if nodes=N,... is needed")
               : llvm::Error::success();
  llvm::StringRef text = c.whatIf;
  llvm::SmallVector<llvm::StringRef> parts;
  bool good = text.consume_front("nodes=");
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    int64_t n = 0;
    good &= !part.trim().getAsInteger(10, n) && n >= 1 && n <= 1 << 20;
    c.nodes.push_back(n);
  }
  return good ? llvm::Error::success()
              : llvm::createStringError("--what-if %s: expected nodes=1,2,4", c.whatIf.c_str());
}

/// Mode hybrid, and what it shares with mode data.
llvm::Error interpretHybrid(CommandLine &c) {
  if (c.mode != "hybrid" && !llvm::is_contained(strategies::modeNames(), c.mode))
    return llvm::createStringError("unknown mode '%s'; modes are %s, hybrid", c.mode.c_str(),
                                   llvm::join(strategies::modeNames(), ", ").c_str());
  c.compile.sumGradients = c.gradientReduction == "sum";
  if (c.compile.sumGradients && c.mode != "hybrid" && c.mode != "data")
    return llvm::createStringError("--gradient-reduction sum: mode %s reduces every gradient where "
                                   "it costs least, to the mean; use --mode data or hybrid",
                                   c.mode.c_str());
  if (c.compile.broadcastParameters && c.mode != "hybrid" && c.mode != "data")
    return llvm::createStringError("--broadcast-parameters is for --mode data and hybrid");
  if (c.mode != "hybrid")
    return c.hybridOptions.empty() ? llvm::Error::success()
                                   : llvm::createStringError("--hybrid-options is for --mode hybrid");
  const strategies::AssignOptions &a = c.compile.assign;
  for (auto [option, given] :
       {std::pair("--strategy", !c.strategy.empty()), std::pair("--what-if", !c.whatIf.empty()),
        std::pair("--save-strategies", !c.compile.saveStrategies.empty()), std::pair("--search-only", c.searchOnly)})
    if (given)
      return llvm::createStringError("%s: mode hybrid chooses no strategies, the model file says "
                                     "where ranks communicate",
                                     option);
  return assignTo(c.hybridOptions.empty() ? compiler::HybridOptions::none(a.mesh)
                                          : compiler::HybridOptions::load(c.hybridOptions, a.mesh),
                  c.compile.hybrid);
}

/// The options' own texts: meshes, sizes, files.
llvm::Error interpret(CommandLine &c) {
  strategies::AssignOptions &a = c.compile.assign;
  a.mode = c.mode;
  a.searchWork = c.searchBudget;
  a.searchSeconds = std::max(a.searchSeconds, 20 * c.searchBudget);
  a.searchThreads = c.searchThreads;
  c.compile.fuse = !c.noFuse;
  c.compile.fuseAttention = !c.noFuseAttention;
  if (llvm::Error e = assignTo(dist::Mesh::parse(c.mesh), a.mesh))
    return e;
  // Users speak of axes or of splits that may not exist under another mesh: theirs stays as it is.
  c.compile.chooseMesh = c.mode == "auto" && c.strategy.empty() && a.mesh.numRanks() > 1 &&
                         llvm::StringRef(c.mesh).find('=') == llvm::StringRef::npos;
  if (llvm::Error e = interpretHybrid(c))
    return e;
  if (llvm::Error e = parseWhatIf(c))
    return e;
  if (llvm::Error e = assignTo(strategies::Topology::load(c.topology), a.topology))
    return e;
  if (a.mode != "auto")
    for (auto [option, text] : {std::pair("--dump-strategy-graph", &a.dumpGraph), std::pair("--searcher", &a.searcher)})
      if (!text->empty())
        return llvm::createStringError("%s: mode %s searches nothing; use it with --mode auto", option, c.mode.c_str());
  if (!c.strategy.empty())
    if (llvm::Error e = assignTo(strategies::UserStrategies::load(c.strategy), a.user))
      return e;
  if (!c.profile.empty())
    if (llvm::Error e = assignTo(strategies::ProfileTable::load(c.profile), a.profile))
      return e;
  if (!c.memory.empty())
    if (llvm::Error e = assignTo(strategies::parseBytes(c.memory), a.memoryLimit))
      return e;
  for (const std::string &text : c.dims) {
    auto [name, value] = llvm::StringRef(text).split('=');
    int64_t extent = 0;
    if (name.empty() || value.getAsInteger(10, extent) || extent < 1)
      return llvm::createStringError("--dim %s: expected NAME=N with N at least 1, such as batch=256", text.c_str());
    c.compile.import.dims[name.str()] = extent;
  }
  if (!c.train)
    return llvm::Error::success();
  compiler::TrainingOptions training;
  if (llvm::Error e = assignTo(compiler::parseLoss(c.loss), training.loss))
    return e;
  if (llvm::Error e = assignTo(compiler::parseOptimizer(c.optimizer), training.optimizer))
    return e;
  if (llvm::Error e = assignTo(compiler::parseSchedule(c.schedule), training.schedule))
    return e;
  if (llvm::Error e = assignTo(compiler::parseAuxOutputs(c.aux), training.auxOutputs))
    return e;
  if (c.clipNorm > 0)
    training.clipNorm = c.clipNorm;
  // Gradients in float16 underflow without.
  if (c.lossScale.empty())
    c.lossScale = c.compile.precision == "f16" ? "dynamic" : "none";
  if (llvm::Error e = assignTo(compiler::parseLossScale(c.lossScale), training.lossScale))
    return e;
  training.accumulate = c.compile.import.microBatches = c.accumulate;
  c.compile.training = std::move(training);
  return llvm::Error::success();
}

/// What `tessera-run --elastic` needs to compile the same for another mesh: the options as they were given, with the
/// files that they name by absolute paths.
rt::Recipe recipeOf(const CLI::App &app, const CommandLine &c) {
  rt::Recipe recipe{c.compile.model, c.mesh, c.mode, {}, {}};
  auto keep = [&](std::string &path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
      return; // a preset's name
    path = std::filesystem::absolute(path, error).lexically_normal();
    recipe.files.push_back({path, 0, ""});
  };
  keep(recipe.model);
  for (const CLI::Option *option : app.get_options()) {
    if (option->get_lnames().empty())
      continue;
    const std::string name = "--" + option->get_lnames()[0];
    if (rt::Recipe::leavesOut(name))
      continue;
    const bool flag = option->get_items_expected_max() == 0;
    for (std::string value : option->results()) {
      if (llvm::is_contained({"--strategy", "--hybrid-options", "--profile", "--topology"}, name))
        keep(value);
      recipe.arguments.push_back(flag && value == "true" ? name : name + "=" + value);
    }
  }
  return recipe;
}

/// The same as text, with the files' digests; empty where a file is none that can be read again.
std::string recipeText(rt::Recipe recipe) {
  if (recipe.files.empty())
    return "";
  for (rt::Recipe::File &file : recipe.files) {
    rt::Result<rt::Recipe::File> read = rt::Recipe::File::of(file.path);
    if (!read)
      return "";
    file = std::move(*read);
  }
  return recipe.format();
}

} // namespace

int main(int argc, char **argv) {
  CommandLine c;
  CLI::App app("Compiles an ONNX model to one plan per rank", "tessera-compile");
  declare(app, c);
  if (std::optional<int> exitCode = tessera::parseCommandLine(app, argc, argv))
    return *exitCode;
  auto fail = [](llvm::Error e) {
    llvm::errs() << "tessera-compile: error: " << llvm::toString(std::move(e)) << "\n";
    return 1;
  };
  if (!c.exportWeights.empty()) {
    llvm::Expected<compiler::WeightStore> weights = compiler::readWeights(c.compile.model);
    if (!weights)
      return fail(weights.takeError());
    llvm::Error e = weights->writeSafetensors(c.exportWeights);
    return e ? fail(std::move(e)) : 0;
  }
  if (llvm::Error e = interpret(c))
    return fail(std::move(e));
  auto progress = [&](const std::string &line) {
    if (!c.quiet) {
      std::puts(line.c_str());
      std::fflush(stdout);
    }
  };
  if (!c.nodes.empty()) {
    auto clusters = predictClusters(c.compile, c.nodes, progress);
    if (!clusters)
      return fail(clusters.takeError());
    std::fputs(table(*clusters, c.compile.assign.mesh.numRanks()).c_str(), stdout);
    return 0;
  }
  // Beside the compiler: a large model takes a while to sum.
  std::future<std::string> recipe;
  if (!c.searchOnly) {
    recipe = std::async(std::launch::async, recipeText, recipeOf(app, c));
    c.compile.recipe = [&recipe] { return recipe.get(); };
  }
  llvm::Expected<CompileResult> result = c.searchOnly ? searchOnly(c.compile, progress) : compile(c.compile, progress);
  if (!result)
    return fail(result.takeError());
  if (!c.quiet)
    std::fputs(summary(c.compile, *result).c_str(), stdout);
  return 0;
}
