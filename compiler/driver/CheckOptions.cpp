// Checks of the options that need no file.
#include "compiler/driver/Driver.h"
#include "compiler/driver/fit/RecomputeTrials.h"
#include "compiler/driver/stages/OwnMeshes.h"

#include "dialects/dist/DistOps.h"

#include "llvm/ADT/StringExtras.h"

namespace tessera {

const std::vector<std::string> &compileModes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list = strategies::modeNames();
    list.push_back("hybrid");
    return list;
  }();
  return names;
}

/// Checks the mode, and the options that only some modes accept.
static llvm::Error checkMode(const CompileOptions &options, llvm::StringRef chooses) {
  const std::string &mode = options.assign.mode;
  const bool isHybrid = mode == "hybrid";
  if (!llvm::is_contained(compileModes(), mode))
    return llvm::createStringError("unknown mode '%s'; modes are %s", mode.c_str(),
                                   llvm::join(compileModes(), ", ").c_str());
  if (options.gradientReduction != "mean" && options.gradientReduction != "sum")
    return llvm::createStringError("--gradient-reduction %s: expected mean or sum", options.gradientReduction.c_str());
  if (options.gradientReduction == "sum" && !isHybrid && mode != "data")
    return llvm::createStringError("--gradient-reduction sum: mode %s reduces every gradient where "
                                   "it costs least, to the mean; use --mode data or hybrid",
                                   mode.c_str());
  if (options.broadcastParameters && !isHybrid && mode != "data")
    return llvm::createStringError("--broadcast-parameters is for --mode data and hybrid");
  if (!isHybrid && !options.hybridOptions.empty())
    return llvm::createStringError("--hybrid-options is for --mode hybrid");
  for (auto [option, given] : {std::pair<llvm::StringRef, bool>("--strategy", !options.assign.strategy.empty()),
                               std::pair<llvm::StringRef, bool>("--save-strategies", !options.saveStrategies.empty()),
                               std::pair<llvm::StringRef, bool>(chooses, !chooses.empty())})
    if (isHybrid && given)
      return llvm::createStringError("%s: mode hybrid chooses no strategies, the model file says "
                                     "where ranks communicate",
                                     option.str().c_str());
  for (auto [option, given] : {std::pair("--dump-strategy-graph", !options.assign.dumpGraph.empty()),
                               std::pair("--searcher", !options.assign.searcher.empty())})
    if (mode != "auto" && given)
      return llvm::createStringError("%s: mode %s searches nothing; use it with --mode auto", option, mode.c_str());
  return llvm::Error::success();
}

/// Checks what sums in fewer bits need of the other options.
static llvm::Error checkCompress(const CompileOptions &options) {
  if (options.training.compress.empty())
    return llvm::Error::success();
  if (!options.train)
    return llvm::createStringError("--compress is about the sums of gradients; use it with --train");
  if (options.leaves > 0)
    return llvm::createStringError("--compress: what is rounded before it is added depends on the number of ranks, and "
                                   "--reproducible promises the same bits on any; leave one of the two out");
  if (options.assign.mode == "hybrid")
    return llvm::createStringError("--compress: in mode hybrid the model file says what ranks send; use another mode");
  return llvm::Error::success();
}

/// Checks what products that store 16 bits need of the other options.
static llvm::Error checkProducts(const CompileOptions &options) {
  if (options.products == "wide")
    return llvm::Error::success();
  if (options.products != "narrow")
    return llvm::createStringError("--products: wide or narrow, not '%s'", options.products.c_str());
  if (options.precision == "f32")
    return llvm::createStringError(
        "--products narrow rounds their sums to 16 bits; use it with --precision bf16 or f16");
  if (options.leaves > 0)
    return llvm::createStringError(
        "--products narrow: every rank rounds its term of a sum, and --reproducible promises "
        "the same bits on any number of ranks; leave one of the two out");
  return llvm::Error::success();
}

/// Checks what a reproducible program needs of the other options.
static llvm::Error checkLeaves(const CompileOptions &options) {
  if (options.leaves == 0)
    return llvm::Error::success();
  if (!isLeafCount(options.leaves))
    return llvm::createStringError("--reproducible: %lld leaves are not a power of two from 1 to %lld",
                                   (long long)options.leaves, (long long)kMostLeaves);
  if (options.assign.mode == "hybrid")
    return llvm::createStringError("--reproducible: in mode hybrid the model file says where ranks add; use another "
                                   "mode");
  if (options.gradientReduction == "sum")
    return llvm::createStringError("--reproducible: a sum of gradients depends on the number of ranks; use "
                                   "--gradient-reduction mean");
  return llvm::Error::success();
}

static llvm::Error checkMesh(const CompileOptions &options) {
  llvm::Expected<dist::Mesh> mesh = dist::Mesh::parse(options.assign.mesh);
  if (!mesh)
    return mesh.takeError();
  if (!options.output.empty() && mesh->numRanks() > compiler::maxRanks())
    return llvm::createStringError("mesh '%s': a plan has at most %lld ranks, not %lld", options.assign.mesh.c_str(),
                                   (long long)compiler::maxRanks(), (long long)mesh->numRanks());
  return llvm::Error::success();
}

/// Checks what --pipeline auto needs, which chooses stages and mesh.
static llvm::Error checkChosenStages(const CompileOptions &options, const dist::Mesh &mesh) {
  auto fail = [&](const std::string &why) { return llvm::createStringError("--pipeline auto: " + why); };
  if (options.assign.mode != "auto")
    return fail("mode " + options.assign.mode + " searches nothing; use --mode auto");
  if (llvm::StringRef(options.assign.mesh).contains('='))
    return fail("it chooses the stages and the mesh of a stage, but mesh '" + options.assign.mesh +
                "' is given; use --mesh " + std::to_string(mesh.numRanks()) +
                (mesh.findAxis(dist::kStageAxis) == 0 ? ", or --pipeline schedule=auto with this mesh" : ""));
  if (mesh.numRanks() < 2)
    return fail("one rank has no stages; leave it out");
  if (!options.assign.strategy.empty())
    return fail("--strategy is about one mesh; leave one of the two out");
  return llvm::Error::success();
}

/// Checks a mesh with stages, and what does not go with one.
static llvm::Error checkPipeline(const CompileOptions &options) {
  const dist::Mesh mesh = llvm::cantFail(dist::Mesh::parse(options.assign.mesh)); // checkMesh has parsed it
  const int axis = mesh.findAxis(dist::kStageAxis);
  llvm::Expected<compiler::PipelineOptions> pipeline = compiler::parsePipeline(options.pipeline);
  if (pipeline && pipeline->isChosen())
    return checkChosenStages(options, mesh);
  if (axis < 0) {
    llvm::consumeError(pipeline.takeError());
    if (!options.pipeline.empty())
      return llvm::createStringError("--pipeline is for a mesh whose first axis is 'stage': --mesh stage=2,data=2; or "
                                     "--pipeline auto chooses the stages of a number of ranks");
    return llvm::Error::success();
  }
  if (!pipeline)
    return pipeline.takeError();
  auto fail = [&](const std::string &why) {
    return llvm::createStringError("mesh '" + options.assign.mesh + "': " + why);
  };
  if (axis > 0)
    return fail("'stage' is the axis of a pipeline's stages and must be the first one");
  if (mesh.axisSize(axis) < 2)
    return fail("a pipeline has 2 stages or more; leave 'stage' out");
  return llvm::Error::success();
}

/// Checks the number of micro-batches that --pipeline gives.
static llvm::Error checkMicroBatches(const CompileOptions &options) {
  const std::optional<int64_t> number =
      llvm::cantFail(compiler::parsePipeline(options.pipeline)).microBatches; // checkPipeline has parsed it
  if (!number)
    return llvm::Error::success();
  auto fail = [&](const std::string &why) {
    return llvm::createStringError("--pipeline micro=" + std::to_string(*number) + ": " + why);
  };
  if (!options.train)
    return fail("micro-batches are those of a training step; add --train, or leave it out");
  if (*number < 1 || *number > kMostMicroBatches)
    return fail("a step has 1 to " + std::to_string(kMostMicroBatches) + " micro-batches");
  if (*number != options.training.accumulate)
    return fail("--accumulate gives another number of micro-batches, " + std::to_string(options.training.accumulate) +
                "; leave one of the two out");
  return llvm::Error::success();
}

static llvm::Error checkInit(const compiler::ImportOptions &import) {
  if (auto rule = compiler::makeInitRule(import.initRule, {}, 0); !rule)
    return rule.takeError();
  for (const auto &[pattern, text] : import.initRules)
    if (auto rule = compiler::makeInitRule(text, {}, 0); !rule)
      return rule.takeError();
  return llvm::Error::success();
}

llvm::Error checkOptions(const CompileOptions &options, llvm::StringRef chooses) {
  if (llvm::Error e = checkMode(options, chooses))
    return e;
  llvm::Expected<std::vector<dist::Mesh>> own = parseOwnMeshes(options.assign.mesh);
  if (!own)
    return own.takeError();
  if (!own->empty()) {
    if (llvm::Error e = checkOwnMeshes(options, *own))
      return e;
  } else {
    if (llvm::Error e = checkMesh(options))
      return e;
    if (llvm::Error e = checkPipeline(options))
      return e;
  }
  if (llvm::Error e = checkMicroBatches(options))
    return e;
  if (llvm::Error e = checkLeaves(options))
    return e;
  if (llvm::Error e = checkProducts(options))
    return e;
  if (llvm::Error e = checkCompress(options))
    return e;
  if (auto join = strategies::parseJoin(options.assign.fusion); !join)
    return join.takeError();
  if (auto overlap = strategies::parseOverlap(options.assign.overlap); !overlap)
    return overlap.takeError();
  if (!options.assign.memory.empty())
    if (auto bytes = strategies::parseBytes(options.assign.memory); !bytes)
      return bytes.takeError();
  if (llvm::Error e = checkInit(options.import))
    return e;
  if (options.recompute != "auto")
    if (auto again = parseRecomputed(options.recompute); !again)
      return again.takeError();
  if (options.train)
    if (auto training = compiler::parseTraining(options.training); !training)
      return training.takeError();
  return llvm::Error::success();
}

} // namespace tessera
