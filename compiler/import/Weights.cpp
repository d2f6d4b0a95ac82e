//===- Weights.cpp - reading, generating and writing weights ----------------------------------===//

#include "compiler/import/Weights.h"

#include "runtime/support/File.h"
#include "runtime/support/InitialValues.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;

namespace tessera::compiler {

constexpr uint64_t kChunk = 4 << 20;

void WeightStore::add(Weight weight) {
  index_[weight.name] = weights_.size();
  weights_.push_back(std::move(weight));
}

const Weight *WeightStore::find(StringRef name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &weights_[it->second];
}

static double sample(const InitRule &rule, uint64_t stream, uint64_t element) {
  switch (rule.kind) {
  case InitRule::Constant:
    break;
  case InitRule::Uniform:
    return rule.value * rt::uniformValue(rule.seed, stream, element);
  case InitRule::Normal:
    return rule.value * rt::normalValue(rule.seed, stream, element);
  }
  return rule.value;
}

Expected<InitRule> makeInitRule(StringRef rule, const InitContext &context, uint64_t seed) {
  auto [kind, argument] = rule.split(':');
  double std = 0;
  if (kind == "normal") {
    if (argument.empty() || argument.getAsDouble(std) || !(std >= 0) || std::isinf(std))
      return createStringError("initialisation rule '%s': write normal:STD, for example normal:0.02",
                               rule.str().c_str());
  } else if (!is_contained({"kaiming", "kaiming_uniform", "xavier", "xavier_normal", "torch", "zeros", "ones"}, kind) ||
             !argument.empty()) {
    return createStringError("unknown initialisation rule '%s': use kaiming, kaiming_uniform, xavier, "
                             "xavier_normal, torch, normal:STD, zeros or ones",
                             rule.str().c_str());
  }
  double fanIn = std::max(1.0, context.fanIn), fanOut = std::max(1.0, context.fanOut);
  switch (context.use) {
  case WeightUse::NormScale:
  case WeightUse::RunningVar:
    return InitRule::constant(1);
  case WeightUse::NormBias:
  case WeightUse::RunningMean:
    return InitRule::constant(0);
  case WeightUse::Bias:
    if (kind == "torch")
      return InitRule{InitRule::Uniform, 1 / std::sqrt(fanIn), seed};
    return InitRule::constant(0);
  case WeightUse::Kernel:
  case WeightUse::Embedding:
  case WeightUse::Other:
    break;
  }
  if (kind == "zeros" || kind == "ones")
    return InitRule::constant(kind == "ones");
  if (kind == "normal")
    return InitRule{InitRule::Normal, std, seed};
  // Embedding tables and parameters that no product reads have no fan. PyTorch initialises embeddings by normal(1), and
  // learned positions and tokens commonly start as normal(0.02).
  if (context.use == WeightUse::Embedding)
    return InitRule{InitRule::Normal, kind == "torch" ? 1.0 : 0.02, seed};
  if (context.use == WeightUse::Other)
    return InitRule{InitRule::Normal, 0.02, seed};
  if (kind == "kaiming")
    return InitRule{InitRule::Normal, std::sqrt(2 / fanIn), seed};
  if (kind == "kaiming_uniform")
    return InitRule{InitRule::Uniform, std::sqrt(6 / fanIn), seed};
  if (kind == "xavier")
    return InitRule{InitRule::Uniform, std::sqrt(6 / (fanIn + fanOut)), seed};
  if (kind == "xavier_normal")
    return InitRule{InitRule::Normal, std::sqrt(2 / (fanIn + fanOut)), seed};
  return InitRule{InitRule::Uniform, 1 / std::sqrt(fanIn), seed};
}

//===----------------------------------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------------------------------===//

static Error generate(const Weight &weight, const InitRule &rule, function_ref<Error(ArrayRef<char>)> sink) {
  int64_t total = *elementCount(weight.shape);
  int64_t step = kChunk / byteSize(weight.type);
  uint64_t stream = rt::streamOf(weight.name);
  for (int64_t begin = 0; begin < total; begin += step) {
    int64_t n = std::min(step, total - begin);
    std::vector<double> values(n);
    for (int64_t i = 0; i < n; ++i)
      values[i] = sample(rule, stream, begin + i);
    std::vector<char> bytes =
        isFloat(weight.type)
            ? Constant::floats(weight.type, {n}, std::move(values)).toBytes()
            : Constant::ints(weight.type, {n}, std::vector<int64_t>(values.begin(), values.end())).toBytes();
    if (Error error = sink(bytes))
      return error;
  }
  return Error::success();
}

static Error readRange(const Weight &weight, const FileRange &range, function_ref<Error(ArrayRef<char>)> sink) {
  auto file = sys::fs::openNativeFileForRead(range.path);
  if (!file)
    return createStringError("weight '%s': cannot open '%s': %s", weight.name.c_str(), range.path.c_str(),
                             toString(file.takeError()).c_str());
  Error result = Error::success();
  std::vector<char> buffer(std::min(kChunk, weight.byteLength()));
  for (uint64_t done = 0, total = weight.byteLength(); done < total && !result;) {
    MutableArrayRef<char> part(buffer.data(), std::min<uint64_t>(kChunk, total - done));
    auto got = sys::fs::readNativeFileSlice(*file, part, range.offset + done);
    if (!got || *got == 0) {
      std::string reason = got ? "unexpected end of file" : toString(got.takeError());
      consumeError(std::move(result));
      result = createStringError("weight '%s': cannot read '%s': %s", weight.name.c_str(), range.path.c_str(),
                                 reason.c_str());
      break;
    }
    done += *got;
    consumeError(std::move(result));
    result = sink(part.take_front(*got));
  }
  (void)sys::fs::closeFile(*file); // it was only read
  return result;
}

Error WeightStore::read(const Weight &weight, function_ref<Error(ArrayRef<char>)> sink) {
  if (auto *range = std::get_if<FileRange>(&weight.source))
    return readRange(weight, *range, sink);
  if (auto *rule = std::get_if<InitRule>(&weight.source))
    return generate(weight, *rule, sink);
  ArrayRef<char> rest(std::get<std::string>(weight.source));
  while (!rest.empty()) {
    if (Error error = sink(rest.take_front(kChunk)))
      return error;
    rest = rest.drop_front(std::min<size_t>(kChunk, rest.size()));
  }
  return Error::success();
}

Expected<std::vector<char>> WeightStore::bytes(StringRef name) const {
  const Weight *weight = find(name);
  if (!weight)
    return createStringError("there is no weight '%s'", name.str().c_str());
  std::vector<char> all;
  all.reserve(weight->byteLength());
  if (Error error = read(*weight, [&](ArrayRef<char> part) {
        all.insert(all.end(), part.begin(), part.end());
        return Error::success();
      }))
    return error;
  return all;
}

//===----------------------------------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------------------------------===//

static StringRef safetensorsType(DType type) {
  switch (type) {
  case DType::F32:
    return "F32";
  case DType::F64:
    return "F64";
  case DType::F16:
    return "F16";
  case DType::BF16:
    return "BF16";
  case DType::I64:
    return "I64";
  case DType::I32:
    return "I32";
  case DType::I8:
    return "I8";
  case DType::UI8:
    return "U8";
  case DType::I1:
    return "BOOL";
  }
  return "";
}

uint64_t WeightStore::generatedBytes() const {
  uint64_t bytes = 0;
  for (const Weight &weight : weights_)
    if (weight.isGenerated())
      bytes += weight.byteLength();
  return bytes;
}

Error WeightStore::writeSafetensors(StringRef path, bool generated, bool durable) const {
  SmallVector<const Weight *> written;
  for (const Weight &weight : weights_)
    if (generated || !weight.isGenerated())
      written.push_back(&weight);
  std::string header;
  raw_string_ostream text(header);
  json::OStream json(text);
  uint64_t offset = 0;
  json.objectBegin();
  for (const Weight *weight : written) {
    json.attributeObject(weight->name, [&] {
      json.attribute("dtype", safetensorsType(weight->type));
      json.attributeArray("shape", [&] {
        for (int64_t extent : weight->shape)
          json.value(extent);
      });
      json.attributeArray("data_offsets", [&] {
        json.value(int64_t(offset));
        json.value(int64_t(offset + weight->byteLength()));
      });
    });
    offset += weight->byteLength();
  }
  json.objectEnd();
  json.flush();
  text.flush();
  while (header.size() % 8 != 0) // the data starts at a multiple of eight
    header.push_back(' ');

  rt::Result<rt::AtomicFile> file = rt::AtomicFile::create(path.str());
  if (!file)
    return createStringError(file.status().message());
  auto write = [&](const char *data, size_t bytes) {
    const rt::Status status = file->write(data, bytes);
    return status ? Error::success() : createStringError(status.message());
  };
  char length[8];
  support::endian::write64le(length, header.size());
  if (Error error = write(length, sizeof length))
    return error;
  if (Error error = write(header.data(), header.size()))
    return error;
  for (const Weight *weight : written)
    if (Error error = read(*weight, [&](ArrayRef<char> part) { return write(part.data(), part.size()); }))
      return error;
  const rt::Status status = file->commit(durable);
  return status ? Error::success() : createStringError(status.message());
}

} // namespace tessera::compiler
