// Loads what a run starts from: the plan's own weights, a weight set, or a checkpoint.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/InitialTensors.h"
#include "runtime/checkpoint/MappedTensors.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/session/Session.h"

#include <filesystem>

namespace tessera::rt {
namespace {

/// The tensors that a run starts from.
struct Start {
  std::unique_ptr<TensorSource> tensors; // null: the plan has no parameters
  std::optional<Manifest> checkpoint;    // of a resumed run

  /// `checkpoint` is the one to go on from; empty for none.
  static Result<Start> open(const RunOptions &options, const PlanDirectory &plan, const std::string &checkpoint);
};

Result<std::unique_ptr<TensorSource>> openFile(const std::string &path) {
  Result<Safetensors> file = Safetensors::open(path);
  if (!file)
    return file.status();
  return std::unique_ptr<TensorSource>(std::make_unique<Safetensors>(std::move(*file)));
}

/// `weights` under the names that --weights-map says.
Result<std::unique_ptr<TensorSource>> mapped(std::unique_ptr<TensorSource> weights, const std::string &file,
                                             const PlanDirectory &plan) {
  Result<std::string> text = readFile(file, uint64_t(16) << 20);
  if (!text)
    return text.status();
  Result<NameMap> map = NameMap::parse(*text);
  if (!map)
    return map.status().context(file);
  const BoundTensors tensors(plan.ranks);
  TESSERA_RETURN_IF_ERROR(map->check(tensors.plan()).context(file));
  Result<std::unique_ptr<TensorSource>> own = InitialTensors::open(plan);
  if (!own)
    return own.status();
  return std::unique_ptr<TensorSource>(
      std::make_unique<MappedTensors>(std::move(weights), std::move(*own), std::move(*map), tensors.plan()));
}

Result<Start> Start::open(const RunOptions &options, const PlanDirectory &plan, const std::string &checkpoint) {
  Start start;
  const bool resumed = !checkpoint.empty();
  const std::string &path = resumed ? checkpoint : options.weights;
  std::error_code error;
  if (path.empty()) {
    Result<std::unique_ptr<TensorSource>> own = InitialTensors::open(plan);
    if (!own)
      return own.status();
    start.tensors = std::move(*own);
    return start;
  }
  if (resumed || std::filesystem::is_directory(path, error)) {
    Result<std::string> found = findCheckpoint(path);
    if (!found)
      return found.status();
    Result<Checkpoint> checkpoint = Checkpoint::open(*found);
    if (!checkpoint)
      return checkpoint.status();
    if (resumed)
      start.checkpoint = checkpoint->manifest();
    start.tensors = std::make_unique<Checkpoint>(std::move(*checkpoint));
  } else {
    Result<std::unique_ptr<TensorSource>> file = openFile(path);
    if (!file)
      return file.status();
    start.tensors = std::move(*file);
  }
  if (!options.weightsMap.empty()) {
    Result<std::unique_ptr<TensorSource>> renamed = mapped(std::move(start.tensors), options.weightsMap, plan);
    if (!renamed)
      return renamed.status();
    start.tensors = std::move(*renamed);
  }
  return start;
}

std::string text(const std::optional<bool> &value) { return !value ? "default" : *value ? "1" : "0"; }

/// Tells every setting in which the run differs from the one that it continues.
void tellDifferences(Session &s, const Manifest &old) {
  const RunOptions &now = s.options;
  auto differ = [&](const std::string &what, const std::string &was, const std::string &is) {
    if (was != is)
      s.console.line("note: the checkpoint is of a run with " + what + " " + was + ", this one has " + is);
  };
  DataOptions data = s.dataOptions(true);
  auto model = [](const std::string &name, const std::string &hash) {
    return name + (hash.empty() ? "" : " (" + hash + ")");
  };
  differ("the model", model(old.model, old.modelHash), model(s.executor.plan().model(), modelHash(s.executor.plan())));
  differ("the data", old.data.source, now.data);
  differ("the seed", std::to_string(old.data.seed), std::to_string(data.seed));
  differ("shuffle", text(old.data.shuffle), text(data.shuffle));
  differ("augment", text(old.data.augment), text(data.augment));
  auto leaves = [](int64_t n) { return n > 0 ? std::to_string(n) : std::string("off"); };
  differ("--reproducible", leaves(old.leaves), leaves(s.executor.plan().leaves()));
  differ("batches of", std::to_string(old.position.batch), std::to_string(s.executor.plan().global_batch()));
}

/// The checkpoints that --resume may mean, the latest first; or one empty name.
Result<std::vector<std::string>> checkpointsToTry(const std::string &resumeDir) {
  if (resumeDir.empty())
    return std::vector<std::string>{""};
  Result<std::string> latest = findCheckpoint(resumeDir);
  if (!latest)
    return latest.status();
  std::vector<std::string> paths = {*latest};
  if (*latest == resumeDir)
    return paths;
  std::vector<int64_t> steps = listCheckpoints(resumeDir);
  for (size_t i = steps.size(); i-- > 1;)
    paths.push_back(checkpointPath(resumeDir, steps[i - 1]));
  return paths;
}

/// Success if all ranks have success; otherwise all ranks get the error of the first rank that has
/// one.
Status agree(Communicator &everyone, const Status &mine) {
  const int32_t all = everyone.size();
  int32_t failed = mine ? all : everyone.rank();
  TESSERA_RETURN_IF_ERROR(everyone.allReduce(&failed, &failed, 1, plan::I32, plan::MIN));
  if (failed == all)
    return Status();
  int32_t text[256] = {};
  mine.message().copy(reinterpret_cast<char *>(text), sizeof text - 1);
  TESSERA_RETURN_IF_ERROR(everyone.broadcast(text, text, std::size(text), plan::I32, failed));
  return Status::error(reinterpret_cast<const char *>(text));
}

/// Renames damaged checkpoints in this run's own folder, so that it can write new ones under their
/// names.
Status setAside(Session &s, const std::vector<std::string> &damaged) {
  std::error_code error;
  if (!s.leader() || !std::filesystem::equivalent(s.options.resumeDir, s.options.checkpointDir, error))
    return Status();
  for (const std::string &path : damaged) {
    std::filesystem::remove_all(path + ".damaged", error);
    std::filesystem::rename(path, path + ".damaged", error);
    if (error)
      return Status::error(path + ": is damaged and cannot be renamed: " + error.message());
  }
  return Status();
}

Status load(const Start &start, Executor &executor) {
  // A resumed run needs every state, not only the parameters.
  return executor.loadWeights(start.tensors.get(), /*strict=*/start.checkpoint.has_value());
}

/// The latest checkpoint that every rank can read.
Result<Start> loadLatest(Session &s) {
  Result<std::vector<std::string>> paths = checkpointsToTry(s.options.resumeDir);
  if (!paths)
    return paths.status();
  std::vector<std::string> damaged;
  Status first;
  for (const std::string &path : *paths) {
    Result<Start> start = Start::open(s.options, s.plan, path);
    const Status mine = start ? load(*start, s.executor) : start.status();
    const Status status = path.empty() ? mine : agree(s.executor.everyone(), mine);
    if (status) {
      for (const std::string &bad : damaged)
        if (s.leader())
          s.console.line("WARNING: " + bad + " cannot be read; going on from " + path + " (" + first.message() + ")");
      TESSERA_RETURN_IF_ERROR(setAside(s, damaged));
      s.checkpoint = path;
      return start;
    }
    if (first.ok())
      first = status;
    damaged.push_back(path);
  }
  return first; // if none fits, the plan is more likely another than all are damaged
}

} // namespace

Status loadInitialWeights(Session &s, Executor &executor) {
  const bool main = &executor == &s.executor;
  Result<Start> start = main ? loadLatest(s) : Start::open(s.options, s.plan, s.checkpoint);
  if (!start)
    return start.status();
  if (!main)
    TESSERA_RETURN_IF_ERROR(load(*start, executor));
  s.resumed = std::move(start->checkpoint);
  if (!s.leader() || !main)
    return Status();
  if (s.resumed && s.options.mode == RunMode::Train)
    tellDifferences(s, *s.resumed);
  if (!start->tensors || (s.options.weights.empty() && !s.resumed))
    return Status(); // the plan's own
  if (std::vector<std::string> dropped = droppedUnsent(s.tensors.plan(), *start->tensors); !dropped.empty())
    s.console.line("note: " + start->tensors->path() +
                   ": what was left of compressed sums is dropped, since other ranks "
                   "add in this plan: " +
                   namesText(dropped));
  if (std::vector<std::string> unused = unusedWeights(s.tensors.plan(), *start->tensors); !unused.empty())
    s.console.line("note: " + start->tensors->path() + ": the plan has no use for " + namesText(unused));
  return Status();
}

Result<RunPosition> reload(Session &s, const std::string &folder) {
  Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  const Status mine = checkpoint ? s.executor.loadWeights(&*checkpoint, /*strict=*/true) : checkpoint.status();
  TESSERA_RETURN_IF_ERROR(agree(s.executor.everyone(), mine));
  return checkpoint->manifest().position;
}

} // namespace tessera::rt
