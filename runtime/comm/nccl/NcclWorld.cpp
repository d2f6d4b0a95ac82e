#include "runtime/comm/nccl/NcclWorld.h"
#include "runtime/comm/nccl/NcclGroup.h"
#include "runtime/support/Printable.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <thread>
#include <unistd.h>

namespace tessera::rt {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// How long a device may take to come to rest once its communicators are revoked.
constexpr double kRestSeconds = 10;

/// For a device that does not come to rest. To free its memory or its graphs would wait for it for ever.
[[noreturn]] void endProcess(NcclGroups &groups) {
  groups.host.abort(groups.failure);
  printError("[rank " + std::to_string(groups.host.rank()) + "] " + groups.failure +
             "; its device does not come to rest, so the process ends");
  _exit(1);
}

} // namespace

NcclGroups::~NcclGroups() {
  device->watch(nullptr);
  release();
}

void NcclGroups::release() {
  // The one of all ranks, from which the others were split, comes last.
  for (const bool all : {false, true})
    for (auto &[ranks, comm] : comms)
      if ((int(ranks.size()) == host.size()) == all)
        device->api().destroyComm(comm);
  comms.clear();
}

void NcclGroups::revoke(const std::string &why) {
  failure = why;
  failed = Clock::now();
  for (auto &[ranks, comm] : comms)
    device->api().revokeComm(comm);
  registered.clear();
}

Status NcclGroups::fail(const std::string &why) {
  if (!failure.empty())
    return Status::error(failure);
  // The host's world may learn the cause a little after NCCL reports the effect.
  std::string who = host.aborted();
  for (Clock::time_point begin = Clock::now(); who.empty() && secondsSince(begin) < 2; who = host.aborted())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  revoke(who.empty() ? why : who);
  return Status::error(failure);
}

Status NcclGroups::check() {
  if (!failure.empty()) {
    if (secondsSince(failed) > kRestSeconds)
      endProcess(*this);
    return Status::error(failure);
  }
  if (std::string who = host.aborted(); !who.empty())
    return fail(who);
  for (auto &[ranks, comm] : comms) {
    TesseraMessage message;
    message.text[0] = '\0';
    if (device->api().pollComm(comm, &message) == TESSERA_FAILED)
      return fail(message.text);
  }
  return Status();
}

Status NcclGroups::settle(TesseraComm *comm, double seconds, const std::string &what) {
  Clock::time_point begin = Clock::now(), asked = begin;
  for (;;) {
    TesseraMessage message;
    message.text[0] = '\0';
    int32_t code = device->api().pollComm(comm, &message);
    if (code == TESSERA_OK)
      return Status();
    if (code != TESSERA_NOT_READY)
      return fail(message.text);
    if (std::string who = secondsSince(asked) > 0.01 ? host.aborted() : ""; !who.empty())
      return fail(who);
    if (secondsSince(begin) > seconds)
      return fail(what + " took longer than " + std::to_string(int(seconds)) +
                  " s: a rank did not come, or its device cannot be reached (NCCL_DEBUG=INFO "
                  "tells more)");
    if (secondsSince(begin) > 0.001)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

namespace {

class NcclWorld final : public World {
public:
  NcclWorld(World &host, std::shared_ptr<Device> device, double seconds)
      : groups_(std::make_shared<NcclGroups>(host, std::move(device))), seconds_(seconds) {
    // A plain pointer: with the shared one, the device and the groups would keep each other alive.
    groups_->device->watch([groups = groups_.get()] { return groups->check(); });
  }

  int rank() const override { return groups_->host.rank(); }
  int size() const override { return groups_->host.size(); }
  void abort(const std::string &reason) override { groups_->host.abort(reason); }
  std::string aborted() override { return groups_->host.aborted(); }
  void abandon(const std::string &reason) override {
    if (groups_->failure.empty())
      groups_->revoke(reason);
  }

  Result<std::unique_ptr<Communicator>> group(const std::vector<int> &ranks, int run) override {
    // NCCL finds the links itself.
    // This is called even for shared groups, since all ranks of the world make groups together. It
    // checks that they agree.
    if (!groups_->failure.empty())
      return Status::error(groups_->failure);
    Result<std::unique_ptr<Communicator>> channel = groups_->host.group(ranks, run);
    if (!channel)
      return channel.status();
    TESSERA_RETURN_IF_ERROR(connect(**channel, ranks));
    return createNcclCommunicator(groups_, groups_->comms.at(ranks), ranks, std::move(*channel));
  }

private:
  /// Makes the communicator of `ranks`, if there is none. All ranks of the world are here, each with its own group, and
  /// some may have theirs.
  Status connect(Communicator &channel, const std::vector<int> &ranks) {
    if (!everyone_) {
      all_.resize(size_t(size()));
      std::iota(all_.begin(), all_.end(), 0);
      Result<std::unique_ptr<Communicator>> everyone = groups_->host.group(all_, 1);
      if (!everyone)
        return everyone.status();
      everyone_ = std::move(*everyone);
    }
    // There is no time limit here, as loading takes some ranks much longer than others. The limits begin when all are
    // here, and are for NCCL alone.
    const bool wanted = !groups_->comms.contains(ranks);
    int64_t agreed[2] = {!wanted, splits()}; // whether nobody wants one; whether all would split
    TESSERA_RETURN_IF_ERROR(everyone_->allReduce(agreed, agreed, 2, plan::I64, plan::MIN));
    if (agreed[0])
      return Status();
    if (!agreed[1] || ranks == all_)
      return wanted ? create(channel, ranks) : Status();
    if (!groups_->comms.contains(all_))
      TESSERA_RETURN_IF_ERROR(create(*everyone_, all_));
    TesseraComm *parent = groups_->comms.at(all_), *part = nullptr;
    TESSERA_RETURN_IF_ERROR(Device::check([&](TesseraMessage *m) {
      return groups_->device->api().splitComm(parent, wanted ? ranks[0] : -1, channel.rank(), &part, m);
    }));
    if (part)
      groups_->comms.emplace(ranks, part);
    TESSERA_RETURN_IF_ERROR(settle(parent, ranks));
    return part ? settle(part, ranks) : Status();
  }

  /// A way out, should NCCL fail to split.
  static bool splits() {
    const char *given = std::getenv("TESSERA_NCCL_SPLIT");
    return !given || std::string_view(given) != "0";
  }

  Status settle(TesseraComm *comm, const std::vector<int> &ranks) {
    return groups_->settle(comm, seconds_, "connecting " + std::to_string(ranks.size()) + " ranks");
  }

  /// Makes a communicator of its own for `ranks`, the members of `channel`.
  Status create(Communicator &channel, const std::vector<int> &ranks) {
    const int me = channel.rank();
    const TesseraDeviceApi &api = groups_->device->api();
    // The first member makes the id, and sends along whether that succeeded.
    struct {
      char good = 0;
      char error[255] = {};
      TesseraCommId id = {};
    } letter;
    if (me == 0) {
      Status status = Device::check([&](TesseraMessage *m) { return api.uniqueId(&letter.id, m); });
      letter.good = status.ok();
      std::strncpy(letter.error, status.message().c_str(), sizeof letter.error - 1);
    }
    TESSERA_RETURN_IF_ERROR(channel.broadcast(&letter, &letter, sizeof letter, plan::U8, 0));
    if (!letter.good)
      return Status::error("rank " + std::to_string(ranks[0]) + ": " + letter.error);
    TesseraComm *comm = nullptr;
    TESSERA_RETURN_IF_ERROR(Device::check([&](TesseraMessage *m) {
      return api.createComm(groups_->device->handle(), &letter.id, channel.size(), me, &comm, m);
    }));
    groups_->comms.emplace(ranks, comm);
    return settle(comm, ranks);
  }

  std::shared_ptr<NcclGroups> groups_;
  std::vector<int> all_;                   // the ranks of the world
  std::unique_ptr<Communicator> everyone_; // on the host
  double seconds_;
};

} // namespace

std::unique_ptr<World> createNcclWorld(World &host, std::shared_ptr<Device> device, double seconds) {
  return std::make_unique<NcclWorld>(host, std::move(device), seconds);
}

} // namespace tessera::rt
