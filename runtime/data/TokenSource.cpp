#include "runtime/data/TokenSource.h"

#include "runtime/data/Elements.h"
#include "runtime/data/NpyFile.h"
#include "runtime/data/Random.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tessera::rt {
namespace {

/// One file of the stream.
struct TokenFile {
  InputFile file;
  uint64_t dataOffset, elementBytes; // 1, 2, 4 or 8
  bool isSigned;
  int64_t first, count; // tokens of the stream
};

/// Element i of `bytes`, little-endian.
int64_t tokenAt(const char *bytes, int64_t i, const TokenFile &file) {
  uint64_t value = 0;
  std::memcpy(&value, bytes + uint64_t(i) * file.elementBytes, file.elementBytes);
  const int unused = 64 - 8 * int(file.elementBytes);
  return file.isSigned ? int64_t(value << unused) >> unused
                       : int64_t(value); // a u8 above 2^63 is negative, and refused
}

class TokenProducer : public BatchProducer {
public:
  TokenProducer(std::vector<TokenFile> files, const ProducerContext &context, int64_t windows, int64_t batches,
                uint64_t seed, int64_t vocabulary)
      : files_(std::move(files)), requests_(context.requests), batch_(context.batch),
        length_(context.requests[0].globalShape[1]), windows_(windows), batches_(batches), vocabulary_(vocabulary),
        seed_(seed), shuffle_(context.options.shuffle.value_or(context.options.train)) {}

  int64_t batchesPerEpoch() const override { return batches_; }
  Status produce(int64_t batch, const std::vector<void *> &buffers) override;
  std::string describe() const override {
    std::string text = "tokens";
    for (const TokenFile &file : files_)
      text += " " + file.file.path();
    return text + ": " + std::to_string(files_.back().first + files_.back().count) + " tokens, " +
           std::to_string(windows_) + " windows of " + std::to_string(length_) + (shuffle_ ? ", shuffled" : "");
  }

private:
  /// Tokens [at, at + count) of the stream as elements `to`, ... of a buffer.
  Status read(int64_t at, int64_t count, const BatchRequest &request, void *buffer, int64_t to);

  const std::vector<TokenFile> files_;
  const std::vector<BatchRequest> requests_; // the ids, and maybe the targets
  const int64_t batch_, length_, windows_, batches_, vocabulary_;
  const uint64_t seed_;
  const bool shuffle_;
  std::vector<char> bytes_;
};

Status TokenProducer::read(int64_t at, int64_t count, const BatchRequest &request, void *buffer, int64_t to) {
  auto file =
      std::upper_bound(files_.begin(), files_.end(), at, [](int64_t t, const TokenFile &f) { return t < f.first; });
  for (--file; count > 0; ++file) {
    const int64_t from = at - file->first, here = std::min(count, file->count - from);
    bytes_.resize(uint64_t(here) * file->elementBytes);
    TESSERA_RETURN_IF_ERROR(
        file->file.readAt(file->dataOffset + uint64_t(from) * file->elementBytes, bytes_.data(), bytes_.size()));
    for (int64_t i = 0; i < here; ++i) {
      const int64_t id = tokenAt(bytes_.data(), i, *file);
      if (id < 0 || id >= vocabulary_)
        return Status::error(file->file.path() + ": token " + std::to_string(from + i) + " is " + std::to_string(id) +
                             ", but ids are 0 to " + std::to_string(vocabulary_ - 1) +
                             "; tokenize for this model, or check dtype");
      storeInteger(id, request.dtype, buffer, to++);
    }
    at += here;
    count -= here;
  }
  return Status();
}

Status TokenProducer::produce(int64_t batch, const std::vector<void *> &buffers) {
  const int64_t epoch = batch / batches_, first = batch % batches_ * batch_;
  const Permutation order(windows_, hash(seed_, epoch));
  for (size_t i = 0; i < requests_.size(); ++i) {
    const BatchRequest &request = requests_[i];
    for (int64_t n = 0; n < request.shape[0]; ++n) {
      const int64_t position = first + request.offset[0] + n;
      const int64_t window = shuffle_ ? order(position) : position;
      TESSERA_RETURN_IF_ERROR(read(window * length_ + request.offset[1] + request.target, request.shape[1], request,
                                   buffers[i], n * request.shape[1]));
    }
  }
  return Status();
}

/// One input of ids [batch, n], and maybe a target like it.
Status checkRequests(const std::vector<BatchRequest> &requests) {
  const BatchRequest &ids = requests[0];
  if (ids.target || requests.size() > 2 || (requests.size() == 2 && !requests[1].target))
    return Status::error("tokens feed models with one input, the ids; this one has " +
                         std::to_string(requests.size() - requests.back().target));
  for (const BatchRequest &request : requests) {
    const bool integer = request.dtype == plan::I64 || request.dtype == plan::I32;
    if (!integer || request.globalShape.size() != 2 || request.globalShape != ids.globalShape)
      return Status::error("tokens feed an input of ids [batch, length] and a target of the same shape; the "
                           "program's " +
                           std::string(request.target ? "target" : "input") + " is " + typeName(request.dtype) + " " +
                           shapeText(request.globalShape));
  }
  return Status();
}

Result<TokenFile> openFile(const std::string &path, uint64_t plainBytes) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return file.status();
  TokenFile tokens{std::move(*file), 0, plainBytes, false, 0, 0};
  uint64_t bytes = tokens.file.size();
  if (path.ends_with(".npy")) {
    Result<NpyHeader> header = readNpyHeader(tokens.file, /*ids=*/true);
    if (!header)
      return header.status();
    if (isFloatType(header->dtype) || header->dtype == plan::BOOL || header->shape.size() != 1)
      return Status::error(path + ": holds " + (header->dtype ? typeName(header->dtype) : std::string("ids")) + " " +
                           shapeText(header->shape) + "; a file of tokens is one integer array [tokens]");
    tokens.dataOffset = header->dataOffset;
    tokens.elementBytes = header->elementBytes;
    tokens.isSigned = header->dtype != plan::DTYPE_INVALID && header->dtype != plan::U8;
    bytes = header->dataBytes;
  }
  if (bytes % tokens.elementBytes != 0)
    return Status::error(path + ": has " + std::to_string(bytes) + " bytes, not a multiple of the " +
                         std::to_string(tokens.elementBytes) + " bytes of an id; it is truncated, or dtype is wrong");
  tokens.count = int64_t(bytes / tokens.elementBytes);
  return tokens;
}

} // namespace

Result<std::unique_ptr<BatchProducer>> openTokens(const ProducerContext &context) {
  const Spec &spec = context.spec;
  TESSERA_RETURN_IF_ERROR(spec.knows({"dtype", "vocab"}));
  if (spec.paths.empty())
    return Status::error("data source '" + spec.text + "': write tokens:FILE with a .bin or .npy file of token ids");
  TESSERA_RETURN_IF_ERROR(checkRequests(context.requests));
  const auto dtype = spec.options.find("dtype");
  if (dtype != spec.options.end() && dtype->second != "u16" && dtype->second != "u32")
    return Status::error("data source '" + spec.text + "': dtype is u16 or u32, not '" + dtype->second + "'");
  const uint64_t plainBytes = dtype != spec.options.end() && dtype->second == "u32" ? 4 : 2;
  // If nothing else is known, every id that fits the model's type is allowed.
  int64_t limit = std::numeric_limits<int32_t>::max();
  for (const BatchRequest &request : context.requests)
    if (request.idLimit > 0)
      limit = std::min(limit, request.idLimit);
  Result<int64_t> vocabulary = spec.integer("vocab", limit, 1, limit);
  Result<int64_t> seed = spec.integer("seed", 0, 0, INT64_MAX);
  for (const Status &status : {vocabulary.status(), seed.status()})
    TESSERA_RETURN_IF_ERROR(status);

  std::vector<TokenFile> files;
  int64_t tokens = 0;
  for (const std::string &path : spec.paths) {
    Result<TokenFile> file = openFile(path, plainBytes);
    if (!file)
      return file.status();
    file->first = tokens;
    tokens += file->count;
    if (file->count > 0) // an empty file would have the same first token as the next one
      files.push_back(std::move(*file));
  }
  const int64_t length = context.requests[0].globalShape[1];
  const int64_t windows = tokens == 0 ? 0 : (tokens - 1) / length;
  if (windows < context.batch)
    return Status::error(spec.paths[0] + ": " + (spec.paths.size() > 1 ? "the files have " : "has ") +
                         std::to_string(tokens) + " tokens, too few for one batch of " + std::to_string(context.batch) +
                         " windows of " + std::to_string(length) + " tokens and their successors");
  return std::unique_ptr<BatchProducer>(std::make_unique<TokenProducer>(
      std::move(files), context, windows, windows / context.batch,
      spec.options.count("seed") ? uint64_t(*seed) : context.options.seed, *vocabulary));
}

} // namespace tessera::rt
