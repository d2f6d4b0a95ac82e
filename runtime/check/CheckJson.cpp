// The report of a check for other programs.
#include "runtime/check/Check.h"

#include <nlohmann/json.hpp>

namespace tessera::rt {
namespace {

using Json = nlohmann::ordered_json;

/// A number that was not measured is null.
Json measured(double value) { return value > 0 ? Json(value) : Json(); }
Json known(int64_t bytes) { return bytes >= 0 ? Json(bytes) : Json(); }

Json rankJson(const CheckReport &report, size_t rank) {
  const RankFacts &own = report.ranks[rank];
  Json json = {{"rank", rank},
               {"host", report.hosts[size_t(report.hostOf[rank])]},
               {"version", own.version},
               {"libraries", own.libraries},
               {"plan", own.plan},
               {"cores", own.cores},
               {"free_memory", known(own.freeMemory)},
               {"needed_memory", own.neededMemory}};
  if (report.checkpoints) {
    json["free_disk"] = known(own.freeDisk);
    json["checkpoint"] = own.checkpoint;
  }
  if (report.devices)
    json["device"] = own.device;
  if (!report.clockAhead.empty())
    json["clock_ahead_seconds"] = report.clockAhead[rank];
  if (own.fault[0])
    json["fault"] = own.fault;
  return json;
}

} // namespace

std::string checkJson(const CheckReport &report) {
  Json json = {{"hosts", report.hosts}, {"ranks", Json::array()}, {"links", Json::array()}};
  for (size_t r = 0; r < report.ranks.size(); ++r)
    json["ranks"].push_back(rankJson(report, r));
  for (const HostLink &link : report.links)
    json["links"].push_back({{"from", report.hosts[size_t(link.from)]},
                             {"to", report.hosts[size_t(link.to)]},
                             {"bytes_per_second", measured(link.bytesPerSecond)}});
  for (const std::vector<double> &row : report.latency) {
    json["latency_seconds"].push_back(Json::array());
    for (double seconds : row)
      json["latency_seconds"].back().push_back(measured(seconds));
  }
  json["groups"] = Json::array();
  for (const GroupTime &group : report.groups)
    json["groups"].push_back({{"name", group.name},
                              {"ranks", group.ranks},
                              {"all_reduce",
                               {{{"bytes", kShortReduce}, {"seconds", group.shortSeconds}},
                                {{"bytes", report.longReduce}, {"seconds", group.longSeconds}}}}});
  json["seconds"] = report.seconds;
  json["wrong"] = checkFaults(report);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace tessera::rt
