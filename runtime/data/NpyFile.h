//===- NpyFile.h - NumPy array files ----------------------------------------------------------===//
//
//   Result<NpyFile> file = NpyFile::open("x.npy");
//   // file->shape() == {100, 3, 32, 32}; rows 10..19 of all images:
//   status = file->readBox({0, 0, 10, 0}, {100, 3, 10, 32}, buffer);
//
//   status = writeNpy("y.npy", plan::F32, {2, 3}, data);
//
//   Result<NpyWriter> writer = NpyWriter::create("y.npy", plan::F32, {4, 3});   // in pieces
//   status = writer->writeBox({2, 0}, {2, 3}, lowerHalf);  ...
//   status = writer->commit();
//
// Only the boxes are read, when they are asked for; a file that shrank meanwhile is an error. A written
// file appears under its name only when it is complete.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_NPYFILE_H
#define TESSERA_RUNTIME_DATA_NPYFILE_H

#include "runtime/data/NpyHeader.h"
#include "runtime/support/File.h"

namespace tessera::rt {

/// Reads the header and checks that the file has as many bytes as the header says. `ids` is that of parseNpyHeader.
Result<NpyHeader> readNpyHeader(const InputFile &file, bool ids = false);

class NpyFile {
public:
  /// Every message begins with the path.
  static Result<NpyFile> open(const std::string &path);

  const std::string &path() const { return path_; }
  plan::DType dtype() const { return header_.dtype; }
  const std::vector<int64_t> &shape() const { return header_.shape; }
  /// The size of all elements in bytes.
  uint64_t bytes() const { return header_.dataBytes; }

  /// Copies a box to `out`, packed, row-major.
  Status readBox(const std::vector<int64_t> &offset, const std::vector<int64_t> &shape, void *out) const;

private:
  NpyFile(std::string path, InputFile file, NpyHeader header)
      : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)) {}
  std::string path_;
  InputFile file_;
  NpyHeader header_;
};

class NpyWriter {
public:
  static Result<NpyWriter> create(const std::string &path, plan::DType dtype, const std::vector<int64_t> &shape);
  /// Writes a packed, row-major box. Elements that no box covers are zero.
  Status writeBox(const std::vector<int64_t> &offset, const std::vector<int64_t> &shape, const void *data);
  Status commit() { return file_.commit(); }

private:
  NpyWriter(std::string path, AtomicFile file, std::vector<int64_t> shape, uint64_t elementSize, uint64_t dataOffset)
      : path_(std::move(path)), file_(std::move(file)), shape_(std::move(shape)), elementSize_(elementSize),
        dataOffset_(dataOffset) {}
  std::string path_;
  AtomicFile file_;
  std::vector<int64_t> shape_;
  uint64_t elementSize_, dataOffset_;
};

Status writeNpy(const std::string &path, plan::DType dtype, const std::vector<int64_t> &shape, const void *data);

} // namespace tessera::rt

#endif
