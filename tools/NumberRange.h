//===- NumberRange.h - numbers from the command line ----------------------------------------------===//
//
// CLI::Range lets NaN pass, which is neither too small nor too large, and a time limit of NaN never ends.
//
//   app.add_option("--seconds", seconds)->check(between(0, 1e6));
//   // tessera-solve FILE --seconds nan:  "--seconds: nan is no number from 0 to 1e+06"
//   app.add_option("--seed", seed)->check(notNegative());
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_NUMBERRANGE_H
#define TESSERA_TOOLS_NUMBERRANGE_H

#include <CLI/CLI.hpp>

#include <sstream>
#include <string>

namespace tessera {

inline CLI::Validator between(double least, double most) {
  std::ostringstream range;
  range << least << " to " << most;
  auto check = [least, most, text = range.str()](const std::string &given) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(given, value) && value >= least && value <= most)
      return "";
    return given + " is no number from " + text;
  };
  return CLI::Validator(check, "from " + range.str(), "BETWEEN");
}

/// For options with unsigned numbers: CLI11 takes -1 for the largest number.
inline CLI::Validator notNegative() {
  return CLI::Validator(
      [](const std::string &text) {
        return CLI::detail::trim_copy(text).starts_with("-") ? "expected a whole number from 0 on, not '" + text + "'"
                                                             : std::string();
      },
      "");
}

} // namespace tessera

#endif
