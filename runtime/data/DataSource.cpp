#include "runtime/data/DataSource.h"

#include "runtime/data/Cifar10Source.h"
#include "runtime/data/Elements.h"
#include "runtime/data/NpySource.h"
#include "runtime/data/Prefetch.h"
#include "runtime/data/SyntheticSource.h"
#include "runtime/data/TokenSource.h"
#include "runtime/data/image/ImageFolderSource.h"
#include "runtime/plan/PlanInfo.h"

namespace tessera::rt {
namespace {

constexpr int kMostPrefetch = 64;

/// "input 2" or "the target", for messages.
std::string nameOf(size_t index, const BatchRequest &request) {
  return request.target ? "the target" : "input " + std::to_string(index);
}

/// Requests come from a plan. Checks that their boxes make sense, that there is a batch size and
/// that the target is last. Fills in their sizes.
Status checkRequests(const std::vector<BatchRequest> &requests, const Spec &spec, std::vector<uint64_t> &bytes) {
  if (requests.empty())
    return Status::error("the program reads no data: it has neither inputs nor a target");
  for (size_t i = 0; i < requests.size(); ++i) {
    const BatchRequest &request = requests[i];
    const std::string name = nameOf(i, request);
    if (request.target && i + 1 != requests.size())
      return Status::error("the target is not the last of the requests");
    if (request.target && request.globalShape.empty())
      return Status::error("the target is a scalar; data sources fill targets with a batch dimension");
    const std::optional<uint64_t> whole = bytesOf(request.globalShape, request.dtype);
    const std::optional<uint64_t> box = bytesOf(request.shape, request.dtype);
    if (!whole || !box || !boxInside(request.globalShape, request.offset, request.shape))
      return Status::error(name + ": the box at " + shapeText(request.offset) + " of shape " +
                           shapeText(request.shape) + " is not inside the " + typeName(request.dtype) +
                           " tensor of shape " + shapeText(request.globalShape));
    if (!spec.fillsWhole() && (request.globalShape.empty() || request.globalShape[0] != batchOf(requests)))
      return Status::error(name + " of shape " + shapeText(request.globalShape) + " has no batch dimension of " +
                           std::to_string(batchOf(requests)) + " samples; " + spec.kind +
                           " cannot fill it: give it as an array, with --data npy:...");
    bytes.push_back(*box);
  }
  if (batchOf(requests) == 0)
    return Status::error("the program has no input with a batch dimension: all are scalars");
  return Status();
}

/// Options in the specification take precedence over those of the program.
Status mergeOptions(const Spec &spec, DataOptions &options) {
  for (auto [name, field] : {std::pair{"shuffle", &options.shuffle}, {"augment", &options.augment}}) {
    if (!spec.options.count(name))
      continue;
    Result<int64_t> flag = spec.integer(name, 0, 0, 1);
    if (!flag)
      return flag.status();
    *field = *flag != 0;
  }
  return Status();
}

} // namespace

Result<int64_t> fullBatches(const std::string &what, int64_t samples, int64_t batch) {
  if (samples < batch)
    return Status::error(what + " has " + std::to_string(samples) + " samples, fewer than the global batch of " +
                         std::to_string(batch));
  return samples / batch;
}

int64_t batchOf(const std::vector<BatchRequest> &requests) {
  if (const BatchRequest &last = requests.back(); last.target)
    return last.globalShape.empty() ? 0 : last.globalShape[0];
  for (const BatchRequest &request : requests)
    if (!request.globalShape.empty())
      return request.globalShape[0];
  return 0;
}

Result<std::unique_ptr<DataSource>> openDataSource(const std::string &spec, const std::vector<BatchRequest> &requests,
                                                   const DataOptions &options) {
  if (options.prefetch < 0 || options.prefetch > kMostPrefetch)
    return Status::error("cannot prepare " + std::to_string(options.prefetch) + " batches ahead; choose 0 to " +
                         std::to_string(kMostPrefetch));
  Result<Spec> parsed = parseSpec(spec);
  if (!parsed)
    return parsed.status();
  std::vector<uint64_t> bytes;
  TESSERA_RETURN_IF_ERROR(checkRequests(requests, *parsed, bytes));
  DataOptions merged = options;
  TESSERA_RETURN_IF_ERROR(mergeOptions(*parsed, merged));
  const ProducerContext context{*parsed, requests, merged, batchOf(requests)};
  Result<std::unique_ptr<BatchProducer>> producer =
      Status::error("data source '" + spec + "': there is no kind '" + parsed->kind +
                    "'; write npy:IN.npy,...,TARGET.npy, npy:NAME=IN.npy,...,target=TARGET.npy, cifar10:DIR, "
                    "imagefolder:DIR, tokens:FILE or synthetic");
  if (parsed->kind == "npy")
    producer = openNpy(context);
  else if (parsed->kind == "cifar10")
    producer = openCifar10(context);
  else if (parsed->kind == "imagefolder")
    producer = openImageFolder(context);
  else if (parsed->kind == "tokens")
    producer = openTokens(context);
  else if (parsed->kind == "synthetic")
    producer = openSynthetic(context);
  if (!producer)
    return producer.status();
  return prefetch(std::move(*producer), std::move(bytes), context.batch, merged.prefetch, merged.produced);
}

std::vector<std::string> dataPaths(const std::string &spec) {
  const Result<Spec> parsed = parseSpec(spec);
  if (!parsed)
    return {};
  std::vector<std::string> paths = parsed->paths;
  for (const auto &[name, path] : parsed->named)
    paths.push_back(path);
  return paths;
}

} // namespace tessera::rt
