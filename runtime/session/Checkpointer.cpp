#include "runtime/session/Checkpointer.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>

namespace tessera::rt {
Checkpointer::Checkpointer(Executor &executor, const std::vector<plan::Plan> &plans, CheckpointOptions options)
    : executor_(executor), options_(std::move(options)), me_(int(executor.plan().rank())), ranks_(int(plans.size())),
      tensors_(plans), shares_(sharesOf(tensors_)),
      manifest_(describe(tensors_, shares_, options_.integrated,
                         [&](int tensor) { return executor.heldType(tensors_.type(tensor)); })) {}

Checkpointer::~Checkpointer() {
  if (thread_.joinable())
    thread_.join();
}

void Checkpointer::launch(Stage stage, std::function<Status()> work) {
  stage_ = stage;
  running_ = true;
  thread_ = std::thread([this, work = std::move(work)] {
    outcome_ = work();
    running_ = false;
  });
}

Status Checkpointer::join() {
  if (thread_.joinable())
    thread_.join();
  return std::exchange(outcome_, Status()).context("checkpoint of step " + std::to_string(lastStep_));
}

Status Checkpointer::snapshot() {
  std::vector<char> fetched;
  for (const Share &share : shares_) {
    if (share.rank != me_)
      continue;
    const int binding = tensors_.on(size_t(me_), share.tensor);
    TESSERA_RETURN_IF_ERROR(executor_.fetch(binding, fetched));
    // In every dimension of its buffer, the rank's own elements come first and the padding follows.
    const plan::Buffer &buffer = executor_.plan().buffers(int(executor_.plan().bindings(binding).buffer()));
    const Block own = wholeBlock(share.block.shape), padded = wholeBlock(toVector(buffer.shape()));
    if (own == padded) {
      held_.push_back(std::move(fetched));
      fetched = {};
      continue;
    }
    const plan::DType type = executor_.heldType(binding);
    std::vector<char> &packed = held_.emplace_back(bytesOf(own.shape, type).value_or(0));
    copyBlock(fetched.data(), padded, packed.data(), own, bytesPerElement(type));
  }
  return Status();
}

Status Checkpointer::start(const RunPosition &position, const DataState &data) {
  TESSERA_RETURN_IF_ERROR(finish());
  if (fileBytes_.empty()) {
    const std::vector<std::vector<NamedTensor>> held = manifest_.tensorsByFile();
    for (size_t file = 0; file < manifest_.files.size(); ++file) {
      Result<SafetensorsLayout> layout = Manifest::layoutOf(held[file]);
      if (!layout)
        return layout.status().context(manifest_.files[file].name);
      fileBytes_.push_back(layout->bytes);
      FileSums &sums = manifest_.files[file].sums;
      sums = {layout->bytes, std::vector<uint32_t>(FileSums::count(layout->bytes))};
    }
    if (me_ == 0) // an error shows now, and not after all has been written
      if (Result<std::string> text = manifestText(manifest_); !text)
        return text.status().context(options_.folder);
  }
  lastStep_ = position.step;
  manifest_.position = position;
  manifest_.data = data;
  held_.clear();
  TESSERA_RETURN_IF_ERROR(snapshot());
  if (me_ == 0)
    if (Result<std::string> folder = beginCheckpoint(options_.folder, position.step); !folder)
      return folder.status();
  TESSERA_RETURN_IF_ERROR(executor_.everyone().barrier()); // from here on the folder exists
  launch(Stage::Write, [this] { return writeShares(); });
  return Status();
}

Status Checkpointer::writeShares() {
  CheckpointWriter writer(partialPath(options_.folder, lastStep_), manifest_);
  const std::string mine = rankFile(me_);
  for (size_t file = 0; file < manifest_.files.size(); ++file)
    if (options_.integrated ? me_ == 0 : manifest_.files[file].name == mine)
      TESSERA_RETURN_IF_ERROR(writer.begin(file));
  size_t next = 0;
  for (const Share &share : shares_)
    if (share.rank == me_) {
      TESSERA_RETURN_IF_ERROR(writer.write(nameOf(share.tensor), share.block, held_[next].data()));
      std::vector<char>().swap(held_[next++]); // frees the memory
    }
  return writer.sync();
}

Status Checkpointer::sumShare() {
  // Every rank sums an equal part of every file. Where the file system is local, the files are
  // still in the page cache.
  size_t base = 0;
  for (size_t f = 0; f < manifest_.files.size(); ++f) {
    const uint64_t chunks = FileSums::count(fileBytes_[f]), ranks = uint64_t(ranks_), me = uint64_t(me_);
    const uint64_t first = chunks * me / ranks, end = chunks * (me + 1) / ranks;
    if (first < end) {
      Result<InputFile> file = InputFile::open(partialPath(options_.folder, lastStep_) + "/" + manifest_.files[f].name);
      if (!file)
        return file.status();
      Result<std::vector<uint32_t>> sums = sumChunks(*file, first, end - first);
      if (!sums)
        return sums.status();
      std::copy(sums->begin(), sums->end(), sums_.begin() + int64_t(base + first));
    }
    base += chunks;
  }
  return Status();
}

Status Checkpointer::exchangeSums() {
  TESSERA_RETURN_IF_ERROR(
      executor_.everyone().allReduce(sums_.data(), sums_.data(), sums_.size(), plan::I64, plan::SUM));
  size_t next = 0;
  for (size_t f = 0; f < manifest_.files.size(); ++f) {
    FileSums &sums = manifest_.files[f].sums;
    sums.bytes = fileBytes_[f];
    sums.chunks.clear();
    for (uint64_t i = 0; i < FileSums::count(sums.bytes); ++i)
      sums.chunks.push_back(uint32_t(sums_[next++]));
  }
  return Status();
}

Status Checkpointer::advance() {
  TESSERA_RETURN_IF_ERROR(join());
  switch (stage_) {
  case Stage::Idle:
    break;
  case Stage::Write: {
    uint64_t chunks = 0;
    for (uint64_t bytes : fileBytes_)
      chunks += FileSums::count(bytes);
    sums_.assign(chunks, 0);
    launch(Stage::Sum, [this] { return sumShare(); });
    break;
  }
  case Stage::Sum:
    TESSERA_RETURN_IF_ERROR(exchangeSums());
    launch(Stage::Commit,
           [this] { return me_ == 0 ? commitCheckpoint(options_.folder, manifest_, options_.keep) : Status(); });
    break;
  case Stage::Commit:
    stage_ = Stage::Idle;
    break;
  }
  return Status();
}

Status Checkpointer::finish() {
  while (busy()) {
    if (thread_.joinable())
      thread_.join();
    // A rank whose part failed ends here; the other ranks learn of it at the barrier.
    if (!outcome_)
      return join();
    TESSERA_RETURN_IF_ERROR(executor_.everyone().barrier());
    TESSERA_RETURN_IF_ERROR(advance());
  }
  return Status();
}

} // namespace tessera::rt
