// Timers on a device's streams and in graphs, which measure how long a rank waited.
#include "runtime/device/Device.h"

#include <catch2/catch.hpp>

using namespace tessera::rt;

namespace {

struct Streams {
  std::shared_ptr<Device> device = std::move(*Device::open(*DeviceModule::load(), 0));
  DeviceMemory memory = std::move(*DeviceMemory::allocate(device, size_t(128) << 20));
  TesseraEvent *forked = event(false), *joined = event(false), *before = event(true), *after = event(true);

  ~Streams() {
    for (TesseraEvent *e : {forked, joined, before, after})
      if (e)
        api().destroyEvent(device->handle(), e);
  }
  const TesseraDeviceApi &api() const { return device->api(); }
  void need(const Status &status) {
    INFO(status.message());
    REQUIRE(status.ok());
  }
  template <typename F> void call(F &&f) { need(Device::check(std::forward<F>(f))); }

  TesseraEvent *event(bool timer) {
    TesseraEvent *made = nullptr;
    call(
        [&](TesseraMessage *m) { return (timer ? api().createTimer : api().createEvent)(device->handle(), &made, m); });
    return made;
  }
  void record(int stream, TesseraEvent *e) {
    call([&](TesseraMessage *m) { return api().record(device->handle(), stream, e, m); });
  }
  void wait(int stream, TesseraEvent *e) {
    call([&](TesseraMessage *m) { return api().wait(device->handle(), stream, e, m); });
  }
  /// The compute stream waits, between two timers, for work on the other.
  void enqueue() {
    record(TESSERA_COMPUTE_STREAM, forked);
    wait(TESSERA_COMM_STREAM, forked);
    call([&](TesseraMessage *m) {
      return api().fill(device->handle(), TESSERA_COMM_STREAM, memory.data(), 1, memory.size(), m);
    });
    record(TESSERA_COMM_STREAM, joined);
    record(TESSERA_COMPUTE_STREAM, before);
    wait(TESSERA_COMPUTE_STREAM, joined);
    record(TESSERA_COMPUTE_STREAM, after);
  }
  double waited() {
    need(device->finish());
    double seconds = -1;
    call([&](TesseraMessage *m) { return api().elapsed(device->handle(), before, after, &seconds, m); });
    return seconds;
  }
};

} // namespace

TEST_CASE("timers measure a wait, on streams and in a graph each time that it runs") {
  Streams s;
  // 128 MiB are written in more than a microsecond and in less than a second.
  s.enqueue();
  const double direct = s.waited();
  CHECK(direct > 1e-6);
  CHECK(direct < 1);
  s.call([&](TesseraMessage *m) { return s.api().captureBegin(s.device->handle(), m); });
  s.enqueue();
  TesseraGraph *graph = nullptr;
  s.call([&](TesseraMessage *m) { return s.api().captureEnd(s.device->handle(), &graph, m); });
  for (int i = 0; i < 3; ++i) {
    s.call([&](TesseraMessage *m) { return s.api().launchGraph(s.device->handle(), graph, m); });
    const double replayed = s.waited();
    CHECK(replayed > 1e-6);
    CHECK(replayed < 1);
  }
  s.api().destroyGraph(s.device->handle(), graph);
}
