#include "runtime/executor/DeviceWaits.h"

#include <algorithm>

namespace tessera::rt {

std::optional<double> DeviceWaits::run(double seconds, double host, std::optional<double> measured) {
  if (measured) {
    if (own_.size() == 3)
      own_.erase(own_.begin());
    own_.push_back(seconds - *measured);
  }
  if (own_.empty())
    return std::nullopt;
  std::vector<double> sorted = own_;
  std::sort(sorted.begin(), sorted.end());
  const double device = sorted[(sorted.size() - 1) / 2];
  return std::max(0.0, seconds - std::max(host, device));
}

} // namespace tessera::rt
