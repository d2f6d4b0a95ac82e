#include "runtime/plan/Recipe.h"

#include "runtime/plan/PlanInfo.h"
#include "runtime/support/CheckedFile.h"
#include "runtime/support/Nesting.h"
#include "runtime/support/Sha256.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace tessera::rt {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxRecipeBytes = uint64_t(1) << 20;
constexpr size_t kMaxArguments = 4096;

/// A member of the object that is text without a NUL character, which would cut a command line's
/// argument short.
std::string text(const Json &object, const char *member) {
  const auto found = object.find(member);
  if (found == object.end() || !found->is_string())
    return "";
  const auto &value = found->get_ref<const std::string &>();
  return value.find('\0') == std::string::npos ? value : "";
}

} // namespace

Result<Recipe::File> Recipe::File::of(const std::string &path) {
  Result<FileSums> sums = sumFile(path);
  if (!sums)
    return sums.status();
  std::string bytes;
  for (uint32_t sum : sums->chunks)
    for (int shift = 0; shift < 32; shift += 8)
      bytes += char(sum >> shift);
  const Digest digest = sha256(bytes);
  return File{path, sums->bytes, hexText(digest.data(), digest.size())};
}

bool Recipe::leavesOut(const std::string &option) {
  for (const char *name : {"--mesh", "--mode", "--output", "--save-strategies", "--dump-phases",
                           "--dump-strategy-graph", "--export-weights", "--what-if", "--html", "--search-only",
                           "--accept", "--json", "--quiet", "--help", "--version"})
    if (option == name)
      return true;
  return false;
}

std::string Recipe::format() const {
  Json all = {{"format", "tessera-recipe"}, {"version", 1},          {"model", model}, {"mesh", mesh}, {"mode", mode},
              {"arguments", arguments},     {"files", Json::array()}};
  for (const File &file : files)
    all["files"].push_back({{"path", file.path}, {"bytes", file.bytes}, {"digest", file.digest}});
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Recipe> Recipe::parse(const std::string &source) {
  const Status bad = Status::error("is no recipe of tessera-compile, or is damaged");
  if (nestsDeeper(source, 8))
    return bad;
  const Json json = Json::parse(source, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object() || text(json, "format") != "tessera-recipe")
    return bad;
  if (!json.contains("version") || json["version"] != 1)
    return Status::error("has another version than 1; compile the model again");
  Recipe recipe;
  recipe.model = text(json, "model");
  recipe.mesh = text(json, "mesh");
  recipe.mode = text(json, "mode");
  const auto arguments = json.find("arguments"), files = json.find("files");
  if (recipe.model.empty() || recipe.mesh.empty() || recipe.mode.empty() || arguments == json.end() ||
      !arguments->is_array() || arguments->size() > kMaxArguments || files == json.end() || !files->is_array() ||
      files->size() > kMaxArguments)
    return bad;
  for (const Json &entry : *arguments) {
    std::string argument = text({{"value", entry}}, "value");
    // Someone else may have written the file. Its arguments must not redirect what is compiled
    // again.
    if (!argument.starts_with("--") || leavesOut(argument.substr(0, argument.find('='))))
      return Status::error("has the argument " + rt::quoted(argument) + ", which a recipe must not have");
    recipe.arguments.push_back(std::move(argument));
  }
  for (const Json &entry : *files) {
    if (!entry.is_object() || text(entry, "path").empty() || !entry.contains("bytes") ||
        !entry["bytes"].is_number_unsigned())
      return bad;
    recipe.files.push_back({text(entry, "path"), entry["bytes"].get<uint64_t>(), text(entry, "digest")});
  }
  return recipe;
}

Status Recipe::checkFiles() const {
  for (const File &then : files) {
    if (!fileExists(then.path))
      return Status::error(then.path + ": is not there any more, but the plan was compiled from it");
    Result<File> now = File::of(then.path);
    if (!now)
      return now.status();
    if (now->bytes != then.bytes || now->digest != then.digest)
      return Status::error(then.path + ": has changed since the plan was compiled from it");
  }
  return Status();
}

Result<Recipe> readRecipe(const std::string &plan) {
  const std::string path = plan + "/" + kRecipeName;
  if (!fileExists(path))
    return Status::error(plan + ": has no " + kRecipeName +
                         ", which says how it was compiled; compile the model again");
  Result<std::string> source = readFile(path, kMaxRecipeBytes);
  if (!source)
    return source.status();
  Result<Recipe> recipe = Recipe::parse(*source);
  return recipe ? recipe : Result<Recipe>(recipe.status().context(path));
}

/// How a mesh with stages begins.
static constexpr const char *kStages = "stage=";

std::string meshFor(const std::string &mesh, int ranks) {
  if (mesh.find('[') != std::string::npos) // stages with meshes of their own, of which none is for so many ranks
    return std::to_string(ranks);
  std::vector<std::pair<std::string, int>> axes; // the name with its "="
  for (size_t at = 0; at < mesh.size();) {
    const size_t end = std::min(mesh.find(',', at), mesh.size()), equals = mesh.find('=', at);
    if (equals >= end)
      return std::to_string(ranks);
    int size = 0;
    std::from_chars(mesh.data() + equals + 1, mesh.data() + end, size);
    axes.push_back({mesh.substr(at, equals + 1 - at), std::max(size, 1)});
    at = end + 1;
  }
  if (axes.empty())
    return std::to_string(ranks);
  auto others = [&](size_t axis) {
    int64_t product = 1;
    for (size_t i = 0; i < axes.size(); ++i)
      product = std::min<int64_t>(product * (i == axis ? 1 : axes[i].second), INT32_MAX);
    return product;
  };
  const bool staged = axes.front().first == kStages;
  size_t changed = 0;
  while (changed < axes.size() &&
         (ranks % others(changed) != 0 || (staged && changed == 0 && ranks == others(changed))))
    ++changed;
  if (changed == axes.size()) {
    for (auto &[name, size] : axes)
      size = 1;
    changed = 0;
  }
  axes[changed].second = int(ranks / others(changed));
  if (staged && axes.front().second == 1)
    axes.erase(axes.begin());
  if (axes.empty())
    return std::to_string(ranks);
  std::string text;
  for (const auto &[name, size] : axes)
    text += (text.empty() ? "" : ",") + name + std::to_string(size);
  return text;
}

std::vector<std::string> argumentsFor(const Recipe &recipe, const std::string &mesh) {
  std::vector<std::string> arguments;
  for (const std::string &argument : recipe.arguments)
    if (mesh.starts_with(kStages) || !argument.starts_with("--pipeline=schedule"))
      arguments.push_back(argument);
  return arguments;
}

} // namespace tessera::rt
