// Devices, memory, streams, events and graphs.
#include "test/emulator/Emulator.h"

#include "runtime/device/Sentences.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace tessera::emulator {

constexpr int kDevices = 8;
constexpr size_t kDeviceBytes = size_t(4) << 30;

int32_t fail(TesseraMessage *m, const std::string &text, int32_t code) {
  std::snprintf(m->text, sizeof m->text, "%s", text.c_str());
  return code;
}

std::optional<long> toldToFail(const std::string &what) {
  const char *given = std::getenv("TESSERA_EMULATOR_FAIL");
  const std::string text = given ? given : "", name = text.substr(0, text.find(':'));
  if (name != what)
    return std::nullopt;
  return name.size() < text.size() ? std::atol(text.c_str() + name.size() + 1) : 0;
}

static size_t deviceBytes() {
  const std::optional<long> mebibytes = toldToFail("memory");
  return mebibytes ? size_t(*mebibytes) << 20 : kDeviceBytes;
}

int32_t enqueue(TesseraDevice *d, EmulatedWork work, TesseraMessage *m) {
  if (!d->capturing) {
    if (const auto most = toldToFail("work"); most && d->queue[work.stream].size() >= size_t(*most))
      return fail(m, "a stream has too much work");
    d->queue[work.stream].push_back(std::move(work));
    return TESSERA_OK;
  }
  // As in CUDA, another stream takes part in a recording only after it waits for the first.
  if (work.stream == TESSERA_COMM_STREAM && work.wait)
    d->commForked = true;
  if (work.stream == TESSERA_COPY_STREAM || (work.stream == TESSERA_COMM_STREAM && !d->commForked))
    return fail(m, "work on a stream that was not forked into the recording");
  d->capturing->work.push_back(std::move(work));
  return TESSERA_OK;
}

/// Runs `queue` as far as it goes. Streams take turns; `first` goes first, each until it waits.
static int32_t drain(std::vector<EmulatedWork> (&queue)[TESSERA_STREAMS], int first, TesseraMessage *m) {
  bool left = false;
  for (bool moved = true; moved;) {
    moved = left = false;
    for (int turn = 0; turn < TESSERA_STREAMS; ++turn) {
      std::vector<EmulatedWork> &work = queue[(first + turn) % TESSERA_STREAMS];
      size_t done = 0;
      int32_t code = TESSERA_OK;
      for (; done < work.size(); ++done) {
        EmulatedWork &w = work[done];
        if (w.wait && w.wait->done < w.version)
          break;
        if (w.record) {
          w.record->done = std::max(w.record->done, w.version);
          w.record->reached = std::chrono::steady_clock::now();
        }
        if (w.run && (code = w.run(m)) != TESSERA_OK)
          break;
      }
      work.erase(work.begin(), work.begin() + long(done));
      moved |= done > 0;
      left |= !work.empty();
      if (code == TESSERA_FAILED)
        return code;
    }
  }
  return left ? TESSERA_NOT_READY : TESSERA_OK;
}

static int order() {
  const char *given = std::getenv("TESSERA_EMULATOR_ORDER");
  const std::string name = given ? given : "";
  return name == "comm" ? TESSERA_COMM_STREAM : name == "copy" ? TESSERA_COPY_STREAM : TESSERA_COMPUTE_STREAM;
}

int32_t progress(TesseraDevice *d, int stream, TesseraMessage *m) {
  if (d->capturing)
    return fail(m, "waiting is not allowed while a graph is recorded");
  int32_t code = drain(d->queue, order(), m);
  return code == TESSERA_NOT_READY && d->queue[stream].empty() ? TESSERA_OK : code;
}

namespace {

int32_t count(int32_t *devices, TesseraMessage *m) {
  *devices = 0;
  if (toldToFail("no-driver"))
    return fail(m, device::noDriver());
  if (toldToFail("old-driver"))
    return fail(m, device::driverTooOld(12040, 13000));
  if (toldToFail("no-device"))
    return fail(m, device::noDevice());
  *devices = kDevices;
  return TESSERA_OK;
}

int32_t open(int32_t ordinal, TesseraDevice **device, TesseraDeviceInfo *info, TesseraMessage *m) {
  if (ordinal < 0 || ordinal >= kDevices)
    return fail(m, "there is no emulated device " + std::to_string(ordinal));
  if (toldToFail("capability") == ordinal)
    return fail(m, device::deviceTooOld(ordinal, "emulated device", 7, 0));
  std::memset(info, 0, sizeof *info);
  std::snprintf(info->name, sizeof info->name, "emulated device");
  info->major = 9;
  info->multiprocessors = 1;
  info->totalBytes = info->freeBytes = deviceBytes();
  *device = new TesseraDevice;
  (*device)->ordinal = ordinal;
  return TESSERA_OK;
}

void close(TesseraDevice *d) { delete d; }

int32_t allocate(TesseraDevice *d, size_t bytes, void **memory, TesseraMessage *m) {
  const size_t total = deviceBytes(), free = total - std::min(total, d->used);
  if (bytes > free)
    return fail(m, device::outOfMemory(d->ordinal, bytes, free, total));
  *memory = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
  std::memset(*memory, 0xA5, bytes); // so that no code relies on zeros
  d->memory[*memory] = bytes;
  d->used += bytes;
  return TESSERA_OK;
}

int32_t freeMemory(TesseraDevice *d, size_t *bytes, TesseraMessage *) {
  *bytes = deviceBytes() - std::min(deviceBytes(), d->used);
  return TESSERA_OK;
}

void libraries(TesseraMessage *m) { fail(m, "emulated devices"); }

void release(TesseraDevice *d, void *memory) {
  if (d->registered.contains(memory)) {
    std::fprintf(stderr, "emulator: registered memory is released\n");
    std::abort();
  }
  d->used -= d->memory[memory];
  d->memory.erase(memory);
  std::free(memory);
}

int32_t allocatePinned(TesseraDevice *, size_t bytes, void **memory, TesseraMessage *) {
  *memory = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
  return TESSERA_OK;
}
void releasePinned(TesseraDevice *, void *memory) { std::free(memory); }

int32_t copy(TesseraDevice *d, int32_t stream, void *to, const void *from, size_t bytes, TesseraMessage *m) {
  return enqueue(d,
                 {stream,
                  [=](TesseraMessage *) {
                    std::memmove(to, from, bytes);
                    return TESSERA_OK;
                  }},
                 m);
}

int32_t copyRows(TesseraDevice *d, int32_t stream, void *to, size_t toPitch, const void *from, size_t fromPitch,
                 size_t width, size_t rows, TesseraMessage *m) {
  if (rows > 1 && (width > toPitch || width > fromPitch))
    return fail(m, "a copy of rows that are wider than their pitch");
  return enqueue(d,
                 {stream,
                  [=](TesseraMessage *) {
                    for (size_t r = 0; r < rows; ++r)
                      std::memmove(static_cast<char *>(to) + r * toPitch,
                                   static_cast<const char *>(from) + r * fromPitch, width);
                    return TESSERA_OK;
                  }},
                 m);
}

int32_t fill(TesseraDevice *d, int32_t stream, void *memory, int32_t byte, size_t bytes, TesseraMessage *m) {
  return enqueue(d,
                 {stream,
                  [=](TesseraMessage *) {
                    std::memset(memory, byte, bytes);
                    return TESSERA_OK;
                  }},
                 m);
}

int32_t query(TesseraDevice *d, int32_t stream, TesseraMessage *m) { return progress(d, stream, m); }

int32_t synchronize(TesseraDevice *d, int32_t stream, TesseraMessage *m) {
  int32_t code;
  while ((code = progress(d, stream, m)) == TESSERA_NOT_READY)
    std::this_thread::yield();
  return code;
}

int32_t createEvent(TesseraDevice *, TesseraEvent **event, TesseraMessage *) {
  *event = new TesseraEvent;
  return TESSERA_OK;
}
void destroyEvent(TesseraDevice *, TesseraEvent *event) { delete event; }

int32_t createTimer(TesseraDevice *d, TesseraEvent **event, TesseraMessage *m) {
  createEvent(d, event, m);
  (*event)->timer = true;
  return TESSERA_OK;
}

int32_t elapsed(TesseraDevice *, TesseraEvent *from, TesseraEvent *to, double *seconds, TesseraMessage *m) {
  for (const TesseraEvent *event : {from, to})
    if (!event->timer || event->recorded == 0 || event->done < event->recorded)
      return fail(m, "a timer is read that was not reached");
  *seconds = std::chrono::duration<double>(to->reached - from->reached).count();
  return TESSERA_OK;
}

int32_t record(TesseraDevice *d, int32_t stream, TesseraEvent *event, TesseraMessage *m) {
  if (event->timer && d->capturing && toldToFail("timers") == d->ordinal)
    return fail(m, "recording a timer failed, as it was told to");
  return enqueue(d, {stream, nullptr, event, nullptr, ++event->recorded}, m);
}

int32_t wait(TesseraDevice *d, int32_t stream, TesseraEvent *event, TesseraMessage *m) {
  if (event->timer)
    return fail(m, "a stream is to wait for a timer");
  return enqueue(d, {stream, nullptr, nullptr, event, event->recorded}, m);
}

int32_t captureBegin(TesseraDevice *d, TesseraMessage *m) {
  if (d->capturing)
    return fail(m, "a graph is being recorded already");
  if (toldToFail("graph") == d->ordinal)
    return fail(m, "recording a graph failed, as it was told to");
  d->capturing = new TesseraGraph;
  ++d->captures;
  d->commForked = false;
  return TESSERA_OK;
}

int32_t captureEnd(TesseraDevice *d, TesseraGraph **graph, TesseraMessage *m) {
  std::unique_ptr<TesseraGraph> made(d->capturing);
  d->capturing = nullptr;
  if (!graph)
    return TESSERA_OK;
  // The first stream must wait for the last work of the second one before a recording ends.
  if (d->commForked) {
    int64_t last = -1;
    bool joined = false;
    for (size_t i = 0; i < made->work.size(); ++i) {
      const EmulatedWork &w = made->work[i];
      if (w.stream == TESSERA_COMM_STREAM) {
        last = int64_t(i);
        joined = false;
      } else if (w.wait && last >= 0 && made->work[size_t(last)].record == w.wait) {
        joined = true;
      }
    }
    if (!joined)
      return fail(m, "a stream was not joined when the recording ended");
  }
  for (const EmulatedWork &w : made->work)
    if (w.use && made->uses.insert(w.use).second)
      ++w.use->graphs;
  *graph = made.release();
  return TESSERA_OK;
}

int32_t launchGraph(TesseraDevice *d, TesseraGraph *graph, TesseraMessage *m) {
  if (toldToFail("replay") == d->ordinal || toldToFail("stuck") == d->ordinal)
    for (const std::shared_ptr<EmulatedUse> &use : graph->uses)
      use->failed = true;
  // The graph is one piece of work on the compute stream, with queues and events of its own.
  struct Replay {
    std::vector<EmulatedWork> queue[TESSERA_STREAMS];
    std::map<TesseraEvent *, TesseraEvent> events;
  };
  auto replay = std::make_shared<Replay>();
  for (const EmulatedWork &w : graph->work) {
    EmulatedWork copy = w;
    if (w.record) {
      copy.record = w.record->timer ? w.record : &replay->events[w.record];
      copy.version = ++copy.record->recorded;
    }
    if (w.wait) {
      copy.wait = &replay->events[w.wait];
      copy.version = copy.wait->recorded;
    }
    replay->queue[w.stream].push_back(std::move(copy));
  }
  return enqueue(
      d, {TESSERA_COMPUTE_STREAM, [replay](TesseraMessage *why) { return drain(replay->queue, order(), why); }}, m);
}

void destroyGraph(TesseraDevice *, TesseraGraph *graph) {
  for (const std::shared_ptr<EmulatedUse> &use : graph->uses)
    --use->graphs;
  delete graph;
}

} // namespace
} // namespace tessera::emulator

extern "C" const TesseraDeviceApi *tesseraDeviceApi(void) {
  using namespace tessera::emulator;
  static const TesseraDeviceApi table = [] {
    TesseraDeviceApi api = {};
    api.abi = TESSERA_DEVICE_ABI;
    api.size = sizeof api;
    api.kind = "emulated";
    api.count = count;
    api.open = open;
    api.close = close;
    api.libraries = libraries;
    api.freeMemory = freeMemory;
    api.allocate = allocate;
    api.allocateShared = allocate;
    api.release = release;
    api.allocatePinned = allocatePinned;
    api.releasePinned = releasePinned;
    api.copy = copy;
    api.copyRows = copyRows;
    api.fill = fill;
    api.query = query;
    api.synchronize = synchronize;
    api.createEvent = createEvent;
    api.destroyEvent = destroyEvent;
    api.record = record;
    api.wait = wait;
    api.createTimer = createTimer;
    api.elapsed = elapsed;
    api.captureBegin = captureBegin;
    api.captureEnd = captureEnd;
    api.launchGraph = launchGraph;
    api.destroyGraph = destroyGraph;
    addCode(api);
    addLibrary(api);
    addCollectives(api);
    return api;
  }();
  return &table;
}
