//===- Feed.h - the batches of one program on their way into its buffers ----------------------------------===//
//
//   Result<Feed> feed = Feed::open(executor, tensors, "train", "npy:x.npy,y.npy", options);
//   while (...) {
//     feed->next();
//     executor.run(program, [&] { feed->ahead(); });   // a device works on one batch while the next is on its way
//   }
//
// On a device batches are read into pinned memory and copied while the program runs (InputPath); on the host the source
// reads ahead by itself and next() copies.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_FEED_H
#define TESSERA_RUNTIME_SESSION_FEED_H

#include "runtime/data/DataSource.h"
#include "runtime/executor/Executor.h"
#include "runtime/tensor/BoundTensors.h"

#include <optional>

namespace tessera::rt {

class Feed {
public:
  /// `tensors`: those of all ranks, which may feed other parts of a batch.
  static Result<Feed> open(Executor &executor, const BoundTensors &tensors, const std::string &program,
                           const std::string &spec, const DataOptions &options);
  /// Feeds the next batch: the one that ahead() read, if it did.
  Status next();
  /// Reads the batch after this one and starts to copy it. next() returns the error if there is one.
  void ahead();
  /// next() feeds batch number `batch` of the source, whatever ahead() has read.
  Status seek(int64_t batch) {
    ahead_.reset();
    return source_->seek(batch);
  }
  /// Feeds the batch of the last next() once more, since a run may have overwritten its buffers.
  Status again();
  DataSource &source() { return *source_; }

private:
  /// One tensor of a batch.
  struct Entry {
    int binding;                        // -1: only other stages read it
    std::vector<int64_t> shape, extent; // of the buffer, and of its part that is not padding
    plan::DType type, held;             // the element types of the source and of the buffer
    size_t bytes;                       // that the source writes
    bool direct() const { return shape == extent && type == held; }
  };
  Status read(int set);
  const char *padded(const Entry &entry, const char *from);
  /// The buffers of the next batch: one of two sets on a device, and the only set on the host.
  int other() const { return path_ ? 1 - current_ : 0; }

  Executor *executor_ = nullptr;
  std::unique_ptr<DataSource> source_;
  std::unique_ptr<InputPath> path_; // null: batches are uploaded
  std::vector<Entry> entries_;
  std::vector<std::vector<char>> read_[2]; // by set and entry; empty where the source writes to the path's memory
  std::vector<char> padded_;
  std::optional<Status> ahead_; // the outcome of reading the other set
  int current_ = 0;
  int sent_ = -1; // the set that was last given to the path
};

} // namespace tessera::rt

#endif
