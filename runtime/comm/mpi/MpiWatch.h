//===- MpiWatch.h - who is still there, under MPI -------------------------------------------------===//
//
// The launcher notices a process that dies, but not one that is stopped, nor a network that is cut. The other ranks
// would wait for ever. So a thread of every rank sends signs of life to all others, by a communicator of its own. Once
// a rank was not heard of for the timeout, the thread writes an error and ends the job. tcp/Watch.h does the same
// without MPI.
//
//   MpiWatch watch(rank, size, 10);
//   // "[rank 1] tessera-run: rank 3 (on hostb) gave no sign of life for 10 s: ..."
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
  /// All ranks construct it at the same time, before any of them communicates.
  MpiWatch(int rank, int size, double timeout);
  /// Tells the other ranks not to wait for signs of this rank any more. MPI_Finalize is called after it.
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
