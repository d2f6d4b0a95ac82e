#include "runtime/support/CommandFiles.h"

#include "runtime/support/File.h"

#include <algorithm>
#include <filesystem>

namespace tessera::rt {
namespace {

namespace fs = std::filesystem;

/// The path without links, dots and double slashes, as far as the file system has it.
fs::path resolved(const std::string &path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error)
    whole = fs::absolute(path, error).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path(); // "plan/" ends in an empty name
}

bool sameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  return resolved(a) == resolved(b) || fs::equivalent(a, b, error);
}

bool isBelow(const std::string &path, const std::string &folder) {
  const fs::path inner = resolved(path), outer = resolved(folder);
  auto [out, in] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return out == outer.end() && in != inner.end();
}

bool isFolder(const std::string &path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

} // namespace

void CommandFiles::reads(const std::string &path) {
  if (!path.empty())
    inputs_.push_back(path);
}

void CommandFiles::add(const std::string &option, const std::string &path, Kind kind) {
  if (!path.empty())
    outputs_.push_back({option, path, kind});
}

Status CommandFiles::check() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const auto &[option, path, kind] = outputs_[i];
    auto refused = [&](const std::string &why) { return Status::error(option + " " + path + ": " + why); };
    if (kind == Kind::File)
      TESSERA_RETURN_IF_ERROR(writeTarget(path).status().context(option));
    const bool there = fileExists(path);
    for (const std::string &input : inputs_) {
      if (kind == Kind::Folder) {
        if (sameFile(path, input) || isBelow(input, path))
          return refused("would be replaced, but this command reads " + input + "; give another name");
      } else if (sameFile(path, input) || (there && isFolder(input) && isBelow(path, input))) {
        return refused("is read by this command; give another name");
      }
    }
    for (size_t j = 0; j < i; ++j)
      if (sameFile(path, outputs_[j].path))
        return refused("is written by " + outputs_[j].option + " as well; give another name");
  }
  return Status();
}

} // namespace tessera::rt
