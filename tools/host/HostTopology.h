//===- HostTopology.h - the topology "host": this machine's cores as they were measured ----------------===//
//
// tessera-profile --host measures them in some ten seconds and keeps the figures in the user's cache folder.
// tessera-compile --topology host takes them from there, and lets tessera-profile measure where there are none, so that
// it needs no kernels itself. They are found by what they follow from: the processor, how many of its cores the process
// may use, the limit on its instruction set, and the version. See docs/adr/0025-this-machine.md.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_HOST_HOSTTOPOLOGY_H
#define TESSERA_TOOLS_HOST_HOSTTOPOLOGY_H

#include "strategies/cost/Topology.h"

#include <functional>

namespace tessera {

inline constexpr llvm::StringLiteral kHostTopology = "host";

/// An error if there is no cache folder.
llvm::Error checkHostFolder();
/// An error if the cache folder cannot be written.
llvm::Error keepHostTopology(strategies::Topology measured);

/// What --topology stands for: the text of a topology in place of "host" or, of several such machines, "4xhost"; any
/// other name as it is. `tell` gets a line before this machine is measured. Where that is not possible, the preset
/// "cpu" stands in, and `warn` gets the reason.
std::string resolveTopology(const std::string &name, const std::function<void(const std::string &)> &tell,
                            const std::function<void(const std::string &)> &warn);

} // namespace tessera

#endif
