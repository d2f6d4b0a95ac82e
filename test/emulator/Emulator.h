//===- Emulator.h - the device table on the CPU -----------------------------------------------------===//
//
// A module with the same table as the CUDA one (runtime/device/DeviceApi.h), for tests on machines without a
// GPU. Generated kernels are compiled by the host's C++ compiler and run thread by thread; __syncthreads is a
// switch between fibers, and a barrier that not all threads of a block reach is an error. Work is queued per
// stream and only done when someone asks for it, so that a missing event shows: by default the compute stream
// runs as far ahead as its waits allow, with TESSERA_EMULATOR_ORDER=comm or copy one of the others.
//
// It emulates four devices per process. Collectives meet in the process: ranks are threads. Registered memory obeys
// NCCL's rules: all members pass some or none, at equal offsets, and nothing is left registered at the end. A
// communicator may be destroyed only when no recorded graph has its work any more, and no thread may end with a group
// of messages open: NCCL would wait for ever, the emulator ends the process. Either all members replay a collective
// from a graph, from the same one by count, or none does.
//
// TESSERA_EMULATOR_FAIL=WHAT[:NUMBER] makes it fail as a machine may:
//   no-driver, old-driver, no-device   counting the devices says so
//   capability:N                       device N is of compute capability 7.0
//   memory:N                           a device has N MiB
//   register:N                         device N registers no memory
//   comm:N                             communicators of device N fail once they have taken in a collective
//   replay:N                           communicators of device N fail once a graph has been replayed
//   stuck:N                            the same, and their work does not end when they are revoked
//   send:N                             device N refuses to send
//   graph:N, timers:N                  device N cannot record a graph; not one with timers in it
//   work:N                             a stream takes no more work while N pieces wait on it
//   slow:N                             device N takes two milliseconds more for every kernel
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_EMULATOR_EMULATOR_H
#define TESSERA_TEST_EMULATOR_EMULATOR_H

#include "runtime/device/DeviceApi.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

struct TesseraEvent {
  int64_t recorded = 0, done = 0; // versions
  bool timer = false;
  std::chrono::steady_clock::time_point reached = {};
};

/// What a communicator and the graphs with its work know of each other.
struct EmulatedUse {
  int graphs = 0; // that hold its work
  bool failed = false, revoked = false;
};

/// One piece of work on a stream. `run` is null for events. It answers TESSERA_NOT_READY to be asked again.
struct EmulatedWork {
  int stream = 0;
  std::function<int32_t(TesseraMessage *)> run;
  TesseraEvent *record = nullptr, *wait = nullptr;
  int64_t version = 0;
  std::shared_ptr<EmulatedUse> use = {}; // of a communicator, whose work this is
};

struct TesseraGraph {
  std::vector<EmulatedWork> work;
  std::set<std::shared_ptr<EmulatedUse>> uses; // of the communicators whose work it holds
};

struct TesseraDevice {
  int ordinal = 0;
  std::vector<EmulatedWork> queue[TESSERA_STREAMS]; // in order
  TesseraGraph *capturing = nullptr;
  int64_t captures = 0;    // recordings that have begun
  bool commForked = false; // while capturing: the second stream follows an event of the first
  std::map<void *, size_t> memory;
  std::map<void *, int> registered; // how often, by where it begins
  size_t used = 0;
};

namespace tessera::emulator {

int32_t fail(TesseraMessage *m, const std::string &text, int32_t code = TESSERA_FAILED);
/// The number behind `what` in TESSERA_EMULATOR_FAIL, if the variable names it.
std::optional<long> toldToFail(const std::string &what);
/// Queues work on a stream of `d`, or adds it to the graph that is being recorded.
int32_t enqueue(TesseraDevice *d, EmulatedWork work, TesseraMessage *m);
/// Does all work that can be done on all streams. TESSERA_NOT_READY if some of it waits for another rank.
int32_t progress(TesseraDevice *d, int stream, TesseraMessage *m);

void addCode(TesseraDeviceApi &api);
void addLibrary(TesseraDeviceApi &api);
void addCollectives(TesseraDeviceApi &api);

} // namespace tessera::emulator

#endif
