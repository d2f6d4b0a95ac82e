#include "runtime/session/RunCheckpoints.h"

#include "runtime/checkpoint/Folder.h"
#include "runtime/support/File.h"

namespace tessera::rt {

RunCheckpoints::RunCheckpoints(Session &session, const DataSource &data) : s_(session), data_(data) {
  const RunOptions &o = s_.options;
  if (!o.checkpointDir.empty())
    writer_.emplace(s_.executor, s_.plan.ranks, CheckpointOptions{o.checkpointDir, o.keep, o.integrated});
}

Status RunCheckpoints::check() const {
  if (!writer_ || !s_.leader())
    return Status();
  TESSERA_RETURN_IF_ERROR(makeDirectory(s_.options.checkpointDir)); // an error shows now, and not after hours
  TESSERA_RETURN_IF_ERROR(checkWritable(s_.options.checkpointDir + "/checkpoint"));
  std::vector<int64_t> steps = listCheckpoints(s_.options.checkpointDir);
  if (steps.empty() || steps.back() <= s_.firstStep())
    return Status();
  return Status::error(checkpointPath(s_.options.checkpointDir, steps.back()) +
                       ": is of another run, or of a later step than this one begins with; go on "
                       "with --resume " +
                       s_.options.checkpointDir + ", or give another folder to --checkpoint-dir");
}

bool RunCheckpoints::due() const {
  return writer_ && s_.leader() && s_.options.checkpointSeconds > 0 &&
         now() - lastTime_ >= s_.options.checkpointSeconds;
}

bool RunCheckpoints::hasFirst() const { return fileExists(checkpointPath(s_.options.checkpointDir, s_.firstStep())); }

int64_t RunCheckpoints::lastStep() const { return writer_->lastStep() >= 0 ? writer_->lastStep() : s_.firstStep(); }

Status RunCheckpoints::step(int64_t step, int64_t batches, bool due, bool everyoneReady) {
  if (!writer_)
    return Status();
  if (everyoneReady)
    TESSERA_RETURN_IF_ERROR(writer_->advance());
  if (step == lastStep()) // the step was left out, or the run went back to it
    return Status();
  const RunOptions &o = s_.options;
  const bool each = o.checkpointEvery > 0     ? step % o.checkpointEvery == 0
                    : o.checkpointSeconds > 0 ? false
                                              : batches % data_.batchesPerEpoch() == 0;
  return each || due ? start(step, batches) : Status();
}

Status RunCheckpoints::finish(int64_t step, int64_t batches) {
  if (!writer_)
    return Status();
  // A run without steps keeps the checkpoint that it began with.
  const bool there = step == s_.firstStep() && hasFirst();
  if (writer_->lastStep() != step && !there)
    TESSERA_RETURN_IF_ERROR(start(step, batches));
  return writer_->finish();
}

Status RunCheckpoints::begin(int64_t step, int64_t batches) {
  return writer_ && !hasFirst() ? start(step, batches) : Status();
}

Result<std::string> RunCheckpoints::last() {
  TESSERA_RETURN_IF_ERROR(writer_->finish());
  return checkpointPath(s_.options.checkpointDir, lastStep());
}

Status RunCheckpoints::start(int64_t step, int64_t batches) {
  lastTime_ = now();
  auto batch = int64_t(s_.executor.plan().global_batch());
  const DataOptions options = s_.dataOptions(true);
  return writer_->start({step, batches / data_.batchesPerEpoch(), batches % data_.batchesPerEpoch() * batch, batch},
                        {s_.options.data, options.seed, options.shuffle, options.augment});
}

} // namespace tessera::rt
