//===- EventFile.h - what TensorBoard reads ---------------------------------------------------===//
//
//   Result<EventFile> events = EventFile::create("runs/first");     // runs/first/events.out.tfevents...
//   status = events->scalars(100, {{"train/loss", 0.25}});           // after step 100
//
// The file is a sequence of TFRecords (length, its checksum, data, its checksum; the checksums are CRC-32C, rotated and
// shifted as TFRecord says), each an Event message of tensorflow/core/util/event.proto. Every record is written whole
// and at once, so that the file of a killed run is readable.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_EVENTFILE_H
#define TESSERA_RUNTIME_TELEMETRY_EVENTFILE_H

#include "runtime/support/File.h"

#include <vector>

namespace tessera::rt {

class EventFile {
public:
  /// Creates a new file in the folder, which is made if need be. Earlier files stay; TensorBoard reads them all.
  static Result<EventFile> create(const std::string &folder);
  Status scalars(int64_t step, const std::vector<std::pair<std::string, double>> &values);

private:
  explicit EventFile(PlacedFile file) : file_(std::move(file)) {}
  Status append(const std::string &event);
  PlacedFile file_;
  uint64_t bytes_ = 0;
};

} // namespace tessera::rt

#endif
