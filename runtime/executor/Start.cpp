// Where a run starts: from the plan's own weights, a weight set, or a checkpoint.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/MappedTensors.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/executor/Session.h"
#include "runtime/plan/PlanInfo.h"

#include <filesystem>

namespace tessera::rt {
namespace {

/// The tensors that a run starts from.
struct Start {
  std::unique_ptr<TensorSource> tensors; // null: the plan has no parameters
  std::optional<Manifest> checkpoint;    // of a resumed run

  static Result<Start> open(const RunOptions &options, const PlanDirectory &plan);
};

Result<std::unique_ptr<TensorSource>> openFile(const std::string &path) {
  Result<Safetensors> file = Safetensors::open(path);
  if (!file)
    return file.status();
  return std::unique_ptr<TensorSource>(std::make_unique<Safetensors>(std::move(*file)));
}

/// `weights` under the names that --weights-map says.
Result<std::unique_ptr<TensorSource>> mapped(std::unique_ptr<TensorSource> weights,
                                             const std::string &file, const PlanDirectory &plan) {
  Result<std::string> text = readFile(file, uint64_t(16) << 20);
  if (!text)
    return text.status();
  Result<NameMap> map = NameMap::parse(*text);
  if (!map)
    return map.status().context(file);
  std::unique_ptr<TensorSource> own;
  if (!plan.weights.empty()) {
    Result<std::unique_ptr<TensorSource>> opened = openFile(plan.weights);
    if (!opened)
      return opened.status();
    own = std::move(*opened);
  }
  return std::unique_ptr<TensorSource>(std::make_unique<MappedTensors>(
      std::move(weights), std::move(own), std::move(*map), plan.ranks[0]));
}

Result<Start> Start::open(const RunOptions &options, const PlanDirectory &plan) {
  Start start;
  const bool resumed = !options.resumeDir.empty();
  std::string path = resumed                    ? options.resumeDir
                     : !options.weights.empty() ? options.weights
                                                : plan.weights;
  if (path.empty())
    return start;
  std::error_code error;
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
    Result<std::unique_ptr<TensorSource>> renamed =
        mapped(std::move(start.tensors), options.weightsMap, plan);
    if (!renamed)
      return renamed.status();
    start.tensors = std::move(*renamed);
  }
  return start;
}

std::string text(const std::optional<bool> &value) {
  return !value ? "default" : *value ? "1" : "0";
}

/// Tells of each thing in which the run differs from the one that it goes on with.
void tellDifferences(Session &s, const Manifest &old) {
  const RunOptions &now = s.options;
  auto differ = [&](const std::string &what, const std::string &was, const std::string &is) {
    if (was != is)
      s.console.line("note: the checkpoint is of a run with " + what + " " + was +
                     ", this one has " + is);
  };
  DataOptions data = s.dataOptions(true);
  auto model = [](const std::string &name, const std::string &hash) {
    return name + (hash.empty() ? "" : " (" + hash + ")");
  };
  differ("the model", model(old.model, old.modelHash),
         model(s.executor.plan().model(), modelHash(s.executor.plan())));
  differ("the data", old.data.source, now.data);
  differ("the seed", std::to_string(old.data.seed), std::to_string(data.seed));
  differ("shuffle", text(old.data.shuffle), text(data.shuffle));
  differ("augment", text(old.data.augment), text(data.augment));
  differ("batches of", std::to_string(old.position.batch),
         std::to_string(s.executor.plan().global_batch()));
}

} // namespace

Status loadInitialWeights(Session &s, Executor &executor) {
  Result<Start> start = Start::open(s.options, s.plan);
  if (!start)
    return start.status();
  // A resumed run needs every state, not only the parameters.
  TESSERA_RETURN_IF_ERROR(
      executor.loadWeights(start->tensors.get(), /*strict=*/start->checkpoint.has_value()));
  s.resumed = std::move(start->checkpoint);
  if (!s.leader() || &executor != &s.executor)
    return Status();
  if (s.resumed && s.options.mode == RunMode::Train)
    tellDifferences(s, *s.resumed);
  if (!start->tensors || (s.options.weights.empty() && !s.resumed))
    return Status(); // the plan's own
  if (std::vector<std::string> unused = unusedWeights(s.executor.plan(), *start->tensors);
      !unused.empty())
    s.console.line("note: " + start->tensors->path() + ": the plan has no use for " +
                   namesText(unused));
  return Status();
}

} // namespace tessera::rt
