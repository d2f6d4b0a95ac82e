//===- MpiWatch.h - who is still there, under MPI -------------------------------------------------===//
//
// The launcher notices a process that dies, but not one that is stopped, nor a network that is cut: the others would
// wait for ever. So a thread of every rank sends a sign of life to all others, as messages of a communicator of its
// own, and ends the job with a sentence once a rank was not heard of for the timeout. tcp/Watch.h is its like without
// MPI.
//
//   MpiWatch watch(rank, size, 10);
//   // [rank 1] tessera-run: rank 3 (on hostb) gave no sign of life for 10 s: it was stopped, or the network to it is
//   cut
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MPI_MPIWATCH_H
#define TESSERA_RUNTIME_COMM_MPI_MPIWATCH_H

#include <condition_variable>
#include <mpi.h>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tessera::rt {

class MpiWatch {
public:
  /// On all ranks at once, before any of them communicates.
  MpiWatch(int rank, int size, double timeout);
  /// Says farewell: from then on the others do not wait for signs of this rank. MPI_Finalize comes after it.
  ~MpiWatch();

private:
  void run();
  void receive(double time);
  void send(int tag);
  [[noreturn]] void endJob(const std::vector<int> &silent);

  const int rank_, size_;
  const double timeout_, interval_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<std::string> hosts_;
  std::vector<double> heard_;
  std::vector<bool> left_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaving_ = false;
  std::thread thread_;
};

} // namespace tessera::rt

#endif
