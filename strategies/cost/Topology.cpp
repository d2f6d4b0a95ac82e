#include "strategies/cost/Topology.h"
#include "runtime/support/Nesting.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace tessera::strategies {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxFile = 1 << 20;

// One GPU server of eight: figures of the vendors' data sheets (dense, no sparsity); the
// interconnect's latency is that of one NCCL ring step. The network is the usual one of such servers, per GPU: four
// adapters of 100 Gb/s (V100), eight of 200 (A100) or 400 (H100, H200).
Topology server(const char *name, double f64, double f32, double f16, double bandwidth, int64_t gib, double nvlink,
                double network) {
  Topology t;
  t.name = name;
  t.devices = 8;
  t.flops = {{64, f64}, {32, f32}, {16, f16}};
  t.memoryBandwidth = bandwidth;
  t.memory = gib << 30;
  t.launch = 4e-6;
  t.links = {{8, 2e-6, nvlink}};
  t.network = Link{8, 5e-6, network};
  return t;
}

// Ranks as threads of one process on a machine with two cores with AVX-512: measured oneDNN
// convolution rate and memory bandwidth per core, all-reduce of threads over shared memory.
Topology cpu() {
  Topology t;
  t.name = "cpu";
  t.devices = 2;
  t.flops = {{64, 58e9}, {32, 117e9}};
  t.memoryBandwidth = 13e9;
  t.memory = int64_t(10) << 30;
  t.launch = 1e-6;
  t.shared = true;
  t.links = {{2, 1e-6, 5e9}};
  t.network = Link{2, 30e-6, 0.625e9}; // 10 Gb/s Ethernet, shared by the cores
  return t;
}

std::vector<Topology> presets() {
  return {cpu(), server("8xv100", 7.8e12, 15.7e12, 125e12, 0.9e12, 32, 150e9, 6.25e9),
          server("8xa100", 9.7e12, 19.5e12, 312e12, 2.04e12, 80, 300e9, 25e9),
          server("8xh100", 34e12, 67e12, 989e12, 3.35e12, 80, 450e9, 50e9),
          server("8xh200", 34e12, 67e12, 989e12, 4.8e12, 141, 450e9, 50e9)};
}

/// Reads fields of one object. The first error is remembered.
class Reader {
public:
  Reader(const Json &object, std::string origin) : object_(object), origin_(std::move(origin)) {}

  void allow(std::initializer_list<const char *> names) {
    for (const auto &item : object_.items())
      if (llvm::none_of(names, [&](const char *n) { return item.key() == n; }))
        complain("unknown field '" + item.key() + "'");
  }
  double number(const char *field, double low, double high, std::optional<double> fallback) {
    if (!object_.contains(field)) {
      if (!fallback)
        complain(std::string("field '") + field + "' is missing");
      return fallback.value_or(low);
    }
    const Json &value = object_[field];
    if (value.is_number()) {
      double x = value.get<double>();
      if (std::isfinite(x) && x >= low && x <= high)
        return x;
    }
    complain(std::string("field '") + field + "' must be a number from " + text(low) + " to " + text(high));
    return low;
  }
  void complain(const std::string &what) {
    if (error_.empty())
      error_ = "topology " + origin_ + ": " + what;
  }
  /// Takes over the error of a part.
  void adopt(const Reader &part) {
    if (error_.empty())
      error_ = part.error_;
  }
  const std::string &error() const { return error_; }

private:
  static std::string text(double x) {
    char buffer[32];
    snprintf(buffer, sizeof buffer, "%g", x);
    return buffer;
  }
  const Json &object_;
  std::string origin_, error_;
};

Link readLink(Reader &outer, const Json &value, const std::string &origin, bool block) {
  Link link;
  if (!value.is_object()) {
    outer.complain("a link must be an object");
    return link;
  }
  Reader r(value, origin + ": link");
  r.allow({"devices", "latency", "bandwidth"});
  if (block)
    link.devices = int64_t(r.number("devices", 1, 1 << 20, std::nullopt));
  link.latency = r.number("latency", 0, 10, std::nullopt);
  link.bandwidth = r.number("bandwidth", 1, 1e18, std::nullopt);
  outer.adopt(r);
  return link;
}

Beside readBeside(Reader &outer, const Json &value, const std::string &origin) {
  Beside beside;
  if (!value.is_object()) {
    outer.complain("field 'beside' must be an object");
    return beside;
  }
  Reader r(value, origin + ": beside");
  r.allow({"slowdown", "hand_over", "per_byte"});
  beside.slowdown = r.number("slowdown", 0, 1, beside.slowdown);
  beside.handOver = r.number("hand_over", 0, 10, beside.handOver);
  if (value.contains("per_byte"))
    beside.perByte = r.number("per_byte", 0, 1, std::nullopt);
  outer.adopt(r);
  return beside;
}

} // namespace

Link linkOfRing(int64_t devices, MeasuredReduce small, MeasuredReduce large, double fastest) {
  const double steps = 2 * double(devices - 1), part = 1 / double(devices);
  const double perByte =
      std::max((large.seconds - small.seconds) / (large.bytes - small.bytes), steps * part / fastest);
  const double latency = std::max((small.seconds - small.bytes * perByte) / steps, 1e-9);
  return {devices, latency, steps * part / perByte};
}

llvm::Expected<int64_t> parseBytes(llvm::StringRef text) {
  llvm::StringRef rest = text.trim();
  size_t digits = rest.find_first_not_of("0123456789.");
  llvm::StringRef number = rest.take_front(digits), unit = rest.drop_front(number.size()).trim();
  double value = 0;
  double factor = 0;
  static const std::pair<const char *, double> units[] = {
      {"", 1},     {"b", 1},    {"kib", 1024.}, {"mib", 1048576.}, {"gib", 1073741824.}, {"tib", 1099511627776.},
      {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9},    {"tb", 1e12}};
  for (const auto &[name, f] : units)
    if (unit.equals_insensitive(name))
      factor = f;
  if (number.empty() || number.getAsDouble(value) || factor == 0 || !(value * factor >= 1) || value * factor > 9e18)
    return llvm::createStringError("'%s' is not a memory size such as 16GiB", text.str().c_str());
  return int64_t(value * factor);
}

const std::vector<std::string> &Topology::presetNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Topology &t : presets())
      list.push_back(t.name);
    return list;
  }();
  return names;
}

llvm::Expected<Topology> Topology::load(llvm::StringRef nameOrPath) {
  for (Topology &t : presets())
    if (nameOrPath == t.name)
      return std::move(t);
  auto [count, machine] = nameOrPath.split('x');
  int64_t nodes = 0;
  if (!count.getAsInteger(10, nodes))
    for (Topology &t : presets())
      if (machine == t.name)
        return t.withNodes(nodes);
  if (nameOrPath.starts_with("{"))
    return parse(nameOrPath, "text");
  auto file = llvm::MemoryBuffer::getFile(nameOrPath);
  if (!file)
    return llvm::createStringError("topology '%s' is neither a preset (%s; 16x8xh100 is 16 of the "
                                   "machine 8xh100) nor a readable file (%s)",
                                   nameOrPath.str().c_str(), llvm::join(presetNames(), ", ").c_str(),
                                   file.getError().message().c_str());
  return parse((*file)->getBuffer(), nameOrPath);
}

llvm::Expected<Topology> Topology::parse(llvm::StringRef text, llvm::StringRef origin) {
  auto fail = [&](const std::string &what) -> llvm::Error { return llvm::createStringError("%s", what.c_str()); };
  if (int64_t(text.size()) > kMaxFile)
    return fail("topology " + origin.str() + ": the file is larger than 1 MiB");
  if (rt::nestsDeeper(text, 32))
    return fail("topology " + origin.str() + ": nested more than 32 deep");
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false,
                          /*ignore_comments=*/true);
  if (json.is_discarded() || !json.is_object())
    return fail("topology " + origin.str() + ": not a JSON object");
  Reader r(json, origin.str());
  r.allow({"name", "devices", "flops", "loop_flops", "operators", "memory_bandwidth", "memory", "launch", "shared",
           "links", "axes", "network", "beside"});
  Topology t;
  t.name = json.contains("name") && json["name"].is_string() ? json["name"].get<std::string>() : origin.str();
  t.devices = int64_t(r.number("devices", 1, 1 << 20, std::nullopt));
  if (json.contains("flops") && json["flops"].is_object()) {
    Reader f(json["flops"], origin.str() + ": flops");
    f.allow({"f64", "f32", "f16", "f8"});
    t.flops[32] = f.number("f32", 1, 1e18, std::nullopt);
    for (auto [name, bits] : {std::pair{"f64", 64}, {"f16", 16}, {"f8", 8}})
      if (json["flops"].contains(name))
        t.flops[bits] = f.number(name, 1, 1e18, std::nullopt);
    if (!f.error().empty())
      return fail(f.error());
  } else {
    r.complain("field 'flops' must be an object with the rate of f32");
  }
  if (json.contains("loop_flops"))
    t.loopFlops = r.number("loop_flops", 1, 1e18, std::nullopt);
  if (json.contains("operators")) {
    if (!json["operators"].is_object())
      return fail("topology " + origin.str() + ": field 'operators' must be an object");
    Reader rates(json["operators"], origin.str() + ": operators");
    for (const auto &item : json["operators"].items())
      t.operators[item.key()] = rates.number(item.key().c_str(), 1, 1e18, std::nullopt);
    r.adopt(rates);
  }
  t.memoryBandwidth = r.number("memory_bandwidth", 1, 1e18, std::nullopt);
  if (json.contains("memory") && json["memory"].is_string()) {
    llvm::Expected<int64_t> bytes = parseBytes(json["memory"].get<std::string>());
    if (bytes)
      t.memory = *bytes;
    else
      r.complain(llvm::toString(bytes.takeError()));
  } else {
    t.memory = int64_t(r.number("memory", 1, 9e18, std::nullopt));
  }
  t.launch = r.number("launch", 0, 10, 0.0);
  if (json.contains("shared")) {
    if (json["shared"].is_boolean())
      t.shared = json["shared"].get<bool>();
    else
      r.complain("field 'shared' must be true or false");
  }
  if (json.contains("links") && json["links"].is_array() && !json["links"].empty()) {
    for (const Json &link : json["links"])
      t.links.push_back(readLink(r, link, origin.str(), /*block=*/true));
    for (size_t i = 1; i < t.links.size(); ++i)
      if (t.links[i].devices <= t.links[i - 1].devices)
        r.complain("links must be listed by growing number of devices");
    if (t.links.back().devices < t.devices)
      r.complain("the last link must join all devices");
  } else {
    r.complain("field 'links' must be a list with at least one link");
  }
  if (json.contains("network"))
    t.network = readLink(r, json["network"], origin.str(), /*block=*/false);
  if (json.contains("axes")) {
    if (!json["axes"].is_object())
      r.complain("field 'axes' must be an object");
    else
      for (const auto &item : json["axes"].items())
        t.axes[item.key()] = readLink(r, item.value(), origin.str(), /*block=*/false);
  }
  if (json.contains("beside"))
    t.beside = readBeside(r, json["beside"], origin.str());
  if (!r.error().empty())
    return fail(r.error());
  return t;
}

std::string Topology::toJson() const {
  auto linkJson = [](const Link &link) {
    return nlohmann::ordered_json{{"latency", link.latency}, {"bandwidth", link.bandwidth}};
  };
  nlohmann::ordered_json json = {{"name", name}, {"devices", devices}};
  for (auto [bits, rate] : flops)
    json["flops"]["f" + std::to_string(bits)] = rate;
  if (loopFlops > 0)
    json["loop_flops"] = loopFlops;
  for (const auto &[op, rate] : operators)
    json["operators"][op] = rate;
  json["memory_bandwidth"] = memoryBandwidth;
  json["memory"] = memory;
  json["launch"] = launch;
  json["shared"] = shared;
  for (const Link &link : links) {
    nlohmann::ordered_json level = {{"devices", link.devices}};
    level.update(linkJson(link));
    json["links"].push_back(level);
  }
  if (network)
    json["network"] = linkJson(*network);
  for (const auto &[axis, link] : axes)
    json["axes"][axis] = linkJson(link);
  json["beside"] = {{"slowdown", beside.slowdown}, {"hand_over", beside.handOver}};
  if (beside.perByte)
    json["beside"]["per_byte"] = *beside.perByte;
  // A device's name may have any bytes, so bytes that are not UTF-8 are replaced.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

llvm::Expected<Topology> Topology::withNodes(int64_t nodes) const {
  constexpr int64_t kMostDevices = 1 << 20;
  if (nodes < 1 || nodes > kMostDevices / devices)
    return llvm::createStringError("%lld machines of %lld devices: from 1 to %lld devices in all are "
                                   "possible",
                                   (long long)nodes, (long long)devices, (long long)kMostDevices);
  Topology all = *this;
  if (nodes == 1)
    return all;
  if (!network)
    return llvm::createStringError("topology %s does not say how machines are joined: give it a "
                                   "field 'network' with latency and bandwidth",
                                   name.c_str());
  all.name = std::to_string(nodes) + "x" + name;
  all.devices = devices * nodes;
  // On a shared machine more ranks than devices start again at device 0, so one machine's devices may hold more ranks.
  all.links.back().devices = devices;
  all.links.push_back({all.devices, network->latency, network->bandwidth});
  all.network.reset();
  return all;
}

llvm::Error Topology::fits(const dist::Mesh &mesh) const {
  if (shared || mesh.numRanks() <= devices)
    return llvm::Error::success();
  return llvm::createStringError("mesh %s has %lld ranks but topology %s has %lld devices: use a "
                                 "smaller mesh or another --topology",
                                 mesh.str().c_str(), (long long)mesh.numRanks(), name.c_str(), (long long)devices);
}

double Topology::share(int64_t ranks) const {
  if (ranks > devices)
    return double(devices) / double(ranks);
  const int64_t groups = devices / ranks; // whole ones
  return shared ? double(groups) : 1.0;
}

double Topology::rate(int bits) const {
  auto it = flops.lower_bound(bits);
  return it != flops.end() ? it->second : flops.at(32);
}

double Topology::operatorRate(llvm::StringRef op, int bits, llvm::StringRef kind) const {
  if (bits == 32 && !kind.empty())
    if (auto it = operators.find((op + " " + kind).str()); it != operators.end())
      return it->second;
  auto it = operators.find(op.str());
  return it == operators.end() ? rate(bits) : it->second * rate(bits) / rate(32);
}

Link Topology::link(const dist::Mesh &mesh, llvm::ArrayRef<int> axesOfGroup) const {
  // The group of rank 0 reaches from device 0 to its last member.
  int64_t last = 0;
  for (int64_t rank : mesh.group(0, axesOfGroup))
    last = std::max(last, rank);
  Link result = links.back();
  for (const Link &level : links)
    if (level.devices > last) {
      result = level;
      break;
    }
  bool overridden = false;
  for (int axis : axesOfGroup) {
    auto it = axes.find(mesh.axisName(axis).str());
    if (it == axes.end())
      continue;
    if (!overridden) {
      result.latency = it->second.latency;
      result.bandwidth = it->second.bandwidth;
      overridden = true;
    } else {
      result.latency = std::max(result.latency, it->second.latency);
      result.bandwidth = std::min(result.bandwidth, it->second.bandwidth);
    }
  }
  return result;
}

std::vector<Topology::Level> Topology::levels(const dist::Mesh &mesh, llvm::ArrayRef<int> axesOfGroup) const {
  const llvm::SmallVector<int64_t> group(mesh.group(0, axesOfGroup));
  std::vector<Level> whole = {{int64_t(group.size()), link(mesh, axesOfGroup)}};
  for (int axis : axesOfGroup)
    if (axes.count(mesh.axisName(axis).str()))
      return whole;
  std::vector<Level> result;
  int64_t inside = 1; // members of the group in one block of the level below
  for (const Link &level : links) {
    // Every block that holds members must hold as many of them.
    std::map<int64_t, int64_t> members;
    for (int64_t rank : group)
      ++members[rank / level.devices];
    int64_t each = members.begin()->second;
    for (const auto &[block, count] : members)
      if (count != each || each % inside != 0)
        return whole;
    if (each > inside)
      result.push_back({each / inside, level});
    inside = each;
  }
  return inside == int64_t(group.size()) && !result.empty() ? result : whole;
}

int64_t Topology::run(const dist::Mesh &mesh, llvm::ArrayRef<int> axesOfGroup) const {
  const std::vector<Level> found = levels(mesh, axesOfGroup);
  if (found.size() < 2)
    return 1;
  int64_t run = 1;
  for (const Level &level : llvm::ArrayRef(found).drop_back())
    run *= level.members;
  const int64_t block = found[found.size() - 2].link.devices;
  const llvm::SmallVector<int64_t> group(mesh.group(0, axesOfGroup));
  for (size_t m = 0; m < group.size(); ++m)
    if (group[m] / block != group[m - m % size_t(run)] / block)
      return 1;
  return run;
}

int64_t Topology::memoryPerRank(int64_t ranks) const {
  // The devices of a shared machine are cores over one memory. Fewer ranks than cores still have all of the memory.
  return shared ? memory * devices / ranks : memory;
}

} // namespace tessera::strategies
