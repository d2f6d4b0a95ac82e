//===- tessera-compile.cpp - a model file becomes one plan per rank ------------------------------===//
//
// Parses the command line, compiles (compiler/driver/Driver.h), prints a summary. Exit codes: 1 for a failure,
// 2 for what is wrong before any file is read. A failure is one line on stderr and leaves no output behind.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/driver/Driver.h"
#include "runtime/plan/Recipe.h"
#include "runtime/support/CommandFiles.h"
#include "runtime/support/ExitCodes.h"
#include "runtime/support/Interrupts.h"
#include "runtime/support/Printable.h"
#include "strategies/search/Search.h"
#include "tools/NumberRange.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/ParameterTable.h"
#include "tools/cli/StatusLine.h"
#include "tools/host/HostTopology.h"
#include "tools/page/ReadPage.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>

using namespace tessera;

namespace {

/// Options that the compiler itself does not have, and those that it takes in another form.
struct CommandLine {
  CompileOptions compile;
  std::vector<std::string> dims, inits, whatIf;
  std::string exportWeights, html;
  bool quiet = false, json = false, accept = false, searchOnly = false, listParameters = false;
};

void declare(CLI::App &app, CommandLine &c) {
  CompileOptions &o = c.compile;
  strategies::AssignStrategiesPassOptions &a = o.assign;
  compiler::BuildTrainingPassOptions &t = o.training;
  app.add_option("MODEL", o.model, "ONNX model file")->required();
  auto *output = app.add_option("-o,--output", o.output, "Plan directory to write")->type_name("DIR");
  app.add_option("--html", c.html,
                 "Also write a page to look at: costs, layers, time, memory, communication; one file, as of "
                 "tessera-dump --html")
      ->needs(output)
      ->type_name("FILE");
  app.add_option("--what-if", c.whatIf,
                 "Print step time, efficiency and memory for other clusters, sizes or limits, a table each (repeat "
                 "for several). nodes=1,2,4: so many machines of the topology's kind, --mesh on each (of stages: in "
                 "each stage so many times more ranks). The batch stays the same (strong scaling), or a --dim that is "
                 "given for one machine grows with their number (weak scaling): nodes=1,2,4,grow=batch. "
                 "batch=16,32,64: another size of this dimension. memory=8GiB,16GiB: "
                 "another limit per rank. Without -o nothing is written; with it the report and --html have the "
                 "tables, too")
      ->allow_extra_args(false)
      ->type_name("NAME=N,...");
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

  app.add_option("--mesh", a.mesh,
                 "Named axes, major to minor: data=2,model=2; or a number of ranks (mode auto then chooses "
                 "how they are arranged). A first axis 'stage' cuts the network into stages of a pipeline; "
                 "stages=[data=2,model=2; data=1] gives each stage a mesh of its own")
      ->capture_default_str();
  std::vector<std::string> modes = strategies::modeNames();
  modes.push_back("hybrid");
  app.add_option("--mode", a.mode,
                 "How strategies are chosen; hybrid: the file is one rank's program, with its own collectives")
      ->check(suggest(modes))
      ->capture_default_str();
  app.add_option("--hybrid-options", o.hybridOptions,
                 "JSON file for mode hybrid: how batch, inputs, outputs and parameters are cut")
      ->type_name("FILE");
  app.add_option("--strategy", a.strategy,
                 "JSON file with strategies for some operators, or a file of --save-strategies")
      ->type_name("FILE");
  app.add_option("--save-strategies", o.saveStrategies, "Write the strategy of every operator")->type_name("FILE");
  std::vector<std::string> machines = strategies::Topology::presetNames();
  machines.insert(machines.begin(), kHostTopology.str());
  a.topology = kHostTopology.str();
  app.add_option("--topology", a.topology,
                 "Machine: host (this machine's cores, measured at the first use in some ten seconds), a preset, "
                 "several of one (16x8xh100), or a JSON file")
      ->check(suggest(machines, /*orFile=*/true))
      ->envname("TESSERA_TOPOLOGY")
      ->capture_default_str();
  app.add_option("--profile", a.profile, "Measured kernel times (JSON)")->type_name("FILE");
  app.add_option("--memory", a.memory, "Memory per rank, such as 16GiB (default: the topology's)");
  app.add_option("--fusion", a.fusion,
                 "Which collectives are sent as one message: auto (where the cost model says that the step is no "
                 "later), off, or the size of a message, such as 25MiB")
      ->capture_default_str();
  app.add_option(
         "--overlap", a.overlap,
         "Whether collectives run beside kernels: auto (where the cost model says that the step is earlier), on "
         "(wherever there is memory for it), or off. Results are the same to the bit")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app.add_option("--search-budget", a.searchBudget,
                 "Effort of the search of mode auto, in 1e9 steps: roughly seconds, but the same "
                 "result each time")
      ->check(tessera::between(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--search-gap", a.searchGap,
                 "The search of mode auto also ends at this relative distance to its proven bound")
      ->check(tessera::between(0.0, 1.0))
      ->capture_default_str();
  app.add_flag(
      "--split-groups", a.splitGroups,
      "Mode auto also looks at plans in which operators that follow another one (elementwise operators, softmax, "
      "transposes) are cut otherwise than it. Better plans, up to a tenth for large models on three axes; the "
      "search takes up to three times as long");
  app.add_flag("--accept", c.accept,
               "Ctrl-C during the search ends the search only: the best strategies so far are taken, and the plan is "
               "written");
  app.add_option("--searcher", a.searcher, "Which searcher mode auto uses")
      ->check(CLI::IsMember(strategies::searcherNames()));
  app.add_option("--dump-strategy-graph", a.dumpGraph,
                 "Write the search problem of mode auto (of the training step, if there is one) for "
                 "tessera-solve; gzip if the name ends in .gz")
      ->type_name("FILE");
  app.add_option("--search-threads", a.searchThreads,
                 "Threads of the search's random part: the strategies may depend on their number. What gives the same "
                 "answer on any number of threads uses all processors")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();

  app.add_option("--dim", c.dims, "Value of a symbolic dimension: batch=256 (repeat for several)")->type_name("NAME=N");
  app.add_option("--init", c.inits,
                 "Rule for parameters that the file has no values of: kaiming (the default), "
                 "kaiming_uniform, xavier, xavier_normal, torch, normal:STD, zeros, ones; or PATTERN=RULE "
                 "for those whose name matches (repeat for several): '*.bn3.weight=zeros'")
      ->type_name("RULE")
      ->allow_extra_args(false);
  app.add_flag("--force-init", o.import.forceInit, "Initialise parameters by rule even where the file has values");
  app.add_flag("--init-at-start", o.initAtStart,
               "Store no values of parameters that are initialised by rule: every rank makes its own "
               "when a run starts (above 1 GiB of them it always does)");
  app.add_option("--seed", o.import.seed, "Of initialisation and dropout")
      ->check(tessera::notNegative())
      ->capture_default_str();
  app.add_option("--inputs", o.import.inputs, "Exactly these graph inputs are model inputs, the others parameters")
      ->delimiter(',');
  auto names = [&](const char *option, std::vector<std::string> &patterns, const char *what) {
    app.add_option(option, patterns, what)->delimiter(',')->allow_extra_args(false)->type_name("PATTERN,...");
  };
  names("--parameters", o.import.parameters, "Initializers and graph inputs that are parameters");
  names("--constants", o.import.constants, "Initializers that are constants");
  names("--freeze", o.import.freeze,
        "Parameters that are loaded and saved, but not trained: 'encoder.*', '*.embed_positions.weight'");
  app.add_flag("--freeze-batchnorm{*}", o.import.freezeBatchNorm,
               "BatchNorm that normalises by its running statistics in training, too; all, or =PATTERN for those "
               "whose module or node has such a name");
  app.add_flag("--list-parameters", c.listParameters,
               "Write nothing; print what of the file's tensors would be trained, what is state and what constant, "
               "each with the reason")
      ->excludes(output)
      ->excludes("--what-if")
      ->excludes("--search-only")
      ->excludes("--export-weights");

  auto *train = app.add_flag("--train", o.train, "Compile a training step (default: inference)");
  app.add_option(
         "--loss", t.loss,
         "cross_entropy[:label_smoothing=X,ignore_index=N,class_dim=N,output=N], nll, mse, bce_with_logits, "
         "output. Classes are the last dimension of an output of two or three, and dimension 1 of one with more; "
         "class_dim=N names another")
      ->needs(train)
      ->capture_default_str();
  app.add_option("--optimizer", t.optimizer, "sgd:lr=X[,momentum=X,nesterov,weight_decay=X], adam:..., adamw:...")
      ->needs(train)
      ->capture_default_str();
  app.add_option("--schedule", t.schedule,
                 "constant, step:every=N,gamma=X, cosine:steps=N, linear:steps=N; each with warmup=N")
      ->needs(train)
      ->capture_default_str();
  app.add_option("--gradient-reduction", o.gradientReduction,
                 "Modes data and hybrid: gradients are the mean, or the sum, of those of the batch's "
                 "slices; the loss that is told is the mean")
      ->needs(train)
      ->check(CLI::IsMember({"mean", "sum"}))
      ->capture_default_str();
  app.add_flag("--broadcast-parameters", o.broadcastParameters,
               "Modes data and hybrid: before the first step, what several ranks hold of parameters "
               "and states is sent from the first of them to the others");
  app.add_option("--clip-norm", t.clipNorm, "Clip gradients to this global norm")
      ->needs(train)
      ->check(CLI::PositiveNumber);
  app.add_option("--accumulate", t.accumulate,
                 "Process the batch in N micro-batches, one update for all of them. --dim batch=B is the whole batch, "
                 "a micro-batch has B/N rows. A batch that the file fixes is a micro-batch's: the step's work is N "
                 "times, the inputs N times as large")
      ->needs(train)
      ->check(CLI::Range(int64_t(1), tessera::kMostMicroBatches));
  app.add_option(
         "--pipeline", o.pipeline,
         "Of a mesh whose first axis is 'stage', or of stages=[...] (with one stage on a rank): schedule=gpipe, 1f1b, "
         "zb-h1, zb-h2, interleaved:V (V stages on every "
         "rank, for V times as small gaps and V times as many messages; --accumulate a multiple of the stage axis), "
         "zb-v (two stages on every rank, there and back; --accumulate at least twice the stage axis) or auto (the "
         "best that is found in the memory of 1f1b); or schedule=FILE.csv, an order as tessera-dump "
         "--schedule csv prints it. auto, with a number of ranks as --mesh and mode auto: stages, schedule, the mesh "
         "of a stage and, unless their number is given, the micro-batches are chosen, against no stages at all. With "
         "micro=N, as in schedule=1f1b,micro=8, it is the number of micro-batches, as --accumulate N")
      ->type_name("[schedule=NAME|auto][,micro=N]");
  app.add_flag("--reproducible{8}", o.leaves,
               "The same bits on any number of ranks and under every strategy: a sum that may be cut is computed in L "
               "equal parts (a power of two, 8 unless given), which are added as one tree")
      ->check([](const std::string &text) {
        int64_t leaves = 0;
        return CLI::detail::lexical_cast(text, leaves) && tessera::isLeafCount(leaves)
                   ? std::string()
                   : "'" + text + "' is not a power of two from 1 to " + std::to_string(tessera::kMostLeaves);
      });
  app.add_option("--precision", o.precision,
                 "bf16: matrix products and convolutions take bfloat16 operands; parameters, sums, "
                 "statistics, losses and the optimizer stay in float32. f16: the same in float16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  app.add_option(
         "--products", o.products,
         "With --precision bf16 or f16. wide: products hand their float32 sums on, and ranks add them so. "
         "narrow: a product that another product depends on is rounded to 16 bits, as by PyTorch's autocast, "
         "so that ranks that cut one send half the bytes; every rank rounds its term, so results depend a little on "
         "the mesh. Gradients of parameters stay in float32")
      ->check(CLI::IsMember({"wide", "narrow"}))
      ->capture_default_str();
  app.add_option("--loss-scale", t.lossScale,
                 "Of the gradients, so that float16 holds them: none, static:scale=X, "
                 "dynamic[:initial=X,growth=X,backoff=X,interval=N] (default: dynamic with "
                 "--precision f16, else none)")
      ->needs(train);
  app.add_option("--compress", t.compress,
                 "In what gradients are sent where ranks add them up: bf16, f16, int8[:block=N], whole numbers with a "
                 "scale for N elements (256), or powersgd[:rank=R], of a matrix two factors of R columns (4). A sum is "
                 "sent so if the step is predicted to be earlier by it, or, with 'always' (bf16:always, "
                 "int8:block=256,always), in any case. It is another function than on one device: what is sent is less "
                 "than the gradients, and what is left of them is sent in later steps")
      ->needs(train)
      ->type_name("TYPE");
  app.add_option("--recompute", o.recompute,
                 "none: keep activations for the backward pass; cheap: but not what elementwise "
                 "operators make; full: keep little and compute the others again; full:0,2: in these "
                 "segments of the forward half; auto: what fits in --memory and is predicted to take "
                 "least")
      ->needs(train)
      ->capture_default_str();
  app.add_option("--aux-outputs", t.auxOutputs, "Outputs to add to the loss: 1=0.01,2=0.5")->needs(train);

  app.add_option("--dump-phases", o.dumpPhases, "Write the module after every phase as DIR/N-NAME.mlir")
      ->type_name("DIR");
  app.add_flag_callback(
      "--no-fuse", [&o] { o.fuse = false; }, "Do not fuse elementwise operators");
  app.add_flag_callback(
      "--no-fuse-attention", [&o] { o.fuseAttention = false; }, "Leave attention as products with a softmax between");
  app.add_flag("-q,--quiet", c.quiet, "Print nothing but errors");
  app.add_flag("--json", c.json,
               "Print one JSON object instead of text: what report.json has, the tables of --what-if, "
               "or the list of --list-parameters")
      ->excludes("--quiet")
      ->excludes("--export-weights");
  app.footer(R"(Examples:
  tessera-compile resnet18.onnx --mesh data=4 --dim batch=64 --train --optimizer sgd:lr=0.1,momentum=0.9 -o plan
  tessera-compile resnet18.onnx --mesh data=2,model=2 --mode auto --train --optimizer adamw:lr=1e-3 -o plan
  tessera-compile mlp.onnx --mesh 2 --mode semi-auto --strategy mlp.json -o plan
      with mlp.json = [{"op": "/fc1/Gemm", "in": [[1, 1], [2, 1]]}]
  tessera-compile resnet50.onnx --mesh 8 --mode auto --topology 8xh100 --memory 40GiB --train -o plan
  tessera-compile whisper.onnx --list-parameters --freeze '*.embed_positions.weight')");
}

/// Parses one question of --what-if and adds it to the others: "nodes=1,2,4,grow=batch", "memory=8GiB", "batch=16,32".
llvm::Error parseWhatIf(llvm::StringRef text, const compiler::ImportOptions &import, WhatIf &whatIf) {
  auto [name, list] = text.split('=');
  llvm::SmallVector<llvm::StringRef> parts;
  list.split(parts, ',');
  std::vector<int64_t> numbers;
  bool good = text.contains('=') && !name.empty();
  const bool nodes = name == "nodes", memory = name == "memory";
  if (llvm::StringRef last = parts.back(); nodes && last.consume_front("grow=")) {
    whatIf.grows = last.str();
    good &= !last.empty();
    parts.pop_back();
  }
  for (llvm::StringRef part : parts) {
    int64_t n = 0;
    if (memory) {
      if (llvm::Error e = strategies::parseBytes(part.trim().str()).moveInto(n))
        return llvm::joinErrors(llvm::createStringError("--what-if %s", text.str().c_str()), std::move(e));
    } else {
      good &= !part.trim().getAsInteger(10, n);
    }
    good &= n >= 1 && (!nodes || n <= 1 << 20);
    numbers.push_back(n);
  }
  if (!good || numbers.empty())
    return llvm::createStringError("--what-if %s: expected nodes=1,2,4, nodes=1,2,4,grow=batch, memory=8GiB,16GiB, or "
                                   "the sizes of a dimension: batch=16,32",
                                   text.str().c_str());
  std::vector<int64_t> &asked = nodes ? whatIf.nodes : memory ? whatIf.limits : whatIf.sizes;
  if (!asked.empty())
    return llvm::createStringError("--what-if %s: there is %s already; name all numbers in one", text.str().c_str(),
                                   nodes || memory ? name.str().c_str() : whatIf.dim.c_str());
  asked = std::move(numbers);
  if (!nodes && !memory) {
    whatIf.dim = name.str();
    if (!import.dims.count(whatIf.dim))
      return llvm::createStringError("--what-if %s: --dim %s=N must say how large it is now", text.str().c_str(),
                                     whatIf.dim.c_str());
  }
  return llvm::Error::success();
}

/// What stands on the terminal while the compiler works.
StatusLine::Text statusText(const CompileWatch &watch, double seconds, bool stopping) {
  StatusLine::Text text{watch.phase.load(), ""};
  char part[96];
  auto add = [&](const char *format, auto... values) {
    std::snprintf(part, sizeof part, format, values...);
    text.details += (text.details.empty() ? "" : "  ") + std::string(part);
  };
  const strategies::SearchWatch &search = watch.search;
  if (search.running > 0 && search.parts > 0) {
    add("%d of %d arrangements searched", search.part.load(), search.parts.load());
  } else if (search.running > 0) {
    const strategies::Cost cost = search.cost, bound = std::min(search.bound.load(), cost);
    if (cost < strategies::kForbidden)
      add("cost %.3f ms", double(cost) / 1e6);
    if (bound > 0)
      add("bound %.3f ms", double(bound) / 1e6);
    if (cost < strategies::kForbidden && bound > 0)
      add("gap %.2f %%", 100 * double(cost - bound) / double(cost));
    if (const double budget = search.budget; budget > 0)
      add("%.0f %% of the budget", std::min(100.0, 100 * search.work / budget));
  }
  add("%.0f s", seconds);
  if (stopping)
    add("ending");
  return text;
}

std::vector<ParameterRow> rowsOf(const std::vector<compiler::TensorRole> &roles) {
  std::vector<ParameterRow> rows;
  for (const compiler::TensorRole &role : roles)
    rows.push_back({role.role, rt::printable(role.name), compiler::dtypeName(role.type).str(),
                    compiler::shapeText(role.shape), rt::printable(role.reason), role.guess});
  return rows;
}

void tellWarning(llvm::StringRef text) { rt::printError("tessera-compile: warning: " + text.str()); }

/// The recipe with which `tessera-run --elastic` compiles the same model for another mesh: the options as given, where
/// files have absolute paths.
rt::Recipe recipeOf(const CLI::App &app, const CommandLine &c) {
  rt::Recipe recipe{c.compile.model, c.compile.assign.mesh, c.compile.assign.mode, {}, {}};
  auto keep = [&](std::string &path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
      return; // the name of a preset and no file
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
    std::vector<std::string> values = option->results();
    if (name == "--topology") // also where nobody gave it: this machine as it was measured here
      values = {c.compile.assign.topology};
    for (std::string value : values) {
      if (llvm::is_contained({"--strategy", "--hybrid-options", "--profile", "--topology"}, name))
        keep(value);
      if (compiler::PipelineOptions pipeline; name == "--pipeline") {
        pipeline = llvm::cantFail(compiler::parsePipeline(value)); // checkOptions has parsed it
        if (pipeline.isFile())
          keep(pipeline.schedule);
        value = pipeline.isChosen() ? "auto" : "schedule=" + pipeline.schedule;
        // Apart from the schedule, which another number of ranks may leave out.
        if (pipeline.microBatches && app.count("--accumulate") == 0)
          recipe.arguments.push_back("--accumulate=" + std::to_string(*pipeline.microBatches));
      }
      recipe.arguments.push_back(flag && value == "true" ? name : name + "=" + value);
    }
  }
  return recipe;
}

/// The recipe as text, with the files' digests. Empty if one of the files cannot be read again, such as a pipe.
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

/// Checks that no output replaces an input, another output, or what is no regular file.
rt::Status checkFiles(const CommandLine &c) {
  const CompileOptions &o = c.compile;
  rt::CommandFiles files;
  for (const std::string &path : {o.model, o.hybridOptions, o.assign.strategy, o.assign.topology, o.assign.profile})
    files.reads(path);
  if (auto pipeline = llvm::cantFail(compiler::parsePipeline(o.pipeline)); pipeline.isFile()) // complete() parsed it
    files.reads(pipeline.schedule);
  files.writes("--export-weights", c.exportWeights);
  files.writes("--save-strategies", o.saveStrategies);
  files.writes("--dump-strategy-graph", o.assign.dumpGraph);
  files.replaces("-o", o.output);
  files.writes("--html", c.html);
  return files.check();
}

/// Takes the number of micro-batches from --accumulate, or from --pipeline. Where both have one, checkOptions compares
/// them.
void takeMicroBatches(CompileOptions &options, bool accumulates) {
  options.chooseMicroBatches = !accumulates;
  llvm::Expected<compiler::PipelineOptions> pipeline = compiler::parsePipeline(options.pipeline);
  if (!pipeline)
    return llvm::consumeError(pipeline.takeError()); // checkOptions says it
  if (pipeline->microBatches && !accumulates) {
    options.training.accumulate = *pipeline->microBatches;
    options.chooseMicroBatches = false;
  }
}

/// Checks the command line without reading files, and parses the texts of the tool's own options.
llvm::Error complete(CommandLine &c, WhatIf &whatIf) {
  for (const std::string &text : c.dims)
    if (llvm::Error e = c.compile.import.addDim(text))
      return e;
  for (const std::string &text : c.inits)
    c.compile.import.addInit(text);
  for (const std::string &text : c.whatIf)
    if (llvm::Error e = parseWhatIf(text, c.compile.import, whatIf))
      return e;
  if (llvm::Error e = checkOptions(c.compile, c.searchOnly ? "--search-only" : !c.whatIf.empty() ? "--what-if" : ""))
    return e;
  if (!c.exportWeights.empty() || c.listParameters || (!c.whatIf.empty() && c.compile.output.empty()))
    return llvm::Error::success();
  if (!c.compile.train && !c.compile.import.freeze.empty())
    return llvm::createStringError("--freeze is for a training step: add --train, or --list-parameters to see it");
  if (c.compile.output.empty() && !c.searchOnly)
    return llvm::createStringError("-o DIR, --search-only or --what-if NAME=N,... is needed");
  if (c.accept && c.compile.assign.mode != "auto")
    return llvm::createStringError("--accept is for --mode auto: no other mode searches");
  return llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  CommandLine c;
  CLI::App app("Compiles an ONNX model to one plan per rank", "tessera-compile");
  declare(app, c);
  if (std::optional<int> exitCode = tessera::parseCommandLine(app, argc, argv))
    return *exitCode;
  takeMicroBatches(c.compile, app.count("--accumulate") > 0);
  CompileWatch watch;
  if (c.accept)
    c.compile.stop = &rt::stopOnInterrupt("tessera-compile", [&watch] { return watch.search.running > 0; });
  else
    rt::endOnInterrupt("tessera-compile");
  std::optional<StatusLine> status;
  auto fail = [&status](llvm::Error e, int code = rt::kExitError) {
    rt::yieldToInterrupt();
    status.reset();
    rt::printError("tessera-compile: error: " + llvm::toString(std::move(e)));
    return code;
  };
  WhatIf whatIf;
  if (llvm::Error e = complete(c, whatIf))
    return fail(std::move(e), rt::kExitUsage);
  if (rt::Status status = checkFiles(c); !status)
    return fail(llvm::createStringError(status.message()));
  if (!c.exportWeights.empty()) {
    llvm::Expected<compiler::WeightStore> weights = compiler::readWeights(c.compile.model);
    if (!weights)
      return fail(weights.takeError());
    llvm::Error e = weights->writeSafetensors(c.exportWeights);
    return e ? fail(std::move(e)) : 0;
  }
  if (c.listParameters) {
    llvm::Expected<compiler::ListedParameters> listed = compiler::listParameters(c.compile.model, c.compile.import);
    if (!listed)
      return fail(listed.takeError());
    std::fputs(c.json ? rolesJson(listed->roles, c.compile.train).c_str()
                      : parameterTable(rowsOf(listed->roles)).c_str(),
               stdout);
    for (const std::string &warning : listed->warnings)
      tellWarning(warning);
    return 0;
  }
  c.compile.assign.topology = resolveTopology(
      c.compile.assign.topology,
      [&c](const std::string &line) {
        if (!c.quiet)
          rt::printError("tessera-compile: " + line);
      },
      tellWarning);
  if (!c.quiet && !c.json) {
    c.compile.watch = &watch;
    status.emplace(stdout, [&, begin = std::chrono::steady_clock::now()] {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      return statusText(watch, seconds.count(), c.compile.stop && *c.compile.stop);
    });
  } else if (c.accept) {
    c.compile.watch = &watch; // it tells whether a search runs
  }
  auto progress = [&](const std::string &line) {
    if (c.quiet)
      return;
    if (llvm::StringRef text = line; text.consume_front("warning: ")) {
      if (status)
        status->pause([&] { tellWarning(text); });
      else
        tellWarning(text);
    } else if (status) {
      status->print(rt::printable(line));
    }
  };
  if (!c.whatIf.empty() && c.compile.output.empty()) {
    auto tables = predictWhatIf(c.compile, whatIf, progress);
    if (!tables)
      return fail(tables.takeError());
    status.reset();
    std::fputs(c.json ? whatIfJson(whatIf, *tables).c_str() : table(whatIf, *tables).c_str(), stdout);
    return 0;
  }
  // The recipe is made beside the compiler, if a thread can be started: checksums of a large model take a while.
  std::future<std::string> recipe;
  if (!c.searchOnly) {
    recipe = std::async(std::launch::async | std::launch::deferred, recipeText, recipeOf(app, c));
    c.compile.recipe = [&recipe] { return recipe.get(); };
  }
  if (!c.whatIf.empty())
    c.compile.whatIf = whatIf;
  if (!c.html.empty())
    c.compile.finish = [&c](const std::string &folder) {
      const rt::Status written = writePage(folder, {}, c.html);
      return written ? llvm::Error::success() : llvm::createStringError("--html " + written.message());
    };
  llvm::Expected<CompileResult> result = c.searchOnly ? searchOnly(c.compile, progress) : compile(c.compile, progress);
  if (!result)
    return fail(result.takeError());
  status.reset();
  if (c.json) {
    std::fputs(resultJson(c.compile, *result).c_str(), stdout);
  } else if (!c.quiet) {
    std::fputs(summary(c.compile, *result).c_str(), stdout);
    if (c.compile.train)
      std::printf("parameters   %s\n", parameterCounts(rowsOf(result->roles)).c_str());
    if (c.compile.whatIf)
      std::printf("\n%s", table(*c.compile.whatIf, result->whatIf).c_str());
  }
  if (const std::string unwritten = finishOutput(); !unwritten.empty())
    return fail(llvm::createStringError(unwritten));
  return 0;
}
