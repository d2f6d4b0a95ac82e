#include "runtime/backend/cuda/run/KernelCache.h"

#include "runtime/support/KeyedCache.h"

#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

namespace tessera::rt::cuda {
namespace {

Result<std::string> compileOne(const TesseraDeviceApi &api, int capability, const std::string &source,
                               bool roundProducts) {
  const std::string key = std::string(api.kind) + " " + std::to_string(capability) + " " + api.compilerText() +
                          (roundProducts ? ", products rounded" : "") + "\n" + source;
  if (std::string image = readCached("kernel", key); !image.empty())
    return image;
  void *data = nullptr;
  size_t bytes = 0;
  TesseraMessage message;
  message.text[0] = '\0';
  if (api.compile(source.c_str(), capability, roundProducts, &data, &bytes, &message) != TESSERA_OK)
    return Status::error(message.text);
  std::string image(static_cast<char *>(data), bytes);
  api.freeImage(data);
  writeCached("kernel", key, image);
  return image;
}

} // namespace

Result<std::vector<std::string>> compileKernels(const TesseraDeviceApi &api, int capability,
                                                const std::vector<const std::string *> &sources, int threads,
                                                bool roundProducts) {
  std::vector<std::string> images(sources.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status failure;
  auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) {
      Result<std::string> image = compileOne(api, capability, *sources[i], roundProducts);
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
