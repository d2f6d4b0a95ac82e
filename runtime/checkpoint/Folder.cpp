#include "runtime/checkpoint/Folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace tessera::rt {
namespace {

namespace fs = std::filesystem;

constexpr const char *kPrefix = "step-", *kPartialSuffix = ".partial";

std::string stepName(int64_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%08lld", kPrefix, static_cast<long long>(step));
  return text;
}

/// The step in a folder's name that stepName has made; nothing for any other name.
std::optional<int64_t> stepOf(const std::string &name) {
  const size_t start = std::strlen(kPrefix);
  if (name.size() <= start || name.size() > start + 18)
    return std::nullopt;
  int64_t step = 0;
  for (char c : name.substr(start)) {
    if (c < '0' || c > '9')
      return std::nullopt;
    step = step * 10 + (c - '0');
  }
  return stepName(step) == name ? std::optional(step) : std::nullopt;
}

bool isPartial(const std::string &name) {
  const size_t suffix = std::strlen(kPartialSuffix);
  return name.size() > suffix + 1 && name[0] == '.' && name.ends_with(kPartialSuffix) &&
         stepOf(name.substr(1, name.size() - 1 - suffix));
}

std::vector<std::string> entriesOf(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Status rename(const std::string &from, const std::string &to) {
  const auto held = Unfinished::hold();
  if (std::rename(from.c_str(), to.c_str()) == 0)
    return Status();
  return Status::error(to + ": cannot be given its name: " + std::strerror(errno));
}

Status removeAll(const std::string &path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? Status::error(path + ": cannot be removed: " + error.message()) : Status();
}

} // namespace

std::string checkpointPath(const std::string &folder, int64_t step) { return folder + "/" + stepName(step); }

std::string partialPath(const std::string &folder, int64_t step) {
  return folder + "/." + stepName(step) + kPartialSuffix;
}

std::vector<int64_t> listCheckpoints(const std::string &folder) {
  std::vector<int64_t> steps;
  for (const std::string &name : entriesOf(folder))
    if (std::optional<int64_t> step = stepOf(name); step && fileExists(folder + "/" + name + "/" + kManifestName))
      steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<std::string> findCheckpoint(const std::string &path) {
  if (fileExists(path + "/" + kManifestName))
    return path;
  std::vector<int64_t> steps = listCheckpoints(path);
  if (steps.empty())
    return Status::error(path + ": is no checkpoint and holds none (neither " + kManifestName + " nor " + kPrefix +
                         "…)");
  return checkpointPath(path, steps.back());
}

std::vector<std::string> checkpointFiles(const std::string &path) {
  std::vector<std::string> files;
  if (const Result<std::string> found = findCheckpoint(path))
    for (const std::string &name : entriesOf(*found))
      files.push_back(*found + "/" + name);
  return files;
}

Result<std::string> beginCheckpoint(const std::string &folder, int64_t step) {
  TESSERA_RETURN_IF_ERROR(makeDirectory(folder));
  for (const std::string &name : entriesOf(folder))
    if (isPartial(name))
      TESSERA_RETURN_IF_ERROR(removeAll(folder + "/" + name));
  std::string path = partialPath(folder, step);
  TESSERA_RETURN_IF_ERROR(makeDirectory(path));
  return path;
}

Result<std::string> beginFolder(const std::string &path) {
  std::string partial = path;
  while (partial.size() > 1 && partial.back() == '/')
    partial.pop_back();
  partial += kPartialSuffix;
  TESSERA_RETURN_IF_ERROR(removeAll(partial));
  TESSERA_RETURN_IF_ERROR(makeDirectory(partial));
  return partial;
}

void dropFolder(const std::string &partial) { static_cast<void>(removeAll(partial).ok()); }

Status commitFolder(const std::string &partial, const std::string &path, const Manifest &manifest) {
  Result<std::string> text = manifestText(manifest);
  if (!text)
    return text.status().context(path);
  TESSERA_RETURN_IF_ERROR(writeFile(partial + "/" + kManifestName, *text));
  TESSERA_RETURN_IF_ERROR(syncDirectory(partial));
  TESSERA_RETURN_IF_ERROR(rename(partial, path));
  return syncDirectory(fs::absolute(partial).parent_path().string());
}

Status commitCheckpoint(const std::string &folder, const Manifest &manifest, int64_t keep) {
  const int64_t step = manifest.position.step;
  TESSERA_RETURN_IF_ERROR(commitFolder(partialPath(folder, step), checkpointPath(folder, step), manifest));
  std::vector<int64_t> steps = listCheckpoints(folder);
  for (size_t i = 0; keep > 0 && i + size_t(keep) < steps.size(); ++i) {
    const std::string old = partialPath(folder, steps[i]);
    TESSERA_RETURN_IF_ERROR(rename(checkpointPath(folder, steps[i]), old));
    TESSERA_RETURN_IF_ERROR(removeAll(old));
  }
  return Status();
}

} // namespace tessera::rt
