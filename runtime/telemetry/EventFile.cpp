#include "runtime/telemetry/EventFile.h"

#include <chrono>
#include <cstring>
#include <unistd.h>

namespace tessera::rt {
namespace {

/// CRC-32C: the polynomial of Castagnoli, reflected.
uint32_t crc32c(const std::string &bytes) {
  uint32_t crc = ~uint32_t(0);
  for (char byte : bytes) {
    crc ^= uint8_t(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

template <typename T> std::string littleEndian(T value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

std::string masked(const std::string &bytes) {
  const uint32_t crc = crc32c(bytes);
  return littleEndian<uint32_t>((crc >> 15 | crc << 17) + 0xa282ead8u);
}

// Protocol buffers' wire format: a field is its number and kind, then its value.
std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 128; value >>= 7)
    text += char(value | 128);
  return text + char(value);
}
enum Wire { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };
std::string field(uint64_t number, Wire wire, const std::string &value) {
  return varint(number << 3 | wire) + (wire == Bytes ? varint(value.size()) + value : value);
}

std::string wallTime() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return field(1, Fixed64, littleEndian(std::chrono::duration<double>(since).count()));
}

} // namespace

Result<EventFile> EventFile::create(const std::string &folder) {
  TESSERA_RETURN_IF_ERROR(makeDirectory(folder));
  char host[64] = "localhost";
  if (gethostname(host, sizeof host - 1) != 0)
    std::strcpy(host, "localhost");
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const auto micro = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  // TensorBoard takes the files of a folder in the order of their names.
  Result<PlacedFile> file =
      PlacedFile::open(folder + "/events.out.tfevents." + std::to_string(micro / 1000000) + "." + host + "." +
                       std::to_string(getpid()) + "." + std::to_string(micro % 1000000));
  if (!file)
    return file.status();
  EventFile events(std::move(*file));
  TESSERA_RETURN_IF_ERROR(events.append(wallTime() + field(3, Bytes, "brain.Event:2")));
  return events;
}

Status EventFile::scalars(int64_t step, const std::vector<std::pair<std::string, double>> &values) {
  std::string summary;
  for (const auto &[tag, value] : values)
    summary += field(1, Bytes, field(1, Bytes, tag) + field(2, Fixed32, littleEndian(float(value))));
  return append(wallTime() + field(2, Varint, varint(uint64_t(step))) + field(5, Bytes, summary));
}

Status EventFile::append(const std::string &event) {
  const std::string length = littleEndian<uint64_t>(event.size());
  const std::string record = length + masked(length) + event + masked(event);
  TESSERA_RETURN_IF_ERROR(file_.writeAt(bytes_, record.data(), record.size()));
  bytes_ += record.size();
  return Status();
}

} // namespace tessera::rt
