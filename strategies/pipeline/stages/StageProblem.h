//===- StageProblem.h - a network that is to be cut into stages, as plain numbers -----------------===//
//
// A stage is a set of nodes that one group of devices runs for every micro-batch. Stages have an order: what a node
// reads comes from its own stage or from one before it. Nodes that wait for one another share a stage.
//
// A stage is run in one of the `ways`, each of which takes some devices of one kind (one device, two that split every
// operator, a CPU), by one or more replicas that take turns with the micro-batches. A node says for each way what it
// costs, in variants of which one is chosen (keep the activations or compute them again).
//
// A value that leaves a stage is sent once by its producer's stage, and received once by every other stage that reads
// it. Values of the forward pass go to the same stage or a later one, those of the backward pass to the same or an
// earlier one. Both directions are one node and two values. What the backward pass reads of the forward pass may go
// either way. If a number of stages is asked for, a node may be bound to a stage, and a stage to a way.
//
// Of a stage with d replicas, behind which others with a replicas lie in all:
//
//   latency   = the variants' times + bytes sent and received / bandwidth
//   interval  = latency / d + 2 (d - 1) / d * synced bytes / micro-batches / bandwidth     per micro-batch
//   in flight = ceil((a + d) / d) micro-batches, as in 1f1b, and never more than micro-batches / d
//   memory    = fixed bytes + in flight * held bytes
//
// Stages may lie on the same devices, in a place that they share. The order of their actions says what they hold at
// each moment, and their memory is the most that they need at once:
//
//   memory    = all fixed bytes + the most, of all moments, of the sum of in flight * held bytes
//
// Such stages have one way, one replica, and one variant for each node. Their times are those of stages with devices of
// their own: an order lets them take turns, and is best if they are even.
//
// Two goals: the longest interval, and the time of a batch = sum of latencies + (micro-batches - 1) * longest interval.
//
//   StageProblem problem = *parseStageProblem(text, "net.json", error);
//   FoundStages found = findStages(problem);                    // FindStages.h
//   rateStages(problem, found.plan).bottleneck
//
// Times and bytes are whole numbers; the caller chooses the units. Every division is rounded up.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_STAGEPROBLEM_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_STAGEPROBLEM_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::strategies {

struct StageVariant {
  int64_t forward = 0, input = 0, weight = 0; // durations for one micro-batch, as in Pipeline.h
  int64_t fixed = 0;                          // bytes, whatever is in flight: weights, the optimizer's state
  int64_t held = 0;                           // bytes for each micro-batch in flight: activations
  int64_t time() const { return forward + input + weight; }
};

/// What a node costs in one way. No variant: it cannot be run so.
struct StageNodeWay {
  std::vector<StageVariant> variants;
  int64_t synced = 0; // bytes of gradients that replicas add up once a batch
};

struct StageNode {
  std::vector<StageNodeWay> ways; // by way
  int stage = -1;                 // where it must be; negative: anywhere
};

/// Where the stages that read a value lie.
enum class ValueOrder { Forward, Backward, Any };

struct StageValue {
  int from = 0;
  std::vector<int> to;
  int64_t bytes = 0;
  ValueOrder order = ValueOrder::Forward;
  std::vector<int64_t> sent, received; // by way, or empty: bytes beyond `bytes` if the stage is run so
};

struct StageDevices {
  int count = 1;
  int64_t memory = -1;  // of one device; negative: no limit
  double bandwidth = 0; // bytes per unit of time; 0: transfers take no time
};

struct StageWay {
  int devices = 0; // kind
  int size = 1;    // how many of it
};

enum class StageGoal { Bottleneck, Batch };

/// How many micro-batches a stage holds: as in 1f1b; all, as in gpipe; nearly twice as many, as in zb-h2.
enum class InFlight { OneForwardOneBackward, All, ZeroBubble2 };

/// Stages that share their devices' memory.
struct StagePlace {
  std::vector<int> stages;
  /// By moment and place in `stages`: micro-batches that are held then. Moments at which none is held more and none
  /// less than at another may be left out (mostHeld in Pipeline.h).
  std::vector<std::vector<int>> inFlight;
};

struct StageProblem {
  std::vector<StageNode> nodes;
  std::vector<StageValue> values;
  std::vector<StageDevices> devices; // by kind
  std::vector<StageWay> ways;
  int microBatches = 1;
  int mostReplicas = 1;            // of a stage; its replicas divide the micro-batches
  int stages = 0;                  // exactly as many, 0: as many as the devices allow
  std::vector<int> stageWays = {}; // of `stages`: the way of each; empty: any
  StageGoal goal = StageGoal::Bottleneck;
  InFlight inFlight = InFlight::OneForwardOneBackward;
  std::vector<StagePlace> places = {}; // of all `stages`, each in one of them; empty: no stages share devices
};

inline constexpr int kMostDeviceKinds = 4;

/// Whether the stage of this place may be run in the way.
inline bool mayRun(const StageProblem &problem, int stage, int way) {
  return problem.stageWays.empty() || problem.stageWays[size_t(stage)] == way;
}

/// Empty if the problem is well formed, else one sentence about what is wrong. What passes cannot overflow.
std::string checkStageProblem(const StageProblem &problem);

struct Stage {
  std::vector<int> nodes;
  std::vector<int> variants; // by place in `nodes`
  int way = 0, replicas = 1;
};

/// In the order of the data.
using StagePlan = std::vector<Stage>;

struct StageTimes {
  int64_t latency = 0, interval = 0;
};

/// Neither number is negative; no sum overflows, whatever `b` is.
inline int64_t ceilDiv(int64_t a, int64_t b) { return a / b + (a % b > 0); }

/// Of a stage whose variants take `time`, which moves `bytes` to and from other stages and adds up `synced` bytes.
StageTimes stageTimes(const StageProblem &problem, int way, int replicas, int64_t time, int64_t bytes, int64_t synced);

/// Micro-batches that a stage holds, if the stages behind it have `behind` replicas in all; of a stage in a place the
/// most of all moments.
int64_t microBatchesInFlight(const StageProblem &problem, int replicas, int64_t behind);

struct StageRate {
  int64_t forward = 0, input = 0, weight = 0; // sums of the nodes
  int64_t moved = 0;                          // bytes sent and received for a micro-batch
  int64_t memory = 0, inFlight = 0;
  StageTimes times;
};

struct StageRating {
  std::string error; // which rule the plan breaks; empty: none
  std::vector<StageRate> stages;
  std::vector<int64_t> places; // bytes that the stages of each place need at once
  int64_t bottleneck = 0, batch = 0;
  int64_t value = 0; // of the problem's goal
};

/// The judge: shares nothing with the search but these two formulas.
StageRating rateStages(const StageProblem &problem, const StagePlan &plan);

} // namespace tessera::strategies

#endif
