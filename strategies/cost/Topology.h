//===- Topology.h - the machine, as given --------------------------------------------------------===//
//
// What the machine can do, as a person states it: rates of one device, memory, and the links between
// devices. Nothing here is measured by Tessera (ProfileTable) and no formula lives here (CostModel).
//
// A topology is a preset (see `presetNames`), a JSON file, or the text of one:
//
//   {
//     "name": "two servers",
//     "devices": 16,                        // devices in the machine
//     "flops": {"f64": 34e12, "f32": 67e12, "f16": 989e12},  // per second and device; f32 is required
//     "loop_flops": 60e12,                  // optional: operations per second of loops; default: as flops
//     "operators": {"graph.attention": 4e11},  // optional: of operators whose kernels do not compute as flops
//                                           // says, and of kinds of them ("graph.conv large 3x3")
//     "memory_bandwidth": 3.35e12,          // bytes per second and device
//     "memory": "80GiB",                    // of one device: a number of bytes or text as --memory takes
//     "launch": 4e-6,                       // seconds to start one kernel; default 0
//     "shared": false,                      // true: devices are cores: more ranks than devices share
//                                           // them, and fewer ranks take several each
//     "links": [                            // innermost first: how devices in a block of so many talk
//       {"devices": 8,  "latency": 3e-6, "bandwidth": 450e9},  // seconds; bytes per second and direction
//       {"devices": 16, "latency": 8e-6, "bandwidth": 50e9}
//     ],
//     "network": {"latency": 5e-6, "bandwidth": 50e9},  // optional: between such machines, per device
//     "beside": {                           // optional: what collectives beside kernels cost those; see Beside
//       "slowdown": 0.2, "hand_over": 20e-6, "per_byte": 6e-10},
//     "axes": {"data": {"latency": 8e-6, "bandwidth": 50e9}}   // optional: overrides for a mesh axis
//   }
//
// N machines of a kind, joined by their network, are "NxNAME": 4x8xh100 has 32 devices.
// Rank r runs on device r (modulo the devices when shared). A group of ranks talks over the innermost
// level whose block holds all of it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_TOPOLOGY_H
#define TESSERA_STRATEGIES_COST_TOPOLOGY_H

#include "dialects/dist/Mesh.h"
#include "runtime/support/BytesText.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::strategies {

struct Link {
  int64_t devices = 1;  // block size; unused for an axis
  double latency = 0;   // seconds
  double bandwidth = 1; // bytes per second, one direction, per device
};

/// The link of which all-reduces among `devices` in a ring, 2 (n - 1) steps with an n-th of the bytes each, take what
/// was measured for a small and a large buffer. On a busy machine the small one may have taken as long as the large
/// one. So no link is faster than `fastest`, in bytes per second, and no step is shorter than a nanosecond.
struct MeasuredReduce {
  double bytes = 0, seconds = 0;
};
Link linkOfRing(int64_t devices, MeasuredReduce small, MeasuredReduce large, double fastest);

/// By how much kernels take longer beside collectives. On devices by a part of the collective's time: kernels that are
/// 1.1 to 1.3 times as slow are usual. On a shared machine the same cores do both, so it is the work of a collective.
struct Beside {
  double slowdown = 0.2;   // devices
  double handOver = 20e-6; // shared: seconds of a core to hand a collective to another thread and back
  std::optional<double>
      perByte; // shared: seconds of a core for each byte that a rank sends: copies, protocol and sums;
               // nothing: as long as 8 passes through memory
};

struct Topology {
  std::string name;
  int64_t devices = 1;
  std::map<int, double> flops;             // bits of the element type -> operations per second
  double loopFlops = 0;                    // operations per second of loops; 0: as flops
  std::map<std::string, double> operators; // operations per second on float32 of operators that differ from flops
  double memoryBandwidth = 1;
  int64_t memory = 0; // bytes of one device
  double launch = 0;
  bool shared = false;
  std::vector<Link> links;     // ascending block sizes; the last holds all devices
  std::optional<Link> network; // between machines of this kind
  std::map<std::string, Link> axes;
  Beside beside;

  /// The preset of that name, N machines of it ("4x8xh100"), the text of a file ("{...}"), or the file at that path.
  static llvm::Expected<Topology> load(llvm::StringRef nameOrPath);
  static llvm::Expected<Topology> parse(llvm::StringRef json, llvm::StringRef origin);
  static const std::vector<std::string> &presetNames();
  /// The topology as text that `parse` reads.
  std::string toJson() const;

  /// `nodes` such machines, joined by the network. An error if there is no network or too many machines.
  llvm::Expected<Topology> withNodes(int64_t nodes) const;

  /// An error if the mesh has more ranks than the machine can run.
  llvm::Error fits(const dist::Mesh &mesh) const;
  /// How many devices one of `ranks` ranks has: 1, or on a shared machine a part of one or several, as tessera-run
  /// distributes threads.
  double share(int64_t ranks) const;
  /// Operations per second for elements of `bits` bits: the entry, else that of the next wider type, else f32's.
  double rate(int bits) const;
  /// The same for the kernel of an operator, or for a kind of its kernels (graph::rateKind) that has a rate of its own
  /// in float32; and for loops.
  double operatorRate(llvm::StringRef op, int bits, llvm::StringRef kind = "") const;
  double loopRate(int bits) const { return loopFlops > 0 ? loopFlops : rate(bits); }
  /// The link among the ranks of a group over these axes: the slowest that applies.
  Link link(const dist::Mesh &mesh, llvm::ArrayRef<int> axes) const;
  /// The links of a group, innermost first. At each level, `members` ranks (or groups of the level below) exchange over
  /// one kind of link. There is only one level if blocks do not hold equal parts of the group, or if an axis has a link
  /// of its own.
  struct Level {
    int64_t members = 1;
    Link link;
  };
  std::vector<Level> levels(const dist::Mesh &mesh, llvm::ArrayRef<int> axes) const;
  /// So many neighbours of a group, in its order, are inside the blocks of all levels but the outermost. They divide the
  /// group; 1: there is one level, or members of a block are no neighbours. For example, of 2x4xcpu a group of all
  /// ranks has runs of 4.
  int64_t run(const dist::Mesh &mesh, llvm::ArrayRef<int> axes) const;
  /// Bytes that one rank may use.
  int64_t memoryPerRank(int64_t ranks) const;
};

/// "16GiB", "512 MiB", "2GB", "1000": bytes.
llvm::Expected<int64_t> parseBytes(llvm::StringRef text);

} // namespace tessera::strategies

#endif
