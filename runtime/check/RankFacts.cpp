#include "runtime/check/RankFacts.h"

#include "runtime/device/Device.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/File.h"
#include "runtime/support/Version.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

template <size_t N> void store(char (&field)[N], const std::string &text) {
  std::snprintf(field, N, "%s", text.c_str());
}

constexpr uint64_t kSmallFile = 1 << 20; // bytes; far more than the kernel's files have

/// The number behind a word in a small file, such as "MemAvailable:"; -1 if there is none.
int64_t numberIn(const char *path, const std::string &word) {
  const Result<std::string> text = readFile(path, kSmallFile);
  const size_t at = text ? text->find(word) : std::string::npos;
  if (at == std::string::npos)
    return -1;
  const char *begin = text->c_str() + at + word.size();
  char *end = nullptr;
  const long long number = std::strtoll(begin, &end, 10);
  return end == begin ? -1 : number; // "max" where there is no limit
}

/// Bytes that can still be had: of the machine, and of the group that limits this process.
int64_t freeMemory() {
  int64_t left = numberIn("/proc/meminfo", "MemAvailable:");
  left = left < 0 ? -1 : left * 1024;
  const int64_t limit = numberIn("/sys/fs/cgroup/memory.max", ""), used = numberIn("/sys/fs/cgroup/memory.current", "");
  if (limit >= 0 && used >= 0)
    left = left < 0 ? limit - used : std::min(left, limit - used);
  return left;
}

int64_t cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : int64_t(sysconf(_SC_NPROCESSORS_ONLN));
}

int64_t checkpointBytes(const plan::Plan &plan) {
  uint64_t sum = 0;
  for (const plan::Binding &binding : plan.bindings())
    if (binding.role() == plan::PARAMETER || binding.role() == plan::STATE) {
      const plan::Buffer &buffer = plan.buffers(int(binding.buffer()));
      sum += bytesOf(toVector(buffer.shape()), buffer.dtype()).value_or(0);
    }
  return int64_t(sum);
}

/// The free bytes where the folder is, or will be made.
void lookAtFolder(const std::string &folder, RankFacts &facts) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (there.has_relative_path() && !fs::exists(there, error))
    there = there.parent_path();
  struct statvfs info;
  if (statvfs(there.c_str(), &info) != 0)
    return store(facts.fault, folder + ": " + std::strerror(errno));
  facts.freeDisk = int64_t(info.f_bavail) * int64_t(info.f_frsize);
  if (!fs::is_directory(there, error))
    store(facts.fault, there.string() + " is no folder, and checkpoints go below it");
  else if (access(there.c_str(), W_OK | X_OK) != 0)
    store(facts.fault, "checkpoints cannot be written below " + there.string() + ": " + std::strerror(errno));
}

Status openDevice(int number, bool shared, RankFacts &facts) {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  if (!module)
    return module.status();
  TesseraMessage libraries;
  (*module)->api().libraries(&libraries);
  const std::string without = facts.libraries;
  store(facts.libraries, without + (without.empty() ? "" : ", ") + libraries.text);
  Result<int> count = (*module)->count();
  if (!count)
    return count.status();
  if (number >= *count && (!shared || *count == 0))
    return Status::error("this machine has " + std::to_string(*count) + " CUDA devices, and this rank needs number " +
                         std::to_string(number));
  Result<std::shared_ptr<Device>> device = Device::open(*module, number % *count);
  if (!device)
    return device.status();
  store(facts.device, (*device)->info().name);
  return Status();
}

} // namespace

RankFacts factsOfRank(const plan::Plan &plan, const std::string &checkpointDir, int device, bool shared,
                      const std::string &libraries) {
  RankFacts facts = {};
  gethostname(facts.host, sizeof facts.host - 1);
  char link[sizeof facts.network] = "";
  if (readlink("/proc/self/ns/net", link, sizeof link - 1) > 0)
    store(facts.network, link);
  store(facts.version, TESSERA_VERSION);
  store(facts.libraries, libraries);
  store(facts.plan, plan.plan_id());
  facts.cores = cores();
  facts.freeMemory = freeMemory();
  facts.neededMemory = device >= 0 ? 0 : int64_t(plan.arena_bytes());
  facts.checkpoint = checkpointBytes(plan);
  facts.freeDisk = -1;
  if (!checkpointDir.empty())
    lookAtFolder(checkpointDir, facts);
  if (device >= 0)
    if (Status status = openDevice(device, shared, facts); !status)
      store(facts.fault, status.message());
  return facts;
}

} // namespace tessera::rt
