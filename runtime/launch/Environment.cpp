#include "runtime/launch/Environment.h"

#include <charconv>
#include <cstring>

namespace tessera::rt {

Result<int> numberIn(const Environment &get, const char *name, int most, std::optional<int> otherwise,
                     const char *beside) {
  const char *text = get(name);
  if (!text && otherwise)
    return *otherwise;
  if (!text)
    return Status::error(std::string(name) + " is not set in the environment, though " + beside + " is");
  int value = -1;
  const auto parsed = std::from_chars(text, text + std::strlen(text), value);
  if (parsed.ec != std::errc() || *parsed.ptr != 0 || value < 0 || value > most)
    return Status::error(std::string(name) + "=" + text + " in the environment is no number from 0 to " +
                         std::to_string(most));
  return value;
}

} // namespace tessera::rt
