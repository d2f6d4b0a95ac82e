// Collectives between ranks that are threads of this process. Every member posts its part of an operation; the last one
// does the work for all.
#include "test/emulator/Emulator.h"

#include "runtime/support/Float16.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

namespace tessera::emulator {
namespace {

enum class Kind { AllReduce, AllGather, ReduceScatter, Broadcast };

constexpr int64_t kUnregistered = -1;
constexpr const char *kUneven = "members of a group do not record alike";

struct Message {
  void *data;
  size_t bytes;
  int peer;
  int64_t place;   // in registered memory
  int64_t capture; // Part
};
/// The sends and receives of one member between groupStart and groupEnd. As NCCL has it, only those take part who send
/// or receive something.
struct Messages {
  std::vector<Message> sends = {}, receives = {};
};
/// One end of a message while it waits for the other.
struct End {
  Message message;
  bool done = false;
  std::string error = {};
};
/// The ends of messages between two members, which match in order.
struct Wire {
  std::deque<std::shared_ptr<End>> sends = {}, receives = {};
};
/// Recordings of one kind of work: how many there were, and the device's number of the last.
struct Recordings {
  int64_t count = 0, last = 0;
};
struct Part {
  Kind kind;
  const void *in = nullptr;
  void *out = nullptr;
  size_t count = 0;
  int dtype = 0, reduction = 0, root = 0;
  int64_t inPlace = kUnregistered, outPlace = kUnregistered;
  int64_t capture = 0; // the how manieth recording of the communicator's work it is from; 0: none
};
struct Operation {
  std::map<int, Part> parts;
  bool done = false;
  std::string error;
};
struct Shared;
/// One call of splitComm by all members.
struct Split {
  std::map<int, std::pair<int, int>> asked;    // by member of the parent: part, place in it
  std::map<int, std::shared_ptr<Shared>> made; // by part
};
struct Shared {
  int members = 0;
  std::vector<std::shared_ptr<Split>> splits;
  std::set<int> joined;
  std::set<int> devices;
  bool aborted = false;
  std::map<int64_t, std::shared_ptr<Operation>> operations;
  std::map<std::pair<int, int>, Wire> wires; // by sender and receiver
};

std::mutex mutex; // of everything below
std::map<std::string, std::shared_ptr<Shared>> groups;

size_t bytesOf(int dtype) {
  return dtype == TESSERA_F64 || dtype == TESSERA_I64    ? 8
         : dtype == TESSERA_F32 || dtype == TESSERA_I32  ? 4
         : dtype == TESSERA_F16 || dtype == TESSERA_BF16 ? 2
                                                         : 1;
}

template <typename T> T reduced(T a, T b, int reduction) {
  return reduction == TESSERA_SUM ? static_cast<T>(a + b) : reduction == TESSERA_MAX ? std::max(a, b) : std::min(a, b);
}

template <typename T> void reduceInto(T *to, const T *from, size_t n, int reduction) {
  for (size_t i = 0; i < n; ++i)
    to[i] = reduced(to[i], from[i], reduction);
}

/// Reduces elements of 16 bits. Every partial sum is rounded, as on the way from rank to rank.
template <auto kWiden, auto kNarrow> void reduceHalves(char *to, const char *from, size_t n, int reduction) {
  auto *a = reinterpret_cast<uint16_t *>(to);
  const auto *b = reinterpret_cast<const uint16_t *>(from);
  for (size_t i = 0; i < n; ++i)
    a[i] = kNarrow(reduced(kWiden(a[i]), kWiden(b[i]), reduction));
}

void reduceBytes(char *to, const char *from, size_t n, int dtype, int reduction) {
  auto run = [&](auto tag) {
    using T = decltype(tag);
    reduceInto(reinterpret_cast<T *>(to), reinterpret_cast<const T *>(from), n, reduction);
  };
  switch (dtype) {
  case TESSERA_F16:
    return reduceHalves<rt::halfToFloat, rt::floatToHalf>(to, from, n, reduction);
  case TESSERA_BF16:
    return reduceHalves<rt::bfloatToFloat, rt::floatToBfloat>(to, from, n, reduction);
  case TESSERA_BOOL: // a sum is "or"
    return reduceInto(to, from, n, reduction == TESSERA_MIN ? TESSERA_MIN : TESSERA_MAX);
  case TESSERA_F32:
    return run(float());
  case TESSERA_F64:
    return run(double());
  case TESSERA_I64:
    return run(int64_t());
  case TESSERA_I32:
    return run(int32_t());
  case TESSERA_I8:
    return run(int8_t());
  default:
    return run(uint8_t());
  }
}

/// Checks NCCL's rules for registered memory: all members register or none, and offsets are equal.
bool registeredAlike(const Operation &op) {
  const Part &first = op.parts.at(0);
  for (const auto &[member, part] : op.parts)
    if (part.inPlace != first.inPlace || part.outPlace != first.outPlace)
      return false;
  return true;
}

/// Moves the messages of which both ends are posted.
void deliver(Wire &wire) {
  while (!wire.sends.empty() && !wire.receives.empty()) {
    End &from = *wire.sends.front(), &to = *wire.receives.front();
    if (from.message.bytes != to.message.bytes)
      from.error = "a receive has no send of its size";
    else if ((from.message.place == kUnregistered) != (to.message.place == kUnregistered))
      from.error = "members of a group do not use registered memory alike";
    else if (from.message.capture != to.message.capture)
      from.error = kUneven;
    else
      std::memcpy(to.message.data, from.message.data, to.message.bytes);
    to.error = from.error;
    from.done = to.done = true;
    wire.sends.pop_front();
    wire.receives.pop_front();
  }
}

std::string perform(Operation &op, int members) {
  const Part &first = op.parts.at(0);
  if (!registeredAlike(op))
    return "members of a group do not use registered memory alike";
  for (const auto &[member, part] : op.parts)
    if (part.capture != first.capture)
      return kUneven;
  for (auto &[member, part] : op.parts)
    if (part.kind != first.kind || part.count != first.count || part.dtype != first.dtype ||
        part.reduction != first.reduction || part.root != first.root)
      return "members of a group call different collectives";
  const size_t size = bytesOf(first.dtype), bytes = first.count * size;
  const size_t n = size_t(members);
  auto in = [&](size_t m) { return static_cast<const char *>(op.parts.at(int(m)).in); };
  auto out = [&](size_t m) { return static_cast<char *>(op.parts.at(int(m)).out); };
  std::vector<char> result;
  if (first.kind == Kind::AllGather) {
    for (size_t m = 0; m < n; ++m)
      result.insert(result.end(), in(m), in(m) + bytes);
    for (size_t m = 0; m < n; ++m)
      std::memcpy(out(m), result.data(), result.size());
  } else if (first.kind == Kind::Broadcast) {
    const char *from = in(size_t(first.root));
    result.assign(from, from + bytes);
    for (size_t m = 0; m < n; ++m)
      std::memcpy(out(m), result.data(), bytes);
  } else {
    const size_t total = first.kind == Kind::ReduceScatter ? n : 1;
    result.assign(in(0), in(0) + total * bytes);
    for (size_t m = 1; m < n; ++m)
      reduceBytes(result.data(), in(m), total * first.count, first.dtype, first.reduction);
    for (size_t m = 0; m < n; ++m)
      std::memcpy(out(m), result.data() + (total > 1 ? m * bytes : 0), bytes);
  }
  return "";
}

} // namespace
} // namespace tessera::emulator

struct TesseraComm {
  std::shared_ptr<tessera::emulator::Shared> shared;
  TesseraComm *parent = nullptr; // until it has split
  size_t splits = 0;             // calls of splitComm
  int part = -1;                 // of the parent's last split
  TesseraDevice *device = nullptr;
  int me = 0;
  // An operation gets its number when it runs, since a recorded graph runs the same work many times.
  std::shared_ptr<int64_t> next = std::make_shared<int64_t>(0);
  bool grouping = false;
  std::vector<tessera::emulator::Part> noted; // collectives of the open group
  tessera::emulator::Recordings collectives;
  std::map<int, tessera::emulator::Recordings> messagesWith; // by peer, as a recording need not have messages to all
  tessera::emulator::Messages messages;
  std::map<char *, size_t> registered;
  std::shared_ptr<EmulatedUse> use = std::make_shared<EmulatedUse>();
};

namespace tessera::emulator {
namespace {

/// The offset of memory in the registered range.
int64_t placeOf(TesseraComm *c, const void *memory) {
  const char *at = static_cast<const char *>(memory);
  for (const auto &[begin, bytes] : c->registered)
    if (at >= begin && at < begin + bytes)
      return at - begin;
  return kUnregistered;
}

/// Whether a kernel of NCCL ends without having done its work.
bool givenUp(const EmulatedUse &use, int device) { return use.revoked && toldToFail("stuck") != device; }

/// The number of the recording that work belongs to which is asked for now.
int64_t captureOf(const TesseraComm *c, Recordings &recordings) {
  if (!c->device->capturing)
    return 0;
  if (std::exchange(recordings.last, c->device->captures) != c->device->captures)
    ++recordings.count;
  return recordings.count;
}

/// One collective. In an open group it is noted only, and groupEnd enqueues it.
int32_t post(TesseraComm *c, Part part, TesseraMessage *m) {
  if (c->grouping) {
    c->noted.push_back(part);
    return TESSERA_OK;
  }
  part.capture = captureOf(c, c->collectives);
  part.inPlace = placeOf(c, part.in);
  part.outPlace = placeOf(c, part.out);
  auto use = c->use;
  const int device = c->device->ordinal;
  use->failed = use->failed || toldToFail("comm") == c->device->ordinal;
  auto shared = c->shared;
  auto next = c->next;
  const int me = c->me;
  auto mine = std::make_shared<std::pair<int64_t, bool>>(0, false); // number, posted
  return enqueue(c->device,
                 {TESSERA_COMM_STREAM,
                  [=](TesseraMessage *why) -> int32_t {
                    std::lock_guard lock(mutex);
                    if (givenUp(*use, device)) {
                      mine->second = false;
                      return TESSERA_OK;
                    }
                    if (shared->aborted || use->failed)
                      return TESSERA_NOT_READY; // hangs, as a device does
                    if (!mine->second)
                      *mine = {(*next)++, true};
                    std::shared_ptr<Operation> &op = shared->operations[mine->first];
                    if (!op)
                      op = std::make_shared<Operation>();
                    op->parts.try_emplace(me, part);
                    if (!op->done && int(op->parts.size()) == shared->members) {
                      op->error = perform(*op, shared->members);
                      op->done = true;
                    }
                    if (!op->done)
                      return TESSERA_NOT_READY;
                    mine->second = false; // a replay posts anew
                    return op->error.empty() ? TESSERA_OK : fail(why, op->error);
                  },
                  nullptr, nullptr, 0, use},
                 m);
}

int32_t postMessages(TesseraComm *c, Messages messages, TesseraMessage *m) {
  auto use = c->use;
  const int device = c->device->ordinal;
  use->failed = use->failed || toldToFail("comm") == c->device->ordinal;
  auto shared = c->shared;
  const int me = c->me;
  auto ends = std::make_shared<std::vector<std::shared_ptr<End>>>(); // empty: not posted
  return enqueue(c->device,
                 {TESSERA_COMM_STREAM,
                  [=](TesseraMessage *why) -> int32_t {
                    std::lock_guard lock(mutex);
                    if (givenUp(*use, device)) {
                      ends->clear();
                      return TESSERA_OK;
                    }
                    if (shared->aborted || use->failed)
                      return TESSERA_NOT_READY; // hangs, as a device does
                    if (ends->empty()) {
                      auto put = [&](const Message &message, Wire &wire, std::deque<std::shared_ptr<End>> &side) {
                        ends->push_back(std::make_shared<End>(End{message}));
                        side.push_back(ends->back());
                        deliver(wire);
                      };
                      for (const Message &s : messages.sends) {
                        Wire &wire = shared->wires[{me, s.peer}];
                        put(s, wire, wire.sends);
                      }
                      for (const Message &r : messages.receives) {
                        Wire &wire = shared->wires[{r.peer, me}];
                        put(r, wire, wire.receives);
                      }
                    }
                    for (const std::shared_ptr<End> &end : *ends)
                      if (!end->done)
                        return TESSERA_NOT_READY;
                    std::string error;
                    for (const std::shared_ptr<End> &end : *ends)
                      error = error.empty() ? end->error : error;
                    ends->clear(); // a replay posts anew
                    return error.empty() ? TESSERA_OK : fail(why, error);
                  },
                  nullptr, nullptr, 0, use},
                 m);
}

int32_t uniqueId(TesseraCommId *id, TesseraMessage *) {
  static std::atomic<uint64_t> counter{1};
  std::memset(id, 0, sizeof *id);
  const uint64_t number = counter++;
  std::memcpy(id->bytes, &number, sizeof number);
  return TESSERA_OK;
}

int32_t createComm(TesseraDevice *d, const TesseraCommId *id, int32_t members, int32_t me, TesseraComm **comm,
                   TesseraMessage *m) {
  std::lock_guard lock(mutex);
  std::shared_ptr<Shared> &shared = groups[std::string(id->bytes, sizeof id->bytes)];
  if (!shared)
    shared = std::make_shared<Shared>();
  shared->members = members;
  if (!shared->devices.insert(d->ordinal).second)
    return fail(m, "two members of a group use one device");
  shared->joined.insert(me);
  *comm = new TesseraComm;
  (*comm)->shared = shared;
  (*comm)->device = d;
  (*comm)->me = me;
  return TESSERA_OK;
}

int32_t splitComm(TesseraComm *parent, int32_t part, int32_t me, TesseraComm **comm, TesseraMessage *) {
  std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Split>> &splits = parent->shared->splits;
  if (splits.size() == parent->splits)
    splits.push_back(std::make_shared<Split>());
  Split &split = *splits[parent->splits++];
  split.asked[parent->me] = {part, me};
  *comm = nullptr;
  if (part < 0)
    return TESSERA_OK;
  std::shared_ptr<Shared> &shared = split.made[part];
  if (!shared)
    shared = std::make_shared<Shared>();
  *comm = new TesseraComm;
  (*comm)->shared = shared;
  (*comm)->device = parent->device;
  (*comm)->parent = parent;
  (*comm)->part = part;
  (*comm)->me = me;
  return TESSERA_OK;
}

bool hasSplit(const TesseraComm &parent) {
  return parent.splits == 0 || int(parent.shared->splits[parent.splits - 1]->asked.size()) == parent.shared->members;
}

int32_t pollComm(TesseraComm *c, TesseraMessage *m) {
  std::lock_guard lock(mutex);
  if (!hasSplit(c->parent ? *c->parent : *c))
    return c->shared->aborted ? fail(m, "a member of the group has left") : TESSERA_NOT_READY;
  if (c->parent) {
    const Split &split = *c->parent->shared->splits[c->parent->splits - 1];
    c->shared->members =
        int(std::ranges::count_if(split.asked, [&](const auto &a) { return a.second.first == c->part; }));
    c->shared->joined.insert(c->me);
    c->parent = nullptr;
  }
  if (c->use->failed)
    return fail(m, "NCCL: a collective failed: remote process exited or there was a network error");
  if (c->shared->aborted)
    return fail(m, "a member of the group has left");
  return int(c->shared->joined.size()) == c->shared->members ? TESSERA_OK : TESSERA_NOT_READY;
}

/// As in NCCL, which waits until no graph holds work of the communicator any more. Nobody could destroy them meanwhile.
void releaseFromGraphs(TesseraComm *c) {
  if (c->use->graphs == 0)
    return;
  std::fprintf(stderr,
               "emulator: a communicator is given back that a recorded graph holds: NCCL would wait for ever\n");
  std::abort();
}

void revokeComm(TesseraComm *c) {
  std::lock_guard lock(mutex);
  c->shared->aborted = c->use->revoked = true;
}

void destroyComm(TesseraComm *c) {
  releaseFromGraphs(c);
  if (!c->registered.empty() && !c->use->revoked) {
    std::fprintf(stderr, "emulator: a communicator is destroyed that has memory registered\n");
    std::abort();
  }
  for (auto &[memory, bytes] : c->registered)
    if (--c->device->registered[memory] == 0)
      c->device->registered.erase(memory);
  delete c;
}

int32_t registerMemory(TesseraComm *c, void *memory, size_t bytes, void **registration, TesseraMessage *m) {
  if (toldToFail("register") == c->device->ordinal)
    return fail(m, "this device registers no memory", TESSERA_UNSUPPORTED);
  if (!c->registered.emplace(static_cast<char *>(memory), bytes).second)
    return fail(m, "memory is registered twice");
  ++c->device->registered[memory];
  *registration = memory;
  return TESSERA_OK;
}

void deregisterMemory(TesseraComm *c, void *registration) {
  c->registered.erase(static_cast<char *>(registration));
  if (--c->device->registered[registration] == 0)
    c->device->registered.erase(registration);
}

int32_t allReduce(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, int32_t reduction,
                  TesseraMessage *m) {
  return post(c, {Kind::AllReduce, in, out, count, dtype, reduction, 0}, m);
}
int32_t allGather(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, TesseraMessage *m) {
  return post(c, {Kind::AllGather, in, out, count, dtype, 0, 0}, m);
}
int32_t reduceScatter(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, int32_t reduction,
                      TesseraMessage *m) {
  return post(c, {Kind::ReduceScatter, in, out, count, dtype, reduction, 0}, m);
}
int32_t broadcast(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, int32_t root,
                  TesseraMessage *m) {
  return post(c, {Kind::Broadcast, in, out, count, dtype, 0, root}, m);
}

/// Groups belong to threads: as long as one is open, NCCL only takes notes of what the thread asks for.
struct OpenGroups {
  int count = 0;
  ~OpenGroups() {
    if (count == 0)
      return;
    std::fprintf(stderr,
                 "emulator: a thread ends with a group of messages open: NCCL does nothing of what it asked for\n");
    std::abort();
  }
};
thread_local OpenGroups openGroups;

int32_t groupStart(TesseraComm *c, TesseraMessage *) {
  ++openGroups.count;
  c->grouping = true;
  c->messages = {};
  c->noted.clear();
  return TESSERA_OK;
}
int32_t groupEnd(TesseraComm *c, TesseraMessage *m) {
  --openGroups.count;
  c->grouping = false;
  for (const Part &part : std::exchange(c->noted, {}))
    if (const int32_t code = post(c, part, m); code != TESSERA_OK)
      return code;
  if (c->messages.sends.empty() && c->messages.receives.empty())
    return TESSERA_OK;
  return postMessages(c, std::move(c->messages), m);
}
int32_t send(TesseraComm *c, const void *from, size_t bytes, int32_t peer, TesseraMessage *m) {
  if (!c->grouping)
    return fail(m, "a send outside a group");
  if (toldToFail("send") == c->device->ordinal)
    return fail(m, "NCCL: send failed, as it was told to");
  c->messages.sends.push_back(
      {const_cast<void *>(from), bytes, peer, placeOf(c, from), captureOf(c, c->messagesWith[peer])});
  return TESSERA_OK;
}
int32_t receive(TesseraComm *c, void *to, size_t bytes, int32_t peer, TesseraMessage *m) {
  if (!c->grouping)
    return fail(m, "a receive outside a group");
  c->messages.receives.push_back({to, bytes, peer, placeOf(c, to), captureOf(c, c->messagesWith[peer])});
  return TESSERA_OK;
}

} // namespace

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

} // namespace tessera::emulator
