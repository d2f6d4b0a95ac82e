//===- ReportFields.h - fields of a report that is not trusted ------------------------------------===//
//
// A report may be damaged. A field that is absent or has another type gives the default.
//
//   number({"cost_ns": 5}, "cost_ns") = 5        number({"cost_ns": "five"}, "cost_ns") = 0
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_REPORTFIELDS_H
#define TESSERA_TOOLS_DUMP_REPORTFIELDS_H

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include <string>

namespace tessera {

using Json = nlohmann::ordered_json;

inline std::string text(const Json &object, const char *field) {
  return object.is_object() && object.contains(field) && object[field].is_string() ? object[field].get<std::string>()
                                                                                   : std::string();
}
inline double number(const Json &object, const char *field) {
  return object.is_object() && object.contains(field) && object[field].is_number() ? object[field].get<double>() : 0.0;
}

/// The predicted time of a function of the report, ns. Reports of older compilers have only its work.
inline double predictedNs(const Json &function) {
  const double predicted = number(function, "predicted_ns");
  return predicted > 0 ? predicted : number(function, "compute_ns") + number(function, "communication_ns");
}

/// How the predicted time of a function follows from its compute and its communication, in a word.
inline const char *ofItsWork(const Json &report, const Json &function) {
  return report.contains("pipeline")                           ? " by all stages, of"
         : function.is_object() && function.contains("beside") ? " beside each other, of"
                                                               : " =";
}

/// How often a step runs a collective of the report.
inline uint64_t timesOf(const Json &collective) { return uint64_t(std::max(1.0, number(collective, "times"))); }

inline const Json &list(const Json &object, const char *field) {
  static const Json empty = Json::array();
  return object.is_object() && object.contains(field) && object[field].is_array() ? object[field] : empty;
}

/// A time of the report for people.
inline std::string ms(double ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f ms", ns / 1e6);
  return text;
}

inline std::string percent(double part) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

/// A column of a table: at least so wide, and a space before the next one.
inline std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text + " ";
}

} // namespace tessera

#endif
