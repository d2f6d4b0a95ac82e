//===- Environment.h - numbers in the variables of a launcher -------------------------------------===//
//
//   Result<int> rank = numberIn(get, "RANK", INT32_MAX, std::nullopt);
//   // RANK=x in the environment is no number from 0 to 2147483647
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_LAUNCH_ENVIRONMENT_H
#define TESSERA_RUNTIME_LAUNCH_ENVIRONMENT_H

#include "runtime/support/Status.h"

#include <functional>
#include <optional>

namespace tessera::rt {

/// Returns the value of a variable, or null where it is not set: std::getenv, or a test's table.
using Environment = std::function<const char *(const char *)>;

/// The number from 0 to `most` in a variable. Where the variable is not set, the result is `otherwise`. Without
/// `otherwise` it is an error, which names the variable `beside` that made this one necessary.
Result<int> numberIn(const Environment &get, const char *name, int most, std::optional<int> otherwise,
                     const char *beside = "RANK");

} // namespace tessera::rt

#endif
