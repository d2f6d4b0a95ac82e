#include "compiler/driver/stages/OwnMeshes.h"

#include "compiler/driver/Phases.h"
#include "compiler/driver/fit/CutAgain.h"
#include "compiler/pipeline/ProgramParts.h"
#include "compiler/pipeline/Versions.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"

#include <cassert>
#include <deque>
#include <map>
#include <utility>

using namespace mlir;

namespace tessera {

using strategies::AssignOptions;
using strategies::CostModel;

static constexpr llvm::StringLiteral kBegin = "stages=";

/// The next search gets this part of the proportional limit, because packing differs from one assignment to the next.
static constexpr double kMargin = 0.97;

llvm::Expected<std::vector<dist::Mesh>> parseOwnMeshes(llvm::StringRef text) {
  std::vector<dist::Mesh> meshes;
  llvm::StringRef list = text.trim();
  if (!list.consume_front(kBegin))
    return meshes;
  auto fail = [&](const std::string &why) { return llvm::createStringError("mesh '" + text.str() + "': " + why); };
  if (!list.consume_front("[") || !list.consume_back("]"))
    return fail("expected the mesh of each stage in brackets, as in stages=[data=2,model=2; data=1]");
  llvm::SmallVector<llvm::StringRef> parts;
  list.split(parts, ';');
  for (llvm::StringRef part : parts) {
    if (part.trim().empty())
      return fail("stage " + std::to_string(meshes.size()) + " has no mesh; one rank is data=1");
    llvm::Expected<dist::Mesh> mesh = dist::Mesh::parse(part.trim());
    if (!mesh)
      return fail("stage " + std::to_string(meshes.size()) + ": " + llvm::toString(mesh.takeError()));
    if (mesh->findAxis(dist::kStageAxis) >= 0)
      return fail("stage " + std::to_string(meshes.size()) + " has an axis 'stage', which is no axis of a stage");
    meshes.push_back(std::move(*mesh));
  }
  if (meshes.size() < 2)
    return fail("a pipeline has 2 stages or more; leave 'stages' out");
  return meshes;
}

std::string textOf(llvm::ArrayRef<dist::Mesh> meshes) {
  std::string text;
  for (const dist::Mesh &mesh : meshes)
    text += (text.empty() ? "stages=[" : "; ") + mesh.str();
  return text + "]";
}

dist::Mesh ranksInARow(llvm::ArrayRef<dist::Mesh> meshes) {
  int64_t ranks = 0;
  for (const dist::Mesh &mesh : meshes)
    ranks += mesh.numRanks();
  const dist::MeshAxis axis{dist::kStageAxis.str(), ranks};
  return dist::Mesh(llvm::ArrayRef(axis));
}

llvm::Error checkOwnMeshes(const CompileOptions &options, llvm::ArrayRef<dist::Mesh> meshes) {
  auto fail = [&](const std::string &why) {
    return llvm::createStringError("mesh '" + options.assign.mesh + "': " + why);
  };
  llvm::Expected<compiler::PipelineOptions> pipeline = compiler::parsePipeline(options.pipeline);
  if (!pipeline)
    return pipeline.takeError();
  if (pipeline->isChosen())
    return fail("--pipeline auto chooses the stages; use --mesh " + std::to_string(ranksInARow(meshes).axisSize(0)) +
                " with it");
  if (pipeline->chunks > 1)
    return fail("--pipeline schedule=" + pipeline->schedule +
                ": each of these stages has ranks of its own; use another "
                "schedule");
  if (options.assign.mode == "hybrid")
    return fail(
        "in mode hybrid the shapes of the model file are those of a rank of one mesh; give all stages one, as in "
        "stage=2,data=2, or use another mode");
  for (const auto &[name, given] : {std::pair<std::string, bool>("--compress", !options.training.compress.empty()),
                                    {"--reproducible", options.leaves > 0},
                                    {"--gradient-reduction sum", options.gradientReduction != "mean"},
                                    {"--broadcast-parameters", options.broadcastParameters}})
    if (given)
      return fail(name + " does not go with stages that have meshes of their own; give all stages one mesh, as in "
                         "stage=2,data=2, or leave it out");
  if (const int64_t ranks = ranksInARow(meshes).axisSize(0); !options.output.empty() && ranks > compiler::maxRanks())
    return fail("a plan has at most " + std::to_string(compiler::maxRanks()) + " ranks");
  return llvm::Error::success();
}

namespace {

/// The network for one mesh.
struct Version {
  AssignOptions assign;
  strategies::AssignReport report;
  OwningOpRef<ModuleOp> chosen, module; // with its strategies; cut
  int64_t tooSmall = 0;                 // a limit of memory in which nothing was found
  llvm::DenseMap<Value, int64_t> bytes; // of the training step; looked up only
};

class OwnMeshes {
public:
  OwnMeshes(Compilation &run, ModuleOp module, const AssignOptions &assign)
      : run_(run), module_(module), limit_(strategies::memoryOf(assign)),
        link_(run.pipeline->mesh, run.assign.topology, run.assign.profile) {
    for (const dist::Mesh &mesh : run.ownMeshes) {
      const auto *known = llvm::find(meshes_, mesh);
      of_.push_back(size_t(known - meshes_.begin()));
      if (known == meshes_.end())
        meshes_.push_back(mesh);
    }
    const int64_t ranks = run.pipeline->mesh.axisSize(0);
    for (const dist::Mesh &mesh : meshes_) {
      Version &version = versions_.emplace_back();
      version.assign = assign;
      version.assign.mesh = mesh;
      // The search sees the whole network, and its limit is that of all stages.
      version.assign.memoryLimit = limit_ * ranks / mesh.numRanks();
      version.assign.prices = nullptr;
      version.assign.prices = strategies::pricesOf(version.assign);
      // Kernels run on a rank of which there are about so many.
      llvm::SmallVector<dist::MeshAxis> axes(mesh.axes());
      axes.insert(axes.begin(), {dist::kStageAxis.str(), (ranks + mesh.numRanks() - 1) / mesh.numRanks()});
      kernels_.emplace_back(dist::Mesh(axes), run.assign.topology, run.assign.profile);
    }
  }

  /// The first program that fits: of the first strategies in one of their cuts, else, where strategies are searched, of
  /// those for a smaller memory.
  llvm::Expected<FittedProgram> make() {
    if (llvm::Error e = divideUser())
      return e;
    const bool isSearched = run_.assign.mode == "auto" && !user().isSaved();
    for (Version &version : versions_)
      if (llvm::Error e = choose(version))
        return e;
    for (int tries = 0;; ++tries) {
      run_.begins("partition");
      if (llvm::Error e = cutToFit())
        return e;
      run_.finished("partition");
      const auto needed = int64_t(fitted_.memory.arenaBytes);
      if (needed <= limit_)
        break;
      if (isSearched && tries < kMostSearches)
        run_.say("the plan needs " + bytesText(double(needed)) + ", searching again for one that fits in " +
                 bytesText(double(limit_)));
      llvm::Expected<bool> smaller = isSearched && tries < kMostSearches ? searchSmaller() : false;
      if (!smaller)
        return smaller.takeError();
      if (!*smaller)
        return overLimit(run_, fitted_, limit_);
    }
    report();
    return std::move(fitted_);
  }

private:
  static constexpr int kMostSearches = 4; // with smaller limits

  /// Searches the versions of stages that need too much for less. False if none of them has smaller strategies.
  llvm::Expected<bool> searchSmaller() {
    bool any = false;
    for (auto [v, version] : llvm::enumerate(versions_)) {
      uint64_t needed = 0;
      for (auto [stage, bytes] : llvm::enumerate(fitted_.memory.stageBytes))
        if (of_[stage] == v)
          needed = std::max(needed, bytes);
      if (int64_t(needed) <= limit_)
        continue;
      llvm::Expected<bool> smaller = searchSmaller(version, int64_t(needed));
      if (!smaller)
        return smaller.takeError();
      any |= *smaller;
    }
    return any;
  }

  /// First with a limit in proportion, of what the search counted; then half way from what was too small.
  llvm::Expected<bool> searchSmaller(Version &version, int64_t needed) {
    const strategies::FunctionReport *step = version.report.step();
    const int64_t counted = !step ? 0 : step->search.counted ? step->search.counted : step->peakBytes;
    const int64_t large = counted > 0 ? std::min(counted, version.assign.memoryLimit) : version.assign.memoryLimit;
    strategies::AssignReport report = std::move(version.report);
    OwningOpRef<ModuleOp> chosen = std::move(version.chosen);
    version.assign.memoryLimit = int64_t(double(large) * double(limit_) / double(needed) * kMargin);
    for (int tries = 0; tries < kMostSearches; ++tries) {
      version.assign.memoryLimit = std::max({int64_t(1), version.assign.memoryLimit, version.tooSmall + 1});
      llvm::Error e = choose(version);
      if (!e)
        return true;
      if (!e.isA<DoesNotFit>())
        return e;
      llvm::consumeError(std::move(e));
      version.tooSmall = version.assign.memoryLimit;
      version.assign.memoryLimit += (large - version.tooSmall) / 2;
    }
    version.report = std::move(report);
    version.chosen = std::move(chosen);
    version.assign.memoryLimit = large;
    return false;
  }

  /// Cuts what was chosen, and again under smaller limits if the arena is too large.
  llvm::Error cutToFit() {
    CutMemory memory{limit_, false, 0};
    if (llvm::Error e = makeWithin(memory))
      return e;
    if (memory.counted == 0)
      return llvm::Error::success();
    CutAgain again(limit_, memory.counted, int64_t(fitted_.memory.arenaBytes));
    FittedProgram first = std::move(fitted_);
    int64_t needed = int64_t(first.memory.arenaBytes);
    int64_t told = 0;
    while (std::optional<int64_t> within = again.next()) {
      if (std::exchange(told, needed) != needed)
        run_.say("the plan needs " + bytesText(double(needed)) + ", cutting its stages again for one that fits in " +
                 bytesText(double(limit_)));
      memory = {*within, true, 0};
      if (llvm::Error e = makeWithin(memory)) {
        llvm::consumeError(std::move(e)); // the same was cut before, under a larger limit
        again.none();
        continue;
      }
      needed = int64_t(fitted_.memory.arenaBytes);
      again.found(memory.counted, needed);
    }
    if (needed > limit_ || !fitted_.local)
      fitted_ = std::move(first);
    return llvm::Error::success();
  }

  llvm::Error makeWithin(CutMemory &memory) {
    fitted_ = {};
    stages_.clear();
    for (Version &version : versions_) {
      version.module = version.chosen->clone();
      if (llvm::Error e = readBytes(version))
        return e;
    }
    if (llvm::Error e = cut(memory))
      return e;
    return order();
  }

  strategies::StagePlaces places() const { return {int(of_.size()), 1, false}; }
  const CostModel &modelOf(size_t version) const { return versions_[version].assign.prices->model; }

  const strategies::UserStrategies &user() const { return run_.assign.user; }
  llvm::Error failUser(const std::string &what) const {
    return llvm::createStringError("strategy file " + user().origin + ": " + what);
  }

  /// Gives each version what the user says of its mesh: a saved assignment, or the entries that it can follow.
  llvm::Error divideUser() {
    const std::string meshes = textOf(run_.ownMeshes);
    if (user().isSaved()) {
      if (user().savedMesh != meshes || user().versions.size() != versions_.size())
        return failUser("it was saved for mesh " + user().savedMesh + ", not for " + meshes);
      for (auto [version, saved] : llvm::zip_equal(versions_, user().versions))
        version.assign.user = saved;
      return llvm::Error::success();
    }
    for (Version &version : versions_)
      llvm::erase_if(version.assign.user.entries, [&](const strategies::UserEntry &entry) {
        return !strategies::whyNotOn(version.assign.mesh, entry).empty();
      });
    for (const strategies::UserEntry &entry : user().entries)
      if (llvm::all_of(meshes_, [&](const dist::Mesh &mesh) { return !strategies::whyNotOn(mesh, entry).empty(); }))
        return failUser("operator '" + entry.op + "': no stage can do that: mesh " + meshes_.front().str() + " " +
                        strategies::whyNotOn(meshes_.front(), entry));
    return llvm::Error::success();
  }

  /// An error if the cut puts an operator with an entry into a stage whose mesh cannot follow it.
  llvm::Error checkUser() {
    func::FuncOp func = compiler::mainFunction(*versions_[0].module);
    std::map<std::string, const strategies::UserEntry *> entries;
    for (const strategies::UserEntry &entry : user().entries)
      for (const std::string &name : strategies::operatorsOf(func, entry.op))
        entries[name] = &entry;
    for (auto [op, stage] :
         llvm::zip_equal(func.getBody().front().without_terminator(), stages_.at(func.getName().str()))) {
      auto it = op.hasAttr(graph::kNameAttr) && op.hasAttr(dist::kStageAttr) ? entries.find(graph::nameOf(&op))
                                                                             : entries.end();
      if (it == entries.end() || op.hasAttr(graph::kGradOfAttr))
        continue;
      const dist::Mesh &mesh = run_.ownMeshes[size_t(stage)];
      if (const std::string why = strategies::whyNotOn(mesh, *it->second); !why.empty())
        return failUser("operator '" + it->first + "' is in stage " + std::to_string(stage) + ", whose mesh " +
                        mesh.str() + " " + why + "; give it a \"stage\" that can follow its entry");
    }
    return llvm::Error::success();
  }

  llvm::Error choose(Version &version) {
    run_.begins("strategies");
    version.report = {};
    version.chosen = module_.clone();
    if (llvm::Error e = annotate(run_, *version.chosen, version.assign, version.report)) {
      if (!version.report.doesNotFit)
        return e;
      return llvm::make_error<DoesNotFit>(llvm::toString(std::move(e)));
    }
    run_.finished("strategies");
    return checkBatch(*version.chosen, version.assign.mesh);
  }

  /// Rows of a micro-batch are the same on any mesh only where no rank has padding.
  static llvm::Error checkBatch(ModuleOp module, const dist::Mesh &mesh) {
    for (func::FuncOp func : module.getOps<func::FuncOp>())
      for (unsigned a = 0; a < func.getNumArguments(); ++a) {
        const llvm::StringRef role = graph::argRole(func, a);
        auto type = dyn_cast<RankedTensorType>(func.getArgumentTypes()[a]);
        auto attribute = func.getArgAttrOfType<dist::ShardingAttr>(a, dist::kShardingAttr);
        if (!type || type.getRank() == 0 || !attribute || (role != graph::kInput && role != graph::kTarget))
          continue;
        auto sharding = attribute.resolve(mesh);
        if (!sharding)
          return sharding.takeError();
        int64_t parts = 1;
        for (Operation *user : func.getArgument(a).getUsers())
          parts = graph::microBatches(user).value_or(parts);
        const int64_t shards = sharding->numShards(mesh, 0);
        if (parts > 1 && type.getDimSize(0) % (parts * shards) != 0)
          return llvm::createStringError("the batch of %lld ('%s') is not divided by %lld micro-batches on the %lld "
                                         "blocks of mesh %s; stages with "
                                         "meshes of their own need such a batch",
                                         (long long)type.getDimSize(0), graph::argName(func, a).str().c_str(),
                                         (long long)parts, (long long)shards, mesh.str().c_str());
      }
    return llvm::Error::success();
  }

  static llvm::Error readBytes(Version &version) {
    version.bytes.clear();
    func::FuncOp func = compiler::mainFunction(*version.module);
    const CostModel &model = version.assign.prices->model;
    for (BlockArgument argument : func.getArguments()) {
      auto attribute = func.getArgAttrOfType<dist::ShardingAttr>(argument.getArgNumber(), dist::kShardingAttr);
      auto sharding = attribute.resolve(version.assign.mesh);
      if (!sharding)
        return sharding.takeError();
      version.bytes[argument] =
          model.localBytes(strategies::shapeOf(argument), strategies::elementBytes(argument.getType()), *sharding);
    }
    return llvm::Error::success();
  }

  compiler::NetworkVersion versionOf(size_t v) {
    Version &version = versions_[v];
    compiler::NetworkVersion network{
        *version.module, version.assign.mesh, {}, [&version](Value value) { return version.bytes.lookup(value); }};
    func::FuncOp func = compiler::mainFunction(*version.module);
    for (auto [op, one] :
         llvm::zip_equal(func.getBody().front().without_terminator(), version.report.functions.front().operators)) {
      for (auto [result, shape] : llvm::zip_equal(op.getResults(), one.localResults))
        version.bytes[result] = strategies::numElements(shape) * strategies::elementBytes(result.getType());
      strategies::Cost time = one.compute / one.times;
      for (const strategies::CollectiveReport &collective : one.collectives)
        if (collective.times == one.times)
          time += collective.cost / one.times;
      network.times.push_back(time);
    }
    return network;
  }

  llvm::Error cut(CutMemory &memory) {
    std::vector<compiler::NetworkVersion> networks;
    for (size_t v = 0; v < versions_.size(); ++v)
      networks.push_back(versionOf(v));
    llvm::Expected<std::map<std::string, int>> given = strategies::givenStages(*versions_[0].module, user());
    if (!given)
      return given.takeError();
    const compiler::PipelineCosts costs{
        .all = link_,
        .stage = link_,
        .limit = memory.limit,
        .places = places(),
        .given = std::move(*given),
        .isHard = memory.isHard,
        .inFlight = compiler::inFlightOf(run_.pipeline->options, int64_t(of_.size()), run_.training.accumulate),
        .work = &run_.cutWork};
    if (llvm::Error e = compiler::placeVersions(networks, of_, costs, &memory.counted))
      return e;
    keepStages();
    if (llvm::Error e = checkUser())
      return e;
    llvm::SmallVector<ModuleOp> parts;
    for (Version &version : versions_)
      parts.push_back(*version.module);
    fitted_.strategies = strategies::saveVersions(parts, textOf(run_.ownMeshes), user().stages);
    for (auto [v, version] : llvm::enumerate(versions_)) {
      if (llvm::Error e = compiler::addBorders(*version.module, version.assign.mesh))
        return e;
      if (llvm::Error e = reshard(run_, *version.module))
        return e;
      if (llvm::Error e = localizeWhole(run_, *version.module, modelOf(v)))
        return e;
      if (llvm::Error e = compiler::completeStages(*version.module))
        return e;
      if (llvm::Error e = cutPlaced(run_, *version.module, places()))
        return e;
    }
    fitted_.local = ModuleOp::create(module_.getLoc());
    return compiler::joinVersions(parts, of_, run_.ownMeshes, *fitted_.local);
  }

  /// The stage of each operator, as the report has them.
  void keepStages() {
    for (func::FuncOp func : versions_[0].module->getOps<func::FuncOp>())
      for (Operation &op : func.getBody().front().without_terminator())
        stages_[func.getName().str()].push_back(compiler::stageIn(&op));
  }

  llvm::Error order() {
    strategies::JoinOptions join = strategies::joinOf(run_.assign);
    join.overlap = run_.pipeline->overlap;
    const compiler::PipelineCosts costs{link_, link_, limit_, places(), join};
    std::vector<compiler::PipelineCosts> own;
    for (size_t version : of_)
      own.push_back({kernels_[version], modelOf(version), limit_, places(), join});
    if (llvm::Error e =
            compiler::orderStages(*fitted_.local, costs, run_.pipeline->options, fitted_.pipeline.emplace(), own))
      return e;
    auto costsOf = [&](int64_t stage) {
      return StageCosts{&modelOf(of_[size_t(stage)]), &kernels_[of_[size_t(stage)]]};
    };
    if (llvm::Error e = finishStages(run_, *fitted_.local, costsOf, join))
      return e;
    fitted_.join = join;
    if (llvm::Error e = run_.dump(*fitted_.local, "5-local.mlir"))
      return e;
    return compiler::planMemory(*fitted_.local, emitOptions(run_.options), &fitted_.times).moveInto(fitted_.memory);
  }

  /// The collectives at the function's results, each as it is in the stage that makes the result.
  std::vector<strategies::CollectiveReport> boundary(size_t f, const std::string &name,
                                                     const std::vector<int> &stages) {
    func::FuncOp func = versions_[0].chosen->lookupSymbol<func::FuncOp>(name);
    std::map<std::string, size_t> versions; // by where the collective is
    llvm::DenseMap<Operation *, int> stageOf;
    Block &body = func.getBody().front();
    for (auto [op, stage] : llvm::zip_equal(body.without_terminator(), stages))
      stageOf[&op] = stage;
    for (auto [r, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
      Operation *maker = value.getDefiningOp();
      versions[strategies::whereOfResult(func, unsigned(r))] = of_[size_t(std::max(maker ? stageOf.at(maker) : 0, 0))];
    }
    std::vector<strategies::CollectiveReport> list;
    for (auto [v, version] : llvm::enumerate(versions_))
      for (const strategies::CollectiveReport &c : version.report.functions[f].boundary)
        if (versions.at(c.where) == v)
          list.push_back(c);
    return list;
  }

  /// Every operator as it is in its stage.
  void report() {
    fitted_.report = versions_[0].report;
    fitted_.report.mesh = textOf(run_.ownMeshes);
    fitted_.report.memoryLimit = limit_;
    for (auto [f, function] : llvm::enumerate(fitted_.report.functions)) {
      const std::vector<int> &stages = stages_.at(function.name);
      function.compute = function.communication = 0;
      function.search.alternatives.clear();
      for (auto [i, op] : llvm::enumerate(function.operators)) {
        const strategies::FunctionReport &own = versions_[of_[size_t(std::max(stages[i], 0))]].report.functions[f];
        op = own.operators[i];
        if (stages[i] != compiler::kNoStage)
          op.stage = stages[i];
        if (auto it = own.search.alternatives.find(int(i)); it != own.search.alternatives.end())
          function.search.alternatives.insert(*it);
        function.compute += op.compute;
        function.communication += op.communication();
      }
      function.boundary = boundary(f, function.name, stages);
      strategies::countCollectives(function);
      if (auto it = fitted_.pipeline->steps.find(function.name); it != fitted_.pipeline->steps.end())
        function.pipelined = it->second;
    }
    for (auto [stage, mesh] : llvm::zip_equal(fitted_.pipeline->stages, run_.ownMeshes))
      stage.mesh = mesh.str();
  }

  Compilation &run_;
  ModuleOp module_;
  const int64_t limit_;
  const CostModel link_;                 // messages between stages
  llvm::SmallVector<dist::Mesh> meshes_; // the different ones
  std::vector<size_t> of_;               // of them, by stage
  std::deque<Version> versions_;
  std::deque<CostModel> kernels_;                  // by version
  std::map<std::string, std::vector<int>> stages_; // by function, of its operators (compiler::stageIn)
  FittedProgram fitted_;
};

} // namespace

llvm::Expected<FittedProgram> fitOwnMeshes(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                           std::optional<FittedProgram> first) {
  assert(!first && "no plan of such stages is compared with others by its strategies alone");
  return OwnMeshes(run, module, assign).make();
}

} // namespace tessera
