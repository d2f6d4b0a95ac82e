//===- MachineTopology.h - the topology of the machine at hand -------------------------------------===//
//
// Turns nvidia-smi's output about a machine's GPUs into a Topology:
//
//   nvidia-smi --query-gpu=name,memory.total,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader,nounits
//     NVIDIA H100 80GB HBM3, 81559, 5, 16
//     NVIDIA H100 80GB HBM3, 81559, 5, 16
//   nvidia-smi topo -m
//             GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity  GPU NUMA ID
//     GPU0     X    NV18  PXB   0-51          0              N/A
//     GPU1    NV18   X    SYS   52-103        1              N/A
//     NIC0    PXB   SYS    X
//
//   =>  2 devices with an H100's rates, 79.6 GiB each, one link level {2, 2 us, 450 GB/s}
//
// A group of devices is as slow as its slowest pair. Pairs are joined by NV# (so many NVLinks), or through PCIe: PIX,
// PXB (switches), PHB, NODE (the processor), SYS (between processors). Bandwidths are the connections' nominal ones,
// for PCIe without what its protocol takes. Measurements of tessera-profile replace them.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_MACHINETOPOLOGY_H
#define TESSERA_STRATEGIES_COST_MACHINETOPOLOGY_H

#include "strategies/cost/Topology.h"

namespace tessera::strategies {

struct MachineDevice {
  std::string name;
  int64_t memory = 0; // bytes
  int pcieGeneration = 0, pcieLanes = 0;
};

/// How a pair of devices is connected, from close to far.
enum class Connection { NvLink, Pix, Pxb, Phb, Node, Sys };
struct Pair {
  Connection kind = Connection::Sys;
  int links = 0; // NVLinks
};

/// Parses the lines of the query above.
llvm::Expected<std::vector<MachineDevice>> parseDevices(llvm::StringRef text);
/// Parses the matrix above into [i][j]. The diagonal is unused.
llvm::Expected<std::vector<std::vector<Pair>>> parseConnections(llvm::StringRef text);

/// Builds the topology. The rates are those of the preset with the device's name ("H100": 8xh100), or of `like` if it
/// is given.
llvm::Expected<Topology> machineTopology(llvm::ArrayRef<MachineDevice> devices,
                                         const std::vector<std::vector<Pair>> &pairs, llvm::StringRef like = "");

} // namespace tessera::strategies

#endif
