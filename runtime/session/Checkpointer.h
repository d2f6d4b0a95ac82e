//===- Checkpointer.h - checkpoints while training goes on ------------------------------------===//
//
// start() copies the blocks that this rank has to write and returns; a thread of the rank writes
// them. A checkpoint has three stages: all ranks write their blocks, all ranks compute checksums of
// parts of the files, rank 0 writes the manifest and gives the checkpoint its name. A stage begins
// when every rank has ended the one before. The caller finds that out between two training steps,
// since the threads themselves use no communicator.
//
//   Checkpointer checkpointer(executor, plans, {.folder = "run", .keep = 3});
//   ...
//   TESSERA_RETURN_IF_ERROR(checkpointer.start(position, data));    // waits for an older one
//   ... a step ...
//   if (no rank has !checkpointer.ready())                          // agreed with the others
//     TESSERA_RETURN_IF_ERROR(checkpointer.advance());
//   ...
//   TESSERA_RETURN_IF_ERROR(checkpointer.finish());                 // at the end
//
// Layout.h says which rank writes what. Ranks of several machines need a folder that all of them
// see.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_CHECKPOINTER_H
#define TESSERA_RUNTIME_SESSION_CHECKPOINTER_H

#include "runtime/checkpoint/Layout.h"
#include "runtime/executor/Executor.h"

#include <atomic>
#include <functional>
#include <thread>

namespace tessera::rt {

struct CheckpointOptions {
  std::string folder;
  int64_t keep = 3;        // how many checkpoints stay in the folder; 0: all
  bool integrated = false; // whole tensors: model.safetensors, optimizer.safetensors
};

class Checkpointer {
public:
  /// `plans` are those of all ranks. They and the executor outlive this object.
  Checkpointer(Executor &executor, const std::vector<plan::Plan> &plans, CheckpointOptions options);
  ~Checkpointer();

  /// All ranks call this, as they do advance and finish.
  Status start(const RunPosition &position, const DataState &data);
  bool busy() const { return stage_ != Stage::Idle; }
  /// Whether this rank has ended its stage.
  bool ready() const { return !running_; }
  /// Begins the next stage. All ranks must be ready.
  Status advance();
  /// Waits until the checkpoint that was started has its name.
  Status finish();

  /// The step of the last checkpoint that was started, or -1.
  int64_t lastStep() const { return lastStep_; }

private:
  enum class Stage { Idle, Write, Sum, Commit };
  Status snapshot();
  void launch(Stage stage, std::function<Status()> work);
  Status join();
  Status writeShares();
  Status sumShare();
  Status exchangeSums();
  const std::string &nameOf(int tensor) const { return tensors_.binding(tensor).name(); }

  Executor &executor_;
  const CheckpointOptions options_;
  const int me_, ranks_;
  const BoundTensors tensors_;
  std::vector<Share> shares_;
  Manifest manifest_; // only position, data and checksums differ from time to time
  std::vector<uint64_t> fileBytes_;

  std::vector<std::vector<char>> held_; // the snapshot: this rank's shares
  std::vector<int64_t> sums_;           // by chunk of all files; 0 where another rank computes it
  Stage stage_ = Stage::Idle;
  std::thread thread_;
  std::atomic<bool> running_ = false;
  Status outcome_;
  int64_t lastStep_ = -1;
};

} // namespace tessera::rt

#endif
