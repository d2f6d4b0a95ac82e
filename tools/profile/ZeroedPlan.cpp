#include "tools/profile/ZeroedPlan.h"

#include "runtime/launch/Launcher.h"

namespace tessera {

rt::Status ZeroedPlan::load(const plan::Plan &plan, const std::string &backend, int ranks) {
  alone_ = rt::createThreadWorlds(1);
  auto platform = rt::Platform::open({.backend = backend}, *alone_[0]);
  if (!platform)
    return platform.status();
  platform_ = std::move(*platform);
  options_.threads = rt::threadsPerRank(ranks);
  auto loaded = platform_->backend->load(plan, options_);
  if (!loaded)
    return loaded.status();
  loaded_ = std::move(*loaded);
  for (const plan::Binding &binding : plan.bindings()) {
    size_t bytes = 8; // of the widest type
    for (int64_t d : plan.buffers(int(binding.buffer())).shape())
      bytes *= size_t(d);
    TESSERA_RETURN_IF_ERROR(loaded_->upload(binding.buffer(), std::vector<char>(bytes, 0).data()));
  }
  return rt::Status();
}

} // namespace tessera
