#include "strategies/time/JsonReader.h"

namespace tessera::strategies {

bool parseJson(const std::string &text, int deepest, Json &json, std::string &error) {
  bool deep = false;
  json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t event, Json &) {
        deep |= depth > deepest;
        return depth <= deepest || event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end;
      },
      /*allow_exceptions=*/false);
  if (!json.is_discarded() && !deep)
    return true;
  error = deep ? "the JSON is nested too deeply" : "is no JSON";
  return false;
}

} // namespace tessera::strategies
