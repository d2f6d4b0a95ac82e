#include "compiler/hybrid/HybridOptions.h"

#include "runtime/support/Nesting.h"
#include "strategies/user/UserStrategies.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace llvm;

namespace tessera::compiler {

using dist::AxisList;
using dist::Mesh;
using dist::Sharding;

namespace {

using Json = nlohmann::ordered_json; // keeps the order of patterns, since the first that matches wins

constexpr size_t kMaxFile = size_t(16) << 20;

class Reader {
public:
  Reader(HybridOptions &options) : options_(options) {}
  bool batchGiven() const { return batchGiven_; }

  Error read(StringRef text) {
    if (text.size() > kMaxFile)
      return options_.error("", "larger than 16 MiB");
    if (rt::nestsDeeper(text, 8))
      return options_.error("", "nested more than 8 deep");
    // The parser would keep only the last of two equal keys, so equal keys are an error.
    std::vector<std::set<std::string>> keys;
    std::string twice;
    auto watch = [&](int, Json::parse_event_t event, Json &value) {
      if (event == Json::parse_event_t::object_start)
        keys.emplace_back();
      else if (event == Json::parse_event_t::object_end)
        keys.pop_back();
      else if (event == Json::parse_event_t::key && !keys.back().insert(value).second)
        twice = value;
      return true;
    };
    Json json = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
    if (json.is_discarded())
      return options_.error("", "not valid JSON");
    if (!json.is_object())
      return options_.error("", "expected an object with batch, inputs, target, outputs, parameters");
    if (!twice.empty())
      return options_.error(twice, "given twice");
    for (const auto &[key, value] : json.items())
      if (Error e = member(key, value))
        return e;
    return Error::success();
  }

private:
  Error member(const std::string &key, const Json &value) {
    if (key == "batch") {
      batchGiven_ = true;
      return axes("batch", value, options_.batch);
    }
    if (key == "target") {
      options_.target.emplace();
      return cuts(key, value, *options_.target);
    }
    for (auto [name, list] : {std::pair("inputs", &options_.inputs), std::pair("outputs", &options_.outputs),
                              std::pair("parameters", &options_.parameters)})
      if (key == name) {
        if (!value.is_object())
          return options_.error(key, "expected an object with a list of axes for every name");
        for (const auto &[tensor, dims] : value.items()) {
          HybridOptions::Cuts cut;
          if (Error e = cuts(key + ": '" + tensor + "'", dims, cut))
            return e;
          list->emplace_back(tensor, std::move(cut));
        }
        return Error::success();
      }
    return options_.error(key, "unknown key; expected batch, inputs, target, outputs, parameters");
  }

  Error cuts(const std::string &key, const Json &value, HybridOptions::Cuts &cuts) {
    if (!value.is_array() || value.size() > 16)
      return options_.error(key, "expected a list with the axes of every dimension, or null");
    std::set<int> seen;
    for (const Json &dim : value) {
      cuts.emplace_back();
      if (Error e = axes(key, dim, cuts.back()))
        return e;
      for (int axis : cuts.back())
        if (!seen.insert(axis).second)
          return options_.error(key, "the axis '" + options_.mesh.axisName(axis) + "' cuts two dimensions");
    }
    return Error::success();
  }

  /// Reads the axes of a dimension: null, "data", "data+model" or a list of names.
  Error axes(const std::string &key, const Json &value, AxisList &axes) {
    std::vector<std::string> names;
    auto add = [&](const std::string &text) {
      SmallVector<StringRef> parts;
      StringRef(text).split(parts, '+');
      for (StringRef part : parts)
        names.push_back(part.trim().str());
    };
    if (value.is_string()) {
      add(value.get<std::string>());
    } else if (value.is_array() && value.size() <= 16) {
      for (const Json &item : value) {
        if (!item.is_string())
          return options_.error(key, "a list of axes must hold their names");
        add(item.get<std::string>());
      }
    } else if (!value.is_null()) {
      return options_.error(key, "expected null, an axis (\"data\", \"data+model\") or a list of axes");
    }
    for (const std::string &name : names) {
      int axis = options_.mesh.findAxis(name);
      if (axis < 0)
        return options_.error(key, "'" + name + "' is no axis of the mesh " + options_.mesh.str());
      if (is_contained(axes, axis))
        return options_.error(key, "the axis '" + name + "' is named twice");
      axes.push_back(axis);
    }
    return Error::success();
  }

  HybridOptions &options_;
  bool batchGiven_ = false;
};

Error defaultBatch(HybridOptions &options) {
  if (options.mesh.numRanks() == 1)
    return Error::success();
  int axis = options.mesh.findAxis("data");
  if (axis < 0)
    return options.error("batch", "the mesh " + options.mesh.str() +
                                      " has no axis 'data': name the axes over which the batch is cut under "
                                      "\"batch\" of a file for --hybrid-options ([]: none)");
  options.batch = {axis};
  return Error::success();
}

} // namespace

Error HybridOptions::error(StringRef key, const Twine &what) const {
  std::string text = origin.empty() ? "--mode hybrid" : "hybrid options " + origin;
  if (!origin.empty() && !key.empty())
    text += ": " + key.str();
  return createStringError("%s: %s", text.c_str(), what.str().c_str());
}

Expected<HybridOptions> HybridOptions::none(const Mesh &mesh) {
  HybridOptions options;
  options.mesh = mesh;
  if (Error e = defaultBatch(options))
    return e;
  return options;
}

Expected<HybridOptions> HybridOptions::load(StringRef path, const Mesh &mesh) {
  auto file = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return createStringError("hybrid options %s: %s", path.str().c_str(), file.getError().message().c_str());
  return parse((*file)->getBuffer(), path, mesh);
}

Expected<HybridOptions> HybridOptions::parse(StringRef text, StringRef origin, const Mesh &mesh) {
  HybridOptions options;
  options.mesh = mesh;
  options.origin = origin.str();
  Reader reader(options);
  if (Error e = reader.read(text))
    return e;
  if (!reader.batchGiven())
    if (Error e = defaultBatch(options))
      return e;
  return options;
}

static const HybridOptions::Cuts *lookUp(const std::vector<std::pair<std::string, HybridOptions::Cuts>> &list,
                                         StringRef name) {
  for (bool exact : {true, false})
    for (const auto &[pattern, cuts] : list)
      if (exact ? pattern == name : strategies::matchesName(pattern, name))
        return &cuts;
  return nullptr;
}

bool HybridOptions::names(const std::vector<std::pair<std::string, Cuts>> &list, StringRef name) {
  return lookUp(list, name) != nullptr;
}

Expected<Sharding> HybridOptions::sharding(const Cuts &cuts, StringRef key, StringRef name,
                                           ArrayRef<int64_t> local) const {
  Sharding result = Sharding::replicated(int64_t(local.size()));
  if (cuts.size() > local.size())
    return error(key, "'" + name + "' has " + Twine(local.size()) + " dimensions, not " + Twine(cuts.size()));
  for (auto [d, axes] : enumerate(cuts))
    result.dims[d] = axes;
  return result;
}

Expected<Sharding> HybridOptions::find(const std::vector<std::pair<std::string, Cuts>> &list, StringRef key,
                                       StringRef name, ArrayRef<int64_t> local) const {
  const Cuts *cuts = lookUp(list, name);
  return sharding(cuts ? *cuts : Cuts(), key, name, local);
}

Sharding HybridOptions::batchSharding(int64_t rank) const {
  Sharding result = Sharding::replicated(rank);
  if (rank > 0)
    result.dims[0] = batch;
  return result;
}

Expected<Sharding> HybridOptions::input(StringRef name, ArrayRef<int64_t> local) const {
  if (names(inputs, name))
    return find(inputs, "inputs", name, local);
  return batchSharding(int64_t(local.size()));
}

Expected<Sharding> HybridOptions::targets(ArrayRef<int64_t> local) const {
  if (target)
    return sharding(*target, "target", "target", local);
  return batchSharding(int64_t(local.size()));
}

Expected<Sharding> HybridOptions::parameter(StringRef name, ArrayRef<int64_t> local) const {
  return find(parameters, "parameters", name, local);
}

Expected<SmallVector<int64_t>> wholeShape(const Mesh &mesh, const Sharding &sharding, ArrayRef<int64_t> local) {
  SmallVector<int64_t> whole(local);
  for (auto [d, extent] : enumerate(whole))
    if (__builtin_mul_overflow(extent, sharding.numShards(mesh, int64_t(d)), &extent) || extent > int64_t(1) << 40)
      return createStringError("its blocks together are too large a tensor");
  return whole;
}

} // namespace tessera::compiler
