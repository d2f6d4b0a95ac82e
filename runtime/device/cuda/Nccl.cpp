#include "runtime/device/cuda/Nccl.h"
#include "runtime/device/cuda/Common.h"

#include <dlfcn.h>

namespace tessera::device {
namespace {

constexpr const char *kLibrary = "libnccl.so.2";

struct Loaded {
  Nccl functions;
  std::string failure; // empty: all functions are there
};

Loaded load() {
  Loaded loaded;
  void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    loaded.failure = std::string("collectives between CUDA devices need the library libnccl.so.2, which cannot be "
                                 "loaded (") +
                     (why ? why : "unknown reason") + "); install it or add its folder to LD_LIBRARY_PATH";
    return loaded;
  }
  auto find = [&](const char *name) {
    void *function = dlsym(library, name);
    if (!function && loaded.failure.empty())
      loaded.failure = std::string("the library libnccl.so.2 is too old: it has no ") + name + "; install NCCL " +
                       std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) + " or later";
    return function;
  };
#define TESSERA_NCCL(NAME, FUNCTION) loaded.functions.NAME = reinterpret_cast<decltype(&::FUNCTION)>(find(#FUNCTION));
#include "runtime/device/cuda/Nccl.def"
  return loaded;
}

} // namespace

const Nccl *loadNccl(TesseraMessage *m) {
  static const Loaded loaded = load();
  if (loaded.failure.empty())
    return &loaded.functions;
  fail(m, loaded.failure);
  return nullptr;
}

std::string ncclLibrary() {
  void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  auto getVersion = library ? reinterpret_cast<decltype(&ncclGetVersion)>(dlsym(library, "ncclGetVersion")) : nullptr;
  int version = 0; // 22809 is 2.28.9
  if (!getVersion || getVersion(&version) != ncclSuccess)
    return "NCCL not loaded";
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

} // namespace tessera::device
