#include "runtime/comm/mpi/MpiWatch.h"

#include "runtime/comm/tcp/PeerConnections.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <unistd.h>

namespace tessera::rt {
namespace {

enum Tag { Alive = 1, Leave = 2 };
/// How long this rank waits after its message, so that other ranks can write theirs, before it ends
/// the job; and how long MPI may take to end it.
constexpr double kWordsSeconds = 1;
constexpr unsigned kAbortSeconds = 3;

} // namespace

MpiWatch::MpiWatch(int rank, int size, double timeout)
    : rank_(rank), size_(size), timeout_(timeout), interval_(std::min(1.0, timeout / 5)),
      heard_(size_t(size), monotonicSeconds()), left_(size_t(size)) {
  MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  constexpr int bytes = 64;
  char mine[bytes] = "";
  gethostname(mine, bytes - 1);
  std::vector<char> all(size_t(size) * bytes);
  MPI_Allgather(mine, bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR, comm_);
  for (size_t r = 0; r < all.size(); r += bytes)
    hosts_.push_back(fieldText(all.data() + r, bytes));
  std::fill(heard_.begin(), heard_.end(), monotonicSeconds()); // the other ranks may have started later
  thread_ = std::thread([this] { run(); });
}

MpiWatch::~MpiWatch() {
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  thread_.join();
  send(Leave);
}

void MpiWatch::send(int tag) {
  static const char sign = 0; // lives until MPI has sent it
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || left_[size_t(r)])
      continue;
    MPI_Request request;
    if (MPI_Isend(&sign, 1, MPI_CHAR, r, tag, comm_, &request) == MPI_SUCCESS)
      MPI_Request_free(&request);
  }
}

void MpiWatch::receive(double time) {
  MPI_Status status;
  for (int there = 1; MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status) == MPI_SUCCESS && there;) {
    char sign;
    MPI_Recv(&sign, 1, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, comm_, MPI_STATUS_IGNORE);
    const auto rank = size_t(status.MPI_SOURCE);
    heard_[rank] = time;
    if (status.MPI_TAG == Leave)
      left_[rank] = true;
  }
}

void MpiWatch::run() {
  double last = monotonicSeconds(), nextSign = last;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, std::chrono::duration<double>(interval_ / 4), [&] { return leaving_; }))
        return;
    }
    const double time = monotonicSeconds();
    // If this process was suspended itself, as when the whole job is, it could not receive. Then
    // others are not silent.
    if (time - last > 2 * interval_ + 1)
      for (double &heard : heard_)
        heard = std::max(heard, time - interval_);
    last = time;
    receive(time);
    if (time >= nextSign) {
      nextSign = time + interval_;
      send(Alive);
    }
    std::vector<int> silent;
    bool late = false;
    for (int r = 0; r < size_; ++r) {
      const auto rank = size_t(r);
      if (r == rank_ || left_[rank])
        continue;
      late |= time - heard_[rank] > timeout_;
      // A cut network silences several ranks, whose last signs of life came one after another. So
      // ranks that are nearly late are named with the one that is.
      if (time - heard_[rank] > timeout_ - 2 * interval_)
        silent.push_back(r);
    }
    if (late)
      endJob(silent);
  }
}

void MpiWatch::endJob(const std::vector<int> &silent) {
  std::vector<TcpPeer> peers;
  for (int rank : silent)
    peers.push_back({rank, hosts_[size_t(rank)], "", 0});
  std::vector<const TcpPeer *> pointers;
  for (const TcpPeer &peer : peers)
    pointers.push_back(&peer);
  std::fprintf(stderr,
               "[rank %d] tessera-run: %s gave no sign of life for %.3g s: %s stopped, or the network "
               "to it is cut\n",
               rank_, peersText(pointers).c_str(), timeout_, silent.size() == 1 ? "it was" : "they were");
  std::fflush(stderr);
  std::this_thread::sleep_for(std::chrono::duration<double>(kWordsSeconds));
  // The launcher may be on the other side of the cut, so that MPI_Abort hangs; the alarm then ends
  // this process.
  std::signal(SIGALRM, SIG_DFL);
  alarm(kAbortSeconds);
  MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

} // namespace tessera::rt
