//===- DeviceMessages.h - a plan's sends and receives between devices ---------------------------===//
//
// Messages between stages go from one device's memory to the other's, as exchanges of a communicator of all ranks. Both
// ends take part in one order, which the ranks agree on (MessageOrder.h). A message that leaves later than its Send is
// copied at the Send, so that its buffer may be overwritten:
//
//   send g0         copy g0 to kept memory               on the communication stream
//   receive a1      receive a1 · send what was kept
//
// Tensors travel in plain layout, as the two ends may hold them in different ones.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_DEVICEMESSAGES_H
#define TESSERA_RUNTIME_EXECUTOR_DEVICEMESSAGES_H

#include "runtime/backend/Backend.h"
#include "runtime/comm/Communicator.h"
#include "runtime/plan/stages/MessageOrder.h"

#include <map>
#include <memory>
#include <vector>

namespace tessera::rt {

class DeviceMessages {
public:
  /// All ranks call this. `devices` makes communicators in the memory of devices, `everyone` is one of all ranks on the
  /// host. The plan passed the checker. All arguments but `everyone` outlive the result.
  static Result<std::unique_ptr<DeviceMessages>> create(const plan::Plan &plan, LoadedPlan &loaded, World &devices,
                                                        Communicator &everyone);

  /// Enqueues what a Send or a Receive does, and what leaves behind it.
  Status run(uint32_t program, StepInTime at);
  /// Enqueues the messages that leave behind a collective.
  Status leave(uint32_t program, StepInTime at);

private:
  /// What a Send or a Receive moves.
  struct Step {
    bool sends = false;
    uint32_t buffer = 0;
    plan::DType type = plan::DTYPE_INVALID;
    std::vector<Transfer> messages;
  };
  /// A message that leaves behind a step. place: of its copy in kept memory; -1: it leaves from its buffer.
  struct Leaving {
    StepInTime send;
    uint32_t message = 0;
    int64_t place = -1;
  };
  struct Program {
    std::vector<Step> steps;                                               // by step; other steps have no messages
    std::map<std::pair<uint32_t, uint32_t>, std::vector<Leaving>> leaving; // by the step behind which, and its index
    std::map<std::pair<uint32_t, uint32_t>, std::vector<Leaving>> kept;    // by Send
  };

  DeviceMessages(LoadedPlan &loaded, std::unique_ptr<Communicator> all) : loaded_(loaded), all_(std::move(all)) {}
  Result<Program> prepare(const plan::Plan &plan, const plan::Program &program, Communicator &everyone);
  size_t placeKept(const TimeOrder &order, Program &program) const;
  size_t scratchBytes() const;
  static int64_t bytesOf(const Step &step, uint32_t message);

  LoadedPlan &loaded_;
  const std::unique_ptr<Communicator> all_;
  std::vector<Program> programs_;
  char *kept_ = nullptr;
};

} // namespace tessera::rt

#endif
