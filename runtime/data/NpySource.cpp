#include "runtime/data/NpySource.h"

#include "runtime/data/Elements.h"
#include "runtime/data/NpyFile.h"
#include "runtime/data/Random.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <utility>

namespace tessera::rt {
namespace {

const std::string kTargetName = "target";

class NpyProducer : public BatchProducer {
public:
  NpyProducer(std::vector<NpyFile> files, std::vector<BatchRequest> requests, int64_t batch, int64_t samples,
              uint64_t seed, bool shuffle, std::vector<std::string> notices)
      : notices_(std::move(notices)), files_(std::move(files)), requests_(std::move(requests)), batch_(batch),
        samples_(samples), batches_(samples / batch), seed_(seed), shuffle_(shuffle) {}

  int64_t batchesPerEpoch() const override { return batches_; }
  Status produce(int64_t batch, const std::vector<void *> &buffers) override;
  std::vector<std::string> takeNotices() override {
    std::lock_guard lock(mutex_);
    return std::exchange(notices_, {});
  }
  std::string describe() const override {
    std::string text = "npy";
    for (const NpyFile &file : files_)
      text += " " + file.path();
    return text + ": " + std::to_string(samples_) + " samples" + (shuffle_ ? ", shuffled" : "");
  }

private:
  std::mutex mutex_; // of notices_
  std::vector<std::string> notices_;
  const std::vector<NpyFile> files_; // one per request
  const std::vector<BatchRequest> requests_;
  const int64_t batch_, samples_, batches_;
  const uint64_t seed_;
  const bool shuffle_;
};

/// Does dimension 0 count samples?
bool isBatched(const BatchRequest &request, int64_t batch) {
  return !request.globalShape.empty() && request.globalShape[0] == batch;
}

Status NpyProducer::produce(int64_t batch, const std::vector<void *> &buffers) {
  const int64_t epoch = batch / batches_, first = batch % batches_ * batch_;
  const Permutation order(samples_, hash(seed_, epoch));
  for (size_t i = 0; i < requests_.size(); ++i) {
    std::vector<int64_t> offset = requests_[i].offset, shape = requests_[i].shape;
    const bool batched = isBatched(requests_[i], batch_);
    if (!shuffle_ || !batched) {
      if (batched)
        offset[0] += first;
      TESSERA_RETURN_IF_ERROR(files_[i].readBox(offset, shape, buffers[i]));
      continue;
    }
    shape[0] = 1;
    const uint64_t bytes = *bytesOf(shape, requests_[i].dtype);
    for (int64_t n = 0; n < requests_[i].shape[0]; ++n) {
      offset[0] = order(first + requests_[i].offset[0] + n);
      TESSERA_RETURN_IF_ERROR(files_[i].readBox(offset, shape, static_cast<char *>(buffers[i]) + n * bytes));
    }
  }
  return Status();
}

/// Checks that the file fits the request, except for the number of samples.
Status checkFile(const NpyFile &file, const BatchRequest &request, size_t index, bool batched) {
  std::vector<int64_t> expected = request.globalShape;
  bool fits = file.dtype() == request.dtype && file.shape().size() == expected.size();
  for (size_t d = batched ? 1 : 0; fits && d < expected.size(); ++d)
    fits = file.shape()[d] == expected[d];
  if (fits)
    return Status();
  std::string wanted = shapeText(expected);
  if (batched)
    wanted.replace(1, std::to_string(expected[0]).size(), "samples");
  return Status::error(file.path() + ": holds " + typeName(file.dtype()) + " " + shapeText(file.shape()) + ", but " +
                       (request.target ? "the target"
                        : request.name.empty()
                            ? "model input " + std::to_string(index)
                            : "model input " + std::to_string(index) + ", " + quoted(request.name) + ",") +
                       " needs " + typeName(request.dtype) + " " + wanted);
}

/// One path for each request, in their order.
Result<std::vector<std::string>> pathsByPlace(const Spec &spec, const std::vector<BatchRequest> &requests) {
  const bool hasTarget = requests.back().target;
  const size_t files = spec.paths.size();
  if (files != requests.size() && (hasTarget || files != requests.size() + 1))
    return Status::error("data source '" + spec.text + "' names " + std::to_string(files) +
                         " files; the program reads " + std::to_string(requests.size()) + ": " +
                         std::to_string(requests.size() - hasTarget) + " for the model inputs" +
                         (hasTarget ? " and one for the target" : ""));
  return spec.paths;
}

/// The name by which a user gives the file of a request.
std::string nameFor(const BatchRequest &request) { return request.target ? kTargetName : request.name; }

Result<std::vector<std::string>> pathsByName(const Spec &spec, const std::vector<BatchRequest> &requests) {
  if (!spec.paths.empty())
    return Status::error("data source '" + spec.text + "' names the input of some files (" + spec.named[0].first + "=" +
                         spec.named[0].second + ") and not that of " + spec.paths[0] + ": name all or none");
  std::vector<std::string> paths(requests.size());
  std::string known;
  for (const BatchRequest &request : requests)
    known += (known.empty() ? "" : ", ") + quoted(nameFor(request));
  for (const auto &[name, path] : spec.named) {
    const auto request = std::find_if(requests.begin(), requests.end(),
                                      [&name = name](const BatchRequest &r) { return nameFor(r) == name; });
    if (request != requests.end())
      paths[request - requests.begin()] = path;
    else if (name != kTargetName) // a program without a target does not read its file
      return Status::error("data source '" + spec.text + "': the program has no input " + quoted(name) + "; it reads " +
                           known + " (a path with '=' in it is written ./" + name + "=" + path + ")");
  }
  for (size_t i = 0; i < requests.size(); ++i)
    if (paths[i].empty())
      return Status::error("data source '" + spec.text + "' has no file for " + quoted(nameFor(requests[i])) +
                           "; the program reads " + known);
  return paths;
}

/// Files that are given at one input's place and have another input's name.
std::vector<std::string> exchanged(const std::vector<std::string> &paths, const std::vector<BatchRequest> &requests) {
  std::vector<std::string> notices;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::string stem = std::filesystem::path(paths[i]).stem().string(), name = nameFor(requests[i]);
    if (stem == name)
      continue;
    for (const BatchRequest &other : requests)
      if (!stem.empty() && nameFor(other) == stem)
        notices.push_back(paths[i] + " is read as " + quoted(name) + ", though there is an input " + quoted(stem) +
                          ": files stand in the order of the inputs, or say which they are (npy:" + stem + "=" +
                          paths[i] + ",...)");
  }
  return notices;
}

} // namespace

Result<std::unique_ptr<BatchProducer>> openNpy(const ProducerContext &context) {
  const Spec &spec = context.spec;
  const std::vector<BatchRequest> &requests = context.requests;
  TESSERA_RETURN_IF_ERROR(spec.knows({}));
  Result<std::vector<std::string>> paths =
      spec.named.empty() ? pathsByPlace(spec, requests) : pathsByName(spec, requests);
  if (!paths)
    return paths.status();
  std::vector<NpyFile> open;
  std::string first; // file of samples
  int64_t samples = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    Result<NpyFile> file = NpyFile::open((*paths)[i]);
    if (!file)
      return file.status();
    const bool batched = isBatched(requests[i], context.batch);
    TESSERA_RETURN_IF_ERROR(checkFile(*file, requests[i], i, batched));
    if (batched && !first.empty() && file->shape()[0] != samples)
      return Status::error(file->path() + ": has " + std::to_string(file->shape()[0]) + " samples, but " + first +
                           " has " + std::to_string(samples));
    if (batched && first.empty()) {
      first = file->path();
      samples = file->shape()[0];
    }
    open.push_back(std::move(*file));
  }
  if (Result<int64_t> batches = fullBatches(first + ":", samples, context.batch); !batches)
    return batches.status();
  const uint64_t fallback = context.options.seed;
  Result<int64_t> seed = spec.integer("seed", int64_t(fallback >> 1), 0, INT64_MAX);
  if (!seed)
    return seed.status();
  // If the whole file is one batch, its order is meant: nothing is shuffled.
  const bool shuffle = context.options.shuffle.value_or(false) && samples != context.batch;
  return std::unique_ptr<BatchProducer>(std::make_unique<NpyProducer>(
      std::move(open), requests, context.batch, samples, spec.options.count("seed") ? uint64_t(*seed) : fallback,
      shuffle,
      context.options.leader && spec.named.empty() ? exchanged(*paths, requests) : std::vector<std::string>()));
}

} // namespace tessera::rt
