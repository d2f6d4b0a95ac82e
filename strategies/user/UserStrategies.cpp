#include "strategies/user/UserStrategies.h"
#include "runtime/support/Nesting.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>

namespace tessera::strategies {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxFile = int64_t(64) << 20;
constexpr size_t kMaxAxesPerDim = 16;

llvm::Error bad(const std::string &where, const std::string &what) {
  return llvm::createStringError("%s: %s", where.c_str(), what.c_str());
}

/// Takes "/64" off the end of the text. False: what stands behind the '/' is no unit.
bool takeUnit(llvm::StringRef &text, UserDim &dim) {
  auto [before, unit] = text.split('/');
  bool good = !text.contains('/') || (!unit.trim().getAsInteger(10, dim.unit) && dim.unit >= 1);
  text = before;
  return good;
}

llvm::Error addAxes(const std::string &where, const Json &value, UserDim &dim) {
  const std::string &text = value.get_ref<const std::string &>();
  if (dim.unit)
    return bad(where, "a unit stands behind the last axis, not before '" + text + "'");
  llvm::StringRef names = text;
  if (!takeUnit(names, dim))
    return bad(where, "'" + text + "' does not end in a unit such as \"/64\"");
  llvm::SmallVector<llvm::StringRef> parts;
  names.split(parts, '+');
  for (llvm::StringRef part : parts) {
    if (part.trim().empty() || dim.axes.size() >= kMaxAxesPerDim)
      return bad(where, "'" + text + "' is not a list of axis names such as \"data+model\"");
    dim.axes.push_back(part.trim().str());
  }
  return llvm::Error::success();
}

llvm::Expected<UserDim> readDim(const std::string &where, const Json &value) {
  UserDim dim;
  if (value.is_number_integer()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > (1u << 20))
      return bad(where, "a split count must be a whole number from 1 to 1048576");
    dim.count = value.get<int64_t>();
    return dim;
  }
  const llvm::StringRef text = value.is_string() ? llvm::StringRef(value.get_ref<const std::string &>()) : "";
  if (text.contains('/') && llvm::isDigit(text[0])) { // no axis begins with a digit
    llvm::StringRef count = text;
    if (!takeUnit(count, dim) || count.trim().getAsInteger(10, dim.count) || dim.count < 1 || dim.count > (1 << 20))
      return bad(where, "'" + text.str() + "' is neither axis names nor a split count and a unit such as \"8/64\"");
    return dim;
  }
  dim.named = true;
  if (value.is_null())
    return dim;
  if (value.is_string()) {
    if (llvm::Error e = addAxes(where, value, dim))
      return e;
    return dim;
  }
  if (value.is_array()) {
    for (const Json &axis : value) {
      if (!axis.is_string())
        return bad(where, "a list for one dimension must hold axis names");
      if (llvm::Error e = addAxes(where, axis, dim))
        return e;
    }
    return dim;
  }
  return bad(where, "an entry must be a split count, an axis name, a list of axis names or null");
}

llvm::Expected<std::vector<UserTensor>> readTensors(const std::string &where, const Json &value) {
  if (!value.is_array())
    return bad(where, "expected a list with one list per tensor");
  std::vector<UserTensor> tensors;
  for (const Json &tensor : value) {
    if (tensor.is_null()) {
      tensors.push_back(std::nullopt);
      continue;
    }
    if (!tensor.is_array() || tensor.size() > 64)
      return bad(where, "expected a list with one list per tensor, each with one entry per dimension");
    std::vector<UserDim> dims;
    for (const Json &entry : tensor) {
      llvm::Expected<UserDim> dim = readDim(where, entry);
      if (!dim)
        return dim.takeError();
      dims.push_back(std::move(*dim));
    }
    tensors.push_back(std::move(dims));
  }
  return tensors;
}

/// Reads the stage of an entry, under one of two names, if it has one.
llvm::Error readStage(const std::string &where, const Json &value, std::optional<int64_t> &stage) {
  for (const char *field : {"stage", "pipeline_stage"}) {
    if (!value.contains(field))
      continue;
    if (stage)
      return bad(where, "'stage' and 'pipeline_stage' are two names of one field");
    const Json &number = value[field];
    if (!number.is_number_unsigned() || number.get<uint64_t>() > (1u << 20))
      return bad(where, std::string("'") + field + "' must be a whole number from 0");
    stage = number.get<int64_t>();
  }
  return llvm::Error::success();
}

struct ReadEntry {
  UserEntry entry;
  bool shards = true; // false: it only gives a stage
  std::optional<int64_t> stage;
};

llvm::Expected<ReadEntry> readEntry(const std::string &origin, size_t number, const Json &value) {
  std::string where = origin + ": entry " + std::to_string(number);
  if (!value.is_object() || !value.contains("op") || !value["op"].is_string())
    return bad(where, "expected an object with the operator's name under 'op'");
  ReadEntry read;
  UserEntry &entry = read.entry;
  entry.op = value["op"].get<std::string>();
  where = origin + ": operator '" + entry.op + "'";
  for (const auto &item : value.items())
    if (item.key() != "op" && item.key() != "in" && item.key() != "out" && item.key() != "stage" &&
        item.key() != "pipeline_stage")
      return bad(where, "unknown field '" + item.key() + "'; expected op, in, out, stage");
  if (llvm::Error e = readStage(where, value, read.stage))
    return e;
  if (!value.contains("in")) {
    if (!read.stage || value.contains("out"))
      return bad(where, "the shardings of its inputs are missing ('in')");
    read.shards = false;
    return read;
  }
  llvm::Expected<std::vector<UserTensor>> in = readTensors(where + ", in", value["in"]);
  if (!in)
    return in.takeError();
  entry.in = std::move(*in);
  if (value.contains("out")) {
    llvm::Expected<std::vector<UserTensor>> out = readTensors(where + ", out", value["out"]);
    if (!out)
      return out.takeError();
    entry.out = std::move(*out);
    entry.hasOut = true;
  }
  // One notation per entry: counts say how many parts, names say which axes.
  int named = -1;
  for (const auto *side : {&entry.in, &entry.out})
    for (const UserTensor &tensor : *side)
      if (tensor)
        for (const UserDim &dim : *tensor) {
          if (dim.named && dim.axes.empty())
            continue; // null is "not cut" beside names
          if (named >= 0 && named != int(dim.named))
            return bad(where, "split counts and axis names are mixed: use one notation per operator");
          named = dim.named;
        }
  return read;
}

/// `isWhole`: the object is no version inside another one.
llvm::Error readSaved(const std::string &origin, const Json &json, UserStrategies &user, bool isWhole = true) {
  auto text = [](const Json &object, const char *field) {
    return object.is_object() && object.contains(field) && object[field].is_string()
               ? std::optional<std::string>(object[field].get<std::string>())
               : std::nullopt;
  };
  auto texts = [](const Json &object, const char *field, std::vector<std::string> &out) {
    if (!object.contains(field) || !object[field].is_array())
      return false;
    for (const Json &item : object[field]) {
      if (!item.is_string())
        return false;
      out.push_back(item.get<std::string>());
    }
    return true;
  };
  std::string broken = "damaged strategy file";
  auto mesh = text(json, "mesh");
  const bool hasVersions = json.is_object() && json.contains("versions") && isWhole;
  const char *what = hasVersions ? "versions" : "functions";
  if (!mesh || !json.contains(what) || !json[what].is_array())
    return bad(origin, broken + ": 'mesh' or '" + what + "' is missing");
  user.savedMesh = *mesh;
  if (json.contains("stages") && isWhole) {
    if (!json["stages"].is_array())
      return bad(origin, broken + ": 'stages' is no list");
    for (const Json &item : json["stages"]) {
      auto op = text(item, "op");
      std::optional<int64_t> stage;
      if (llvm::Error e = op ? readStage(origin + ": " + broken, item, stage) : llvm::Error::success())
        return e;
      if (!op || !stage)
        return bad(origin, broken + ": a stage lacks op or stage");
      user.stages.push_back({*op, *stage});
    }
  }
  if (hasVersions) {
    for (const Json &version : json["versions"]) {
      UserStrategies &one = user.versions.emplace_back();
      one.origin = user.origin;
      if (llvm::Error e = readSaved(origin, version, one, /*isWhole=*/false))
        return e;
    }
    return user.versions.empty() ? bad(origin, broken + ": it holds no version") : llvm::Error::success();
  }
  for (const Json &f : json["functions"]) {
    auto name = text(f, "name");
    SavedFunction saved;
    if (!name || !texts(f, "args", saved.args) || !texts(f, "results", saved.results) || !f.contains("operators") ||
        !f["operators"].is_array())
      return bad(origin, broken + ": a function lacks its name, args, results or operators");
    for (const Json &o : f["operators"]) {
      auto op = text(o, "op"), kind = text(o, "kind"), strategy = text(o, "strategy");
      if (!op || !kind || !strategy)
        return bad(origin, broken + ": an operator of '" + *name + "' lacks op, kind or strategy");
      saved.operators.push_back({*op, *kind, *strategy});
    }
    saved.apart = f.value("apart", Json()) == true;
    if (!user.saved.emplace(*name, std::move(saved)).second)
      return bad(origin, broken + ": function '" + *name + "' occurs twice");
  }
  if (user.saved.empty())
    return bad(origin, broken + ": it holds no function");
  return llvm::Error::success();
}

} // namespace

llvm::Expected<UserStrategies> UserStrategies::load(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::createStringError("strategy file %s: %s", path.str().c_str(), file.getError().message().c_str());
  return parse((*file)->getBuffer(), path);
}

llvm::Expected<UserStrategies> UserStrategies::parse(llvm::StringRef text, llvm::StringRef origin) {
  UserStrategies user;
  user.origin = origin.str();
  std::string where = "strategy file " + user.origin;
  if (int64_t(text.size()) > kMaxFile)
    return bad(where, "larger than 64 MiB");
  if (rt::nestsDeeper(text, 32))
    return bad(where, "nested more than 32 deep");
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false,
                          /*ignore_comments=*/true);
  if (json.is_discarded())
    return bad(where, "not valid JSON");
  if (json.is_object() && json.contains("format")) {
    if (json["format"] != "tessera-strategies")
      return bad(where, "unknown format: expected \"tessera-strategies\"");
    if (llvm::Error e = readSaved(where, json, user))
      return e;
    return user;
  }
  const Json *list = &json;
  if (json.is_object() && json.contains("strategies"))
    list = &json["strategies"];
  if (!list->is_array())
    return bad(where, "expected a list of strategies, or an object with that list under 'strategies'");
  for (size_t i = 0; i < list->size(); ++i) {
    llvm::Expected<ReadEntry> read = readEntry(where, i, (*list)[i]);
    if (!read)
      return read.takeError();
    const std::string &op = read->entry.op;
    if (read->stage) {
      if (llvm::any_of(user.stages, [&](const UserStage &other) { return other.op == op; }))
        return bad(where, "operator '" + op + "' has two stages");
      user.stages.push_back({op, *read->stage});
    }
    if (!read->shards)
      continue;
    if (llvm::any_of(user.entries, [&](const UserEntry &other) { return other.op == op; }))
      return bad(where, "operator '" + op + "' has two strategies");
    user.entries.push_back(std::move(read->entry));
  }
  return user;
}

/// Whether axes of the mesh have the product.
static bool hasProduct(const Mesh &mesh, int64_t count, int axis = 0) {
  if (count == 1)
    return true;
  if (axis == mesh.numAxes())
    return false;
  const int64_t size = mesh.axisSize(axis);
  return (size > 1 && count % size == 0 && hasProduct(mesh, count / size, axis + 1)) ||
         hasProduct(mesh, count, axis + 1);
}

std::string whyNotOn(const Mesh &mesh, const UserEntry &entry) {
  for (const auto *side : {&entry.in, &entry.out})
    for (const UserTensor &tensor : *side)
      for (const UserDim &dim : tensor.value_or(std::vector<UserDim>())) {
        for (const std::string &axis : dim.axes)
          if (mesh.findAxis(axis) < 0)
            return "has no axis '" + axis + "'";
        if (!dim.named && !hasProduct(mesh, dim.count))
          return "has no axes for " + std::to_string(dim.count) + " parts";
      }
  return "";
}

bool matchesName(llvm::StringRef pattern, llvm::StringRef name) {
  if (!pattern.contains('*'))
    return pattern == name;
  llvm::SmallVector<llvm::StringRef> parts;
  pattern.split(parts, '*');
  if (!name.consume_front(parts.front()))
    return false;
  for (llvm::StringRef part : llvm::ArrayRef(parts).drop_front().drop_back()) {
    size_t at = name.find(part);
    if (at == llvm::StringRef::npos)
      return false;
    name = name.drop_front(at + part.size());
  }
  return name.ends_with(parts.back());
}

} // namespace tessera::strategies
