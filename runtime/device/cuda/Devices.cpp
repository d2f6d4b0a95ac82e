// Devices, memory, streams, events and graphs, by the CUDA runtime.
#include "runtime/device/Sentences.h"
#include "runtime/device/cuda/Common.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

struct TesseraEvent {
  cudaEvent_t event;
  bool timer = false;
};
struct TesseraGraph {
  cudaGraphExec_t exec;
};

namespace tessera::device {

int32_t fail(TesseraMessage *m, const std::string &text, int32_t code) {
  std::snprintf(m->text, sizeof m->text, "%s", text.c_str());
  return code;
}

int32_t failCuda(TesseraMessage *m, cudaError_t error, const std::string &what) {
  cudaGetLastError(); // clears the error, or the next call would report it again
  return fail(m, what + " failed: " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

namespace {

/// What cudaMemcpy2D takes, in bytes (cudaDeviceProp::memPitch of every device).
constexpr size_t kMostPitch = 2147483647;

int32_t count(int32_t *devices, TesseraMessage *m) {
  *devices = 0;
  int driver = 0, runtime = 0, found = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);                  // 0 where there is none
  cudaError_t error = cudaGetDeviceCount(&found); // leaves `found` alone when it fails
  if (driver == 0)
    return fail(m, noDriver());
  if (error == cudaErrorInsufficientDriver)
    return fail(m, driverTooOld(driver, runtime));
  if (error == cudaErrorNoDevice || (error == cudaSuccess && found == 0))
    return fail(m, noDevice());
  if (error != cudaSuccess)
    return failCuda(m, error, "counting the CUDA devices");
  *devices = found;
  return TESSERA_OK;
}

void libraries(TesseraMessage *m) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver); // 0 where there is none
  cudaRuntimeGetVersion(&runtime);
  fail(m, (driver ? "CUDA driver " + cudaVersion(driver) : "no CUDA driver") + ", CUDA runtime " +
              cudaVersion(runtime) + ", " + codeLibrary() + ", " + blasLibrary() + ", " + dnnLibrary() + ", " +
              ncclLibrary());
}

void close(TesseraDevice *d) {
  cudaSetDevice(d->ordinal);
  destroyDnn(d);
  destroyBlas(d);
  for (cudaStream_t stream : d->streams)
    if (stream)
      cudaStreamDestroy(stream);
  delete d;
}

int32_t open(int32_t ordinal, TesseraDevice **device, TesseraDeviceInfo *info, TesseraMessage *m) {
  const std::string who = "CUDA device " + std::to_string(ordinal);
  cudaDeviceProp properties;
  TESSERA_CUDA(cudaGetDeviceProperties(&properties, ordinal), m, "reading the properties of " + who);
  if (properties.major < kLeastMajor)
    return fail(m, deviceTooOld(ordinal, properties.name, properties.major, properties.minor));
  TESSERA_CUDA(cudaSetDevice(ordinal), m, "selecting " + who);
  TESSERA_CUDA(cudaFree(nullptr), m, "starting " + who); // creates the context
  auto d = std::make_unique<TesseraDevice>();
  d->ordinal = ordinal;
  int least = 0, greatest = 0;
  TESSERA_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest), m, "reading stream priorities");
  // Collectives get the first priority, since other ranks wait for them.
  for (int s = 0; s < TESSERA_STREAMS; ++s)
    if (cudaError_t error = cudaStreamCreateWithPriority(&d->streams[s], cudaStreamNonBlocking,
                                                         s == TESSERA_COMM_STREAM ? greatest : least)) {
      close(d.release());
      return failCuda(m, error, "creating a stream on " + who);
    }
  size_t free = 0, total = 0;
  if (cudaError_t error = cudaMemGetInfo(&free, &total)) {
    close(d.release());
    return failCuda(m, error, "reading the memory of " + who);
  }
  std::memset(info, 0, sizeof *info);
  std::snprintf(info->name, sizeof info->name, "%.100s", properties.name);
  if (cudaDeviceGetPCIBusId(info->bus, sizeof info->bus, ordinal) != cudaSuccess)
    info->bus[0] = '\0';
  info->major = properties.major;
  info->minor = properties.minor;
  info->multiprocessors = properties.multiProcessorCount;
  info->totalBytes = total;
  info->freeBytes = free;
  *device = d.release();
  return TESSERA_OK;
}

int32_t allocate(TesseraDevice *d, size_t bytes, void **memory, TesseraMessage *m) {
  *memory = nullptr;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  cudaError_t error = cudaMalloc(memory, bytes ? bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return fail(m, outOfMemory(d->ordinal, bytes, free, total));
  }
  TESSERA_CUDA(error, m, "allocating device memory");
  return TESSERA_OK;
}

int32_t allocateShared(TesseraDevice *d, size_t bytes, void **memory, TesseraMessage *m) {
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  *memory = allocateForNccl(d, bytes ? bytes : 1);
  return *memory ? TESSERA_OK : allocate(d, bytes, memory, m);
}

int32_t freeMemory(TesseraDevice *d, size_t *bytes, TesseraMessage *m) {
  size_t total = 0;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  TESSERA_CUDA(cudaMemGetInfo(bytes, &total), m, "reading the memory of CUDA device " + std::to_string(d->ordinal));
  return TESSERA_OK;
}

void release(TesseraDevice *d, void *memory) {
  cudaSetDevice(d->ordinal);
  if (d->shared.erase(memory))
    releaseForNccl(memory);
  else
    cudaFree(memory);
}

int32_t allocatePinned(TesseraDevice *d, size_t bytes, void **memory, TesseraMessage *m) {
  *memory = nullptr;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  TESSERA_CUDA(cudaHostAlloc(memory, bytes ? bytes : 1, cudaHostAllocPortable), m,
               "allocating " + std::to_string(bytes) + " bytes of pinned host memory");
  return TESSERA_OK;
}

void releasePinned(TesseraDevice *d, void *memory) {
  cudaSetDevice(d->ordinal);
  cudaFreeHost(memory);
}

int32_t copy(TesseraDevice *d, int32_t stream, void *to, const void *from, size_t bytes, TesseraMessage *m) {
  if (bytes == 0)
    return TESSERA_OK;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  TESSERA_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, d->streams[stream]), m,
               "a copy of " + std::to_string(bytes) + " bytes");
  return TESSERA_OK;
}

int32_t copyRows(TesseraDevice *d, int32_t stream, void *to, size_t toPitch, const void *from, size_t fromPitch,
                 size_t width, size_t rows, TesseraMessage *m) {
  if (width == 0 || rows == 0)
    return TESSERA_OK;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  if (std::max(toPitch, fromPitch) > kMostPitch) {
    for (size_t row = 0; row < rows; ++row)
      TESSERA_CUDA(cudaMemcpyAsync(static_cast<char *>(to) + row * toPitch,
                                   static_cast<const char *>(from) + row * fromPitch, width, cudaMemcpyDefault,
                                   d->streams[stream]),
                   m, "a copy of rows");
    return TESSERA_OK;
  }
  TESSERA_CUDA(cudaMemcpy2DAsync(to, toPitch, from, fromPitch, width, rows, cudaMemcpyDefault, d->streams[stream]), m,
               "a copy of rows");
  return TESSERA_OK;
}

int32_t fill(TesseraDevice *d, int32_t stream, void *memory, int32_t byte, size_t bytes, TesseraMessage *m) {
  if (bytes == 0)
    return TESSERA_OK;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  TESSERA_CUDA(cudaMemsetAsync(memory, byte, bytes, d->streams[stream]), m, "filling memory");
  return TESSERA_OK;
}

int32_t query(TesseraDevice *d, int32_t stream, TesseraMessage *m) {
  cudaSetDevice(d->ordinal);
  cudaError_t error = cudaStreamQuery(d->streams[stream]);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();
    return TESSERA_NOT_READY;
  }
  TESSERA_CUDA(error, m, "the work on CUDA device " + std::to_string(d->ordinal));
  return TESSERA_OK;
}

int32_t synchronize(TesseraDevice *d, int32_t stream, TesseraMessage *m) {
  cudaSetDevice(d->ordinal);
  TESSERA_CUDA(cudaStreamSynchronize(d->streams[stream]), m, "the work on CUDA device " + std::to_string(d->ordinal));
  return TESSERA_OK;
}

int32_t createEvent(TesseraDevice *d, TesseraEvent **event, TesseraMessage *m) {
  cudaEvent_t made = nullptr;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  TESSERA_CUDA(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), m, "creating an event");
  *event = new TesseraEvent{made};
  return TESSERA_OK;
}

int32_t createTimer(TesseraDevice *d, TesseraEvent **event, TesseraMessage *m) {
  cudaEvent_t made = nullptr;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  TESSERA_CUDA(cudaEventCreate(&made), m, "creating a timer");
  *event = new TesseraEvent{made, true};
  return TESSERA_OK;
}

int32_t elapsed(TesseraDevice *d, TesseraEvent *from, TesseraEvent *to, double *seconds, TesseraMessage *m) {
  float milliseconds = 0;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  TESSERA_CUDA(cudaEventElapsedTime(&milliseconds, from->event, to->event), m, "reading a timer");
  *seconds = double(milliseconds) / 1e3;
  return TESSERA_OK;
}

void destroyEvent(TesseraDevice *d, TesseraEvent *event) {
  cudaSetDevice(d->ordinal);
  cudaEventDestroy(event->event);
  delete event;
}

int32_t record(TesseraDevice *d, int32_t stream, TesseraEvent *event, TesseraMessage *m) {
  unsigned flags = cudaEventRecordDefault;
  if (event->timer) { // a timer becomes a node of a graph; other events become edges
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    TESSERA_CUDA(cudaStreamIsCapturing(d->streams[stream], &capture), m, "recording a timer");
    if (capture == cudaStreamCaptureStatusActive)
      flags = cudaEventRecordExternal;
  }
  TESSERA_CUDA(cudaEventRecordWithFlags(event->event, d->streams[stream], flags), m, "recording an event");
  return TESSERA_OK;
}

int32_t wait(TesseraDevice *d, int32_t stream, TesseraEvent *event, TesseraMessage *m) {
  TESSERA_CUDA(cudaStreamWaitEvent(d->streams[stream], event->event, 0), m, "waiting for an event");
  return TESSERA_OK;
}

int32_t captureBegin(TesseraDevice *d, TesseraMessage *m) {
  cudaSetDevice(d->ordinal);
  // The mode is thread-local, so that other ranks of this process may do as they like meanwhile.
  TESSERA_CUDA(cudaStreamBeginCapture(d->streams[TESSERA_COMPUTE_STREAM], cudaStreamCaptureModeThreadLocal), m,
               "starting to record a CUDA graph");
  return TESSERA_OK;
}

int32_t captureEnd(TesseraDevice *d, TesseraGraph **graph, TesseraMessage *m) {
  cudaGraph_t recorded = nullptr;
  cudaError_t error = cudaStreamEndCapture(d->streams[TESSERA_COMPUTE_STREAM], &recorded);
  if (!graph) {
    cudaGetLastError();
    if (recorded)
      cudaGraphDestroy(recorded);
    return TESSERA_OK;
  }
  TESSERA_CUDA(error, m, "recording a CUDA graph");
  cudaGraphExec_t exec = nullptr;
  // Without the flag all of a graph has the priority of the stream that it is launched into, and collectives wait behind
  // kernels.
  error = cudaGraphInstantiate(&exec, recorded, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(recorded);
  TESSERA_CUDA(error, m, "preparing a CUDA graph");
  *graph = new TesseraGraph{exec};
  return TESSERA_OK;
}

int32_t launchGraph(TesseraDevice *d, TesseraGraph *graph, TesseraMessage *m) {
  cudaSetDevice(d->ordinal);
  TESSERA_CUDA(cudaGraphLaunch(graph->exec, d->streams[TESSERA_COMPUTE_STREAM]), m, "launching a CUDA graph");
  return TESSERA_OK;
}

void destroyGraph(TesseraDevice *d, TesseraGraph *graph) {
  cudaSetDevice(d->ordinal);
  cudaGraphExecDestroy(graph->exec);
  delete graph;
}

} // namespace

void addDevices(TesseraDeviceApi &api) {
  api.count = count;
  api.open = open;
  api.close = close;
  api.libraries = libraries;
  api.allocate = allocate;
  api.allocateShared = allocateShared;
  api.release = release;
  api.freeMemory = freeMemory;
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
}

} // namespace tessera::device
