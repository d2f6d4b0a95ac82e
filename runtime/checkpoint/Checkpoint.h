//===- Checkpoint.h - reading and writing the tensors of a checkpoint -------------------------===//
//
// Tensors are written and read by blocks. A reader asks for its own blocks and need not know which blocks were written.
//
//   Result<Checkpoint> old = Checkpoint::open("run/step-00000030");
//   old->read("fc.weight", {{0, 2}, {8, 2}}, plan::F32, columns);   // from whichever files have them
//
//   CheckpointWriter writer("run/.step-00000060.partial", manifest);
//   writer.write("fc.weight", {{0, 2}, {8, 2}}, columns);           // into whichever files want them
//   writer.sync();
//
// A reader opens only the files that it needs. It reads only the chunks that it needs and verifies their checksums.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define TESSERA_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/checkpoint/Manifest.h"

#include <memory>

namespace tessera::rt {

class Checkpoint : public TensorSource {
public:
  /// Reads the manifest in a checkpoint's folder and checks that its files exist and have their sizes.
  static Result<Checkpoint> open(const std::string &folder);

  const Manifest &manifest() const { return manifest_; }
  /// How many of its files stay open, with their headers read: one that is opened again costs reading its header again.
  void keepOpen(size_t files) { mostOpen_ = files; }
  const std::string &path() const override { return folder_; }
  std::vector<std::string> names() const override;
  std::optional<TensorType> typeOf(const std::string &name) const override;
  Status read(const std::string &name, const Block &block, plan::DType type, void *out) const override;

  /// Checks that a file holds a piece of a tensor as the manifest says.
  Status check(const std::string &name, const Manifest::Piece &piece) const;

private:
  Checkpoint(std::string folder, Manifest manifest) : folder_(std::move(folder)), manifest_(std::move(manifest)) {}
  Result<const Safetensors *> file(size_t index) const;

  std::string folder_;
  Manifest manifest_;
  size_t mostOpen_ = 16; // per reader: there may be a reader per rank, and thousands of files
  mutable std::map<size_t, std::unique_ptr<Safetensors>> open_;
};

/// Writes into the files that a manifest describes. Several writers may write to one folder, each its own blocks, in
/// any order.
class CheckpointWriter {
public:
  CheckpointWriter(std::string folder, const Manifest &manifest) : folder_(std::move(folder)), manifest_(manifest) {}

  /// Gives a file its header and its size. Called once per file.
  Status begin(size_t file);
  /// Writes the elements of `block`, which are packed and in the tensor's type.
  Status write(const std::string &name, const Block &block, const void *data);
  /// Returns once everything that was written is on disk.
  Status sync();

private:
  struct Open {
    PlacedFile file;
    SafetensorsLayout layout;
    std::map<std::string, uint64_t> begins;
  };
  Result<Open *> open(size_t index);

  std::string folder_;
  const Manifest &manifest_;
  std::map<size_t, Open> open_;
};

} // namespace tessera::rt

#endif
