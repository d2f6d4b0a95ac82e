//===- WorkerPool.h - threads that share out the samples of a batch ---------------------------===//
//
//   WorkerPool pool(4);                                        // the caller and three more
//   pool.run(32, [&](int worker, int64_t i) { ... });          // i = 0 .. 31, each once, in any order
//
// run() returns when all calls are done. Only one thread at a time may call it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_WORKERPOOL_H
#define TESSERA_RUNTIME_DATA_WORKERPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tessera::rt {

class WorkerPool {
public:
  using Work = std::function<void(int worker, int64_t item)>;

  explicit WorkerPool(int threads) {
    try {
      for (int worker = 1; worker < threads; ++worker)
        threads_.emplace_back([this, worker] { serve(worker); });
    } catch (const std::system_error &) {
      return; // The system gives no more threads. Those that exist do the work.
    }
  }
  ~WorkerPool() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread &thread : threads_)
      thread.join();
  }
  int size() const { return int(threads_.size()) + 1; }

  void run(int64_t items, const Work &work) {
    {
      std::lock_guard lock(mutex_);
      work_ = &work;
      items_ = items;
      next_ = 0;
      busy_ = int(threads_.size());
      ++round_;
    }
    wake_.notify_all();
    take(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
  }

private:
  void take(int worker) {
    for (int64_t i; (i = next_++) < items_;)
      (*work_)(worker, i);
  }
  void serve(int worker) {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
      if (stopping_)
        return;
      seen = round_;
      lock.unlock();
      take(worker);
      lock.lock();
      if (--busy_ == 0)
        done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  const Work *work_ = nullptr;
  std::atomic<int64_t> next_ = 0;
  int64_t items_ = 0;
  int busy_ = 0;
  uint64_t round_ = 0;
  bool stopping_ = false;
};

} // namespace tessera::rt

#endif
