#include "runtime/support/KeyedCache.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unistd.h>

namespace tessera::rt {
namespace {

uint64_t fnv(const std::string &text, uint64_t hash) {
  for (unsigned char c : text)
    hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

/// The text before the contents. It must match exactly, so that a wrong file is never used.
std::string headerOf(const std::string &start, const std::string &contents) {
  char sum[40];
  std::snprintf(sum, sizeof sum, "%zu %016llx\n", contents.size(),
                static_cast<unsigned long long>(fnv(contents, 14695981039346656037ull)));
  return start + sum;
}

std::string startOf(const std::string &kind, const std::string &key) { return "tessera " + kind + " 1\n" + key + "\n"; }

/// Empty where there is no folder.
std::string pathOf(const std::string &start) {
  const std::string folder = cacheFolder();
  if (folder.empty())
    return "";
  char name[40];
  std::snprintf(name, sizeof name, "/%016llx%016llx",
                static_cast<unsigned long long>(fnv(start, 14695981039346656037ull)),
                static_cast<unsigned long long>(fnv(start, 0x9E3779B97F4A7C15ull)));
  return folder + name;
}

} // namespace

std::string cacheFolder() {
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

std::string readCached(const std::string &kind, const std::string &key) {
  const std::string start = startOf(kind, key), path = pathOf(start);
  std::ifstream file(path, std::ios::binary);
  if (path.empty() || !file)
    return "";
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!all.starts_with(start))
    return "";
  const size_t end = all.find('\n', start.size());
  if (end == std::string::npos)
    return "";
  std::string contents = all.substr(end + 1);
  return all.compare(0, end + 1, headerOf(start, contents)) == 0 ? contents : "";
}

void writeCached(const std::string &kind, const std::string &key, const std::string &contents) {
  const std::string start = startOf(kind, key), path = pathOf(start);
  if (path.empty())
    return;
  // The file is written under another name first, so that no reader sees half of it. The name is unique among threads
  // and processes.
  static std::atomic<unsigned> counter{0};
  const std::string part = path + "." + std::to_string(getpid()) + "." + std::to_string(counter.fetch_add(1));
  {
    std::ofstream file(part, std::ios::binary);
    file << headerOf(start, contents) << contents;
    file.close();
    if (!file) {
      std::remove(part.c_str());
      return;
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0)
    std::remove(part.c_str());
}

} // namespace tessera::rt
