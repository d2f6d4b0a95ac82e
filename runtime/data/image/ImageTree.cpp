#include "runtime/data/image/ImageTree.h"

#include <algorithm>
#include <filesystem>

namespace tessera::rt {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 32; // links may lead in circles

bool isImage(const std::string &name) {
  std::string lower = name;
  for (char &c : lower)
    c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return lower.ends_with(".jpg") || lower.ends_with(".jpeg") || lower.ends_with(".png");
}

/// The names in a folder, sorted: folders, and files that are images.
Status list(const std::string &path, std::vector<std::string> &folders, std::vector<std::string> &files) {
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code kind;
    if (it->is_directory(kind))
      folders.push_back(it->path().filename().string());
    else if (isImage(it->path().filename().string()))
      files.push_back(it->path().filename().string());
  }
  if (error)
    return Status::error(path + ": cannot be listed: " + error.message());
  std::sort(folders.begin(), folders.end());
  std::sort(files.begin(), files.end());
  return Status();
}

/// Appends (folder, image) for all images below root/folder.
Status collect(const std::string &root, const std::string &folder, int depth,
               std::vector<std::pair<std::string, std::string>> &found) {
  if (depth > kMostDepth)
    return Status::error(root + "/" + folder + ": folders are nested more than " + std::to_string(kMostDepth) +
                         " deep");
  std::vector<std::string> folders, files;
  TESSERA_RETURN_IF_ERROR(list(root + "/" + folder, folders, files));
  for (std::string &file : files)
    found.emplace_back(folder, std::move(file));
  for (const std::string &inner : folders)
    TESSERA_RETURN_IF_ERROR(collect(root, folder + "/" + inner, depth + 1, found));
  return Status();
}

} // namespace

Result<ImageTree> ImageTree::scan(const std::string &root) {
  ImageTree tree;
  tree.root = root;
  std::vector<std::string> classes, ignored;
  TESSERA_RETURN_IF_ERROR(list(root, classes, ignored));
  if (classes.empty())
    return Status::error(root + ": has no folders; images lie in one folder per class");
  for (const std::string &name : classes) {
    std::vector<std::pair<std::string, std::string>> found;
    TESSERA_RETURN_IF_ERROR(collect(root, name, 0, found));
    if (found.empty())
      return Status::error(root + "/" + name + ": has no .jpg, .jpeg or .png file");
    std::sort(found.begin(), found.end());
    tree.classes.push_back({name, int64_t(tree.paths.size()), int64_t(found.size())});
    for (const auto &[folder, file] : found)
      tree.paths.push_back(folder + "/" + file);
  }
  return tree;
}

int64_t ImageTree::labelOf(int64_t image) const {
  auto after =
      std::upper_bound(classes.begin(), classes.end(), image, [](int64_t i, const Class &c) { return i < c.first; });
  return after - classes.begin() - 1;
}

} // namespace tessera::rt
