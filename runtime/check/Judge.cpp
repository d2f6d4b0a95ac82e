// What the measurements mean: a table, and a sentence for whatever is wrong.
#include "runtime/check/Check.h"

#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

namespace tessera::rt {
namespace {

// Set by hand: what a busy machine or switch does is below them, what is broken is above.
constexpr double kLate = 5;            // a latency so many times the others',
constexpr double kLateSeconds = 0.001; // and so much longer
constexpr double kClock = 1;           // seconds between two clocks
constexpr size_t kMatrixHosts = 16, kSlowest = 16;

std::string format(const char *pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

/// 0 is not measured.
std::string bitsText(double bytesPerSecond) {
  if (bytesPerSecond <= 0)
    return "-";
  const double bits = 8 * bytesPerSecond;
  return bits >= 1e9   ? format("%.3g Gbit/s", bits / 1e9)
         : bits >= 1e6 ? format("%.3g Mbit/s", bits / 1e6)
                       : format("%.3g kbit/s", bits / 1e3);
}

/// 0 is not measured.
std::string milliseconds(double seconds) {
  if (seconds <= 0)
    return "-";
  return format(seconds < 0.1 ? "%.2f ms" : "%.0f ms", 1e3 * seconds);
}

/// "1 MiB", "64 KiB".
std::string sizeText(size_t bytes) {
  return bytes >= size_t(1) << 20 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

/// "a tenth", "1/37".
std::string partText(double part) {
  static const char *const words[] = {"half",      "a third",   "a quarter", "a fifth", "a sixth",
                                      "a seventh", "an eighth", "a ninth",   "a tenth"};
  const auto n = size_t(std::max(2.0, std::round(1 / part)));
  return n <= 10 ? words[n - 2] : "1/" + std::to_string(n);
}

/// "0 to 3", "0, 2, 4".
std::string ranksText(const std::vector<int> &ranks) {
  const bool run = ranks.size() > 2 && ranks.back() - ranks.front() + 1 == int(ranks.size());
  if (run)
    return std::to_string(ranks.front()) + " to " + std::to_string(ranks.back());
  std::string text;
  for (int rank : ranks)
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Columns as wide as their widest cell; all but the first are aligned to the right.
std::string aligned(const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> widths;
  for (const auto &row : rows)
    for (size_t c = 0; c < row.size(); ++c) {
      widths.resize(std::max(widths.size(), c + 1));
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const auto &row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      line += (c ? "  " : "") + (c ? space + row[c] : row[c] + space);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::vector<int> ranksOf(const CheckReport &report, size_t host) {
  std::vector<int> ranks;
  for (size_t r = 0; r < report.hostOf.size(); ++r)
    if (report.hostOf[r] == int(host))
      ranks.push_back(int(r));
  return ranks;
}

std::string hostName(const CheckReport &report, size_t host) { return printable(report.hosts[host]); }

int64_t sumOf(const CheckReport &report, const std::vector<int> &ranks, int64_t RankFacts::*field) {
  int64_t sum = 0;
  for (int rank : ranks)
    sum += report.ranks[size_t(rank)].*field;
  return sum;
}

std::string hostTable(const CheckReport &report) {
  std::vector<std::vector<std::string>> rows = {{"host", "ranks", "cores", "memory free", "needed"}};
  if (report.checkpoints)
    rows[0].insert(rows[0].end(), {"disk free", "a checkpoint"});
  if (!report.clockAhead.empty())
    rows[0].emplace_back("clock");
  if (report.devices)
    rows[0].emplace_back("devices");
  for (size_t h = 0; h < report.hosts.size(); ++h) {
    const std::vector<int> ranks = ranksOf(report, h);
    const RankFacts &first = report.ranks[size_t(ranks.front())];
    auto size = [](int64_t bytes) { return bytes < 0 ? std::string("?") : bytesText(double(bytes)); };
    std::vector<std::string> row = {hostName(report, h), ranksText(ranks), std::to_string(first.cores),
                                    size(first.freeMemory), size(sumOf(report, ranks, &RankFacts::neededMemory))};
    if (report.checkpoints)
      row.insert(row.end(), {size(first.freeDisk), size(sumOf(report, ranks, &RankFacts::checkpoint))});
    if (!report.clockAhead.empty())
      row.push_back(h == 0 ? "-" : format("%+.1f ms", 1e3 * report.clockAhead[size_t(ranks.front())]));
    if (report.devices) {
      std::map<std::string, int> names;
      for (int rank : ranks)
        ++names[printable(report.ranks[size_t(rank)].device)];
      std::string text;
      for (const auto &[name, count] : names)
        text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + (name.empty() ? "none" : name);
      row.push_back(text);
    }
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

std::string librariesText(const RankFacts &facts) {
  return facts.libraries[0] ? printable(facts.libraries) : "no libraries";
}

/// What all ranks run, if it is the same.
std::string versionLine(const CheckReport &report) {
  const RankFacts &first = report.ranks.front();
  for (const RankFacts &own : report.ranks)
    if (std::strcmp(own.version, first.version) != 0 || std::strcmp(own.libraries, first.libraries) != 0)
      return ""; // what differs is told as wrong
  const std::string text = "Tessera " + printable(first.version);
  return "\n" + (first.libraries[0] ? text + ", " + printable(first.libraries) : text) +
         (report.ranks.size() > 1 ? " on every rank\n" : "\n");
}

/// The shortest latency between ranks of two hosts, which share the link; 0: none is measured.
double latencyOf(const CheckReport &report, int from, int to) {
  double shortest = 0;
  for (size_t a = 0; a < report.latency.size(); ++a)
    for (size_t b = 0; b < report.latency[a].size(); ++b)
      if (const double one = report.latency[a][b]; report.hostOf[a] == from && report.hostOf[b] == to && one > 0)
        shortest = shortest > 0 ? std::min(shortest, one) : one;
  return shortest;
}

/// That all ranks have reached each other, and how fast.
std::string rankLine(const CheckReport &report) {
  double least = 1e300, most = 0;
  for (const std::vector<double> &row : report.latency)
    for (double seconds : row)
      if (seconds > 0) {
        least = std::min(least, seconds);
        most = std::max(most, seconds);
      }
  return most > 0
             ? "\nevery rank reaches every other; latency " + milliseconds(least) + " to " + milliseconds(most) + "\n"
             : "";
}

std::string linkTable(const CheckReport &report) {
  std::vector<HostLink> links = report.links;
  const size_t hosts = report.hosts.size();
  if (links.empty())
    return "";
  if (hosts > kMatrixHosts) {
    std::stable_sort(links.begin(), links.end(),
                     [](const HostLink &a, const HostLink &b) { return a.bytesPerSecond < b.bytesPerSecond; });
    links.resize(std::min(links.size(), kSlowest));
    std::vector<std::vector<std::string>> rows = {{"the slowest links", "to", "bandwidth", "latency"}};
    for (const HostLink &link : links)
      rows.push_back({hostName(report, size_t(link.from)), hostName(report, size_t(link.to)),
                      bitsText(link.bytesPerSecond), milliseconds(latencyOf(report, link.from, link.to))});
    return "\n" + aligned(rows);
  }
  std::string text;
  for (const bool bandwidth : {true, false}) {
    std::vector<std::vector<std::string>> rows = {{bandwidth ? "bandwidth, from" : "latency, from"}};
    for (size_t h = 0; h < hosts; ++h)
      rows[0].push_back("to " + hostName(report, h));
    for (size_t h = 0; h < hosts; ++h) {
      rows.push_back({hostName(report, h)});
      rows.back().resize(hosts + 1, "-");
    }
    for (const HostLink &link : links)
      rows[size_t(link.from) + 1][size_t(link.to) + 1] =
          bandwidth ? bitsText(link.bytesPerSecond) : milliseconds(latencyOf(report, link.from, link.to));
    if (!bandwidth)
      for (size_t h = 0; h < hosts; ++h)
        if (const double within = latencyOf(report, int(h), int(h)); within > 0)
          rows[h + 1][h + 1] = milliseconds(within);
    text += "\n" + aligned(rows);
  }
  return text;
}

std::string groupTable(const CheckReport &report) {
  if (report.groups.empty())
    return "";
  std::vector<std::vector<std::string>> rows = {
      {"group", "ranks", "all-reduce of 4 B", "of " + sizeText(report.longReduce), "a rank sends"}};
  for (const GroupTime &group : report.groups) {
    const double n = double(group.ranks.size());
    rows.push_back({printable(group.name), ranksText(group.ranks), milliseconds(group.shortSeconds),
                    milliseconds(group.longSeconds),
                    bitsText(2 * (n - 1) / n * double(report.longReduce) / group.longSeconds)});
  }
  return "\n" + aligned(rows);
}

double usualRate(const CheckReport &report) {
  std::vector<double> rates;
  for (const HostLink &link : report.links)
    if (link.bytesPerSecond > 0)
      rates.push_back(link.bytesPerSecond);
  return median(std::move(rates));
}

void judgeLinks(const CheckReport &report, std::vector<std::string> &faults) {
  auto pair = [&](const HostLink &link) {
    return "host " + hostName(report, size_t(link.from)) + " reaches host " + hostName(report, size_t(link.to));
  };
  const double usual = usualRate(report);
  for (size_t i : slowLinks(report)) {
    const HostLink &link = report.links[i];
    faults.push_back(pair(link) + " at " + bitsText(link.bytesPerSecond) + ", " +
                     partText(link.bytesPerSecond / usual) + " of the others");
  }
  std::vector<double> trips;
  for (const HostLink &link : report.links)
    trips.push_back(latencyOf(report, link.from, link.to));
  std::vector<double> known;
  std::copy_if(trips.begin(), trips.end(), std::back_inserter(known), [](double trip) { return trip > 0; });
  const double usualTrip = median(std::move(known));
  for (size_t i = 0; i < trips.size(); ++i)
    if (trips[i] > kLate * usualTrip && trips[i] > usualTrip + kLateSeconds)
      faults.push_back(pair(report.links[i]) + " after " + milliseconds(trips[i]) + ", the others take " +
                       milliseconds(usualTrip));
}

void judgeHost(const CheckReport &report, size_t host, std::vector<std::string> &faults) {
  const std::vector<int> ranks = ranksOf(report, host);
  const RankFacts &first = report.ranks[size_t(ranks.front())];
  const std::string name = "host " + hostName(report, host);
  auto needs = [&](const char *what, int64_t left, int64_t needed) {
    if (left >= 0 && left < needed)
      faults.push_back(name + " has " + bytesText(double(left)) + " of " + what + " free, its " +
                       std::to_string(ranks.size()) + (ranks.size() == 1 ? " rank needs " : " ranks need ") +
                       bytesText(double(needed)));
  };
  needs("memory", first.freeMemory, sumOf(report, ranks, &RankFacts::neededMemory));
  if (report.checkpoints)
    needs("disk for a checkpoint", first.freeDisk, sumOf(report, ranks, &RankFacts::checkpoint));
  if (!report.clockAhead.empty()) {
    const double ahead = report.clockAhead[size_t(ranks.front())];
    if (std::abs(ahead) > kClock)
      faults.push_back("the clock of " + name + " is " + format("%.1f s ", std::abs(ahead)) +
                       (ahead > 0 ? "ahead of" : "behind") + " that of host " + hostName(report, 0));
  }
}

} // namespace

std::vector<size_t> slowLinks(const CheckReport &report) {
  const double usual = usualRate(report);
  std::vector<size_t> slow;
  for (size_t i = 0; i < report.links.size(); ++i)
    if (const double rate = report.links[i].bytesPerSecond; rate > 0 && rate * kSlowLink < usual)
      slow.push_back(i);
  std::stable_sort(slow.begin(), slow.end(),
                   [&](size_t a, size_t b) { return report.links[a].bytesPerSecond < report.links[b].bytesPerSecond; });
  return slow;
}

std::string checkTable(const CheckReport &report) {
  return hostTable(report) + versionLine(report) + linkTable(report) + rankLine(report) + groupTable(report);
}

std::vector<std::string> checkFaults(const CheckReport &report) {
  std::vector<std::string> faults;
  judgeLinks(report, faults);
  for (size_t h = 0; h < report.hosts.size(); ++h)
    judgeHost(report, h, faults);
  const RankFacts &first = report.ranks.front();
  for (size_t r = 0; r < report.ranks.size(); ++r) {
    const RankFacts &own = report.ranks[r];
    const std::string name = "rank " + std::to_string(r);
    if (std::strcmp(own.version, first.version) != 0)
      faults.push_back(name + " runs Tessera " + printable(own.version) + ", rank 0 runs " + printable(first.version));
    if (std::strcmp(own.libraries, first.libraries) != 0)
      faults.push_back(name + " runs with " + librariesText(own) + ", rank 0 with " + librariesText(first));
    if (std::strcmp(own.plan, first.plan) != 0)
      faults.push_back(name + " has another plan than rank 0");
    if (own.fault[0])
      faults.push_back(name + " on host " + hostName(report, size_t(report.hostOf[r])) + ": " + printable(own.fault));
  }
  return faults;
}

std::string checkText(const CheckReport &report) {
  std::string text = checkTable(report) + "\n";
  const std::vector<std::string> faults = checkFaults(report);
  for (const std::string &fault : faults)
    text += "WRONG: " + fault + "\n";
  return text + "checked in " + format(report.seconds < 10 ? "%.1f s" : "%.0f s", report.seconds) +
         (faults.empty() ? ": nothing is wrong\n" : "\n");
}

Status checkFault(const CheckReport &report) {
  const std::vector<std::string> faults = checkFaults(report);
  if (faults.empty())
    return Status();
  return Status::error(faults.front() +
                       (faults.size() > 1 ? "; and " + std::to_string(faults.size() - 1) + " more" : ""));
}

} // namespace tessera::rt
