#include "runtime/backend/cuda/bind/LoopTable.h"

#include <algorithm>

namespace tessera::rt::cuda {

Launch launchLoop(PointLoop loop, int64_t points, std::vector<Place> arguments) {
  Launch launch;
  launch.source = loop.source(points);
  launch.grid[0] = loop.blocks(points);
  launch.arguments = std::move(arguments);
  launch.loop = std::make_shared<const PointLoop>(std::move(loop));
  launch.points = points;
  return launch;
}

bool fitsTable(const Launch &launch) {
  return launch.loop && launch.points > 0 &&
         std::none_of(launch.arguments.begin(), launch.arguments.end(),
                      [](const Place &place) { return place.scratch || place.perIndex != 0; });
}

Launch inOneTable(const std::vector<const Launch *> &launches) {
  Launch all;
  all.source = launches.front()->loop->tableSource();
  all.table.push_back(launches.size());
  const int64_t perBlock = launches.front()->loop->pointsPerBlock();
  uint64_t blocks = 0;
  for (const Launch *launch : launches) {
    all.table.push_back(blocks);
    blocks += uint64_t((launch->points + perBlock - 1) / perBlock);
  }
  for (const Launch *launch : launches) {
    all.table.push_back(uint64_t(launch->points));
    for (const Place &place : launch->arguments) {
      all.addresses.push_back(uint32_t(all.table.size()));
      all.table.push_back(place.value);
    }
  }
  all.grid[0] = uint32_t(blocks);
  return all;
}

void joinLoops(CudaKernel &kernel) {
  std::vector<const Launch *> launches;
  for (const Action &action : kernel.actions) {
    const auto *launch = std::get_if<Launch>(&action);
    if (!launch || !fitsTable(*launch) || *launch->loop != *std::get<Launch>(kernel.actions.front()).loop)
      return;
    launches.push_back(launch);
  }
  if (launches.size() > 1)
    kernel.actions = {inOneTable(launches)};
}

} // namespace tessera::rt::cuda
