//===- Stages.h - the ranks of a pipeline's stages ----------------------------------------------===//
//
// A plan's ranks are stages, one behind the other: of equally many ranks by the first mesh axis, or each with a mesh of
// its own (Plan.stage_ranks). What a Send or Receive moves is a message to or from every rank that it names.
//
//   const Stages stages = stagesOf(plan);               // stage_ranks 4, 1
//   stages.of(4), stages.placeOf(4)                     // 1, 0
//   for (const PeerMessage &message : peerMessages(plan, step))
//     message.peer, message.box
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_STAGES_STAGES_H
#define TESSERA_RUNTIME_PLAN_STAGES_STAGES_H

#include "runtime/plan/Blocks.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::rt {

/// A channel is below this, so that it is a tag of every MPI.
constexpr uint32_t kMaxChannels = 32768;

/// One stage: no pipeline.
class Stages {
public:
  Stages() = default;
  /// `count` stages of `each` ranks.
  Stages(uint32_t count, uint32_t each) : count_(count), each_(each) {}
  /// The number of ranks of each stage, none of which is 0.
  explicit Stages(const std::vector<uint32_t> &ranks);

  uint32_t count() const { return count_; }
  /// Of all stages.
  uint32_t ranks() const { return begin(count_); }
  uint32_t ranksOf(uint32_t stage) const { return begin(stage + 1) - begin(stage); }
  uint32_t firstOf(uint32_t stage) const { return begin(stage); }
  /// The stage of a rank; behind all ranks it is the last one.
  uint32_t of(uint32_t rank) const;
  /// The rank's place in the mesh of its stage.
  uint32_t placeOf(uint32_t rank) const { return rank - begin(of(rank)); }

private:
  uint32_t begin(uint32_t stage) const { return begins_.empty() ? stage * each_ : begins_[stage]; }

  uint32_t count_ = 1, each_ = 1;
  std::vector<uint32_t> begins_; // by stage, and behind the last one; empty: each has `each_` ranks
};

/// Of a plan whose header is good.
Stages stagesOf(const plan::Plan &plan);

/// Whether each stage has a mesh of its own, and stages send each other boxes.
inline bool hasOwnMeshes(const plan::Plan &plan) { return plan.stage_ranks_size() > 0; }
/// The place of this rank in the plan's mesh.
uint32_t placeInMesh(const plan::Plan &plan);
/// "data=2, model=2", or "one rank"; of a mesh that a stage has alone, "data=2, model=2 of stage 0".
std::string meshText(const plan::Plan &plan);

/// What goes from one rank to another: a box of the buffer that is sent or received.
struct PeerMessage {
  uint32_t peer = 0;
  Block box;
};

/// The buffer of a Send or a Receive.
uint32_t peerBuffer(const plan::Step &step);
/// The messages of a Send or a Receive; none of another step. The buffer exists.
std::vector<PeerMessage> peerMessages(const plan::Plan &plan, const plan::Step &step);
/// The bytes of all of them.
uint64_t peerBytes(const plan::Plan &plan, const plan::Step &step);
/// "rank 2", "ranks 2, 3", or "no rank".
std::string peersText(const plan::Plan &plan, const plan::Step &step);

} // namespace tessera::rt

#endif
