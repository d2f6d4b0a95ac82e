#include "runtime/data/Prefetch.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

namespace tessera::rt {
namespace {

class PrefetchingSource : public DataSource {
public:
  PrefetchingSource(std::unique_ptr<BatchProducer> producer, std::vector<uint64_t> requestBytes, int64_t batchSize,
                    int depth, DataOptions::Produced produced)
      : producer_(std::move(producer)), requestBytes_(std::move(requestBytes)), batchSize_(batchSize), depth_(depth),
        produced_(std::move(produced)) {}
  ~PrefetchingSource() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable())
      thread_.join();
  }

  Status next(const std::vector<void *> &hostBuffers) override;
  int64_t batchesPerEpoch() const override { return producer_->batchesPerEpoch(); }
  int64_t batchSize() const override { return batchSize_; }
  Status seek(int64_t batch) override;
  std::string describe() const override { return producer_->describe(); }
  std::vector<std::string> takeNotices() override { return producer_->takeNotices(); }

private:
  struct Prepared {
    std::vector<std::unique_ptr<char[]>> buffers;
    Status status;
  };

  Status produce(int64_t batch, const std::vector<void *> &buffers) {
    if (!produced_)
      return producer_->produce(batch, buffers);
    const auto begin = std::chrono::steady_clock::now();
    Status status = producer_->produce(batch, buffers);
    produced_(batch, begin, std::chrono::steady_clock::now());
    return status;
  }
  void run();
  /// Drops the prepared batches; the thread goes on at position_. The caller holds the lock.
  void restart() {
    while (!ready_.empty()) {
      spare_.push_back(std::move(ready_.front()));
      ready_.pop_front();
    }
    begun_ = position_;
    ++generation_;
  }

  const std::unique_ptr<BatchProducer> producer_;
  const std::vector<uint64_t> requestBytes_;
  const int64_t batchSize_;
  const int depth_;
  const DataOptions::Produced produced_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
  std::deque<Prepared> ready_, spare_; // batches position_, position_ + 1, ...; buffers for reuse
  int64_t position_ = 0;               // the batch that next() gives next
  int64_t begun_ = 0;                  // the batch that the thread prepares next
  uint64_t generation_ = 0;            // counts restarts; batches begun before the last one are dropped
  bool stopping_ = false;
};

void PrefetchingSource::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] {
      return stopping_ || (int(ready_.size()) < depth_ && (ready_.empty() || ready_.back().status.ok()));
    });
    if (stopping_)
      return;
    Prepared batch;
    if (!spare_.empty()) {
      batch = std::move(spare_.front());
      spare_.pop_front();
    }
    const int64_t number = begun_;
    const uint64_t generation = generation_;
    lock.unlock();
    if (batch.buffers.empty())
      for (uint64_t bytes : requestBytes_)
        batch.buffers.push_back(std::make_unique_for_overwrite<char[]>(bytes));
    std::vector<void *> buffers;
    for (auto &buffer : batch.buffers)
      buffers.push_back(buffer.get());
    batch.status = produce(number, buffers);
    lock.lock();
    if (generation == generation_) {
      ready_.push_back(std::move(batch));
      ++begun_;
      wake_.notify_all();
    } else {
      spare_.push_back(std::move(batch));
    }
  }
}

Status PrefetchingSource::next(const std::vector<void *> &hostBuffers) {
  if (hostBuffers.size() != requestBytes_.size())
    return Status::error("the data source fills " + std::to_string(requestBytes_.size()) + " buffers, not " +
                         std::to_string(hostBuffers.size()));
  if (depth_ == 0) {
    Status status = produce(position_, hostBuffers);
    position_ += status.ok();
    return status;
  }
  std::unique_lock lock(mutex_);
  if (!thread_.joinable())
    thread_ = std::thread([this] { run(); });
  wake_.wait(lock, [&] { return !ready_.empty(); });
  if (!ready_.front().status.ok()) {
    Status status = ready_.front().status;
    restart(); // a later next() tries again
    wake_.notify_all();
    return status;
  }
  Prepared batch = std::move(ready_.front());
  ready_.pop_front();
  ++position_;
  wake_.notify_all(); // there is room for another
  lock.unlock();
  for (size_t i = 0; i < requestBytes_.size(); ++i)
    std::memcpy(hostBuffers[i], batch.buffers[i].get(), requestBytes_[i]);
  lock.lock();
  spare_.push_back(std::move(batch));
  return Status();
}

Status PrefetchingSource::seek(int64_t batch) {
  if (batch < 0)
    return Status::error("cannot go to batch " + std::to_string(batch));
  std::lock_guard lock(mutex_);
  if (batch != position_) {
    position_ = batch;
    restart();
    wake_.notify_all();
  }
  return Status();
}

} // namespace

std::unique_ptr<DataSource> prefetch(std::unique_ptr<BatchProducer> producer, std::vector<uint64_t> requestBytes,
                                     int64_t batchSize, int depth, DataOptions::Produced produced) {
  return std::make_unique<PrefetchingSource>(std::move(producer), std::move(requestBytes), batchSize, depth,
                                             std::move(produced));
}

} // namespace tessera::rt
