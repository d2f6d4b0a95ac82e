//===- ImageTree.h - a folder of images, one folder per class ---------------------------------===//
//
//   Result<ImageTree> tree = ImageTree::scan("/data/imagenet/train");
//   // tree->classes == {"n01440764", "n01443537", ...}; tree->paths[0], tree->labelOf(0) == 0
//
// Classes are the folders in byte order of their names, images the files below them, at any depth, whose
// names end in .jpg, .jpeg or .png (in any case): in each folder by name, folders by path. That is the
// order of torchvision's ImageFolder.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_IMAGE_IMAGETREE_H
#define TESSERA_RUNTIME_DATA_IMAGE_IMAGETREE_H

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::rt {

struct ImageTree {
  struct Class {
    std::string name;
    int64_t first, count; // of its images
  };
  std::string root;
  std::vector<Class> classes;
  std::vector<std::string> paths; // below root, class after class

  static Result<ImageTree> scan(const std::string &root);
  int64_t labelOf(int64_t image) const;
};

} // namespace tessera::rt

#endif
