// Collectives by NCCL, with non-blocking communicators. No call waits for a peer, so that whoever polls notices a peer
// that never comes.
#include "runtime/device/cuda/Common.h"
#include "runtime/device/cuda/Nccl.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

struct TesseraComm {
  ncclComm_t comm = nullptr;
  TesseraComm *splitting = nullptr; // the parent, until it has split: NCCL sets `comm` no sooner
  TesseraDevice *device = nullptr;
  bool revoked = false;
  std::thread abort; // of a revoked communicator
  std::atomic<bool> aborted = false;
};

namespace tessera::device {
namespace {

/// How long destroyComm waits for NCCL. What has not ended then ends with the process.
constexpr std::chrono::seconds kPatience(10);

static_assert(sizeof(ncclUniqueId) == sizeof(TesseraCommId));

/// Where there is an id, a communicator or memory of NCCL, it has been loaded.
const Nccl *nccl() {
  TesseraMessage none;
  return loadNccl(&none);
}

/// A non-blocking communicator answers ncclInProgress while it works; pollComm returns the result later.
int32_t answer(TesseraComm *c, ncclResult_t result, const char *what, TesseraMessage *m) {
  if (result == ncclSuccess || result == ncclInProgress)
    return TESSERA_OK;
  std::string text = std::string("NCCL: ") + what + " failed: " + nccl()->getErrorString(result);
  if (const char *last = c && c->comm ? nccl()->getLastError(c->comm) : nullptr; last && *last)
    text += std::string(" (") + last + ")";
  return fail(m, text);
}

/// False where NCCL has no such type.
bool typeOf(int32_t dtype, ncclDataType_t &type) {
  switch (dtype) {
  case TESSERA_F32:
    type = ncclFloat32;
    return true;
  case TESSERA_F64:
    type = ncclFloat64;
    return true;
  case TESSERA_F16:
    type = ncclFloat16;
    return true;
  case TESSERA_BF16:
    type = ncclBfloat16;
    return true;
  case TESSERA_I64:
    type = ncclInt64;
    return true;
  case TESSERA_I32:
    type = ncclInt32;
    return true;
  case TESSERA_I8:
    type = ncclInt8;
    return true;
  case TESSERA_U8:
  case TESSERA_BOOL: // of 0 and 1 the maximum is "or" and the minimum "and"
    type = ncclUint8;
    return true;
  default:
    return false;
  }
}

ncclRedOp_t operationOf(int32_t reduction, int32_t dtype) {
  if (reduction == TESSERA_MIN)
    return ncclMin;
  return reduction == TESSERA_MAX || dtype == TESSERA_BOOL ? ncclMax : ncclSum;
}

int32_t badType(int32_t dtype, TesseraMessage *m) {
  return fail(m, "NCCL cannot move elements of type " + std::to_string(dtype));
}

cudaStream_t streamOf(TesseraComm *c) {
  cudaSetDevice(c->device->ordinal);
  return c->device->streams[TESSERA_COMM_STREAM];
}

int32_t uniqueId(TesseraCommId *id, TesseraMessage *m) {
  if (!loadNccl(m))
    return TESSERA_FAILED;
  ncclUniqueId unique;
  if (ncclResult_t result = nccl()->getUniqueId(&unique))
    return answer(nullptr, result, "making an id", m);
  std::memcpy(id, &unique, sizeof *id);
  return TESSERA_OK;
}

int32_t createComm(TesseraDevice *d, const TesseraCommId *id, int32_t members, int32_t me, TesseraComm **comm,
                   TesseraMessage *m) {
  if (!loadNccl(m))
    return TESSERA_FAILED;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  ncclUniqueId unique;
  std::memcpy(&unique, id, sizeof unique);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;
  auto made = std::make_unique<TesseraComm>();
  made->device = d;
  ncclResult_t result = nccl()->commInitRankConfig(&made->comm, members, unique, me, &config);
  if (int32_t code = answer(made.get(), result, "joining a group", m)) {
    if (made->comm)
      nccl()->commAbort(made->comm);
    return code;
  }
  *comm = made.release();
  return TESSERA_OK;
}

int32_t splitComm(TesseraComm *parent, int32_t part, int32_t me, TesseraComm **comm, TesseraMessage *m) {
  TESSERA_CUDA(cudaSetDevice(parent->device->ordinal), m, "selecting the device");
  auto made = std::make_unique<TesseraComm>();
  made->device = parent->device;
  made->splitting = parent;
  // Without a configuration of its own it is that of the parent.
  ncclComm_t *to = &made->comm;
  if (part < 0) {
    static thread_local ncclComm_t none; // stays null
    to = &none;
  }
  const int color = part < 0 ? NCCL_SPLIT_NOCOLOR : part;
  if (int32_t code = answer(parent, nccl()->commSplit(parent->comm, color, me, to, nullptr), "splitting a group", m))
    return code;
  *comm = part < 0 ? nullptr : made.release();
  return TESSERA_OK;
}

int32_t pollComm(TesseraComm *c, TesseraMessage *m) {
  if (c->splitting) {
    if (const int32_t code = pollComm(c->splitting, m); code != TESSERA_OK)
      return code;
    c->splitting = nullptr;
  }
  ncclResult_t state = ncclSuccess;
  if (ncclResult_t result = nccl()->commGetAsyncError(c->comm, &state))
    return answer(c, result, "asking for errors", m);
  if (state == ncclInProgress)
    return TESSERA_NOT_READY;
  return answer(c, state, "a collective", m);
}

/// Whether `done` says so within kPatience.
template <typename F> bool comes(F &&done) {
  const auto begin = std::chrono::steady_clock::now();
  while (!done()) {
    if (std::chrono::steady_clock::now() - begin > kPatience)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// ncclCommAbort first sets the flag that ends NCCL's kernels, and then waits until no recorded graph has work of the
/// communicator, also where the communicator is non-blocking. So a thread of its own waits there. ncclCommRevoke is no
/// help: it takes the flag back when it is done, and the next of NCCL's kernels in a graph that is under way would wait
/// for its peers again.
void revokeComm(TesseraComm *c) {
  c->revoked = true;
  if (c->splitting)
    return; // it has no work, and goes with its parent
  try {
    c->abort = std::thread([c] {
      streamOf(c);
      nccl()->commAbort(c->comm);
      c->aborted = true;
    });
  } catch (const std::system_error &) {
    c->abort = std::thread(); // there are no more threads: destroyComm aborts
  }
}

void destroyComm(TesseraComm *c) {
  streamOf(c);
  if (c->splitting)
    return; // NCCL may still write where its communicator is to be
  if (c->abort.joinable()) {
    if (!comes([&] { return c->aborted.load(); })) {
      c->abort.detach();
      return; // the thread uses it
    }
    c->abort.join();
  } else {
    // A non-blocking communicator must be finalized before it is destroyed. That waits for the other members on this
    // machine.
    ncclResult_t state = c->revoked ? ncclRemoteError : nccl()->commFinalize(c->comm);
    comes([&] {
      return state != ncclInProgress || nccl()->commGetAsyncError(c->comm, &state) != ncclSuccess ||
             state != ncclInProgress;
    });
    if (state == ncclSuccess)
      nccl()->commDestroy(c->comm);
    else
      nccl()->commAbort(c->comm);
  }
  delete c;
}

int32_t registerMemory(TesseraComm *c, void *memory, size_t bytes, void **registration, TesseraMessage *m) {
  streamOf(c);
  *registration = nullptr;
  // A failure here is no error: collectives also work with memory that is not registered.
  if (answer(c, nccl()->commRegister(c->comm, memory, bytes, registration), "registering memory", m))
    return TESSERA_UNSUPPORTED;
  return TESSERA_OK;
}

void deregisterMemory(TesseraComm *c, void *registration) {
  streamOf(c);
  if (registration) // null where NCCL did not register it
    nccl()->commDeregister(c->comm, registration);
}

int32_t allReduce(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, int32_t reduction,
                  TesseraMessage *m) {
  ncclDataType_t type;
  if (!typeOf(dtype, type))
    return badType(dtype, m);
  return answer(c, nccl()->allReduce(in, out, count, type, operationOf(reduction, dtype), c->comm, streamOf(c)),
                "all-reduce", m);
}

int32_t allGather(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, TesseraMessage *m) {
  ncclDataType_t type;
  if (!typeOf(dtype, type))
    return badType(dtype, m);
  return answer(c, nccl()->allGather(in, out, count, type, c->comm, streamOf(c)), "all-gather", m);
}

int32_t reduceScatter(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, int32_t reduction,
                      TesseraMessage *m) {
  ncclDataType_t type;
  if (!typeOf(dtype, type))
    return badType(dtype, m);
  return answer(c, nccl()->reduceScatter(in, out, count, type, operationOf(reduction, dtype), c->comm, streamOf(c)),
                "reduce-scatter", m);
}

int32_t broadcast(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, int32_t root,
                  TesseraMessage *m) {
  ncclDataType_t type;
  if (!typeOf(dtype, type))
    return badType(dtype, m);
  return answer(c, nccl()->broadcast(in, out, count, type, root, c->comm, streamOf(c)), "broadcast", m);
}

int32_t groupStart(TesseraComm *c, TesseraMessage *m) {
  return answer(c, nccl()->groupStart(), "opening a group of messages", m);
}

int32_t groupEnd(TesseraComm *c, TesseraMessage *m) {
  return answer(c, nccl()->groupEnd(), "sending a group of messages", m);
}

int32_t send(TesseraComm *c, const void *from, size_t bytes, int32_t peer, TesseraMessage *m) {
  return answer(c, nccl()->send(from, bytes, ncclUint8, peer, c->comm, streamOf(c)), "send", m);
}

int32_t receive(TesseraComm *c, void *to, size_t bytes, int32_t peer, TesseraMessage *m) {
  return answer(c, nccl()->recv(to, bytes, ncclUint8, peer, c->comm, streamOf(c)), "receive", m);
}

} // namespace

void *allocateForNccl(TesseraDevice *d, size_t bytes) {
  TesseraMessage why; // without NCCL there is memory all the same
  void *memory = nullptr;
  if (!loadNccl(&why))
    return nullptr;
  if (nccl()->memAlloc(&memory, bytes) != ncclSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  d->shared.insert(memory);
  return memory;
}

void releaseForNccl(void *memory) { nccl()->memFree(memory); }

void addCollectives(TesseraDeviceApi &api) {
  api.uniqueId = uniqueId;
  api.createComm = createComm;
  api.splitComm = splitComm;
  api.pollComm = pollComm;
  api.revokeComm = revokeComm;
  api.destroyComm = destroyComm;
  api.registerMemory = registerMemory;
  api.deregisterMemory = deregisterMemory;
  api.allReduce = allReduce;
  api.allGather = allGather;
  api.reduceScatter = reduceScatter;
  api.broadcast = broadcast;
  api.groupStart = groupStart;
  api.groupEnd = groupEnd;
  api.send = send;
  api.receive = receive;
}

} // namespace tessera::device
