//===- ProfileTable.h - what was measured --------------------------------------------------------===//
//
// Times of kernels and collectives as they were measured on the machine (tessera-profile). Where an entry is present
// it replaces the estimate. A JSON file, times in seconds:
//
//   {"kernels": {"graph.conv 8x64x32x32,64x64x3x3->8x64x32x32 f32": 1.2e-3},     // the key: kernelKey
//    "loops": [[65536, 8e-6], [1048576, 5e-5]],    // of fused operators: bytes that a loop reads and writes, seconds
//    "loop_operation": 2e-11,                      // and for each operation of an element (WORK in Elementwise.def)
//    "collectives": {"all-reduce 4": [[4096, 9e-6], [1048576, 1.2e-4]]},         // kind, ranks: [bytes, seconds]
//    "beside": {"hand_over": 3e-5, "per_byte": 4e-10}}         // of a collective beside kernels: work of the cores
//
// Bytes of a collective are those of the larger of a rank's two buffers. Between two sizes the time is interpolated,
// beyond the last one it grows with the size. More data never takes less time: where a measurement says so, the larger
// time counts.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_PROFILETABLE_H
#define TESSERA_STRATEGIES_COST_PROFILETABLE_H

#include "dialects/dist/ShardingRule.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::strategies {

/// What a collective beside kernels is for the cores that compute, in seconds of a core (Topology.h, Beside).
struct MeasuredBeside {
  double handOver = 0, perByte = 0;
};

class ProfileTable {
public:
  static llvm::Expected<ProfileTable> load(llvm::StringRef path);
  static llvm::Expected<ProfileTable> parse(llvm::StringRef json, llvm::StringRef origin);
  std::string toJson() const;

  static std::string kernelKey(llvm::StringRef kernel, llvm::ArrayRef<dist::Shape> operands,
                               llvm::ArrayRef<dist::Shape> results, int elementBits);
  void addKernel(const std::string &key, double seconds) { seconds_[key] = seconds; }
  void addLoop(double bytes, double seconds) { add(loops_, bytes, seconds); }
  void setLoopOperation(double seconds) { loopOperation_ = seconds; }
  void addCollective(llvm::StringRef kind, int64_t ranks, double bytes, double seconds);
  /// Forgets what depends on how ranks are connected: collectives, and what they are beside kernels.
  void forgetCollectives() {
    collectives_.clear();
    beside_.reset();
  }
  void setBeside(MeasuredBeside beside) { beside_ = beside; }

  bool empty() const { return seconds_.empty() && loops_.empty() && collectives_.empty() && !beside_; }
  bool hasLoops() const { return !loops_.empty(); }
  size_t numKernels() const { return seconds_.size(); }
  std::optional<double> seconds(const std::string &key) const;
  /// The time of a loop that passes these bytes through memory and computes so many operations. None if no loop was
  /// measured.
  std::optional<double> loop(double bytes, double operations) const;
  std::optional<double> collective(llvm::StringRef kind, int64_t ranks, double bytes) const;
  /// The least time per byte of all sizes.
  std::optional<double> leastPerByte(llvm::StringRef kind, int64_t ranks) const;
  const std::optional<MeasuredBeside> &beside() const { return beside_; }

private:
  using Sizes = std::map<double, double>; // bytes -> seconds, which grow
  static void add(Sizes &sizes, double bytes, double seconds);
  static double at(const Sizes &sizes, double bytes);

  std::map<std::string, double> seconds_;
  Sizes loops_;
  double loopOperation_ = 0;
  std::map<std::string, Sizes> collectives_; // by kind and ranks
  std::optional<MeasuredBeside> beside_;
};

} // namespace tessera::strategies

#endif
