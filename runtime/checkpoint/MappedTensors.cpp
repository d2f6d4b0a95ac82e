#include "runtime/checkpoint/MappedTensors.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace tessera::rt {
namespace {

using Json = nlohmann::ordered_json; // the first pattern that matches wins

Result<NameMap::Target> parseTarget(const std::string &name, const Json &json) {
  NameMap::Target target;
  if (json.is_null())
    return target;
  const Json *text = &json;
  if (json.is_object()) {
    auto called = json.find("name"), transpose = json.find("transpose");
    if (called == json.end() || json.size() != 1u + (transpose != json.end()) ||
        (transpose != json.end() && !transpose->is_boolean()))
      return Status::error("entry " + rt::quoted(name) + " is not of the form {\"name\": TEXT, \"transpose\": true}");
    target.transpose = transpose != json.end() && transpose->get<bool>();
    text = &*called;
  }
  if (!text->is_string())
    return Status::error("entry " + rt::quoted(name) + " leads to no name");
  target.name = text->get<std::string>();
  return target;
}

int64_t stars(const std::string &text) { return std::count(text.begin(), text.end(), '*'); }

} // namespace

Result<NameMap> NameMap::parse(std::string_view text) {
  bool deep = false;
  std::set<std::string> keys;
  std::string twice;
  auto watch = [&](int depth, Json::parse_event_t event, Json &value) {
    // Without this check a name that is given twice would hide its first entry.
    if (depth == 1 && event == Json::parse_event_t::key && !keys.insert(value).second)
      twice = value;
    return depth <= 3 || !(deep = true);
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded() || deep || !json.is_object())
    return Status::error("is no mapping: not a JSON object of names");
  if (!twice.empty())
    return Status::error("entry " + rt::quoted(twice) + " is there twice");
  NameMap map;
  for (const auto &[name, entry] : json.items()) {
    Result<Target> target = parseTarget(name, entry);
    if (!target)
      return target.status();
    const int64_t mine = stars(name), others = target->name ? stars(*target->name) : mine;
    if (mine > 1 || others != mine)
      return Status::error("entry " + rt::quoted(name) + " needs one star on each side, or none on either");
    if (mine == 0) {
      map.names_[name] = *target;
      continue;
    }
    const size_t star = name.find('*');
    map.patterns_.push_back({name.substr(0, star), name.substr(star + 1), *target});
  }
  return map;
}

NameMap::Target NameMap::of(const std::string &name) const {
  if (auto it = names_.find(name); it != names_.end())
    return it->second;
  for (const Pattern &p : patterns_) {
    if (!p.matches(name))
      continue;
    Target target = p.target;
    if (target.name)
      target.name->replace(target.name->find('*'), 1,
                           name.substr(p.before.size(), name.size() - p.before.size() - p.after.size()));
    return target;
  }
  return {name, false};
}

Status NameMap::check(const plan::Plan &plan) const {
  std::map<std::string, std::vector<int64_t>> shapes; // of the plan's tensors
  for (const plan::Binding &binding : plan.bindings())
    if (binding.role() == plan::PARAMETER || binding.role() == plan::STATE)
      shapes[binding.name()] = toVector(binding.global_shape());
  auto noMatrix = [](const std::string &entry, const auto &tensor) {
    return Status::error("entry " + rt::quoted(entry) + " transposes " + rt::quoted(tensor.first) + " of shape " +
                         shapeText(tensor.second) + ", which is no matrix");
  };
  auto unknown = [](const std::string &entry) {
    return Status::error("entry " + rt::quoted(entry) + " is for no tensor of the plan");
  };
  for (const auto &[name, target] : names_) {
    auto it = shapes.find(name);
    if (it == shapes.end())
      return unknown(name);
    if (target.transpose && it->second.size() != 2)
      return noMatrix(name, *it);
  }
  for (const Pattern &pattern : patterns_) {
    bool any = false;
    for (const auto &tensor : shapes) {
      if (!pattern.matches(tensor.first))
        continue;
      any = true;
      if (pattern.target.transpose && of(tensor.first).transpose && tensor.second.size() > 2)
        return noMatrix(pattern.before + "*" + pattern.after, tensor);
    }
    if (!any)
      return unknown(pattern.before + "*" + pattern.after);
  }
  return Status();
}

MappedTensors::MappedTensors(std::unique_ptr<TensorSource> from, std::unique_ptr<TensorSource> own, NameMap map,
                             const plan::Plan &plan)
    : from_(std::move(from)), own_(std::move(own)), map_(std::move(map)) {
  std::set<std::string> all, used;
  for (const plan::Binding &binding : plan.bindings()) {
    if (binding.role() != plan::PARAMETER && binding.role() != plan::STATE)
      continue;
    NameMap::Target target = map_.of(binding.name());
    if (target.name)
      used.insert(*target.name);
    if (typeOf(binding.name()))
      all.insert(binding.name());
  }
  for (const std::string &name : from_->names())
    if (!used.count(name))
      all.insert(name);
  names_.assign(all.begin(), all.end());
}

std::optional<TensorType> MappedTensors::typeOf(const std::string &name) const {
  NameMap::Target target = map_.of(name);
  if (!target.name)
    return own_ ? own_->typeOf(name) : std::nullopt;
  std::optional<TensorType> type = from_->typeOf(*target.name);
  if (type && target.transpose && type->shape.size() == 2)
    std::swap(type->shape[0], type->shape[1]);
  return type;
}

Status MappedTensors::read(const std::string &name, const Block &block, plan::DType type, void *out) const {
  NameMap::Target target = map_.of(name);
  if (!target.name)
    return own_ ? own_->read(name, block, type, out)
                : Status::error(path() + ": the plan has no values of its own for " + quoted(name));
  if (!target.transpose || block.shape.size() != 2)
    return from_->read(*target.name, block, type, out);
  const Block turned{{block.offset[1], block.offset[0]}, {block.shape[1], block.shape[0]}};
  const uint64_t each = bytesPerElement(type);
  std::vector<char> stored(bytesOf(block.shape, type).value_or(0));
  TESSERA_RETURN_IF_ERROR(from_->read(*target.name, turned, type, stored.data()));
  const auto rows = size_t(block.shape[0]), columns = size_t(block.shape[1]);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      std::memcpy(static_cast<char *>(out) + (i * columns + j) * each, &stored[(j * rows + i) * each], each);
  return Status();
}

} // namespace tessera::rt
