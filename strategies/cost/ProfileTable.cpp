#include "strategies/cost/ProfileTable.h"

#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace tessera::strategies {

llvm::Expected<ProfileTable> ProfileTable::load(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::createStringError("profile %s: %s", path.str().c_str(),
                                   file.getError().message().c_str());
  return parse((*file)->getBuffer(), path);
}

llvm::Expected<ProfileTable> ProfileTable::parse(llvm::StringRef text, llvm::StringRef origin) {
  auto json = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object() || !json.contains("kernels") ||
      !json["kernels"].is_object())
    return llvm::createStringError("profile %s: expected a JSON object with a field 'kernels'",
                                   origin.str().c_str());
  ProfileTable table;
  for (const auto &item : json["kernels"].items()) {
    double s = item.value().is_number() ? item.value().get<double>() : -1;
    if (!(s >= 0 && s < 1e6))
      return llvm::createStringError("profile %s: the time of '%s' must be a number of seconds",
                                     origin.str().c_str(), item.key().c_str());
    table.seconds_[item.key()] = s;
  }
  return table;
}

std::string ProfileTable::kernelKey(llvm::StringRef kernel, llvm::ArrayRef<dist::Shape> operands,
                                    llvm::ArrayRef<dist::Shape> results, int elementBits) {
  auto list = [](llvm::ArrayRef<dist::Shape> shapes) {
    std::string text;
    for (size_t i = 0; i < shapes.size(); ++i) {
      text += i ? "," : "";
      for (size_t d = 0; d < shapes[i].size(); ++d)
        text += (d ? "x" : "") + std::to_string(shapes[i][d]);
    }
    return text;
  };
  return kernel.str() + " " + list(operands) + "->" + list(results) + " f" +
         std::to_string(elementBits);
}

std::optional<double> ProfileTable::seconds(const std::string &key) const {
  auto it = seconds_.find(key);
  return it == seconds_.end() ? std::nullopt : std::optional<double>(it->second);
}

} // namespace tessera::strategies
