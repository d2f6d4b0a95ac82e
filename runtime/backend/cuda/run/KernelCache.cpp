#include "runtime/backend/cuda/run/KernelCache.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace tessera::rt::cuda {
namespace {

uint64_t fnv(const std::string &text, uint64_t hash) {
  for (unsigned char c : text)
    hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

/// The text before the image. It must match exactly, so that a wrong file is never used.
std::string headerOf(const std::string &key, const std::string &image) {
  char sum[40];
  std::snprintf(sum, sizeof sum, "\n%zu %016llx\n", image.size(),
                static_cast<unsigned long long>(fnv(image, 14695981039346656037ull)));
  return "tessera kernel 1\n" + key + sum;
}

std::string readImage(const std::string &path, const std::string &key) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return "";
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // The header's length is that of any header of this key with a number of the same width: cut at its last line.
  const std::string start = "tessera kernel 1\n" + key + "\n";
  if (!all.starts_with(start))
    return "";
  size_t end = all.find('\n', start.size());
  if (end == std::string::npos)
    return "";
  std::string image = all.substr(end + 1);
  return all.compare(0, end + 1, headerOf(key, image)) == 0 ? image : "";
}

void writeImage(const std::string &path, const std::string &key, const std::string &image) {
  // The file is written under another name first, so that no reader sees half of it. The name is unique among threads
  // and processes.
  static std::atomic<unsigned> counter{0};
  const std::string part = path + "." + std::to_string(getpid()) + "." + std::to_string(counter.fetch_add(1));
  {
    std::ofstream file(part, std::ios::binary);
    file << headerOf(key, image) << image;
    file.close();
    if (!file) {
      std::remove(part.c_str());
      return;
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0)
    std::remove(part.c_str());
}

Result<std::string> compileOne(const TesseraDeviceApi &api, int capability, const std::string &source,
                               const std::string &folder) {
  const std::string key =
      std::string(api.kind) + " " + std::to_string(capability) + " " + api.compilerText() + "\n" + source;
  std::string path;
  if (!folder.empty()) {
    char name[40];
    std::snprintf(name, sizeof name, "/%016llx%016llx",
                  static_cast<unsigned long long>(fnv(key, 14695981039346656037ull)),
                  static_cast<unsigned long long>(fnv(key, 0x9E3779B97F4A7C15ull)));
    path = folder + name;
    if (std::string image = readImage(path, key); !image.empty())
      return image;
  }
  void *data = nullptr;
  size_t bytes = 0;
  TesseraMessage message;
  message.text[0] = '\0';
  if (api.compile(source.c_str(), capability, &data, &bytes, &message) != TESSERA_OK)
    return Status::error(message.text);
  std::string image(static_cast<char *>(data), bytes);
  api.freeImage(data);
  if (!path.empty())
    writeImage(path, key, image);
  return image;
}

} // namespace

std::string kernelCacheFolder() {
  auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string folder = variable("TESSERA_CACHE_DIR");
  if (folder.empty() && !variable("XDG_CACHE_HOME").empty())
    folder = variable("XDG_CACHE_HOME") + "/tessera";
  if (folder.empty() && !variable("HOME").empty())
    folder = variable("HOME") + "/.cache/tessera";
  if (folder.empty())
    return "";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? "" : folder;
}

Result<std::vector<std::string>> compileKernels(const TesseraDeviceApi &api, int capability,
                                                const std::vector<const std::string *> &sources, int threads) {
  const std::string folder = kernelCacheFolder();
  std::vector<std::string> images(sources.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status failure;
  auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) {
      Result<std::string> image = compileOne(api, capability, *sources[i], folder);
      if (image) {
        images[i] = std::move(*image);
        continue;
      }
      std::lock_guard lock(mutex);
      if (failure.ok())
        failure = image.status();
      next = sources.size();
    }
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads && size_t(t) < sources.size(); ++t)
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error &) {
      break; // no more threads: those that are there do it
    }
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (!failure)
    return failure;
  return images;
}

} // namespace tessera::rt::cuda
