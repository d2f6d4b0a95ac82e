#include "runtime/checkpoint/Weights.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/CheckedFile.h"
#include "runtime/support/UnsentNames.h"

#include <algorithm>
#include <set>

namespace tessera::rt {
namespace {

bool isWeight(const plan::Binding &binding) {
  return binding.role() == plan::PARAMETER || binding.role() == plan::STATE;
}

} // namespace

std::string namesText(const std::vector<std::string> &names, size_t most) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

bool isOptimizerState(const plan::Plan &plan, const plan::Binding &binding) {
  const size_t slash = binding.name().find('/');
  if (binding.role() != plan::STATE || slash == std::string::npos)
    return false;
  return std::any_of(plan.bindings().begin(), plan.bindings().end(), [&](const plan::Binding &b) {
    return b.role() == plan::PARAMETER && binding.name().compare(slash + 1, std::string::npos, b.name()) == 0;
  });
}

std::string modelHash(const plan::Plan &plan) {
  std::set<std::string> tensors;
  for (const plan::Binding &binding : plan.bindings())
    if (isWeight(binding) && !isOptimizerState(plan, binding))
      tensors.insert(binding.name() + " " + typeName(plan.buffers(int(binding.buffer())).dtype()) +
                     shapeText(toVector(binding.global_shape())));
  std::string all;
  for (const std::string &tensor : tensors)
    all += tensor + "\n";
  char text[9];
  std::snprintf(text, sizeof text, "%08x", crc32Of(all.data(), all.size()));
  return text;
}

bool begins(const plan::Binding &binding, const TensorSource *weights) {
  const std::optional<TensorType> type = weights ? weights->typeOf(binding.name()) : std::nullopt;
  return !type || (isUnsent(binding.name()) && type->shape != toVector(binding.global_shape()));
}

std::vector<std::string> droppedUnsent(const plan::Plan &plan, const TensorSource &weights) {
  std::set<std::string> taken;
  for (const plan::Binding &binding : plan.bindings())
    if (binding.role() == plan::STATE && !begins(binding, &weights))
      taken.insert(binding.name());
  std::vector<std::string> dropped;
  for (const std::string &name : weights.names())
    if (isUnsent(name) && !taken.count(name))
      dropped.push_back(quoted(name));
  return dropped;
}

Status checkWeights(const plan::Plan &plan, const TensorSource *weights, bool strict) {
  std::vector<std::string> missing, other;
  for (const plan::Binding &binding : plan.bindings()) {
    if (!isWeight(binding) || (binding.role() == plan::STATE && isUnsent(binding.name())))
      continue;
    std::optional<TensorType> type = weights ? weights->typeOf(binding.name()) : std::nullopt;
    std::vector<int64_t> wanted = toVector(binding.global_shape());
    const std::string there = weights ? weights->nameThere(binding.name()) : binding.name();
    if (!type && (strict || binding.role() == plan::PARAMETER))
      missing.push_back(roleName(binding.role()) + " " + quoted(binding.name()) +
                        (there == binding.name() ? "" : " (there " + quoted(there) + ")"));
    else if (type && type->shape != wanted)
      other.push_back("tensor " + quoted(binding.name()) + " has the shape " + shapeText(type->shape) +
                      "; the plan wants " + shapeText(wanted));
  }
  std::string text;
  if (!missing.empty())
    text = namesText(missing) + (missing.size() == 1 ? " is missing" : " are missing");
  if (!other.empty())
    text += (text.empty() ? "" : "; ") + namesText(other);
  if (text.empty())
    return Status();
  if (weights && plan.stages() < 2) // another stage may have use for them
    if (std::vector<std::string> unused = unusedWeights(plan, *weights); !unused.empty())
      text += "; the plan has no use for " + namesText(unused);
  return Status::error((weights ? weights->path() + ": " : "") + text);
}

std::vector<std::string> unusedWeights(const plan::Plan &plan, const TensorSource &weights) {
  std::set<std::string> wanted;
  for (const plan::Binding &binding : plan.bindings())
    if (isWeight(binding))
      wanted.insert(binding.name());
  std::vector<std::string> unused;
  for (const std::string &name : weights.names())
    if (!wanted.count(name) && !isUnsent(name))
      unused.push_back(quoted(name));
  return unused;
}

} // namespace tessera::rt
