#include "runtime/plan/PlanParts.h"

#include "runtime/plan/plan.pb.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

namespace tessera::rt {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

/// Calls `found` for every occurrence of a field that holds messages; false where the bytes are no protobuf message.
template <typename Found> bool forEachField(std::string_view bytes, Found found) {
  CodedInputStream stream(reinterpret_cast<const uint8_t *>(bytes.data()), int(bytes.size()));
  while (uint32_t tag = stream.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&stream, tag))
        return false;
      continue;
    }
    uint32_t size = 0;
    if (!stream.ReadVarint32(&size))
      return false;
    const auto at = size_t(stream.CurrentPosition());
    if (size > bytes.size() - at || !stream.Skip(int(size)) ||
        !found(WireFormatLite::GetTagFieldNumber(tag), bytes.substr(at, size)))
      return false;
  }
  return stream.ConsumedEntireMessage();
}

} // namespace

std::optional<PlanParts> partsOf(std::string_view bytes) {
  PlanParts parts;
  const bool whole = forEachField(bytes, [&](int field, std::string_view part) {
    if (field == plan::Plan::kBuffersFieldNumber)
      parts.buffers.push_back(part);
    if (field != plan::Plan::kProgramsFieldNumber)
      return true;
    std::vector<std::string_view> &steps = parts.steps.emplace_back();
    return forEachField(part, [&](int inner, std::string_view step) {
      if (inner == plan::Program::kStepsFieldNumber)
        steps.push_back(step);
      return true;
    });
  });
  if (!whole)
    return std::nullopt;
  return parts;
}

} // namespace tessera::rt
