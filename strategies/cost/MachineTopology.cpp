#include "strategies/cost/MachineTopology.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace tessera::strategies {

namespace {

constexpr size_t kMaxText = 1 << 20, kMaxDevices = 256;

/// The bandwidth of one NVLink of a chip, in bytes per second and direction, and the number of NVLinks.
struct Chip {
  const char *name;
  double linkBandwidth;
  int links;
};
constexpr Chip kChips[] = {{"P100", 20e9, 4},  {"V100", 25e9, 6}, {"A100", 25e9, 12}, {"A800", 25e9, 8},
                           {"H100", 25e9, 18}, {"H800", 25e9, 8}, {"H200", 25e9, 18}, {"H20", 25e9, 18},
                           {"B200", 50e9, 18}, {"B300", 50e9, 18}};
constexpr Chip kOtherChip = {"", 25e9, 18};

/// Whether the device's name contains the chip's as a whole word: "H20" is not in "H200".
bool namesChip(llvm::StringRef device, llvm::StringRef chip) {
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(device, words, " -/_");
  for (llvm::StringRef word : words)
    if (word.equals_insensitive(chip) || (word.starts_with_insensitive("G") && // GH200, GB200
                                          word.drop_front().equals_insensitive(chip)))
      return true;
  return false;
}

Chip chipOf(llvm::StringRef device) {
  for (const Chip &chip : kChips)
    if (namesChip(device, chip.name))
      return chip;
  return kOtherChip;
}

/// nvidia-smi underlines the heading even if it does not write to a terminal.
std::string withoutEscapes(llvm::StringRef text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && !llvm::isAlpha(text[i]))
        ++i;
      continue;
    }
    plain += text[i];
  }
  return plain;
}

llvm::Error bad(const std::string &what) { return llvm::createStringError("nvidia-smi: %s", what.c_str()); }

/// The number behind "GPU"; nothing for other words.
std::optional<size_t> deviceNumber(llvm::StringRef word) {
  size_t number = 0;
  if (!word.consume_front("GPU") || word.getAsInteger(10, number))
    return std::nullopt;
  return number;
}

std::optional<Pair> connectionOf(llvm::StringRef word) {
  static const std::pair<const char *, Connection> words[] = {{"PIX", Connection::Pix}, {"PXB", Connection::Pxb},
                                                              {"PHB", Connection::Phb}, {"NODE", Connection::Node},
                                                              {"SYS", Connection::Sys}, {"SOC", Connection::Sys}};
  for (const auto &[name, kind] : words)
    if (word == name)
      return Pair{kind, 0};
  int links = 0;
  if (word.consume_front("NV") && !word.getAsInteger(10, links) && links >= 1 && links <= 1000)
    return Pair{Connection::NvLink, links};
  return std::nullopt;
}

/// Bytes per second and direction of a device's PCIe connection; 0.8 of them are payload in large transfers.
double pcieBandwidth(const MachineDevice &device) {
  static constexpr double perLane[] = {0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9};
  const int generation = device.pcieGeneration >= 1 && device.pcieGeneration <= 6 ? device.pcieGeneration : 3;
  return 0.8 * perLane[generation] * (device.pcieLanes >= 1 ? device.pcieLanes : 16);
}

/// The latency of a ring step over a kind of connection, and the usable part of PCIe's bandwidth.
struct Way {
  double latency, share;
};
Way wayOf(Connection kind) {
  switch (kind) {
  case Connection::NvLink:
    return {2e-6, 0};
  case Connection::Pix:
  case Connection::Pxb:
    return {4e-6, 1};
  case Connection::Phb:
  case Connection::Node:
    return {6e-6, 0.8};
  case Connection::Sys:
    return {10e-6, 0.5};
  }
  return {10e-6, 0.5};
}

/// The link among blocks of `size` devices, given by the slowest pair. NVLinks: with a switch, every pair has all links
/// of a device; without one, a device's links are divided among its peers.
Link linkOf(llvm::ArrayRef<MachineDevice> devices, const std::vector<std::vector<Pair>> &pairs, size_t size) {
  Connection worst = Connection::NvLink;
  double nvlink = 1e18;
  for (size_t i = 0; i < devices.size(); ++i) {
    int sum = 0, least = 1000;
    for (size_t j = i / size * size; j < i / size * size + size; ++j) {
      if (i == j)
        continue;
      worst = std::max(worst, pairs[i][j].kind);
      sum += pairs[i][j].links;
      least = std::min(least, pairs[i][j].links);
    }
    const Chip chip = chipOf(devices[i].name);
    nvlink = std::min(nvlink, (sum > chip.links ? least : sum) * chip.linkBandwidth);
  }
  Link link;
  link.devices = int64_t(size);
  link.latency = wayOf(worst).latency;
  link.bandwidth = worst == Connection::NvLink ? nvlink : 1e18;
  if (worst != Connection::NvLink)
    for (const MachineDevice &device : devices)
      link.bandwidth = std::min(link.bandwidth, pcieBandwidth(device) * wayOf(worst).share);
  return link;
}

llvm::Expected<Topology> ratesOf(llvm::StringRef device, llvm::StringRef like) {
  if (!like.empty())
    return Topology::load(like);
  std::string known;
  for (const std::string &preset : Topology::presetNames()) {
    llvm::StringRef chip = preset;
    if (!chip.consume_front("8x"))
      continue;
    if (namesChip(device, chip))
      return Topology::load(preset);
    known += (known.empty() ? "" : ", ") + chip.upper();
  }
  return llvm::createStringError("the rates of the device '%s' are not known (known: %s); name a topology with "
                                 "rates like its with --like",
                                 device.str().c_str(), known.c_str());
}

} // namespace

llvm::Expected<std::vector<MachineDevice>> parseDevices(llvm::StringRef text) {
  if (text.size() > kMaxText)
    return bad("the list of devices is longer than 1 MiB");
  std::vector<MachineDevice> devices;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    line = line.trim();
    if (line.empty())
      continue;
    llvm::SmallVector<llvm::StringRef> fields;
    line.split(fields, ',');
    MachineDevice device;
    int64_t mebibytes = 0;
    if (fields.size() == 4) {
      for (llvm::StringRef &field : fields)
        field = field.trim();
      device.name = fields[0].str();
      fields[1].consume_back("MiB");
      // A virtual machine may hide a field; it is then "[N/A]".
      if (fields[2].getAsInteger(10, device.pcieGeneration))
        device.pcieGeneration = 0;
      if (fields[3].getAsInteger(10, device.pcieLanes))
        device.pcieLanes = 0;
    }
    if (fields.size() != 4 || device.name.empty() || fields[1].trim().getAsInteger(10, mebibytes) || mebibytes < 1 ||
        mebibytes > (int64_t(1) << 40) || devices.size() >= kMaxDevices)
      return bad("the line '" + line.take_front(80).str() +
                 "' is not name, memory in MiB, PCIe generation and width of a device");
    device.memory = mebibytes << 20;
    devices.push_back(std::move(device));
  }
  if (devices.empty())
    return bad("it lists no device");
  return devices;
}

llvm::Expected<std::vector<std::vector<Pair>>> parseConnections(llvm::StringRef given) {
  if (given.size() > kMaxText)
    return bad("the matrix of connections is longer than 1 MiB");
  const std::string text = withoutEscapes(given);
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  // The heading names the columns, up to "CPU Affinity": devices and network adapters.
  std::vector<std::optional<size_t>> columns;
  std::vector<std::vector<Pair>> pairs;
  size_t devices = 0;
  for (llvm::StringRef line : lines) {
    llvm::SmallVector<llvm::StringRef> words;
    llvm::SplitString(line, words);
    if (words.empty())
      continue;
    if (columns.empty()) {
      if (!deviceNumber(words[0]))
        continue;
      for (llvm::StringRef word : words) {
        if (word == "CPU")
          break;
        columns.push_back(deviceNumber(word));
        if (columns.back() && *columns.back() != devices++)
          return bad("the columns of the matrix are not GPU0, GPU1, ... in order");
      }
      if (devices > kMaxDevices)
        return bad("the matrix has more than 256 devices");
      continue;
    }
    std::optional<size_t> row = deviceNumber(words[0]);
    if (!row)
      continue; // a network adapter, or the legend
    if (*row != pairs.size() || *row >= devices)
      return bad("the rows of the matrix are not GPU0, GPU1, ... in order");
    if (words.size() <= columns.size())
      return bad("the row of GPU" + std::to_string(*row) + " is too short");
    std::vector<Pair> &pairsOfRow = pairs.emplace_back();
    for (size_t c = 0; c < columns.size(); ++c) {
      if (!columns[c])
        continue;
      const bool self = *columns[c] == *row;
      std::optional<Pair> pair = self ? Pair() : connectionOf(words[c + 1]);
      if (!pair || self != (words[c + 1] == "X"))
        return bad("GPU" + std::to_string(*row) + " and GPU" + std::to_string(*columns[c]) + " are joined by '" +
                   words[c + 1].take_front(20).str() + "', which is none of NV#, PIX, PXB, PHB, NODE and SYS");
      pairsOfRow.push_back(*pair);
    }
  }
  if (devices == 0 || pairs.size() != devices)
    return bad("there is no matrix of connections with a row for every device");
  for (size_t i = 0; i < devices; ++i)
    for (size_t j = 0; j < i; ++j)
      if (pairs[i][j].kind != pairs[j][i].kind || pairs[i][j].links != pairs[j][i].links)
        return bad("GPU" + std::to_string(j) + " and GPU" + std::to_string(i) +
                   " are joined differently in the two directions");
  return pairs;
}

llvm::Expected<Topology> machineTopology(llvm::ArrayRef<MachineDevice> devices,
                                         const std::vector<std::vector<Pair>> &pairs, llvm::StringRef like) {
  if (devices.size() != pairs.size())
    return bad("it lists " + std::to_string(devices.size()) + " devices, but the matrix has " +
               std::to_string(pairs.size()));
  for (const MachineDevice &device : devices)
    if (device.name != devices[0].name)
      return llvm::createStringError("the devices are not alike ('%s' and '%s'): hide some with "
                                     "CUDA_VISIBLE_DEVICES and write the topology by hand",
                                     devices[0].name.c_str(), device.name.c_str());
  llvm::Expected<Topology> rates = ratesOf(devices[0].name, like);
  if (!rates)
    return rates.takeError();
  Topology t = std::move(*rates);
  const size_t n = devices.size();
  t.name = std::to_string(n) + " x " + devices[0].name;
  t.devices = int64_t(n);
  t.shared = false;
  t.axes.clear();
  t.network.reset();
  t.memory = devices[0].memory;
  for (const MachineDevice &device : devices)
    t.memory = std::min(t.memory, device.memory);
  t.links.clear();
  // The sizes of blocks are divisors of the machine's size. A block whose link is no better than that of the next
  // larger one is left out.
  for (size_t size = n; size >= 2; --size)
    if (n % size == 0) {
      Link link = linkOf(devices, pairs, size);
      if (t.links.empty() || link.bandwidth > t.links.front().bandwidth || link.latency < t.links.front().latency)
        t.links.insert(t.links.begin(), link);
    }
  if (t.links.empty()) // a single device needs no link
    t.links.push_back({1, wayOf(Connection::Sys).latency, pcieBandwidth(devices[0])});
  return t;
}

} // namespace tessera::strategies
