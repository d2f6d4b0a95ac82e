//===- JsonReader.h - members of JSON files that may come from anywhere ---------------------------===//
//
//   Json json;
//   if (!parseJson(text, 8, json, error))
//     return fail(error);
//   JsonReader read;
//   const int64_t duration = read.whole(json, "duration", "task 3", 0);
//   if (!read.error.empty())
//     return fail(read.error);                   // "task 3: 'duration' is no whole number"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_JSONREADER_H
#define TESSERA_STRATEGIES_TIME_JSONREADER_H

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tessera::strategies {

using Json = nlohmann::json;

/// Deeper nesting is refused while the text is read. Returns false with a sentence in `error`.
bool parseJson(const std::string &text, int deepest, Json &json, std::string &error);

/// Reads members; remembers the first that is wrong.
struct JsonReader {
  std::string error;

  void fail(const std::string &what) {
    if (error.empty())
      error = what;
  }
  int64_t whole(const Json &value, const std::string &what) {
    if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t(INT64_MAX)))
      return value.get<int64_t>();
    fail(what + " is no whole number");
    return 0;
  }
  int64_t whole(const Json &object, const char *key, const std::string &where, int64_t missing) {
    auto it = object.find(key);
    return it == object.end() ? missing : whole(*it, where + ": '" + key + "'");
  }
  double number(const Json &object, const char *key, const std::string &where, double missing) {
    auto it = object.find(key);
    if (it == object.end())
      return missing;
    if (it->is_number())
      return it->get<double>();
    fail(where + ": '" + key + "' is no number");
    return missing;
  }
  int index(const Json &value, const std::string &what) {
    int64_t n = whole(value, what);
    if (n < 0 || n > INT32_MAX)
      fail(what + " is out of range");
    return int(n);
  }
  int index(const Json &object, const char *key, const std::string &where) {
    auto it = object.find(key);
    if (it != object.end())
      return index(*it, where + ": '" + key + "'");
    fail(where + ": '" + key + "' is missing");
    return 0;
  }
  std::string text(const Json &value, const std::string &what) {
    if (value.is_string())
      return value.get<std::string>();
    fail(what + " is no text");
    return "";
  }
  std::string text(const Json &object, const char *key, const std::string &where) {
    auto it = object.find(key);
    return it == object.end() ? "" : text(*it, where + ": '" + key + "'");
  }
  /// The list under the key; an empty one if it is missing.
  const Json &list(const Json &object, const char *key, const std::string &where) {
    static const Json empty = Json::array();
    auto it = object.find(key);
    if (it == object.end())
      return empty;
    if (it->is_array())
      return *it;
    fail(where + (where.empty() ? "" : ": ") + "'" + key + "' is no list");
    return empty;
  }
  bool isObject(const Json &value, const std::string &what) {
    if (!value.is_object())
      fail(what + " is no object");
    return value.is_object();
  }
};

/// What a file says. `name` is the file's; `deepest`: see parseJson. `read` makes it of the reader and the JSON, and
/// `check` says what is wrong with it. Nothing, with a sentence in `error`, if a member or the whole is wrong.
template <typename T>
std::optional<T> readChecked(const std::string &text, const std::string &name, int deepest, std::string &error,
                             T (*read)(JsonReader &, const Json &), std::string (*check)(const T &)) {
  Json json;
  JsonReader reader;
  if (!parseJson(text, deepest, json, reader.error)) {
    error = name + ": " + reader.error;
    return std::nullopt;
  }
  T value = read(reader, json);
  if (reader.error.empty())
    reader.error = check(value);
  if (reader.error.empty())
    return value;
  error = name + ": " + reader.error;
  return std::nullopt;
}

} // namespace tessera::strategies

#endif
